/* Draws a world from a seed, runs its events, and ends it. */
#include "chaos/sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "chaos/sim/sim_request_internal.h"
#include "chaos/sim/sim_router_internal.h"
#include "chaos/sim/sim_scale_internal.h"
#include "chaos/sim/sim_speed_internal.h"
#include "chaos/sim/sim_streams_internal.h"
#include "chaos/sim/sim_tenants_internal.h"

#define EVENTS_MAX (1U << 20)
#define POLL_MS    50U
#define STEADY_MS  1500U
#define PROBE_MS   8000U /* a request at quiet: to all at rest again */
/* The effects of the last fault may take this long: a node that could not reach
 * an engine says that it can (4 s), others hand over to it (2 s), and a follower
 * is judged (1.3 s) and begins again. */
#define ECHO_MS     8000U
#define PAYLOAD_MAX ((size_t)1 << 22)
#define RUNAWAY     20000000U /* events of one seed, in each hour begun */

static const char *const sometimes[] = {
#define SIM_SOMETIMES_ROW(NAME, help) help,
    SIM_SOMETIMES(SIM_SOMETIMES_ROW)
#undef SIM_SOMETIMES_ROW
};

const char *
sim_sometimes_name(enum sim_sometimes what)
{
    return sometimes[what];
}

struct sim_options
sim_options_default(uint64_t seed)
{
    return (struct sim_options){
        .seed = seed,
        .faults = SIM_FAULTS_ALL,
        .faults_max = UINT32_MAX,
    };
}

/* The trace */

void
sim_hash(struct sim_world *w, uint64_t number)
{
    w->result->hash = rng_mix(w->result->hash ^ number);
}

void
sim_trace(struct sim_world *w, const char *what, uint32_t who, uint64_t number)
{
    if (w->options.trace != NULL) {
        (void)fprintf(w->options.trace, "%10" PRIu64 " %s %u %" PRIu64 "\n",
                      w->time.now_us, what, who, number);
    }
}

void
sim_fail(struct sim_world *w, const char *what, uint32_t node, uint32_t engine)
{
    if (w->failed) {
        return;
    }
    w->failed = true;
    w->result->failed = true;
    if (engine == UINT32_MAX) {
        (void)snprintf(w->result->what, sizeof w->result->what,
                       "%s: node %u, at %" PRIu64 " ms", what, node,
                       w->time.now_us / SIM_MS);
    } else {
        (void)snprintf(w->result->what, sizeof w->result->what,
                       "%s: node %u, engine %u, at %" PRIu64 " ms", what, node,
                       engine, w->time.now_us / SIM_MS);
    }
    sim_trace(w, w->result->what, node, engine);
}

/* Events */

void
sim_add(struct sim_world *w, uint64_t at_us, enum sim_event kind, uint32_t who,
        uint64_t what)
{
    struct virtual_event event = {
        .time_us = at_us, .kind = (uint32_t)kind, .who = who, .what = what};

    CHECK(virtual_time_add(&w->time, &event) == 0);
}

static void
request(struct sim_world *w, uint32_t engine)
{
    uint64_t wait_us =
        1 + rng_below(&w->rng, (uint64_t)w->request_ms * 2 * SIM_MS);

    if (w->time.now_us < w->traffic_end_us) {
        sim_engine_request(w, engine);
        sim_add(w, w->time.now_us + wait_us, SIM_EV_REQUEST, engine, 0);
    }
}

static void
happen(struct sim_world *w, const struct virtual_event *event)
{
    switch ((enum sim_event)event->kind) {
    case SIM_EV_NODE:
    case SIM_EV_WORK:
    case SIM_EV_START:
    case SIM_EV_RESUME:
    case SIM_EV_ANSWER:
    case SIM_EV_ITEMS:
    case SIM_EV_TAKE:
    case SIM_EV_DISK:
    case SIM_EV_LEDGER:
        sim_node_event(w, event);
        break;
    case SIM_EV_FRAME:
    case SIM_EV_DATAGRAM:
    case SIM_EV_DIAL:
    case SIM_EV_UP:
    case SIM_EV_DOWN:
    case SIM_EV_SILENT:
        sim_net_event(w, event);
        break;
    case SIM_EV_ENGINE:
        sim_engine_due(w, event->who);
        break;
    case SIM_EV_REQUEST:
        request(w, event->who);
        break;
    case SIM_EV_CONNECT:
    case SIM_EV_HANGUP:
    case SIM_EV_LIVE:
    case SIM_EV_ASK:
    case SIM_EV_REPLY:
    case SIM_EV_READER:
    case SIM_EV_REREAD:
        sim_intake_event(w, event);
        break;
    case SIM_EV_CHAOS:
        sim_chaos_event(w, (enum sim_fault)event->who);
        break;
    case SIM_EV_MEND:
        w->nodes[event->who / SIM_ENGINES_MAX]
            .severed[event->who % SIM_ENGINES_MAX] = false;
        break;
    case SIM_EV_SCRIPT:
        sim_script_event(w, event->who);
        break;
    case SIM_EV_ROUTER:
    case SIM_EV_FACTS:
    case SIM_EV_PROBE:
        sim_router_event(w, event);
        break;
    case SIM_EV_CLIENT:
    case SIM_EV_FLIGHT:
        sim_request_event(w, event);
        break;
    case SIM_EV_DESK:
    case SIM_EV_TENANT:
        sim_tenants_event(w, event);
        break;
    case SIM_EV_SCALE:
        sim_scale_event(w, event);
        break;
    case SIM_EV_KINDS:
        CHECK(false);
    }
}

void
sim_run_until(struct sim_world *w, uint64_t until_us)
{
    struct virtual_event event;

    while (!w->failed && virtual_time_next(&w->time, until_us, &event)) {
        w->result->events++;
        sim_hash(w, event.time_us ^ (uint64_t)event.kind << 56 ^
                        (uint64_t)event.who << 40);
        if (w->options.trace != NULL) {
            (void)fprintf(w->options.trace, "%10" PRIu64 " %u %u\n",
                          event.time_us, event.kind, event.who);
        }
        happen(w, &event);
        if (w->result->events / RUNAWAY > w->result->chaos_ms / SIM_HOUR_MS) {
            sim_fail(w, "events do not end", 0, UINT32_MAX);
        }
    }
}

/* Phases */

static void
settle(struct sim_world *w)
{
    uint64_t healed_us = w->time.now_us;
    uint64_t agreed_us = 0;
    const char *why = NULL;

    while (!w->failed) {
        sim_run_until(w, w->time.now_us + POLL_MS * SIM_MS);
        why = w->failed ? NULL : sim_check_agreed(w);
        uint64_t now_us = w->time.now_us;
        bool agreed = why == NULL && now_us > w->traffic_end_us;
        if (!agreed && agreed_us != 0 &&
            now_us - healed_us < ECHO_MS * SIM_MS) {
            agreed_us = 0;
        } else if (!agreed && agreed_us != 0) {
            sim_fail(w, why != NULL ? why : "agreement ends", 0, UINT32_MAX);
        } else if (agreed && agreed_us == 0) {
            agreed_us = now_us;
        } else if (agreed && now_us - agreed_us > STEADY_MS * SIM_MS) {
            break;
        } else if (!agreed && now_us - healed_us > SIM_QUIET_MS * SIM_MS) {
            sim_fail(w, why != NULL ? why : "traffic does not end", 0,
                     UINT32_MAX);
        }
    }
    w->result->agreed_ms = (agreed_us - healed_us) / SIM_MS;
}

/* Sends a request through each node, one after the other: each is predicted
 * correctly, and all nodes agree on its effects. */
static void
ask_each(struct sim_world *w)
{
    const char *why = NULL;
    uint64_t asked = 0;

    for (uint32_t i = 0; i < w->nodes_count && !w->failed; i++) {
        sim_request_probe(w, i);
        asked++;
        uint64_t until_us = w->time.now_us + PROBE_MS * SIM_MS;
        do {
            sim_run_until(w, w->time.now_us + POLL_MS * SIM_MS);
            why = w->failed ? NULL : sim_check_agreed(w);
        } while (why != NULL && w->time.now_us < until_us);
        if (why != NULL) {
            sim_fail(w, why, i, UINT32_MAX);
        }
    }
    if (!w->failed && w->requests->probes != asked) {
        sim_fail(w, "a request was lost", 0, UINT32_MAX);
    }
}

static void
draw(struct sim_world *w)
{
    struct rng *rng = &w->draw;
    uint32_t nodes = 2 + sim_below(rng, 4);
    uint32_t engines = 1 + sim_below(rng, 3);
    uint32_t chaos_ms = 3000 + sim_below(rng, 9000);

    if (sim_below(rng, 10) == 0) {
        nodes = 6 + sim_below(rng, 2);
    }
    w->nodes_count = w->options.nodes != 0 ? w->options.nodes : nodes;
    w->engines_count = w->options.engines != 0 ? w->options.engines : engines;
    w->result->chaos_ms =
        w->options.chaos_ms != 0 ? w->options.chaos_ms : chaos_ms;
    w->bulk_frames = 8 + sim_below(rng, 120);
    w->request_ms = 30 + sim_below(rng, 200);
    w->engine_blocks = 24 + sim_below(rng, 100);
    /* No engine here fills a page of a real node's. */
    w->page_words = rng_mix(w->options.seed ^ 0x70) % 2 == 0 ? GOSSIP_PAGE_WORDS
                                                             : MIRROR_PAGE_MIN;
    w->same_names = sim_below(rng, 2) == 0;
    w->config = cluster_config_default();
    w->config.replicas = 1 + sim_below(rng, 3);
    w->config.replicas_all = sim_below(rng, 4);
    w->config.hand_over_ms = 1000 + sim_below(rng, 2000);
    w->config.gossip.log_records = 20 + sim_below(rng, 200);
    w->config.gossip.heal_ms = 500 + sim_below(rng, 2000);
    w->config.gossip.judge_ms = 300 + sim_below(rng, 1000);
    w->config.gossip.exports_max = 1 + sim_below(rng, 4);
    w->config.gossip.transfers_max = 1 + sim_below(rng, 4);
    sim_chaos_draw(w);
    sim_snapshot_draw(w);
    w->result->nodes = w->nodes_count;
    w->result->engines = w->engines_count;
}

static void
begin(struct sim_world *w)
{
    rng_init(&w->draw, w->options.seed);
    rng_init(&w->rng, rng_mix(w->options.seed ^ 0x51));
    virtual_time_init(&w->time, EVENTS_MAX, 1000 * SIM_MS);
    buf_init(&w->payload, PAYLOAD_MAX);
    CHECK(kv_reader_new(&w->decoder, &KV_LIMITS_DEFAULT) == 0);
    draw(w);
    w->chaos_end_us = w->time.now_us + w->result->chaos_ms * SIM_MS;
    w->traffic_end_us = w->chaos_end_us + sim_below(&w->draw, 1500) * SIM_MS;
    for (uint32_t i = 0; i < w->engines_count; i++) {
        sim_engine_start(w, i);
    }
    for (uint32_t i = 0; i < w->nodes_count; i++) {
        sim_add(w, w->time.now_us + sim_below(&w->draw, 500) * SIM_MS,
                SIM_EV_START, i, 0);
    }
    sim_request_begin(w);
    sim_tenants_begin(w);
    sim_streams_begin(w);
    sim_scale_begin(w);
    sim_speed_begin(w);
    sim_chaos_begin(w);
    if (w->options.script != NULL) {
        sim_script_begin(w);
    }
}

static void
end(struct sim_world *w)
{
    for (uint32_t i = 0; i < w->nodes_count; i++) {
        if (w->nodes[i].up) {
            sim_node_kill(w, i);
        }
    }
    for (uint32_t i = 0; i < w->engines_count; i++) {
        sim_engine_end(&w->engines[i]);
    }
    sim_streams_end(w);
    sim_scale_end(w);
    sim_speed_end(w);
    sim_request_end(w);
    sim_tenants_end(w);
    sim_net_fini(w);
    sim_snapshot_end(w);
    virtual_time_fini(&w->time);
    kv_reader_free(w->decoder);
    buf_fini(&w->payload);
    free(w->messages);
    free(w->messages_free);
}

void
sim_run(const struct sim_options *options, struct sim_result *result)
{
    struct sim_world *w = aligned_alloc(_Alignof(struct sim_world), sizeof *w);

    CHECK(w != NULL);
    memset(w, 0, sizeof *w);
    memset(result, 0, sizeof *result);
    w->options = *options;
    w->result = result;
    begin(w);
    sim_run_until(w, w->chaos_end_us);
    for (uint32_t i = 0; i < w->nodes_count; i++) { /* paused nodes wake up */
        sim_run_until(w, w->nodes[i].paused_us + SIM_MS);
    }
    if (!w->failed) {
        sim_chaos_heal(w);
        settle(w);
    }
    sim_tenants_exam(w);
    sim_scale_exam(w);
    if (!w->failed && w->requests != NULL) {
        ask_each(w);
    }
    if (!w->failed) {
        sim_check_all(w);
    }
    if (w->failed) {
        sim_check_print(w);
    }
    result->virtual_ms = w->time.now_us / SIM_MS;
    end(w);
    sim_hash(w, result->virtual_ms);
    free(w);
}
