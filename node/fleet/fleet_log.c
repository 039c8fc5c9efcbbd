/* One log line for each event of a worker, each event rate-limited by
 * itself. */
#include "node/fleet/fleet_log_internal.h"

#include <uv.h>

#include "node/base/log.h"

/* The event, the worker and one detail. */
#define FIELDS_MAX 3

static enum log_level
level_of(enum fleet_event event)
{
    return event == FLEET_DOWN || event == FLEET_CIRCUIT_OPEN
               ? LOG_LEVEL_WARNING
               : LOG_LEVEL_INFO;
}

/* The part of the line that depends on the event; false: there is none. */
static bool
take_detail(const struct fleet_out *out, struct log_field *field)
{
    switch ((int)out->event) {
    case FLEET_ADDED:
        *field = KV("url", (const char *)out->worker->url);
        return true;
    case FLEET_DOWN:
        *field = KV("reason", out->reason);
        return true;
    case FLEET_CIRCUIT_OPEN:
        *field = KV("open_ms", out->number);
        return true;
    case FLEET_RECOGNISED:
        *field = KV("engine", engine_kind_name(out->worker->kind));
        return true;
    case FLEET_MODELS_CHANGED:
        *field = KV("models", out->number);
        return true;
    case FLEET_CAPACITY_CHANGED:
        *field = KV("tokens", out->number);
        return true;
    default:
        return false;
    }
}

void
fleet_log_event(const struct fleet_out *out)
{
    static struct log_site sites[FLEET_EVENTS];
    struct log_field fields[FIELDS_MAX];
    size_t count = 2;

    CHECK(out->kind == FLEET_OUT_EVENT && out->event < FLEET_EVENTS);
    CHECK(out->worker != NULL && out->reason != NULL);
    fields[0] = KV("event", fleet_event_name(out->event));
    fields[1] = KV("worker", (const char *)out->worker->id);
    count += take_detail(out, &fields[2]);
    if (log_enabled(level_of(out->event))) {
        log_write(&sites[out->event], level_of(out->event), fields, count);
    }
}

void
fleet_log_denied(const char *worker, const struct sockaddr *address,
                 const struct range *range)
{
    char text[RANGE_TEXT_MAX];
    char host[64] = "";
    int error = address->sa_family == AF_INET6
                    ? uv_ip6_name((const void *)address, host, sizeof host)
                    : uv_ip4_name((const void *)address, host, sizeof host);

    LOG_WARNING("worker_address_denied", KV("worker", worker),
                KV("address", error == 0 ? host : "?"),
                KV("range", range_text(range, text)),
                KV("hint", "its name has an address that workers.deny denies"));
}
