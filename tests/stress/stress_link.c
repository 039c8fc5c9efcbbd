/*
 * Three links, each on a loop and thread of its own, flood each other on both
 * channels while one of them drops, doubts, or is replaced by another process at
 * its address, again and again. What arrives is in order and once, nothing
 * grows over its bound; and when the flood ends, all are up for each other.
 * Then all are freed with what is on its way.
 *
 *   stress_link [UPSETS [SEED]]
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/counter.h"
#include "index/base/rng.h"
#include "mesh/mesh.h"

#define NODES       3U
#define PER_TURN    16U
#define CALM_EVERY  10U /* turns between tries, and pings after the flood */
#define HANG_S      60U
#define BODY_SIZE   200U
#define CTL_FRAMES  64U
#define BULK_FRAMES 128U
#define INBOX       256U
#define INBOX_BYTES ((size_t)256 << 10)

#define REQUIRE(condition)                                               \
    do {                                                                 \
        if (!(condition)) {                                              \
            printf("stress_link: %s (line %d)\n", #condition, __LINE__); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

/* What every body says. */
struct note {
    uint64_t session;
    uint64_t number; /* of its sender, receiver and channel, growing */
};

struct node {
    uv_thread_t thread;
    uv_loop_t loop;
    uv_timer_t timer;
    struct mesh_link *link;
    char address[MESH_ADDRESS_MAX];
    struct rng rng;
    uint64_t session;
    uint64_t turns;
    uint64_t upset_at; /* a turn */
    uint64_t said[NODES][MESH_CHANNELS];
    struct note heard[NODES][MESH_CHANNELS]; /* the last */
    uint64_t received;
    struct mesh_link_stats stats; /* summed over its processes */
};

static struct node nodes[NODES];
static uint64_t upsets_max = 25;
static uint64_t upsets; /* of node 0 */
static struct counter calm;
static struct counter done;
static struct gauge ups[NODES];
static uint64_t calm_us;
static uint64_t started_us;

static void
on_received(void *context, const struct mesh_link_from *from, struct slice body)
{
    struct node *node = context;
    struct note note;

    REQUIRE(body.len == BODY_SIZE);
    memcpy(&note, body.ptr, sizeof note);
    REQUIRE(note.session == from->session);
    uint32_t n = (uint32_t)(note.session >> 32) - 1;
    REQUIRE(n < NODES && strcmp(from->address, nodes[n].address) == 0);
    struct note *last = &node->heard[n][from->channel];
    REQUIRE(last->session != note.session || note.number > last->number);
    *last = note;
    node->received++;
}

static void
on_up(void *context, const char *address, uint64_t session)
{
    (void)context;
    REQUIRE(address[0] != '\0' && session != 0);
}

static void
on_down(void *context, const char *address, const char *reason)
{
    (void)context;
    REQUIRE(address[0] != '\0' && reason[0] != '\0');
}

static void
on_resumed(void *context, const char *address)
{
    (void)context;
    REQUIRE(address[0] != '\0');
}

static void
on_refused(void *context, enum mesh_refusal reason, const char *from,
           const char *what, uint64_t count)
{
    (void)context;
    (void)from;
    (void)what;
    REQUIRE(reason != MESH_REFUSED_GARBAGE && reason != MESH_REFUSED_SEQUENCE);
    REQUIRE(count > 0);
}

/* False: the port is not free yet. */
static bool
open_link(struct node *node)
{
    const struct mesh_link_sink sink = {.context = node,
                                        .received = on_received,
                                        .up = on_up,
                                        .down = on_down,
                                        .resumed = on_resumed,
                                        .refused = on_refused};
    const struct mesh_link_config config = {
        .listen = node->address,
        .cluster = "blue",
        .name = "node",
        .session = node->session + 1,
        .seed = node->session + 1,
        .limits = {.redial_ms = 50,
                   .silent_ms = 2 * HANG_S * 1000, /* no help from that */
                   .ctl_frames = CTL_FRAMES,
                   .bulk_frames = BULK_FRAMES,
                   .inbox_frames = INBOX,
                   .inbox_bytes = INBOX_BYTES}};
    const char *why;
    int rc = mesh_link_new(&node->link, &node->loop, &config, &sink, &why);

    REQUIRE(rc == 0 || rc == -EADDRINUSE);
    if (rc != 0) {
        node->link = NULL;
        return false;
    }
    node->session++;
    memset(node->said, 0, sizeof node->said);
    return true;
}

static void
close_link(struct node *node)
{
    struct mesh_link_stats stats;

    mesh_link_stats(node->link, &stats);
    node->stats.ups += stats.ups;
    node->stats.downs += stats.downs;
    node->stats.dials += stats.dials;
    node->stats.frames_dropped += stats.frames_dropped;
    node->stats.sends_full += stats.sends_full;
    node->stats.pauses += stats.pauses;
    mesh_link_free(node->link);
    node->link = NULL;
}

/* Nothing is over its bound; how many are up. */
static uint32_t
look(struct node *node)
{
    struct mesh_link_stats stats;
    struct mesh_link_peer peer;

    mesh_link_stats(node->link, &stats);
    REQUIRE(stats.inbox_peak <= INBOX);
    REQUIRE(stats.inbox_peak_bytes < INBOX_BYTES + MESH_BODY_MAX);
    REQUIRE(stats.peers < NODES);
    for (uint32_t i = 0; mesh_link_peer(node->link, i, &peer); i++) {
        /* And a hello, and what is under way. */
        REQUIRE(peer.frames[MESH_CTL] <= CTL_FRAMES + 2);
        REQUIRE(peer.frames[MESH_BULK] <= BULK_FRAMES + 2);
    }
    return stats.peers_up;
}

static void
say(struct node *node, uint32_t to, enum mesh_channel channel)
{
    char body[BODY_SIZE] = "";
    const struct note note = {node->session, node->said[to][channel] + 1};

    memcpy(body, &note, sizeof note);
    int rc = mesh_link_send(node->link, nodes[to].address, channel,
                            (struct slice){body, sizeof body});
    REQUIRE(rc == 0 || rc == MESH_LINK_E_FULL || rc == MESH_LINK_E_DOWN);
    node->said[to][channel] += rc == 0;
}

static void
speak(struct node *node, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t to = 0; to < NODES; to++) {
            if (node != &nodes[to]) {
                say(node, to, MESH_CTL);
                say(node, to, MESH_BULK);
            }
        }
    }
}

static void
upset(struct node *node)
{
    const char *other = nodes[1 + rng_below(&node->rng, NODES - 1)].address;
    uint64_t what = rng_below(&node->rng, 5);

    node->upset_at = node->turns + 5 + rng_below(&node->rng, 60);
    if (what < 2) {
        mesh_link_drop(node->link, other);
    } else if (what < 4) {
        mesh_link_doubt(node->link, other);
    } else {
        close_link(node); /* its other process is opened by and by */
    }
    if (++upsets == upsets_max) {
        calm_us = uv_hrtime() / 1000;
        counter_add(&calm, 1);
    }
}

/* Node 0 sees the end. */
static void
judge(void)
{
    uint64_t now_us = uv_hrtime() / 1000;
    bool all = true;

    for (uint32_t n = 0; n < NODES; n++) {
        all = all && gauge_read(&ups[n]) == NODES - 1;
    }
    if (all) {
        printf("stress_link: %" PRIu64 " upsets in %" PRIu64
               " ms, all up again after %" PRIu64 " ms\n",
               upsets, (calm_us - started_us) / 1000,
               (now_us - calm_us) / 1000);
        counter_add(&done, 1);
    }
    REQUIRE(now_us - calm_us < (uint64_t)HANG_S * 1000000);
}

static void
on_turn(uv_timer_t *timer)
{
    struct node *node = timer->data;
    bool is_calm = counter_read(&calm) > 0;

    node->turns++;
    if (node->link == NULL &&
        (node->turns % CALM_EVERY != 0 || !open_link(node))) {
        return;
    }
    gauge_set(&ups[node - nodes], (int32_t)look(node));
    if (counter_read(&done) > 0) {
        speak(node, PER_TURN);
        close_link(node);
        uv_close((uv_handle_t *)&node->timer, NULL);
    } else if (!is_calm) {
        speak(node, PER_TURN);
        if (node == &nodes[0] && node->turns >= node->upset_at) {
            upset(node);
        }
    } else {
        if (node->turns % CALM_EVERY == 0) {
            speak(node, 1);
        }
        if (node == &nodes[0]) {
            judge();
        }
    }
}

static void
run(void *arg)
{
    struct node *node = arg;

    REQUIRE(uv_run(&node->loop, UV_RUN_DEFAULT) == 0);
    REQUIRE(uv_loop_close(&node->loop) == 0);
}

static void
prepare(struct node *node, uint64_t seed)
{
    uint64_t n = (uint64_t)(node - nodes);

    node->session = (n + 1) << 32;
    node->upset_at = 50;
    rng_init(&node->rng, seed + n);
    (void)snprintf(node->address, sizeof node->address, "127.0.0.1:0");
    REQUIRE(uv_loop_init(&node->loop) == 0);
    REQUIRE(open_link(node));
    (void)snprintf(node->address, sizeof node->address, "%s",
                   mesh_link_address(node->link));
    REQUIRE(uv_timer_init(&node->loop, &node->timer) == 0);
    node->timer.data = node;
    REQUIRE(uv_timer_start(&node->timer, on_turn, 1, 1) == 0);
}

int
main(int argc, char **argv)
{
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    upsets_max = argc > 1 ? strtoull(argv[1], NULL, 10) : upsets_max;
    started_us = uv_hrtime() / 1000;
    (void)signal(SIGPIPE, SIG_IGN);
    for (uint32_t n = 0; n < NODES; n++) {
        prepare(&nodes[n], seed);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        REQUIRE(uv_thread_create(&nodes[n].thread, run, &nodes[n]) == 0);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        const struct mesh_link_stats *stats = &nodes[n].stats;
        REQUIRE(uv_thread_join(&nodes[n].thread) == 0);
        printf("node %u: received %" PRIu64 ", ups %" PRIu64 ", downs %" PRIu64
               ", dials %" PRIu64 ", full %" PRIu64 ", dropped %" PRIu64
               ", pauses %" PRIu64 "\n",
               n, nodes[n].received, stats->ups, stats->downs, stats->dials,
               stats->sends_full, stats->frames_dropped, stats->pauses);
        REQUIRE(nodes[n].received > 0);
    }
    uv_library_shutdown();
    return 0;
}
