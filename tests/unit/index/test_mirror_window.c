/* What sliding windows leave of a hit, against the rule taken literally. */
#include <criterion/criterion.h>

#include "index/base/rng.h"
#include "index/index.h"

#define KEYS   80
#define SLOTS  5
#define GROUPS 3

static struct qsbr qsbr;
static struct mirror *mirror;
static uint64_t keys[KEYS];
static uint32_t slots[SLOTS];
static bool held[SLOTS][GROUPS][KEYS]; /* in windows */
static uint32_t full[SLOTS];           /* by full attention */
static struct mirror_match match;

static void
setup(void)
{
    struct mirror_limits limits = {.bytes_max = 64 << 20};

    qsbr_init(&qsbr);
    cr_assert_eq(mirror_new(&mirror, &limits, &qsbr), 0);
    for (uint32_t s = 0; s < SLOTS; s++) {
        cr_assert_eq(mirror_open(mirror, &slots[s]), 0);
        full[s] = 0;
        for (uint32_t g = 0; g < GROUPS; g++) {
            memset(held[s][g], 0, sizeof held[s][g]);
        }
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        keys[i] = rng_mix(i);
    }
}

static void
teardown(void)
{
    mirror_free(mirror);
    qsbr_fini(&qsbr);
}

TestSuite(index_mirror_window, .init = setup, .fini = teardown);

static void
say(enum event_kind kind, uint32_t s, uint64_t key)
{
    uint64_t words[] = {event_op(kind, TIER_DEVICE, 1), key};

    cr_assert_eq(mirror_apply(mirror, slots[s], words, 2, 0), 0);
}

static void
hold_full(uint32_t s, uint32_t depth)
{
    for (uint32_t i = full[s]; i < depth; i++) {
        say(EVENT_STORE, s, keys[i]);
    }
    full[s] = depth;
}

static void
hold_window(uint32_t s, uint32_t g, uint32_t i, bool now)
{
    if (held[s][g][i] != now) {
        held[s][g][i] = now;
        say(now ? EVENT_STORE : EVENT_REMOVE, s, key_in_window(keys[i], g));
    }
}

static uint32_t
literally(uint32_t s, uint32_t window, uint32_t groups, uint32_t most)
{
    uint32_t depth = full[s] < most ? full[s] : most;

    for (;; depth--) {
        bool served = true;
        for (uint32_t i = depth; i > 0 && i + window > depth; i--) {
            for (uint32_t g = 0; g < groups; g++) {
                served = served && held[s][g][i - 1];
            }
        }
        if (served) {
            return depth;
        }
    }
}

static void
look(uint32_t window, uint32_t groups, uint32_t most)
{
    struct worker_set asked = {.word = {0}};

    for (uint32_t s = 0; s < SLOTS; s++) {
        worker_set_add(&asked, slots[s]);
    }
    mirror_match(mirror, &asked, keys, KEYS, &match);
    mirror_match_windows(mirror, &asked, keys, shape_of(16, window, groups),
                         most, &match);
}

static uint32_t
depth_of(uint32_t s)
{
    return worker_set_has(&match.slots, slots[s]) ? match.depth[slots[s]] : 0;
}

Test(index_mirror_window, a_hit_ends_where_each_window_is_whole)
{
    hold_full(0, 40);
    look(4, 1, KEYS);
    cr_assert_eq(depth_of(0), 0, "no window holds anything");
    for (uint32_t i = 20; i < 24; i++) {
        hold_window(0, 0, i, true);
    }
    look(4, 1, KEYS);
    cr_assert_eq(depth_of(0), 24);
    look(4, 2, KEYS);
    cr_assert_eq(depth_of(0), 0, "the second group has none of it");
    hold_window(0, 0, 21, false);
    look(4, 1, KEYS);
    cr_assert_eq(depth_of(0), 0);
}

Test(index_mirror_window, a_beginning_shorter_than_the_window_is_enough)
{
    hold_full(0, 40);
    hold_window(0, 0, 0, true);
    hold_window(0, 0, 1, true);
    look(4, 1, KEYS);
    cr_assert_eq(depth_of(0), 2);
    cr_assert_eq(match.best, 2);
}

Test(index_mirror_window, what_is_not_usable_is_left_out_before_the_search)
{
    hold_full(0, 10);
    for (uint32_t i = 6; i < 10; i++) {
        hold_window(0, 0, i, true);
    }
    look(4, 1, 10);
    cr_assert_eq(depth_of(0), 10);
    look(4, 1, 9);
    cr_assert_eq(depth_of(0), 0, "block 5 is needed for a hit of 9");
}

Test(index_mirror_window, a_window_of_one_token_asks_for_nothing)
{
    hold_full(0, 10);
    look(0, 1, KEYS);
    cr_assert_eq(depth_of(0), 10);
}

Test(index_mirror_window, any_state_gives_what_the_rule_says)
{
    struct rng rng;

    rng_init(&rng, 5);
    for (uint32_t turn = 0; turn < 3000; turn++) {
        uint32_t s = (uint32_t)rng_below(&rng, SLOTS);
        uint32_t from = (uint32_t)rng_below(&rng, KEYS);
        uint32_t count = (uint32_t)rng_below(&rng, KEYS - from) + 1;
        bool now = rng_below(&rng, 4) != 0;
        for (uint32_t i = from; i < from + count; i++) {
            for (uint32_t g = 0; g < GROUPS; g++) {
                hold_window(s, g, i, now && rng_below(&rng, 50) != 0);
            }
        }
        if (full[s] < KEYS) {
            hold_full(s, full[s] + (uint32_t)rng_below(&rng, 4) %
                                       (KEYS + 1 - full[s]));
        }
        uint32_t window = 1 + (uint32_t)rng_below(&rng, 40);
        uint32_t groups = 1 + (uint32_t)rng_below(&rng, GROUPS);
        uint32_t most = (uint32_t)rng_below(&rng, KEYS + 1);
        look(window, groups, most);
        for (uint32_t i = 0; i < SLOTS; i++) {
            cr_assert_eq(depth_of(i), literally(i, window, groups, most),
                         "turn %u: %u", turn, depth_of(i));
        }
    }
}
