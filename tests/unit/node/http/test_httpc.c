#include <signal.h>

#include "node/http/httpc.h"
#include "node/http/httpc_call_internal.h"
#include "tests/unit/node/http/raw_socket.h"

TestSuite(node_httpc, .timeout = 60);

/* A listening socket that the test plays the server on, and one call. */
struct rig {
    uv_loop_t loop;
    int listener;
    int accepted;
    uint16_t port;
    struct httpc *call;
    unsigned done;
    unsigned pieces;
    unsigned cancel_at; /* the piece in which to cancel; 0: never */
    bool started;       /* httpc_start() has returned */
    enum httpc_outcome outcome;
    unsigned status;
    int error;
    struct buf body; /* whole, or the pieces put together */
};

static void
on_done(void *context, const struct httpc_answer *answer)
{
    struct rig *rig = context;

    cr_assert(rig->started);
    rig->done++;
    rig->outcome = answer->outcome;
    rig->status = answer->head != NULL ? answer->head->status : 0;
    rig->error = answer->error;
    buf_add_slice(&rig->body, answer->body);
    httpc_cancel(rig->call); /* allowed, and nothing happens */
    rig->call = NULL;
}

static void
on_piece(void *context, struct slice piece)
{
    struct rig *rig = context;

    rig->pieces++;
    buf_add_slice(&rig->body, piece);
    if (rig->pieces == rig->cancel_at) {
        httpc_cancel(rig->call);
        rig->call = NULL;
    }
}

static void
rig_init(struct rig *rig)
{
    struct sockaddr_in address = raw_socket_loopback(0);
    socklen_t len = sizeof(address);

    (void)signal(SIGPIPE, SIG_IGN);
    memset(rig, 0, sizeof(*rig));
    buf_init(&rig->body, 1 << 20);
    cr_assert_eq(uv_loop_init(&rig->loop), 0);
    rig->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(rig->listener, (struct sockaddr *)&address, len), 0);
    cr_assert_eq(listen(rig->listener, 16), 0);
    cr_assert_eq(getsockname(rig->listener, (struct sockaddr *)&address, &len),
                 0);
    rig->port = ntohs(address.sin_port);
}

static void
rig_fini(struct rig *rig)
{
    (void)close(rig->listener);
    cr_assert_eq(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&rig->loop), 0);
    buf_fini(&rig->body);
}

static struct httpc_request
request_for(struct rig *rig)
{
    return (struct httpc_request){.host = "127.0.0.1",
                                  .port = rig->port,
                                  .method = "GET",
                                  .target = "/x",
                                  .timeout_ms = 30000,
                                  .answer_bytes_max = 65536,
                                  .context = rig,
                                  .done = on_done};
}

static void
start(struct rig *rig, const struct httpc_request *request)
{
    rig->started = false;
    cr_assert_eq(httpc_start(&rig->call, &rig->loop, request), 0);
    rig->started = true;
}

static void
on_listener(uv_poll_t *poll, int status, int events)
{
    struct rig *rig = poll->data;

    (void)events;
    cr_assert_eq(status, 0);
    rig->accepted = accept(rig->listener, NULL, NULL);
    (void)uv_poll_stop(poll);
}

/* Waits for the call's connection and takes it. */
static void
accept_call(struct rig *rig, struct raw_socket *wire)
{
    uv_poll_t poll;

    rig->accepted = -1;
    cr_assert_eq(uv_poll_init(&rig->loop, &poll, rig->listener), 0);
    poll.data = rig;
    cr_assert_eq(uv_poll_start(&poll, UV_READABLE, on_listener), 0);
    WAIT(&rig->loop, rig->accepted >= 0 || rig->done != 0);
    cr_assert_geq(rig->accepted, 0);
    raw_socket_adopt(wire, &rig->loop, rig->accepted);
    uv_close((uv_handle_t *)&poll, NULL);
    (void)uv_run(&rig->loop, UV_RUN_NOWAIT);
}

/* Plays one answer, split after `at` bytes, then closes. */
static void
play(struct rig *rig, const struct httpc_request *request, const char *answer,
     size_t at)
{
    struct raw_socket wire;

    buf_clear(&rig->body);
    rig->done = rig->pieces = 0;
    start(rig, request);
    accept_call(rig, &wire);
    raw_socket_put(&wire, answer, at);
    (void)uv_run(&rig->loop, UV_RUN_NOWAIT);
    raw_socket_text(&wire, answer + at);
    (void)shutdown(wire.fd, SHUT_WR);
    WAIT(&rig->loop, rig->done == 1);
    raw_socket_close(&wire);
}

static void
expect(struct rig *rig, enum httpc_outcome outcome, unsigned status,
       const char *body)
{
    cr_assert_eq(rig->done, 1);
    cr_assert_eq(rig->outcome, outcome, "%s, not %s",
                 httpc_outcome_name(rig->outcome), httpc_outcome_name(outcome));
    cr_assert_eq(rig->status, status);
    cr_assert(slice_equal(buf_slice(&rig->body), slice_of(body)), "%.*s",
              (int)rig->body.len, rig->body.ptr);
}

static const char *const whole[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
    "HTTP/1.0 200 OK\r\n\r\nhello",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more",
};

Test(node_httpc, any_framing_in_any_split_reads_the_same)
{
    struct rig rig;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
        for (size_t at = 0; at < strlen(whole[i]); at++) {
            request.piece = at % 2 != 0 ? on_piece : NULL;
            play(&rig, &request, whole[i], at);
            expect(&rig, HTTPC_OK, 200, "hello");
            cr_assert_eq(rig.pieces != 0, request.piece != NULL);
        }
    }
    rig_fini(&rig);
}

Test(node_httpc, sends_what_it_should)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    request.method = "POST";
    request.headers = SLICE("Content-Type: text/plain\r\n");
    request.body = SLICE("data");
    start(&rig, &request);
    accept_call(&rig, &wire);
    char text[256];
    int len = snprintf(text, sizeof(text),
                       "POST /x HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                       "Connection: close\r\nContent-Length: 4\r\n"
                       "Content-Type: text/plain\r\n\r\ndata",
                       (unsigned)rig.port);
    WAIT(&rig.loop, wire.got.len >= (size_t)len);
    cr_assert(slice_equal(buf_slice(&wire.got), slice_of(text)));
    raw_socket_text(&wire, "HTTP/1.1 204 No Content\r\n\r\n");
    WAIT(&rig.loop, rig.done == 1);
    expect(&rig, HTTPC_OK, 204, "");
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpc, an_error_answer_is_whole_even_when_pieces_are_wanted)
{
    struct rig rig;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    request.piece = on_piece;
    play(&rig, &request, "HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy", 0);
    expect(&rig, HTTPC_OK, 503, "busy");
    cr_assert_eq(rig.pieces, 0);
    rig_fini(&rig);
}

Test(node_httpc, an_answer_to_head_has_no_body)
{
    struct rig rig;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    request.method = "HEAD";
    play(&rig, &request, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 0);
    expect(&rig, HTTPC_OK, 200, "");
    rig_fini(&rig);
}

/* A request whose connection may wait. */
struct waiting {
    struct rig rig;
    struct raw_socket wire;
    struct sockaddr_in address;
    struct httpc_conn *waits;
    struct httpc_request request;
};

static void
waiting_init(struct waiting *w)
{
    *w = (struct waiting){.waits = NULL};
    rig_init(&w->rig);
    w->address = raw_socket_loopback(w->rig.port);
    w->request = request_for(&w->rig);
    w->request.address = (const struct sockaddr *)&w->address;
    w->request.waits = &w->waits;
}

static void
waiting_fini(struct waiting *w)
{
    httpc_hang_up(&w->waits);
    raw_socket_close(&w->wire);
    rig_fini(&w->rig);
}

/* One call and its answer; over a connection that is accepted, if so. */
static void
ask(struct waiting *w, bool accepts, const char *answer)
{
    buf_clear(&w->rig.body);
    w->rig.done = 0;
    start(&w->rig, &w->request);
    if (accepts) {
        accept_call(&w->rig, &w->wire);
    }
    WAIT(&w->rig.loop, w->wire.got.len != 0);
    buf_clear(&w->wire.got);
    raw_socket_text(&w->wire, answer);
    WAIT(&w->rig.loop, w->rig.done == 1);
}

#define HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

Test(node_httpc, calls_follow_each_other_on_a_connection_that_waits)
{
    static const char *const answers[] = {
        HELLO,
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HELLO,
    };
    struct waiting w;

    waiting_init(&w);
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        ask(&w, i == 0, answers[i]);
        cr_assert_eq(w.rig.outcome, HTTPC_OK);
        cr_assert_not_null(w.waits);
    }
    waiting_fini(&w);
}

Test(node_httpc, a_connection_that_cannot_be_used_again_does_not_wait)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: "
        "5\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n0\r\n\r\nmore",
    };
    struct waiting w;

    waiting_init(&w);
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        ask(&w, true, answers[i]);
        expect(&w.rig, HTTPC_OK, 200, "hello");
        cr_assert_null(w.waits);
        if (i + 1 < sizeof(answers) / sizeof(*answers)) {
            raw_socket_close(&w.wire);
        }
    }
    waiting_fini(&w);
}

Test(node_httpc, a_connection_closed_while_it_waits_is_replaced)
{
    struct waiting w;

    waiting_init(&w);
    ask(&w, true, HELLO);
    raw_socket_close(&w.wire);
    WAIT(&w.rig.loop, w.waits == NULL);
    ask(&w, true, HELLO);
    expect(&w.rig, HTTPC_OK, 200, "hello");
    cr_assert_not_null(w.waits);
    waiting_fini(&w);
}

Test(node_httpc, a_connection_closed_under_a_new_call_is_replaced)
{
    struct waiting w;

    waiting_init(&w);
    ask(&w, true, HELLO);
    w.rig.done = 0;
    buf_clear(&w.rig.body);
    start(&w.rig, &w.request);
    raw_socket_close(&w.wire);
    accept_call(&w.rig, &w.wire);
    WAIT(&w.rig.loop, w.wire.got.len != 0);
    raw_socket_text(&w.wire, HELLO);
    WAIT(&w.rig.loop, w.rig.done == 1);
    expect(&w.rig, HTTPC_OK, 200, "hello");
    waiting_fini(&w);
}

Test(node_httpc, a_connection_that_leads_elsewhere_is_not_used)
{
    struct waiting w;

    waiting_init(&w);
    ask(&w, true, HELLO);
    w.address.sin_port = htons(1); /* nobody is there */
    w.rig.done = 0;
    buf_clear(&w.rig.body);
    start(&w.rig, &w.request);
    WAIT(&w.rig.loop, w.rig.done == 1);
    cr_assert_eq(w.rig.outcome, HTTPC_CONNECT);
    cr_assert_null(w.waits);
    waiting_fini(&w);
}

Test(node_httpc, a_cancelled_call_leaves_no_connection)
{
    struct waiting w;

    waiting_init(&w);
    ask(&w, true, HELLO);
    start(&w.rig, &w.request);
    cr_assert_null(w.waits);
    httpc_cancel(w.rig.call);
    waiting_fini(&w);
    cr_assert_null(w.waits);
}

Test(node_httpc, a_cut_answer_is_closed)
{
    struct rig rig;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    play(&rig, &request, "", 0);
    expect(&rig, HTTPC_CLOSED, 0, "");
    play(&rig, &request, "HTTP/1.1 200 OK\r\nConte", 0);
    expect(&rig, HTTPC_CLOSED, 0, "");
    play(&rig, &request, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal", 0);
    expect(&rig, HTTPC_CLOSED, 200, "hal");
    play(&rig, &request,
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhal", 0);
    expect(&rig, HTTPC_CLOSED, 200, "hal");
    rig_fini(&rig);
}

Test(node_httpc, what_is_not_http_is_bad)
{
    struct rig rig;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    play(&rig, &request, "SSH-2.0-OpenSSH_9\r\n\r\n", 0);
    expect(&rig, HTTPC_BAD, 0, "");
    play(&rig, &request,
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 0);
    expect(&rig, HTTPC_BAD, 200, "");
    play(&rig, &request, "HTTP/1.1 101 Up\r\n\r\n", 0);
    expect(&rig, HTTPC_BAD, 0, "");

    char many[1024] = "";
    for (int i = 0; i < 17; i++) {
        strcat(many, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    play(&rig, &request, many, 0);
    expect(&rig, HTTPC_BAD, 0, "");
    rig_fini(&rig);
}

Test(node_httpc, an_answer_over_its_bound_is_too_large)
{
    struct rig rig;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    request.answer_bytes_max = 60;
    play(&rig, &request, "HTTP/1.1 200 OK\r\nContent-Length: 61\r\n\r\n", 0);
    cr_assert_eq(rig.outcome, HTTPC_TOO_LARGE);
    play(&rig, &request,
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n"
         "0123456789012345678901234567890123456789012345678901234567890123",
         0);
    cr_assert_eq(rig.outcome, HTTPC_TOO_LARGE);
    play(&rig, &request,
         "HTTP/1.1 200 OK\r\nX-A: 0123456789012345678901234567890123456789\r\n"
         "Content-Length: 0\r\n\r\n",
         0);
    cr_assert_eq(rig.outcome, HTTPC_TOO_LARGE);
    request.piece = on_piece; /* bounds the head only */
    play(&rig, &request,
         "HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n"
         "0123456789012345678901234567890123456789012345678901234567890123",
         0);
    cr_assert_eq(rig.outcome, HTTPC_OK);
    rig_fini(&rig);
}

Test(node_httpc, a_silent_server_meets_the_timeout)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    request.timeout_ms = 20;
    start(&rig, &request);
    accept_call(&rig, &wire);
    raw_socket_text(&wire, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal");
    WAIT(&rig.loop, rig.done == 1);
    cr_assert_eq(rig.outcome, HTTPC_TIMEOUT);
    cr_assert_neq(rig.error, 0);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpc, a_refused_connection_is_connect)
{
    struct rig rig;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    (void)close(rig.listener);
    start(&rig, &request);
    WAIT(&rig.loop, rig.done == 1);
    expect(&rig, HTTPC_CONNECT, 0, "");
    cr_assert_eq(rig.error, -ECONNREFUSED);
    rig_fini(&rig);
}

Test(node_httpc, an_unreachable_address_is_reported_later)
{
    struct rig rig;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    request.host = "255.255.255.255"; /* connect() refuses at once */
    start(&rig, &request);
    WAIT(&rig.loop, rig.done == 1);
    cr_assert_eq(rig.outcome, HTTPC_CONNECT);
    cr_assert_lt(rig.error, 0);
    rig_fini(&rig);
}

Test(node_httpc, names_are_resolved_and_every_address_tried)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    request.host = "localhost"; /* ::1 may come first; nobody is there */
    start(&rig, &request);
    accept_call(&rig, &wire);
    raw_socket_text(&wire, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    WAIT(&rig.loop, rig.done == 1);
    expect(&rig, HTTPC_OK, 200, "ok");
    raw_socket_close(&wire);
    rig_fini(&rig);
}

/* A port whose listener takes no more: a SYN gets no answer. */
static uint16_t
open_black_hole(int fds[2])
{
    struct sockaddr_in address = raw_socket_loopback(0);
    socklen_t len = sizeof(address);

    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fds[0], (struct sockaddr *)&address, len), 0);
    cr_assert_eq(listen(fds[0], 0), 0);
    cr_assert_eq(getsockname(fds[0], (struct sockaddr *)&address, &len), 0);
    fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fds[1], (struct sockaddr *)&address, len), 0);
    return ntohs(address.sin_port);
}

Test(node_httpc, an_address_that_swallows_packets_does_not_use_up_the_call)
{
    struct rig rig;
    struct raw_socket wire;
    int hole[2];

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    struct sockaddr_in good = raw_socket_loopback(rig.port);
    struct sockaddr_in swallows = raw_socket_loopback(open_black_hole(hole));
    request.timeout_ms = 2000;
    request.host = "255.255.255.255"; /* fails, then the next is tried */
    start(&rig, &request);
    memcpy(&rig.call->addresses[1], &swallows, sizeof(swallows));
    memcpy(&rig.call->addresses[2], &swallows, sizeof(swallows));
    memcpy(&rig.call->addresses[3], &swallows, sizeof(swallows));
    memcpy(&rig.call->addresses[4], &good, sizeof(good));
    rig.call->addresses_count = 5;
    accept_call(&rig, &wire);
    raw_socket_text(&wire, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    WAIT(&rig.loop, rig.done == 1);
    expect(&rig, HTTPC_OK, 200, "ok");
    cr_assert_eq(rig.error, 0);
    raw_socket_close(&wire);

    request.host = "127.0.0.1"; /* alone, it is a timeout */
    request.port = ntohs(swallows.sin_port);
    request.timeout_ms = 20;
    rig.done = 0;
    start(&rig, &request);
    WAIT(&rig.loop, rig.done == 1);
    cr_assert_eq(rig.outcome, HTTPC_TIMEOUT);
    (void)close(hole[0]);
    (void)close(hole[1]);
    rig_fini(&rig);
}

Test(node_httpc, ipv6_is_spoken)
{
    struct rig rig;
    struct raw_socket wire;
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_addr = in6addr_loopback};
    socklen_t len = sizeof(address);

    rig_init(&rig);
    (void)close(rig.listener);
    rig.listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (rig.listener < 0 ||
        bind(rig.listener, (struct sockaddr *)&address, len) != 0) {
        cr_skip_test("no IPv6 on this machine");
    }
    cr_assert_eq(listen(rig.listener, 1), 0);
    cr_assert_eq(getsockname(rig.listener, (struct sockaddr *)&address, &len),
                 0);
    rig.port = ntohs(address.sin6_port);
    struct httpc_request request = request_for(&rig);
    request.host = "::1";
    start(&rig, &request);
    accept_call(&rig, &wire);
    char text[64];
    int size =
        snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: [::1]:%u\r\n",
                 (unsigned)rig.port);
    WAIT(&rig.loop, wire.got.len >= (size_t)size);
    cr_assert_eq(strncmp(wire.got.ptr, text, (size_t)size), 0);
    raw_socket_text(&wire, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    WAIT(&rig.loop, rig.done == 1);
    expect(&rig, HTTPC_OK, 200, "ok");
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpc, a_name_without_address_is_resolve)
{
    struct rig rig;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    request.host = "no-such-name.invalid";
    start(&rig, &request);
    WAIT(&rig.loop, rig.done == 1);
    expect(&rig, HTTPC_RESOLVE, 0, "");
    cr_assert_neq(rig.error, 0);
    rig_fini(&rig);
}

Test(node_httpc, a_name_that_leads_where_it_must_not_is_resolve)
{
    struct rig rig;
    struct ranges deny;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    cr_assert_null(ranges_parse(SLICE("127.0.0.0/8 ::1/128"), &deny));
    request.host = "localhost";
    request.deny = &deny;
    start(&rig, &request);
    WAIT(&rig.loop, rig.done == 1);
    expect(&rig, HTTPC_RESOLVE, 0, "");
    cr_assert_eq(rig.error, UV_EACCES);
    rig_fini(&rig);
}

Test(node_httpc, a_call_may_be_cancelled_at_any_point)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    start(&rig, &request); /* while it connects */
    httpc_cancel(rig.call);
    request.host = "localhost"; /* while it resolves */
    start(&rig, &request);
    httpc_cancel(rig.call);
    cr_assert_eq(uv_run(&rig.loop, UV_RUN_DEFAULT), 0);
    int fd = accept(rig.listener, NULL, NULL); /* the first, half begun */
    cr_assert_geq(fd, 0);
    (void)close(fd);

    request.host = "127.0.0.1";
    request.piece = on_piece; /* in the middle of the second piece */
    rig.cancel_at = 2;
    start(&rig, &request);
    accept_call(&rig, &wire);
    raw_socket_text(&wire,
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n");
    WAIT(&rig.loop, wire.over);
    cr_assert_eq(rig.pieces, 2);
    cr_assert_eq(rig.done, 0);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpc, what_cannot_stand_in_a_request_is_refused)
{
    struct rig rig;

    rig_init(&rig);
    struct httpc_request request = request_for(&rig);
    request.target = "/a b";
    cr_assert_eq(httpc_start(&rig.call, &rig.loop, &request), -EINVAL);
    request.target = "/a\r\nX: y";
    cr_assert_eq(httpc_start(&rig.call, &rig.loop, &request), -EINVAL);
    request.target = "/x";
    request.host = "";
    cr_assert_eq(httpc_start(&rig.call, &rig.loop, &request), -EINVAL);
    request.host = "127.0.0.1";
    request.headers = SLICE("X: y");
    cr_assert_eq(httpc_start(&rig.call, &rig.loop, &request), -EINVAL);
    cr_assert_null(rig.call);
    rig_fini(&rig);
}
