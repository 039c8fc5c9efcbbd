/* A line of the request log. */
#include "node/control/control_requests.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "node/base/log.h"
#include "node/control/control_keys.h"
#include "node/elect/elect.h"

#define FIELDS_MAX 40U
#define FAILED_MAX LOG_VALUE_MAX

/* A line as it grows; absent values are left out. */
struct line {
    size_t count;
    struct log_field field[FIELDS_MAX];
};

static void
add_text(struct line *line, const char *key, const char *value)
{
    CHECK(line->count < FIELDS_MAX);
    if (value != NULL && value[0] != '\0') {
        line->field[line->count++] = log_field_text(key, value);
    }
}

static void
add_number(struct line *line, const char *key, uint64_t value)
{
    CHECK(line->count < FIELDS_MAX);
    line->field[line->count++] = log_field_uint(key, value);
}

static void
add_some(struct line *line, const char *key, uint64_t value)
{
    if (value != 0) {
        add_number(line, key, value);
    }
}

static const char *
client_text(const struct fact_origin *origin, char out[INET6_ADDRSTRLEN])
{
    out[0] = '\0';
    if (origin->client_size != 0) {
        CHECK(inet_ntop(origin->client_size == 4 ? AF_INET : AF_INET6,
                        origin->client, out, INET6_ADDRSTRLEN) != NULL);
    }
    return out;
}

/* Who failed it before, and why. */
static const char *
failed_text(const struct fact_request *fact, char out[FAILED_MAX])
{
    size_t len = 0;

    CHECK(fact->failed_count <= FACT_FAILED_MAX);
    out[0] = '\0';
    for (uint32_t i = 0; i < fact->failed_count && len < FAILED_MAX; i++) {
        const struct fact_failed *failed = &fact->failed[i];
        char status[16] = "";
        if (failed->status != 0) {
            (void)snprintf(status, sizeof status, " %u", failed->status);
        }
        int more =
            snprintf(out + len, FAILED_MAX - len, "%s%s %s%s",
                     i != 0 ? ", " : "", failed->worker, failed->why, status);
        len += more > 0 ? (size_t)more : 0;
    }
    return out;
}

static void
put_hex(const uint8_t *bytes, size_t count, char *out)
{
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* Who asked, and for what. */
static void ON_CONTROL
add_origin(struct line *line, const struct control *control,
           const struct fact_request *fact, char text[INET6_ADDRSTRLEN])
{
    const struct fact_origin *origin = &fact->origin;
    const struct fact_decision *d = &fact->decision;

    add_text(line, "client", client_text(origin, text));
    if (d->kind == FACT_DECISION) {
        add_text(line, "tenant", control_keys_tenant(control->node, d->tenant));
    }
    add_text(line, "method", origin->method);
    add_text(line, "path", origin->path);
    add_text(line, "model", d->model);
}

/* Where it went, and why. */
static void
add_placement(struct line *line, const struct fact_decision *d,
              const char *worker, char overlap[32])
{
    add_text(line, "worker", worker);
    add_text(line, "prefill", d->prefill);
    add_text(line, "mode", elect_mode_name((enum elect_mode)d->mode));
    add_text(line, "reason", d->reason);
    (void)snprintf(overlap, 32, "%u/%u", d->overlap, d->total);
    add_text(line, "overlap", overlap);
    add_text(line, "source", d->exact ? "mirror" : "belief");
    add_some(line, "load", d->load);
}

static void
add_times(struct line *line, const struct fact_decision *d)
{
    add_some(line, "waited_us", d->waited_us);
    add_some(line, "route_us", d->route_us);
    add_some(line, "first_byte_us", d->first_byte_us);
    add_some(line, "first_token_us", d->first_token_us);
    add_number(line, "duration_us", d->duration_us);
    if (d->prompt_tokens != 0) {
        add_number(line, "prompt_tokens", d->prompt_tokens);
        add_number(line, "cached_tokens", d->cached_tokens);
        add_number(line, "completion_tokens", d->completion_tokens);
    }
}

void
control_log_request(const struct control *control,
                    const struct fact_request *fact)
{
    static struct log_site site = {.burst = UINT32_MAX};
    const struct fact_decision *d = &fact->decision;
    const struct fleet_worker *worker =
        fact_sink_worker(&control->sink, d->slot, d->generation);
    struct line line = {.count = 0};
    char client[INET6_ADDRSTRLEN];
    char failed[FAILED_MAX];
    char trace[33] = "";
    char span[17] = "";
    char overlap[32];

    if (!log_enabled(LOG_LEVEL_INFO)) {
        return;
    }
    if (fact->origin.traced) {
        put_hex(fact->origin.trace, sizeof fact->origin.trace, trace);
        put_hex(fact->origin.span, sizeof fact->origin.span, span);
    }
    add_text(&line, "event", "request");
    add_text(&line, "id", d->id);
    add_text(&line, "trace", trace);
    add_text(&line, "span", span);
    add_origin(&line, control, fact, client);
    if (d->slot != WORKER_NONE && d->kind == FACT_DECISION) {
        add_placement(&line, d, worker != NULL ? worker->id : "", overlap);
    }
    add_some(&line, "attempts", d->attempts);
    add_text(&line, "failed", failed_text(fact, failed));
    add_some(&line, "resumed", d->resumed);
    add_text(&line, "end", fact->end);
    add_text(&line, "not_resumed", fact->origin.not_resumed);
    add_text(&line, "cache", fact->origin.cache);
    add_text(&line, "cache_why", fact->origin.cache_why);
    add_number(&line, "status", d->status);
    add_text(&line, "code", fact->origin.code);
    if (d->kind == FACT_DECISION) {
        add_times(&line, d);
    }
    log_write(&site, LOG_LEVEL_INFO, line.field, line.count);
}
