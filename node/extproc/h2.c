/* Calls of gRPC on a session of libnghttp2. */
#include "node/extproc/h2.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdint.h>
#include <stdlib.h>

#define CONNECTION_WINDOW (1U << 20)
#define PATH_BYTES_MAX    128U
#define OUT_MAX_BYTES     ((size_t)2 << 30) /* its owner stops long before */
#define NAME_VALUE(n, v, len)                                                  \
    {                                                                          \
        .name = (uint8_t *)(uintptr_t)(n), .value = (uint8_t *)(uintptr_t)(v), \
        .namelen = sizeof(n) - 1, .valuelen = (len),                           \
        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME                                  \
    }

struct h2_call {
    struct h2 *h2;
    struct h2_call *next;
    struct h2_call **prev;
    int32_t id;
    bool told;     /* its owner knows of it, and has `context` */
    bool begun;    /* the head of its answer is on its way */
    bool finished; /* nothing is appended any more */
    bool ended;    /* the peer sends no more */
    bool idle;     /* the library waits for nghttp2_session_resume_data() */
    enum grpc_status status;
    void *context;
    char path[PATH_BYTES_MAX];
    size_t path_len;
    struct buf out;
    size_t out_at; /* of it: gone out */
};

struct h2 {
    nghttp2_session *session;
    const struct h2_events *events;
    void *owner;
    struct h2_call *calls;
    unsigned calls_count;
    bool seen; /* the peer's settings came */
    bool leaves;
    bool left;
};

/* Sending */

static void
text_of(enum grpc_status status, char text[3])
{
    unsigned number = (unsigned)status;

    CHECK(number < 100);
    text[0] = (char)(number < 10 ? '0' + number : '0' + number / 10);
    text[1] = (char)(number < 10 ? '\0' : '0' + number % 10);
    text[2] = '\0';
}

static void
submit_trailer(struct h2_call *call)
{
    char text[3];

    text_of(call->status, text);
    nghttp2_nv fields[] = {NAME_VALUE("grpc-status", text, strlen(text))};
    (void)nghttp2_submit_trailer(call->h2->session, call->id, fields, 1);
}

static ssize_t
read_out(nghttp2_session *session, int32_t id, uint8_t *to, size_t size,
         uint32_t *flags, nghttp2_data_source *source, void *unused)
{
    struct h2_call *call = source->ptr;
    size_t left = call->out.len - call->out_at;
    size_t n = left < size ? left : size;

    (void)session, (void)id, (void)unused;
    if (n == 0 && !call->finished) {
        call->idle = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n != 0) {
        memcpy(to, call->out.ptr + call->out_at, n);
        call->out_at += n;
    }
    if (call->out_at == call->out.len) {
        buf_clear(&call->out);
        call->out_at = 0;
        if (call->finished) {
            *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
            submit_trailer(call);
        }
    }
    return (ssize_t)n;
}

/* There is more to send, or the end. */
static void
go_on(struct h2_call *call)
{
    nghttp2_session *session = call->h2->session;

    if (!call->begun) {
        nghttp2_nv fields[] = {
            NAME_VALUE(":status", "200", 3),
            NAME_VALUE("content-type", "application/grpc", 16),
        };
        nghttp2_data_provider data = {.source.ptr = call,
                                      .read_callback = read_out};
        call->begun = true;
        (void)nghttp2_submit_response(session, call->id, fields, 2, &data);
    } else if (call->idle) {
        call->idle = false;
        (void)nghttp2_session_resume_data(session, call->id);
    }
}

static void
reset(struct h2_call *call, uint32_t code)
{
    (void)nghttp2_submit_rst_stream(call->h2->session, NGHTTP2_FLAG_NONE,
                                    call->id, code);
}

struct buf *
h2_begin(struct h2_call *call)
{
    CHECK(!call->finished);
    if (call->out_at != 0) {
        buf_drop(&call->out, call->out_at);
        call->out_at = 0;
    }
    return &call->out;
}

void
h2_end(struct h2_call *call)
{
    if (call->out.failed) {
        reset(call, NGHTTP2_INTERNAL_ERROR);
    } else {
        go_on(call);
    }
}

size_t
h2_unsent(const struct h2_call *call)
{
    return call->out.len - call->out_at;
}

void
h2_finish(struct h2_call *call, enum grpc_status status)
{
    if (!call->finished) {
        call->finished = true;
        call->status = status;
        go_on(call);
    }
}

void
h2_taken(struct h2_call *call, size_t bytes)
{
    (void)nghttp2_session_consume_stream(call->h2->session, call->id, bytes);
}

/* Calls */

static void
drop_call(struct h2_call *call)
{
    struct h2 *h2 = call->h2;

    *call->prev = call->next;
    if (call->next != NULL) {
        call->next->prev = call->prev;
    }
    CHECK(h2->calls_count != 0);
    h2->calls_count--;
    if (call->told) {
        h2->events->gone(call->context);
    }
    buf_fini(&call->out);
    free(call);
}

/* A head begins. */
static int
on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *owner)
{
    struct h2 *h2 = owner;
    struct h2_call *call;

    if (frame->hd.type != NGHTTP2_HEADERS ||
        frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0;
    }
    call = calloc(1, sizeof *call);
    if (call == NULL) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    call->h2 = h2;
    call->id = frame->hd.stream_id;
    buf_init(&call->out, OUT_MAX_BYTES);
    call->next = h2->calls;
    call->prev = &h2->calls;
    if (call->next != NULL) {
        call->next->prev = &call->next;
    }
    h2->calls = call;
    h2->calls_count++;
    (void)nghttp2_session_set_stream_user_data(session, call->id, call);
    return 0;
}

/* Of all of a head only the path counts. */
static int
on_header(nghttp2_session *session, const nghttp2_frame *frame,
          const uint8_t *name, size_t name_len, const uint8_t *value,
          size_t value_len, uint8_t flags, void *owner)
{
    struct h2_call *call =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags, (void)owner;
    if (call != NULL && !call->told && name_len == 5 &&
        memcmp(name, ":path", 5) == 0 && value_len <= PATH_BYTES_MAX) {
        memcpy(call->path, value, value_len);
        call->path_len = value_len;
    }
    return 0;
}

/* A call that nobody here answers has its end for an answer. */
static void
refuse(struct h2_call *call, enum grpc_status status)
{
    char text[3];

    text_of(status, text);
    nghttp2_nv fields[] = {
        NAME_VALUE(":status", "200", 3),
        NAME_VALUE("content-type", "application/grpc", 16),
        NAME_VALUE("grpc-status", text, strlen(text)),
    };
    call->begun = true;
    call->finished = true;
    (void)nghttp2_submit_response(call->h2->session, call->id, fields, 3, NULL);
}

static void
begin(struct h2_call *call)
{
    struct slice path = {call->path, call->path_len};
    struct h2 *h2 = call->h2;
    enum grpc_status status =
        h2->events->begun(h2->owner, call, path, &call->context);

    call->told = status == GRPC_OK;
    if (!call->told) {
        refuse(call, status);
    }
}

static int
on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *owner)
{
    struct h2 *h2 = owner;
    struct h2_call *call =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    bool head = frame->hd.type == NGHTTP2_HEADERS;

    if (frame->hd.type == NGHTTP2_SETTINGS) {
        h2->seen = true;
    }
    if (call == NULL || (!head && frame->hd.type != NGHTTP2_DATA)) {
        return 0;
    }
    if (head && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        begin(call);
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        call->ended = true;
        if (call->told) {
            h2->events->ended(call->context);
        }
    }
    return 0;
}

/* Whoever has its answer whole need not go on sending. */
static int
on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *owner)
{
    struct h2_call *call =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)owner;
    if (call != NULL && frame->hd.type == NGHTTP2_HEADERS &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 && !call->ended) {
        reset(call, NGHTTP2_NO_ERROR);
    }
    return 0;
}

/* The connection's window is open again at once: one call that waits must not
 * stop the others. */
static int
on_data(nghttp2_session *session, uint8_t flags, int32_t id,
        const uint8_t *bytes, size_t len, void *owner)
{
    struct h2 *h2 = owner;
    struct h2_call *call = nghttp2_session_get_stream_user_data(session, id);

    (void)flags;
    (void)nghttp2_session_consume_connection(session, len);
    if (call != NULL && call->told && !call->finished) {
        h2->events->came(call->context,
                         (struct slice){(const char *)bytes, len});
    } else {
        (void)nghttp2_session_consume_stream(session, id, len);
    }
    return 0;
}

static int
on_close(nghttp2_session *session, int32_t id, uint32_t code, void *owner)
{
    struct h2_call *call = nghttp2_session_get_stream_user_data(session, id);

    (void)code, (void)owner;
    if (call != NULL) {
        drop_call(call);
    }
    return 0;
}

/* The session */

static int
make_session(struct h2 *h2)
{
    nghttp2_session_callbacks *calls = NULL;
    nghttp2_option *options = NULL;
    int error = nghttp2_session_callbacks_new(&calls);

    if (error == 0) {
        error = nghttp2_option_new(&options);
    }
    if (error == 0) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(calls,
                                                                on_begin);
        nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls,
                                                                  on_data);
        nghttp2_session_callbacks_set_on_frame_send_callback(calls, on_sent);
        nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
        nghttp2_option_set_no_auto_window_update(options, 1);
        error = nghttp2_session_server_new2(&h2->session, calls, h2, options);
    }
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(calls);
    return error;
}

static int
say_settings(nghttp2_session *session)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_CALLS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 16U << 10},
    };
    int error =
        nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, 3);

    return error != 0 ? error
                      : nghttp2_session_set_local_window_size(
                            session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
}

int
h2_new(struct h2 **out, const struct h2_events *events, void *owner)
{
    struct h2 *h2 = calloc(1, sizeof *h2);

    *out = NULL;
    if (h2 == NULL) {
        return -ENOMEM;
    }
    h2->events = events;
    h2->owner = owner;
    if (make_session(h2) != 0 || say_settings(h2->session) != 0) {
        h2_free(h2);
        return -ENOMEM;
    }
    *out = h2;
    return 0;
}

void
h2_free(struct h2 *h2)
{
    if (h2 == NULL) {
        return;
    }
    while (h2->calls != NULL) {
        drop_call(h2->calls);
    }
    nghttp2_session_del(h2->session);
    free(h2);
}

static int
error_of(ssize_t error)
{
    return error == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
}

int
h2_give(struct h2 *h2, struct slice bytes)
{
    ssize_t n = nghttp2_session_mem_recv(h2->session,
                                         (const uint8_t *)bytes.ptr, bytes.len);

    return n < 0 ? error_of(n) : 0;
}

int
h2_next_out(struct h2 *h2, struct slice *bytes)
{
    const uint8_t *ptr = NULL;
    ssize_t n = nghttp2_session_mem_send(h2->session, &ptr);

    *bytes = (struct slice){(const char *)ptr, n > 0 ? (size_t)n : 0};
    return n < 0 ? error_of(n) : 0;
}

bool
h2_is_new(const struct h2 *h2)
{
    return !h2->seen;
}

unsigned
h2_calls(const struct h2 *h2)
{
    return h2->calls_count;
}

void
h2_leave(struct h2 *h2, bool final)
{
    if (!h2->leaves) {
        h2->leaves = true;
        (void)nghttp2_submit_shutdown_notice(h2->session);
    }
    if (final && !h2->left) {
        h2->left = true;
        (void)nghttp2_submit_goaway(
            h2->session, NGHTTP2_FLAG_NONE,
            nghttp2_session_get_last_proc_stream_id(h2->session),
            NGHTTP2_NO_ERROR, NULL, 0);
    }
}

bool
h2_is_over(const struct h2 *h2)
{
    return (h2->left && h2->calls_count == 0 &&
            nghttp2_session_want_write(h2->session) == 0) ||
           (nghttp2_session_want_read(h2->session) == 0 &&
            nghttp2_session_want_write(h2->session) == 0);
}
