/*
 * Entries by name. The table grows and shrinks by one bucket at a time:
 * bucket b of a table with more than b buckets holds the names whose mixed
 * bits under twice the mask, or if there is no such bucket yet under the mask,
 * are b. A bucket that comes into use takes its part of the chain below it.
 */
#include "index/ledger_internal.h"

#define PREFETCH_PASSES 3  /* entries of a chain; longer chains are rare */
#define GROWTH_AHEAD    16 /* buckets */

int
ledger_names_init(struct ledger *l)
{
    struct name_table *names = &l->names;
    size_t segments = l->bytes_max / SEGMENT_BYTES + 1;
    size_t most = ((size_t)REF_MASK + 1) >> HEADS_SHIFT;

    CHECK(names->segment == NULL);
    names->segments_max = (uint32_t)(segments < most ? segments : most);
    names->segment = ledger_take(l, names->segments_max * sizeof(void *));
    if (names->segment == NULL) {
        return l->refusal;
    }
    names->segment[0] = ledger_take(l, SEGMENT_BYTES);
    if (names->segment[0] == NULL) {
        return l->refusal;
    }
    names->segments = 1;
    names->buckets = 1;
    return 0;
}

void
ledger_names_fini(struct ledger *l)
{
    struct name_table *names = &l->names;

    CHECK(names->segments <= names->segments_max);
    for (uint32_t i = 0; i < names->segments; i++) {
        ledger_give(l, names->segment[i], SEGMENT_BYTES);
    }
    ledger_give(l, names->segment, names->segments_max * sizeof(void *));
}

uint32_t
ledger_held(const struct ledger *l, uint32_t stream, uint64_t name)
{
    uint32_t ref = *name_head(&l->names, name);

    CHECK(stream < LEDGER_STREAMS_MAX);
    while (ref != REF_NONE) {
        const struct entry *entry = entry_at(l, ref);
        if (entry->name == name && holders_has(l, entry->holders, stream)) {
            return ref;
        }
        ref = entry->next;
    }
    return REF_NONE;
}

/* Prefetches the entry after `ref`, unless `ref` has the name already. */
static uint32_t
prefetch_next(const struct ledger *l, uint32_t ref, uint64_t name)
{
    if (ref == REF_NONE || entry_at(l, ref)->name == name) {
        return ref;
    }
    ref = entry_at(l, ref)->next;
    if (ref != REF_NONE) {
        __builtin_prefetch(entry_at(l, ref), 1);
    }
    return ref;
}

/* Each pass reads what the previous one prefetched. */
static void
prefetch_group(const struct ledger *l, const uint64_t *names, uint32_t count)
{
    uint32_t ref[NAMES_GROUP];

    CHECK(count <= NAMES_GROUP);
    /* Otherwise gcc drops the calls of a function without an effect. */
    __asm__ volatile("" ::: "memory");
    for (uint32_t i = 0; i < count; i++) {
        __builtin_prefetch(name_head(&l->names, names[i]), 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        ref[i] = *name_head(&l->names, names[i]);
        if (ref[i] != REF_NONE) {
            __builtin_prefetch(entry_at(l, ref[i]), 1);
        }
    }
    for (uint32_t pass = 0; pass < PREFETCH_PASSES; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            ref[i] = prefetch_next(l, ref[i], names[i]);
        }
    }
}

void
ledger_prefetch(const struct ledger *ledger, const uint64_t *hashes,
                uint32_t count)
{
    for (uint32_t i = 0; i < count; i += NAMES_GROUP) {
        uint32_t left = count - i;
        prefetch_group(ledger, hashes + i,
                       left < NAMES_GROUP ? left : NAMES_GROUP);
    }
}

/* Prefetches the chains that the next buckets will split. Buckets are split in
 * order, so each call prefetches one more entry of each of these chains. */
static void
prefetch_growth(const struct ledger *l, uint32_t fresh)
{
    const struct name_table *names = &l->names;

    CHECK(fresh < names->buckets);
    for (uint32_t pass = 0; pass <= PREFETCH_PASSES; pass++) {
        uint32_t ahead = (PREFETCH_PASSES + 1 - pass) * GROWTH_AHEAD;
        uint32_t ref = *name_bucket(names, (fresh + ahead) & names->mask);
        for (uint32_t i = 0; i < pass && ref != REF_NONE; i++) {
            ref = entry_at(l, ref)->next;
        }
        if (ref != REF_NONE) {
            __builtin_prefetch(entry_at(l, ref), 1);
        }
    }
}

/* Adds a bucket if there is memory for it; otherwise chains grow longer. */
static void
grow(struct ledger *l)
{
    struct name_table *names = &l->names;
    uint32_t fresh = names->buckets;

    CHECK(fresh > 0 && fresh <= names->mask * 2 + 2);
    if (fresh >> HEADS_SHIFT == names->segments) {
        if (names->segments == names->segments_max) {
            return;
        }
        uint32_t *segment = ledger_take(l, SEGMENT_BYTES);
        if (segment == NULL) {
            return;
        }
        names->segment[names->segments++] = segment;
    }
    if (fresh == names->mask * 2 + 2) {
        names->mask = names->mask * 2 + 1;
    }
    names->buckets++;
    prefetch_growth(l, fresh);
    uint32_t *from = name_bucket(names, fresh & names->mask);
    uint32_t *to = name_bucket(names, fresh);
    *to = REF_NONE;
    while (*from != REF_NONE) {
        struct entry *entry = entry_at(l, *from);
        if (((uint32_t)rng_mix(entry->name) & (names->mask * 2 + 1)) == fresh) {
            *to = *from;
            *from = entry->next;
            to = &entry->next;
            *to = REF_NONE;
        } else {
            from = &entry->next;
        }
    }
}

void
ledger_names_insert(struct ledger *l, uint32_t ref)
{
    struct entry *entry = entry_at(l, ref);
    uint32_t *head = name_head(&l->names, entry->name);

    CHECK(ref != REF_NONE && entry->link != 0);
    entry->next = *head;
    *head = ref;
    if (l->entries.used > l->names.buckets) {
        grow(l);
    }
}

void
ledger_names_remove(struct ledger *l, uint32_t ref)
{
    uint32_t *at = name_head(&l->names, entry_at(l, ref)->name);

    while (*at != ref) {
        CHECK(*at != REF_NONE);
        at = &entry_at(l, *at)->next;
    }
    *at = entry_at(l, ref)->next;
}

bool
ledger_names_tidy(struct ledger *l)
{
    struct name_table *names = &l->names;

    if (names->buckets == 1 || l->entries.used >= names->buckets / 4) {
        return false;
    }
    uint32_t last = names->buckets - 1;
    uint32_t *at = name_bucket(names, last & names->mask);
    if (last == names->mask) { /* it is the last of its level */
        names->mask /= 2;
        at = name_bucket(names, last & names->mask);
    }
    while (*at != REF_NONE) {
        at = &entry_at(l, *at)->next;
    }
    *at = *name_bucket(names, last);
    *name_bucket(names, last) = REF_NONE;
    names->buckets--;
    if (last >> HEADS_SHIFT < names->segments - 1) {
        names->segments--;
        ledger_give(l, names->segment[names->segments], SEGMENT_BYTES);
        names->segment[names->segments] = NULL;
    }
    return true;
}

#define FILL_AHEAD 16 /* entries */

void
ledger_names_fill(struct ledger *l)
{
    uint32_t *soon[FILL_AHEAD];
    uint32_t fresh = l->entries.fresh;
    uint32_t buckets = 0;

    CHECK(l->names.buckets == 1);
    do { /* adding a bucket is cheap while chains are empty */
        buckets = l->names.buckets;
        grow(l);
    } while (l->names.buckets > buckets && buckets < l->entries.used);
    for (uint32_t from = 1; from < fresh; from += FILL_AHEAD) {
        uint32_t count = fresh - from < FILL_AHEAD ? fresh - from : FILL_AHEAD;
        for (uint32_t i = 0; i < count; i++) {
            soon[i] = name_head(&l->names, entry_at(l, from + i)->name);
            __builtin_prefetch(soon[i], 1);
        }
        for (uint32_t i = 0; i < count; i++) {
            struct entry *entry = entry_at(l, from + i);
            if (entry->link != 0) {
                entry->next = *soon[i];
                *soon[i] = from + i;
            }
        }
    }
}
