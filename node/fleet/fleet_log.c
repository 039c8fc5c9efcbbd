/* One log line for each event of a worker, each event rate-limited by
 * itself. */
#include "node/fleet/fleet_log_internal.h"

#include <uv.h>

#include "node/base/log.h"

/* The event, the worker and its details. */
#define FIELDS_MAX 7

static enum log_level
level_of(enum fleet_event event)
{
    return event == FLEET_DOWN || event == FLEET_CIRCUIT_OPEN
               ? LOG_LEVEL_WARNING
               : LOG_LEVEL_INFO;
}

/* What a check asked for and got. */
static size_t
take_down(const struct fleet_out *out, struct log_field *fields)
{
    fields[0] = KV("reason", out->reason);
    if (out->number == 0) {
        return 1;
    }
    fields[1] = KV("status", out->number);
    fields[2] = KV("worker_url", (const char *)out->worker->url);
    fields[3] = KV("path", (const char *)out->target);
    return 4;
}

/* What an operator may do about it; NULL: nothing. */
static const char *
hint_of(const struct fleet_out *out)
{
    if (out->event == FLEET_CIRCUIT_OPEN) {
        return "its requests failed one after the other: look at the engine's "
               "log; it is tried again after open_ms";
    }
    return out->event != FLEET_DOWN ? NULL
           : out->number != 0
               ? "look at the engine's log, and whether health.path is a path "
                 "of its; it is used again once that answers 2xx"
               : "is the engine running, and within reach? kvasir doctor tries "
                 "it; it is used again once it answers";
}

/* The part of the line that depends on the event; how many fields it has. */
static size_t
take_details(const struct fleet_out *out, struct log_field *fields)
{
    switch ((int)out->event) {
    case FLEET_ADDED:
        fields[0] = KV("url", (const char *)out->worker->url);
        return 1;
    case FLEET_DOWN:
        return take_down(out, fields);
    case FLEET_CIRCUIT_OPEN:
        fields[0] = KV("open_ms", out->number);
        return 1;
    case FLEET_RECOGNISED:
        fields[0] = KV("engine", engine_kind_name(out->worker->kind));
        return 1;
    case FLEET_MODELS_CHANGED:
        fields[0] = KV("models", out->number);
        return 1;
    case FLEET_CAPACITY_CHANGED:
        fields[0] = KV("tokens", out->number);
        return 1;
    default:
        return 0;
    }
}

void
fleet_log_event(const struct fleet_out *out)
{
    static struct log_site sites[FLEET_EVENTS];
    struct log_field fields[FIELDS_MAX];
    const char *hint = hint_of(out);
    size_t count = 2;

    /* All workers may start, or fail, at once. */
    sites[out->event].burst = WORKERS_MAX;
    CHECK(out->kind == FLEET_OUT_EVENT && out->event < FLEET_EVENTS);
    CHECK(out->worker != NULL && out->reason != NULL);
    fields[0] = KV("event", fleet_event_name(out->event));
    fields[1] = KV("worker", (const char *)out->worker->id);
    count += take_details(out, &fields[2]);
    if (hint != NULL) {
        fields[count++] = KV("hint", hint);
    }
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
