/*
 * The readers' search where sliding windows limit a hit (shape.h). Wait-free.
 *
 * From its depth a slot is walked back, block by block: a block that some
 * window group lacks is the end of the longest prefix that is left, until as
 * many blocks as a window reaches back are held by all of them. The keys of a
 * stretch are fetched together, and a group is asked only for blocks that the
 * one before it has. What was true at some moment of the call holds for each
 * block alone.
 */
#include "index/key.h"
#include "index/mirror_internal.h"

#define STRETCH 32    /* blocks whose misses overlap */
#define WALK    16384 /* lookups of one call; slots left then serve nothing */

struct stretch {
    uint32_t count;
    uint32_t at[STRETCH];
    struct worker_set holders[STRETCH]; /* in all groups asked so far */
};

/* Leaves those holders that a window group has, too. Returns how many lookups
 * that took. */
static uint32_t
ask_group(const struct mirror *mirror, const uint64_t *keys, uint32_t number,
          struct stretch *s)
{
    uint64_t key[STRETCH];
    uint64_t hash[STRETCH];
    const char *handle[STRETCH];
    uint32_t lookups = 0;

    for (uint32_t i = 0; i < s->count; i++) {
        if (worker_set_empty(&s->holders[i])) {
            continue;
        }
        key[i] = key_in_window(keys[s->at[i]], number);
        hash[i] = mirror_hash(key[i]);
        handle[i] =
            mirror_handle_get(mirror, MIRROR_HOLDERS, mirror_shard(hash[i]));
        if (handle[i] != NULL) {
            __builtin_prefetch(mirror_line_at(mirror, handle[i], hash[i]));
        }
        lookups++;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        struct worker_set has;
        if (!worker_set_empty(&s->holders[i])) {
            mirror_holders(
                mirror, mirror_find_holders(mirror, handle[i], hash[i], key[i]),
                &has);
            s->holders[i] = worker_set_and(&s->holders[i], &has);
        }
    }
    return lookups;
}

/* Notes who holds one block; those whose window is full are left alone from
 * here on. */
static void
take_block(struct mirror_match *match, const struct stretch *s, uint32_t i,
           uint32_t window, struct worker_set *open)
{
    uint32_t at = s->at[i];

    WORKER_SET_EACH (slot, open) {
        if (at >= match->depth[slot]) {
            continue;
        }
        if (!worker_set_has(&s->holders[i], slot)) {
            match->depth[slot] = at;
        } else if (match->depth[slot] - at >= window) {
            worker_set_remove(open, slot);
        }
    }
}

static void
walk_back(const struct mirror *mirror, const uint64_t *keys, uint32_t shape,
          uint32_t from, struct worker_set *open, struct mirror_match *match)
{
    uint32_t window = shape_window(shape);
    uint32_t length = window < STRETCH ? window : STRETCH;
    uint32_t lookups = 0;
    struct stretch s;

    while (from > 0 && lookups < WALK && !worker_set_empty(open)) {
        s.count = from < length ? from : length;
        for (uint32_t i = 0; i < s.count; i++) {
            s.at[i] = from - 1 - i;
            s.holders[i] = *open;
        }
        for (uint32_t g = 0; g < shape_windows(shape); g++) {
            lookups += ask_group(mirror, keys, g, &s);
        }
        for (uint32_t i = 0; i < s.count; i++) {
            take_block(match, &s, i, window, open);
        }
        from -= s.count;
        length = length * 2 < STRETCH ? length * 2 : STRETCH;
    }
    if (from == 0) {
        worker_set_clear(open); /* a beginning is held, however short */
    }
}

void
mirror_match_windows(const struct mirror *mirror,
                     const struct worker_set *slots, const uint64_t *keys,
                     uint32_t shape, uint32_t most, struct mirror_match *match)
{
    struct worker_set asked = worker_set_and(slots, &match->slots);
    struct worker_set open = asked;
    uint32_t from = 0;

    CHECK_SLOW(shape_is_ruled(shape));
    WORKER_SET_EACH (slot, &asked) {
        uint32_t depth = match->depth[slot] < most ? match->depth[slot] : most;
        match->depth[slot] = depth;
        from = depth > from ? depth : from;
    }
    if (shape_window(shape) > 0) {
        walk_back(mirror, keys, shape, from, &open, match);
        WORKER_SET_EACH (slot, &open) {
            match->depth[slot] = 0;
        }
    }
    match->best = 0;
    WORKER_SET_EACH (slot, &asked) {
        if (match->depth[slot] == 0) {
            worker_set_remove(&match->slots, slot);
        }
    }
    WORKER_SET_EACH (slot, &match->slots) {
        uint32_t depth = match->depth[slot];
        match->best = depth > match->best ? depth : match->best;
    }
}
