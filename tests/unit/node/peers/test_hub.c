#include <criterion/criterion.h>

#include "fake_cluster.h"
#include "node/peers/hub.h"

#define WORKER UINT64_C(77)
#define NOW_US UINT64_C(5000000)

struct rig {
    struct cluster *cluster;
    struct hub *hub;
    uint32_t outs; /* the network's */
    uint32_t doubts;
    bool doubt_early; /* outputs were not all pulled */
    uint32_t faults;
    enum hub_fault fault;
    uint32_t reads;
    uint64_t read_worker;
    bool read_on;
    bool read_early;
    uint32_t gossips;
    uint32_t beliefs;
    uint32_t workers;
    uint64_t told_us; /* with the last one */
};

static struct rig rig;

static bool
has_outs(void)
{
    return rig.cluster->outs_first != rig.cluster->outs_count;
}

static void
on_out(void *context, const struct cluster_out *out)
{
    (void)context;
    role_is_control();
    rig.outs++;
    if (out->kind == CLUSTER_RESOLVE) {
        hub_lookup_failed(rig.hub, out->discover.ticket, NOW_US);
    }
}

static void
on_doubt(void *context, const char *address)
{
    (void)context;
    role_is_control();
    cr_assert_str_eq(address, "10.0.0.9:7946");
    rig.doubts++;
    rig.doubt_early = has_outs();
    hub_link_down(rig.hub, address, NOW_US);
}

static void
on_fault(void *context, enum hub_fault fault, uint64_t worker)
{
    (void)context;
    (void)worker;
    rig.faults++;
    rig.fault = fault;
}

static void
on_stream(void *context, const struct gossip_out *out, uint64_t now_us)
{
    (void)context;
    cr_assert_neq(out->kind, GOSSIP_BELIEF);
    role_is_control();
    rig.gossips++;
    rig.told_us = now_us;
    hub_pull(rig.hub, now_us); /* does nothing in here */
}

static void
on_read(void *context, uint64_t worker, bool on, uint64_t now_us)
{
    (void)context;
    (void)now_us;
    rig.reads++;
    rig.read_worker = worker;
    rig.read_on = on;
    rig.read_early = has_outs();
}

static void
on_hint(void *context, const struct gossip_out *out, uint64_t now_us)
{
    (void)context;
    (void)now_us;
    cr_assert_eq(out->kind, GOSSIP_BELIEF);
    rig.beliefs++;
}

static void
on_worker(void *context, const struct roster_entry *entry)
{
    (void)context;
    role_is_control();
    rig.workers++;
    if (entry->removed) {
        hub_worker_remove(rig.hub, WORKER, NOW_US);
    } else {
        hub_worker_add(rig.hub, WORKER, 4, SLICE("eu"), NOW_US);
    }
}

static void
setup(void)
{
    const struct hub_network network = {
        .out = on_out, .doubt = on_doubt, .fault = on_fault};
    const struct cluster_config config = {.replicas = 2};
    const struct member_self self = {.name = "me"};

    rig = (struct rig){.cluster = fake_cluster()};
    cr_assert_eq(hub_new(&rig.hub, &config, &self, &network, 1, 1), 0);
}

static void
teardown(void)
{
    hub_free(rig.hub);
}

TestSuite(node_hub, .init = setup, .fini = teardown);

static void
attach_all(void)
{
    hub_attach_streams(
        rig.hub, &(struct hub_streams){.out = on_stream, .read = on_read});
    hub_attach_hints(rig.hub, &(struct hub_hints){.out = on_hint});
    hub_attach_roster(rig.hub, &(struct hub_roster){.changed = on_worker});
}

static void
push(enum cluster_out_kind kind)
{
    struct cluster_out out = {.kind = kind,
                              .worker = WORKER,
                              .on = true,
                              .address = "10.0.0.9:7946",
                              .gossip = {.kind = GOSSIP_APPLY}};

    fake_cluster_push(rig.cluster, &out);
}

Test(node_hub, nothing_is_told_before_the_start_nor_after_the_stop)
{
    role_is_control();
    push(CLUSTER_READY);
    hub_pull(rig.hub, NOW_US);
    hub_worker_add(rig.hub, WORKER, 1, SLICE("eu"), NOW_US);
    cr_assert_eq(rig.outs, 0);
    cr_assert_eq(fake_cluster_calls(rig.cluster, FAKE_ADD), 0);
    hub_start(rig.hub, NOW_US);
    cr_assert_eq(rig.outs, 1);
    cr_assert_eq(fake_cluster_calls(rig.cluster, FAKE_ADD), 1);
    hub_stop(rig.hub);
    push(CLUSTER_READY);
    hub_tick(rig.hub, NOW_US);
    cr_assert_eq(rig.outs, 1);
}

Test(node_hub, each_input_brings_out_what_it_causes)
{
    const struct discover_answer answer = {.ticket = 1};

    role_is_control();
    hub_start(rig.hub, NOW_US);
    push(CLUSTER_SEND);
    hub_tick(rig.hub, NOW_US);
    cr_assert_eq(rig.outs, 1);
    push(CLUSTER_SEND);
    cr_assert_eq(hub_recv(rig.hub, 1, SLICE("x"), NOW_US), 0);
    cr_assert_eq(rig.outs, 2);
    push(CLUSTER_SEND);
    hub_link_up(rig.hub, "a", 1, NOW_US);
    cr_assert_eq(rig.outs, 3);
    push(CLUSTER_SEND);
    hub_link_down(rig.hub, "a", NOW_US);
    cr_assert_eq(rig.outs, 4);
    push(CLUSTER_SEND);
    hub_answered(rig.hub, &answer, NOW_US);
    cr_assert_eq(rig.outs, 5);
    push(CLUSTER_SEND);
    hub_unable(rig.hub, WORKER, true, NOW_US);
    cr_assert_eq(rig.outs, 6);
    push(CLUSTER_SEND);
    hub_leave(rig.hub, NOW_US);
    cr_assert_eq(rig.outs, 7);
}

Test(node_hub, outputs_go_to_the_consumer_they_are_for)
{
    struct cluster_out belief = {.kind = CLUSTER_GOSSIP,
                                 .gossip = {.kind = GOSSIP_BELIEF}};

    role_is_control();
    attach_all();
    hub_start(rig.hub, NOW_US);
    push(CLUSTER_GOSSIP);
    fake_cluster_push(rig.cluster, &belief);
    push(CLUSTER_WORKER);
    push(CLUSTER_NEWS);
    hub_pull(rig.hub, NOW_US + 3);
    cr_assert_eq(rig.gossips, 1);
    cr_assert_eq(rig.told_us, NOW_US + 3);
    cr_assert_eq(rig.beliefs, 1);
    cr_assert_eq(rig.workers, 1);
    cr_assert_eq(rig.outs, 1);
}

Test(node_hub, what_has_no_consumer_is_dropped)
{
    role_is_control();
    hub_start(rig.hub, NOW_US);
    push(CLUSTER_GOSSIP);
    push(CLUSTER_WORKER);
    push(CLUSTER_READ);
    hub_pull(rig.hub, NOW_US);
    cr_assert(!has_outs());
    cr_assert_eq(rig.gossips + rig.workers + rig.reads, 0);
}

Test(node_hub, a_call_from_within_waits_until_the_outputs_are_pulled)
{
    role_is_control();
    attach_all();
    hub_start(rig.hub, NOW_US);
    push(CLUSTER_WORKER);
    push(CLUSTER_READ);
    push(CLUSTER_GOSSIP);
    push(CLUSTER_GOSSIP);
    hub_pull(rig.hub, NOW_US);
    cr_assert_eq(rig.gossips, 2);
    cr_assert_eq(rig.reads, 1);
    cr_assert_eq(rig.read_worker, WORKER);
    cr_assert(rig.read_on && !rig.read_early);
    cr_assert_eq(fake_cluster_calls(rig.cluster, FAKE_ADD), 1);
    for (uint32_t i = 0; i < rig.cluster->calls_count; i++) {
        cr_assert(!rig.cluster->calls[i].early);
    }
}

Test(node_hub, what_is_put_off_keeps_its_order)
{
    struct cluster_out gone = {.kind = CLUSTER_WORKER, .entry.removed = true};
    static const enum fake_call_kind order[] = {FAKE_NEW, FAKE_ADD, FAKE_REMOVE,
                                                FAKE_ADD};

    role_is_control();
    attach_all();
    hub_start(rig.hub, NOW_US);
    push(CLUSTER_WORKER);
    fake_cluster_push(rig.cluster, &gone);
    push(CLUSTER_WORKER);
    hub_pull(rig.hub, NOW_US);
    cr_assert_eq(rig.cluster->calls_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(rig.cluster->calls[i].kind, order[i]);
    }
}

Test(node_hub, a_doubted_link_is_told_of_once_there_are_no_outputs)
{
    role_is_control();
    hub_start(rig.hub, NOW_US);
    push(CLUSTER_DOUBT);
    push(CLUSTER_SEND);
    hub_pull(rig.hub, NOW_US);
    cr_assert_eq(rig.doubts, 1);
    cr_assert(!rig.doubt_early);
}

Test(node_hub, a_lookup_that_was_not_begun_is_answered_as_failed)
{
    struct cluster_out out = {.kind = CLUSTER_RESOLVE,
                              .discover = {.ticket = 9}};

    role_is_control();
    hub_start(rig.hub, NOW_US);
    fake_cluster_push(rig.cluster, &out);
    hub_pull(rig.hub, NOW_US);
    cr_assert_eq(fake_cluster_calls(rig.cluster, FAKE_ANSWERED), 1);
    cr_assert_eq(rig.cluster->calls[1].subject, 9);
    cr_assert_eq(rig.cluster->calls[1].number, DISCOVER_FAILED);
    cr_assert(!rig.cluster->calls[1].early);
}

Test(node_hub, one_task_too_many_is_a_fault)
{
    role_is_control();
    for (uint32_t i = 0; i < HUB_TASKS_MAX; i++) {
        hub_worker_remove(rig.hub, i, NOW_US);
    }
    cr_assert_eq(rig.faults, 0);
    hub_worker_remove(rig.hub, WORKER, NOW_US);
    cr_assert_eq(rig.faults, 1);
    cr_assert_eq(rig.fault, HUB_TASKS_FULL);
}

Test(node_hub, a_worker_whose_streams_find_no_room_is_a_fault)
{
    role_is_control();
    hub_start(rig.hub, NOW_US);
    rig.cluster->add_outcome = GOSSIP_E_FULL;
    hub_worker_add(rig.hub, WORKER, 2, SLICE("eu"), NOW_US);
    cr_assert_eq(rig.fault, HUB_STREAMS_FULL);
    rig.cluster->add_outcome = -12;
    hub_worker_add(rig.hub, WORKER, 2, SLICE("eu"), NOW_US);
    cr_assert_eq(rig.faults, 2);
    cr_assert_eq(rig.fault, HUB_STREAMS_NO_MEMORY);
}
