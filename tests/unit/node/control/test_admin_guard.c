#include <criterion/criterion.h>

#include <stdio.h>

#include "node/control/admin_guard.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define JOIN  "engines-engines-engines"

static struct http_tokens tokens;
static struct admin_guard guard;
static struct admin_refusal refusal;
static const struct http_token *token;

static void
setup(void)
{
    guard = (struct admin_guard){.tokens = NULL, .name = "router-1"};
    cr_assert_null(http_tokens_read(
        SLICE("# operators\nanna " TOKEN "\n\n  fedcba9876543210\r\n"
              "gpus " JOIN " join\n"),
        &tokens));
}

TestSuite(node_admin_guard, .init = setup);

/* 0: admitted; else the status. */
static unsigned
ask(const char *method, const char *lines, bool has_body)
{
    static struct http_head head;
    static char text[4096];
    struct http_limits limits = {.head_bytes_max = sizeof text,
                                 .target_bytes_max = 1024,
                                 .headers_max = HTTP_HEADERS_MAX};
    int len = snprintf(text, sizeof text,
                       "%s /admin/workers HTTP/1.1\r\n%s\r\n", method, lines);

    cr_assert_eq(http_head_parse_request(text, (size_t)len, &limits, &head), 0,
                 "%s", lines);
    refusal = (struct admin_refusal){.status = 0};
    return admin_guard_admits(&guard, &head, has_body, &token, &refusal)
               ? 0
               : refusal.status;
}

Test(node_admin_guard, hosts_are_addresses_localhost_and_the_nodes_name)
{
    static const char *const good[] = {"127.0.0.1:9080",  "10.0.0.7",
                                       "[::1]:9080",      "localhost",
                                       "LocalHost.:9080", "router-1:9080"};
    static const char *const bad[] = {
        "evil.example:9080", "localhost.evil", "127.0.0.1.evil.example",
        "router-10",         "0x7f.1",         "2130706433"};
    char line[128];

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        (void)snprintf(line, sizeof line, "Host: %s\r\n", good[i]);
        cr_assert_eq(ask("GET", line, false), 0, "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(line, sizeof line, "Host: %s\r\n", bad[i]);
        cr_assert_eq(ask("GET", line, false), 403, "%s", bad[i]);
        cr_assert_str_eq(refusal.code, "host_refused");
    }
}

Test(node_admin_guard, pages_of_other_origins_are_refused)
{
    cr_assert_eq(
        ask("GET", "Host: 127.0.0.1:1\r\nOrigin: http://evil\r\n", false), 403);
    cr_assert_str_eq(refusal.code, "origin_refused");
    cr_assert_eq(ask("GET", "Host: 127.0.0.1:1\r\nOrigin: null\r\n", false),
                 403);
    cr_assert_eq(
        ask("GET", "Host: 127.0.0.1:1\r\nOrigin: http://127.0.0.1:2\r\n",
            false),
        403);
    cr_assert_eq(
        ask("GET", "Host: 127.0.0.1:1\r\nOrigin: http://127.0.0.1:1\r\n",
            false),
        0);
    cr_assert_eq(ask("GET",
                     "Host: 127.0.0.1:1\r\nOrigin: http://127.0.0.1:1\r\n"
                     "origin: http://evil\r\n",
                     false),
                 403);
    guard.tokens = &tokens;
    cr_assert_eq(ask("GET",
                     "Host: 127.0.0.1:1\r\nOrigin: http://evil\r\n"
                     "Authorization: Bearer " TOKEN "\r\n",
                     false),
                 403);
}

Test(node_admin_guard, a_token_opens_and_says_who_asks)
{
    guard.tokens = &tokens;
    cr_assert_eq(ask("GET", "Host: 127.0.0.1\r\n", false), 401);
    cr_assert_str_eq(refusal.code, "token_required");
    cr_assert_eq(
        ask("GET",
            "Host: admin.example\r\nAuthorization: bearer  " TOKEN "\r\n",
            false),
        0);
    cr_assert_str_eq(token->name, "anna");
    cr_assert_eq(
        ask("GET", "Host: a\r\nAuthorization: Bearer fedcba9876543210\r\n",
            false),
        0);
    cr_assert_str_eq(token->name, "token");
    cr_assert_eq(
        ask("GET", "Host: a\r\nAuthorization: Basic " TOKEN "\r\n", false),
        401);
    cr_assert_eq(
        ask("GET", "Host: a\r\nAuthorization: Bearer " TOKEN "0\r\n", false),
        401);
    cr_assert_eq(ask("GET",
                     "Host: a\r\nAuthorization: Bearer "
                     "0123456789abcdef0123456789abcde\r\n",
                     false),
                 401);
    cr_assert_eq(ask("GET", "Host: a\r\nAuthorization: Bearer\r\n", false),
                 401);
    cr_assert_eq(ask("GET",
                     "Host: a\r\nAuthorization: Bearer " TOKEN
                     "\r\nAuthorization: Bearer " TOKEN "\r\n",
                     false),
                 401);
}

Test(node_admin_guard, an_engines_token_may_announce_a_worker_and_no_more)
{
    const char *line = "Host: a\r\nAuthorization: Bearer " JOIN
                       "\r\nContent-Type: application/json\r\n";

    guard.tokens = &tokens;
    cr_assert_eq(ask("POST", line, true), 0);
    cr_assert_str_eq(token->name, "gpus");
    cr_assert(token->joins);
    cr_assert_eq(ask("GET", line, false), 403);
    cr_assert_str_eq(refusal.code, "token_joins_only");
    cr_assert_eq(ask("DELETE", line, false), 403);
    cr_assert_null(http_tokens_name(&tokens, SLICE(JOIN)));
    cr_assert_str_eq(http_tokens_name(&tokens, SLICE(TOKEN)), "anna");
}

Test(node_admin_guard, writes_are_json)
{
    const char *form = "Host: 127.0.0.1\r\nContent-Type: "
                       "application/x-www-form-urlencoded\r\n";

    cr_assert_eq(ask("POST", "Host: 127.0.0.1\r\n", true), 415);
    cr_assert_str_eq(refusal.code, "json_expected");
    cr_assert_eq(ask("POST", form, true), 415);
    cr_assert_eq(ask("POST", form, false), 415);
    cr_assert_eq(ask("DELETE", "Host: 127.0.0.1\r\n", false), 0);
    cr_assert_eq(ask("POST", "Host: 127.0.0.1\r\n", false), 0);
    cr_assert_eq(ask("POST",
                     "Host: 127.0.0.1\r\nContent-Type: Application/JSON ; "
                     "charset=utf-8\r\n",
                     true),
                 0);
}

Test(node_admin_guard, a_file_of_tokens_is_strict)
{
    struct http_tokens read = {.count = 7};
    char many[33 * 20 + 1];

    cr_assert_not_null(http_tokens_read(SLICE(""), &read));
    cr_assert_not_null(http_tokens_read(SLICE("# nothing\n\n"), &read));
    cr_assert_not_null(http_tokens_read(SLICE("anna short\n"), &read));
    cr_assert_not_null(http_tokens_read(SLICE("a b " TOKEN "\n"), &read));
    cr_assert_not_null(http_tokens_read(SLICE("a " TOKEN " joins\n"), &read));
    cr_assert_not_null(http_tokens_read(SLICE("a " TOKEN " join b\n"), &read));
    cr_assert_not_null(http_tokens_read(SLICE("a join " TOKEN "\n"), &read));
    /* Nobody could look after such a node. */
    cr_assert_not_null(http_tokens_read(SLICE("a " TOKEN " join\n"), &read));
    cr_assert_not_null(http_tokens_read(SLICE("t\xc3\xbc " TOKEN "\n"), &read));
    for (size_t i = 0; i < 33; i++) {
        (void)snprintf(many + i * 20, 21, "0123456789abcdef%03zu\n", i);
    }
    cr_assert_not_null(http_tokens_read(slice_of(many), &read));
    cr_assert_eq(read.count, 7);
    many[32 * 20] = '\0';
    cr_assert_null(http_tokens_read(slice_of(many), &read));
    cr_assert_eq(read.count, 32);
}
