/* What a simulated node elects by: the fleet, expectations and hints. */
#include "chaos/sim/sim_router_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "chaos/sim/sim_request_internal.h"
#include "chaos/sim/sim_speed_internal.h"
#include "chaos/sim/sim_tenants_internal.h"
#include "index/base/role.h"

#define FACTS_BYTES      ((size_t)16 << 10)
#define FACTS_WAIT_BYTES ((size_t)256 << 10) /* of all that wait, and leave */
#define EXPECTED_MS      2000U
#define DEPTH_MAX        32U
#define ATTEMPTS_MAX     3U
#define BUDGET           4096U
#define PROBE_US         2000U /* an engine takes for an answer, at most */

static const struct fleet_config fleet_config = {
    .health = {.path = "/health",
               .interval_ms = 1000,
               .timeout_ms = 500,
               .failures = 1,
               .successes = 1,
               .metrics_interval_ms = 1000,
               .models_interval_ms = 5000},
    .breaker = {.failures = 3,
                .successes = 2,
                .open_ms = 300,
                .open_max_ms = 2400,
                .max_ejection_percent = 50},
    .resolve_interval_ms = 30000,
};

/* Beginning */

static void
open_scratch(struct sim_router *r)
{
    struct config *config = calloc(1, sizeof *config);

    CHECK(config != NULL);
    config->limits.json_depth_max = 1;
    config->limits.spans_max = 1; /* prompts come split */
    config->belief.block_bytes = BLOCKS_BYTES_MIN;
    config->belief.depth_max = DEPTH_MAX;
    CHECK(route_scratch_init(&r->scratch, config) == 0);
    free(config);
}

static void
open_cores(struct sim_node *n, struct sim_router *r, uint64_t seed, bool waits)
{
    struct fleet_config config = fleet_config;
    struct expectations_limits expected = {.bytes_max = SIM_EXPECTED_BYTES,
                                           .ttl_ms = EXPECTED_MS,
                                           .proved_ms = EXPECTED_MS};
    struct radix_limits belief = {.bytes_max = SIM_BELIEF_BYTES,
                                  .namespaces_max = 16,
                                  .depth_max = DEPTH_MAX};

    config.seed = seed;
    CHECK(fleet_new(&r->fleet, &config, &n->qsbr) == 0);
    CHECK(radix_new(&r->belief, &belief, &n->qsbr) == 0);
    CHECK(expectations_new(&r->expectations, &expected, &n->qsbr) == 0);
    CHECK(ring_init(&r->facts, waits ? FACTS_WAIT_BYTES : FACTS_BYTES) == 0);
    r->board = fleet_board(r->fleet);
    r->reader = qsbr_register(&n->qsbr);
    CHECK(r->reader != NULL);
    r->dispatch = (struct dispatch_lane){
        .board = r->board,
        .rank_inflight = r->rank_inflight,
        .scratch = &r->scratch,
        .rng = &r->rng,
        .metrics = &r->metrics,
        .facts = &r->facts,
        .attempts_max = ATTEMPTS_MAX,
        .retries = {.after_send = 1},
    };
    n->ingest->expectations = r->expectations;
    r->slots.expectations = r->expectations;
    r->slots.mirror = n->mirror;
    r->slots.view = &n->view;
    r->sink = (struct fact_sink){.fleet = r->fleet,
                                 .board = r->board,
                                 .belief = r->belief,
                                 .hints = &r->hints,
                                 .slots = &r->slots,
                                 .streams = n->ingest,
                                 .unproven = &r->unproven};
    unproven_init(&r->unproven, SIM_UNPROVEN_BYTES);
}

/* Engines take the fleet's slots in their order, as they do the writer's. */
static void
add_engine(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_router *r = w->nodes[node].router;
    struct config_worker *worker = calloc(1, sizeof *worker);
    char url[48];
    uint32_t slot;

    CHECK(worker != NULL);
    (void)snprintf(url, sizeof url, "http://10.1.0.%u:8000", engine + 1);
    CHECK(url_parse_http(slice_of(url), &worker->url) == NULL);
    memcpy(worker->id, w->engines[engine].id, sizeof w->engines[engine].id);
    CHECK(fleet_add(r->fleet, worker, sim_now(w, node), &slot) == 0);
    CHECK(slot == engine);
    free(worker);
}

void
sim_router_start(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_router *r;

    if (w->requests == NULL) {
        return;
    }
    size_t size = (sizeof *r + 63) / 64 * 64;
    r = aligned_alloc(64, size);
    CHECK(r != NULL);
    memset(r, 0, size);
    n->router = r;
    r->armed_us = SIM_NEVER;
    rng_init(&r->rng, rng_next(&w->requests->rng));
    r->elect = ELECT_CONFIG_DEFAULT;
    r->elect.balance_abs = w->requests->balance_abs;
    open_scratch(r);
    open_cores(n, r, rng_next(&w->requests->rng), w->tenants != NULL);
    for (uint32_t i = 0; i < w->engines_count; i++) {
        add_engine(w, node, i);
    }
    struct hints_world world = {
        .board = r->board,
        .belief = r->belief,
        .mirror = n->mirror,
        .mirror_view = &n->view,
        .expectations = r->expectations,
        .rank_inflight = r->rank_inflight,
        .rank_peers = r->rank_peers,
        .ticket = sim_speed_ticket(w, node),
    };
    sim_speed_node_start(w, node);
    hints_init(&r->hints, &world);
    hints_attach(&r->hints, n->hub);
    hints_join(&r->hints, cluster_gossip(n->cluster), w->requests->gauge_ms,
               sim_now(w, node));
    sim_desk_start(w, node);
}

void
sim_router_end(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_router *r = n->router;

    if (r == NULL) {
        return;
    }
    sim_request_node_gone(w, node);
    sim_speed_node_gone(w, node);
    sim_desk_end(w, node);
    sim_saw(w, SIM_SAW_EXPECTED, r->hints.stats.expected_heard);
    route_scratch_fini(&r->scratch);
    expectations_free(r->expectations);
    fleet_free(r->fleet);
    radix_free(r->belief);
    ring_fini(&r->facts);
    unproven_fini(&r->unproven);
    free(r);
    n->router = NULL;
}

struct route_world
sim_router_world(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_router *r = n->router;

    return (struct route_world){
        .elect = &r->elect,
        .view = fleet_view_get(r->board),
        .board = r->board,
        .belief = r->belief,
        .rank_inflight = r->rank_inflight,
        .rank_peers = r->rank_peers,
        .tokens = {.mirror = n->mirror,
                   .expected = expectations_index(r->expectations),
                   .view = mirror_view_get(&n->view),
                   .weights = {.permille = {1000, 1000, 1000, 1000}}},
    };
}

/* Time */

static void
arm(struct sim_world *w, uint32_t node)
{
    struct sim_router *r = w->nodes[node].router;
    uint64_t now = sim_now(w, node);
    uint64_t due = fleet_deadline(r->fleet);
    uint64_t told = hints_deadline(&r->hints);

    due = told < due ? told : due;
    uint64_t at = w->time.now_us + (due > now ? due - now : 0);
    if (due != SIM_NEVER && at < r->armed_us) {
        r->armed_us = at;
        sim_add(w, at, SIM_EV_ROUTER, node, w->nodes[node].life);
    }
}

static void
send_probe(struct sim_world *w, uint32_t node, const struct fleet_out *out)
{
    uint32_t engine = out->worker->slot;
    uint64_t wait_us = 1 + rng_below(&w->requests->rng, PROBE_US);

    if (w->nodes[node].severed[engine]) {
        wait_us = out->timeout_ms * SIM_MS;
    }
    sim_add(w, w->time.now_us + wait_us, SIM_EV_PROBE,
            node | engine << 8 | (uint32_t)out->probe << 16,
            w->nodes[node].life);
}

static void
take_event(struct sim_world *w, uint32_t node, const struct fleet_out *out)
{
    struct sim_router *r = w->nodes[node].router;

    sim_saw(w, SIM_SAW_CIRCUIT, out->event == FLEET_CIRCUIT_OPEN);
    sim_saw(w, SIM_SAW_TRIAL, out->event == FLEET_CIRCUIT_HALF_OPEN);
    if (out->event == FLEET_ADDED) {
        int rc = radix_worker_add(r->belief, out->worker->slot,
                                  w->engine_blocks, RADIX_LRU);
        CHECK(rc == 0);
    }
}

static void
pull_fleet(struct sim_world *w, uint32_t node)
{
    struct sim_router *r = w->nodes[node].router;
    struct fleet_out out;

    while (fleet_next_out(r->fleet, &out)) {
        switch (out.kind) {
        case FLEET_OUT_PROBE:
            send_probe(w, node, &out);
            break;
        case FLEET_OUT_VIEW:
            CHECK(fleet_publish(r->fleet) == 0);
            break;
        case FLEET_OUT_EVENT:
            take_event(w, node, &out);
            break;
        case FLEET_OUT_RESOLVE:
            CHECK(false); /* they have numbers */
        }
    }
}

bool
sim_router_look(struct sim_world *w, uint32_t node)
{
    struct sim_router *r = w->nodes[node].router;

    if (r == NULL || r->looking) {
        return false;
    }
    r->looking = true;
    pull_fleet(w, node);
    bool told = hints_tick(&r->hints, sim_now(w, node));
    sim_desk_look(w, node, told);
    told = sim_speed_turn(w, node) || told;
    arm(w, node);
    r->looking = false;
    return told;
}

void
sim_router_jump(struct sim_world *w, uint32_t node)
{
    if (w->nodes[node].router != NULL) {
        w->nodes[node].router->armed_us = w->time.now_us;
        sim_add(w, w->time.now_us, SIM_EV_ROUTER, node, w->nodes[node].life);
    }
    sim_desk_disturbed(w, node);
}

void
sim_router_work(struct sim_world *w, uint32_t node)
{
    role_is_control();
    struct sim_router *r = w->nodes[node].router;

    if (r != NULL) {
        role_is_control();
        ingest_slots_renew(&r->slots);
        (void)expectations_work(r->expectations, BUDGET, sim_now(w, node));
        (void)radix_work(r->belief, BUDGET, sim_now(w, node));
    }
}

/* Probes */

static struct slice
answer_probe(struct sim_world *w, uint32_t engine, enum fleet_probe probe,
             char text[256])
{
    struct engine_stats s;
    int len = 0;

    if (probe == FLEET_PROBE_MODELS) {
        return SLICE("{\"object\":\"list\",\"data\":[{\"id\":\"m\","
                     "\"object\":\"model\",\"owned_by\":\"vllm\"}]}");
    }
    if (probe == FLEET_PROBE_METRICS) {
        engine_stats(&w->engines[engine].engine, &s);
        len = snprintf(text, 256,
                       "vllm:num_requests_running{model_name=\"m\"} %u\n"
                       "vllm:num_requests_waiting{model_name=\"m\"} %u\n"
                       "vllm:kv_cache_usage_perc{model_name=\"m\"} %.3f\n",
                       s.running, s.waiting,
                       (double)s.held_blocks / w->engine_blocks);
        CHECK(len > 0 && len < 256);
    }
    return (struct slice){text, (size_t)len};
}

static void
take_probe(struct sim_world *w, uint32_t node, uint32_t engine,
           enum fleet_probe probe)
{
    struct sim_router *r = w->nodes[node].router;
    bool severed = w->nodes[node].severed[engine];
    char text[256];
    struct fleet_probed result = {
        .slot = engine,
        .generation = 1,
        .probe = probe,
        .status = severed ? 0 : 200,
        .failure = severed ? "timeout" : "",
    };

    if (!severed) {
        result.body = answer_probe(w, engine, probe, text);
    }
    fleet_probed(r->fleet, &result, sim_now(w, node));
}

/* Facts: what lanes tell control, which looks a little later. */

void
sim_router_told(struct sim_world *w, uint32_t node)
{
    struct sim_router *r = w->nodes[node].router;

    if (r->dispatch.told && !r->facts_armed) {
        r->facts_armed = true;
        sim_add(w, w->time.now_us + rng_below(&w->requests->rng, 1000),
                SIM_EV_FACTS, node, w->nodes[node].life);
    }
    r->dispatch.told = false;
}

static void ON_CONTROL
take_fact(struct sim_world *w, uint32_t node, const void *record)
{
    struct sim_node *n = &w->nodes[node];
    const struct fact_decision *fact = record;

    CHECK(fact_sink_take(&n->router->sink, record, sim_now(w, node)) == 0);
    sim_desk_take(w, node, record);
    if (fact->kind == FACT_DECISION && fact->slot != WORKER_NONE) {
        sim_saw(w, SIM_SAW_WRONG, n->streams[fact->slot].rank.wrong);
    }
}

static void
take_facts(struct sim_world *w, uint32_t node)
{
    struct sim_router *r = w->nodes[node].router;
    const void *record;
    size_t size;

    role_is_control();
    r->facts_armed = false;
    while ((record = ring_peek(&r->facts, &size)) != NULL) {
        take_fact(w, node, record);
        ring_consume(&r->facts);
    }
}

static void
take_due(struct sim_world *w, uint32_t node)
{
    struct sim_router *r = w->nodes[node].router;

    r->armed_us = SIM_NEVER;
    if (fleet_deadline(r->fleet) <= sim_now(w, node)) {
        fleet_tick(r->fleet, sim_now(w, node));
    }
}

void
sim_router_event(struct sim_world *w, const struct virtual_event *event)
{
    uint32_t node = event->who & 255;
    struct sim_node *n = &w->nodes[node];

    if (!n->up || event->what != n->life) {
        return;
    }
    if (!sim_runs(w, node)) {
        sim_add(w, n->paused_us + 1, (enum sim_event)event->kind, event->who,
                event->what);
        return;
    }
    switch ((int)event->kind) {
    case SIM_EV_PROBE:
        take_probe(w, node, event->who >> 8 & 255,
                   (enum fleet_probe)(event->who >> 16));
        break;
    case SIM_EV_FACTS:
        take_facts(w, node);
        break;
    default:
        if (n->router->armed_us > w->time.now_us) {
            return; /* an earlier one came instead */
        }
        take_due(w, node);
        break;
    }
    sim_node_pull(w, node);
}

/* What must hold */

const char *
sim_router_check(struct sim_world *w, uint32_t node)
{
    const struct sim_router *r = w->nodes[node].router;
    const char *reason = NULL;

    if (r == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < w->engines_count; i++) {
        struct sim_request_sums sums = sim_request_sums(w, node, i);
        if (gauge_read(&r->board->inflight[i]) != sums.open) {
            return "requests in flight are counted wrong";
        }
        if (gauge_read(&r->board->queued_tokens[i]) != sums.queued_tokens) {
            return "tokens that wait are counted wrong";
        }
        if (gauge_read(&r->board->trial[i]) != sums.trials) {
            return "trials are counted wrong";
        }
    }
    return fleet_check(r->fleet, &reason) ? sim_desk_check(w, node) : reason;
}

const char *
sim_router_quiet(struct sim_world *w, uint32_t node)
{
    const struct sim_router *r = w->nodes[node].router;
    struct expectations_stats expected;

    if (r == NULL) {
        return NULL;
    }
    const struct fleet_view *view = fleet_view_get(r->board);
    expectations_stats(r->expectations, &expected);
    if (expected.blocks != 0) {
        return "something is still expected";
    }
    if (r->unproven.bytes != 0 && counter_read(&r->metrics.facts_lost) == 0) {
        return "an attempt that ended was never settled";
    }
    if (gauge_read(&r->board->unseen) != 0) {
        return "requests of peers are still reckoned with";
    }
    for (uint32_t i = 0; i < w->engines_count; i++) {
        if (gauge_read(&r->board->inflight[i]) != 0 ||
            gauge_read(&r->board->queued_tokens[i]) != 0) {
            return "a request is still in flight";
        }
        if (gauge_read(&r->board->peers[i]) != 0 ||
            gauge_read(&r->board->peers_queued_tokens[i]) != 0) {
            return "a request of a peer is still in flight";
        }
        if (gauge_read(&r->board->foreign[i]) != 0) {
            return "a request of others is still in flight";
        }
        if (!worker_set_has(&view->eligible, i) &&
            !worker_set_has(&view->trial, i)) {
            return "an engine takes no requests";
        }
    }
    return sim_desk_quiet(w, node);
}
