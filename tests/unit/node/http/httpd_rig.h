/*
 * A loop with a server on it, whose handler does what the path says:
 *
 *   /echo    answers with the body
 *   /later   leaves the request in rig->held
 *   /stream  three pieces at once
 *   /flood   FLOOD_BYTES in pieces, as fast as httpd_send() takes them
 */
#ifndef TESTS_UNIT_NODE_HTTPD_RIG_H
#define TESTS_UNIT_NODE_HTTPD_RIG_H

#include <signal.h>

#include "node/http/httpd.h"
#include "node/http/httpd_conn_internal.h"
#include "tests/unit/node/http/raw_socket.h"

#define FLOOD_PIECE 8192
#define FLOOD_BYTES ((size_t)32 * 1024 * 1024)

/* Requests, whole. */
#define ECHO_LENGTH                      \
    "POST /echo HTTP/1.1\r\nHost: h\r\n" \
    "Content-Length: 5\r\n\r\nhello"
#define ECHO_CHUNKED                                                       \
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" \
    "3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nT: x\r\n\r\n"
#define GET_LATER  "GET /later HTTP/1.1\r\nHost: h\r\n\r\n"
#define GET_STREAM "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n"
#define GET_FLOOD  "GET /flood HTTP/1.1\r\nHost: h\r\n\r\n"

struct rig {
    uv_loop_t loop;
    struct httpd *httpd;
    uint16_t port;
    struct httpd_request *held;
    struct httpd_request *last; /* that was handed over */
    unsigned requests;
    unsigned gone;
    unsigned drained;
    unsigned depth; /* of callbacks; never above one */
    size_t flooded;
    uint64_t digest; /* of the flood so far */
    size_t unsent_most;
    bool free_in_handler;
    bool wants_no_body;
};

static const struct httpd_limits rig_limits = {
    .connections_max = 64,
    .head_bytes_max = 4096,
    .body_bytes_max = 65536,
    .unsent_bytes_max = 262144,
    .idle_timeout_ms = 60000,
    .write_timeout_ms = 60000,
};

static inline void
rig_flood(struct rig *rig, struct httpd_request *request)
{
    static char piece[FLOOD_PIECE];

    while (rig->flooded < FLOOD_BYTES) {
        memset(piece, 'a' + (int)(rig->flooded / FLOOD_PIECE % 26),
               sizeof(piece));
        struct slice s = {.ptr = piece, .len = sizeof(piece)};
        int error = httpd_send(request, s);
        size_t unsent = httpd_out_unsent(request->conn);
        if (unsent > rig->unsent_most) {
            rig->unsent_most = unsent;
        }
        if (error != 0) {
            cr_assert_eq(error, -ENOBUFS);
            return;
        }
        rig->flooded += sizeof(piece);
        for (size_t i = 0; i < sizeof(piece); i++) {
            rig->digest = raw_socket_digest(rig->digest, piece[i]);
        }
    }
    httpd_end(request);
}

static inline void
rig_route(struct rig *rig, struct httpd_request *request)
{
    struct slice path = httpd_head(request)->path;

    if (rig->free_in_handler) {
        httpd_free(rig->httpd);
        rig->httpd = NULL;
    } else if (slice_equal(path, SLICE("/echo"))) {
        httpd_answer(request, 200, "text/plain", SLICE("X-Extra: yes\r\n"),
                     httpd_body(request));
    } else if (slice_equal(path, SLICE("/later"))) {
        rig->held = request;
    } else if (slice_equal(path, SLICE("/stream"))) {
        httpd_begin(request, 200, "text/event-stream", SLICE(""));
        cr_assert_eq(httpd_send(request, SLICE("one ")), 0);
        cr_assert_eq(httpd_send(request, SLICE("")), 0);
        cr_assert_eq(httpd_send(request, SLICE("two ")), 0);
        cr_assert_eq(httpd_send(request, SLICE("three")), 0);
        httpd_end(request);
    } else if (slice_equal(path, SLICE("/flood"))) {
        httpd_begin(request, 200, NULL, SLICE(""));
        rig_flood(rig, request);
    } else {
        httpd_error(request, 404, "no_such_path", "nothing \"here\"\n");
    }
}

static inline void
rig_on_request(void *context, struct httpd_request *request)
{
    struct rig *rig = context;

    rig->requests++;
    rig->last = request;
    rig->depth++;
    cr_assert_eq(rig->depth, 1, "a callback from within a callback");
    rig_route(rig, request);
    rig->depth--;
}

static inline void
rig_on_gone(void *context, struct httpd_request *request)
{
    struct rig *rig = context;

    rig->gone++;
    if (rig->held == request) {
        rig->held = NULL;
    }
}

static inline void
rig_on_drained(void *context, struct httpd_request *request)
{
    struct rig *rig = context;

    rig->drained++;
    rig->depth++;
    cr_assert_eq(rig->depth, 1, "a callback from within a callback");
    cr_assert_eq(httpd_out_unsent(request->conn), 0);
    if (slice_equal(httpd_head(request)->path, SLICE("/flood"))) {
        rig_flood(rig, request);
    }
    rig->depth--;
}

static inline bool
rig_wants_body(void *context, const struct http_head *head)
{
    const struct rig *rig = context;

    cr_assert_neq(head->body, HTTP_BODY_NONE);
    return !rig->wants_no_body;
}

static inline void
rig_init(struct rig *rig, const struct httpd_limits *limits)
{
    struct sockaddr_in address = raw_socket_loopback(0);
    struct httpd_handler handler = {.context = rig,
                                    .request = rig_on_request,
                                    .gone = rig_on_gone,
                                    .drained = rig_on_drained,
                                    .wants_body = rig_wants_body};

    (void)signal(SIGPIPE, SIG_IGN);
    memset(rig, 0, sizeof(*rig));
    cr_assert_eq(uv_loop_init(&rig->loop), 0);
    cr_assert_eq(httpd_new(&rig->httpd, &rig->loop,
                           (const struct sockaddr *)&address, limits, &handler),
                 0);
    rig->port = httpd_port(rig->httpd);
    cr_assert_neq(rig->port, 0);
}

/* Frees the server; the loop must then have nothing left. */
static inline void
rig_fini(struct rig *rig)
{
    httpd_free(rig->httpd);
    cr_assert_eq(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&rig->loop), 0);
}

static inline void
rig_expect(struct raw_socket *wire, unsigned status, const char *body)
{
    struct raw_socket_reply reply;

    raw_socket_reply(wire, &reply);
    cr_assert_eq(reply.status, status, "%u: %s", reply.status, reply.body);
    cr_assert_str_eq(reply.body, body);
}

/* What the timer would do, without the wait. */
static inline void
rig_let_expire(struct httpd_conn *conn)
{
    cr_assert_not_null(conn->deadline.list);
    deadline_clear(&conn->deadline);
    httpd_conn_expired(conn);
}

/* As if the timer had fired for something that is gone by now. */
static inline void
rig_fire_timer(struct rig *rig)
{
    uv_timer_t *timer = &rig->httpd->timer;

    cr_assert(uv_is_active((uv_handle_t *)timer));
    (void)uv_timer_stop(timer);
    timer->timer_cb(timer);
}

#endif
