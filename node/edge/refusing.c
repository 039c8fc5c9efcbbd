/* Requests that dispatch.c has refused: what their clients are told. */
#include <inttypes.h>
#include <stdio.h>

#include "node/edge/logging_internal.h"

const char *
exchange_fault_text(const struct dispatch_attempt *a)
{
    switch (a->fault) {
    case DISPATCH_UNREACHABLE:
        return "could not connect";
    case DISPATCH_EXHAUSTED:
        return "no descriptor, port or memory here";
    case DISPATCH_CONNECT_TIMEOUT:
        return "connecting timed out";
    case DISPATCH_FIRST_BYTE_TIMEOUT:
        return "no answer in time";
    case DISPATCH_CLOSED:
        return "closed without an answer";
    case DISPATCH_BAD:
        return "did not answer in HTTP/1.1";
    case DISPATCH_STATUS:
        return "answered";
    }
    return "failed";
}

/* The client is told of every attempt. */
static void ON_LANE
refuse_attempts(struct exchange *x, unsigned status, const char *code)
{
    const struct dispatch *d = &x->dispatch;
    char text[1024];
    struct buf message;

    buf_init(&message, sizeof(text));
    buf_printf(&message, "%u attempt%s failed:", d->attempts_count,
               d->attempts_count == 1 ? "" : "s");
    for (uint32_t i = 0; i < d->attempts_count; i++) {
        const struct dispatch_attempt *a = &d->attempt[i];
        buf_printf(&message, "%s %s %s", i == 0 ? "" : ",", a->worker,
                   exchange_fault_text(a));
        if (a->fault == DISPATCH_STATUS) {
            buf_printf(&message, " %u", a->status);
        }
    }
    (void)snprintf(text, sizeof(text), "%.*s", (int)message.len,
                   message.ptr != NULL ? message.ptr : "");
    buf_fini(&message);
    reply_error(x->client, status, code, text);
}

/* In the engines' own words, with the numbers. */
static void ON_LANE
refuse_length(struct exchange *x)
{
    const struct dispatch_length *length = &x->dispatch.too_long;
    const struct pools_need *need = &length->need;
    char text[256];

    (void)snprintf(text, sizeof(text),
                   "the maximum context length of '%s' is %" PRIu32
                   " tokens; this request has %s%" PRIu64
                   " in its prompt, and asks for %" PRIu64 " more",
                   x->dispatch.model, length->longest,
                   need->counted ? "" : "about ", need->prompt,
                   need->answer > 0 ? need->answer : 1);
    reply_error(x->client, 400, "context_length_exceeded", text);
}

static const char *
residency_of(const struct exchange *x)
{
    return x->client->framing.admission.residency.islands;
}

/* None is there at all, or none that takes requests now. */
static void ON_LANE
refuse_residency(struct exchange *x, unsigned status, const char *code)
{
    char text[FACT_MODEL_MAX + KEYS_RESIDENCY_MAX + 160];

    (void)snprintf(text, sizeof(text),
                   "this tenant's requests may be served in the islands [%s] "
                   "alone (its residency), and no worker there %s '%s'",
                   residency_of(x),
                   status == 403 ? "serves the model"
                                 : "is free to take a request for the model",
                   x->dispatch.model);
    reply_error(x->client, status, code, text);
}

void
exchange_refuse(struct exchange *x)
{
    char text[160];

    switch (x->dispatch.refusal) {
    case DISPATCH_ALL_FAILED:
        refuse_attempts(x, 502, "all_attempts_failed");
        break;
    case DISPATCH_ALL_BUSY:
        refuse_attempts(x, x->dispatch.busy.status, "all_workers_busy");
        break;
    case DISPATCH_NO_MODEL:
        (void)snprintf(text, sizeof(text),
                       "no worker serves the model '%s'; /v1/models lists what "
                       "is served",
                       x->dispatch.model);
        reply_error(x->client, 404, "model_not_found", text);
        break;
    case DISPATCH_TOO_LONG:
        refuse_length(x);
        break;
    case DISPATCH_RESIDENCY:
        refuse_residency(x, 403, "residency");
        break;
    case DISPATCH_QUEUE_FULL:
        reply_error(x->client, 503, "queue_full",
                    "all workers are busy, and too many requests wait");
        break;
    case DISPATCH_QUEUE_LATE:
        reply_error(x->client, 503, "queue_timeout",
                    "no worker had room in time");
        break;
    case DISPATCH_NO_WORKER:
        if (residency_of(x)[0] != '\0') {
            refuse_residency(x, 503, "no_worker");
            break;
        }
        reply_error(x->client, 503, "no_worker",
                    "no worker is healthy, connected and free to take this "
                    "request; see `kvasir status`");
        break;
    }
}
