#include "node/fleet/fleet_log_internal.h"

#include "node/base/log.h"

/* Each line stands at a call site of its own: the rate limit is per site. */
static void
log_health(const struct fleet_out *out, const char *id)
{
    switch ((int)out->event) {
    case FLEET_UP:
        LOG_INFO("worker_up", KV("worker", id));
        return;
    case FLEET_DOWN:
        LOG_WARNING("worker_down", KV("worker", id), KV("reason", out->reason));
        return;
    case FLEET_CIRCUIT_OPEN:
        LOG_WARNING("worker_circuit_open", KV("worker", id),
                    KV("open_ms", out->number));
        return;
    case FLEET_CIRCUIT_HALF_OPEN:
        LOG_INFO("worker_circuit_half_open", KV("worker", id));
        return;
    case FLEET_CIRCUIT_CLOSED:
        LOG_INFO("worker_circuit_closed", KV("worker", id));
        return;
    default:
        CHECK(false);
    }
}

static void
log_finding(const struct fleet_out *out, const char *id)
{
    switch ((int)out->event) {
    case FLEET_RECOGNISED:
        LOG_INFO("worker_recognised", KV("worker", id),
                 KV("engine", engine_kind_name(out->worker->kind)));
        return;
    case FLEET_MODELS_CHANGED:
        LOG_INFO("worker_models", KV("worker", id), KV("models", out->number));
        return;
    case FLEET_CAPACITY_CHANGED:
        LOG_INFO("worker_capacity", KV("worker", id),
                 KV("tokens", out->number));
        return;
    case FLEET_ADDRESS_CHANGED:
        LOG_INFO("worker_address", KV("worker", id));
        return;
    default:
        CHECK(false);
    }
}

void
fleet_log_event(const struct fleet_out *out)
{
    const char *id = out->worker->id;

    switch (out->event) {
    case FLEET_ADDED:
        LOG_INFO("worker_added", KV("worker", id),
                 KV("url", (const char *)out->worker->url));
        return;
    case FLEET_DRAINING:
        LOG_INFO("worker_draining", KV("worker", id));
        return;
    case FLEET_DRAINED:
        LOG_INFO("worker_drained", KV("worker", id));
        return;
    case FLEET_UNDRAINED:
        LOG_INFO("worker_undrained", KV("worker", id));
        return;
    case FLEET_REMOVED:
        LOG_INFO("worker_removed", KV("worker", id));
        return;
    case FLEET_UP:
    case FLEET_DOWN:
    case FLEET_CIRCUIT_OPEN:
    case FLEET_CIRCUIT_HALF_OPEN:
    case FLEET_CIRCUIT_CLOSED:
        log_health(out, id);
        return;
    case FLEET_RECOGNISED:
    case FLEET_MODELS_CHANGED:
    case FLEET_CAPACITY_CHANGED:
    case FLEET_ADDRESS_CHANGED:
        log_finding(out, id);
        return;
    case FLEET_EVENTS:
        break;
    }
    CHECK(false);
}
