/* Outputs, and what can be asked about a worker. */
#include <stdio.h>

#include "node/fleet/fleet.h"
#include "node/fleet/fleet_slot_internal.h"

#define FRESH_EVERY 4U /* checks of a good worker */

static const char *const event_names[FLEET_EVENTS] = {
    [FLEET_ADDED] = "worker_added",
    [FLEET_UP] = "worker_up",
    [FLEET_DOWN] = "worker_down",
    [FLEET_RECOGNISED] = "worker_recognised",
    [FLEET_MODELS_CHANGED] = "worker_models",
    [FLEET_CAPACITY_CHANGED] = "worker_capacity",
    [FLEET_ADDRESS_CHANGED] = "worker_address",
    [FLEET_CIRCUIT_OPEN] = "worker_circuit_open",
    [FLEET_CIRCUIT_HALF_OPEN] = "worker_circuit_half_open",
    [FLEET_CIRCUIT_CLOSED] = "worker_circuit_closed",
    [FLEET_DRAINING] = "worker_draining",
    [FLEET_DRAINED] = "worker_drained",
    [FLEET_UNDRAINED] = "worker_undrained",
    [FLEET_REMOVED] = "worker_removed",
};

const char *
fleet_event_name(enum fleet_event event)
{
    CHECK(event < FLEET_EVENTS);
    return event_names[event];
}

static uint64_t
event_number(const struct fleet_slot *s, enum fleet_event event)
{
    switch ((int)event) {
    case FLEET_CAPACITY_CHANGED:
        return s->capacity_tokens;
    case FLEET_DOWN:
        return s->bad_status;
    case FLEET_CIRCUIT_OPEN:
        return s->breaker.open_ms;
    case FLEET_MODELS_CHANGED:
        return s->models.count;
    default:
        return 0;
    }
}

static const char *path_of(const struct fleet *fleet,
                           const struct fleet_slot *s, enum fleet_probe probe);

static void
take_event(struct fleet *fleet, uint32_t slot, struct fleet_out *out)
{
    struct fleet_slot *s = &fleet->slot[slot];
    CHECK(s->events != 0);
    enum fleet_event event = (enum fleet_event)__builtin_ctz(s->events);

    CHECK(event < FLEET_EVENTS && s->state != SLOT_FREE);
    s->events &= s->events - 1;
    if (s->events == 0) {
        worker_set_remove(&fleet->with_events, slot);
    }
    out->kind = FLEET_OUT_EVENT;
    out->worker = &s->now;
    out->event = event;
    out->reason = event == FLEET_DOWN ? s->reason : "";
    out->number = event_number(s, event);
    if (event == FLEET_DOWN) {
        (void)snprintf(out->target, sizeof out->target, "%s%s",
                       s->now.base_path, path_of(fleet, s, FLEET_PROBE_HEALTH));
    }
}

/*
 * llama.cpp's server always tells of its slots, but of its metrics only with
 * --metrics. Otherwise TensorRT-LLM has metrics in another place.
 */
static const char *
metrics_path(enum engine_kind kind, bool alternative)
{
    if (kind == ENGINE_LLAMACPP) {
        return alternative ? "/metrics" : "/slots";
    }
    return alternative ? "/prometheus/metrics" : "/metrics";
}

static const char *
path_of(const struct fleet *fleet, const struct fleet_slot *s,
        enum fleet_probe probe)
{
    bool alternative = s->probe[probe].alternative;

    CHECK(probe < FLEET_PROBES);
    switch (probe) {
    case FLEET_PROBE_HEALTH:
        return alternative ? "/v1/models" : fleet->config.health.path;
    case FLEET_PROBE_METRICS:
        return metrics_path(s->now.kind, alternative);
    case FLEET_PROBE_MODELS:
    case FLEET_PROBES:
        break;
    }
    return "/v1/models";
}

/* Whether a connection can be made is part of health. A good worker is tested
 * for that each FRESH_EVERY-th time, because it costs more than everything
 * else; a doubtful one each time. Lists of models are too rare to keep a
 * connection for. */
static bool
is_fresh(const struct fleet_slot *s, enum fleet_probe probe)
{
    bool asks =
        !s->healthy || s->bad_row != 0 || s->health_sent % FRESH_EVERY == 0;

    return probe == FLEET_PROBE_MODELS || (probe == FLEET_PROBE_HEALTH && asks);
}

static void
take_probe(struct fleet *fleet, uint32_t slot, enum fleet_probe probe,
           struct fleet_out *out)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(s->state == SLOT_PRESENT && s->now.address_len > 0);
    worker_set_remove(&fleet->want_probe[probe], slot);
    out->fresh = is_fresh(s, probe);
    fleet_probe_sent(fleet, slot, probe);
    out->kind = FLEET_OUT_PROBE;
    out->worker = &s->now;
    out->url = &s->config.url;
    out->probe = probe;
    out->timeout_ms = fleet->config.health.timeout_ms;
    (void)snprintf(out->target, sizeof out->target, "%s%s", s->now.base_path,
                   path_of(fleet, s, probe));
}

/* Who leaves comes first: another slot may have its id by now, and what is kept
 * by the id must end before it begins again. */
static uint32_t
next_with_events(const struct fleet *fleet)
{
    WORKER_SET_EACH (slot, &fleet->leaving) {
        if (worker_set_has(&fleet->with_events, slot)) {
            return slot;
        }
    }
    return worker_set_next(&fleet->with_events, 0);
}

bool
fleet_next_out(struct fleet *fleet, struct fleet_out *out)
{
    uint32_t slot = next_with_events(fleet);

    *out = (struct fleet_out){.reason = ""};
    if (slot != WORKER_NONE) {
        take_event(fleet, slot, out);
        return true;
    }
    if (fleet->view_changed && !fleet->view_told) {
        fleet->view_told = true;
        out->kind = FLEET_OUT_VIEW;
        return true;
    }
    slot = worker_set_next(&fleet->want_resolve, 0);
    if (slot != WORKER_NONE) {
        CHECK(fleet->slot[slot].state == SLOT_PRESENT &&
              !fleet->slot[slot].resolving);
        worker_set_remove(&fleet->want_resolve, slot);
        fleet->slot[slot].resolving = true;
        out->kind = FLEET_OUT_RESOLVE;
        out->worker = &fleet->slot[slot].now;
        out->url = &fleet->slot[slot].config.url;
        return true;
    }
    for (unsigned p = 0; p < FLEET_PROBES; p++) {
        slot = worker_set_next(&fleet->want_probe[p], 0);
        if (slot != WORKER_NONE) {
            take_probe(fleet, slot, (enum fleet_probe)p, out);
            return true;
        }
    }
    return false;
}

static const char *
state_of(const struct fleet_slot *s)
{
    if (s->drained) {
        return "drained";
    }
    if (s->draining) {
        return "draining";
    }
    if (s->bad_row == 0 && (s->models_state == MODELS_UNASKED ||
                            (!s->healthy && s->good_row == 0))) {
        return s->now.address_len == 0 ? "unresolved" : "new";
    }
    if (!s->healthy) {
        return "unhealthy";
    }
    if (s->breaker.state == BREAKER_OPEN) {
        return "circuit_open";
    }
    return s->breaker.state == BREAKER_HALF_OPEN ? "circuit_half_open"
                                                 : "healthy";
}

bool
fleet_status(const struct fleet *fleet, uint32_t slot,
             struct fleet_status *status)
{
    CHECK(slot < WORKERS_MAX);
    const struct fleet_slot *s = &fleet->slot[slot];

    if (s->state != SLOT_PRESENT) {
        return false;
    }
    *status = (struct fleet_status){
        .worker = &s->now,
        .config = &s->config,
        .state = state_of(s),
        .reason = s->reason,
        .since_us = s->since_us,
        .healthy = s->healthy,
        .draining = s->draining,
        .drained = s->drained,
        .models_known = s->models_state == MODELS_KNOWN,
        .models = &s->models,
        .metrics = s->metrics,
        .metrics_at_us = s->metrics_at_us,
        .probes_failed = s->probes_failed,
    };
    return true;
}
