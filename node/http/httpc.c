/* The client: starts a call, writes its request, ends it. */
#include "node/http/httpc.h"

#include <errno.h>
#include <stdlib.h>

#include "node/http/httpc_call_internal.h"

#define HOST_BYTES_MAX 255

const char *
httpc_outcome_name(enum httpc_outcome outcome)
{
    switch (outcome) {
    case HTTPC_OK:
        return "ok";
    case HTTPC_RESOLVE:
        return "resolve";
    case HTTPC_CONNECT:
        return "connect";
    case HTTPC_TLS:
        return "tls";
    case HTTPC_TIMEOUT:
        return "timeout";
    case HTTPC_CLOSED:
        return "closed";
    case HTTPC_BAD:
        return "bad";
    case HTTPC_TOO_LARGE:
        return "too_large";
    }
    return "unknown";
}

/* Nothing that could end a line or a word of the request. */
static bool
is_word(const char *text)
{
    struct slice word = slice_of(text);

    for (size_t i = 0; i < word.len; i++) {
        unsigned char c = (unsigned char)word.ptr[i];
        if (c <= ' ' || c == 0x7f) {
            return false;
        }
    }
    return word.len != 0;
}

static bool
is_sound(const struct httpc_request *request)
{
    struct slice headers = request->headers;

    return is_word(request->host) && strlen(request->host) <= HOST_BYTES_MAX &&
           is_word(request->method) && is_word(request->target) &&
           (headers.len == 0 ||
            (headers.len >= 2 && headers.ptr[headers.len - 1] == '\n' &&
             headers.ptr[headers.len - 2] == '\r'));
}

static void
write_request(struct buf *out, const struct httpc_request *request)
{
    bool v6 = strchr(request->host, ':') != NULL;
    bool carries = strcmp(request->method, "GET") != 0 &&
                   strcmp(request->method, "HEAD") != 0;

    buf_printf(out, "%s %s HTTP/1.1\r\nHost: %s%s%s", request->method,
               request->target, v6 ? "[" : "", request->host, v6 ? "]" : "");
    if (request->port != (request->tls != NULL ? 443 : 80)) {
        buf_printf(out, ":%u", (unsigned)request->port);
    }
    buf_add_text(out,
                 request->waits != NULL ? "\r\n" : "\r\nConnection: close\r\n");
    if (carries) {
        buf_printf(out, "Content-Length: %zu\r\n", request->body.len);
    }
    buf_add_slice(out, request->headers);
    buf_add_text(out, "\r\n");
    if (carries) {
        buf_add_slice(out, request->body);
    }
}

static void
free_call(struct httpc *call)
{
    buf_fini(&call->out);
    buf_fini(&call->in);
    buf_fini(&call->body);
    sock_tls_context_free(call->tls);
    free(call->host);
    free(call->conn);
    free(call);
}

/* What TLS needs after httpc_start(). False: no memory. */
static bool
keep_tls(struct httpc *call, const struct httpc_request *request)
{
    if (request->tls != NULL) {
        call->tls = sock_tls_context_share(request->tls);
        call->host = strdup(request->host);
    }
    return request->tls == NULL || (call->tls != NULL && call->host != NULL);
}

static struct httpc *
new_call(uv_loop_t *loop, const struct httpc_request *request)
{
    struct httpc *call = malloc(sizeof(*call));

    if (call == NULL) {
        return NULL;
    }
    *call = (struct httpc){.loop = loop, .why = ""};
    call->port = request->port;
    call->answer_bytes_max = request->answer_bytes_max;
    call->context = request->context;
    call->done = request->done;
    call->piece = request->piece;
    call->method =
        strcmp(request->method, "HEAD") == 0 ? HTTP_HEAD : HTTP_OTHER;
    call->end_ms = UINT64_MAX;
    call->waits = request->waits;
    if (request->deny != NULL && request->address == NULL) {
        call->deny = *request->deny;
    }
    call->conn = httpc_conn_new(call);
    buf_init(&call->out, SIZE_MAX / 2); /* what the caller hands in */
    buf_init(&call->in, HTTPC_HEAD_BYTES_MAX + HTTPC_READ_BYTES);
    buf_init(&call->body, request->answer_bytes_max);
    write_request(&call->out, request);
    if (!keep_tls(call, request) || call->out.failed || call->conn == NULL) {
        free_call(call);
        return NULL;
    }
    return call;
}

int
httpc_start(struct httpc **out, uv_loop_t *loop,
            const struct httpc_request *request)
{
    CHECK(request->done != NULL);
    CHECK(request->waits == NULL || request->address != NULL);
    *out = NULL;
    if (!is_sound(request)) {
        return -EINVAL;
    }
    struct httpc *call = new_call(loop, request);
    if (call == NULL) {
        return -ENOMEM;
    }
    uv_update_time(loop);
    call->connect_ms = request->connect_ms;
    if (request->timeout_ms != 0) {
        call->end_ms = uv_now(loop) + request->timeout_ms;
    }
    (void)uv_timer_init(loop, &call->timer); /* cannot fail */
    call->timer.data = call;
    call->holds = 1;
    if (request->address != NULL) {
        httpc_connect_to(call, request->address);
        *out = call;
        return 0;
    }
    int error = httpc_connect_start(call, request->host);
    if (error != 0) {
        httpc_cancel(call);
        return error;
    }
    *out = call;
    return 0;
}

void
httpc_drop(struct httpc *call)
{
    CHECK(call->holds != 0);
    call->holds--;
    if (call->holds == 0) {
        CHECK(call->over);
        free_call(call);
    }
}

static void
on_timer_closed(uv_handle_t *handle)
{
    httpc_drop(handle->data);
}

void
httpc_cancel(struct httpc *call)
{
    if (call->over) {
        return; /* from within `done` */
    }
    call->over = true;
    httpc_connect_stop(call);
    uv_close((uv_handle_t *)&call->timer, on_timer_closed);
}

void
httpc_finish(struct httpc *call, enum httpc_outcome outcome)
{
    struct httpc_answer answer = {
        .outcome = outcome, .error = call->error, .why = call->why};

    CHECK(!call->over);
    if (call->has_head) {
        answer.head = &call->head;
        answer.body = buf_slice(&call->body);
    }
    call->over = true;
    if (outcome == HTTPC_OK) {
        httpc_conn_leave(call);
    }
    httpc_connect_stop(call);
    uv_close((uv_handle_t *)&call->timer, on_timer_closed);
    call->done(call->context, &answer);
}
