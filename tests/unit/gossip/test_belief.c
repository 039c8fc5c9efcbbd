#include <criterion/criterion.h>

#include "lab.h"

static struct lab lab;
static struct gossip_config config;
static uint64_t keys[10000];

static void
setup(void)
{
    config = gossip_config_default();
    for (uint32_t i = 0; i < 10000; i++) {
        keys[i] = 1000 + i;
    }
    lab_begin(&lab, &config, 3);
    lab_run(&lab, 20);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_belief, .init = setup, .fini = teardown);

static void
decide(uint64_t worker, uint32_t from, uint32_t count)
{
    struct gossip_belief belief = {.worker = worker,
                                   .root = 5,
                                   .parent = from == 0 ? 5 : keys[from - 1],
                                   .from = from,
                                   .count = count,
                                   .keys = keys + from};

    gossip_belief_add(lab.nodes[0].g, &belief, lab.now_us);
}

static void
expect(uint64_t worker, uint32_t from, uint32_t count)
{
    struct gossip_belief belief = {.worker = worker,
                                   .rank = 3,
                                   .count = count,
                                   .keys = keys + from,
                                   .expected = true};

    gossip_belief_add(lab.nodes[0].g, &belief, lab.now_us);
}

Test(gossip_belief, a_decision_reaches_all_peers)
{
    decide(7, 3, 20);
    lab_run(&lab, config.belief_ms);
    for (uint32_t i = 1; i < 3; i++) {
        const struct lab_node *node = &lab.nodes[i];
        cr_assert_eq(node->beliefs, 1);
        cr_assert_eq(node->belief.worker, 7);
        cr_assert_eq(node->belief.root, 5);
        cr_assert_eq(node->belief.from, 3);
        cr_assert_eq(node->belief.parent, keys[2]);
        cr_assert_eq(node->belief.count, 20);
        cr_assert_eq(node->belief_first, keys[3]);
        cr_assert_eq(node->belief_last, keys[22]);
    }
}

Test(gossip_belief, decisions_of_one_moment_share_a_frame)
{
    uint64_t before = lab.types[9];

    for (uint32_t i = 0; i < 50; i++) {
        decide(i, 0, 10);
    }
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(lab.types[9], before + 2);
    cr_assert_eq(lab.nodes[2].beliefs, 50);
}

Test(gossip_belief, a_frame_with_a_broken_decision_is_refused_whole)
{
    decide(7, 0, 3);
    decide(8, 0, 3);
    lab.now_us += config.belief_ms * LAB_MS;
    gossip_tick(lab.nodes[0].g, lab.now_us);
    lab_pull(&lab);
    cr_assert_geq(lab.frames_count, 1);
    const struct lab_frame *frame = &lab.frames[0];
    uint32_t to = frame->to == lab.nodes[1].id ? 1 : 2;
    cr_assert_eq(gossip_recv(lab.nodes[to].g, frame->from, frame->bytes,
                             frame->len - 1, lab.now_us),
                 GOSSIP_E_BAD);
    lab_lose(&lab);
    lab_pull(&lab);
    cr_assert_eq(lab.nodes[to].beliefs, 0);
}

Test(gossip_belief, of_too_many_the_newest_matter)
{
    for (uint32_t i = 0; i < 100; i++) {
        decide(i, 0, 500);
    }
    lab_run(&lab, config.belief_ms);
    cr_assert_lt(lab.nodes[2].beliefs, 100);
    cr_assert_eq(lab.nodes[2].belief.worker, 99);
    cr_assert_eq(lab_stats(&lab, 0).beliefs_dropped,
                 100 - lab.nodes[2].beliefs);
}

Test(gossip_belief, one_that_is_too_long_is_cut_to_a_prefix)
{
    decide(7, 0, 10000);
    lab_run(&lab, config.belief_ms);
    cr_assert_gt(lab.nodes[2].belief.count, 8000);
    cr_assert_lt(lab.nodes[2].belief.count, 10000);
    cr_assert_eq(lab.nodes[2].belief_first, keys[0]);
}

Test(gossip_belief, what_is_lost_is_not_asked_for)
{
    lab.severed[2] = true;
    decide(7, 0, 10);
    lab_run(&lab, config.belief_ms);
    lab.severed[2] = false;
    lab_run(&lab, 1000);
    cr_assert_eq(lab.nodes[2].beliefs, 0);
    cr_assert_eq(lab.nodes[1].beliefs, 1);
}

Test(gossip_belief, what_is_expected_reaches_all_peers)
{
    expect(7, 40, 20);
    lab_run(&lab, config.belief_ms);
    for (uint32_t i = 1; i < 3; i++) {
        const struct lab_node *node = &lab.nodes[i];
        cr_assert_eq(node->beliefs, 1);
        cr_assert(node->belief.expected);
        cr_assert_eq(node->belief.worker, 7);
        cr_assert_eq(node->belief.rank, 3);
        cr_assert_eq(node->belief.count, 20);
        cr_assert_eq(node->belief_first, keys[40]);
        cr_assert_eq(node->belief_last, keys[59]);
    }
    cr_assert_eq(lab_stats(&lab, 0).expected_out, 1);
    cr_assert_eq(lab_stats(&lab, 1).expected_in, 1);
    cr_assert_eq(lab_stats(&lab, 1).beliefs_in, 0);
}

Test(gossip_belief, what_is_expected_is_no_request)
{
    expect(7, 0, 20);
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(gossip_gauge_others(lab.nodes[1].g, 7).inflight, 0);
    decide(7, 0, 20);
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(gossip_gauge_others(lab.nodes[1].g, 7).inflight, 1);
}

Test(gossip_belief, both_kinds_of_one_moment_take_a_frame_each)
{
    uint64_t beliefs = lab.types[9];
    uint64_t expected = lab.types[10];

    for (uint32_t i = 0; i < 50; i++) {
        decide(i, 0, 10);
        expect(i, 20, 10);
    }
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(lab.types[9], beliefs + 2);
    cr_assert_eq(lab.types[10], expected + 2);
    cr_assert_eq(lab.nodes[2].beliefs, 100);
}

Test(gossip_belief, many_of_one_kind_leave_the_other_its_half)
{
    for (uint32_t i = 0; i < 7; i++) {
        decide(i, 0, 500);
    }
    for (uint32_t i = 0; i < 100; i++) {
        expect(i, 0, 500);
    }
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(lab_stats(&lab, 0).beliefs_dropped, 0);
    cr_assert_eq(lab_stats(&lab, 2).beliefs_in, 7);
    cr_assert_geq(lab_stats(&lab, 2).expected_in, 1);
    uint64_t before = lab_stats(&lab, 0).expected_dropped;
    for (uint32_t i = 0; i < 7; i++) {
        expect(i, 0, 500);
    }
    for (uint32_t i = 0; i < 100; i++) {
        decide(i, 0, 500);
    }
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(lab_stats(&lab, 0).expected_dropped, before);
    cr_assert_gt(lab_stats(&lab, 0).beliefs_dropped, 0);
}

Test(gossip_belief, what_one_kind_does_not_use_the_other_may)
{
    for (uint32_t i = 0; i < 14; i++) {
        expect(i, 0, 500);
    }
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(lab.nodes[2].beliefs, 14);
    for (uint32_t i = 0; i < 14; i++) {
        expect(i, 0, 500);
    }
    decide(7, 0, 500); /* has a right to its half */
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(lab_stats(&lab, 0).beliefs_dropped, 0);
    cr_assert_eq(lab_stats(&lab, 2).beliefs_in, 1);
}

Test(gossip_belief, a_long_one_is_cut_to_what_the_other_kind_leaves)
{
    decide(7, 0, 3000);
    expect(7, 0, 10000);
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(lab_stats(&lab, 2).beliefs_in, 1);
    cr_assert_gt(lab.nodes[2].belief.count, 5000);
    cr_assert_lt(lab.nodes[2].belief.count, 5200);
    cr_assert_eq(lab.nodes[2].belief_first, keys[0]);
}
