/* Tells a collector the spans of requests. */
#include "node/control/control_traces.h"

#include <stdio.h>
#include <stdlib.h>

#include "node/base/log.h"
#include "node/control/control_keys.h"
#include "node/control/control_tls.h"
#include "node/fleet/probe.h"
#include "node/text/json_pull.h"
#include "node/text/prom_out.h"

#define SPANS_MAX  ((size_t)64 << 10) /* of one request */
#define ANSWER_MAX ((size_t)64 << 10)
#define PATH       "/v1/traces"

static const struct url *
collector(const struct control_traces *traces)
{
    return &traces->node->config->traces.otlp;
}

static bool
is_on(const struct control_traces *traces)
{
    return traces->node != NULL && collector(traces)->host[0] != '\0';
}

void
control_traces_start(struct control_traces *traces, struct node_shared *node,
                     uv_loop_t *loop)
{
    *traces = (struct control_traces){.node = node, .loop = loop};
    trace_queue_init(&traces->queue, TRACES_BYTES_MAX);
}

void
control_traces_take(struct control_traces *traces,
                    const struct fact_request *fact, const char *worker)
{
    const struct trace_names names = {
        .tenant = control_keys_tenant(traces->node, fact->decision.tenant),
        .worker = worker,
    };
    struct buf spans;

    buf_init(&spans, SPANS_MAX);
    uint32_t count = trace_spans_put(fact, &names, &spans);
    if (spans.failed) {
        traces->queue.dropped += count;
    } else {
        trace_queue_add(&traces->queue, buf_slice(&spans), count);
    }
    buf_fini(&spans);
}

/* partialSuccess.rejectedSpans, a number of 64 bits: as text, or as one. */
static uint64_t
rejected_of(struct slice body)
{
    struct json_pull pull;
    enum pull_token token;
    char text[24];

    json_pull_init(&pull, body);
    while ((token = json_pull_next(&pull)) > PULL_END) {
        if (token != PULL_KEY || !json_pull_is(&pull, SLICE("rejectedSpans"))) {
            continue;
        }
        token = json_pull_next(&pull);
        if ((token == PULL_STRING || token == PULL_NUMBER) &&
            pull.text.len < sizeof(text)) {
            (void)snprintf(text, sizeof(text), "%.*s", (int)pull.text.len,
                           pull.text.ptr);
            return strtoull(text, NULL, 10);
        }
    }
    return 0;
}

/* As the protocol says: these are for later, others will not be taken. */
static bool
is_for_later(const struct httpc_answer *answer)
{
    unsigned status = answer->outcome == HTTPC_OK ? answer->head->status : 503;

    return status == 429 || status == 502 || status == 503 || status == 504;
}

static void
log_failure(const struct control_traces *traces,
            const struct httpc_answer *answer)
{
    char at[URL_TEXT_MAX];
    bool told = answer->outcome == HTTPC_OK;
    const char *why = told ? "it took them not"
                      : answer->why[0] != '\0'
                          ? answer->why
                          : httpc_outcome_name(answer->outcome);

    LOG_WARNING("traces_unsent", KV("to", url_authority(collector(traces), at)),
                KV("why", why), KV("status", told ? answer->head->status : 0),
                KV("hint", "requests are served all the same; look at the "
                           "collector, and at traces.otlp"));
}

static void
on_answer(void *context, const struct httpc_answer *answer)
{
    struct control_traces *traces = context;
    uint64_t now_us = probe_now_us();

    traces->call = NULL;
    if (answer->outcome == HTTPC_OK && answer->head->status / 100 == 2) {
        trace_queue_sent(&traces->queue, rejected_of(answer->body), now_us);
        return;
    }
    log_failure(traces, answer);
    trace_queue_failed(&traces->queue, is_for_later(answer), now_us);
}

/* Of a base, as with OTEL_EXPORTER_OTLP_ENDPOINT; the whole path is fine, too. */
static void
set_target(const struct url *url, char out[URL_PATH_MAX + sizeof(PATH)])
{
    size_t len = strlen(url->path);
    size_t tail = sizeof(PATH) - 1;
    bool whole = len >= tail && strcmp(url->path + len - tail, PATH) == 0;

    (void)snprintf(out, URL_PATH_MAX + sizeof(PATH), "%s%s", url->path,
                   whole ? "" : PATH);
}

void
control_traces_look(struct control_traces *traces, uint64_t now_us)
{
    char target[URL_PATH_MAX + sizeof(PATH)];

    if (!is_on(traces) || !trace_queue_due(&traces->queue, now_us)) {
        return;
    }
    const struct url *url = collector(traces);
    struct slice body =
        trace_queue_take(&traces->queue, traces->node->config->name);
    if (body.len == 0) {
        return;
    }
    set_target(url, target);
    struct httpc_request request = {
        .host = url->host,
        .port = url->port,
        .tls = url->tls ? control_tls_of_workers(traces->node) : NULL,
        .method = "POST",
        .target = target,
        .headers = SLICE("Content-Type: application/json\r\n"),
        .body = body,
        .timeout_ms = TRACES_TIMEOUT_MS,
        .answer_bytes_max = ANSWER_MAX,
        .context = traces,
        .done = on_answer,
    };
    if (httpc_start(&traces->call, traces->loop, &request) != 0) {
        traces->call = NULL;
        trace_queue_failed(&traces->queue, true, now_us);
    }
}

void
control_traces_stop(struct control_traces *traces)
{
    if (traces->call != NULL) {
        httpc_cancel(traces->call);
        traces->call = NULL;
    }
}

void
control_traces_fini(struct control_traces *traces)
{
    trace_queue_fini(&traces->queue);
}

void
control_traces_put_metrics(const struct control_traces *traces, struct buf *out)
{
    const struct trace_queue *queue = &traces->queue;

    if (!is_on(traces)) {
        return;
    }
    prom_out_single(out, "kvasir_trace_spans_sent_total", "counter",
                    "Spans that the collector of traces.otlp took",
                    queue->sent);
    prom_out_single(out, "kvasir_trace_spans_dropped_total", "counter",
                    "Spans that it did not take, or for which there was no "
                    "room until it did",
                    queue->dropped);
    prom_out_single(out, "kvasir_trace_spans_waiting", "gauge",
                    "Spans that wait, or are on their way",
                    (uint64_t)queue->count + queue->body_count);
    prom_out_single(out, "kvasir_trace_failures_total", "counter",
                    "Times that the collector did not answer, or refused",
                    queue->failures);
}
