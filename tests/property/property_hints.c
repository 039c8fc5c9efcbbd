/*
 * Hints in a bad world: three nodes whose requests begin and end all the time,
 * with decisions in text, and frames between them that are late, out of order,
 * twice or lost; nodes restart, workers come and go. At every step no node
 * counts more requests of its peers than these can have had; no block is
 * believed that nobody sent. Once all is well, the load of the peers on each
 * board is what the peers have open, request by request.
 *
 *   property_hints SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/base/role.h"
#include "node/peers/hints.h"

#define NODES      3U
#define WORKERS    3U
#define KEYS       40U
#define ROOT       UINT64_C(77)
#define MS         UINT64_C(1000)
#define FLIGHT     4096U
#define CHAOS_MS   4000U
#define QUIET_MS   4000U
#define GENERATION 3U

struct node {
    struct qsbr qsbr;
    struct fleet_models models;
    struct fleet_worker worker[WORKERS];
    struct fleet_view view;
    struct fleet_board *board;
    struct radix *belief;
    struct mirror *mirror;
    struct mirror_view mirrors;
    struct publish mirror_publish;
    struct gauge rank_inflight[WORKERS_MAX];
    struct gauge rank_peers[WORKERS_MAX];
    struct gossip *gossip;
    struct hints hints;
    uint64_t self;
    uint64_t linked[NODES];  /* the id of a peer that is up; 0 */
    uint32_t open[WORKERS];  /* requests, of this life */
    uint32_t most[WORKERS];  /* of any life */
    uint64_t begun[WORKERS]; /* of any life */
};

struct parcel {
    uint64_t at_us;
    uint64_t from;
    uint64_t to;
    size_t len;
    uint8_t *bytes;
};

static struct node nodes[NODES];
static struct parcel flight[FLIGHT];
static uint32_t flights;
static struct rng rng;
static uint64_t seed_now;
static uint64_t now_us;
static uint64_t lives;
static uint64_t keys[KEYS];
static uint32_t sent_depth[WORKERS]; /* longest prompt that anybody sent */
static bool bad;

static void
fault(const char *what, uint32_t node, uint32_t worker)
{
    printf("property_hints: %s, node %u, worker %u, at %llu ms, seed %llu\n",
           what, node, worker, (unsigned long long)(now_us / MS),
           (unsigned long long)seed_now);
    exit(1);
}

static uint32_t
below(uint64_t bound)
{
    return (uint32_t)rng_below(&rng, bound);
}

/* A worker has another slot at each node. */
static uint32_t
slot_at(uint32_t at, uint32_t worker)
{
    return worker + 10 * at;
}

static bool
has(uint32_t at, uint32_t worker)
{
    return nodes[at].view.worker[slot_at(at, worker)] != NULL;
}

static void
add_worker(uint32_t at, uint32_t worker)
{
    struct node *n = &nodes[at];
    uint32_t slot = slot_at(at, worker);

    n->worker[worker] = (struct fleet_worker){.slot = slot,
                                              .generation = GENERATION,
                                              .ranks = 1,
                                              .identity = 500 + worker};
    n->view.worker[slot] = &n->worker[worker];
    n->view.identity[slot] = n->worker[worker].identity;
    worker_set_add(&n->view.present, slot);
    n->view.version++;
}

static void
remove_worker(uint32_t at, uint32_t worker)
{
    struct node *n = &nodes[at];
    uint32_t slot = slot_at(at, worker);

    worker_set_remove(&n->view.present, slot);
    n->view.worker[slot] = NULL;
    n->view.version++;
    n->open[worker] = 0;
    gauge_set(&n->board->inflight[slot], 0);
}

static void
start_node(uint32_t at)
{
    struct radix_limits belief = {
        .bytes_max = (size_t)4 << 20, .namespaces_max = 8, .depth_max = 1024};
    struct mirror_limits mirror = {.bytes_max = (size_t)1 << 20};
    struct gossip_config config = gossip_config_default();
    struct node *n = &nodes[at];

    qsbr_init(&n->qsbr);
    CHECK(radix_new(&n->belief, &belief, &n->qsbr) == 0);
    CHECK(mirror_new(&n->mirror, &mirror, &n->qsbr) == 0);
    n->board = aligned_alloc(64, (sizeof *n->board + 63) / 64 * 64);
    CHECK(n->board != NULL);
    memset(n->board, 0, sizeof *n->board);
    memset(&n->view, 0, sizeof n->view);
    memset(n->open, 0, sizeof n->open);
    memset(n->linked, 0, sizeof n->linked);
    n->view.models = &n->models;
    for (uint32_t w = 0; w < WORKERS; w++) {
        add_worker(at, w);
        CHECK(radix_worker_add(n->belief, slot_at(at, w), 1000, RADIX_LRU) ==
              0);
    }
    publish_set(&n->board->view, &n->view);
    publish_set(&n->mirror_publish, &n->mirrors);
    n->self = ++lives * NODES + at;
    CHECK(gossip_new(&n->gossip, &config, n->self, now_us, lives) == 0);
    struct hints_world world = {.board = n->board,
                                .belief = n->belief,
                                .mirror = n->mirror,
                                .mirror_view = &n->mirror_publish,
                                .rank_inflight = n->rank_inflight,
                                .rank_peers = n->rank_peers};
    hints_init(&n->hints, &world);
    hints_join(&n->hints, n->gossip, config.gauge_ms, now_us);
}

static void
stop_node(uint32_t at)
{
    struct node *n = &nodes[at];

    gossip_free(n->gossip);
    radix_free(n->belief);
    mirror_free(n->mirror);
    (void)qsbr_reclaim(&n->qsbr);
    qsbr_fini(&n->qsbr);
    free(n->board);
}

/* The network */

static void
send_copies(const struct gossip_out *out, uint64_t from)
{
    uint32_t copies = !bad ? 1 : below(10) == 0 ? 0 : 1 + (below(10) == 0);

    for (uint32_t i = 0; i < copies && flights < FLIGHT; i++) {
        struct parcel *f = &flight[flights++];
        *f = (struct parcel){
            .at_us = now_us + (1 + below(bad && below(5) == 0 ? 200 : 5)) * MS,
            .from = from,
            .to = out->peer,
            .len = out->len,
            .bytes = malloc(out->len)};
        CHECK(f->bytes != NULL);
        memcpy(f->bytes, out->bytes, out->len);
    }
}

static void
pull(uint32_t at)
{
    struct node *n = &nodes[at];
    struct gossip_out out;

    role_is_control();
    while (gossip_next_out(n->gossip, &out)) {
        if (out.kind == GOSSIP_BELIEF) {
            hints_belief_out(&n->hints, &out, now_us);
        } else if (out.kind == GOSSIP_SEND) {
            send_copies(&out, n->self);
        }
    }
}

static void
deliver(void)
{
    for (uint32_t i = 0; i < flights;) {
        struct parcel f = flight[i];
        if (f.at_us > now_us) {
            i++;
            continue;
        }
        flight[i] = flight[--flights];
        struct node *to = &nodes[f.to % NODES];
        if (to->self == f.to) {
            int r = gossip_recv(to->gossip, f.from, f.bytes, f.len, now_us);
            CHECK(r == 0 || r == GOSSIP_E_STRANGER);
            pull((uint32_t)(f.to % NODES));
        }
        free(f.bytes);
    }
}

/* Links come up and go down as nodes notice each other's lives. */
static void
step_links(uint32_t at)
{
    struct node *n = &nodes[at];

    for (uint32_t i = 0; i < NODES; i++) {
        if (i == at || n->linked[i] == nodes[i].self ||
            (bad && below(30) != 0)) {
            continue;
        }
        if (n->linked[i] != 0) {
            gossip_peer_down(n->gossip, n->linked[i], now_us);
        }
        CHECK(gossip_peer_up(n->gossip, nodes[i].self, now_us) == 0);
        n->linked[i] = nodes[i].self;
        pull(at);
    }
}

/* Requests */

static void
begin_request(uint32_t at, uint32_t worker)
{
    uint64_t room[sizeof(struct fact_learn) / sizeof(uint64_t) + KEYS];
    struct fact_learn *fact = (void *)room;
    struct node *n = &nodes[at];
    uint32_t count = below(KEYS + 1);

    n->open[worker]++;
    n->begun[worker]++;
    n->most[worker] =
        n->open[worker] > n->most[worker] ? n->open[worker] : n->most[worker];
    sent_depth[worker] =
        count > sent_depth[worker] ? count : sent_depth[worker];
    gauge_set(&n->board->inflight[slot_at(at, worker)],
              (int32_t)n->open[worker]);
    *fact = (struct fact_learn){.kind = FACT_LEARN,
                                .slot = slot_at(at, worker),
                                .generation = GENERATION,
                                .count = count,
                                .root = ROOT};
    memcpy(fact->keys, keys, count * sizeof *keys);
    hints_sent(&n->hints, fact, now_us);
    if (fact->count != 0) {
        hints_learn(&n->hints, fact, now_us);
    }
    pull(at);
}

static void
end_request(uint32_t at, uint32_t worker)
{
    struct node *n = &nodes[at];

    n->open[worker]--;
    gauge_set(&n->board->inflight[slot_at(at, worker)],
              (int32_t)n->open[worker]);
    hints_ended(&n->hints, slot_at(at, worker), GENERATION, now_us);
    pull(at);
}

static void
step_requests(void)
{
    uint32_t at = below(NODES);
    uint32_t worker = below(WORKERS);

    if (!has(at, worker)) {
        return;
    }
    if (below(2) == 0) {
        begin_request(at, worker);
    } else if (nodes[at].open[worker] > 0) {
        end_request(at, worker);
    }
}

static void
break_something(void)
{
    uint32_t at = below(NODES);
    uint32_t worker = below(WORKERS);

    if (below(1500) == 0) {
        stop_node(at);
        start_node(at);
    } else if (below(400) == 0 && has(at, worker)) {
        remove_worker(at, worker);
    } else if (below(200) == 0 && !has(at, worker)) {
        add_worker(at, worker);
    }
}

/* Checks */

static uint32_t
believed(uint32_t at, uint32_t worker)
{
    struct radix_match match;
    uint32_t slot = slot_at(at, worker);

    radix_match(nodes[at].belief, ROOT, keys, KEYS, &match);
    return worker_set_has(&match.workers, slot) ? match.depth[slot] : 0;
}

static void
check_step(uint32_t at, uint32_t worker)
{
    uint64_t most = 0;
    uint32_t told = gauge_read(&nodes[at].board->peers[slot_at(at, worker)]);

    for (uint32_t i = 0; i < NODES; i++) {
        /* A begin counts until the gauges that include it, no matter how many
         * ends were lost: at most what was open once and began since. */
        most += i == at ? 0 : nodes[i].most[worker] + nodes[i].begun[worker];
    }
    if (told > most) {
        fault("peers have more requests than they ever had", at, worker);
    }
    if (!has(at, worker) && told != 0 &&
        nodes[at].hints.view_heard == nodes[at].view.version) {
        fault("a worker that went has load", at, worker);
    }
    if (believed(at, worker) > sent_depth[worker]) {
        fault("more is believed than was sent", at, worker);
    }
}

static void
check_quiet(uint32_t at, uint32_t worker)
{
    uint32_t open = 0;

    for (uint32_t i = 0; i < NODES; i++) {
        open += i != at ? nodes[i].open[worker] : 0;
    }
    if (gauge_read(&nodes[at].board->peers[slot_at(at, worker)]) != open) {
        fault("the load of peers is not what they have open", at, worker);
    }
}

static void
step(bool requests)
{
    now_us += MS;
    deliver();
    if (requests) {
        step_requests();
    }
    for (uint32_t at = 0; at < NODES; at++) {
        step_links(at);
        (void)hints_tick(&nodes[at].hints, now_us);
        gossip_tick(nodes[at].gossip, now_us);
        pull(at);
        (void)hints_tick(&nodes[at].hints, now_us);
        check_step(at, below(WORKERS));
    }
}

static void
run(uint64_t seed)
{
    seed_now = seed;
    rng_init(&rng, seed);
    now_us = 1000 * MS;
    memset(nodes, 0, sizeof nodes);
    memset(sent_depth, 0, sizeof sent_depth);
    flights = 0;
    for (uint32_t at = 0; at < NODES; at++) {
        start_node(at);
    }
    bad = true;
    for (uint32_t i = 0; i < CHAOS_MS; i++) {
        break_something();
        step(true);
    }
    bad = false;
    for (uint32_t at = 0; at < NODES; at++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            if (!has(at, w)) {
                add_worker(at, w);
            }
        }
    }
    for (uint32_t i = 0; i < QUIET_MS; i++) {
        step(i < QUIET_MS / 2);
    }
    for (uint32_t at = 0; at < NODES; at++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            check_quiet(at, w);
        }
        stop_node(at);
    }
    while (flights > 0) {
        free(flight[--flights].bytes);
    }
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (uint32_t i = 0; i < KEYS; i++) {
        keys[i] = rng_mix(i);
    }
    for (uint64_t i = 0; i < seeds; i++) {
        run(first + i);
    }
    printf("%llu seeds from %llu\n", (unsigned long long)seeds,
           (unsigned long long)first);
    return 0;
}
