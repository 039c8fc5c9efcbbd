/* A request's spans in OTLP's JSON. */
#include "node/control/trace_spans.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "index/base/check.h"
#include "index/base/rng.h"
#include "node/elect/elect.h"
#include "node/text/json_out.h"

/* SpanKind and Status.StatusCode of trace.proto. */
enum {
    KIND_INTERNAL = 1,
    KIND_SERVER = 2,
    KIND_CLIENT = 3,
    STATUS_ERROR = 2,
};

static const char *const names_of[] = {
    [FACT_STEP_TOKENS] = "tokenise",
    [FACT_STEP_ELECT] = "elect",
    [FACT_STEP_QUEUE] = "queue",
    [FACT_STEP_ATTEMPT] = "attempt",
};

static void
put_hex(struct json_out *json, const char *key, const uint8_t *bytes,
        size_t count)
{
    char text[33];

    CHECK(2 * count < sizeof(text));
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    json_out_put_text(json, key, text);
}

static void
put_decimal(struct json_out *json, const char *key, uint64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, number);
    json_out_put_text(json, key, text);
}

/* An attribute; an absent value has none. */
static void
add_text(struct json_out *json, const char *key, const char *value)
{
    if (value == NULL || value[0] == '\0') {
        return;
    }
    json_out_object_begin(json);
    json_out_put_text(json, "key", key);
    json_out_key(json, "value");
    json_out_object_begin(json);
    json_out_put_text(json, "stringValue", value);
    json_out_object_end(json);
    json_out_object_end(json);
}

static void
add_number(struct json_out *json, const char *key, uint64_t value)
{
    json_out_object_begin(json);
    json_out_put_text(json, "key", key);
    json_out_key(json, "value");
    json_out_object_begin(json);
    put_decimal(json, "intValue", value);
    json_out_object_end(json);
    json_out_object_end(json);
}

static void
add_some(struct json_out *json, const char *key, uint64_t value)
{
    if (value != 0) {
        add_number(json, key, value);
    }
}

static void
put_error(struct json_out *json, const char *message)
{
    json_out_key(json, "status");
    json_out_object_begin(json);
    json_out_put_uint(json, "code", STATUS_ERROR);
    if (message != NULL) {
        json_out_put_text(json, "message", message);
    }
    json_out_object_end(json);
}

/* What each has at its beginning; its attributes and its end follow. */
static void
begin(struct json_out *json, const struct fact_request *fact,
      const uint8_t id[8], const uint8_t parent[8])
{
    static const uint8_t none[8];

    json_out_object_begin(json);
    put_hex(json, "traceId", fact->origin.trace, sizeof(fact->origin.trace));
    put_hex(json, "spanId", id, 8);
    if (memcmp(parent, none, sizeof(none)) != 0) {
        put_hex(json, "parentSpanId", parent, 8);
    }
}

static void
put_times(struct json_out *json, const struct fact_request *fact,
          uint64_t begun_us, uint64_t ended_us)
{
    put_decimal(json, "startTimeUnixNano",
                fact->trace.begun_ns + begun_us * 1000);
    put_decimal(json, "endTimeUnixNano",
                fact->trace.begun_ns + ended_us * 1000);
}

static void
add_origin(struct json_out *json, const struct fact_request *fact,
           const char *tenant)
{
    const struct fact_origin *origin = &fact->origin;
    const struct fact_decision *d = &fact->decision;
    char client[INET6_ADDRSTRLEN] = "";

    if (origin->client_size != 0) {
        CHECK(inet_ntop(origin->client_size == 4 ? AF_INET : AF_INET6,
                        origin->client, client, sizeof(client)) != NULL);
    }
    add_text(json, "client.address", client);
    add_text(json, "http.request.method", origin->method);
    add_text(json, "url.path", origin->path);
    add_some(json, "http.response.status_code", d->status);
    add_text(json, "error.type", origin->code);
    add_text(json, "gen_ai.request.model", d->model);
    add_text(json, "kvasir.request_id", d->id);
    add_text(json, "kvasir.tenant", tenant);
    add_text(json, "kvasir.end", fact->end);
}

static void
add_decision(struct json_out *json, const struct fact_decision *d,
             const char *worker)
{
    add_text(json, "kvasir.worker", worker);
    add_text(json, "kvasir.prefill_worker", d->prefill);
    if (d->slot != WORKER_NONE) {
        add_text(json, "kvasir.mode",
                 elect_mode_name((enum elect_mode)d->mode));
        add_text(json, "kvasir.reason", d->reason);
        add_number(json, "kvasir.overlap", d->overlap);
        add_number(json, "kvasir.overlap_of", d->total);
        add_text(json, "kvasir.source", d->exact ? "mirror" : "belief");
    }
    add_some(json, "kvasir.attempts", d->attempts);
    add_some(json, "kvasir.first_token_us", d->first_token_us);
    if (d->prompt_tokens != 0) {
        add_number(json, "gen_ai.usage.input_tokens", d->prompt_tokens);
        add_number(json, "gen_ai.usage.output_tokens", d->completion_tokens);
        add_number(json, "kvasir.cached_tokens", d->cached_tokens);
    }
}

static void
put_request(const struct fact_request *fact, const struct trace_names *names,
            struct buf *out)
{
    const struct fact_decision *d = &fact->decision;
    struct json_out json;

    json_out_init(&json, out);
    begin(&json, fact, fact->origin.span, fact->trace.parent);
    json_out_put_text(&json, "name", "request");
    json_out_put_uint(&json, "kind", KIND_SERVER);
    put_times(&json, fact, 0, d->duration_us);
    json_out_key(&json, "attributes");
    json_out_array_begin(&json);
    add_origin(&json, fact, names->tenant);
    add_decision(&json, d, names->worker);
    json_out_array_end(&json);
    if (d->status >= 500 || d->severed) {
        put_error(&json, d->severed ? "severed" : fact->origin.code);
    }
    json_out_object_end(&json);
}

/* Whether the step is one that was sent again to the same worker, without
 * having failed it: over a new connection, or in another form. */
static bool
is_repeated(const struct fact_trace *trace, uint32_t at)
{
    for (uint32_t i = at + 1; i < trace->steps_count; i++) {
        if (trace->step[i].kind == FACT_STEP_ATTEMPT) {
            return trace->step[i].attempt == trace->step[at].attempt;
        }
    }
    return false;
}

/* At which worker, and what came of it. */
static void
put_attempt(struct json_out *json, const struct fact_request *fact,
            const char *worker, uint32_t at)
{
    uint32_t attempt = fact->trace.step[at].attempt;
    bool repeated = is_repeated(&fact->trace, at);
    const struct fact_failed *failed =
        attempt < fact->failed_count ? &fact->failed[attempt] : NULL;
    bool fails = failed != NULL && !repeated;

    json_out_put_uint(json, "kind", KIND_CLIENT);
    json_out_key(json, "attributes");
    json_out_array_begin(json);
    add_text(json, "kvasir.worker", failed != NULL ? failed->worker : worker);
    if (repeated) {
        add_text(json, "kvasir.end", "sent again");
    } else if (failed == NULL) {
        add_some(json, "http.response.status_code", fact->decision.status);
    } else {
        add_some(json, "http.response.status_code", failed->status);
    }
    json_out_array_end(json);
    if (fails) {
        put_error(json, failed->why);
    }
}

static void
put_step(const struct fact_request *fact, const char *worker, uint32_t at,
         struct buf *out)
{
    const struct fact_step *step = &fact->trace.step[at];
    struct json_out json;
    uint8_t id[8];
    uint64_t seed;

    CHECK(step->kind < sizeof(names_of) / sizeof(names_of[0]));
    memcpy(&seed, fact->origin.span, sizeof(seed));
    uint64_t bits = rng_mix(seed + at) | 1; /* never 0 */
    memcpy(id, &bits, sizeof(id));
    json_out_init(&json, out);
    begin(&json, fact, id, fact->origin.span);
    json_out_put_text(&json, "name", names_of[step->kind]);
    put_times(&json, fact, step->begun_us, step->ended_us);
    if (step->kind == FACT_STEP_ATTEMPT) {
        put_attempt(&json, fact, worker, at);
    } else {
        json_out_put_uint(&json, "kind", KIND_INTERNAL);
    }
    json_out_object_end(&json);
}

uint32_t
trace_spans_put(const struct fact_request *fact,
                const struct trace_names *names, struct buf *out)
{
    const struct fact_trace *trace = &fact->trace;

    CHECK(trace->sampled && trace->steps_count <= FACT_STEPS_MAX);
    CHECK(fact->failed_count <= FACT_FAILED_MAX);
    put_request(fact, names, out);
    for (uint32_t i = 0; i < trace->steps_count; i++) {
        buf_add(out, ",", 1);
        put_step(fact, names->worker, i, out);
    }
    return 1 + trace->steps_count;
}
