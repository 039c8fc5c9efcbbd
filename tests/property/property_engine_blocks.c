/*
 * The block pool against a model that keeps a plain list and searches it:
 * after each of many random operations both hold the same blocks, hit the same
 * ones and evict the same ones in the same order.
 *
 * property_engine_blocks SEEDS FIRST_SEED
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/engine/engine_blocks_internal.h"
#include "index/base/rng.h"

#define SLOTS_MAX 24
#define CHAIN_MAX 6
#define HELD_MAX  8
#define STEPS     4000

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            printf("seed %llu step %d: %s\n", (unsigned long long)seed_now, \
                   step_now, #condition);                                   \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static uint64_t seed_now;
static int step_now;

struct naive {
    uint32_t count;
    uint32_t free_list[SLOTS_MAX]; /* front first */
    uint32_t free_count;
    uint32_t refs[SLOTS_MAX];
    uint64_t key[SLOTS_MAX]; /* 0: none */
    uint64_t born[SLOTS_MAX];
    uint64_t births;
};

/* What one request holds: hits first, then its own blocks. */
struct holder {
    uint32_t slots[CHAIN_MAX];
    uint32_t count; /* 0: unused */
};

static uint32_t
naive_find(const struct naive *n, uint64_t key)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t s = 0; s < n->count; s++) {
        if (n->key[s] == key &&
            (best == UINT32_MAX || n->born[s] < n->born[best])) {
            best = s;
        }
    }
    return best;
}

static void
naive_unfree(struct naive *n, uint32_t slot)
{
    uint32_t at = 0;

    while (n->free_list[at] != slot) {
        at++;
        MUST(at < n->free_count);
    }
    n->free_count--;
    memmove(&n->free_list[at], &n->free_list[at + 1],
            (n->free_count - at) * sizeof(n->free_list[0]));
}

static void
naive_release(struct naive *n, const struct holder *h)
{
    for (uint32_t i = h->count; i-- > 0;) {
        uint32_t slot = h->slots[i];
        if (--n->refs[slot] > 0) {
            continue;
        }
        if (n->key[slot] != 0) {
            n->free_list[n->free_count] = slot;
        } else {
            memmove(&n->free_list[1], &n->free_list[0],
                    n->free_count * sizeof(n->free_list[0]));
            n->free_list[0] = slot;
        }
        n->free_count++;
    }
}

/* A request: matches one of a few chains, holds the hits, computes more. */
static void
begin(struct engine_blocks *pool, struct naive *n, struct rng *rng,
      struct holder *h)
{
    uint64_t keys[CHAIN_MAX];
    uint32_t want = 1 + (uint32_t)rng_below(rng, CHAIN_MAX);
    uint64_t chain = rng_below(rng, 6);
    uint32_t from_free;
    uint32_t hits = 0;
    uint32_t naive_free = 0;

    for (uint32_t i = 0; i < want; i++) {
        keys[i] = 1 + i * 8 + (i < 2 ? chain / 3 : chain);
    }
    uint32_t matched = engine_blocks_match(pool, keys, want, &from_free);
    for (; hits < want; hits++) {
        uint32_t slot = naive_find(n, keys[hits]);
        if (slot == UINT32_MAX) {
            break;
        }
        naive_free += n->refs[slot] == 0;
    }
    MUST(matched == hits && from_free == naive_free);
    /* Some take over less than they could, as a full hit must. */
    hits -= hits > 0 && rng_below(rng, 3) == 0;
    (void)engine_blocks_match(pool, keys, hits, &from_free);
    if (from_free + want - hits > n->free_count) {
        return;
    }
    engine_blocks_hold(pool, keys, hits, h->slots);
    for (uint32_t i = 0; i < hits; i++) {
        uint32_t slot = naive_find(n, keys[i]);
        MUST(slot == h->slots[i]);
        if (n->refs[slot]++ == 0) {
            naive_unfree(n, slot);
        }
    }
    for (uint32_t i = hits; i < want; i++) {
        uint64_t evicted = 0;
        uint32_t slot = n->free_list[0];
        bool had = engine_blocks_take(pool, &h->slots[i], &evicted);
        MUST(h->slots[i] == slot);
        MUST(had == (n->key[slot] != 0) && evicted == n->key[slot]);
        naive_unfree(n, slot);
        n->refs[slot] = 1;
        n->key[slot] = 0;
        if (i + 1 < want || rng_below(rng, 2) == 0) {
            engine_blocks_name(pool, slot, keys[i]);
            n->key[slot] = keys[i];
            n->born[slot] = ++n->births;
        }
    }
    h->count = want;
}

static void
clear(struct engine_blocks *pool, struct naive *n)
{
    bool done = engine_blocks_clear(pool);

    MUST(done == (n->free_count == n->count));
    if (done) {
        memset(n->key, 0, sizeof(n->key));
    }
}

static void
compare(const struct engine_blocks *pool, const struct naive *n)
{
    const char *reason = "";
    bool sound = engine_blocks_check(pool, &reason);

    if (!sound) {
        printf("%s\n", reason);
    }
    MUST(sound);
    MUST(pool->free_count == n->free_count);
    for (uint32_t s = 0; s < n->count; s++) {
        MUST(pool->blocks[s].refs == n->refs[s]);
        MUST(pool->blocks[s].cached == (n->key[s] != 0));
        MUST(n->key[s] == 0 || pool->blocks[s].key == n->key[s]);
    }
}

static void
run(uint64_t seed)
{
    struct engine_blocks pool;
    struct naive n = {0};
    struct holder held[HELD_MAX] = {0};
    struct rng rng;

    seed_now = seed;
    rng_init(&rng, seed);
    n.count = 1 + (uint32_t)rng_below(&rng, SLOTS_MAX);
    for (uint32_t s = 0; s < n.count; s++) {
        n.free_list[n.free_count++] = s;
    }
    MUST(engine_blocks_init(&pool, n.count) == 0);
    for (step_now = 0; step_now < STEPS; step_now++) {
        struct holder *h = &held[rng_below(&rng, HELD_MAX)];
        if (h->count == 0) {
            begin(&pool, &n, &rng, h);
        } else {
            engine_blocks_release(&pool, h->slots, h->count);
            naive_release(&n, h);
            h->count = 0;
        }
        if (rng_below(&rng, 64) == 0) {
            clear(&pool, &n);
        }
        compare(&pool, &n);
    }
    engine_blocks_fini(&pool);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (uint64_t seed = first; seed < first + seeds; seed++) {
        run(seed);
    }
    printf("%llu seeds, %d steps each\n", (unsigned long long)seeds, STEPS);
    return 0;
}
