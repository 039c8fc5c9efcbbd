/*
 * Readers match without pause while the writer inserts, evicts and removes
 * workers. What can be known of every answer is checked:
 *   - no depth is greater than what was asked, best is the greatest of them,
 *     nobody answers who was never admitted;
 *   - a worker that holds something from before and never gives it up answers
 *     with all of it, whatever happens to the nodes it shares with others;
 *   - a worker that only ever learns answers with at least what it had learned
 *     before the question and at most what it was about to learn after;
 *   - a worker that was removed before the question does not answer.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "index/base/rng.h"
#include "index/index.h"

#define READERS 3
#define ROUNDS  12000
#define DEPTH   60
#define TREES   16 /* system prompts */
#define ROOT    UINT64_C(77)

#define STEADY  0 /* never changes */
#define LEARNER 1 /* only learns */
#define LEAVER  2 /* comes and goes */
#define CHURN   3 /* and above: small caches */
#define WORKERS 12

static struct qsbr qsbr;
static struct radix *radix;
static _Atomic int stop;
static _Atomic uint64_t learning[TREES]; /* blocks the next insert will make */
static _Atomic uint64_t learned[TREES];  /* blocks that are there */
static _Atomic uint64_t away;            /* odd while LEAVER is gone */
static _Atomic uint64_t answers;

/* Common to a place that varies, then apart. */
static void
prompt(uint64_t *keys, uint64_t tree, uint64_t common, uint64_t variant)
{
    uint64_t key = ROOT + tree;

    for (uint64_t i = 0; i < DEPTH; i++) {
        key = rng_mix(key ^ (i < common ? 0 : variant));
        keys[i] = key;
    }
}

static uint32_t
depth_of(const struct radix_match *match, uint32_t worker)
{
    return worker_set_has(&match->workers, worker) ? match->depth[worker] : 0;
}

static void
check_shape(const struct radix_match *match, uint32_t count)
{
    uint32_t best = 0;

    WORKER_SET_EACH (worker, &match->workers) {
        CHECK(worker < WORKERS);
        CHECK(match->depth[worker] > 0 && match->depth[worker] <= count);
        best = match->depth[worker] > best ? match->depth[worker] : best;
    }
    CHECK(best == match->best);
}

static void
ask(struct rng *rng)
{
    uint64_t keys[DEPTH];
    struct radix_match match;
    uint64_t tree = rng_below(rng, TREES);
    uint32_t count = 1 + (uint32_t)rng_below(rng, DEPTH);

    prompt(keys, tree, DEPTH, 0);
    uint64_t least = atomic_load_explicit(&learned[tree], memory_order_acquire);
    uint64_t before = atomic_load_explicit(&away, memory_order_acquire);
    radix_match(radix, ROOT, keys, count, &match);
    uint64_t after = atomic_load_explicit(&away, memory_order_acquire);
    uint64_t most = atomic_load_explicit(&learning[tree], memory_order_acquire);
    check_shape(&match, count);
    uint32_t steady = (uint32_t)(tree * 4) < count ? (uint32_t)tree * 4 : count;
    CHECK(depth_of(&match, STEADY) == steady);
    uint32_t depth = depth_of(&match, LEARNER);
    CHECK(depth >= (least < count ? least : count) && depth <= most);
    CHECK(before != after || before % 2 == 0 || depth_of(&match, LEAVER) == 0);
}

static void *
reader(void *arg)
{
    struct qsbr_reader *me = qsbr_register(&qsbr);
    struct rng rng;

    rng_init(&rng, (uint64_t)(size_t)arg);
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        qsbr_online(&qsbr, me);
        for (int i = 0; i < 20; i++) {
            ask(&rng);
        }
        qsbr_offline(me);
        atomic_fetch_add_explicit(&answers, 20, memory_order_relaxed);
    }
    return NULL;
}

static void
insert(const uint64_t *keys, size_t count, uint32_t worker, uint64_t now)
{
    int rc = radix_insert(radix, ROOT, keys, count, worker, 0, now);
    CHECK(rc == 0 || (worker == LEAVER && rc == RADIX_E_GONE));
}

/* One more block, or a few, for the worker that only learns. */
static void
learn_more(struct rng *rng, uint64_t now)
{
    uint64_t tree = rng_below(rng, TREES);
    uint64_t keys[DEPTH];
    uint64_t count = atomic_load_explicit(&learned[tree], memory_order_relaxed);

    count += rng_below(rng, 3);
    count = count < DEPTH ? count : DEPTH;
    if (count > 0) {
        prompt(keys, tree, DEPTH, 0);
        atomic_store_explicit(&learning[tree], count, memory_order_release);
        insert(keys, (size_t)count, LEARNER, now);
        atomic_store_explicit(&learned[tree], count, memory_order_release);
    }
}

static void
come_or_go(uint64_t now)
{
    uint64_t state = atomic_load_explicit(&away, memory_order_relaxed);

    if (state % 2 == 0) {
        radix_worker_remove(radix, LEAVER);
        atomic_store_explicit(&away, state + 1, memory_order_release);
        return;
    }
    while (radix_work(radix, 16, now)) {
    }
    atomic_store_explicit(&away, state + 1, memory_order_release);
    CHECK(radix_worker_add(radix, LEAVER, 400, RADIX_LFU) == 0);
}

static void
churn(struct rng *rng, uint64_t now)
{
    uint64_t keys[DEPTH];
    uint32_t worker =
        LEAVER + (uint32_t)rng_below(rng, WORKERS - (uint64_t)LEAVER);

    prompt(keys, rng_below(rng, TREES), rng_below(rng, DEPTH),
           rng_below(rng, 4));
    insert(keys, 1 + (size_t)rng_below(rng, DEPTH), worker, now);
}

static void
prepare(void)
{
    struct radix_limits limits = {
        .bytes_max = 64 << 20, .namespaces_max = 4, .depth_max = DEPTH};
    uint64_t keys[DEPTH];

    qsbr_init(&qsbr);
    CHECK(radix_new(&radix, &limits, &qsbr) == 0);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        CHECK(radix_worker_add(radix, worker,
                               worker < LEAVER ? 1 << 20 : 150 + worker * 40,
                               (enum radix_eviction)(worker % 6)) == 0);
    }
    for (uint64_t tree = 1; tree < TREES; tree++) {
        prompt(keys, tree, DEPTH, 0);
        insert(keys, (size_t)tree * 4, STEADY, tree);
    }
}

int
main(void)
{
    pthread_t threads[READERS];
    struct rng rng;
    struct radix_stats stats;
    const char *reason;

    rng_init(&rng, 5);
    prepare();
    for (size_t i = 0; i < READERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, reader, (void *)(i + 1)) == 0);
    }
    for (uint64_t round = 0; round < ROUNDS; round++) {
        churn(&rng, round);
        if (round % 8 == 0) {
            learn_more(&rng, round);
        }
        if (round % 150 == 0) {
            come_or_go(round);
        }
        if (round % 4 == 0) {
            (void)radix_work(radix, 4, round);
        }
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    if (!radix_check(radix, &reason)) {
        printf("stress_radix: %s\n", reason);
        return 1;
    }
    radix_stats(radix, &stats);
    printf("stress_radix: %d rounds, %llu answers, %llu nodes\n", ROUNDS,
           (unsigned long long)atomic_load(&answers),
           (unsigned long long)stats.nodes);
    radix_free(radix);
    qsbr_fini(&qsbr);
    return 0;
}
