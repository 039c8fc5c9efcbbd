/* Answers by name, the least recently used last, and what is in flight. */
#include "node/answers/answers_table_internal.h"

#include <errno.h>
#include <stdlib.h>

/* Buckets */

static struct answers_flight **
bucket_of(const struct answers_table *table, const struct answers_key *key)
{
    return &table->bucket[key->name.high & table->mask];
}

/* A tenant's own, whatever the name. */
static bool
is_same(const struct answers_key *a, const struct answers_key *b)
{
    return a->name.low == b->name.low && a->name.high == b->name.high &&
           a->tenant == b->tenant && a->model == b->model;
}

static struct answers_flight *
find(const struct answers_table *table, const struct answers_key *key)
{
    struct answers_flight *at = *bucket_of(table, key);

    while (at != NULL && !is_same(&at->key, key)) {
        at = at->next;
    }
    return at;
}

static void
leave_bucket(struct answers_table *table, struct answers_flight *entry)
{
    struct answers_flight **at = bucket_of(table, &entry->key);

    while (*at != entry) {
        CHECK(*at != NULL);
        at = &(*at)->next;
    }
    *at = entry->next;
}

/* Lists */

static void
link_newest(struct answers_list *list, struct answers_flight *entry)
{
    entry->newer = NULL;
    entry->older = list->newest;
    if (list->newest != NULL) {
        list->newest->newer = entry;
    } else {
        list->oldest = entry;
    }
    list->newest = entry;
}

static void
unlink_from(struct answers_list *list, struct answers_flight *entry)
{
    if (entry->newer != NULL) {
        entry->newer->older = entry->older;
    } else {
        list->newest = entry->older;
    }
    if (entry->older != NULL) {
        entry->older->newer = entry->newer;
    } else {
        list->oldest = entry->newer;
    }
}

/* What is kept */

static size_t
bytes_of(const struct answers_kept *answer)
{
    return sizeof(struct answers_flight) + sizeof(*answer) + answer->len;
}

void
answers_table_put(struct answers_kept *answer)
{
    CHECK(answer->refs != 0);
    if (--answer->refs == 0) {
        free(answer);
    }
}

static void
drop(struct answers_table *table, struct answers_flight *entry)
{
    CHECK(entry->answer != NULL);
    table->stats.bytes -= bytes_of(entry->answer);
    table->stats.entries--;
    unlink_from(&table->kept, entry);
    leave_bucket(table, entry);
    answers_table_put(entry->answer);
    free(entry);
}

/* Makes room for one more of that size. */
static void
make_room(struct answers_table *table, size_t bytes)
{
    while (table->kept.oldest != NULL &&
           (table->stats.bytes + bytes > table->bytes_max ||
            table->stats.entries >= table->entries_max)) {
        drop(table, table->kept.oldest);
        table->stats.evicted++;
    }
}

int
answers_table_init(struct answers_table *table, size_t bytes_max,
                   uint64_t ttl_us)
{
    uint32_t entries = (uint32_t)(bytes_max / ANSWERS_ENTRY_BYTES);
    uint32_t buckets = 1;

    CHECK(bytes_max >= ANSWERS_ENTRY_BYTES &&
          bytes_max / ANSWERS_ENTRY_BYTES < UINT32_MAX / 2);
    while (buckets < entries) {
        buckets *= 2;
    }
    *table = (struct answers_table){
        .bytes_max = bytes_max,
        .entries_max = entries,
        .ttl_us = ttl_us,
        .mask = buckets - 1,
        .bucket = calloc(buckets, sizeof(struct answers_flight *)),
    };
    return table->bucket != NULL ? 0 : -ENOMEM;
}

void
answers_table_fini(struct answers_table *table)
{
    CHECK(table->flying.newest == NULL);
    while (table->kept.oldest != NULL) {
        drop(table, table->kept.oldest);
    }
    free(table->bucket);
}

/* Flights */

static enum answers_found
take_off(struct answers_table *table, const struct answers_key *key,
         struct answers_got *got)
{
    struct answers_flight *flight = malloc(sizeof(*flight));
    struct answers_flight **bucket = bucket_of(table, key);

    if (flight == NULL) {
        table->stats.refused++;
        return ANSWERS_NONE;
    }
    *flight = (struct answers_flight){.next = *bucket, .key = *key};
    *bucket = flight;
    link_newest(&table->flying, flight);
    table->stats.flights++;
    got->flight = flight;
    return ANSWERS_LEADS;
}

/* Of what was found: NULL, if it is of no use and gone. */
static struct answers_flight *
still_good(struct answers_table *table, struct answers_flight *entry, bool anew,
           uint64_t now_us)
{
    if (entry == NULL || entry->answer == NULL) {
        return entry;
    }
    if (now_us >= entry->until_us) {
        table->stats.expired++;
    } else if (anew) {
        table->stats.cleared++;
    } else {
        return entry;
    }
    drop(table, entry);
    return NULL;
}

enum answers_found
answers_table_ask(struct answers_table *table, const struct answers_key *key,
                  const struct answers_asker *asker, uint64_t now_us,
                  struct answers_got *got)
{
    struct answers_flight *entry =
        still_good(table, find(table, key), asker->anew, now_us);

    CHECK(asker->lane < 64);
    *got = (struct answers_got){.answer = NULL};
    if (entry == NULL) {
        return asker->leads ? take_off(table, key, got) : ANSWERS_NONE;
    }
    if (entry->answer == NULL) {
        if (entry->stale || asker->anew) {
            return ANSWERS_NONE;
        }
        entry->lanes |= UINT64_C(1) << asker->lane;
        return ANSWERS_FLYING;
    }
    unlink_from(&table->kept, entry);
    link_newest(&table->kept, entry);
    entry->answer->refs++;
    got->answer = entry->answer;
    return ANSWERS_HIT;
}

uint64_t
answers_table_land(struct answers_table *table, struct answers_flight *flight,
                   struct answers_kept *answer, uint64_t now_us)
{
    uint64_t lanes = flight->lanes;
    bool fits = answer != NULL && bytes_of(answer) <= table->bytes_max / 4;

    CHECK(flight->answer == NULL);
    unlink_from(&table->flying, flight);
    table->stats.flights--;
    if (fits && !flight->stale) {
        make_room(table, bytes_of(answer));
        answer->refs = 1;
        answer->since_us = now_us;
        flight->answer = answer;
        flight->until_us =
            now_us + table->ttl_us -
            (answer->age_us < table->ttl_us ? answer->age_us : table->ttl_us);
        flight->lanes = 0;
        link_newest(&table->kept, flight);
        table->stats.bytes += bytes_of(answer);
        table->stats.entries++;
        table->stats.stored++;
        return lanes;
    }
    table->stats.refused += answer != NULL && !fits;
    free(answer);
    leave_bucket(table, flight);
    free(flight);
    return lanes;
}

static bool
is_meant(const struct answers_flight *entry, const struct answers_which *which)
{
    return (!which->tenants || entry->key.tenant == which->tenant) &&
           (!which->models || entry->key.model == which->model);
}

uint32_t
answers_table_clear(struct answers_table *table,
                    const struct answers_which *which)
{
    struct answers_flight *next;
    uint32_t count = 0;

    for (struct answers_flight *at = table->flying.newest; at != NULL;
         at = at->older) {
        at->stale = at->stale || is_meant(at, which);
    }
    for (struct answers_flight *at = table->kept.newest; at != NULL;
         at = next) {
        next = at->older;
        if (is_meant(at, which)) {
            drop(table, at);
            count++;
        }
    }
    table->stats.cleared += count;
    return count;
}

bool
answers_table_check(const struct answers_table *table)
{
    uint64_t bytes = 0;
    uint64_t entries = 0;
    uint64_t flights = 0;

    for (const struct answers_flight *at = table->kept.newest; at != NULL;
         at = at->older) {
        bytes += at->answer != NULL ? bytes_of(at->answer) : UINT64_MAX / 2;
        entries++;
    }
    for (const struct answers_flight *at = table->flying.newest; at != NULL;
         at = at->older) {
        flights += at->answer == NULL && find(table, &at->key) == at;
    }
    return bytes == table->stats.bytes && entries == table->stats.entries &&
           flights == table->stats.flights && bytes <= table->bytes_max &&
           entries <= table->entries_max &&
           table->stats.stored == entries + table->stats.evicted +
                                      table->stats.expired +
                                      table->stats.cleared;
}
