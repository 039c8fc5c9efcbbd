#include <criterion/criterion.h>

#include "fake_cluster.h"
#include "node/base/log.h"
#include "node/peers/peers.h"

struct rig {
    uv_loop_t loop;
    struct config config;
    struct cluster *cluster;
    struct peers *peers;
    uint32_t readies;
    uint32_t refusals;
};

static struct rig rig;

static void
on_ready(void *context, enum cluster_ready ready)
{
    (void)context;
    (void)ready;
    rig.readies++;
}

static void
on_refused(void *context)
{
    (void)context;
    rig.refusals++;
}

static void
on_take_facts(void *context)
{
    (void)context;
}

static void
setup(void)
{
    const struct peers_owner owner = {
        .ready = on_ready, .refused = on_refused, .take_facts = on_take_facts};

    role_is_control();
    log_init(&(struct log_options){.level = LOG_LEVEL_ERROR, .fd = 2});
    rig = (struct rig){.cluster = fake_cluster()};
    config_init(&rig.config);
    memcpy(rig.config.name, "me", 3);
    rig.config.mesh.log_bytes = 8192;
    rig.config.mesh.logs_bytes_max = 1 << 20;
    rig.config.mesh.transfers_max = 3;
    rig.config.mesh.push_ms = 7;
    cr_assert_eq(uv_loop_init(&rig.loop), 0);
    cr_assert_eq(peers_new(&rig.peers, &rig.loop, &rig.config, &owner), 0);
}

static void
teardown(void)
{
    role_is_control();
    peers_stop(rig.peers);
    (void)uv_run(&rig.loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&rig.loop), 0);
    peers_free(rig.peers);
    config_fini(&rig.config);
}

TestSuite(node_peers, .init = setup, .fini = teardown);

static void
push(enum cluster_out_kind kind)
{
    fake_cluster_push(rig.cluster, &(struct cluster_out){.kind = kind});
}

static void
pull(void)
{
    role_is_control();
    hub_pull(peers_hub(rig.peers), uv_hrtime() / 1000);
}

Test(node_peers, the_cluster_is_of_this_node_and_of_the_configuration)
{
    cr_assert_str_eq(rig.cluster->self.name, "me");
    cr_assert_neq(rig.cluster->self.id.word[0], 0);
    cr_assert_eq(rig.cluster->config.replicas, 2);
    cr_assert_eq(rig.cluster->config.ready_ms, 30000);
    cr_assert_eq(rig.cluster->config.gossip.log_bytes, 8192);
    cr_assert_eq(rig.cluster->config.gossip.logs_bytes_max, 1 << 20);
    cr_assert_eq(rig.cluster->config.gossip.transfers_max, 3);
    cr_assert_eq(rig.cluster->config.gossip.push_ms, 7);
    cr_assert_null(peers_address(rig.peers));
    cr_assert_null(peers_link(rig.peers));
}

Test(node_peers, a_name_in_use_is_told_to_the_owner)
{
    struct cluster_out out = {.kind = CLUSTER_MEMBER,
                              .event = MEMBER_DUPLICATE,
                              .about = {.name = "me"}};

    role_is_control();
    peers_start(rig.peers);
    fake_cluster_push(rig.cluster, &out);
    pull();
    cr_assert_eq(rig.refusals, 1);
}

Test(node_peers, what_nobody_can_be_sent_is_counted)
{
    struct peers_stats stats;

    role_is_control();
    peers_start(rig.peers);
    push(CLUSTER_SEND);
    push(CLUSTER_DOUBT);
    push(CLUSTER_DROP);
    pull();
    peers_stats(rig.peers, &stats);
    cr_assert_eq(stats.sends_bad, 1);
}

Test(node_peers, a_lookup_there_is_no_room_for_is_answered_as_failed)
{
    struct cluster_out out = {
        .kind = CLUSTER_RESOLVE,
        .discover = {.lookup = DISCOVER_HOST, .name = "nobody.invalid."}};
    uint32_t asked = RESOLVE_LOOKUPS_MAX + 5;
    struct peers_stats stats;

    role_is_control();
    peers_start(rig.peers);
    for (uint32_t i = 0; i < asked; i++) {
        out.discover.ticket = i + 1;
        fake_cluster_push(rig.cluster, &out);
    }
    pull();
    peers_stats(rig.peers, &stats);
    cr_assert_gt(stats.lookups_full, 0);
    cr_assert_eq(fake_cluster_calls(rig.cluster, FAKE_ANSWERED),
                 stats.lookups_full);
    cr_assert_eq(rig.cluster->calls[1].number, DISCOVER_FAILED);
    cr_assert(!rig.cluster->calls[1].early);
}

Test(node_peers, time_is_told_when_it_is_due_and_what_comes_of_it_is_pulled)
{
    role_is_control();
    peers_start(rig.peers);
    rig.cluster->deadline_us = uv_hrtime() / 1000 + UINT64_C(3600000000);
    pull();
    rig.cluster->deadline_us = uv_hrtime() / 1000 + 2000; /* now sooner */
    pull();
    push(CLUSTER_READY);
    while (rig.readies == 0) {
        (void)uv_run(&rig.loop, UV_RUN_ONCE);
    }
    cr_assert_eq(fake_cluster_calls(rig.cluster, FAKE_TICK), 1);
}

Test(node_peers, the_timer_is_set_once_a_turn_however_much_is_pulled)
{
    uint32_t asks = 0;

    role_is_control();
    peers_start(rig.peers);
    rig.cluster->deadline_asks = &asks;
    rig.cluster->deadline_us = UINT64_MAX;
    for (uint32_t i = 0; i < 2000; i++) {
        pull();
    }
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    cr_assert_eq(asks, 1);
}

Test(node_peers, goodbye_is_said_once_and_a_node_alone_has_left_then)
{
    role_is_control();
    peers_start(rig.peers);
    cr_assert(!peers_left(rig.peers));
    peers_leave(rig.peers);
    peers_leave(rig.peers);
    cr_assert(peers_left(rig.peers));
    cr_assert_eq(fake_cluster_calls(rig.cluster, FAKE_LEAVE), 1);
}
