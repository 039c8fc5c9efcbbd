/* Three nodes that tell each other how fast workers are. */
#include "node/limits/limits_table.h"
#include "node/peers/hints_speed.h"
#include "tests/unit/node/peers/gossip_rig.h"

static struct speed_shared shared[NODES];
static struct fleet_view view[NODES]; /* the same worker in another slot */
static struct fleet_worker worker[NODES][WORKERS_MAX];

static void
add_worker(uint32_t at, uint32_t slot, uint64_t identity, uint32_t generation)
{
    worker[at][slot] = (struct fleet_worker){
        .slot = slot, .identity = identity, .generation = generation};
    worker_set_add(&view[at].present, slot);
    view[at].worker[slot] = &worker[at][slot];
    view[at].identity[slot] = identity;
}

static void
remove_worker(uint32_t at, uint32_t slot)
{
    worker_set_remove(&view[at].present, slot);
    view[at].worker[slot] = NULL;
    view[at].identity[slot] = 0;
}

static void
setup(void)
{
    rig_start();
    memset(shared, 0, sizeof(shared));
    memset(view, 0, sizeof(view));
    for (uint32_t at = 0; at < NODES; at++) {
        add_worker(at, at, 77, 1 + at);
    }
    link_all(NODES);
}

TestSuite(node_hints_speed, .init = setup, .fini = teardown);

/* Tells, and lets all hear it. */
static void
share(void)
{
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t at = 0; at < NODES; at++) {
            hints_share_speed(&nodes[at], &shared[at], &view[at], now_us);
        }
        pass(200);
    }
}

/* Samples of 1,000 tokens at a node's worker, whose slot is that of the node. */
static void
serve(uint32_t at, uint32_t samples, uint64_t us)
{
    for (uint32_t i = 0; i < samples; i++) {
        speed_add(&shared[at].own, at, 1 + at, 1000, us);
    }
}

static uint32_t
rate(uint32_t at)
{
    return speed_rate(&shared[at].all, at);
}

Test(node_hints_speed, who_served_nothing_knows_what_a_peer_learned)
{
    share();
    cr_expect_eq(rate(1), 0);
    serve(0, 20, 100000);                          /* 10,000 a second */
    for (uint32_t round = 0; round < 5; round++) { /* however often */
        share();
        for (uint32_t at = 0; at < NODES; at++) {
            cr_expect(rate(at) > 9700 && rate(at) < 10300, "%u at %u", rate(at),
                      at);
            uint32_t count = shared[at].all.worker[at].of[2].count;
            cr_expect_eq(count, at == 0 ? 20U : 16U, "%u at %u", count, at);
        }
    }
    cr_expect_eq(speed_rate(&shared[1].own, 1), 0, "it goes no further");
}

Test(node_hints_speed, all_count_each_others_samples_once)
{
    serve(0, 16, 50000);
    serve(1, 16, 200000);
    for (uint32_t round = 0; round < 3; round++) {
        share();
        for (uint32_t at = 0; at < NODES; at++) {
            cr_expect_eq(shared[at].all.worker[at].of[2].count, 32);
            cr_expect(rate(at) > 9700 && rate(at) < 10300, "%u at %u", rate(at),
                      at);
        }
    }
}

Test(node_hints_speed, what_faded_at_a_peer_is_taken_back)
{
    serve(0, 4, 100000);
    share();
    cr_assert_gt(rate(1), 0);
    speed_pass(&shared[0].own, now_us + SPEED_HALF_MS * UINT64_C(1000));
    share();
    cr_expect_eq(rate(1), 0);
}

Test(node_hints_speed, a_worker_that_went_leaves_nothing_behind)
{
    serve(0, 20, 100000);
    share();
    cr_assert_gt(rate(1), 0);
    remove_worker(0, 0);
    share();
    cr_expect_eq(rate(1), 0, "taken back");
    cr_expect_eq(rate(0), 0);
    cr_expect_eq(shared[0].told[0].worker, 0);
    serve(1, 20, 100000);
    add_worker(0, 0, 99, 5); /* another one in its slot */
    share();
    cr_expect_eq(rate(0), 0);
    cr_expect_gt(rate(2), 0);
    add_worker(0, 0, 77, 6);
    share();
    cr_expect_gt(rate(0), 0, "peers know");
}

Test(node_hints_speed, a_node_that_starts_again_knows_at_once)
{
    struct gossip_config config = gossip_config_default();

    serve(0, 20, 100000);
    share();
    gossip_free(nodes[1].gossip);
    nodes[1].gossip = NULL;
    gossip_peer_down(nodes[0].gossip, 2, now_us);
    gossip_peer_down(nodes[2].gossip, 2, now_us);
    cr_assert_eq(gossip_new(&nodes[1].gossip, &config, 2, now_us, 12), 0);
    memset(&shared[1], 0, sizeof(shared[1]));
    for (uint32_t at = 0; at < NODES; at += 2) {
        cr_assert_eq(gossip_peer_up(nodes[at].gossip, 2, now_us), 0);
        cr_assert_eq(gossip_peer_up(nodes[1].gossip, at + 1, now_us), 0);
    }
    pass(config.gauge_all_ms + 200);
    share();
    cr_expect(rate(1) > 9700 && rate(1) < 10300, "%u", rate(1));
}

Test(node_hints_speed, many_workers_are_shared_one_after_the_other)
{
    for (uint32_t slot = NODES; slot < WORKERS_MAX; slot++) {
        for (uint32_t at = 0; at < NODES; at++) {
            add_worker(at, slot, 1000 + slot, 1);
        }
        for (uint32_t i = 0; i < 8; i++) {
            speed_add(&shared[0].own, slot, 1, 1000, 100000);
        }
    }
    /* Once around to tell all, once to hear all; share() goes on by twice. */
    for (uint32_t done = 0; done < 2 * WORKERS_MAX; done += 2 * HINTS_SPEEDS) {
        share();
    }
    for (uint32_t slot = NODES; slot < WORKERS_MAX; slot++) {
        cr_assert_gt(speed_rate(&shared[1].all, slot), 0, "slot %u", slot);
    }
    cr_expect_eq(nodes[0].stats.gauges_failed, 0);
}

/* Numbers as long as they get, besides 64 of what else there is. */
Test(node_hints_speed, all_workers_with_theirs_and_all_limits_have_room)
{
    const struct gossip_gauge gauge = {.inflight = UINT32_MAX,
                                       .blocks = UINT32_MAX,
                                       .queued_tokens = UINT64_MAX};
    uint64_t count =
        WORKERS_MAX * (1 + SPEED_TOLD_ROWS) + LIMITS_RULES_MAX + 64;

    for (uint64_t i = 1; i <= count; i++) {
        cr_assert(
            gossip_gauge_set(nodes[0].gossip, UINT64_MAX - i, &gauge, now_us),
            "%zu", (size_t)i);
    }
    pass(100);
    for (uint64_t i = 1; i <= count; i++) {
        cr_assert_eq(
            gossip_gauge_others(nodes[1].gossip, UINT64_MAX - i).queued_tokens,
            UINT64_MAX);
    }
}

Test(node_hints_speed, a_node_alone_has_its_own_samples)
{
    struct gossip *gossip = nodes[0].gossip;
    nodes[0].gossip = NULL;
    serve(0, 20, 100000);
    hints_share_speed(&nodes[0], &shared[0], &view[0], now_us);
    cr_expect_gt(rate(0), 0);
    nodes[0].gossip = gossip;
}
