#include <criterion/criterion.h>
#include <string.h>

#include "node/http/http_cors.h"

Test(node_http_cors, a_list_is_of_origins_or_a_star)
{
    static const char *const good[] = {
        "*",
        "https://a.example",
        "http://localhost:3000 https://b.example",
        "http://[::1]:80",
        "vscode-webview://x",
        "tauri://localhost",
    };
    static const char *const bad[] = {
        "",
        "* https://a",
        "https://a.example/",
        "a.example",
        "https://",
        "://a",
        "HTTPS://a",
        "https://a,https://b",
        "https://a  https://b",
        "https://*.a",
        "https://u@a.example",
    };

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cr_expect(http_cors_is_list(slice_of(good[i])), "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect(!http_cors_is_list(slice_of(bad[i])), "%s", bad[i]);
    }
}

static void
find(const char *origins, const char *origin, const char *wanted)
{
    struct slice got = http_cors_find(slice_of(origins), slice_of(origin));

    cr_expect(slice_equal(got, slice_of(wanted)), "%s in %s: %.*s", origin,
              origins, (int)got.len, got.ptr);
}

Test(node_http_cors, an_origin_is_found_whole_or_not_at_all)
{
    find("*", "null", "*");
    find("", "https://a", "");
    find("https://a https://b:1", "https://b:1", "https://b:1");
    find("https://a https://b:1", "HTTPS://A", "https://a");
    find("https://a https://b:1", "https://b", "");
    find("https://a", "https://a.evil", "");
    find("https://a", "", "");
}

static struct http_head
parse(const char *text)
{
    struct http_limits limits = {4096, 1024, 16};
    struct http_head head;

    cr_assert_eq(http_head_parse_request(text, strlen(text), &limits, &head),
                 0);
    return head;
}

Test(node_http_cors, a_preflight_says_where_from_and_what_for)
{
    struct http_head head =
        parse("OPTIONS / HTTP/1.1\r\nHost: h\r\norigin: https://a\r\n"
              "access-control-request-method: POST\r\n\r\n");
    cr_assert(http_cors_is_preflight(&head));
    head = parse("OPTIONS / HTTP/1.1\r\nHost: h\r\norigin: https://a\r\n\r\n");
    cr_assert_not(http_cors_is_preflight(&head));
    head = parse("OPTIONS / HTTP/1.1\r\nHost: h\r\n"
                 "access-control-request-method: POST\r\n\r\n");
    cr_assert_not(http_cors_is_preflight(&head));
    head = parse("POST / HTTP/1.1\r\nHost: h\r\norigin: https://a\r\n"
                 "access-control-request-method: POST\r\n\r\n");
    cr_assert_not(http_cors_is_preflight(&head));
}

Test(node_http_cors, too_many_names_are_not_repeated)
{
    static char text[4000] = "OPTIONS / HTTP/1.1\r\nHost: h\r\n"
                             "Origin: https://a\r\n"
                             "Access-Control-Request-Method: POST\r\n"
                             "Access-Control-Request-Headers: ";
    struct buf out;
    size_t at = strlen(text);

    memset(text + at, 'x', HTTP_CORS_ASKED_MAX + 1);
    strcpy(text + at + HTTP_CORS_ASKED_MAX + 1, "\r\n\r\n");
    struct http_head head = parse(text);
    buf_init(&out, 8192);
    http_cors_add_preflight(&out, SLICE("https://a"), &head);
    cr_assert_not(out.failed);
    cr_assert_null(memmem(out.ptr, out.len, "Allow-Headers", 13));
    cr_assert_not_null(memmem(out.ptr, out.len, "Allow-Methods", 13));
    buf_fini(&out);
}

Test(node_http_cors, fields_of_engines_about_it_are_known)
{
    cr_assert(http_cors_is_field(SLICE("Access-Control-Allow-Origin")));
    cr_assert_not(http_cors_is_field(SLICE("access-control-")));
    cr_assert_not(http_cors_is_field(SLICE("x-access-control-allow")));
}
