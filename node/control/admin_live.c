/* /admin/live: what changes, for those who watch. */
#include "node/control/admin.h"

#define LIVE_MS     2000U
#define LIVE_RECENT 2U /* spans that can have changed since the last event */

/* event: NAME, data: one line of JSON, a blank line. */
static void
begin_event(struct buf *out, const char *name)
{
    buf_printf(out, "event: %s\ndata: ", name);
}

static void ON_CONTROL
add_status(struct control *control, struct buf *out)
{
    struct json_out json;

    begin_event(out, "status");
    json_out_init(&json, out);
    admin_put_status(control, &json);
    buf_add(out, "\n\n", 2);
}

static void
add_history(const struct control *control, uint32_t spans, struct buf *out)
{
    struct json_out json;

    begin_event(out, "history");
    json_out_init(&json, out);
    history_put(&control->history, spans, control_now_us(), &json);
    buf_add(out, "\n\n", 2);
}

/* A text that outgrew its bound, or a client that does not read: it gets the
 * next one. */
static void
offer(struct httpd_request *request, const struct buf *text)
{
    if (!text->failed) {
        (void)!httpd_send(request, buf_slice(text));
    }
}

static void
on_live(uv_timer_t *timer)
{
    struct control *control = timer->loop->data;
    struct admin_live *live = &control->live;
    struct buf text;

    role_is_control();
    control_take_facts(control);
    buf_init(&text, ADMIN_BYTES_MAX);
    add_history(control, LIVE_RECENT, &text);
    add_status(control, &text);
    for (uint32_t i = 0; i < live->count; i++) {
        offer(live->watcher[i], &text);
    }
    buf_fini(&text);
}

void
admin_live_init(struct control *control)
{
    CHECK(uv_timer_init(&control->loop, &control->live.timer) == 0);
}

void
admin_live_close(struct admin_live *live)
{
    CHECK(live->count == 0);
    uv_close((uv_handle_t *)&live->timer, NULL);
}

void
admin_live_end(struct control *control)
{
    struct admin_live *live = &control->live;

    while (live->count != 0) {
        httpd_end(live->watcher[--live->count]);
    }
    CHECK(uv_timer_stop(&live->timer) == 0);
}

void
admin_live_watch(struct control *control, struct httpd_request *request)
{
    struct admin_live *live = &control->live;
    struct buf text;

    if (live->count == ADMIN_WATCHERS_MAX) {
        httpd_error(request, 503, "too_many_watchers",
                    "as many as may already watch this node");
        return;
    }
    if (httpd_head(request)->method_id == HTTP_HEAD) {
        httpd_answer(request, 200, "text/event-stream", SLICE(""), SLICE(""));
        return;
    }
    live->watcher[live->count++] = request;
    if (live->count == 1) {
        CHECK(uv_timer_start(&live->timer, on_live, LIVE_MS, LIVE_MS) == 0);
    }
    httpd_begin(request, 200, "text/event-stream",
                SLICE("Cache-Control: no-store\r\n"));
    buf_init(&text, ADMIN_BYTES_MAX);
    add_history(control, HISTORY_SPANS, &text);
    add_status(control, &text);
    offer(request, &text);
    buf_fini(&text);
}

void
admin_live_gone(struct control *control, const struct httpd_request *request)
{
    struct admin_live *live = &control->live;

    for (uint32_t i = 0; i < live->count; i++) {
        if (live->watcher[i] == request) {
            live->watcher[i] = live->watcher[--live->count];
            break;
        }
    }
    if (live->count == 0) {
        CHECK(uv_timer_stop(&live->timer) == 0);
    }
}
