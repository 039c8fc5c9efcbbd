/*
 * Do nodes herd? The same load, through 1, 3 and 7 nodes, onto the same
 * engines, on virtual time: route_elect() on each node's own board, what the
 * others do known by hints.h over real gossip (at most every 50 ms, and a
 * network of 1 to 3 ms), engines that run all they have and are the slower the
 * more that is (8 ms and 0.65 ms per request for an iteration).
 *
 * Imbalance is the greatest over the mean of the engines' requests in flight
 * (each millisecond), and of what they completed (each five seconds), both as
 * means over time. With several nodes it may be a tenth more than with one. And
 * this must be able to fail: where each engine has little to do, nodes that do
 * not know of each other are required to be worse than that.
 *
 * Prompts of groups that share a prefix, by the policy kvasir: the part of the
 * requests that meet an engine which has their prefix must be the same, within
 * a hundredth, whatever the number of nodes, because decisions travel too.
 *
 *   property_herd SECONDS [FIRST_SEED]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/base/role.h"
#include "node/elect/elect.h"
#include "node/peers/hints.h"
#include "node/route/route.h"

#define NODES_MAX  7
#define ENGINES    16
#define FLIGHTS    65536
#define REQUESTS   65536
#define WARM_MS    5000U
#define WINDOW_MS  5000U
#define ITERATE_US 8000.0
#define REQUEST_US 650.0
#define PREFIX     16U /* blocks */
#define SUFFIX     4U
#define GROUPS     400U
#define ROOT       UINT64_C(0x5eed)
#define WORSE_MAX  1.10
#define HITS_APART 0.01

struct node {
    struct qsbr qsbr;
    struct fleet_board *board;
    struct radix *belief;
    struct mirror *mirror;
    struct gauge rank_inflight[WORKERS_MAX];
    struct gauge rank_peers[WORKERS_MAX];
    struct publish mirror_publish;
    struct gossip *gossip;
    struct hints hints;
    struct route_scratch scratch;
    struct route_world world;
    struct rng rng;
};

struct request {
    uint32_t node;
    uint32_t engine;
    double left; /* iterations */
    struct fleet_lease lease;
};

struct flight {
    uint64_t at_us;
    uint32_t from;
    uint32_t to;
    uint8_t *bytes;
    size_t len;
};

struct scene {
    const char *name;
    enum elect_policy policy;
    double per_second; /* requests, to all */
    double iterations; /* of one, mean */
    bool prefixes;
    bool needs_others; /* is worse when nodes do not know of each other */
    bool blind;        /* they do not */
};

struct outcome {
    double inflight;  /* greatest over mean, mean over time */
    double completed; /* the same, by window */
    double mean;      /* requests in flight at one engine */
    double hits;      /* of requests, at engines that have their prefix */
};

static struct {
    struct scene scene;
    uint32_t nodes_count;
    uint64_t now_us;
    struct rng arrivals;
    struct rng network;
    struct node *nodes[NODES_MAX];
    struct request *requests;
    uint32_t requests_count;
    struct flight *flights;
    uint32_t flights_count;
    uint32_t running[ENGINES];
    uint32_t completed[ENGINES]; /* in this window */
    bool holds[ENGINES][GROUPS];
    uint64_t sent, hit, samples, windows;
    struct outcome sum;
} sim;

static struct fleet_view view;
static struct fleet_models models;
static struct fleet_worker workers[ENGINES];
static struct mirror_view mirrors;
static struct elect_config elect;
static uint64_t seed = 1;

#define REQUIRE(condition)                                                 \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("property_herd: %s (line %d), seed %llu\n", #condition, \
                   __LINE__, (unsigned long long)seed);                    \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

static double
uniform(struct rng *rng)
{
    return ((double)(rng_next(rng) >> 11) + 0.5) / 9007199254740992.0;
}

static double
exponential(struct rng *rng, double mean)
{
    return -mean * log(uniform(rng));
}

/* The nodes */

static void
make_fleet(void)
{
    view.version = 1;
    view.models = &models;
    for (uint32_t i = 0; i < ENGINES; i++) {
        workers[i] = (struct fleet_worker){
            .slot = i, .generation = 1, .identity = rng_mix(i + 1), .ranks = 1};
        view.worker[i] = &workers[i];
        view.identity[i] = workers[i].identity;
        worker_set_add(&view.present, i);
        worker_set_add(&view.eligible, i);
        worker_set_add(&view.any_model, i);
    }
}

static void
make_index(struct node *n)
{
    struct radix_limits belief = {
        .bytes_max = (size_t)64 << 20, .namespaces_max = 4, .depth_max = 64};
    struct mirror_limits mirror = {.bytes_max = (size_t)8 << 20};

    qsbr_init(&n->qsbr);
    REQUIRE(radix_new(&n->belief, &belief, &n->qsbr) == 0);
    REQUIRE(mirror_new(&n->mirror, &mirror, &n->qsbr) == 0);
    for (uint32_t i = 0; i < ENGINES; i++) {
        REQUIRE(radix_worker_add(n->belief, i, 100000, RADIX_LRU) == 0);
    }
}

static void
make_scratch(struct node *n)
{
    static struct config config;

    config.limits.json_depth_max = 16;
    config.limits.spans_max = 16;
    config.belief.block_bytes = 64;
    config.belief.depth_max = 64;
    REQUIRE(route_scratch_init(&n->scratch, &config) == 0);
    n->world = (struct route_world){
        .elect = &elect,
        .view = &view,
        .board = n->board,
        .belief = n->belief,
        .rank_inflight = n->rank_inflight,
        .rank_peers = n->rank_peers,
        .tokens = {.mirror = n->mirror, .view = &mirrors},
    };
}

static void
make_node(uint32_t at)
{
    size_t size = (sizeof(struct fleet_board) + 63) / 64 * 64;
    struct node *n = calloc(1, sizeof *n);
    struct gossip_config config = gossip_config_default();

    REQUIRE(n != NULL);
    sim.nodes[at] = n;
    n->board = aligned_alloc(64, size);
    REQUIRE(n->board != NULL);
    memset(n->board, 0, size);
    publish_set(&n->board->view, &view);
    publish_set(&n->mirror_publish, &mirrors);
    make_index(n);
    make_scratch(n);
    rng_init(&n->rng, seed * 100 + at);
    struct hints_world world = {
        .board = n->board,
        .belief = n->belief,
        .mirror = n->mirror,
        .mirror_view = &n->mirror_publish,
        .rank_inflight = n->rank_inflight,
        .rank_peers = n->rank_peers,
    };
    hints_init(&n->hints, &world);
    REQUIRE(gossip_new(&n->gossip, &config, at + 1, 0, seed + at) == 0);
    for (uint32_t peer = 0; peer < sim.nodes_count; peer++) {
        if (peer != at && !sim.scene.blind) {
            REQUIRE(gossip_peer_up(n->gossip, peer + 1, 0) == 0);
        }
    }
    hints_join(&n->hints, n->gossip, config.gauge_ms, 7000 * (uint64_t)at);
}

static void
free_node(uint32_t at)
{
    struct node *n = sim.nodes[at];

    gossip_free(n->gossip);
    route_scratch_fini(&n->scratch);
    radix_free(n->belief);
    mirror_free(n->mirror);
    free(n->board);
    free(n);
}

/* The network */

static void
carry(uint32_t from, const struct gossip_out *out)
{
    uint64_t way_us = 1000 + rng_next(&sim.network) % 2000;
    struct flight *flight = &sim.flights[sim.flights_count];

    REQUIRE(sim.flights_count < FLIGHTS);
    sim.flights_count++;
    *flight = (struct flight){.at_us = sim.now_us + way_us,
                              .from = from,
                              .to = (uint32_t)out->peer - 1,
                              .bytes = malloc(out->len),
                              .len = out->len};
    REQUIRE(flight->bytes != NULL);
    memcpy(flight->bytes, out->bytes, out->len);
}

static void
pull(uint32_t at)
{
    role_is_control();
    struct node *n = sim.nodes[at];
    struct gossip_out out;

    while (gossip_next_out(n->gossip, &out)) {
        if (out.kind == GOSSIP_SEND) {
            carry(at, &out);
        } else if (out.kind == GOSSIP_BELIEF) {
            hints_belief_out(&n->hints, &out, sim.now_us);
        }
    }
}

static void
deliver(void)
{
    for (uint32_t i = 0; i < sim.flights_count;) {
        struct flight flight = sim.flights[i];
        if (flight.at_us > sim.now_us) {
            i++;
            continue;
        }
        sim.flights[i] = sim.flights[--sim.flights_count];
        REQUIRE(gossip_recv(sim.nodes[flight.to]->gossip, flight.from + 1,
                            flight.bytes, flight.len, sim.now_us) == 0);
        free(flight.bytes);
        pull(flight.to);
        (void)hints_tick(&sim.nodes[flight.to]->hints, sim.now_us);
    }
}

static void
tick_nodes(void)
{
    for (uint32_t i = 0; i < sim.nodes_count; i++) {
        struct node *n = sim.nodes[i];
        if (gossip_deadline(n->gossip) <= sim.now_us) {
            gossip_tick(n->gossip, sim.now_us);
        }
        if (hints_deadline(&n->hints) <= sim.now_us) {
            (void)hints_tick(&n->hints, sim.now_us);
        }
        pull(i);
    }
}

/* Requests */

static void
make_prompt(struct node *n, uint32_t *group)
{
    struct blocks *blocks = &n->scratch.blocks;
    double u = uniform(&sim.arrivals);

    route_read_nothing(&n->scratch);
    *group = (uint32_t)((double)GROUPS * u * u);
    uint64_t tail = rng_next(&sim.arrivals);
    if (!sim.scene.prefixes) {
        return;
    }
    blocks->root = ROOT;
    blocks->count = PREFIX + SUFFIX;
    for (uint32_t i = 0; i < blocks->count; i++) {
        blocks->keys[i] = rng_mix((i < PREFIX ? *group + 1 : tail) * 1000 + i);
    }
}

static void
believe(struct node *n, uint32_t worker)
{
    const struct blocks *blocks = &n->scratch.blocks;
    struct fact_learn *fact =
        malloc(sizeof *fact + blocks->count * sizeof *fact->keys);

    REQUIRE(fact != NULL);
    *fact = (struct fact_learn){.kind = FACT_LEARN,
                                .slot = worker,
                                .generation = 1,
                                .count = blocks->count,
                                .root = blocks->root};
    memcpy(fact->keys, blocks->keys, blocks->count * sizeof *fact->keys);
    REQUIRE(fact->count == 0 ||
            radix_insert(n->belief, fact->root, fact->keys, fact->count, worker,
                         0, sim.now_us) == 0);
    hints_sent(&n->hints, fact, sim.now_us);
    if (fact->count != 0) {
        hints_learn(&n->hints, fact, sim.now_us);
    }
    free(fact);
}

static void
arrive(void)
{
    role_is_lane();
    uint32_t at = (uint32_t)(rng_next(&sim.arrivals) >> 32) % 105;
    double iterations = exponential(&sim.arrivals, sim.scene.iterations);
    struct node *n = sim.nodes[at % sim.nodes_count];
    struct route_choice choice = {.exact = false};
    struct worker_set tried;
    uint32_t group;

    worker_set_clear(&tried);
    make_prompt(n, &group);
    REQUIRE(route_elect(&n->scratch, &n->world, &tried, &n->rng, &choice) == 0);
    uint32_t engine = choice.elect.worker;
    counter_add(&n->board->counters[engine].requests, 1);
    believe(n, engine);
    sim.sent++;
    sim.hit += sim.holds[engine][group];
    sim.holds[engine][group] = true;
    REQUIRE(sim.requests_count < REQUESTS);
    sim.requests[sim.requests_count++] =
        (struct request){.node = at % sim.nodes_count,
                         .engine = engine,
                         .left = 1 + iterations,
                         .lease = choice.lease};
    sim.running[engine]++;
}

static void
run_engines(void)
{
    role_is_lane();
    double done[ENGINES];

    for (uint32_t i = 0; i < ENGINES; i++) {
        done[i] = 1000 / (ITERATE_US + REQUEST_US * sim.running[i]);
    }
    for (uint32_t i = 0; i < sim.requests_count;) {
        struct request *r = &sim.requests[i];
        r->left -= done[r->engine];
        if (r->left > 0) {
            i++;
            continue;
        }
        fleet_lease_leave(&r->lease, sim.nodes[r->node]->board);
        hints_ended(&sim.nodes[r->node]->hints, r->engine, 1, sim.now_us);
        sim.running[r->engine]--;
        sim.completed[r->engine]++;
        *r = sim.requests[--sim.requests_count];
    }
}

/* Measuring */

static double
most_over_mean(const uint32_t *values, double *mean)
{
    uint32_t most = 0;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < ENGINES; i++) {
        most = values[i] > most ? values[i] : most;
        sum += values[i];
    }
    *mean = (double)sum / ENGINES;
    return sum != 0 ? most / *mean : 1;
}

static void
measure(void)
{
    uint64_t ms = sim.now_us / 1000;
    double mean;

    if (ms > WARM_MS) {
        sim.sum.inflight += most_over_mean(sim.running, &mean);
        sim.sum.mean += mean;
        sim.samples++;
    }
    if (ms % WINDOW_MS == 0) {
        if (ms > WARM_MS) {
            sim.sum.completed += most_over_mean(sim.completed, &mean);
            sim.windows++;
        } else {
            sim.sent = 0;
            sim.hit = 0;
        }
        memset(sim.completed, 0, sizeof sim.completed);
    }
}

static void
begin(const struct scene *scene, uint32_t nodes)
{
    struct request *requests = sim.requests;
    struct flight *flights = sim.flights;

    memset(&sim, 0, sizeof sim);
    sim.scene = *scene;
    sim.nodes_count = nodes;
    sim.requests = requests;
    sim.flights = flights;
    rng_init(&sim.arrivals, seed);
    rng_init(&sim.network, seed + 1);
    elect = ELECT_CONFIG_DEFAULT;
    elect.policy = scene->policy;
    for (uint32_t i = 0; i < nodes; i++) {
        make_node(i);
    }
}

static void
end(void)
{
    for (uint32_t i = 0; i < sim.flights_count; i++) {
        free(sim.flights[i].bytes);
    }
    for (uint32_t i = 0; i < sim.nodes_count; i++) {
        free_node(i);
    }
}

static struct outcome
run(const struct scene *scene, uint32_t nodes, uint32_t seconds)
{
    double next_us;

    begin(scene, nodes);
    next_us = exponential(&sim.arrivals, 1e6 / scene->per_second);
    for (uint32_t ms = 0; ms < WARM_MS + seconds * 1000; ms++) {
        sim.now_us = ms * UINT64_C(1000);
        deliver();
        tick_nodes();
        while (next_us <= (double)sim.now_us) {
            arrive();
            next_us += exponential(&sim.arrivals, 1e6 / scene->per_second);
        }
        run_engines();
        measure();
    }
    end();
    return (struct outcome){
        .inflight = sim.sum.inflight / (double)sim.samples,
        .completed = sim.sum.completed / (double)sim.windows,
        .mean = sim.sum.mean / (double)sim.samples,
        .hits = (double)sim.hit / (double)sim.sent,
    };
}

static struct outcome
show(const struct scene *scene, uint32_t nodes, uint32_t seconds)
{
    struct outcome o = run(scene, nodes, seconds);

    printf("%-26s %-5s %u   %6.1f   %6.3f   %6.3f   %5.3f\n", scene->name,
           scene->blind ? "blind" : "", nodes, o.mean, o.inflight, o.completed,
           scene->prefixes ? o.hits : 0.0);
    return o;
}

static bool
as_good(const struct scene *scene, const struct outcome *one,
        const struct outcome *many)
{
    return many->inflight <= WORSE_MAX * one->inflight &&
           many->completed <= WORSE_MAX * one->completed &&
           (!scene->prefixes || many->hits >= one->hits - HITS_APART);
}

static bool
compare(const struct scene *scene, uint32_t seconds)
{
    static const uint32_t nodes[] = {3, 7};
    struct outcome one = show(scene, 1, seconds);
    struct scene blind = *scene;
    bool fine = true;

    for (uint32_t i = 0; i < 2; i++) {
        struct outcome many = show(scene, nodes[i], seconds);
        fine = as_good(scene, &one, &many) && fine;
    }
    if (!fine) {
        printf("  ^ more than a tenth worse than one node\n");
    }
    blind.blind = true;
    struct outcome apart = show(&blind, 7, seconds);
    if (scene->needs_others && as_good(scene, &one, &apart)) {
        printf("  ^ nodes that know nothing of each other do as well\n");
        fine = false;
    }
    return fine;
}

int
main(int argc, char **argv)
{
    static const struct scene scenes[] = {
        {"kvasir, short", ELECT_KVASIR, 1300, 10, false, false, false},
        {"kvasir, long", ELECT_KVASIR, 240, 100, false, false, false},
        {"kvasir, little", ELECT_KVASIR, 60, 40, false, true, false},
        {"kvasir, prefixes", ELECT_KVASIR, 700, 15, true, true, false},
        {"least_load, short", ELECT_LEAST_LOAD, 1300, 10, false, false, false},
        {"least_load, long", ELECT_LEAST_LOAD, 240, 100, false, false, false},
        {"least_load, little", ELECT_LEAST_LOAD, 60, 40, false, true, false},
        {"power_of_two, short", ELECT_POWER_OF_TWO, 1300, 10, false, false,
         false},
        {"power_of_two, long", ELECT_POWER_OF_TWO, 240, 100, false, false,
         false},
        {"power_of_two, little", ELECT_POWER_OF_TWO, 60, 40, false, true,
         false},
    };
    uint32_t seconds = argc > 1 ? (uint32_t)atoi(argv[1]) : 20;
    bool fine = true;

    seed = argc > 2 ? (uint64_t)atoll(argv[2]) : 1;
    sim.requests = calloc(REQUESTS, sizeof *sim.requests);
    sim.flights = calloc(FLIGHTS, sizeof *sim.flights);
    REQUIRE(sim.requests != NULL && sim.flights != NULL);
    make_fleet();
    printf("scene                      nodes     mean inflight completed"
           "    hits\n");
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        fine = compare(&scenes[i], seconds) && fine;
    }
    free(sim.requests);
    free(sim.flights);
    return fine ? 0 : 1;
}
