#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/buf.h"
#include "tests/unit/node/http/http_cases.h"

static const struct http_limits wide = {
    .head_bytes_max = 8192, .target_bytes_max = 4096, .headers_max = 96};

static struct http_head head; /* too large for a stack frame of each test */

/*
 * Parses a copy in a block of just that size, so that a byte read beyond it is
 * a sanitizer's report; head's slices are moved back into bytes.
 */
static int
parse(struct slice bytes, bool response, enum http_method to_method)
{
    char *copy = malloc(bytes.len != 0 ? bytes.len : 1);
    int outcome;

    cr_assert_not_null(copy);
    memcpy(copy, bytes.ptr, bytes.len);
    memset(&head, 0xAA, sizeof(head));
    outcome = response ? http_head_parse_response(copy, bytes.len, &wide,
                                                  to_method, &head)
                       : http_head_parse_request(copy, bytes.len, &wide, &head);
    free(copy);
    if (outcome == 0) {
        struct http_head again;

        outcome = response ? http_head_parse_response(bytes.ptr, bytes.len,
                                                      &wide, to_method, &again)
                           : http_head_parse_request(bytes.ptr, bytes.len,
                                                     &wide, &again);
        cr_assert_eq(outcome, 0);
        head = again;
    }
    return outcome;
}

static int
parse_request(struct slice bytes)
{
    return parse(bytes, false, HTTP_OTHER);
}

static int
parse_response(struct slice bytes)
{
    return parse(bytes, true, HTTP_GET);
}

static void
check_case(const struct http_case *c, bool response)
{
    int outcome = parse(c->head, response, HTTP_GET);

    if (c->status != 0) {
        cr_assert_eq(outcome, HTTP_E_BAD, "%s: %d", c->name, outcome);
        cr_assert_eq(head.fault_status, c->status, "%s: %u", c->name,
                     head.fault_status);
        cr_assert_not_null(head.fault);
        cr_assert_leq(head.fault_at, c->head.len);
        return;
    }
    cr_assert_eq(outcome, 0, "%s: %s", c->name, head.fault);
    cr_assert_eq(head.size_bytes, c->head.len, "%s", c->name);
    cr_assert_eq(head.body, c->body, "%s", c->name);
    cr_assert_eq(head.content_length, c->content_length, "%s", c->name);
    cr_assert_null(head.fault);
}

Test(node_http_head, each_request_of_the_corpus_is_judged_as_its_row_says)
{
    for (size_t i = 0; i < HTTP_CASES_COUNT(http_request_cases); i++) {
        check_case(&http_request_cases[i], false);
    }
}

Test(node_http_head, each_response_of_the_corpus_is_judged_as_its_row_says)
{
    for (size_t i = 0; i < HTTP_CASES_COUNT(http_response_cases); i++) {
        check_case(&http_response_cases[i], true);
    }
}

/* A good head wants more at each cut; a bad one never becomes good. */
static void
check_prefixes(const struct http_case *c, bool response)
{
    bool refused = false;

    for (size_t len = 0; len < c->head.len; len++) {
        struct slice prefix = {.ptr = c->head.ptr, .len = len};
        int outcome = parse(prefix, response, HTTP_GET);

        if (c->status == 0) {
            cr_assert_eq(outcome, HTTP_E_MORE, "%s up to %zu", c->name, len);
            continue;
        }
        cr_assert_eq(outcome, refused ? HTTP_E_BAD : outcome, "%s up to %zu",
                     c->name, len);
        cr_assert(outcome == HTTP_E_BAD || outcome == HTTP_E_MORE);
        refused = outcome == HTTP_E_BAD;
    }
}

Test(node_http_head, a_verdict_does_not_depend_on_where_the_head_is_cut)
{
    for (size_t i = 0; i < HTTP_CASES_COUNT(http_request_cases); i++) {
        check_prefixes(&http_request_cases[i], false);
    }
    for (size_t i = 0; i < HTTP_CASES_COUNT(http_response_cases); i++) {
        check_prefixes(&http_response_cases[i], true);
    }
}

Test(node_http_head, what_follows_the_head_is_not_looked_at)
{
    for (size_t i = 0; i < HTTP_CASES_COUNT(http_request_cases); i++) {
        const struct http_case *c = &http_request_cases[i];
        struct buf wire;

        if (c->status != 0) {
            continue;
        }
        buf_init(&wire, 8192);
        buf_add_slice(&wire, c->head);
        buf_add(&wire, "\0 \r\n\n\xFF: \r\r\n", 10);
        cr_assert_eq(parse_request(buf_slice(&wire)), 0, "%s", c->name);
        cr_assert_eq(head.size_bytes, c->head.len);
        buf_fini(&wire);
    }
}

Test(node_http_head, a_request_is_taken_apart)
{
    const struct http_header *header;

    cr_assert_eq(parse_request(SLICE("POST /a/b?c=d?e HTTP/1.1\r\n"
                                     "Host: h:1\r\nX-One:  1 2\t\r\n"
                                     "AUTHORIZATION: t\r\nx-one: 3\r\n\r\n")),
                 0);
    cr_assert(slice_equal(head.method, SLICE("POST")));
    cr_assert_eq(head.method_id, HTTP_POST);
    cr_assert(slice_equal(head.target, SLICE("/a/b?c=d?e")));
    cr_assert(slice_equal(head.path, SLICE("/a/b")));
    cr_assert_eq(head.minor, 1);
    cr_assert_eq(head.headers_count, 4);
    cr_assert(slice_equal(head.headers[1].name, SLICE("X-One")));
    cr_assert(slice_equal(head.headers[1].value, SLICE("1 2")));
    header = http_head_find(&head, HTTP_FIELD_AUTHORIZATION);
    cr_assert_eq(header, &head.headers[2]);
    cr_assert_eq(http_head_find_name(&head, SLICE("x-ONE")), &head.headers[1]);
    cr_assert_null(http_head_find_name(&head, SLICE("x-on")));
    cr_assert_null(http_head_find(&head, HTTP_FIELD_EXPECT));
}

Test(node_http_head, a_response_is_taken_apart)
{
    cr_assert_eq(parse_response(SLICE("HTTP/1.0 404 Not  Found \r\n"
                                      "Content-Type: a/b\r\n\r\n")),
                 0);
    cr_assert_eq(head.status, 404);
    cr_assert_eq(head.minor, 0);
    cr_assert(slice_equal(slice_trim(head.reason), SLICE("Not  Found")));
    cr_assert_eq(http_head_find(&head, HTTP_FIELD_CONTENT_TYPE),
                 &head.headers[0]);
}

Test(node_http_head, methods_are_told_apart_by_case)
{
    static const struct {
        const char *name;
        enum http_method id;
    } rows[] = {
        {"GET", HTTP_GET},          {"HEAD", HTTP_HEAD},
        {"POST", HTTP_POST},        {"PUT", HTTP_PUT},
        {"DELETE", HTTP_DELETE},    {"OPTIONS", HTTP_OPTIONS},
        {"PATCH", HTTP_PATCH},      {"get", HTTP_OTHER},
        {"GETS", HTTP_OTHER},       {"GE", HTTP_OTHER},
        {"PROPFIND", HTTP_OTHER},   {"POSTPOSTPOSTPOSTPOST", HTTP_OTHER},
        {"!#$%&'*+-.", HTTP_OTHER}, {"PUR", HTTP_OTHER},
        {"HEAP", HTTP_OTHER},       {"DELETF", HTTP_OTHER},
    };

    for (size_t i = 0; i < HTTP_CASES_COUNT(rows); i++) {
        char text[100];
        int len =
            snprintf(text, sizeof(text), "%s / HTTP/1.0\r\n\r\n", rows[i].name);

        cr_assert_eq(
            parse_request((struct slice){.ptr = text, .len = (size_t)len}), 0);
        cr_assert_eq(head.method_id, rows[i].id, "%s", rows[i].name);
        cr_assert_eq(head.method.len, strlen(rows[i].name));
    }
}

Test(node_http_head, paths_leave_out_authority_and_query)
{
    static const struct {
        const char *target;
        const char *path;
    } rows[] = {
        {"/", "/"},
        {"/a", "/a"},
        {"/?", "/"},
        {"/a?b?c", "/a"},
        {"//a/b", "//a/b"},
        {"http://h", ""},
        {"http://h/", "/"},
        {"http://h?q", ""},
        {"HTTPS://h/a?q", "/a"},
        {"https://h", ""},
        {"http://H/a/http://b", "/a/http://b"},
    };

    for (size_t i = 0; i < HTTP_CASES_COUNT(rows); i++) {
        char text[100];
        int len = snprintf(text, sizeof(text),
                           "GET %s HTTP/1.1\r\nHost: h\r\n"
                           "\r\n",
                           rows[i].target);

        cr_assert_eq(
            parse_request((struct slice){.ptr = text, .len = (size_t)len}), 0,
            "%s: %s", rows[i].target, head.fault);
        cr_assert(slice_equal(head.target, slice_of(rows[i].target)));
        cr_assert(slice_equal(head.path, slice_of(rows[i].path)), "%s",
                  rows[i].target);
    }
}

/* Whether a head with that byte in a run of `run` letters is accepted. */
static bool
takes_byte(const char *before, char byte, size_t run, const char *after)
{
    struct buf wire;
    int outcome;

    buf_init(&wire, 8192);
    buf_add_text(&wire, before);
    for (size_t i = 0; i < run; i++) {
        buf_add_text(&wire, "r");
    }
    buf_add(&wire, &byte, 1);
    buf_add_text(&wire, "r");
    buf_add_text(&wire, after);
    buf_add_text(&wire, "\r\n\r\nwhatever follows a head, 16 bytes and more");
    outcome = parse_request(buf_slice(&wire));
    buf_fini(&wire);
    cr_assert(outcome == 0 || outcome == HTTP_E_BAD);
    return outcome == 0;
}

Test(node_http_head, each_alphabet_holds_its_bytes_and_no_other)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    static const size_t runs[] = {0, 1, 15, 16, 17, 40};

    for (size_t i = 0; i < HTTP_CASES_COUNT(runs) * 256; i++) {
        size_t run = runs[i / 256];
        char byte = (char)(i % 256);
        unsigned code = (unsigned)(i % 256);
        bool letter = (code >= '0' && code <= '9') ||
                      (code >= 'A' && code <= 'Z') ||
                      (code >= 'a' && code <= 'z');
        bool token = letter || (code != 0 && strchr(marks, byte) != NULL);
        bool visible = code > ' ' && code < 0x7F;

        /* A colon ends a name, a space ends a target. */
        cr_assert_eq(takes_byte("GET / HTTP/1.0\r\n", byte, run, ":"),
                     token || (code == ':' && run != 0), "name %zu %02x", run,
                     code);
        cr_assert_eq(takes_byte("GET / HTTP/1.0\r\nX: ", byte, run, ""),
                     visible || code == ' ' || code == '\t' || code >= 0x80,
                     "value %zu %02x", run, code);
        cr_assert_eq(takes_byte("GET /", byte, run, " HTTP/1.0"),
                     visible && code != '#', "target %zu %02x", run, code);
        cr_assert_eq(takes_byte("G", byte, run, " / HTTP/1.0"), token,
                     "method %zu %02x", run, code);
    }
}

Test(node_http_head, known_names_are_found_in_any_case_and_others_are_not)
{
    static const struct {
        const char *name;
        enum http_field field;
    } rows[] = {
        {"hOsT", HTTP_FIELD_HOST},
        {"Connection", HTTP_FIELD_CONNECTION},
        {"CONTENT-LENGTH", HTTP_FIELD_CONTENT_LENGTH},
        {"transfer-encoding", HTTP_FIELD_TRANSFER_ENCODING},
        {"Content-Type", HTTP_FIELD_CONTENT_TYPE},
        {"Expect", HTTP_FIELD_EXPECT},
        {"Upgrade", HTTP_FIELD_UPGRADE},
        {"Keep-Alive", HTTP_FIELD_KEEP_ALIVE},
        {"Proxy-Connection", HTTP_FIELD_PROXY},
        {"Proxy-Authenticate", HTTP_FIELD_PROXY},
        {"Proxy-Authorization", HTTP_FIELD_PROXY},
        {"proxy-a", HTTP_FIELD_PROXY},
        {"proxy-auth", HTTP_FIELD_PROXY},
        {"proxy-aaaaaa", HTTP_FIELD_PROXY},
        {"proxy-aaaaaaa", HTTP_FIELD_PROXY},
        {"proxy-aaaaaaaa", HTTP_FIELD_PROXY},
        {"proxy-aaaaaaaaaaa", HTTP_FIELD_PROXY},
        {"TE", HTTP_FIELD_TE},
        {"tE", HTTP_FIELD_TE},
        {"Trailer", HTTP_FIELD_TRAILER},
        {"Authorization", HTTP_FIELD_AUTHORIZATION},
        {"X-Request-ID", HTTP_FIELD_REQUEST_ID},
        {"x-session-id", HTTP_FIELD_SESSION_ID},
        {"X-KVASIR-a", HTTP_FIELD_KVASIR},
        {"x-kvasir-ab", HTTP_FIELD_KVASIR},
        {"x-kvasir-abc", HTTP_FIELD_KVASIR},
        {"x-kvasir-node", HTTP_FIELD_KVASIR},
        {"x-kvasir-nodes", HTTP_FIELD_KVASIR},
        {"x-kvasir-overlaps", HTTP_FIELD_KVASIR},
        {"proxy-", HTTP_FIELD_OTHER},
        {"x-kvasir-", HTTP_FIELD_OTHER},
        {"x-kvasir", HTTP_FIELD_OTHER},
        {"xte", HTTP_FIELD_OTHER},
        {"TF", HTTP_FIELD_OTHER},
        {"Hosts", HTTP_FIELD_OTHER},
        {"Most", HTTP_FIELD_OTHER},
        {"Content_Length", HTTP_FIELD_OTHER},
        {"Content-Lengt", HTTP_FIELD_OTHER},
        {"Content-Lengths", HTTP_FIELD_OTHER},
        {"Kontent-Length", HTTP_FIELD_OTHER},
        {"Transfer-Encodinh", HTTP_FIELD_OTHER},
        {"Transfer-EncodinG.", HTTP_FIELD_OTHER},
        {"X-Request_ID", HTTP_FIELD_OTHER},
        {"connectiom", HTTP_FIELD_OTHER},
        {"upgradf", HTTP_FIELD_OTHER},
        {"trailes", HTTP_FIELD_OTHER},
        {"Accept", HTTP_FIELD_OTHER},
        {"User-Agent", HTTP_FIELD_OTHER},
        {"x", HTTP_FIELD_OTHER},
    };

    for (size_t i = 0; i < HTTP_CASES_COUNT(rows); i++) {
        char text[100];
        int len =
            snprintf(text, sizeof(text),
                     "HTTP/1.1 204 X\r\nA: b\r\n%s:0\r\n\r\n", rows[i].name);
        struct slice bytes = {.ptr = text, .len = (size_t)len};

        if (rows[i].field == HTTP_FIELD_TRANSFER_ENCODING) {
            continue; /* its value is judged: see below */
        }
        cr_assert_eq(parse_response(bytes), 0, "%s: %s", rows[i].name,
                     head.fault);
        cr_assert_eq(head.headers[1].field, rows[i].field, "%s", rows[i].name);
        cr_assert_eq(http_head_find(&head, rows[i].field),
                     &head.headers[rows[i].field == HTTP_FIELD_OTHER ? 0 : 1]);
    }
    cr_assert_eq(parse_response(OK("transFer-encOding: chunked\r\n")), 0);
    cr_assert_eq(head.headers[0].field, HTTP_FIELD_TRANSFER_ENCODING);
}

Test(node_http_head, connections_are_kept_as_version_and_header_say)
{
    static const struct {
        const char *head;
        bool keep_alive;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, ,\tCLOSE\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nA: b\r\n"
         "Connection: close\r\n\r\n",
         false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n"
         "\r\n",
         false},
    };

    for (size_t i = 0; i < HTTP_CASES_COUNT(rows); i++) {
        cr_assert_eq(parse_request(slice_of(rows[i].head)), 0);
        cr_assert_eq(head.keep_alive, rows[i].keep_alive, "%s", rows[i].head);
    }
    cr_assert_eq(parse_response(OK("")), 0);
    cr_assert(!head.keep_alive, "a body that ends with its connection");
    cr_assert_eq(parse_response(OK("Content-Length: 0\r\n")), 0);
    cr_assert(head.keep_alive);
    cr_assert_eq(parse_response(SLICE("HTTP/1.1 101 X\r\n\r\n")), 0);
    cr_assert(!head.keep_alive, "another protocol follows");
}

Test(node_http_head, expecting_matters_where_a_body_follows)
{
    cr_assert_eq(parse_request(GET("Expect: 100-continue\r\n"
                                   "Content-Length: 1\r\n")),
                 0);
    cr_assert(head.expect_continue);
    cr_assert_eq(parse_request(GET("Expect: 100-continue\r\n"
                                   "Transfer-Encoding: chunked\r\n")),
                 0);
    cr_assert(head.expect_continue);
    cr_assert_eq(parse_request(GET("Expect: 100-continue\r\n")), 0);
    cr_assert(!head.expect_continue);
    cr_assert_eq(parse_request(SLICE("POST / HTTP/1.0\r\nContent-Length: 1\r\n"
                                     "Expect: 100-continue\r\n\r\n")),
                 0);
    cr_assert(!head.expect_continue);
}

Test(node_http_head, upgrade_needs_both_headers_and_version_1_1)
{
    cr_assert_eq(parse_request(GET("Connection: a, UPGRADE\r\nUpgrade: b\r\n")),
                 0);
    cr_assert(head.upgrade);
    cr_assert_eq(parse_request(GET("Upgrade: b\r\n")), 0);
    cr_assert(!head.upgrade);
    cr_assert_eq(parse_request(GET("Connection: upgrade\r\n")), 0);
    cr_assert(!head.upgrade);
    cr_assert_eq(parse_request(SLICE("GET / HTTP/1.0\r\nUpgrade: b\r\n"
                                     "Connection: upgrade\r\n\r\n")),
                 0);
    cr_assert(!head.upgrade);
}

Test(node_http_head, answers_to_HEAD_have_no_body_but_valid_headers)
{
    cr_assert_eq(parse(OK("Content-Length: 5\r\n"), true, HTTP_HEAD), 0);
    cr_assert_eq(head.body, HTTP_BODY_NONE);
    cr_assert_eq(head.content_length, 0);
    cr_assert(head.keep_alive);
    cr_assert_eq(parse(OK("Transfer-Encoding: chunked\r\n"), true, HTTP_HEAD),
                 0);
    cr_assert_eq(head.body, HTTP_BODY_NONE);
    cr_assert_eq(parse(OK("Content-Length: x\r\n"), true, HTTP_HEAD),
                 HTTP_E_BAD);
}

Test(node_http_head, hop_by_hop_headers_are_told_from_the_rest)
{
    static const struct {
        const char *name;
        bool hop;
    } rows[] = {
        {"connection", true},
        {"keep-alive", true},
        {"te", true},
        {"upgrade", true},
        {"proxy-connection", true},
        {"transfer-encoding", true},
        {"x-a", true},
        {"x-b", true},
        {"x-kvasir-c", true},
        {"host", false},
        {"x-ab", false},
        {"trailer", false},
        {"content-type", false},
    };

    cr_assert_eq(
        parse_request(GET("Connection: X-A, host, content-type\r\n"
                          "Keep-Alive: 1\r\nTE: a\r\n"
                          "Upgrade: u\r\nProxy-Connection: p\r\nx-a: 1\r\n"
                          "X-B: 1\r\nX-Kvasir-C: 1\r\nx-ab: 1\r\nTrailer: 1\r\n"
                          "Content-Type: 1\r\nTransfer-Encoding: chunked\r\n"
                          "connection: x-b,x-kvasir-c\r\n")),
        0, "%s", head.fault);
    for (size_t i = 0; i < HTTP_CASES_COUNT(rows); i++) {
        const struct http_header *header =
            http_head_find_name(&head, slice_of(rows[i].name));

        cr_assert_not_null(header, "%s", rows[i].name);
        cr_assert_eq(http_head_is_hop(&head, header), rows[i].hop, "%s",
                     rows[i].name);
    }
    cr_assert_eq(parse_request(GET("Connection: Content-Length\r\n"
                                   "Content-Length: 1\r\n")),
                 0);
    cr_assert(!http_head_is_hop(
        &head, http_head_find(&head, HTTP_FIELD_CONTENT_LENGTH)));
}

/* A request of these sizes with these limits: outcome and fault_status. */
static void
expect_limited(size_t target, size_t headers, const struct http_limits *limits,
               int outcome, unsigned status)
{
    struct buf wire;

    buf_init(&wire, 65536);
    buf_add_text(&wire, "GET /");
    for (size_t i = 1; i < target; i++) {
        buf_add_text(&wire, "t");
    }
    buf_add_text(&wire, " HTTP/1.0\r\n");
    for (size_t i = 0; i < headers; i++) {
        buf_add_text(&wire, "a: b\r\n");
    }
    buf_add_text(&wire, "\r\n");
    cr_assert_eq(http_head_parse_request(wire.ptr, wire.len, limits, &head),
                 outcome);
    cr_assert_eq(head.fault_status, status);
    buf_fini(&wire);
}

Test(node_http_head, targets_headers_and_heads_are_bounded)
{
    struct http_limits limits = {
        .head_bytes_max = 200, .target_bytes_max = 50, .headers_max = 10};

    expect_limited(50, 10, &limits, 0, 0);
    expect_limited(51, 10, &limits, HTTP_E_LIMIT, 414);
    expect_limited(50, 11, &limits, HTTP_E_LIMIT, 431);
    /* The first of them is 4 + 50 + 11 + 60 + 2 bytes. */
    limits.head_bytes_max = 127;
    expect_limited(50, 10, &limits, 0, 0);
    limits.head_bytes_max = 126;
    expect_limited(50, 10, &limits, HTTP_E_LIMIT, 431);
    limits.headers_max = HTTP_HEADERS_MAX;
    limits.head_bytes_max = 8192;
    expect_limited(50, HTTP_HEADERS_MAX, &limits, 0, 0);
    cr_assert_eq(head.headers_count, HTTP_HEADERS_MAX);
    expect_limited(50, HTTP_HEADERS_MAX + 1, &limits, HTTP_E_LIMIT, 431);
}

/* A head with two lines of Connection, of commas: outcome and fault_status. */
static void
expect_connection(const char *first, size_t one, size_t other, int outcome,
                  unsigned status)
{
    bool response = first[0] == 'H';
    char commas[600];
    struct buf wire;

    memset(commas, ',', sizeof(commas));
    buf_init(&wire, 8192);
    buf_printf(&wire,
               "%s\r\nConnection: %.*s\r\nA: b\r\nconnection: %.*s\r\n\r\n",
               first, (int)one, commas, (int)other, commas);
    cr_assert_eq(parse(buf_slice(&wire), response, HTTP_GET), outcome);
    cr_assert_eq(head.fault_status, status);
    buf_fini(&wire);
}

Test(node_http_head, what_connection_lists_is_bounded)
{
    expect_connection("GET / HTTP/1.0", 512, 0, 0, 0);
    expect_connection("GET / HTTP/1.0", 256, 256, 0, 0);
    expect_connection("GET / HTTP/1.0", 513, 0, HTTP_E_LIMIT, 431);
    expect_connection("GET / HTTP/1.0", 256, 257, HTTP_E_LIMIT, 431);
    expect_connection("HTTP/1.1 200 OK", 256, 256, 0, 0);
    expect_connection("HTTP/1.1 200 OK", 256, 257, HTTP_E_LIMIT, 502);
}

Test(node_http_head, a_limit_is_found_before_the_head_is_whole)
{
    struct http_limits limits = {
        .head_bytes_max = 20, .target_bytes_max = 8, .headers_max = 1};

    cr_assert_eq(http_head_parse_request("GET /12345678", 13, &limits, &head),
                 HTTP_E_LIMIT);
    cr_assert_eq(head.fault_status, 414);
    cr_assert_eq(
        http_head_parse_request("GET / HTTP/1.1\r\nHost", 20, &limits, &head),
        HTTP_E_LIMIT);
    cr_assert_eq(head.fault_status, 431);
    cr_assert_eq(
        http_head_parse_request("GET / HTTP/1.1\r\nHos", 19, &limits, &head),
        HTTP_E_MORE);
    cr_assert_eq(http_head_parse_response("HTTP/1.1 200 OK\r\nA: b", 21,
                                          &limits, HTTP_GET, &head),
                 HTTP_E_LIMIT);
    cr_assert_eq(head.fault_status, 502);
}

Test(node_http_head, a_fault_is_placed)
{
    cr_assert_eq(parse_request(SLICE("GET / HTTP/1.0\r\nX: a\nb\r\n\r\n")),
                 HTTP_E_BAD);
    cr_assert_eq(head.fault_at, 20);
    cr_assert_eq(parse_request(GET("Content-Length: 12x\r\n")), HTTP_E_BAD);
    cr_assert_eq(head.fault_at, 43);
}
