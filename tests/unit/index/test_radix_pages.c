/* Belief written as pages and read back. */
#include <criterion/criterion.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/index.h"
#include "index/radix_pages_internal.h"

#define WORKERS 5U
#define PROMPTS 400U
#define DEPTH   60U

struct world {
    struct qsbr qsbr;
    struct radix *radix;
    struct rng rng;
    uint64_t keys[PROMPTS][DEPTH];
    uint32_t len[PROMPTS];
    uint32_t worker[PROMPTS];
    uint64_t root[PROMPTS];
    uint64_t now_us;
};

static struct radix *
tree_new(struct qsbr *qsbr, uint32_t shift, uint64_t blocks_max)
{
    struct radix_limits limits = {
        .bytes_max = 64 << 20, .namespaces_max = 16, .depth_max = 4096};
    struct radix *radix;

    qsbr_init(qsbr);
    cr_assert_eq(radix_new(&radix, &limits, qsbr), 0);
    for (uint32_t w = 0; w < WORKERS; w++) {
        cr_assert_eq(radix_worker_add(radix, w + shift, blocks_max, RADIX_LRU),
                     0);
    }
    return radix;
}

/* A prompt that shares its beginning with others, at some worker. */
static void
learn(struct world *w, uint32_t i)
{
    uint64_t key = w->root[i] = 1 + rng_below(&w->rng, 3);

    w->len[i] = 1 + (uint32_t)rng_below(&w->rng, DEPTH);
    w->worker[i] = (uint32_t)rng_below(&w->rng, WORKERS);
    for (uint32_t k = 0; k < w->len[i]; k++) {
        uint64_t turn = rng_below(&w->rng, 12) == 0 ? rng_below(&w->rng, 3) : 9;
        key = rng_mix(key * 16 + turn);
        w->keys[i][k] = key;
    }
    cr_assert_eq(radix_insert(w->radix, w->root[i], w->keys[i], w->len[i],
                              w->worker[i], 0, ++w->now_us),
                 0);
}

static struct world *
world_new(uint64_t seed, uint64_t blocks_max)
{
    static struct world w;

    memset(&w, 0, sizeof w);
    rng_init(&w.rng, seed);
    w.radix = tree_new(&w.qsbr, 0, blocks_max);
    return &w;
}

static void
read_all(struct radix_pages *pages, struct words *out, size_t at_once)
{
    while (radix_pages_next(pages, out, out->count + at_once)) {
    }
    cr_assert(!out->failed);
    radix_pages_free(pages);
}

/* The loaded tree has its workers one slot further up. */
static struct radix *
load(struct qsbr *qsbr, const struct words *words, uint64_t blocks_max)
{
    struct radix *radix = tree_new(qsbr, 1, blocks_max);
    uint32_t slot_of[WORKERS_MAX];
    const char *reason;

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        slot_of[i] = i < WORKERS ? i + 1 : WORKER_NONE;
    }
    cr_assert_eq(radix_load(radix, words->word, words->count, slot_of, 77), 0);
    cr_assert(radix_check(radix, &reason), "%s", reason);
    return radix;
}

static uint32_t
depth_at(const struct radix_match *match, uint32_t worker)
{
    return worker_set_has(&match->workers, worker) ? match->depth[worker] : 0;
}

Test(radix_pages, what_is_loaded_matches_as_what_was_written)
{
    for (uint64_t seed = 1; seed < 12; seed++) {
        uint64_t blocks_max = seed % 3 == 0 ? 300 : 100000;
        struct world *w = world_new(seed, blocks_max);
        struct words words;
        struct qsbr qsbr;
        static struct radix_match a;
        static struct radix_match b;
        words_init(&words, 1 << 24);
        for (uint32_t i = 0; i < PROMPTS; i++) {
            learn(w, i);
        }
        read_all(radix_pages_new(w->radix), &words, 1 + seed * 7);
        struct radix *loaded = load(&qsbr, &words, blocks_max);
        for (uint32_t i = 0; i < PROMPTS; i++) {
            radix_match(w->radix, w->root[i], w->keys[i], w->len[i], &a);
            radix_match(loaded, w->root[i], w->keys[i], w->len[i], &b);
            for (uint32_t k = 0; k < WORKERS; k++) {
                cr_assert_eq(depth_at(&a, k), depth_at(&b, k + 1));
            }
        }
        words_fini(&words);
        radix_free(loaded);
        radix_free(w->radix);
    }
}

Test(radix_pages, nothing_is_loaded_that_was_not_held_though_the_tree_changed)
{
    for (uint64_t seed = 1; seed < 30; seed++) {
        struct world *w = world_new(seed, 100000);
        struct words words;
        struct qsbr qsbr;
        static struct radix_match match;
        words_init(&words, 1 << 24);
        for (uint32_t i = 0; i < PROMPTS / 2; i++) {
            learn(w, i);
        }
        struct radix_pages *pages = radix_pages_new(w->radix);
        uint32_t at = PROMPTS / 2;
        while (radix_pages_next(pages, &words, words.count + 20)) {
            if (at < PROMPTS) {
                learn(w, at++);
            }
        }
        radix_pages_free(pages);
        struct radix *loaded = load(&qsbr, &words, 100000);
        for (uint32_t i = 0; i < at; i++) {
            radix_match(loaded, w->root[i], w->keys[i], w->len[i], &match);
            uint32_t depth = depth_at(&match, w->worker[i] + 1);
            static struct radix_match now;
            radix_match(w->radix, w->root[i], w->keys[i], w->len[i], &now);
            for (uint32_t k = 0; k < WORKERS; k++) {
                cr_assert_leq(depth_at(&match, k + 1), depth_at(&now, k));
            }
            cr_assert_leq(depth, w->len[i]);
        }
        words_fini(&words);
        radix_free(loaded);
        radix_free(w->radix);
    }
}

Test(radix_pages, what_makes_no_sense_is_refused_or_left_out)
{
    struct rng rng;
    struct qsbr qsbr;
    struct radix *radix = tree_new(&qsbr, 0, 1000);
    uint32_t slot_of[WORKERS_MAX] = {0};
    uint64_t words[64];
    const char *reason;

    rng_init(&rng, 5);
    for (uint32_t round = 0; round < 20000; round++) {
        size_t count = (size_t)rng_below(&rng, 64);
        for (size_t i = 0; i < count; i++) {
            words[i] = rng_below(&rng, 2) == 0
                           ? rng_below(&rng, 4) | rng_below(&rng, 8) << 32
                           : rng_below(&rng, 6);
        }
        int rc = radix_load(radix, words, count, slot_of, round);
        cr_assert(rc == 0 || rc == RADIX_E_BAD);
    }
    /* A slot of a wider program. */
    words[0] = PAGE_LEAF | (uint64_t)WORKERS_MAX << PAGE_WORKER;
    words[1] = words[2] = 0;
    cr_assert_eq(radix_load(radix, words, 3, slot_of, 0), RADIX_E_BAD);
    cr_assert(radix_check(radix, &reason), "%s", reason);
    radix_free(radix);
}
