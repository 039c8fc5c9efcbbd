/* The way of a request: client, node, engine and back, step by step. */
#include "chaos/sim/sim_flight_internal.h"

#include <stdlib.h>

#include "chaos/sim/sim_bounds_internal.h"

#define STALL_MS 100U /* what is lost is sent again */

struct rng *
sim_flight_random(struct sim_world *w)
{
    return &w->requests->rng;
}

uint64_t
sim_flight_way_us(struct sim_world *w)
{
    return 100 + rng_below(sim_flight_random(w), 400);
}

uint32_t
sim_flight_slot(const struct sim_world *w, const struct sim_flight *f)
{
    CHECK(f >= w->requests->flights &&
          f < w->requests->flights + SIM_FLIGHTS_MAX);
    return (uint32_t)(f - w->requests->flights);
}

void
sim_flight_plan(struct sim_world *w, const struct sim_flight *f,
                enum sim_step step, uint64_t at_us)
{
    CHECK(at_us >= w->time.now_us);
    sim_add(w, at_us, SIM_EV_FLIGHT,
            sim_flight_slot(w, f) | (uint32_t)step << 16, f->stamp);
}

/* The way of a client's own events: they are not of an attempt. */
void
sim_flight_plan_client(struct sim_world *w, const struct sim_flight *f,
                       enum sim_step step, uint64_t at_us)
{
    sim_add(w, at_us, SIM_EV_FLIGHT,
            sim_flight_slot(w, f) | (uint32_t)step << 16,
            f->number << 8 | f->tries);
}

/* Events */

/* At the node, which does not take anything while it stands still. */
static void
at_node(struct sim_world *w, struct sim_flight *f, enum sim_step step)
{
    bool from_engine = step == STEP_HEAD || step == STEP_TOKEN ||
                       step == STEP_END || step == STEP_STATUS;
    bool follows = step == STEP_END || step == STEP_TOKEN;

    CHECK(f->open);
    if (!sim_runs(w, f->node)) {
        sim_flight_plan(w, f, step, w->nodes[f->node].paused_us + 1);
        return;
    }
    /* An end does not overtake a head that had to be sent again. */
    bool ahead = follows && f->dispatch.state != DISPATCH_STREAMING;
    if (from_engine && (ahead || w->nodes[f->node].severed[f->engine])) {
        sim_flight_plan(w, f, step, w->time.now_us + STALL_MS * SIM_MS);
        return;
    }
    switch (step) {
    case STEP_HEAD:
        sim_visit_head(w, f);
        break;
    case STEP_TOKEN:
        sim_visit_token(w, f);
        break;
    case STEP_END:
        sim_visit_end(w, f);
        break;
    case STEP_STATUS:
        sim_visit_fail(w, f, DISPATCH_STATUS);
        break;
    case STEP_SEVERED:
        sim_visit_severed(w, f);
        break;
    case STEP_DUE:
        sim_visit_due(w, f);
        break;
    case STEP_TOLD:
        sim_visit_told(w, f);
        break;
    case STEP_GONE:
        sim_visit_close(w, f, DISPATCH_CANCELLED);
        break;
    case STEP_ARRIVE:
    case STEP_SUBMIT:
    case STEP_LOST:
    case STEP_BORED:
        CHECK(false);
    }
    sim_node_pull(w, f->node);
}

static void
at_client(struct sim_world *w, struct sim_flight *f, enum sim_step step)
{
    struct sim_node *n = &w->nodes[f->node];

    CHECK(f->wanted);
    if (step == STEP_ARRIVE && n->up && !sim_runs(w, f->node)) {
        sim_flight_plan_client(w, f, step, n->paused_us + 1);
    } else if (step == STEP_ARRIVE) {
        sim_visit_begin(w, f);
        if (n->up) {
            sim_node_pull(w, f->node);
        }
    } else if (step == STEP_LOST && !f->headed) {
        sim_client_send_again(w, f, "the node is gone");
    } else if (step == STEP_LOST) {
        sim_client_end(w, f, "the node is gone amid an answer");
    } else {
        sim_saw(w, SIM_SAW_LEFT, !sim_client_is_patient(f) && !f->headed);
        sim_client_end(w, f, "no answer in time");
        if (f->open) {
            sim_flight_plan(w, f, STEP_GONE,
                            w->time.now_us + sim_flight_way_us(w));
        }
    }
}

static void
happen(struct sim_world *w, struct sim_flight *f, enum sim_step step,
       const struct virtual_event *event)
{
    if (step == STEP_ARRIVE || step == STEP_LOST || step == STEP_BORED) {
        if (f->wanted && event->what == (f->number << 8 | f->tries)) {
            at_client(w, f, step);
        }
        return;
    }
    if (event->what != f->stamp || !f->open) {
        return;
    }
    if (step == STEP_SUBMIT) {
        sim_flight_submit(w, f);
    } else {
        at_node(w, f, step);
    }
}

void
sim_request_event(struct sim_world *w, const struct virtual_event *event)
{
    if (event->kind == SIM_EV_FLIGHT) {
        happen(w, &w->requests->flights[event->who & 0xffff],
               (enum sim_step)(event->who >> 16), event);
        return;
    }
    if (w->time.now_us < w->traffic_end_us) {
        sim_client_ask(w);
        uint64_t wait_us =
            1 + rng_below(sim_flight_random(w),
                          (uint64_t)w->requests->every_ms * 2 * SIM_MS);
        sim_add(w, w->time.now_us + wait_us, SIM_EV_CLIENT, 0, 0);
    }
}

/* Beginning and ending */

void
sim_request_begin(struct sim_world *w)
{
    struct discover_ip ips[SIM_NODES_MAX];

    if (!sim_has(w, SIM_REQUEST)) {
        return;
    }
    w->requests = calloc(1, sizeof *w->requests);
    CHECK(w->requests != NULL);
    rng_init(sim_flight_random(w), rng_mix(w->options.seed ^ 0x7265));
    w->requests->balance_abs = 2 + sim_below(sim_flight_random(w), 8);
    w->requests->gauge_ms = 50 + sim_below(sim_flight_random(w), 150);
    w->requests->every_ms = 8 + sim_below(sim_flight_random(w), 100);
    w->requests->sick_permille =
        sim_has(w, SIM_SICK) ? 1 + sim_below(sim_flight_random(w), 100) : 0;
    for (uint32_t i = 0; i < w->nodes_count; i++) {
        ips[i] = (struct discover_ip){.size = 4,
                                      .bytes = {10, 0, 0, (uint8_t)(i + 1)}};
    }
    sim_bounds_draw(w);
    load_targets_set(&w->requests->targets, ips, w->nodes_count, 8080);
    sim_add(w, w->time.now_us + SIM_MS, SIM_EV_CLIENT, 0, 0);
}

void
sim_request_end(struct sim_world *w)
{
    free(w->requests);
    w->requests = NULL;
}
