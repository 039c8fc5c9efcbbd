#include <criterion/criterion.h>
#include <stdio.h>

#include "node/route.h"

static enum route_kind
kind_of(const char *line, const char *headers)
{
    static const struct http_limits limits = {
        .head_bytes_max = 4096, .target_bytes_max = 1024, .headers_max = 32};
    static struct http_head head;
    char text[1024];

    (void)snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: h\r\n%s\r\n", line,
                   headers);
    cr_assert_eq(http_head_parse_request(text, strlen(text), &limits, &head),
                 0);
    return route_kind_of(&head);
}

#define JSON "Content-Type: application/json\r\nContent-Length: 2\r\n"

Test(node_route, prompts_are_posts_of_json)
{
    cr_assert_eq(kind_of("POST /v1/chat/completions", JSON), ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /v1/chat/completions?x=1", JSON), ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /v1/completions",
                         "Content-Type: application/json; charset=utf-8\r\n"
                         "Content-Length: 2\r\n"),
                 ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /v1/completions",
                         "Content-Type: application/x-www-form-urlencoded\r\n"
                         "Content-Length: 2\r\n"),
                 ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /tokenize", "Content-Length: 2\r\n"),
                 ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /v1/some/new/thing", JSON), ROUTE_PROMPT);
}

Test(node_route, other_bodies_and_lookups_go_by_load_alone)
{
    cr_assert_eq(kind_of("POST /v1/audio/transcriptions",
                         "Content-Type: multipart/form-data; boundary=x\r\n"
                         "Content-Length: 2\r\n"),
                 ROUTE_PLAIN);
    cr_assert_eq(kind_of("POST /v1/files", "Content-Type: application/jsonl\r\n"
                                           "Content-Length: 2\r\n"),
                 ROUTE_PLAIN);
    cr_assert_eq(kind_of("GET /v1/responses/abc", ""), ROUTE_PLAIN);
    cr_assert_eq(kind_of("POST /v1/responses/abc/cancel", ""), ROUTE_PLAIN);
}

Test(node_route, the_node_answers_for_itself)
{
    cr_assert_eq(kind_of("GET /health", ""), ROUTE_LOCAL);
    cr_assert_eq(kind_of("GET /ready", ""), ROUTE_LOCAL);
    cr_assert_eq(kind_of("GET /v1/models", ""), ROUTE_LOCAL);
    cr_assert_eq(kind_of("GET /v1/models/org/name", ""), ROUTE_LOCAL);
}

Test(node_route, what_would_change_an_engine_is_not_passed_on)
{
    cr_assert_eq(kind_of("POST /reset_prefix_cache", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /flush_cache", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("GET /metrics", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /chaos", JSON), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("GET /", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("GET /v1", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /v1/../flush_cache", JSON), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /v1/%2e%2e/flush_cache", JSON), ROUTE_UNKNOWN);
}
