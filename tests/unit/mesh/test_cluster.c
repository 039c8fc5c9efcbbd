#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "cluster_net.h"

static struct net net;

static void
setup(void)
{
    net_init(&net, 7);
}

static void
teardown(void)
{
    net_fini(&net);
}

TestSuite(cluster, .init = setup, .fini = teardown);

/* The host that neither reads nor is first, of three. */
static uint32_t
idle_of_three(void)
{
    return 3 - net_ranked(&net, 0, 0, 0) - net_ranked(&net, 0, 0, 1);
}

Test(cluster, a_mesh_of_one_reads_everything_at_once)
{
    net.joins = false;
    net_mesh(&net, 1, 3);
    cr_assert(net.host[0].reads[0] && net.host[0].reads[1] &&
              net.host[0].reads[2]);
    net_step(&net);
    cr_assert_eq(net.host[0].ready, CLUSTER_ALONE);
}

Test(cluster, a_node_that_finds_nobody_is_alone_after_a_while)
{
    net_mesh(&net, 1, 1);
    net_run(&net, net.config.alone_ms - 10);
    cr_assert_eq(net.host[0].ready, CLUSTER_CATCHING_UP);
    net_run(&net, 20);
    cr_assert_eq(net.host[0].ready, CLUSTER_ALONE);
}

Test(cluster, three_nodes_find_each_other_by_dns)
{
    net_mesh(&net, 3, 2);
    uint64_t ms = net_until(&net, net_all_met, 5000);
    (void)fprintf(stderr, "three nodes met after %lu ms\n", ms);
    cr_assert(ms < 1000, "%lu", ms);
    net_run(&net, 3000);
    net.batch_ms = 0;
    cr_assert_neq(net_until(&net, net_all_equal, 2000), NET_NEVER);
    cr_assert_neq(net_until(&net, net_all_read, 10000), NET_NEVER);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(net.host[i].ready, CLUSTER_CAUGHT_UP);
        cr_assert_eq(net_ranked(&net, i, 0, 0), net_ranked(&net, 0, 0, 0));
    }
}

Test(cluster, who_does_not_read_lives_from_deltas)
{
    net_mesh(&net, 3, 1);
    net_run(&net, 8000);
    uint32_t idle = idle_of_three();
    uint32_t first = net_ranked(&net, 0, 0, 0);
    struct gossip_stats before = net_gossip(&net, first);
    uint32_t applied = net.host[idle].replica[0][0].applied;

    cr_assert(!net.host[idle].reads[0]);
    net_run(&net, 1000);
    cr_assert_gt(net.host[idle].replica[0][0].applied, applied + 100);
    cr_assert_gt(net_gossip(&net, first).records_pushed, before.records_pushed);
    cr_assert_eq(net_gossip(&net, net_ranked(&net, 0, 0, 1)).records_pushed, 0);
}

static bool
reads_elsewhere(struct net *n)
{
    uint32_t bits = net_readers(n, 0);

    return (bits & (bits - 1)) != 0;
}

Test(cluster, when_the_reader_dies_the_next_one_pushes_without_a_gap)
{
    net_mesh(&net, 3, 1);
    net_run(&net, 8000);
    uint32_t idle = idle_of_three();
    uint32_t first = net_ranked(&net, idle, 0, 0);
    uint32_t resets = net.host[idle].replica[0][0].resets;

    net.lag_max_us = 0;
    net_crash(&net, first);
    uint64_t ms = net_until(&net, reads_elsewhere, 10000);
    net_run(&net, 3000);
    (void)fprintf(
        stderr,
        "death to two readers again: %lu ms; a batch was visible after %lu "
        "ms at most\n",
        ms, net.lag_max_us / 1000);
    cr_assert(ms < 3000, "%lu", ms);
    cr_assert_lt(net.lag_max_us, 300000);
    cr_assert_eq(net.host[idle].replica[0][0].resets, resets);
    cr_assert(net.host[idle].replica[0][0].complete);
    cr_assert_eq(net_gossip(&net, idle).transfers, 0);
    net.batch_ms = 0;
    cr_assert_neq(net_until(&net, net_all_equal, 2000), NET_NEVER);
    cr_assert_neq(net_until(&net, net_all_read, 10000), NET_NEVER);
}

Test(cluster, both_sides_of_a_partition_read_and_are_equal_after_it)
{
    net_mesh(&net, 4, 2);
    net_run(&net, 8000);
    net_split(&net, 3, 12);
    net_run(&net, 30000);
    for (uint32_t w = 0; w < 2; w++) {
        cr_assert(net_readers(&net, w) == 15, "%x", net_readers(&net, w));
    }
    net.batch_ms = 0;
    net_heal(&net);
    uint64_t ms = net_until(&net, net_all_met, 10000);
    ms += net_until(&net, net_all_equal, 10000);
    (void)fprintf(stderr, "healed to equal digests: %lu ms\n", ms);
    cr_assert(ms < 3000, "%lu", ms);
    cr_assert_neq(net_until(&net, net_all_read, 10000), NET_NEVER);
}

Test(cluster, a_node_restarted_under_its_name_takes_its_place)
{
    net_mesh(&net, 3, 2);
    net_run(&net, 8000);
    uint32_t first = net_ranked(&net, 0, 0, 0);
    uint64_t old = net.host[first].session;

    net_crash(&net, first);
    net_run(&net, 100);
    net_start(&net, first);
    uint64_t ms = net_until(&net, net_all_met, 10000);
    (void)fprintf(stderr, "restarted and met after %lu ms\n", ms);
    cr_assert(ms < 3000, "%lu", ms);
    net_run(&net, 10000);
    net.batch_ms = 0;
    cr_assert_neq(net_until(&net, net_all_equal, 2000), NET_NEVER);
    cr_assert_neq(net_until(&net, net_all_read, 10000), NET_NEVER);
    uint32_t other = (first + 1) % 3;
    cr_assert_eq(net_ranked(&net, other, 0, 0), first);
    cr_assert_null(cluster_peer_name(net.host[other].cluster, old));
    cr_assert_eq(net.host[first].ready, CLUSTER_CAUGHT_UP);
}

Test(cluster, where_a_name_was_before_is_dropped)
{
    net_mesh(&net, 3, 1);
    net_run(&net, 8000);
    net_crash(&net, 1);
    net_run(&net, 50);
    memcpy(net.host[3].name, net.host[1].name, MEMBER_NAME_MAX);
    net_start(&net, 3);
    cr_assert_neq(net_until(&net, net_all_met, 10000), NET_NEVER);
    cr_assert_eq(net.host[0].drops, 1);
    cr_assert_eq(net.host[2].drops, 1);
    cr_assert_eq(net.host[0].events[MEMBER_REPLACED], 1);
}

Test(cluster, who_cannot_reach_a_worker_is_passed_over)
{
    net_mesh(&net, 3, 1);
    net_run(&net, 8000);
    uint32_t idle = idle_of_three();
    uint32_t first = net_ranked(&net, 0, 0, 0);

    net.host[first].engine_severed[0] = true;
    net.lag_max_us = 0;
    uint64_t ms = net_until(&net, net_all_read, 20000);
    (void)fprintf(stderr, "unable to read elsewhere: %lu ms\n", ms);
    cr_assert_neq(ms, NET_NEVER);
    cr_assert(net.host[idle].reads[0] && !net.host[first].reads[0]);
    cr_assert_neq(net_ranked(&net, idle, 0, 0), first);
    cr_assert_lt(net.lag_max_us, 400000);
    net.host[first].engine_severed[0] = false;
    net_run(&net, 10000);
    cr_assert_eq(net_ranked(&net, idle, 0, 0), first);
    cr_assert(net_all_read(&net));
}

Test(cluster, when_nobody_reaches_a_worker_its_ranks_stay)
{
    net_mesh(&net, 3, 1);
    net_run(&net, 8000);
    uint32_t first = net_ranked(&net, 0, 0, 0);

    for (uint32_t i = 0; i < 3; i++) {
        net.host[i].engine_severed[0] = true;
        cluster_unable(net.host[i].cluster, net_worker_id(0), true, net.now_us);
        net_pull(&net, i);
    }
    net_run(&net, 10000);
    cr_assert_eq(net_ranked(&net, 1, 0, 0), first);
    cr_assert(net.host[first].reads[0]);
}

static bool
all_stale(struct net *n)
{
    bool all = true;

    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        all = all &&
              (n->host[i].cluster == NULL || n->host[i].replica[0][0].stale);
    }
    return all;
}

Test(cluster, what_nobody_can_read_is_stale_on_all_until_somebody_can)
{
    net_mesh(&net, 3, 1);
    net_run(&net, 8000);
    cr_assert_neq(net_until(&net, net_all_equal, 2000), NET_NEVER);
    for (uint32_t i = 0; i < 3; i++) {
        net.host[i].engine_severed[0] = true;
    }
    net.batch_ms = 0;
    cr_assert_neq(net_until(&net, all_stale, 20000), NET_NEVER);
    net_engine_restart(&net, 0);
    net_run(&net, 1000);
    cr_assert(all_stale(&net));
    net.host[1].engine_severed[0] = false;
    cr_assert_neq(net_until(&net, net_all_equal, 20000), NET_NEVER);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_not(net.host[i].replica[0][0].stale);
    }
}

Test(cluster, what_only_dead_nodes_could_read_is_stale_on_who_is_left)
{
    net_mesh(&net, 3, 1);
    net_run(&net, 8000);
    uint32_t idle = idle_of_three();

    net.host[idle].engine_severed[0] = true;
    net.batch_ms = 0;
    cr_assert_neq(net_until(&net, net_all_equal, 2000), NET_NEVER);
    for (uint32_t i = 0; i < 3; i++) {
        if (i != idle) {
            net_crash(&net, i);
        }
    }
    cr_assert_neq(net_until(&net, all_stale, 20000), NET_NEVER);
    net.host[idle].engine_severed[0] = false;
    cr_assert_neq(net_until(&net, net_all_equal, 20000), NET_NEVER);
    cr_assert_not(net.host[idle].replica[0][0].stale);
}

Test(cluster, a_worker_put_on_one_node_is_known_on_all)
{
    net_mesh(&net, 3, 0);
    net.workers = 2;
    net_run(&net, 3000);
    cr_assert_eq(roster_put(cluster_roster(net.host[1].cluster), "w1",
                            SLICE("spec"), net.now_us),
                 0);
    net_pull(&net, 1);
    net_run(&net, 10);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(net.host[i].knows[1]);
    }
    net_run(&net, 2000);
    net.batch_ms = 0;
    cr_assert_neq(net_until(&net, net_all_equal, 2000), NET_NEVER);
    cr_assert_eq(
        roster_remove(cluster_roster(net.host[2].cluster), "w1", net.now_us),
        0);
    net_pull(&net, 2);
    net_run(&net, 10);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(!net.host[i].knows[1]);
    }
}

Test(cluster, who_left_is_dropped_and_read_for_at_once)
{
    net_mesh(&net, 3, 1);
    net_run(&net, 8000);
    uint32_t idle = idle_of_three();
    uint32_t first = net_ranked(&net, idle, 0, 0);

    net_leave(&net, first);
    net_run(&net, 5);
    cr_assert(net.host[idle].reads[0]);
    cr_assert_eq(net.host[idle].drops, 1);
    cr_assert_eq(net.host[idle].events[MEMBER_DEPARTED], 1);
    net_run(&net, 3000);
    cr_assert_eq(net.host[idle].doubts, 0);
}

Test(cluster, who_left_and_returns_is_met_within_a_second)
{
    uint64_t longest = 0;

    net_mesh(&net, 3, 1);
    net_run(&net, 8000);
    for (uint32_t i = 0; i < 24; i++) {
        net_leave(&net, i % 3);
        net_crash(&net, i % 3);
        net_run(&net, 50 + 89 * i); /* as long as a process takes, or more */
        net_start(&net, i % 3);
        uint64_t ms = net_until(&net, net_all_met, 10000);
        longest = ms > longest ? ms : longest;
        net_run(&net, 500 + 29 * i);
    }
    (void)fprintf(stderr, "returned and met after %lu ms\n", longest);
    cr_assert(longest < 1000, "%lu", longest);
}

Test(cluster, who_left_says_nothing_more)
{
    struct cluster_out out;

    net_mesh(&net, 2, 1);
    net_run(&net, 2000);
    struct cluster *cluster = net.host[0].cluster;
    cluster_leave(cluster, net.now_us);
    cr_assert(cluster_next_out(cluster, &out));
    cr_assert_eq(out.kind, CLUSTER_SEND);
    net_pull(&net, 0);
    cr_assert_eq(cluster_deadline(cluster), UINT64_MAX);
    cluster_tick(cluster, net.now_us + 10000000);
    cr_assert(!cluster_next_out(cluster, &out));
}

Test(cluster, a_name_in_use_twice_silences_the_newer_one)
{
    net_mesh(&net, 2, 1);
    net_run(&net, 5000);
    memcpy(net.host[2].name, net.host[0].name, MEMBER_NAME_MAX);
    net_start(&net, 2);
    net_run(&net, 5000);
    struct cluster_out out;
    cr_assert_eq(net.host[2].events[MEMBER_DUPLICATE], 1);
    cr_assert_eq(net.host[0].events[MEMBER_DUPLICATE], 0);
    cr_assert_eq(cluster_deadline(net.host[2].cluster), UINT64_MAX);
    cr_assert(!cluster_next_out(net.host[2].cluster, &out));
    cr_assert_eq(net_readers(&net, 0) & 3, 3);
}

Test(cluster, a_node_without_peers_in_sight_is_late)
{
    net_mesh(&net, 2, 1);
    net_crash(&net, 0);
    net_crash(&net, 1);
    net.config.gossip.vector_ms = 100000000; /* nobody tells of vectors */
    net.config.alone_ms = 100000000;
    net_start(&net, 1);
    net_run(&net, net.config.ready_ms - 10);
    cr_assert_eq(net.host[1].ready, CLUSTER_CATCHING_UP);
    net_run(&net, 20);
    cr_assert_eq(net.host[1].ready, CLUSTER_LATE);
}

/* Else what it loaded from a snapshot would never be of today. */
Test(cluster, a_node_that_is_late_catches_up_yet)
{
    net_mesh(&net, 2, 1);
    net_crash(&net, 0);
    net_crash(&net, 1);
    net.config.alone_ms = 100000000;
    net_start(&net, 1);
    net_run(&net, net.config.ready_ms + 10);
    cr_assert_eq(net.host[1].ready, CLUSTER_LATE);
    net_start(&net, 0);
    net_run(&net, 5000);
    cr_assert_eq(net.host[1].ready, CLUSTER_CAUGHT_UP);
}

Test(cluster, a_node_that_comes_later_is_ready_with_all_state)
{
    struct gossip_status status;

    net.config.gossip.log_records = 40; /* it takes states whole */
    net.delay_us = 20000;
    net.jitter_us = 1000;
    net_mesh(&net, 2, 2);
    net_run(&net, 5000);
    for (uint32_t w = 0; w < 2; w++) {
        net.configured[2][w] = false; /* it has them from the roster */
        net.host[2].engine_severed[w] = true;
    }
    net_start(&net, 2);
    uint64_t start_us = net.now_us;
    while (net.host[2].ready == CLUSTER_CATCHING_UP) {
        net_step(&net);
    }
    cr_assert_eq(net.host[2].ready, CLUSTER_CAUGHT_UP);
    (void)fprintf(stderr, "ready %lu ms after its start\n",
                  (net.now_us - start_us) / 1000);
    for (uint32_t w = 0; w < 2; w++) {
        cr_assert(net.host[2].knows[w]);
        cr_assert(net_status(&net, 2, w, &status));
        cr_assert(!status.stale && !status.transfers && status.complete);
        cr_assert_geq(net.engine[w][0].batches[status.pos >> 8].at_us,
                      start_us);
    }
}

Test(cluster, a_paused_node_comes_back_and_is_equal)
{
    net_mesh(&net, 3, 2);
    net_run(&net, 8000);
    uint32_t first = net_ranked(&net, 0, 0, 0);

    net_pause(&net, first, 60000);
    net_run(&net, 60000);
    net.batch_ms = 0;
    uint64_t ms = net_until(&net, net_all_met, 10000);
    ms += net_until(&net, net_all_equal, 10000);
    (void)fprintf(stderr, "woke to equal digests: %lu ms\n", ms);
    cr_assert(ms < 5000, "%lu", ms);
    net_run(&net, 10000);
    cr_assert(net_all_read(&net) && net_all_met(&net));
}

Test(cluster, replicas_all_lets_small_meshes_read_everywhere)
{
    net.config.replicas_all = 3;
    net_mesh(&net, 3, 1);
    net_run(&net, 8000);
    cr_assert_eq(net_readers(&net, 0), 7);
    net_start(&net, 3);
    net_run(&net, 8000);
    cr_assert(net_all_read(&net), "%x", net_readers(&net, 0));
}

Test(cluster, a_worker_is_read_on_its_island)
{
    static const char *const islands[] = {"eu/fra", "eu/fra", "eu/par",
                                          "us",     "us",     NULL};

    memcpy(net.host_island, islands, sizeof islands);
    net.worker_island[0] = "eu/fra/a";
    net.worker_island[1] = "us";
    net.worker_island[2] = "eu/par";
    net_mesh(&net, 6, 4);
    cr_assert_neq(net_until(&net, net_all_met, 5000), NET_NEVER);
    net_run(&net, 3000);
    cr_assert_eq(net_readers(&net, 0), 1 << 0 | 1 << 1);
    cr_assert_eq(net_readers(&net, 1), 1 << 3 | 1 << 4);
    cr_assert_neq(net_readers(&net, 2) & 1 << 2, 0, "its own island first");
    cr_assert_eq(net_readers(&net, 2) & (1 << 3 | 1 << 4 | 1 << 5), 0,
                 "then eu");
    cr_assert_eq(
        cluster_peer_island(net.host[0].cluster, net.host[2].session)[0], 'e');
    net_crash(&net, 3);
    net_crash(&net, 4);
    net_run(&net, 15000);
    cr_assert_eq(__builtin_popcount(net_readers(&net, 1)), 2, "elsewhere then");
    net.batch_ms = 0;
    cr_assert_neq(net_until(&net, net_all_equal, 5000), NET_NEVER);
}

Test(cluster, all_ranks_of_a_worker_are_read_by_the_same_nodes)
{
    struct gossip_status status;

    net.ranks = 2;
    net_mesh(&net, 3, 2);
    net_run(&net, 10000);
    net.batch_ms = 0;
    cr_assert_neq(net_until(&net, net_all_equal, 2000), NET_NEVER);
    for (uint32_t w = 0; w < 2; w++) {
        uint32_t first = net_ranked(&net, 0, w, 0);
        struct gossip *gossip = cluster_gossip(net.host[first].cluster);
        for (uint32_t at = 0; gossip_status(gossip, at, &status); at++) {
            cr_assert(status.stream.worker != net_worker_id(w) ||
                      status.pushes);
        }
    }
}

static bool
is_read_by_new(struct net *n)
{
    return net_readers(n, 0) == 2;
}

/* Host 0 reads alone, and host 1 comes to be first. */
static void
hand_over(uint32_t connect_ms, uint32_t hand_over_ms)
{
    net.config.replicas = 1;
    net.config.replicas_all = 0;
    net.config.hand_over_ms = hand_over_ms;
    net.connect_ms = connect_ms;
    for (uint32_t i = 0; i < 64; i++) {
        const char *name = net.host[0].name;
        struct event_stream stream = {.worker = net_worker_id(0)};
        (void)snprintf(net.host[1].name, MEMBER_NAME_MAX, "other-%u", i);
        if (owner_weight(owner_name(name), &stream) <
            owner_weight(owner_name(net.host[1].name), &stream)) {
            break;
        }
    }
    net_mesh(&net, 1, 1);
    net_run(&net, 3000);
    net.lag_max_us = 0;
    net.configured[1][0] = true;
    net_start(&net, 1);
}

Test(cluster, who_hands_over_reads_until_the_new_first_is_heard)
{
    hand_over(700, 60000);
    uint64_t ms = net_until(&net, is_read_by_new, 10000);
    (void)fprintf(stderr, "handed over after %lu ms\n", ms);
    cr_assert(ms >= 700 && ms < 2000, "%lu", ms);
}

Test(cluster, who_hands_over_to_a_silent_first_waits_no_longer_than_it_has_to)
{
    net.batch_ms = 0;
    hand_over(700, 3000);
    cr_assert_eq(net_until(&net, is_read_by_new, 2900), NET_NEVER);
    cr_assert_neq(net_until(&net, is_read_by_new, 500), NET_NEVER);
}
