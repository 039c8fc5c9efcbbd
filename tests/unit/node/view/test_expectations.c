/* What is on its way: until an event stores it, or it is too old. */
#include <criterion/criterion.h>

#include "index/base/role.h"
#include "node/view/expectations.h"

#define TTL_MS 10U
#define TTL_US UINT64_C(10000)

static struct qsbr qsbr;
static struct qsbr_reader *reader;
static struct expectations *expectations;
static uint64_t keys[64];

static void
open_rig(void)
{
    role_is_control();
    struct expectations_limits limits = {
        .bytes_max = (size_t)16 << 20,
        .ttl_ms = TTL_MS,
        .proved_ms = 10 * TTL_MS,
    };

    qsbr_init(&qsbr);
    reader = qsbr_register(&qsbr);
    cr_assert_eq(expectations_new(&expectations, &limits, &qsbr), 0);
    cr_assert_eq(expectations_open(expectations, 5), 0);
    for (uint32_t i = 0; i < 64; i++) {
        keys[i] = key_next(7, &i, sizeof(i));
    }
}

static void
close_rig(void)
{
    expectations_free(expectations);
    qsbr_fini(&qsbr);
}

TestSuite(expectations, .init = open_rig, .fini = close_rig);

static uint32_t
depth(uint32_t slot, uint32_t from)
{
    struct mirror_match match;
    struct worker_set asked;

    worker_set_clear(&asked);
    worker_set_add(&asked, slot);
    qsbr_online(&qsbr, reader);
    mirror_match(expectations_index(expectations), &asked, keys + from,
                 64 - from, &match);
    qsbr_offline(reader);
    return worker_set_has(&match.slots, slot) ? match.depth[slot] : 0;
}

/* A record of the slot's owner. */
static void
tell(enum event_kind kind, uint32_t slot, uint32_t from, uint32_t count)
{
    role_is_control();
    uint64_t words[65] = {event_op(kind, TIER_DEVICE, count)};

    memcpy(words + 1, keys + from, count * sizeof(*words));
    expectations_confirm(expectations, slot, words, count + 1);
}

Test(expectations, what_was_sent_is_expected)
{
    role_is_control();
    expectations_add(expectations, 5, keys, 10, 100);
    cr_assert_eq(depth(5, 0), 10);
    cr_assert_eq(depth(6, 0), 0);
}

Test(expectations, what_an_event_stores_is_expected_no_longer)
{
    role_is_control();
    expectations_add(expectations, 5, keys, 10, 100);
    tell(EVENT_STORE, 5, 0, 4);
    cr_assert_eq(depth(5, 0), 0);
    cr_assert_eq(depth(5, 4), 6);
}

Test(expectations, a_removal_ends_no_expectation)
{
    role_is_control();
    expectations_add(expectations, 5, keys, 10, 100);
    tell(EVENT_REMOVE, 5, 0, 4);
    cr_assert_eq(depth(5, 0), 10);
}

Test(expectations, events_of_others_change_nothing)
{
    role_is_control();
    cr_assert_eq(expectations_open(expectations, 6), 0);
    expectations_add(expectations, 5, keys, 10, 100);
    tell(EVENT_STORE, 6, 0, 10);
    tell(EVENT_STORE, 7, 0, 10); /* nobody's */
    cr_assert_eq(depth(5, 0), 10);
}

Test(expectations, what_no_event_stores_is_given_up_for_its_age)
{
    role_is_control();
    struct expectations_stats stats;

    expectations_add(expectations, 5, keys, 10, 100);
    expectations_add(expectations, 5, keys + 10, 10, 200);
    (void)expectations_work(expectations, 1000, 100 + TTL_US - 1);
    cr_assert_eq(depth(5, 0), 20);
    (void)expectations_work(expectations, 1000, 100 + TTL_US);
    cr_assert_eq(depth(5, 0), 0);
    cr_assert_eq(depth(5, 10), 10);
    expectations_stats(expectations, &stats);
    cr_assert_eq(stats.given_up, 10);
    cr_assert_eq(stats.added, 20);
}

Test(expectations, only_what_was_expected_counts_as_confirmed_or_given_up)
{
    role_is_control();
    struct expectations_stats stats;

    expectations_add(expectations, 5, keys, 10, 100);
    tell(EVENT_STORE, 5, 4, 10);
    expectations_add(expectations, 5, keys, 2, 150);
    (void)expectations_work(expectations, 1000, 150 + TTL_US);
    expectations_stats(expectations, &stats);
    cr_assert_eq(stats.confirmed, 6);
    cr_assert_eq(stats.given_up, 4);
    cr_assert_eq(stats.blocks, 0);
}

Test(expectations, a_closed_slot_expects_nothing_nor_does_the_next_owner)
{
    role_is_control();
    expectations_add(expectations, 5, keys, 10, 100);
    expectations_close(expectations, 5);
    cr_assert_eq(depth(5, 0), 0);
    while (expectations_open(expectations, 5) != 0) {
        (void)expectations_work(expectations, 100000, 100);
    }
    cr_assert_eq(depth(5, 0), 0);
    expectations_add(expectations, 5, keys, 3, 150);
    /* The old owner's turn comes, and takes nothing of the new one's. */
    (void)expectations_work(expectations, 1000, 100 + TTL_US);
    cr_assert_eq(depth(5, 0), 3);
}

Test(expectations, what_does_not_fit_is_refused_and_counted)
{
    role_is_control();
    struct expectations_stats stats;

    for (uint64_t i = 0; i < 20000; i++) {
        expectations_add(expectations, 5, keys, 64, 100);
    }
    expectations_stats(expectations, &stats);
    cr_assert_gt(stats.refused, 0);
    cr_assert_eq(stats.added + stats.refused, 64U * 20000);
    while (expectations_work(expectations, 100000, 100 + TTL_US)) {
    }
    cr_assert_eq(depth(5, 0), 0);
    expectations_add(expectations, 5, keys, 64, 100 + TTL_US);
    cr_assert_eq(depth(5, 0), 64);
}

static struct mirror *
open_mirror(uint32_t stored)
{
    struct mirror_limits limits = {.bytes_max = (size_t)16 << 20};
    uint64_t words[65] = {event_op(EVENT_STORE, TIER_DEVICE, stored)};
    struct mirror *mirror;

    memcpy(words + 1, keys, stored * sizeof(*words));
    cr_assert_eq(mirror_new(&mirror, &limits, &qsbr), 0);
    cr_assert_eq(mirror_open_at(mirror, 5), 0);
    cr_assert_eq(
        mirror_apply(mirror, 5, words, stored + 1, EVENT_HOLES_UNKNOWN), 0);
    return mirror;
}

Test(expectations, what_is_held_by_now_is_not_expected)
{
    role_is_control();
    struct mirror *mirror = open_mirror(6);

    expectations_add_missing(expectations, mirror, 5, keys, 10, 100);
    cr_assert_eq(depth(5, 0), 0);
    cr_assert_eq(depth(5, 6), 4);
    expectations_add_missing(expectations, mirror, 5, keys, 6, 100);
    cr_assert_eq(depth(5, 0), 0);
    mirror_free(mirror);
}

Test(expectations, depth_goes_on_where_the_mirror_ends)
{
    role_is_control();
    struct mirror *mirror = open_mirror(6);

    cr_assert_eq(expectations_depth(expectations, mirror, 5, keys, 64), 6);
    expectations_add(expectations, 5, keys + 6, 4, 100);
    cr_assert_eq(expectations_depth(expectations, mirror, 5, keys, 64), 10);
    cr_assert_eq(expectations_depth(expectations, mirror, 5, keys, 8), 8);
    cr_assert_eq(expectations_depth(expectations, mirror, 5, keys + 8, 56), 2);
    cr_assert_eq(expectations_depth(expectations, mirror, 5, keys + 10, 54), 0);
    mirror_free(mirror);
}

/* Nothing tells of the eviction of what no event told of. */
Test(expectations, what_an_answer_proved_outlives_what_was_sent)
{
    role_is_control();
    struct expectations_stats stats;

    expectations_add(expectations, 5, keys, 8, 1);
    expectations_prove(expectations, 5, keys, 6, 1);
    (void)expectations_work(expectations, 1000, TTL_US + 1);
    cr_assert_eq(depth(5, 0), 6);
    (void)expectations_work(expectations, 1000, 10 * TTL_US);
    cr_assert_eq(depth(5, 0), 6);
    (void)expectations_work(expectations, 1000, 10 * TTL_US + 1);
    cr_assert_eq(depth(5, 0), 0);
    expectations_stats(expectations, &stats);
    cr_assert_eq(stats.proved, 6);
    cr_assert_eq(stats.blocks, 0);
}

Test(expectations, an_event_takes_over_what_was_proved)
{
    role_is_control();
    expectations_prove(expectations, 5, keys, 8, 1);
    tell(EVENT_STORE, 5, 6, 1);
    cr_assert_eq(depth(5, 0), 6);
    tell(EVENT_REMOVE, 5, 3, 1);
    cr_assert_eq(depth(5, 0), 3);
}

Test(expectations, an_answer_that_found_less_disproves)
{
    role_is_control();
    expectations_prove(expectations, 5, keys, 8, 1);
    expectations_add(expectations, 5, keys + 6, 2, 1);
    expectations_disprove(expectations, 5, keys + 4, 4);
    cr_assert_eq(depth(5, 0), 4);
    cr_assert_eq(depth(5, 6), 2, "they were sent there just now");
}

Test(expectations, what_was_proved_goes_with_the_slot)
{
    role_is_control();
    expectations_prove(expectations, 5, keys, 8, 1);
    expectations_close(expectations, 5);
    while (expectations_work(expectations, 1000, 1)) {
    }
    cr_assert_eq(expectations_open(expectations, 5), 0);
    cr_assert_eq(depth(5, 0), 0);
    expectations_prove(expectations, 5, keys, 8, 2);
    (void)expectations_work(expectations, 1000, 10 * TTL_US + 1);
    cr_assert_eq(depth(5, 0), 8, "the first owner's age ended nothing of it");
}

Test(expectations, proofs_have_a_bound)
{
    role_is_control();
    struct expectations_stats stats;

    for (uint32_t i = 0; i < 100000; i++) {
        expectations_prove(expectations, 5, keys, 64, 1);
    }
    expectations_stats(expectations, &stats);
    cr_assert_gt(stats.refused, 0);
    cr_assert_leq(stats.bytes, (size_t)16 << 20);
}
