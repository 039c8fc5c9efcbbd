#include "node/events/kv_sse_link.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

#include "node/http/httpd.h"
#include "node/ingest/mirror_writer.h"
#include "tests/unit/node/http/raw_socket.h"

#if defined(__clang__)
/* A test is the control thread. */
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

/* A server that the test plays by hand, and a link to it. */
struct rig {
    uv_loop_t loop;
    struct httpd *httpd;
    struct kv_sse_link *link;
    struct httpd_request *request; /* the last one, while it is open */
    unsigned requests;
    unsigned accepted; /* of these */
    char last_id[64];  /* of the last request; "" when it had none */
    char authorization[64];
    struct buf out;               /* what came to the sink */
    struct mirror_writer *writer; /* NULL, or it goes there too */
    bool reread;                  /* the next record shows that all is wrong */
    bool frees;                   /* the next record frees the link */
    uint64_t epoch;
};

static struct rig rig;

TestSuite(node_kv_sse_link, .timeout = 60);

static void
copy_header(char *out, size_t room, struct slice name)
{
    const struct http_header *header =
        http_head_find_name(httpd_head(rig.request), name);
    struct slice value = header != NULL ? header->value : (struct slice){"", 0};

    (void)snprintf(out, room, "%.*s", (int)value.len, value.ptr);
}

static void
on_request(void *context, struct httpd_request *request)
{
    (void)context;
    cr_assert(slice_equal(httpd_head(request)->target, SLICE("/v1/kv")));
    rig.request = request;
    rig.requests++;
    copy_header(rig.last_id, sizeof rig.last_id, SLICE("last-event-id"));
    copy_header(rig.authorization, sizeof rig.authorization,
                SLICE("authorization"));
}

static void
on_gone(void *context, struct httpd_request *request)
{
    (void)context;
    rig.request = rig.request == request ? NULL : rig.request;
}

static void
on_record(const struct intake_item *item, const struct event_record *record)
{
    cr_assert_eq(item->rank, record->stream.rank);
    cr_assert_eq(record->epoch, rig.epoch);
    cr_assert(event_check(record->words, record->words_count));
    cr_assert(item->last);
    buf_printf(&rig.out, "%llx;", (unsigned long long)record->words[1]);
    if (rig.reread) {
        rig.reread = false;
        kv_sse_link_reread(rig.link, "wrong", 1);
    }
    if (rig.frees) {
        kv_sse_link_free(rig.link);
        rig.link = NULL;
    }
    cr_assert(rig.writer == NULL ||
              mirror_writer_record(rig.writer, item->worker, item->generation,
                                   item->rank, record) == 0);
}

static void
on_item(void *context, const struct intake_item *item,
        const struct event_record *record)
{
    cr_assert_eq(context, &rig);
    cr_assert_not_null(rig.link);
    cr_assert(item->worker == 5 && item->generation == 9 && item->reading == 3);
    switch ((enum intake_item_kind)item->kind) {
    case INTAKE_BEGIN:
        cr_assert_neq(item->reason[0], '\0');
        rig.epoch = item->process;
        buf_printf(&rig.out, "begin%u;", item->rank);
        if (rig.writer != NULL) {
            mirror_writer_reset(rig.writer, item->worker, item->generation,
                                item->rank, item->process);
        }
        break;
    case INTAKE_STATE:
        buf_printf(&rig.out, "%s%u;",
                   kv_stream_state_name((enum kv_stream_state)item->state),
                   item->rank);
        if (rig.writer != NULL) {
            mirror_writer_state(rig.writer, item->worker, item->generation,
                                item->rank, (enum kv_stream_state)item->state);
        }
        break;
    case INTAKE_RECORD:
        on_record(item, record);
        break;
    case INTAKE_GAP:
    case INTAKE_PROVED:
    case INTAKE_RESUME:
    case INTAKE_POSITION:
    case INTAKE_CUT:
        cr_assert_fail();
    }
}

static void
setup_with(uint32_t silence_ms)
{
    struct sockaddr_in address = raw_socket_loopback(0);
    const struct httpd_limits limits = {.connections_max = 8,
                                        .head_bytes_max = 8192,
                                        .body_bytes_max = 1024,
                                        .unsent_bytes_max = 1 << 20};
    const struct httpd_handler handler = {.request = on_request,
                                          .gone = on_gone};
    struct kv_sse_source source = {
        .id = "w",
        .slot = 5,
        .generation = 9,
        .reading = 3,
        .identity = 77,
        .ranks = 1,
        .url = {.host = "127.0.0.1", .path = "/v1/kv"},
        .api_key = "secret",
        .retry_ms = 1,
        .retry_max_ms = 4,
        .silence_ms = silence_ms,
        .seed = 1,
        .sink = {&rig, on_item},
    };

    (void)signal(SIGPIPE, SIG_IGN);
    memset(&rig, 0, sizeof rig);
    buf_init(&rig.out, 1 << 20);
    cr_assert_eq(uv_loop_init(&rig.loop), 0);
    cr_assert_eq(
        httpd_new(&rig.httpd, &rig.loop, (void *)&address, &limits, &handler),
        0);
    source.url.port = httpd_port(rig.httpd);
    cr_assert_eq(kv_sse_link_new(&rig.link, &rig.loop, &source), 0);
}

static void
setup(void)
{
    setup_with(0);
}

static void
teardown(void)
{
    kv_sse_link_free(rig.link);
    httpd_free(rig.httpd);
    cr_assert_eq(uv_run(&rig.loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&rig.loop), 0);
    buf_fini(&rig.out);
}

static struct kv_sse_stats
stats(void)
{
    return *kv_sse_link_stats(rig.link);
}

/* The next connection is there; the head goes out. */
static void
accept_it(void)
{
    WAIT(&rig.loop, rig.requests > rig.accepted);
    rig.accepted = rig.requests;
    cr_assert_not_null(rig.request);
    httpd_begin(rig.request, 200, "text/event-stream", SLICE(""));
}

static void
say(const char *text)
{
    cr_assert_eq(httpd_send(rig.request, slice_of(text)), 0);
}

static void
say_created(unsigned number)
{
    char text[200];

    (void)snprintf(text, sizeof text,
                   "id: b-%u\nevent: cache_created\n"
                   "data: {\"prefix_hash\":%u,\"token_count\":16}\n\n",
                   number, number);
    say(text);
}

static void
hang_up(void)
{
    httpd_abort(rig.request);
    rig.request = NULL;
}

/* Until that was delivered, and nothing else. */
static void
expect(const char *expected)
{
    size_t len = strlen(expected);

    WAIT(&rig.loop, rig.out.len >= len);
    cr_assert(slice_equal(buf_slice(&rig.out), slice_of(expected)),
              "got \"%.*s\", not \"%s\"", (int)rig.out.len, rig.out.ptr,
              expected);
    buf_clear(&rig.out);
}

/* Connected, and in step at event 2. */
static void
live(void)
{
    accept_it();
    say_created(1);
    say_created(2);
    expect("begin0;partial0;begin0;live0;1;2;");
}

Test(node_kv_sse_link, events_become_records)
{
    setup();
    live();
    cr_assert_str_eq(rig.last_id, "");
    cr_assert_str_eq(rig.authorization, "Bearer secret");
    say(": a comment\n\nid: b-3\nevent: cache_created\r\n");
    say("data: {\"prefix_hash\":\"00000000000000ff\"}\r\n\r\n");
    expect("ff;");
    cr_assert_eq(stats().applied, 3);
    teardown();
}

Test(node_kv_sse_link, it_goes_on_where_the_connection_broke)
{
    setup();
    live();
    uint64_t epoch = rig.epoch;
    hang_up();
    accept_it();
    expect("connecting0;");
    cr_assert_str_eq(rig.last_id, "b-2");
    say_created(3);
    expect("live0;3;");
    cr_assert_eq(rig.epoch, epoch);
    cr_assert_eq(stats().resumed, 1);
    cr_assert_eq(stats().disconnects, 1);
    teardown();
}

Test(node_kv_sse_link, a_source_that_cannot_go_on_begins_an_epoch)
{
    setup();
    live();
    httpd_end(rig.request); /* the orderly way to break off */
    rig.request = NULL;
    accept_it();
    say_created(7);
    expect("connecting0;begin0;partial0;7;");
    teardown();
}

Test(node_kv_sse_link, a_missing_event_is_asked_for_again)
{
    setup();
    live();
    say_created(4);
    accept_it();
    cr_assert_str_eq(rig.last_id, "b-2");
    say_created(3);
    say_created(4);
    expect("connecting0;live0;3;4;");
    cr_assert_eq(stats().gaps, 1);
    teardown();
}

Test(node_kv_sse_link, an_answer_that_is_no_stream_is_tried_again)
{
    setup();
    for (unsigned i = 1; i <= 5; i++) {
        WAIT(&rig.loop, rig.requests == i);
        httpd_answer(rig.request, 503, NULL, SLICE(""), SLICE("data: x\n\n"));
        rig.request = NULL;
    }
    rig.accepted = 5;
    cr_assert_eq(stats().connects, 0);
    live();
    teardown();
}

Test(node_kv_sse_link, a_record_may_free_the_link)
{
    setup_with(60000);
    live();
    rig.frees = true;
    say("id: b-3\nevent: cache_created\ndata: {\"prefix_hash\":3}\n\n"
        "id: b-9\nevent: cache_created\ndata: {\"prefix_hash\":9}\n\n");
    expect("3;");
    WAIT(&rig.loop, rig.request == NULL);
    teardown();
}

Test(node_kv_sse_link, silence_ends_a_connection)
{
    setup_with(400);
    accept_it();
    say(": hello\n");
    expect("begin0;partial0;");
    expect("connecting0;");
    accept_it();
    teardown();
}

Test(node_kv_sse_link, a_line_without_end_ends_the_connection)
{
    static char text[KV_SSE_EVENT_BYTES_MAX + 2];

    setup();
    live();
    memset(text, 'x', sizeof text - 1);
    say(text);
    expect("connecting0;");
    accept_it();
    say_created(3);
    expect("live0;3;");
    teardown();
}

Test(node_kv_sse_link, a_reread_begins_anew_without_an_id)
{
    setup();
    live();
    kv_sse_link_reread(rig.link, "wrong", 1);
    cr_assert_eq(rig.out.len, 0, "nothing from within a call");
    accept_it();
    cr_assert_str_eq(rig.last_id, "");
    say_created(3);
    expect("begin0;connecting0;partial0;begin0;partial0;3;");
    teardown();
}

Test(node_kv_sse_link, a_reread_does_not_wait_for_a_busy_stream_to_pause)
{
    setup_with(1000000);
    live();
    rig.reread = true;
    say_created(3);
    say_created(4); /* on its way when the third is looked at */
    accept_it();
    say_created(5);
    expect("3;4;begin0;connecting0;partial0;begin0;partial0;5;");
    teardown();
}

Test(node_kv_sse_link, an_id_that_would_break_a_header_is_not_sent)
{
    setup();
    accept_it();
    say("id: a\x01"
        "7\nevent: x\ndata:\n\n");
    expect("begin0;partial0;begin0;partial0;");
    hang_up();
    accept_it();
    cr_assert_str_eq(rig.last_id, "");
    teardown();
}

Test(node_kv_sse_link, it_can_be_freed_at_any_time)
{
    setup();
    teardown(); /* before the first try */
    setup();
    WAIT(&rig.loop, rig.request != NULL);
    teardown(); /* while it waits for the head */
    setup();
    live();
    teardown();
    setup();
    live();
    hang_up();
    expect("connecting0;");
    teardown(); /* while it waits to try again */
    setup();
    live();
    kv_sse_link_reread(rig.link, "wrong", 1);
    teardown();
    kv_sse_link_free(NULL);
}

/* How many of the blocks 1, 2, 3 lanes know of. */
static uint32_t
depth_for_lanes(struct mirror *mirror, const struct publish *published)
{
    static const uint64_t keys[] = {1, 2, 3};
    struct mirror_match match;

    (void)mirror_writer_work(rig.writer, 1000);
    const struct mirror_view *view = mirror_view_get(published);
    if (!worker_set_has(&view->workers, 5)) {
        return 0;
    }
    cr_assert_eq(view->groups[0].grain, KV_SSE_BLOCK_TOKENS);
    mirror_match(mirror, &view->groups[0].slots, keys, 3, &match);
    return match.best;
}

Test(node_kv_sse_link, lanes_know_what_a_sidecar_told)
{
    const struct mirror_limits bounds = {.bytes_max = (size_t)16 << 20};
    const struct mirror_writer_limits limits = {.stale_permille = 500};
    struct publish published;
    struct mirror *mirror;
    struct qsbr qsbr;

    qsbr_init(&qsbr);
    cr_assert_eq(mirror_new(&mirror, &bounds, &qsbr), 0);
    setup();
    cr_assert_eq(
        mirror_writer_new(&rig.writer, &limits, mirror, &qsbr, &published), 0);
    cr_assert_eq(mirror_writer_worker_add(rig.writer, 5, 9, 1), 0);
    cr_assert_eq(depth_for_lanes(mirror, &published), 0);
    live();
    cr_assert_eq(depth_for_lanes(mirror, &published), 2);
    say_created(3);
    expect("3;");
    cr_assert_eq(depth_for_lanes(mirror, &published), 3);
    say("id: b-4\nevent: cache_evicted\ndata: {\"prefix_hash\":2}\n\n");
    expect("2;");
    cr_assert_eq(depth_for_lanes(mirror, &published), 1);
    say("id: b-5\nevent: cache_purged\ndata: {}\n\n");
    WAIT(&rig.loop, stats().applied == 5);
    cr_assert_eq(depth_for_lanes(mirror, &published), 0);
    struct mirror_writer *writer = rig.writer;
    teardown();
    mirror_writer_free(writer);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
}
