/*
 * Readers match without pause while the writer applies records, closes and
 * opens slots, and tables grow, shrink and are swept. What can be known of
 * every answer is checked:
 *   - bits that nobody touches never flicker: two slots that hold chains from
 *     before answer with all of them, beside others that come and go on the
 *     same blocks;
 *   - a slot that only grows answers with at least what it held before the
 *     question and at most what it was about to hold after;
 *   - a slot whose tail comes and goes, in any order within a record, answers
 *     with a depth between the two;
 *   - a slot that gets a hole answers with what lies before it from then on,
 *     however much of the chain is stored behind it;
 *   - who was closed before the question does not answer, and who opens the
 *     slot again never answers with the old owner's blocks.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/index.h"

#define READERS 3
#define ROUNDS  3000
#define DEPTH   120
#define CHAINS  16
#define SHORT   40 /* what TAIL keeps, and where HOLED has its hole */
#define NOISE   8  /* slots that come and go */

#define STEADY  0
#define LEARNER 1
#define TAIL    2
#define HOLED   3
#define STEADY2 4
#define LEAVER  5

static struct qsbr qsbr;
static struct mirror *mirror;
static uint64_t keys[CHAINS][DEPTH];
static _Atomic int stop;
static _Atomic uint64_t learned[CHAINS];
static _Atomic uint64_t learning[CHAINS];
static _Atomic uint64_t holes; /* twice the hole's number, odd while one is */
static _Atomic uint64_t away;  /* odd while LEAVER is closed */
static _Atomic uint32_t leaver;
static _Atomic uint64_t answers;

static uint64_t
load(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_acquire);
}

static uint32_t
depth_of(const struct mirror_match *match, uint32_t slot)
{
    return worker_set_has(&match->slots, slot) ? match->depth[slot] : 0;
}

static uint32_t
least(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

static void
ask(struct rng *rng)
{
    struct mirror_match match;
    struct worker_set all;
    uint64_t chain = rng_below(rng, CHAINS);
    uint32_t count = 1 + (uint32_t)rng_below(rng, DEPTH);

    memset(&all, 0xFF, sizeof(all));
    uint64_t before = load(&learned[chain]);
    uint64_t hole_before = load(&holes);
    uint64_t away_before = load(&away);
    mirror_match(mirror, &all, keys[chain], count, &match);
    uint64_t hole_after = load(&holes);
    uint64_t after = load(&learning[chain]);
    uint32_t gone = atomic_load_explicit(&leaver, memory_order_acquire);
    uint64_t away_after = load(&away);

    CHECK(depth_of(&match, STEADY) == least(DEPTH, count));
    CHECK(depth_of(&match, STEADY2) == least(chain * 7 + 1, count));
    uint32_t learner = depth_of(&match, LEARNER);
    CHECK(learner >= least(before, count) && learner <= least(after, count));
    uint32_t tail = depth_of(&match, TAIL);
    CHECK(tail >= least(SHORT, count) && tail <= count);
    uint32_t holed = depth_of(&match, HOLED);
    CHECK(hole_before != hole_after || hole_before % 2 == 0 ||
          holed == least(SHORT, count));
    CHECK(hole_before != hole_after || hole_before % 2 != 0 || holed >= SHORT ||
          holed == count);
    CHECK(holed <= SHORT + 40); /* it never held more without a hole */
    if (away_before == away_after) {
        CHECK(away_before % 2 == 0 || depth_of(&match, gone) == 0);
        CHECK(away_before % 2 != 0 || chain % 2 == (away_before / 4) % 2 ||
              depth_of(&match, gone) == 0);
    }
}

static void *
reader(void *arg)
{
    struct qsbr_reader *me = qsbr_register(&qsbr);
    struct rng rng;

    rng_init(&rng, (uint64_t)(size_t)arg);
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        qsbr_online(&qsbr, me);
        for (int i = 0; i < 10; i++) {
            ask(&rng);
        }
        qsbr_offline(me);
        atomic_fetch_add_explicit(&answers, 10, memory_order_relaxed);
    }
    return NULL;
}

/* ---- the writer ---- */

static void
apply(uint32_t slot, enum event_kind kind, const uint64_t *of, uint32_t count,
      uint32_t holes_after)
{
    uint64_t words[DEPTH + 1];

    if (count == 0) {
        return;
    }
    words[0] = event_op(kind, TIER_DEVICE, count);
    memcpy(words + 1, of, count * sizeof(uint64_t));
    CHECK(mirror_apply(mirror, slot, words, count + 1, holes_after) == 0);
}

static void
learn(struct rng *rng)
{
    uint64_t chain = rng_below(rng, CHAINS);
    uint64_t from = load(&learned[chain]);
    uint64_t to = from + rng_below(rng, 6);

    to = to < DEPTH ? to : DEPTH;
    atomic_store_explicit(&learning[chain], to, memory_order_release);
    apply(LEARNER, EVENT_STORE, keys[chain] + from, (uint32_t)(to - from), 0);
    atomic_store_explicit(&learned[chain], to, memory_order_release);
}

/* First to last and last to first, stored and taken away. */
static void
tail(struct rng *rng)
{
    const uint64_t *of = keys[rng_below(rng, CHAINS)];
    uint64_t turned[DEPTH];
    uint32_t count = DEPTH - SHORT;

    for (uint32_t i = 0; i < count; i++) {
        turned[i] = of[DEPTH - 1 - i];
    }
    apply(TAIL, EVENT_STORE, rng_below(rng, 2) == 0 ? of + SHORT : turned,
          count, 0);
    apply(TAIL, EVENT_REMOVE, rng_below(rng, 2) == 0 ? of + SHORT : turned,
          count, 0);
}

/* A hole in all chains, more behind it, and back. */
static void
tear(struct rng *rng)
{
    uint64_t number = load(&holes);

    for (uint32_t i = 0; i < CHAINS; i++) {
        apply(HOLED, EVENT_STORE, keys[i], SHORT + 40, i);
    }
    for (uint32_t i = 0; i < CHAINS; i++) {
        apply(HOLED, EVENT_REMOVE, keys[i] + SHORT, 1, i + 1);
    }
    atomic_store_explicit(&holes, number + 1, memory_order_release);
    for (uint32_t i = 0; i < CHAINS; i++) {
        apply(HOLED, EVENT_STORE, keys[i] + SHORT + 1,
              (uint32_t)rng_below(rng, DEPTH - SHORT - 1), CHAINS);
    }
    atomic_store_explicit(&holes, number + 2, memory_order_release);
    for (uint32_t i = 0; i < CHAINS; i++) {
        apply(HOLED, EVENT_REMOVE, keys[i] + SHORT, DEPTH - SHORT,
              CHAINS - 1 - i);
    }
}

static void
come_or_go(void)
{
    uint64_t number = load(&away);
    uint32_t slot = atomic_load_explicit(&leaver, memory_order_relaxed);

    if (number % 2 == 0) {
        mirror_close(mirror, slot);
        atomic_store_explicit(&away, number + 1, memory_order_release);
        return;
    }
    /* An odd number: half of the chains belong to the next owner. */
    while (mirror_open(mirror, &slot) != 0) {
        (void)mirror_work(mirror, 4096);
    }
    atomic_store_explicit(&away, number + 2, memory_order_release);
    atomic_store_explicit(&leaver, slot, memory_order_release);
    atomic_store_explicit(&away, number + 3, memory_order_release);
    for (uint32_t i = (uint32_t)((number + 3) / 4 % 2); i < CHAINS; i += 2) {
        apply(slot, EVENT_STORE, keys[i], DEPTH, 0);
    }
}

/* Other slots on the same blocks, and blocks of their own that make the
 * tables grow; now and then all of it goes. */
static void
noise(struct rng *rng, uint32_t *slots)
{
    uint64_t own[DEPTH];
    uint32_t i = (uint32_t)rng_below(rng, NOISE);
    uint64_t key = rng_next(rng);

    if (rng_below(rng, 200) == 0) {
        mirror_close(mirror, slots[i]);
        while (mirror_open(mirror, &slots[i]) != 0) {
            (void)mirror_work(mirror, 4096);
        }
    }
    for (uint32_t k = 0; k < DEPTH; k++) {
        own[k] = key = rng_mix(key);
    }
    apply(slots[i], EVENT_STORE, own, DEPTH, 0);
    apply(slots[i], rng_below(rng, 2) == 0 ? EVENT_STORE : EVENT_REMOVE,
          keys[rng_below(rng, CHAINS)], DEPTH, 0);
}

static void
prepare(uint32_t *slots)
{
    struct mirror_limits limits = {.bytes_max = 256 << 20};
    uint64_t key = 3;
    uint32_t slot;

    qsbr_init(&qsbr);
    CHECK(mirror_new(&mirror, &limits, &qsbr) == 0);
    for (uint32_t i = 0; i < CHAINS * DEPTH; i++) {
        keys[i / DEPTH][i % DEPTH] = key = rng_mix(key);
    }
    for (uint32_t i = 0; i <= LEAVER; i++) {
        CHECK(mirror_open(mirror, &slot) == 0 && slot == i);
    }
    atomic_store(&leaver, LEAVER);
    for (uint32_t i = 0; i < NOISE; i++) {
        CHECK(mirror_open(mirror, &slots[i]) == 0);
    }
    for (uint32_t i = 0; i < CHAINS; i++) {
        apply(STEADY, EVENT_STORE, keys[i], DEPTH, 0);
        apply(STEADY2, EVENT_STORE, keys[i], i * 7 + 1, 0);
        apply(TAIL, EVENT_STORE, keys[i], SHORT, 0);
        apply(HOLED, EVENT_STORE, keys[i], SHORT, 0);
    }
}

static void
run(uint32_t *slots)
{
    struct rng rng;

    rng_init(&rng, 5);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        noise(&rng, slots);
        tail(&rng);
        if (round % 16 == 0) {
            learn(&rng);
        }
        if (round % 8 == 0) {
            tear(&rng);
        }
        if (round % 50 == 0) {
            come_or_go();
        }
        (void)mirror_work(mirror, 256);
    }
}

int
main(void)
{
    pthread_t threads[READERS];
    uint32_t slots[NOISE];
    struct mirror_stats stats;
    const char *reason;

    prepare(slots);
    for (size_t i = 0; i < READERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, reader, (void *)(i + 1)) == 0);
    }
    run(slots);
    atomic_store(&stop, 1);
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    if (!mirror_check(mirror, &reason)) {
        printf("stress_mirror: %s\n", reason);
        return 1;
    }
    mirror_stats(mirror, &stats);
    printf("stress_mirror: %d rounds, %llu answers, %llu tables grown\n",
           ROUNDS, (unsigned long long)atomic_load(&answers),
           (unsigned long long)stats.grown);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
    return 0;
}
