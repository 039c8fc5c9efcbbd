/*
 * How long from an engine's send until every node of a mesh finds the blocks,
 * and what that costs in bytes and CPU time.
 *
 * All nodes are in this process, each as `kvasir serve` has it but for the
 * lanes: a control loop on a thread of its own, an intake's thread, real links
 * over loopback. One ZeroMQ publisher on a thread of its own sends 2,000 times
 * a second, or RATE times, a vLLM BlockStored of 8 blocks of 16 tokens; an
 * observer looks in all mirrors, as lanes do, 5,000 times a second or as often
 * as it can.
 *
 *     bench_mesh [NODES[@RATE]...]       1 3 5 7, if none are given
 *
 * One line for each: KEY=VALUE, times in microseconds.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>
#include <zmq.h>

#include "node/control/control.h"
#include "node/route/shared.h"
#include "tests/bench/stored_batch.h"

#define NODES_MAX 20U
#define PACED     8000U /* batches */
#define WARM      1000U /* of them are not counted */
#define RATE      2000U /* batches a second */
#define READERS   2U    /* the default of mesh.ingest_replicas */
#define LOOK_NS   200000L
#define WAIT_US   UINT64_C(30000000)
#define HEAD      8U /* bytes of a batch beside its payload: its number */

/* A node's state, as its own thread saw it when asked. */
struct told {
    uint32_t alive;
    uint32_t peers_up;
    uint32_t reading;   /* workers whose events it reads */
    uint64_t connected; /* how often it got through to them */
    struct gossip_status stream;
    struct gossip_stats gossip;
    struct mesh_link_stats link;
};

struct bench_node {
    struct config config;
    struct node_shared shared;
    struct control control;
    uv_thread_t thread;
    uv_async_t call; /* look, or stop */
    uv_sem_t called;
    bool stop;
    struct told told;
    struct qsbr_reader *reader; /* the observer's */
    uint32_t next;              /* batch that is looked for */
    uint64_t *visible_us;       /* by batch */
    double cpu_us;              /* of the control thread, WARM to the end */
};

static struct stored_batch *batches;
static uint64_t sent_us[PACED];
static struct bench_node *nodes[NODES_MAX];
static uint32_t nodes_count;

static uint64_t
now_us(void)
{
    return uv_hrtime() / 1000;
}

static void
pause_ns(long ns)
{
    struct timespec time = {.tv_nsec = ns};

    (void)ppoll(NULL, 0, &time, NULL);
}

/* The publisher */

struct publisher {
    void *zmq;
    void *socket;
    char url[64];
    uv_thread_t thread;
    uint32_t seq;
    uint32_t rate;
    uint64_t begun_us;
};

static void
send_batch(struct publisher *p)
{
    unsigned char number[HEAD];
    const struct stored_batch *batch = &batches[p->seq];

    for (unsigned i = 0; i < HEAD; i++) {
        number[i] = (unsigned char)((uint64_t)p->seq >> (56 - 8 * i));
    }
    sent_us[p->seq] = now_us();
    (void)zmq_send(p->socket, "", 0, ZMQ_SNDMORE);
    (void)zmq_send(p->socket, number, sizeof number, ZMQ_SNDMORE);
    (void)zmq_send(p->socket, batch->bytes, batch->len, 0);
    p->seq++;
}

static void
on_pace(uv_timer_t *timer)
{
    struct publisher *p = timer->data;

    uint64_t due = (now_us() - p->begun_us) * p->rate / 1000000 + 1;

    while (p->seq < due && p->seq < PACED) {
        send_batch(p);
    }
    if (p->seq == PACED) {
        uv_close((uv_handle_t *)timer, NULL);
    }
}

static void
publish(void *arg)
{
    struct publisher *p = arg;
    uv_loop_t loop;
    uv_timer_t timer;

    p->begun_us = now_us();
    CHECK(uv_loop_init(&loop) == 0 && uv_timer_init(&loop, &timer) == 0);
    timer.data = arg;
    CHECK(uv_timer_start(&timer, on_pace, 0, 1) == 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
}

static void
open_publisher(struct publisher *p, uint32_t rate)
{
    int none = 0;
    size_t len = sizeof p->url;

    *p = (struct publisher){.zmq = zmq_ctx_new(), .rate = rate};
    p->socket = zmq_socket(p->zmq, ZMQ_PUB);
    CHECK(zmq_setsockopt(p->socket, ZMQ_SNDHWM, &none, sizeof none) == 0);
    CHECK(zmq_setsockopt(p->socket, ZMQ_LINGER, &none, sizeof none) == 0);
    CHECK(zmq_bind(p->socket, "tcp://127.0.0.1:*") == 0);
    CHECK(zmq_getsockopt(p->socket, ZMQ_LAST_ENDPOINT, p->url, &len) == 0);
}

static void
close_publisher(struct publisher *p)
{
    (void)zmq_close(p->socket);
    (void)zmq_ctx_term(p->zmq);
}

/* Nodes */

static void ON_CONTROL
look_inside(struct bench_node *node)
{
    struct cluster *cluster = control_cluster(&node->control);
    struct cluster_stats stats;
    struct told *told = &node->told;

    cluster_stats(cluster, &stats);
    told->alive = member_count_alive(cluster_members(cluster));
    told->peers_up = stats.peers_up;
    told->reading = stats.reading;
    const struct intake_numbers *numbers =
        intake_numbers(ingest_intake(node->control.ingest), 0, 0);
    told->connected = numbers != NULL ? counter_read(&numbers->kv.connects) : 0;
    if (!gossip_status(cluster_gossip(cluster), 0, &told->stream)) {
        told->stream.reads = false;
    }
    gossip_stats(cluster_gossip(cluster), &told->gossip);
    if (peers_link(node->control.peers) != NULL) {
        mesh_link_stats(peers_link(node->control.peers), &told->link);
    }
}

static void
on_call(uv_async_t *call)
{
    struct bench_node *node = call->data;

    role_is_control();
    look_inside(node);
    if (node->stop) {
        uv_close((uv_handle_t *)call, NULL);
        control_stop(&node->control);
    }
    uv_sem_post(&node->called);
}

static void
ask(struct bench_node *node)
{
    CHECK(uv_async_send(&node->call) == 0);
    uv_sem_wait(&node->called);
}

static void
run_node(void *arg)
{
    struct bench_node *node = arg;

    (void)uv_run(&node->control.loop, UV_RUN_DEFAULT);
}

static void
configure(struct bench_node *node, uint32_t at, uint32_t count,
          const char *events)
{
    const char *seed = at > 0 ? peers_address(nodes[0]->control.peers) : NULL;
    struct config_errors errors;
    char name[16];
    char worker[128];

    (void)snprintf(name, sizeof name, "n%" PRIu32, at);
    /* Nobody serves there: health says so, and events are read all the same. */
    (void)snprintf(worker, sizeof worker,
                   "http://127.0.0.1:9,id=engine,events=%s", events);
    struct config_flag flags[] = {
        {"name", name},     {"lanes", "1"},
        {"worker", worker}, {"mesh", count > 1 ? "127.0.0.1:0" : ""},
        {"join", seed},
    };
    struct config_sources sources = {
        .flags = flags,
        .flags_count = seed != NULL ? 5
                       : count > 1  ? 4
                                    : 3,
    };
    config_errors_init(&errors);
    CHECK(config_load(&sources, &node->config, &errors) == 0);
    config_errors_fini(&errors);
}

static void ON_CONTROL
start_node(uint32_t at, uint32_t count, const char *events)
{
    struct bench_node *node = aligned_alloc(64, (sizeof *node + 63) / 64 * 64);

    CHECK(node != NULL);
    memset(node, 0, sizeof *node);
    nodes[at] = node;
    node->visible_us = calloc(PACED, sizeof *node->visible_us);
    CHECK(node->visible_us != NULL);
    configure(node, at, count, events);
    CHECK(shared_init(&node->shared, &node->config) == 0);
    CHECK(control_init(&node->control, &node->shared, NULL, at + 1) == 0);
    node->reader = qsbr_register(&node->shared.qsbr);
    CHECK(uv_async_init(&node->control.loop, &node->call, on_call) == 0);
    CHECK(uv_sem_init(&node->called, 0) == 0);
    node->call.data = node;
    CHECK(uv_thread_create(&node->thread, run_node, node) == 0);
}

static void
stop_node(struct bench_node *node)
{
    node->stop = true;
    ask(node);
    CHECK(uv_thread_join(&node->thread) == 0);
    role_is_control();
    control_fini(&node->control);
    shared_fini(&node->shared);
    config_fini(&node->config);
    uv_sem_destroy(&node->called);
    free(node->visible_us);
    free(node);
}

/* All see all, and those that are to read hear the engine. */
static bool
is_together(void)
{
    uint32_t readers = 0;

    for (uint32_t i = 0; i < nodes_count; i++) {
        struct told *told = &nodes[i]->told;
        ask(nodes[i]);
        if (told->alive != nodes_count || told->peers_up != nodes_count - 1) {
            return false;
        }
        if (told->reading != 0 && told->connected != 0) {
            readers++;
        }
    }
    return readers == (nodes_count > 1 ? READERS : 1);
}

/* Observing */

static bool
finds(struct bench_node *node, uint32_t batch)
{
    const struct mirror_view *view = mirror_view_get(&node->shared.mirror_view);
    struct mirror_match match;

    if (view->groups_count == 0) {
        return false;
    }
    mirror_match(node->shared.mirror, &view->groups[0].slots,
                 batches[batch].keys, STORED_BATCH_BLOCKS, &match);
    return match.best == STORED_BATCH_BLOCKS;
}

static double
thread_cpu_us(uv_thread_t thread)
{
    struct timespec at;
    clockid_t clock;

    CHECK(pthread_getcpuclockid(thread, &clock) == 0);
    CHECK(clock_gettime(clock, &at) == 0);
    return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

static void
look(struct bench_node *node)
{
    qsbr_online(&node->shared.qsbr, node->reader);
    while (node->next < PACED && finds(node, node->next)) {
        node->visible_us[node->next++] = now_us();
        if (node->next == WARM) {
            node->cpu_us -= thread_cpu_us(node->thread);
        } else if (node->next == PACED) {
            node->cpu_us += thread_cpu_us(node->thread);
        }
    }
    qsbr_offline(node->reader);
}

/* Until all is seen, or WAIT_US passed after all should have been sent. */
static void
observe(uint32_t rate)
{
    uint64_t end_us = now_us() + WAIT_US + PACED * UINT64_C(1000000) / rate;
    bool done = false;

    while (!done && now_us() < end_us) {
        done = true;
        for (uint32_t i = 0; i < nodes_count; i++) {
            look(nodes[i]);
            done = done && nodes[i]->next == PACED;
        }
        pause_ns(LOOK_NS);
    }
}

/* Numbers */

static int
compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

/* How late the last of those nodes saw each batch; returns false for none.
 * which: 1 readers, 0 others, -1 all. */
static bool
lateness(int which, uint64_t out[PACED])
{
    bool any = false;

    memset(out, 0, PACED * sizeof *out);
    for (uint32_t n = 0; n < nodes_count; n++) {
        if (which >= 0 && nodes[n]->told.stream.reads != (which == 1)) {
            continue;
        }
        any = true;
        for (uint32_t i = 0; i < PACED; i++) {
            uint64_t late_us = nodes[n]->visible_us[i] == 0
                                   ? UINT64_MAX
                                   : nodes[n]->visible_us[i] - sent_us[i];
            out[i] = late_us > out[i] ? late_us : out[i];
        }
    }
    return any;
}

static void
print_lateness(const char *name, int which)
{
    static uint64_t late_us[PACED];
    uint64_t *first = late_us + WARM;
    size_t count = PACED - WARM;

    if (lateness(which, late_us)) {
        qsort(first, count, sizeof *first, compare);
        printf(" %s_p50_us=%" PRIu64 " %s_p99_us=%" PRIu64
               " %s_max_us=%" PRIu64,
               name, first[count / 2], name, first[count / 100 * 99], name,
               first[count - 1]);
    }
}

static void
print_cpu(const char *name, bool reads)
{
    double cpu_us = 0;
    uint32_t count = 0;

    for (uint32_t n = 0; n < nodes_count; n++) {
        if (nodes[n]->told.stream.reads == reads) {
            cpu_us += nodes[n]->cpu_us;
            count++;
        }
    }
    if (count != 0) {
        printf(" %s_cpu_us=%.1f", name, cpu_us / count / (PACED - WARM));
    }
}

/* For a block: what the engine sent, what gossip pushed to one peer, and all
 * that links carried, for each peer. */
static void
print_bytes(void)
{
    uint64_t raw = 0;
    uint64_t pushed = 0;
    uint64_t link = 0;

    for (uint32_t i = 0; i < PACED; i++) {
        raw += batches[i].len + HEAD;
    }
    for (uint32_t n = 0; n < nodes_count; n++) {
        pushed += nodes[n]->told.gossip.push_bytes;
        link += nodes[n]->told.link.bytes_sent;
    }
    double all = (double)PACED * STORED_BATCH_BLOCKS;
    printf(" raw_bytes=%.1f", (double)raw / all);
    if (nodes_count > 1) {
        printf(" push_bytes=%.2f link_bytes=%.2f", (double)pushed / all,
               (double)link / all / (nodes_count - 1));
    }
}

static void
print_result(uint32_t rate, bool together)
{
    printf("nodes=%" PRIu32 " rate=%" PRIu32 " together=%d", nodes_count, rate,
           together);
    print_lateness("all", -1);
    print_lateness("readers", 1);
    print_lateness("others", 0);
    print_cpu("readers", true);
    print_cpu("others", false);
    print_bytes();
    printf("\n");
    (void)fflush(stdout);
}

static void
measure(uint32_t count, uint32_t rate)
{
    struct publisher publisher;
    uint64_t end_us = now_us() + WAIT_US;
    bool together = false;

    role_is_control();
    open_publisher(&publisher, rate);
    nodes_count = count;
    for (uint32_t i = 0; i < count; i++) {
        start_node(i, count, publisher.url);
    }
    while (!together && now_us() < end_us) {
        together = is_together();
        pause_ns(20000000);
    }
    pause_ns(500000000); /* for subscriptions to arrive */
    CHECK(uv_thread_create(&publisher.thread, publish, &publisher) == 0);
    observe(rate);
    CHECK(uv_thread_join(&publisher.thread) == 0);
    for (uint32_t i = 0; i < count; i++) {
        ask(nodes[i]);
    }
    print_result(rate, together);
    for (uint32_t i = 0; i < count; i++) {
        stop_node(nodes[i]);
    }
    close_publisher(&publisher);
}

int
main(int argc, char **argv)
{
    static const uint32_t sizes[] = {1, 3, 5, 7};
    struct rng rng;

    batches = calloc(PACED, sizeof *batches);
    CHECK(batches != NULL);
    rng_init(&rng, 1);
    for (uint32_t i = 0; i < PACED; i++) {
        stored_batch_fill(&batches[i], &rng);
    }
    for (size_t i = 0; argc == 1 && i < sizeof sizes / sizeof *sizes; i++) {
        measure(sizes[i], RATE);
    }
    for (int i = 1; i < argc; i++) {
        char *end;
        unsigned long count = strtoul(argv[i], &end, 10);
        unsigned long rate = *end == '@' ? strtoul(end + 1, NULL, 10) : RATE;
        CHECK(count >= 1 && count <= NODES_MAX && rate >= 1 && rate <= 100000);
        measure((uint32_t)count, (uint32_t)rate);
    }
    free(batches);
    return 0;
}
