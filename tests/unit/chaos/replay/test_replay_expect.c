#include <criterion/criterion.h>

#include "chaos/replay/replay_expect.h"
#include "index/base/rng.h"
#include "node/node.h"

#define BYTES_MAX ((size_t)8 << 20)
#define TTL_MS    100U
#define SLOTS     3U
#define PROMPTS   16U
#define BLOCKS    24U
#define SEEDS     40U
#define STEPS     1500U

static struct qsbr qsbr;
static struct replay_expect *expect;
static struct expectations *plain;
static struct rng rng;
static uint64_t now_us;
static uint64_t prompt[PROMPTS][BLOCKS];

static void
setup(void)
{
    struct expectations_limits limits = {.bytes_max = BYTES_MAX,
                                         .ttl_ms = TTL_MS};

    role_is_control();
    qsbr_init(&qsbr);
    now_us = 1000;
    cr_assert_eq(replay_expect_new(&expect, BYTES_MAX, TTL_MS, SLOTS, &qsbr),
                 0);
    cr_assert_eq(expectations_new(&plain, &limits, &qsbr), 0);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        cr_assert_eq(expectations_open(plain, slot), 0);
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        prompt[0][i] = rng_mix(i + 1);
        prompt[1][i] = i < 4 ? prompt[0][i] : rng_mix(i + 101);
    }
}

static void
teardown(void)
{
    replay_expect_free(expect);
    expectations_free(plain);
    qsbr_fini(&qsbr);
}

TestSuite(chaos_replay_expect, .init = setup, .fini = teardown);

static struct replay_part
part(uint32_t p, uint32_t from, uint32_t to)
{
    return (struct replay_part){
        .keys = prompt[p] + from, .depth = from, .count = to - from};
}

/* Both are told of everything. */
static void
add(uint32_t slot, uint32_t p, uint32_t from, uint32_t to)
{
    role_is_control();
    cr_assert(replay_expect_add(expect, slot, part(p, from, to), now_us));
    expectations_add(plain, slot, prompt[p] + from, to - from, now_us);
}

static void
tell(uint32_t slot, enum event_kind kind, uint32_t p, uint32_t from,
     uint32_t to)
{
    uint64_t words[BLOCKS + 1] = {event_op(kind, TIER_DEVICE, to - from)};

    role_is_control();
    memcpy(words + 1, prompt[p] + from, (to - from) * sizeof(*words));
    replay_expect_confirm(expect, slot, words, to - from + 1);
    expectations_confirm(plain, slot, words, to - from + 1);
}

static void
pass(uint64_t us)
{
    role_is_control();
    now_us += us;
    replay_expect_work(expect, now_us);
    (void)expectations_work(plain, UINT32_MAX, now_us);
}

/* What is expected of the prompt there from a block on; both say the same. */
static uint32_t
depth(uint32_t slot, uint32_t p, uint32_t from)
{
    uint32_t held;
    const char *reason;

    role_is_control();
    uint32_t found =
        replay_expect_depth(expect, NULL, slot, part(p, from, BLOCKS), &held);
    cr_assert_eq(held, 0);
    cr_assert_eq(
        found,
        expectations_depth(plain, NULL, slot, prompt[p] + from, BLOCKS - from),
        "prompt %u at slot %u from %u on", p, slot, from);
    cr_assert(replay_expect_check(expect, &reason), "%s", reason);
    return found;
}

static uint64_t
indexed(uint32_t slot)
{
    return mirror_slot_blocks(replay_expect_index(expect), slot);
}

Test(chaos_replay_expect, what_comes_in_its_order_is_never_indexed)
{
    add(0, 0, 0, BLOCKS);
    cr_assert_eq(depth(1, 0, 0), 0);
    for (uint32_t i = 0; i < BLOCKS; i += 3) {
        tell(0, EVENT_STORE, 0, i, i + 3);
        cr_assert_eq(indexed(0), 0);
    }
    cr_assert_eq(depth(0, 0, 0), 0);
    cr_assert_eq(indexed(0), 0);
}

Test(chaos_replay_expect, a_shared_block_is_found_by_who_looks)
{
    add(0, 0, 0, BLOCKS);
    tell(0, EVENT_STORE, 0, 0, 2);
    cr_assert_eq(depth(0, 1, 2), 2);
    cr_assert_eq(indexed(0), BLOCKS - 2);
    cr_assert_eq(depth(0, 0, 2), BLOCKS - 2);
    tell(0, EVENT_STORE, 0, 2, BLOCKS);
    cr_assert_eq(indexed(0), 0);
}

/* Its own blocks are behind those that it shares. */
Test(chaos_replay_expect, what_shares_only_what_is_held_stays_out_of_the_index)
{
    add(0, 0, 4, BLOCKS);
    add(0, 1, 4, BLOCKS);
    cr_assert_eq(depth(0, 1, 0), 0);
    cr_assert_eq(indexed(0), BLOCKS - 4);
    tell(0, EVENT_STORE, 0, 4, BLOCKS);
    cr_assert_eq(indexed(0), BLOCKS - 4);
    cr_assert_eq(depth(0, 1, 4), BLOCKS - 4);
}

Test(chaos_replay_expect, another_order_than_the_prompts_is_fine)
{
    add(0, 0, 0, BLOCKS);
    tell(0, EVENT_STORE, 0, 10, 12);
    cr_assert_eq(depth(0, 0, 0), 10);
    cr_assert_eq(depth(0, 0, 10), 0);
    cr_assert_eq(depth(0, 0, 12), BLOCKS - 12);
}

Test(chaos_replay_expect, a_decision_is_given_up_with_what_others_wait_for)
{
    add(0, 0, 0, 6);
    tell(0, EVENT_STORE, 0, 0, 6);
    pass(TTL_MS * 500);
    add(0, 0, 0, BLOCKS);
    pass(TTL_MS * 500);
    cr_assert_eq(depth(0, 0, 0), 0);
    cr_assert_eq(depth(0, 0, 6), BLOCKS - 6);
    pass(TTL_MS * 500);
    cr_assert_eq(depth(0, 0, 6), 0);
}

Test(chaos_replay_expect, without_room_nothing_is_expected)
{
    struct replay_expect *small;
    uint32_t added = 0;

    role_is_control();
    cr_assert_eq(replay_expect_new(&small, (size_t)1 << 20, TTL_MS, 1, &qsbr),
                 0);
    while (added < 1U << 20 &&
           replay_expect_add(small, 0, part(0, 0, BLOCKS), now_us)) {
        added++;
    }
    cr_assert(added > 1000 && added < 1U << 20);
    replay_expect_work(small, now_us + TTL_MS * 1000);
    cr_assert(replay_expect_add(small, 0, part(0, 0, BLOCKS),
                                now_us + TTL_MS * 1000));
    replay_expect_free(small);
}

/* Each prompt goes on from a part of an earlier one. */
static void
draw_prompts(void)
{
    for (uint32_t p = 0; p < PROMPTS; p++) {
        uint32_t from = p > 0 ? (uint32_t)rng_below(&rng, p) : 0;
        uint32_t shared = p > 0 ? (uint32_t)rng_below(&rng, BLOCKS) : 0;
        for (uint32_t i = 0; i < BLOCKS; i++) {
            prompt[p][i] = i < shared ? prompt[from][i] : rng_next(&rng);
        }
    }
}

static void
draw_range(uint32_t *from, uint32_t *to)
{
    *from = (uint32_t)rng_below(&rng, BLOCKS);
    *to = *from + 1 + (uint32_t)rng_below(&rng, BLOCKS - *from);
}

static void
step(uint32_t next[SLOTS][PROMPTS])
{
    uint32_t slot = (uint32_t)rng_below(&rng, SLOTS);
    uint32_t p = (uint32_t)rng_below(&rng, PROMPTS);
    uint32_t *at = &next[slot][p];
    uint32_t from;
    uint32_t to;

    draw_range(&from, &to);
    switch (rng_below(&rng, 8)) {
    case 0:
        add(slot, p, from, to);
        *at = from;
        break;
    case 1:
        add(slot, p, from, BLOCKS);
        *at = from;
        break;
    case 2: /* as engines do */
    case 3:
        to = *at + 1 + (uint32_t)rng_below(&rng, 6);
        to = to < BLOCKS ? to : BLOCKS;
        if (*at < to) {
            tell(slot, EVENT_STORE, p, *at, to);
        }
        *at = to;
        break;
    case 4:
        tell(slot, rng_below(&rng, 3) > 0 ? EVENT_STORE : EVENT_REMOVE, p, from,
             to);
        break;
    case 5:
        pass(rng_below(&rng, TTL_MS * 100));
        break;
    default:
        (void)depth(slot, p, from);
    }
}

Test(chaos_replay_expect, it_is_what_nodes_expect)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint32_t next[SLOTS][PROMPTS] = {{0}};
        rng_init(&rng, seed);
        draw_prompts();
        for (uint32_t i = 0; i < STEPS; i++) {
            step(next);
        }
        pass(TTL_MS * 2000);
        cr_assert_eq(indexed(0) + indexed(1) + indexed(2), 0);
    }
}
