/* The only way into the cluster and out of it: inputs, and the loop that pulls
 * their outputs. */
#include "node/peers/hub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Work that had to wait until the outputs were pulled. */
enum task_kind {
    TASK_READ, /* number: on; for the streams' consumer */
    TASK_ADD,  /* number: ranks; island */
    TASK_REMOVE,
    TASK_UNABLE,    /* number: 1 or 0 */
    TASK_NO_LOOKUP, /* subject: the ticket of one that was not begun */
};

struct task {
    enum task_kind kind;
    uint32_t number;
    uint64_t subject; /* the worker, unless said otherwise */
    struct island_path island;
};

struct hub {
    struct cluster *cluster;
    struct hub_network network;
    struct hub_streams streams;
    struct hub_hints hints;
    struct hub_roster roster;
    uint64_t now_us; /* of the input that is pulled for */
    bool runs;       /* started, and not stopped */
    bool pulling;
    bool carrying; /* an output, by a consumer */
    bool applying; /* ... and it is the streams' */
    uint32_t tasks_first;
    uint32_t tasks_count;
    uint32_t doubts_count;
    struct task tasks[HUB_TASKS_MAX];
    char doubts[HUB_DOUBTS_MAX][MEMBER_ADDRESS_MAX];
};

/* Deferred work */

static void
put_off_task(struct hub *hub, const struct task *task)
{
    uint32_t at = (hub->tasks_first + hub->tasks_count) % HUB_TASKS_MAX;

    CHECK(hub->tasks_first < HUB_TASKS_MAX);
    CHECK(hub->tasks_count <= HUB_TASKS_MAX);
    if (hub->tasks_count == HUB_TASKS_MAX) {
        hub->network.fault(hub->network.context, HUB_TASKS_FULL,
                           task->kind != TASK_NO_LOOKUP ? task->subject : 0);
        return;
    }
    hub->tasks[at] = *task;
    hub->tasks_count++;
}

static void
put_off(struct hub *hub, enum task_kind kind, uint64_t subject, uint32_t number)
{
    put_off_task(hub, &(struct task){
                          .kind = kind, .number = number, .subject = subject});
}

/* A doubt that finds no room is raised again later. */
static void
put_off_doubt(struct hub *hub, const char *address)
{
    if (hub->doubts_count < HUB_DOUBTS_MAX) {
        (void)snprintf(hub->doubts[hub->doubts_count++], MEMBER_ADDRESS_MAX,
                       "%s", address);
    }
}

static void ON_CONTROL
add_worker(struct hub *hub, const struct task *task)
{
    CHECK(task->kind == TASK_ADD && task->number > 0);
    int rc = cluster_worker_add(hub->cluster, task->subject, task->number,
                                &task->island, hub->now_us);

    if (rc != 0) {
        hub->network.fault(hub->network.context,
                           rc < 0 ? HUB_STREAMS_NO_MEMORY : HUB_STREAMS_FULL,
                           task->subject);
    }
}

static void
fail_lookup(struct hub *hub, uint64_t ticket)
{
    struct discover_answer answer = {.ticket = ticket,
                                     .outcome = DISCOVER_FAILED};

    cluster_answered(hub->cluster, &answer, hub->now_us);
}

static void ON_CONTROL
do_task(struct hub *hub, const struct task *task)
{
    CHECK(hub->pulling && !hub->carrying);
    switch (task->kind) {
    case TASK_READ:
        if (hub->streams.read != NULL) {
            hub->streams.read(hub->streams.context, task->subject,
                              task->number != 0, hub->now_us);
        }
        return;
    case TASK_ADD:
        add_worker(hub, task);
        return;
    case TASK_REMOVE:
        cluster_worker_remove(hub->cluster, task->subject, hub->now_us);
        return;
    case TASK_UNABLE:
        cluster_unable(hub->cluster, task->subject, task->number != 0,
                       hub->now_us);
        return;
    case TASK_NO_LOOKUP:
        fail_lookup(hub, task->subject);
        return;
    }
}

/* True: something was done, and there may be outputs of it. */
static bool ON_CONTROL
do_put_off(struct hub *hub)
{
    CHECK(hub->tasks_count <= HUB_TASKS_MAX);
    CHECK(hub->doubts_count <= HUB_DOUBTS_MAX);
    if (hub->tasks_count != 0) {
        struct task task = hub->tasks[hub->tasks_first];
        hub->tasks_first = (hub->tasks_first + 1) % HUB_TASKS_MAX;
        hub->tasks_count--;
        do_task(hub, &task);
        return true;
    }
    if (hub->doubts_count != 0) {
        hub->network.doubt(hub->network.context,
                           hub->doubts[--hub->doubts_count]);
        return true;
    }
    return false;
}

/* Outputs */

static void
carry_gossip(struct hub *hub, const struct gossip_out *out)
{
    CHECK(out->kind != GOSSIP_SEND && !hub->applying);
    if (out->kind == GOSSIP_BELIEF) {
        if (hub->hints.out != NULL) {
            hub->hints.out(hub->hints.context, out, hub->now_us);
        }
    } else if (hub->streams.out != NULL) {
        hub->applying = true;
        hub->streams.out(hub->streams.context, out, hub->now_us);
        hub->applying = false;
    }
}

static void
carry_out(struct hub *hub, const struct cluster_out *out)
{
    CHECK(hub->pulling && hub->carrying);
    switch (out->kind) {
    case CLUSTER_GOSSIP:
        carry_gossip(hub, &out->gossip);
        return;
    case CLUSTER_WORKER:
        if (hub->roster.changed != NULL) {
            hub->roster.changed(hub->roster.context, &out->entry);
        }
        return;
    case CLUSTER_READ:
        put_off(hub, TASK_READ, out->worker, out->on);
        return;
    case CLUSTER_DOUBT:
        put_off_doubt(hub, out->address);
        return;
    case CLUSTER_SEND:
    case CLUSTER_DROP:
    case CLUSTER_RESOLVE:
    case CLUSTER_NEWS:
    case CLUSTER_MEMBER:
    case CLUSTER_READY:
        hub->network.out(hub->network.context, out);
        return;
    }
}

void
hub_pull(struct hub *hub, uint64_t now_us)
{
    struct cluster_out out;

    if (hub->pulling || !hub->runs) {
        return;
    }
    hub->now_us = now_us;
    hub->pulling = true;
    do {
        while (hub->runs && cluster_next_out(hub->cluster, &out)) {
            hub->carrying = true;
            carry_out(hub, &out);
            hub->carrying = false;
        }
    } while (hub->runs && do_put_off(hub));
    CHECK(!hub->runs || (hub->tasks_count == 0 && hub->doubts_count == 0));
    hub->pulling = false;
}

/* What this node reads */

void
hub_local_begin(struct hub *hub, struct event_stream stream, uint64_t process,
                bool whole, uint64_t ask, uint64_t now_us)
{
    CHECK(!hub->applying);
    gossip_local_begin(hub_gossip(hub), stream, process, whole, ask, now_us);
    hub_pull(hub, now_us);
}

void
hub_local_proved(struct hub *hub, struct event_stream stream, uint64_t ask,
                 uint64_t now_us)
{
    CHECK(!hub->applying);
    gossip_local_proved(hub_gossip(hub), stream, ask, now_us);
    hub_pull(hub, now_us);
}

void
hub_local_resume(struct hub *hub, struct event_stream stream, uint64_t process,
                 bool whole, uint64_t seq, uint64_t now_us)
{
    CHECK(!hub->applying);
    gossip_local_resume(hub_gossip(hub), stream, process, whole, seq, now_us);
    hub_pull(hub, now_us);
}

void
hub_local_record(struct hub *hub, struct event_stream stream,
                 const struct event_record *record, uint64_t fingerprint,
                 bool last, uint64_t now_us)
{
    CHECK(!hub->applying);
    gossip_local_record(hub_gossip(hub), stream, record, fingerprint, last,
                        now_us);
    hub_pull(hub, now_us);
}

void
hub_local_gap(struct hub *hub, struct event_stream stream, uint64_t now_us)
{
    CHECK(!hub->applying);
    gossip_local_gap(hub_gossip(hub), stream, now_us);
    hub_pull(hub, now_us);
}

void
hub_local_live(struct hub *hub, struct event_stream stream, bool live,
               uint64_t now_us)
{
    CHECK(!hub->applying);
    gossip_local_live(hub_gossip(hub), stream, live, now_us);
    hub_pull(hub, now_us);
}

void
hub_local_end(struct hub *hub, struct event_stream stream, uint64_t now_us)
{
    CHECK(!hub->applying);
    gossip_local_end(hub_gossip(hub), stream, now_us);
    hub_pull(hub, now_us);
}

void
hub_local_lost(struct hub *hub, struct event_stream stream, uint64_t now_us)
{
    CHECK(!hub->applying);
    gossip_local_lost(hub_gossip(hub), stream, now_us);
    hub_pull(hub, now_us);
}

void
hub_local_doubted(struct hub *hub, struct event_stream stream, uint64_t now_us)
{
    CHECK(!hub->applying);
    gossip_local_doubted(hub_gossip(hub), stream, now_us);
    hub_pull(hub, now_us);
}

/* Workers */

void
hub_worker_add(struct hub *hub, uint64_t worker, uint32_t ranks,
               struct slice island, uint64_t now_us)
{
    CHECK(ranks > 0);
    put_off_task(hub, &(struct task){.kind = TASK_ADD,
                                     .number = ranks,
                                     .subject = worker,
                                     .island = island_path_of(island)});
    hub_pull(hub, now_us);
}

void
hub_worker_remove(struct hub *hub, uint64_t worker, uint64_t now_us)
{
    put_off(hub, TASK_REMOVE, worker, 0);
    hub_pull(hub, now_us);
}

void
hub_unable(struct hub *hub, uint64_t worker, bool unable, uint64_t now_us)
{
    put_off(hub, TASK_UNABLE, worker, unable);
    hub_pull(hub, now_us);
}

/* The network */

int
hub_recv(struct hub *hub, uint64_t session, struct slice body, uint64_t now_us)
{
    CHECK(!hub->pulling);
    int outcome = cluster_recv(hub->cluster, session, body, now_us);
    hub_pull(hub, now_us);
    return outcome;
}

void
hub_link_up(struct hub *hub, const char *address, uint64_t session,
            uint64_t now_us)
{
    CHECK(!hub->carrying);
    cluster_link_up(hub->cluster, address, session, now_us);
    hub_pull(hub, now_us);
}

void
hub_link_down(struct hub *hub, const char *address, uint64_t now_us)
{
    CHECK(!hub->carrying);
    cluster_link_down(hub->cluster, address, now_us);
    hub_pull(hub, now_us);
}

void
hub_answered(struct hub *hub, const struct discover_answer *answer,
             uint64_t now_us)
{
    CHECK(!hub->carrying);
    cluster_answered(hub->cluster, answer, now_us);
    hub_pull(hub, now_us);
}

void
hub_lookup_failed(struct hub *hub, uint64_t ticket, uint64_t now_us)
{
    put_off(hub, TASK_NO_LOOKUP, ticket, 0);
    hub_pull(hub, now_us);
}

void
hub_tick(struct hub *hub, uint64_t now_us)
{
    CHECK(!hub->pulling);
    cluster_tick(hub->cluster, now_us);
    hub_pull(hub, now_us);
}

void
hub_leave(struct hub *hub, uint64_t now_us)
{
    CHECK(!hub->pulling);
    cluster_leave(hub->cluster, now_us);
    hub_pull(hub, now_us);
}

uint64_t
hub_deadline(const struct hub *hub)
{
    return cluster_deadline(hub->cluster);
}

/* The beginning and the end */

int
hub_new(struct hub **out, const struct cluster_config *config,
        const struct member_self *self, const struct hub_network *network,
        uint64_t now_us, uint64_t seed)
{
    struct hub *hub = calloc(1, sizeof *hub);

    CHECK(network->out != NULL && network->doubt != NULL &&
          network->fault != NULL);
    if (hub == NULL) {
        return -ENOMEM;
    }
    hub->network = *network;
    hub->now_us = now_us;
    int rc = cluster_new(&hub->cluster, config, self, now_us, seed);
    if (rc != 0) {
        free(hub);
        return rc;
    }
    *out = hub;
    return 0;
}

void
hub_free(struct hub *hub)
{
    if (hub != NULL) {
        CHECK(!hub->pulling);
        cluster_free(hub->cluster);
        free(hub);
    }
}

void
hub_attach_streams(struct hub *hub, const struct hub_streams *streams)
{
    CHECK(!hub->runs && streams->out != NULL && streams->read != NULL);
    hub->streams = *streams;
}

void
hub_attach_hints(struct hub *hub, const struct hub_hints *hints)
{
    CHECK(!hub->runs && hints->out != NULL);
    hub->hints = *hints;
}

void
hub_attach_roster(struct hub *hub, const struct hub_roster *roster)
{
    CHECK(!hub->runs && roster->changed != NULL);
    hub->roster = *roster;
}

void
hub_start(struct hub *hub, uint64_t now_us)
{
    CHECK(!hub->runs);
    hub->runs = true;
    hub_pull(hub, now_us);
}

void
hub_stop(struct hub *hub)
{
    hub->runs = false;
}

struct cluster *
hub_cluster(const struct hub *hub)
{
    return hub->cluster;
}

struct gossip *
hub_gossip(const struct hub *hub)
{
    return cluster_gossip(hub->cluster);
}
