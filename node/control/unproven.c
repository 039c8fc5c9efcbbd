/* Prefixes by ticket and by age. */
#include "node/control/unproven.h"

#include <stdlib.h>
#include <string.h>

/* Tickets of a lane count up, so they spread over the buckets by themselves. */
static struct unproven_prefix **
bucket_of(struct unproven *u, uint64_t ticket)
{
    return &u->bucket[ticket % UNPROVEN_BUCKETS];
}

void
unproven_init(struct unproven *u, size_t bytes_max)
{
    memset(u, 0, sizeof *u);
    list_init(&u->by_age);
    list_init(&u->fresh);
    u->bytes_max = bytes_max;
}

/* Takes *at off its bucket and the list. */
static struct unproven_prefix *
unlink_at(struct unproven *u, struct unproven_prefix **at)
{
    struct unproven_prefix *prefix = *at;

    CHECK(u->bytes >= prefix->bytes);
    *at = prefix->next;
    prefix->next = NULL;
    list_remove(&prefix->by_age);
    list_remove(&prefix->fresh);
    u->bytes -= prefix->bytes;
    return prefix;
}

static void
drop_oldest(struct unproven *u)
{
    CHECK(!list_is_empty(&u->by_age));
    struct unproven_prefix *oldest =
        LIST_OWNER(u->by_age.next, struct unproven_prefix, by_age);
    struct unproven_prefix **at = bucket_of(u, oldest->fact.ticket);

    while (*at != oldest) {
        CHECK(*at != NULL);
        at = &(*at)->next;
    }
    free(unlink_at(u, at));
    u->dropped++;
}

void
unproven_fini(struct unproven *u)
{
    uint64_t dropped = u->dropped;

    while (!list_is_empty(&u->by_age)) {
        drop_oldest(u);
    }
    CHECK(u->bytes == 0);
    u->dropped = dropped;
}

void
unproven_put_back(struct unproven *u, struct unproven_prefix *prefix)
{
    struct unproven_prefix **bucket = bucket_of(u, prefix->fact.ticket);

    CHECK(prefix->bytes <= u->bytes_max);
    while (u->bytes + prefix->bytes > u->bytes_max) {
        drop_oldest(u);
    }
    u->bytes += prefix->bytes;
    list_append(&u->by_age, &prefix->by_age);
    prefix->next = *bucket;
    *bucket = prefix;
}

/* A copy that is kept; NULL: there is no memory for it. */
static struct unproven_prefix *
keep(struct unproven *u, const struct fact_learn *fact, uint32_t known)
{
    size_t keys = fact->count * sizeof(*fact->keys);
    struct unproven_prefix *prefix = malloc(sizeof(*prefix) + keys);

    CHECK(fact->ticket != 0 && known <= fact->count);
    if (prefix == NULL || sizeof(*prefix) + keys > u->bytes_max) {
        free(prefix);
        u->dropped++;
        return NULL;
    }
    prefix->bytes = sizeof(*prefix) + keys;
    prefix->known = known;
    list_init(&prefix->fresh);
    memcpy(&prefix->fact, fact, sizeof(*fact) + keys);
    unproven_put_back(u, prefix);
    return prefix;
}

bool
unproven_add(struct unproven *u, const struct fact_learn *fact, uint32_t known)
{
    return keep(u, fact, known) != NULL;
}

void
unproven_add_fresh(struct unproven *u, const struct fact_learn *fact)
{
    struct unproven_prefix *prefix = keep(u, fact, fact->count);

    if (prefix != NULL) {
        list_append(&u->fresh, &prefix->fresh);
    }
}

struct unproven_prefix *
unproven_fresh(struct unproven *u)
{
    if (list_is_empty(&u->fresh)) {
        return NULL;
    }
    struct unproven_prefix *oldest =
        LIST_OWNER(u->fresh.next, struct unproven_prefix, fresh);

    list_remove(&oldest->fresh);
    return oldest;
}

struct unproven_prefix *
unproven_take(struct unproven *u, uint64_t ticket)
{
    struct unproven_prefix **at = bucket_of(u, ticket);

    while (*at != NULL && (*at)->fact.ticket != ticket) {
        at = &(*at)->next;
    }
    return *at != NULL ? unlink_at(u, at) : NULL;
}

void
unproven_free(struct unproven_prefix *prefix)
{
    free(prefix);
}
