/* The server's side of HTTP/2, held against libnghttp2's side of a client. */
#include <criterion/criterion.h>
#include <nghttp2/nghttp2.h>

#include "index/base/buf.h"
#include "node/extproc/h2.h"

#define CALLS 4

/* What the server was told of a call, and what the client heard. */
struct seen {
    struct h2_call *call;
    struct buf came;
    bool ended;
    unsigned gone;
    struct buf heard;
    char status[8]; /* grpc-status */
    uint32_t code;  /* of the stream's end */
    bool closed;
};

struct rig {
    struct h2 *h2;
    nghttp2_session *client;
    struct seen seen[CALLS]; /* by (stream - 1) / 2 */
    unsigned begun;
    int32_t goaway; /* last stream of it; -1: none came */
    struct slice body;
    bool body_ends;
    bool takes; /* the owner takes what comes at once */
};

static enum grpc_status
on_begun(void *owner, struct h2_call *call, struct slice path, void **context)
{
    struct rig *rig = owner;

    if (!slice_equal(path, SLICE("/a.B/C"))) {
        return GRPC_UNIMPLEMENTED;
    }
    struct seen *seen = &rig->seen[rig->begun++];
    seen->call = call;
    *context = seen;
    return GRPC_OK;
}

static void
on_came(void *context, struct slice bytes)
{
    struct seen *seen = context;

    buf_add_slice(&seen->came, bytes);
}

static void
on_came_taken(void *context, struct slice bytes)
{
    struct seen *seen = context;

    on_came(context, bytes);
    h2_taken(seen->call, bytes.len);
}

static void
on_ended(void *context)
{
    ((struct seen *)context)->ended = true;
}

static void
on_gone(void *context)
{
    struct seen *seen = context;

    seen->gone++;
    seen->call = NULL;
}

static const struct h2_events keeps = {on_begun, on_came, on_ended, on_gone};
static const struct h2_events takes = {on_begun, on_came_taken, on_ended,
                                       on_gone};

static int
client_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *bytes,
            size_t len, void *owner)
{
    struct rig *rig = owner;

    (void)s, (void)flags;
    buf_add(&rig->seen[(id - 1) / 2].heard, bytes, len);
    return 0;
}

static int
client_header(nghttp2_session *s, const nghttp2_frame *frame,
              const uint8_t *name, size_t name_len, const uint8_t *value,
              size_t value_len, uint8_t flags, void *owner)
{
    struct rig *rig = owner;
    struct slice got = {(const char *)name, name_len};

    (void)s, (void)flags;
    if (slice_equal(got, SLICE("grpc-status"))) {
        cr_assert_lt(value_len, 8);
        char *to = rig->seen[(frame->hd.stream_id - 1) / 2].status;
        memcpy(to, value, value_len);
        to[value_len] = '\0';
    }
    return 0;
}

static int
client_frame(nghttp2_session *s, const nghttp2_frame *frame, void *owner)
{
    struct rig *rig = owner;

    (void)s;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        rig->goaway = frame->goaway.last_stream_id;
    }
    return 0;
}

static int
client_close(nghttp2_session *s, int32_t id, uint32_t code, void *owner)
{
    struct rig *rig = owner;

    (void)s;
    rig->seen[(id - 1) / 2].closed = true;
    rig->seen[(id - 1) / 2].code = code;
    return 0;
}

static void
rig_init(struct rig *rig, const struct h2_events *events)
{
    nghttp2_session_callbacks *calls;

    *rig = (struct rig){.goaway = -1};
    for (unsigned i = 0; i < CALLS; i++) {
        buf_init(&rig->seen[i].came, 8 << 20);
        buf_init(&rig->seen[i].heard, 8 << 20);
    }
    cr_assert_eq(h2_new(&rig->h2, events, rig), 0);
    cr_assert_eq(nghttp2_session_callbacks_new(&calls), 0);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls,
                                                              client_data);
    nghttp2_session_callbacks_set_on_header_callback(calls, client_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, client_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, client_close);
    cr_assert_eq(nghttp2_session_client_new(&rig->client, calls, rig), 0);
    nghttp2_session_callbacks_del(calls);
    cr_assert_eq(nghttp2_submit_settings(rig->client, 0, NULL, 0), 0);
}

static void
rig_fini(struct rig *rig)
{
    h2_free(rig->h2);
    nghttp2_session_del(rig->client);
    for (unsigned i = 0; i < CALLS; i++) {
        cr_assert_null(rig->seen[i].call);
        buf_fini(&rig->seen[i].came);
        buf_fini(&rig->seen[i].heard);
    }
}

/* Both sides until neither has more to say; the client's bytes in steps. */
static void
settle(struct rig *rig, size_t step)
{
    bool moved = true;

    while (moved) {
        const uint8_t *ptr;
        struct slice bytes;
        moved = false;
        ssize_t n = nghttp2_session_mem_send(rig->client, &ptr);
        cr_assert_geq(n, 0);
        for (size_t at = 0; at < (size_t)n; at += step) {
            size_t len = (size_t)n - at < step ? (size_t)n - at : step;
            cr_assert_eq(
                h2_give(rig->h2, (struct slice){(const char *)ptr + at, len}),
                0);
        }
        cr_assert_eq(h2_next_out(rig->h2, &bytes), 0);
        if (bytes.len != 0) {
            cr_assert_eq(
                nghttp2_session_mem_recv(rig->client,
                                         (const uint8_t *)bytes.ptr, bytes.len),
                (ssize_t)bytes.len);
        }
        moved = n > 0 || bytes.len != 0;
    }
}

static ssize_t
give_body(nghttp2_session *s, int32_t id, uint8_t *to, size_t size,
          uint32_t *flags, nghttp2_data_source *source, void *owner)
{
    struct rig *rig = owner;
    size_t n = rig->body.len < size ? rig->body.len : size;

    (void)s, (void)id, (void)source;
    if (n == 0 && !rig->body_ends) {
        return NGHTTP2_ERR_DEFERRED;
    }
    memcpy(to, rig->body.ptr, n);
    rig->body.ptr += n;
    rig->body.len -= n;
    *flags |= rig->body.len == 0 && rig->body_ends ? NGHTTP2_DATA_FLAG_EOF : 0U;
    return (ssize_t)n;
}

/* The library does not write to it. */
static nghttp2_nv
field(const char *name, const char *value)
{
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name,
        .value = (uint8_t *)(uintptr_t)value,
        .namelen = strlen(name),
        .valuelen = strlen(value),
    };
}

static int32_t
ask(struct rig *rig, const char *path, struct slice body, bool ends)
{
    nghttp2_data_provider data = {.read_callback = give_body};
    nghttp2_nv fields[] = {
        field(":method", "POST"),
        field(":scheme", "http"),
        field(":path", path),
        field(":authority", "a"),
    };

    rig->body = body;
    rig->body_ends = ends;
    return nghttp2_submit_request(rig->client, NULL, fields, 4, &data, NULL);
}

static void
answer(struct h2_call *call, struct slice bytes)
{
    buf_add_slice(h2_begin(call), bytes);
    h2_end(call);
}

Test(node_h2, a_call_has_its_bytes_its_answer_and_its_end)
{
    struct rig rig;

    for (size_t step = 1; step < 100; step += 7) {
        rig_init(&rig, &takes);
        cr_assert(h2_is_new(rig.h2));
        cr_assert_eq(ask(&rig, "/a.B/C", SLICE("question"), true), 1);
        settle(&rig, step);
        struct seen *seen = &rig.seen[0];
        cr_assert_not(h2_is_new(rig.h2));
        cr_assert(slice_equal(buf_slice(&seen->came), SLICE("question")));
        cr_assert(seen->ended && h2_calls(rig.h2) == 1);
        answer(seen->call, SLICE("an"));
        settle(&rig, step);
        cr_assert(slice_equal(buf_slice(&seen->heard), SLICE("an")));
        answer(seen->call, SLICE("swer"));
        h2_finish(seen->call, GRPC_OK);
        cr_assert_eq(h2_unsent(seen->call), 4);
        settle(&rig, step);
        cr_assert(slice_equal(buf_slice(&seen->heard), SLICE("answer")));
        cr_assert_str_eq(seen->status, "0");
        cr_assert(seen->closed && seen->gone == 1 && h2_calls(rig.h2) == 0);
        rig_fini(&rig);
    }
}

Test(node_h2, an_unknown_call_is_refused_and_nobody_hears_of_it)
{
    struct rig rig;

    rig_init(&rig, &takes);
    (void)ask(&rig, "/a.B/D", SLICE("question"), true);
    settle(&rig, 4096);
    cr_assert_str_eq(rig.seen[0].status, "12");
    cr_assert(rig.begun == 0 && rig.seen[0].closed && h2_calls(rig.h2) == 0);
    rig_fini(&rig);
}

Test(node_h2, who_has_the_whole_answer_need_not_go_on)
{
    struct rig rig;

    rig_init(&rig, &takes);
    (void)ask(&rig, "/a.B/C", SLICE("begin"), false);
    settle(&rig, 4096);
    h2_finish(rig.seen[0].call, GRPC_UNAVAILABLE);
    settle(&rig, 4096);
    cr_assert_str_eq(rig.seen[0].status, "14");
    cr_assert(rig.seen[0].closed && rig.seen[0].gone == 1);
    cr_assert_eq(rig.seen[0].code, NGHTTP2_NO_ERROR);
    rig_fini(&rig);
}

Test(node_h2, what_is_not_taken_stops_its_call_and_no_other)
{
    static char bytes[3 * H2_WINDOW_BYTES];
    struct rig rig;

    rig_init(&rig, &keeps);
    memset(bytes, 'x', sizeof bytes);
    settle(&rig, 4096); /* the client knows the window */
    (void)ask(&rig, "/a.B/C", (struct slice){bytes, sizeof bytes}, true);
    settle(&rig, sizeof bytes);
    cr_assert_eq(rig.seen[0].came.len, H2_WINDOW_BYTES);
    struct slice left = rig.body;
    for (unsigned i = 1; i < CALLS; i++) { /* the connection's window holds */
        (void)ask(&rig, "/a.B/C", (struct slice){bytes, H2_WINDOW_BYTES}, true);
        settle(&rig, sizeof bytes);
        cr_assert(rig.seen[i].ended);
    }
    rig.body = left;
    h2_taken(rig.seen[0].call, rig.seen[0].came.len);
    settle(&rig, sizeof bytes);
    cr_assert_eq(rig.seen[0].came.len, 2 * H2_WINDOW_BYTES);
    rig_fini(&rig);
    cr_assert_eq(rig.seen[0].gone, 1);
}

Test(node_h2, what_the_peer_does_not_take_waits)
{
    static char bytes[200000]; /* beyond the window of a client by default */
    struct rig rig;

    rig_init(&rig, &takes);
    (void)ask(&rig, "/a.B/C", SLICE(""), true);
    settle(&rig, 4096);
    nghttp2_session_set_local_window_size(rig.client, 0, 1, 65535);
    answer(rig.seen[0].call, (struct slice){bytes, sizeof bytes});
    h2_finish(rig.seen[0].call, GRPC_OK);
    settle(&rig, 4096);
    cr_assert_eq(rig.seen[0].heard.len, sizeof bytes);
    cr_assert_eq(rig.seen[0].gone, 1);
    rig_fini(&rig);
}

Test(node_h2, a_peer_that_resets_is_gone)
{
    struct rig rig;

    rig_init(&rig, &takes);
    int32_t id = ask(&rig, "/a.B/C", SLICE("begin"), false);
    settle(&rig, 4096);
    answer(rig.seen[0].call, SLICE("x"));
    (void)nghttp2_submit_rst_stream(rig.client, 0, id, NGHTTP2_CANCEL);
    settle(&rig, 4096);
    cr_assert(rig.seen[0].gone == 1 && !rig.seen[0].ended);
    cr_assert_eq(h2_calls(rig.h2), 0);
    rig_fini(&rig);
}

Test(node_h2, leaving_ends_what_was_begun_and_begins_nothing)
{
    struct rig rig;

    rig_init(&rig, &takes);
    (void)ask(&rig, "/a.B/C", SLICE("one"), true);
    settle(&rig, 4096);
    h2_leave(rig.h2, false);
    settle(&rig, 4096);
    cr_assert_eq(rig.goaway, INT32_MAX); /* go elsewhere when you can */
    cr_assert_not(h2_is_over(rig.h2));
    h2_leave(rig.h2, true);
    h2_leave(rig.h2, true);
    settle(&rig, 4096);
    cr_assert_eq(rig.goaway, 1);
    cr_assert_not(h2_is_over(rig.h2));
    h2_finish(rig.seen[0].call, GRPC_OK);
    settle(&rig, 4096);
    cr_assert_str_eq(rig.seen[0].status, "0");
    cr_assert(h2_is_over(rig.h2));
    rig_fini(&rig);
}

Test(node_h2, what_is_no_http2_ends_the_connection)
{
    struct rig rig;

    rig_init(&rig, &takes);
    cr_assert_lt(h2_give(rig.h2, SLICE("GET / HTTP/1.1\r\nHost: a\r\n\r\n")),
                 0);
    rig_fini(&rig);
}

Test(node_h2, calls_end_with_their_connection)
{
    struct rig rig;

    rig_init(&rig, &takes);
    (void)ask(&rig, "/a.B/C", SLICE("one"), true);
    settle(&rig, 4096);
    rig_fini(&rig);
    cr_assert_eq(rig.seen[0].gone, 1);
}
