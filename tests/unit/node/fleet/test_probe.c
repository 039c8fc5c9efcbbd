/* The shell against real servers on the same loop. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>

#include "node/base/log.h"
#include "node/fleet/probe.h"
#include "node/http/httpd.h"

#define TURNS_MAX 100000

struct server {
    struct httpd *httpd;
    uint16_t port;
    bool mute; /* takes requests and never answers */
    unsigned requests;
    unsigned authorized;
    unsigned cancelled;
    char host[64]; /* of the last request */
};

static uv_loop_t loop;
static struct qsbr qsbr;
static struct fleet *fleet;
static struct probe *probe;
static struct server server;
static unsigned events[FLEET_EVENTS];
static unsigned views;
static const char *down_reason;

static const struct httpd_limits limits = {
    .connections_max = 64,
    .head_bytes_max = 4096,
    .body_bytes_max = 4096,
    .unsent_bytes_max = 65536,
    .idle_timeout_ms = 60000,
    .write_timeout_ms = 60000,
};

static void
on_request(void *context, struct httpd_request *request)
{
    struct server *s = context;
    const struct http_head *head = httpd_head(request);
    const struct http_header *host = http_head_find(head, HTTP_FIELD_HOST);
    const struct http_header *key =
        http_head_find(head, HTTP_FIELD_AUTHORIZATION);

    s->requests++;
    s->authorized +=
        key != NULL && slice_equal(key->value, SLICE("Bearer secret"));
    (void)snprintf(s->host, sizeof s->host, "%.*s", (int)host->value.len,
                   host->value.ptr);
    if (s->mute) {
        return;
    }
    struct slice body = SLICE("");
    if (slice_equal(head->path, SLICE("/v1/models"))) {
        body = SLICE("{\"data\":[{\"id\":\"m\",\"owned_by\":\"vllm\"}]}");
    } else if (slice_equal(head->path, SLICE("/metrics"))) {
        body = SLICE("vllm:num_requests_running 3\n");
    }
    httpd_answer(request, 200, "text/plain", SLICE(""), body);
}

static void
on_gone(void *context, struct httpd_request *request)
{
    struct server *s = context;

    (void)request;
    s->cancelled++;
}

static void
serve(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct httpd_handler handler = {
        .context = &server, .request = on_request, .gone = on_gone};

    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(
        httpd_new(&server.httpd, &loop, (const struct sockaddr *)&address,
                  &limits, &handler),
        0);
    server.port = httpd_port(server.httpd);
}

static void
on_event(void *context, const struct fleet_out *out)
{
    (void)context;
    events[out->event]++;
    if (out->event == FLEET_DOWN) {
        down_reason = out->reason;
    }
    probe_poke(probe); /* harmless from here */
}

static void
on_published(void *context)
{
    (void)context;
    views++;
}

static void
start_with(uint32_t timeout_ms)
{
    struct fleet_config config = {
        .health = {.path = "/health",
                   .interval_ms = 20,
                   .timeout_ms = timeout_ms,
                   .failures = 1,
                   .successes = 1,
                   .metrics_interval_ms = 20,
                   .models_interval_ms = 20},
        .breaker = {.failures = 5,
                    .successes = 2,
                    .open_ms = 5000,
                    .open_max_ms = 60000},
        .resolve_interval_ms = 100,
        .seed = 1,
    };
    struct log_options quiet = {.level = LOG_LEVEL_ERROR, .fd = 2};
    struct probe_owner owner = {.event = on_event, .published = on_published};

    log_init(&quiet);
    cr_assert_eq(uv_loop_init(&loop), 0);
    qsbr_init(&qsbr);
    cr_assert_eq(fleet_new(&fleet, &config, &qsbr), 0);
    cr_assert_eq(probe_new(&probe, &loop, fleet, &owner), 0);
    serve(0);
}

static void
start(void)
{
    start_with(500);
}

static void
start_patient(void)
{
    start_with(3600000);
}

static void
stop(void)
{
    probe_free(probe);
    httpd_free(server.httpd);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&loop), 0);
    fleet_free(fleet);
    qsbr_fini(&qsbr);
}

TestSuite(node_probe, .init = start, .fini = stop);
TestSuite(node_probe_patient, .init = start_patient, .fini = stop);

static uint32_t
add(const char *host)
{
    struct config_worker worker = {.url = {.port = server.port}};
    uint32_t slot;

    (void)snprintf(worker.url.host, sizeof worker.url.host, "%s", host);
    (void)snprintf(worker.api_key, sizeof worker.api_key, "secret");
    cr_assert_eq(fleet_add(fleet, &worker, probe_now_us(), &slot), 0);
    probe_poke(probe);
    return slot;
}

static const struct fleet_view *
view_now(void)
{
    return fleet_view_get(fleet_board(fleet));
}

static bool
is_eligible(uint32_t slot)
{
    return worker_set_has(&view_now()->eligible, slot);
}

/* Turns the loop until the worker is (not) eligible. */
static void
until_eligible(uint32_t slot, bool eligible)
{
    for (int i = 0; i < TURNS_MAX && is_eligible(slot) != eligible; i++) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    cr_assert_eq(is_eligible(slot), eligible);
}

Test(node_probe, finds_a_worker_with_its_models_and_metrics)
{
    uint32_t slot = add("127.0.0.1");

    cr_assert_eq(events[FLEET_ADDED], 1);
    until_eligible(slot, true);
    while (gauge_read(&fleet_board(fleet)->running[slot]) != 3) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    struct worker_set set = fleet_view_find_model(view_now(), SLICE("m"));
    cr_assert(worker_set_has(&set, slot));
    cr_assert_eq(view_now()->worker[slot]->kind, ENGINE_VLLM);
    cr_assert_eq(server.authorized, server.requests);
    cr_assert_gt(views, 1);
}

Test(node_probe, sees_a_server_go_and_come_back)
{
    uint32_t slot = add("127.0.0.1");

    until_eligible(slot, true);
    httpd_free(server.httpd);
    until_eligible(slot, false);
    cr_assert_str_eq(down_reason, "connect");
    serve(server.port);
    until_eligible(slot, true);
    cr_assert_eq(events[FLEET_UP], 2);
}

Test(node_probe, a_server_that_does_not_answer_times_out)
{
    server.mute = true;
    uint32_t slot = add("127.0.0.1");

    while (events[FLEET_DOWN] == 0) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    cr_assert_str_eq(down_reason, "timeout");
    cr_assert_not(is_eligible(slot));
}

/* localhost may be ::1 first, where nobody listens. */
Test(node_probe, names_are_resolved_and_kept_as_host)
{
    char expected[64];
    uint32_t slot = add("localhost");

    cr_assert_eq(view_now()->worker[slot]->address_len, 0);
    until_eligible(slot, true);
    cr_assert_eq(events[FLEET_DOWN], 0);
    (void)snprintf(expected, sizeof expected, "localhost:%u", server.port);
    cr_assert_str_eq(server.host, expected);
}

Test(node_probe, probes_go_to_the_address_that_lanes_use)
{
    struct sockaddr_storage address = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&address;
    char expected[64];
    uint32_t slot = add("nobody.invalid");

    in->sin_family = AF_INET;
    in->sin_port = htons(server.port);
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fleet_resolved(fleet, slot, 1, &address, 1, probe_now_us());
    probe_poke(probe);
    until_eligible(slot, true);
    (void)snprintf(expected, sizeof expected, "nobody.invalid:%u", server.port);
    cr_assert_str_eq(server.host, expected);
}

Test(node_probe, a_name_that_does_not_exist_is_down)
{
    uint32_t slot = add("nobody.invalid");

    while (events[FLEET_DOWN] == 0) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    cr_assert_str_eq(down_reason, "name not resolved");
    cr_assert_not(is_eligible(slot));
}

Test(node_probe_patient, removal_cancels_what_is_in_flight)
{
    server.mute = true;
    uint32_t slot = add("127.0.0.1");

    while (server.requests < 1) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    fleet_remove(fleet, slot, probe_now_us());
    probe_poke(probe);
    cr_assert_eq(events[FLEET_REMOVED], 1);
    while (server.cancelled < 1) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    cr_assert_eq(events[FLEET_DOWN], 0);
}

Test(node_probe_patient, can_be_freed_with_everything_in_flight)
{
    server.mute = true;
    (void)add("127.0.0.1");
    (void)add("localhost");
    (void)uv_run(&loop, UV_RUN_NOWAIT);
}
