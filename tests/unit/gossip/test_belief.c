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
    lab.cut[2] = true;
    decide(7, 0, 10);
    lab_run(&lab, config.belief_ms);
    lab.cut[2] = false;
    lab_run(&lab, 1000);
    cr_assert_eq(lab.nodes[2].beliefs, 0);
    cr_assert_eq(lab.nodes[1].beliefs, 1);
}
