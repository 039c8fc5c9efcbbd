/*
 * The mirror's search while the writer goes on. The search is compiled in here,
 * and each of its prefetches counts as one step, so that the writer's part
 * comes at the same step of every run.
 */
#include <criterion/criterion.h>

static void on_step(void);
/* NOLINTNEXTLINE(clang-diagnostic-reserved-macro-identifier) */
#define __builtin_prefetch(...) on_step()
#include "index/mirror_match.c" /* NOLINT(bugprone-suspicious-include) */
#undef __builtin_prefetch /* NOLINT(clang-diagnostic-reserved-macro-identifier) */

#include "index/base/rng.h"

#define KEYS 100
/* A walk asks for the first 12 keys before it reads the first 4. */
#define READ_AHEAD (3 * FIRST)

static struct qsbr qsbr;
static struct mirror *mirror;
static uint64_t keys[KEYS];
static uint32_t slot; /* the one that is asked about */
static uint32_t step;
static void (*writer)(void);

static void
on_step(void)
{
    step++;
    if (writer != NULL) {
        writer();
    }
}

static void
say(enum event_kind kind, uint32_t of, uint32_t from, uint32_t count)
{
    uint64_t words[1 + KEYS] = {event_op(kind, TIER_DEVICE, count)};

    for (uint32_t i = 0; i < count; i++) {
        words[1 + i] = keys[from + i];
    }
    cr_assert_eq(
        mirror_apply(mirror, of, words, 1 + count, EVENT_HOLES_UNKNOWN), 0);
}

/* The slot holds the first 60 blocks; another one holds all of them, so that
 * every key has a table to be fetched from. */
static void
setup(void)
{
    struct mirror_limits limits = {.bytes_max = 64 << 20};
    uint32_t other;

    qsbr_init(&qsbr);
    cr_assert_eq(mirror_new(&mirror, &limits, &qsbr), 0);
    cr_assert_eq(mirror_open(mirror, &slot), 0);
    cr_assert_eq(mirror_open(mirror, &other), 0);
    for (uint32_t i = 0; i < KEYS; i++) {
        keys[i] = rng_mix(i);
    }
    say(EVENT_STORE, other, 0, KEYS);
    say(EVENT_STORE, slot, 0, 60);
    step = 0;
}

static void
teardown(void)
{
    mirror_free(mirror);
    qsbr_fini(&qsbr);
}

TestSuite(index_mirror_match, .init = setup, .fini = teardown);

static uint32_t
depth_with(void (*meanwhile)(void))
{
    struct worker_set asked = {.word = {0}};
    struct mirror_match match;

    worker_set_add(&asked, slot);
    writer = meanwhile;
    mirror_match(mirror, &asked, keys, KEYS, &match);
    writer = NULL;
    cr_assert_eq(match.best,
                 worker_set_has(&match.slots, slot) ? match.depth[slot] : 0);
    return match.best;
}

/* Behind the walk the first block goes, ahead of it those that were missing
 * come: the walk sees all 100, which were never held together. */
static void
run_ahead(void)
{
    say(EVENT_REMOVE, slot, 0, 1);
    say(EVENT_STORE, slot, 60, 40);
}

static void
take_back(void)
{
    say(EVENT_REMOVE, slot, 60, 40);
    say(EVENT_STORE, slot, 0, 1);
}

static void
tear_once(void)
{
    if (step == READ_AHEAD + 1) {
        run_ahead();
    }
}

Test(index_mirror_match, a_walk_that_was_torn_is_done_again)
{
    cr_assert_eq(depth_with(tear_once), 0);
    cr_assert_eq(step, KEYS + READ_AHEAD);
}

/* The first walk ends at the hole, when it has asked for all keys; the two others
 * find too much. */
static void
tear_always(void)
{
    uint32_t second = KEYS;
    uint32_t third = second + KEYS;

    if (step == 1) {
        say(EVENT_REMOVE, slot, 70, 1);
    } else if (step == second + READ_AHEAD + 1 ||
               step == third + READ_AHEAD + 1) {
        run_ahead();
    } else if (step == third + 1) {
        take_back();
    }
}

Test(index_mirror_match, of_walks_that_were_all_torn_the_least_depth_counts)
{
    cr_assert_eq(depth_with(tear_always), 60);
    cr_assert_eq(step, 3 * KEYS);
}

/* The first walk and the second are torn; the third finds nothing. */
static void
tear_twice(void)
{
    if (step == 1) {
        say(EVENT_REMOVE, slot, 70, 1);
    } else if (step == KEYS + READ_AHEAD + 1) {
        run_ahead();
    }
}

Test(index_mirror_match, a_walk_that_finds_nothing_keeps_nothing_of_another)
{
    cr_assert_eq(depth_with(tear_twice), 0);
    cr_assert_eq(step, 2 * KEYS + READ_AHEAD);
}
