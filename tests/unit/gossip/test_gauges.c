#include <criterion/criterion.h>

#include "lab.h"

static struct lab lab;
static struct gossip_config config;

static void
setup(void)
{
    config = gossip_config_default();
    lab_begin(&lab, &config, 3);
    lab_run(&lab, 100);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_gauges, .init = setup, .fini = teardown);

static void
set(uint32_t at, uint64_t worker, uint32_t inflight)
{
    struct gossip_gauge gauge = {
        .inflight = inflight, .blocks = 10 * inflight, .queued_tokens = 100};

    cr_assert(gossip_gauge_set(lab.nodes[at].g, worker, &gauge, lab.now_us));
}

static uint32_t
others(uint32_t at, uint64_t worker)
{
    return gossip_gauge_others(lab.nodes[at].g, worker).inflight;
}

Test(gossip_gauges, each_node_knows_the_sum_over_the_others)
{
    const uint32_t of_7[] = {4, 3, 7};
    const uint32_t of_8[] = {5, 5, 0};

    set(0, 7, 3);
    set(1, 7, 4);
    set(2, 8, 5);
    lab_run(&lab, config.gauge_ms + 1);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(others(i, 7), of_7[i]);
        cr_assert_eq(others(i, 8), of_8[i]);
    }
    struct gossip_gauge of_both = gossip_gauge_others(lab.nodes[2].g, 7);
    cr_assert_eq(of_both.queued_tokens, 200);
    cr_assert_eq(of_both.blocks, 40);
}

Test(gossip_gauges, a_sum_is_never_less_than_one_of_its_parts)
{
    struct gossip_gauge most = {.inflight = UINT32_MAX,
                                .queued_tokens = UINT64_MAX};

    set(0, 7, 5);
    cr_assert(gossip_gauge_set(lab.nodes[1].g, 7, &most, lab.now_us));
    lab_run(&lab, config.gauge_ms + 1);
    struct gossip_gauge sum = gossip_gauge_others(lab.nodes[2].g, 7);
    cr_assert_eq(sum.inflight, UINT32_MAX);
    cr_assert_eq(sum.queued_tokens, UINT64_MAX);
    struct gossip_belief begun = {.worker = 7};
    gossip_belief_add(lab.nodes[1].g, &begun, lab.now_us);
    lab_run(&lab, config.belief_ms + 1);
    cr_assert_eq(others(2, 7), UINT32_MAX);
}

Test(gossip_gauges, a_peers_own_are_known_once_it_has_told_all)
{
    struct gossip_gauge_peer peer;

    cr_assert(gossip_gauge_of(lab.nodes[2].g, 0, 7, &peer));
    cr_assert_not(peer.told);
    set(0, 7, 3);
    set(1, 7, 4);
    lab_run(&lab, config.gauge_all_ms + 1);
    uint32_t found = 0;
    uint32_t sum = 0;
    for (uint32_t place = 0; place < GOSSIP_PEERS_MAX; place++) {
        if (gossip_gauge_of(lab.nodes[2].g, place, 7, &peer)) {
            cr_assert(peer.told && peer.peer != 0);
            found++;
            sum += peer.gauge.inflight;
        }
        if (gossip_gauge_of(lab.nodes[2].g, place, 8, &peer)) {
            cr_assert_eq(peer.gauge.inflight, 0, "no row is one of zeros");
        }
    }
    cr_assert_eq(found, 2);
    cr_assert_eq(sum, 7);
}

Test(gossip_gauges, changes_travel_at_most_every_gauge_ms)
{
    uint64_t before = lab.types[8];

    for (uint32_t i = 1; i <= 500; i++) {
        set(0, 7, i);
        lab_run(&lab, 1);
    }
    cr_assert_leq(lab.types[8] - before, 2 * (500 / config.gauge_ms + 2));
    cr_assert_geq(others(1, 7), 500 - config.gauge_ms - 1);
}

Test(gossip_gauges, may_be_sent_before_they_are_due)
{
    set(0, 7, 1);
    lab_run(&lab, 1);
    uint64_t before = lab.types[8];
    set(0, 7, 2);
    gossip_gauges_flush(lab.nodes[0].g, lab.now_us);
    lab_run(&lab, 3);
    cr_assert_eq(others(1, 7), 2);
    cr_assert_eq(lab.types[8] - before, 2, "one for each peer");
    gossip_gauges_flush(lab.nodes[0].g, lab.now_us);
    lab_run(&lab, 3);
    cr_assert_eq(lab.types[8] - before, 2, "nothing has changed");
}

Test(gossip_gauges, are_gone_with_their_origin)
{
    set(0, 7, 3);
    set(1, 7, 4);
    lab_run(&lab, 100);
    gossip_peer_down(lab.nodes[2].g, lab.nodes[0].id, lab.now_us);
    cr_assert_eq(others(2, 7), 4);
}

Test(gossip_gauges, of_an_origin_that_fell_silent_are_forgotten)
{
    set(0, 7, 3);
    lab_run(&lab, 100);
    lab.severed[0] = true;
    lab_run(&lab, config.gauge_silent_ms + config.gauge_all_ms);
    cr_assert_eq(others(2, 7), 0);
    lab.severed[0] = false;
    lab_run(&lab, config.gauge_all_ms + 1);
    cr_assert_eq(others(2, 7), 3);
}

Test(gossip_gauges, the_newest_wins_whatever_comes_last)
{
    set(0, 7, 3);
    gossip_tick(lab.nodes[0].g, lab.now_us);
    lab_pull(&lab);
    cr_assert_eq(lab.frames_count, 2);
    struct lab_frame old = lab.frames[0];
    uint8_t bytes[64];
    memcpy(bytes, old.bytes, old.len);
    lab_carry(&lab);
    set(0, 7, 9);
    lab_run(&lab, 100);
    uint32_t to = old.to == lab.nodes[1].id ? 1 : 2;
    cr_assert_eq(
        gossip_recv(lab.nodes[to].g, old.from, bytes, old.len, lab.now_us), 0);
    cr_assert_eq(others(to, 7), 9);
}

Test(gossip_gauges, a_lost_change_is_made_good_by_the_next_full_frame)
{
    set(0, 7, 3);
    set(0, 8, 4);
    lab_run(&lab, 100);
    lab.severed[0] = true;
    set(0, 7, 0);
    lab_run(&lab, 100);
    lab.severed[0] = false;
    lab_run(&lab, config.gauge_all_ms);
    cr_assert_eq(others(1, 7), 0);
    cr_assert_eq(others(1, 8), 4);
}

Test(gossip_gauges, too_many_workers_are_refused)
{
    struct gossip_gauge gauge = {.inflight = 1};

    for (uint32_t i = 0; i < config.workers_max; i++) {
        set(0, 100 + i, 1);
    }
    cr_assert_not(gossip_gauge_set(lab.nodes[0].g, 99, &gauge, lab.now_us));
}

static void
move(uint32_t at, uint64_t worker, bool ended)
{
    struct gossip_belief belief = {.worker = worker, .ended = ended};

    gossip_belief_add(lab.nodes[at].g, &belief, lab.now_us);
}

Test(gossip_gauges, what_begins_and_ends_counts_before_the_next_gauges)
{
    uint64_t heard = gossip_gauges_heard(lab.nodes[1].g);

    set(0, 7, 3);
    lab_run(&lab, config.gauge_ms + 1);
    move(0, 7, false);
    move(0, 7, false);
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(others(1, 7), 5);
    cr_assert_eq(others(0, 7), 0);
    move(0, 7, true);
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(others(1, 7), 4);
    cr_assert_gt(gossip_gauges_heard(lab.nodes[1].g), heard);
    cr_assert_eq(lab.nodes[1].beliefs, 0);
}

Test(gossip_gauges, what_they_know_of_counts_once)
{
    lab_run(&lab, config.gauge_ms);
    move(0, 7, false); /* waits, and goes out right before the gauges */
    set(0, 7, 1);
    lab_run(&lab, 1);
    cr_assert_eq(others(1, 7), 1);
    lab_run(&lab, config.belief_ms + 1);
    cr_assert_eq(others(1, 7), 1);
}

Test(gossip_gauges, that_come_before_older_decisions_are_not_added_to)
{
    struct lab_node *node = &lab.nodes[0];
    struct gossip_out out;
    uint8_t late[256];
    size_t len = 0;

    lab_run(&lab, config.gauge_ms);
    move(0, 7, false);
    set(0, 7, 1);
    lab.now_us += LAB_MS;
    gossip_tick(node->g, lab.now_us);
    while (gossip_next_out(node->g, &out)) {
        if (out.kind != GOSSIP_SEND || out.peer != lab.nodes[1].id) {
            continue;
        }
        if (out.channel == GOSSIP_BULK) {
            cr_assert_leq(out.len, sizeof late);
            memcpy(late, out.bytes, out.len);
            len = out.len;
        } else {
            cr_assert_eq(gossip_recv(lab.nodes[1].g, node->id, out.bytes,
                                     out.len, lab.now_us),
                         0);
        }
    }
    cr_assert_eq(others(1, 7), 1);
    cr_assert_gt(len, 0);
    cr_assert_eq(gossip_recv(lab.nodes[1].g, node->id, late, len, lab.now_us),
                 0);
    cr_assert_eq(others(1, 7), 1);
}

Test(gossip_gauges, what_no_gauges_confirm_is_forgotten)
{
    move(0, 7, false);
    lab_run(&lab, config.belief_ms);
    cr_assert_eq(others(1, 7), 1);
    lab_run(&lab, 2 * config.gauge_ms + 1);
    cr_assert_eq(others(1, 7), 0);
}

Test(gossip_gauges, a_worker_at_zero_gives_its_place_to_another)
{
    struct gossip_gauge gauge = {.inflight = 1};

    for (uint32_t i = 0; i < config.workers_max; i++) {
        set(0, 100 + i, 1);
    }
    lab_run(&lab, config.gauge_ms + 1);
    gauge.inflight = 0;
    cr_assert(gossip_gauge_set(lab.nodes[0].g, 105, &gauge, lab.now_us));
    gauge.inflight = 4;
    cr_assert_not(gossip_gauge_set(lab.nodes[0].g, 99, &gauge, lab.now_us));
    lab_run(&lab, config.gauge_ms + 1); /* peers know of the zero */
    cr_assert(gossip_gauge_set(lab.nodes[0].g, 99, &gauge, lab.now_us));
    lab_run(&lab, config.gauge_ms + 1);
    cr_assert_eq(others(1, 99), 4);
    cr_assert_eq(others(1, 105), 0);
}

Test(gossip_gauges, a_full_frame_is_all_that_its_origin_has)
{
    struct gossip_gauge gauge = {.inflight = 0};

    for (uint32_t i = 0; i < config.workers_max; i++) {
        set(0, 100 + i, 1);
    }
    lab_run(&lab, config.gauge_ms + 1);
    lab.severed[0] = true; /* 100 goes and 99 comes while nobody hears of it */
    cr_assert(gossip_gauge_set(lab.nodes[0].g, 100, &gauge, lab.now_us));
    lab_run(&lab, config.gauge_ms + 1);
    set(0, 99, 4);
    lab_run(&lab, config.gauge_ms + 1);
    lab.severed[0] = false;
    lab_run(&lab, config.gauge_all_ms);
    cr_assert_eq(others(1, 99), 4);
    cr_assert_eq(others(1, 100), 0);
    cr_assert_eq(others(1, 101), 1);
}

/* More than there are places in an index of rows. */
Test(gossip_gauges, many_workers_may_come_and_go)
{
    struct gossip_gauge gauge = {.inflight = 0};

    for (uint32_t i = 1; i < config.workers_max; i++) {
        set(0, 100 + i, 1);
    }
    for (uint64_t i = 0; i < 4 * config.workers_max; i++) {
        gauge.inflight = (uint32_t)i % 1000 + 1;
        cr_assert(
            gossip_gauge_set(lab.nodes[0].g, 1000000 + i, &gauge, lab.now_us));
        gauge.inflight = 0;
        cr_assert(
            gossip_gauge_set(lab.nodes[0].g, 1000000 + i, &gauge, lab.now_us));
        lab.now_us += config.gauge_ms * LAB_MS;
        gossip_tick(lab.nodes[0].g, lab.now_us);
        lab_pull(&lab);
        lab_lose(&lab);
    }
    set(0, 99, 4);
    lab_run(&lab, config.gauge_all_ms + 1);
    cr_assert_eq(others(1, 99), 4);
    cr_assert_eq(others(1, 101), 1);
    cr_assert_eq(others(1, 1000000), 0);
}
