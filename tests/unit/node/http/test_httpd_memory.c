/* Linked with --wrap for the allocator, so that it can be counted and fail. */
#include "node/http/httpc.h"
#include "tests/unit/node/http/httpd_rig.h"

TestSuite(node_httpd_memory, .timeout = 60);

static unsigned long allocations;
static unsigned long fail_at; /* the n-th from now on; 0: none */

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier) */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static bool
fails(void)
{
    allocations++;
    return fail_at != 0 && --fail_at == 0;
}

void *
__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *
__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

static const char post[] =
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5\r\nhello\r\n0\r\n\r\n"
    "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n";

Test(node_httpd_memory, a_warm_connection_serves_without_allocating)
{
    struct rig rig;
    struct raw_socket wire;
    struct raw_socket_reply reply;
    unsigned long before = 0;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    for (int i = 0; i < 20; i++) {
        if (i == 2) {
            before = allocations;
        }
        raw_socket_text(&wire, post);
        raw_socket_reply(&wire, &reply);
        raw_socket_reply(&wire, &reply);
        cr_assert_eq(reply.status, 200);
    }
    cr_assert_eq(allocations, before);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_memory, a_connection_that_has_ended_keeps_no_large_buffer)
{
    static const char head[] =
        "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\n";
    static char most[65000];
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, head);
    raw_socket_put(&wire, most, sizeof most);
    WAIT(&rig.loop,
         !list_is_empty(&rig.httpd->connections) &&
             LIST_OWNER(rig.httpd->connections.next, struct httpd_conn, all)
                     ->in.len > sizeof most);
    raw_socket_close(&wire);
    WAIT(&rig.loop, rig.httpd->spare_count == 1);
    const struct httpd_conn *spare =
        LIST_OWNER(rig.httpd->spare.next, struct httpd_conn, all);
    cr_assert_leq(spare->in.size, HTTPD_KEEP_BYTES);
    rig_fini(&rig);
}

struct call {
    bool done;
    enum httpc_outcome outcome;
    unsigned status;
};

static void
on_done(void *context, const struct httpc_answer *answer)
{
    struct call *call = context;

    call->done = true;
    call->outcome = answer->outcome;
    call->status = answer->head != NULL ? answer->head->status : 0;
}

/* One whole life of a server and a call, with the n-th allocation failing.
 * True when it came to an answer. */
static bool
live_once(unsigned long n, bool *failed)
{
    struct rig rig = {.requests = 0};
    struct sockaddr_in address = raw_socket_loopback(0);
    struct httpd_handler handler = {
        .context = &rig, .request = rig_on_request, .drained = rig_on_drained};
    struct call call = {.done = false};
    struct httpc *handle = NULL;
    struct httpc_request request = {.host = "127.0.0.1",
                                    .method = "POST",
                                    .target = "/echo",
                                    .body = SLICE("some body"),
                                    .timeout_ms = 30000,
                                    .answer_bytes_max = 65536,
                                    .context = &call,
                                    .done = on_done};

    cr_assert_eq(uv_loop_init(&rig.loop), 0);
    fail_at = n;
    int error = httpd_new(&rig.httpd, &rig.loop, (struct sockaddr *)&address,
                          &rig_limits, &handler);
    cr_assert(error == 0 || error == -ENOMEM);
    if (error == 0) {
        request.port = httpd_port(rig.httpd);
        error = httpc_start(&handle, &rig.loop, &request);
        cr_assert(error == 0 || error == -ENOMEM);
    }
    if (error == 0) {
        WAIT(&rig.loop, call.done);
    }
    *failed = fail_at == 0;
    fail_at = 0;
    rig_fini(&rig);
    return call.outcome == HTTPC_OK && call.status == 200;
}

Test(node_httpd_memory, any_allocation_may_fail)
{
    unsigned long n = 1;
    bool failed = true;

    (void)signal(SIGPIPE, SIG_IGN);
    for (; failed; n++) {
        cr_assert_lt(n, 100);
        bool whole = live_once(n, &failed);
        cr_assert(failed || whole);
    }
    cr_assert_gt(n, 6);
}
