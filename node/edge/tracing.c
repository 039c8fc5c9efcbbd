/*
 * Traces: which requests are part of one, and what was done with those whose
 * spans are told (traces.otlp).
 */
#include <string.h>
#include <time.h>

#include "node/edge/logging_internal.h"

/* A header that is none, and one that came twice, is none. */
static bool
read_parent(const struct http_head *head, struct http_trace *trace)
{
    uint32_t bit = UINT32_C(1) << HTTP_FIELD_TRACEPARENT;

    return (head->fields_seen & bit) != 0 &&
           (head->fields_repeated & bit) == 0 &&
           http_trace_read(http_head_find(head, HTTP_FIELD_TRACEPARENT)->value,
                           trace);
}

/* Never all 0. */
static void
draw(struct rng *rng, uint8_t id[8])
{
    uint64_t bits = rng_next(rng) | 1;

    memcpy(id, &bits, sizeof(bits));
}

/* Whether a trace begins here. */
static bool ON_LANE
begins(struct lane *lane, const struct config_traces *config)
{
    return config->otlp.host[0] != '\0' &&
           rng_below(&lane->rng, 1000) < config->ratio_permille;
}

/* What goes on to the worker has a span of ours. Who began the trace has decided
 * whether it is sampled. A header that is none passes as it is, unless a trace
 * begins here. */
void
tracing_begin(struct exchange *x, const struct http_head *head)
{
    struct lane *lane = x->client->lane;
    const struct config_traces *config = &lane->node->config->traces;

    if (read_parent(head, &x->trace)) {
        memcpy(x->trace_parent, x->trace.span, sizeof(x->trace_parent));
        x->sampled = config->otlp.host[0] != '\0' &&
                     (x->trace.flags & HTTP_TRACE_SAMPLED) != 0;
    } else if (begins(lane, config)) {
        draw(&lane->rng, x->trace.trace);
        draw(&lane->rng, x->trace.trace + 8);
        x->trace.flags = HTTP_TRACE_SAMPLED;
        x->sampled = true;
    } else {
        return;
    }
    draw(&lane->rng, x->trace.span);
    x->traced = true;
    if (x->sampled) {
        x->steps = exchange_part(x, FACT_STEPS_MAX * sizeof(*x->steps));
        x->sampled = x->steps != NULL;
    }
}

static void
end_step(struct exchange *x, uint64_t now_us)
{
    if (x->stepping) {
        x->steps[x->steps_count - 1].ended_us = now_us - x->dispatch.begun_us;
        x->stepping = false;
    }
}

void
tracing_add_step(struct exchange *x, enum fact_step_kind kind)
{
    uint64_t now_us = lane_clock_us();

    CHECK(x->sampled && x->steps_count <= FACT_STEPS_MAX);
    end_step(x, now_us);
    if (x->steps_count < FACT_STEPS_MAX) {
        x->steps[x->steps_count++] = (struct fact_step){
            .kind = kind,
            .attempt = x->dispatch.attempts_count,
            .begun_us = now_us - x->dispatch.begun_us,
        };
        x->stepping = true;
    }
}

static uint64_t
wall_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void
tracing_end(struct exchange *x, struct fact_trace *trace, uint64_t now_us)
{
    uint64_t lasted_us = now_us - x->dispatch.begun_us;

    CHECK(x->sampled);
    end_step(x, now_us);
    trace->sampled = true;
    memcpy(trace->parent, x->trace_parent, sizeof(trace->parent));
    trace->begun_ns = wall_ns() - lasted_us * 1000;
    trace->steps_count = x->steps_count;
    memcpy(trace->step, x->steps, x->steps_count * sizeof(x->steps[0]));
}
