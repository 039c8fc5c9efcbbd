/* Spans that wait for a collector. */
#include "node/control/trace_queue.h"

#include "node/text/json_out.h"

#define HEAD_ROOM ((size_t)4 << 10) /* around the spans of a piece */

void
trace_queue_init(struct trace_queue *queue, size_t bytes_max)
{
    *queue = (struct trace_queue){.count = 0};
    buf_init(&queue->spans, bytes_max);
    buf_init(&queue->body, bytes_max + HEAD_ROOM);
}

void
trace_queue_fini(struct trace_queue *queue)
{
    buf_fini(&queue->spans);
    buf_fini(&queue->body);
}

void
trace_queue_add(struct trace_queue *queue, struct slice spans, uint32_t count)
{
    size_t before = queue->spans.len;

    CHECK(count != 0 && spans.len != 0);
    if (before != 0) {
        buf_add(&queue->spans, ",", 1);
    }
    buf_add_slice(&queue->spans, spans);
    if (queue->spans.failed) {
        queue->spans.len = before;
        queue->spans.failed = false;
        queue->dropped += count;
        return;
    }
    queue->count += count;
}

bool
trace_queue_due(const struct trace_queue *queue, uint64_t now_us)
{
    bool full =
        queue->body.len == 0 && queue->spans.len >= queue->spans.max_bytes / 2;

    return !queue->sending && (queue->count != 0 || queue->body.len != 0) &&
           (full || now_us >= queue->due_us);
}

static void
put_attribute(struct json_out *json, const char *key, const char *value)
{
    json_out_object_begin(json);
    json_out_put_text(json, "key", key);
    json_out_key(json, "value");
    json_out_object_begin(json);
    json_out_put_text(json, "stringValue", value);
    json_out_object_end(json);
    json_out_object_end(json);
}

/* Whose they are. */
static void
put_resource(struct json_out *json, const char *node)
{
    json_out_key(json, "resource");
    json_out_object_begin(json);
    json_out_key(json, "attributes");
    json_out_array_begin(json);
    put_attribute(json, "service.name", "kvasir");
    put_attribute(json, "service.instance.id", node);
    put_attribute(json, "service.version", KVASIR_VERSION);
    json_out_array_end(json);
    json_out_object_end(json);
}

static void
put_body(struct trace_queue *queue, const char *node)
{
    struct json_out json;

    json_out_init(&json, &queue->body);
    json_out_object_begin(&json);
    json_out_key(&json, "resourceSpans");
    json_out_array_begin(&json);
    json_out_object_begin(&json);
    put_resource(&json, node);
    json_out_key(&json, "scopeSpans");
    json_out_array_begin(&json);
    json_out_object_begin(&json);
    json_out_key(&json, "scope");
    json_out_object_begin(&json);
    json_out_put_text(&json, "name", "kvasir");
    json_out_object_end(&json);
    json_out_key(&json, "spans");
    json_out_array_begin(&json);
    buf_add_slice(&queue->body, buf_slice(&queue->spans));
    json_out_array_end(&json);
    json_out_object_end(&json);
    json_out_array_end(&json);
    json_out_object_end(&json);
    json_out_array_end(&json);
    json_out_object_end(&json);
}

/* What was on its way is done with. */
static void
clear_body(struct trace_queue *queue)
{
    buf_clear(&queue->body);
    queue->body_count = 0;
    queue->tries = 0;
}

struct slice
trace_queue_take(struct trace_queue *queue, const char *node)
{
    CHECK(!queue->sending && (queue->count != 0 || queue->body.len != 0));
    if (queue->body.len == 0) {
        put_body(queue, node);
        queue->body_count = queue->count;
        buf_clear(&queue->spans);
        queue->count = 0;
    }
    if (queue->body.failed) {
        queue->dropped += queue->body_count;
        clear_body(queue);
        return SLICE("");
    }
    queue->sending = true;
    return buf_slice(&queue->body);
}

void
trace_queue_sent(struct trace_queue *queue, uint64_t rejected, uint64_t now_us)
{
    uint64_t count = queue->body_count;

    CHECK(queue->sending);
    rejected = rejected < count ? rejected : count;
    queue->sent += count - rejected;
    queue->dropped += rejected;
    queue->sending = false;
    queue->due_us = now_us + TRACE_PAUSE_US;
    clear_body(queue);
}

void
trace_queue_failed(struct trace_queue *queue, bool again, uint64_t now_us)
{
    CHECK(queue->sending && queue->body.len != 0);
    queue->failures++;
    queue->sending = false;
    queue->due_us = now_us + (TRACE_PAUSE_US << queue->tries);
    queue->tries++;
    if (!again || queue->tries == TRACE_TRIES) {
        queue->dropped += queue->body_count;
        clear_body(queue);
    }
}
