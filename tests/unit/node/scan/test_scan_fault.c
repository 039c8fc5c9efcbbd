/* What the scanner refuses, why and where. */
#include "scan_try.h"

Test(node_scan_fault, offset_is_the_first_byte_that_cannot_go_on)
{
    try_fault("", SCAN_E_SYNTAX, 0);
    try_fault("  ", SCAN_E_SYNTAX, 2);
    try_fault("{", SCAN_E_SYNTAX, 1);
    try_fault("{\"a\"}", SCAN_E_SYNTAX, 4);
    try_fault("{\"a\":}", SCAN_E_SYNTAX, 5);
    try_fault("{\"a\":1,}", SCAN_E_SYNTAX, 7);
    try_fault("{,}", SCAN_E_SYNTAX, 1);
    try_fault("{1:2}", SCAN_E_SYNTAX, 1);
    try_fault("{\"a\":1 \"b\":2}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":1,2}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":1,\"b\"}", SCAN_E_SYNTAX, 10);
    try_fault("{\"a\"::1}", SCAN_E_SYNTAX, 5);
    try_fault("{\"a\":\"b\":1}", SCAN_E_SYNTAX, 8);
    try_fault("{\"a\":[1,]}", SCAN_E_SYNTAX, 8);
    try_fault("{\"a\":[,1]}", SCAN_E_SYNTAX, 6);
    try_fault("{\"a\":[\"b\":1]}", SCAN_E_SYNTAX, 9);
    try_fault("{\"a\":[1 2]}", SCAN_E_SYNTAX, 8);
    try_fault("{\"a\":[1}}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":1]", SCAN_E_SYNTAX, 6);
    try_fault("{\"a\":{}{}}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":[]\"b\"}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":\"b\"\"c\"}", SCAN_E_SYNTAX, 8);
}

Test(node_scan_fault, nothing_may_follow_the_object)
{
    try_fault("{}x", SCAN_E_SYNTAX, 2);
    try_fault("{} {}", SCAN_E_SYNTAX, 3);
    try_fault("{}}", SCAN_E_SYNTAX, 2);
    try_fault("{},{}", SCAN_E_SYNTAX, 2);
    try_fault("{}]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
              SCAN_E_SYNTAX, 2);
    try_fault("{}                                                             "
              "                                                          ,",
              SCAN_E_SYNTAX, 121);
    cr_assert_eq(try_body("{} \r\n\t ").outcome, 0);
}

Test(node_scan_fault, scalars)
{
    try_fault("{\"a\":tru}", SCAN_E_SYNTAX, 8);
    try_fault("{\"a\":truex}", SCAN_E_SYNTAX, 9);
    try_fault("{\"a\":True}", SCAN_E_SYNTAX, 5);
    try_fault("{\"a\":nul", SCAN_E_SYNTAX, 8);
    try_fault("{\"a\":NaN}", SCAN_E_SYNTAX, 5);
    try_fault("{\"a\":01}", SCAN_E_SYNTAX, 6);
    try_fault("{\"a\":-}", SCAN_E_SYNTAX, 6);
    try_fault("{\"a\":+1}", SCAN_E_SYNTAX, 5);
    try_fault("{\"a\":-01}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":1.}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":.5}", SCAN_E_SYNTAX, 5);
    try_fault("{\"a\":1e}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":1e+}", SCAN_E_SYNTAX, 8);
    try_fault("{\"a\":1.5.2}", SCAN_E_SYNTAX, 8);
    try_fault("{\"a\":0x1}", SCAN_E_SYNTAX, 6);
    try_fault("{\"a\":1_000}", SCAN_E_SYNTAX, 6);
    try_fault("{\"a\":[00]}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":123", SCAN_E_SYNTAX, 8);
    try_fault("{\"a\":'b'}", SCAN_E_SYNTAX, 5);
    try_fault("{\"a\":1\x01}", SCAN_E_SYNTAX, 6);
    try_fault("{\"a\":1\v}", SCAN_E_SYNTAX, 6);
}

Test(node_scan_fault, strings)
{
    try_fault("{\"a", SCAN_E_SYNTAX, 3);
    try_fault("{\"a\":\"b", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":\"b\\", SCAN_E_SYNTAX, 8);
    try_fault("{\"a\":\"b\\\"", SCAN_E_SYNTAX, 9);
    try_fault("{\"a\":\"\\x\"}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":\"\\\\\\x\"}", SCAN_E_SYNTAX, 9);
    try_fault("{\"a\":\"\\u12g4\"}", SCAN_E_SYNTAX, 10);
    try_fault("{\"a\":\"\\u12\"}", SCAN_E_SYNTAX, 10);
    try_fault("{\"a\":\"\\U0041\"}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":\"\n\"}", SCAN_E_SYNTAX, 6);
    try_fault("{\"a\":\"x\x1f\"}", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\\\":1}", SCAN_E_SYNTAX, 8);
    try_fault("{\\\"a\":1}", SCAN_E_SYNTAX, 1);
    try_fault("{\"a\":1}\\", SCAN_E_SYNTAX, 7);
    try_fault("{\"a\":\\\\}", SCAN_E_SYNTAX, 5);
    cr_assert_eq(
        try_body("{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uD800\x7f"
                 "\"}")
            .outcome,
        0);
}

Test(node_scan_fault, zero_bytes_are_refused)
{
    struct try try = try_slice(SLICE("{\"a\":\"x\0\"}"), &try_limits);
    cr_assert_eq(try.outcome, SCAN_E_SYNTAX);
    cr_assert_eq(try.scan.fault_at, 7);
    try = try_slice(SLICE("{\"a\":\"\\\0\"}"), &try_limits);
    cr_assert_eq(try.scan.fault_at, 7);
    try = try_slice(SLICE("{\"a\":1}\0"), &try_limits);
    cr_assert_eq(try.outcome, SCAN_E_SYNTAX);
    cr_assert_eq(try.scan.fault_at, 7);
}

static void
utf8(const char *text, int at)
{
    char body[64];

    snprintf(body, sizeof(body), "{\"a\":\"x%s\"}", text);
    if (at < 0) {
        (void)try_body(body);
    } else {
        try_fault(body, SCAN_E_SYNTAX, 7 + (size_t)at);
    }
}

Test(node_scan_fault, utf8_is_checked_to_its_edges)
{
    utf8("\xC2\x80\xDF\xBF", -1);
    utf8("\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF", -1);
    utf8("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", -1);
    utf8("\x80", 0);
    utf8("\xBF", 0);
    utf8("\xC0\x80", 0);
    utf8("\xC1\xBF", 0);
    utf8("\xC2", 1);
    utf8("\xC2\xC2\x80", 1);
    utf8("\xC2\x80\x80", 2);
    utf8("\xE0\x9F\xBF", 1);
    utf8("\xE1\x80", 2);
    utf8("\xE1\x80\xC0", 2);
    utf8("\xED\xA0\x80", 1);
    utf8("\xED\xBF\xBF", 1);
    utf8("\xF0\x8F\xBF\xBF", 1);
    utf8("\xF1\x80\x80", 3);
    utf8("\xF4\x90\x80\x80", 1);
    utf8("\xF5\x80\x80\x80", 0);
    utf8("\xFF", 0);
    utf8("\xFE", 0);
    try_fault("{\"a\":\xC2\xA0 1}", SCAN_E_SYNTAX, 5);
    try_fault("\xEF\xBB\xBF{}", SCAN_E_SYNTAX, 0);
    try_fault("{\"a\":\"\xE4\xB8", SCAN_E_SYNTAX, 8);
}

Test(node_scan_fault, what_is_json_but_no_object_has_its_own_name)
{
    try_fault("[]", SCAN_E_NOT_OBJECT, 0);
    try_fault(" \n\"x\"", SCAN_E_NOT_OBJECT, 2);
    try_fault("17", SCAN_E_NOT_OBJECT, 0);
    try_fault("null ", SCAN_E_NOT_OBJECT, 0);
    try_fault("[1", SCAN_E_SYNTAX, 2);
}

Test(node_scan_fault, depth_is_limited_at_the_bracket_too_many)
{
    char body[4096];

    for (unsigned depth = 14; depth < 1500; depth += depth < 20 ? 1 : 500) {
        memcpy(body, "{\"a\":", 5);
        memset(body + 5, '[', depth);
        memset(body + 5 + depth, ']', depth);
        memcpy(body + 5 + depth + depth, "}", 2);
        if (depth < 16) {
            (void)try_body(body);
        } else {
            try_fault(body, SCAN_E_DEPTH, 5 + 15);
        }
    }
}

Test(node_scan_fault, deepest_allowed_nesting_works)
{
    static char body[4096];
    struct scan_limits limits = {.depth_max = 1024, .spans_max = TRY_SPANS};
    const unsigned arrays = 1023;

    memcpy(body, "{\"a\":", 5);
    memset(body + 5, '[', arrays);
    memset(body + 5 + arrays, ']', arrays);
    memcpy(body + 5 + arrays + arrays, "}", 2);
    cr_assert_eq(try_slice(slice_of(body), &limits).outcome, 0);
    limits.depth_max = 1023;
    struct try try = try_slice(slice_of(body), &limits);
    cr_assert_eq(try.outcome, SCAN_E_DEPTH);
    cr_assert_eq(try.scan.fault_at, 5 + 1022);
}

/* Opens levels of this pattern of brackets, then closes them; the closing
 * bracket of level `wrong` is of the other kind. */
static size_t
nest(char *body, const char *pattern, unsigned levels, unsigned wrong)
{
    size_t len = 0;
    size_t kinds = strlen(pattern);

    for (unsigned i = 0; i < levels; i++) {
        bool object = pattern[i % kinds] == '{';
        len += (size_t)sprintf(body + len, object ? "{\"k\":" : "[1,");
    }
    len += (size_t)sprintf(body + len, "0");
    for (unsigned i = levels; i-- > 0;) {
        bool object = (pattern[i % kinds] == '{') != (i == wrong);
        len += (size_t)sprintf(body + len, object ? "}" : "]");
    }
    return len;
}

Test(node_scan_fault, brackets_match_at_every_depth)
{
    static const char *const patterns[] = {"{", "{[", "{{{[[", "{[[[[[[[[["};
    static const unsigned depths[] = {3, 63, 64, 65, 66, 127, 128, 129, 700};
    static char body[8192];
    struct scan_limits limits = {.depth_max = 1024, .spans_max = 1};

    for (unsigned p = 0; p < 4; p++) {
        for (unsigned d = 0; d < 9; d++) {
            size_t len = nest(body, patterns[p], depths[d], UINT32_MAX);
            struct slice s = {.ptr = body, .len = len};
            cr_assert_eq(try_slice(s, &limits).outcome, 0);
            for (unsigned wrong = 0; wrong < depths[d]; wrong += 31) {
                len = nest(body, patterns[p], depths[d], wrong);
                struct try try = try_slice(s, &limits);
                cr_assert_eq(try.outcome, SCAN_E_SYNTAX);
                cr_assert_eq(try.scan.fault_at, len - 1 - wrong);
            }
        }
    }
}

Test(node_scan_fault, brackets_behind_the_end_do_no_harm)
{
    static char body[8192];
    struct scan_limits limits = {.depth_max = 1024, .spans_max = 1};
    size_t len = nest(body, "{[", 66, UINT32_MAX);

    memset(body + len, ']', 70);
    memset(body + len + 70, '[', 200);
    struct try try =
        try_slice((struct slice){.ptr = body, .len = len + 270}, &limits);
    cr_assert_eq(try.outcome, SCAN_E_SYNTAX);
    cr_assert_eq(try.scan.fault_at, len);
}

Test(node_scan_fault, every_truncation_ends_too_early_at_its_end)
{
    const char *body =
        "{\"model\":\"a\\u00e9\\n\xE4\xB8\xAD\",\"messages\":[{\"role\":"
        "\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\"},{}]}],"
        "\"max_tokens\":-12.5e-3 , \"x\":[true,false,null,[],{\"y\":0}]}";

    for (size_t len = 0; len < strlen(body); len++) {
        struct try try =
            try_slice((struct slice){.ptr = body, .len = len}, &try_limits);
        cr_assert_eq(try.outcome, SCAN_E_SYNTAX, "%zu", len);
        cr_assert_eq(try.scan.fault_at, len, "%zu: %zu", len,
                     try.scan.fault_at);
    }
    (void)try_body(body);
}

/* Every kernel says of this text what the other judge says, wherever a block
 * ends in it. */
static void
judged_alike(const char *text, size_t len)
{
    const struct scan_kernel *kernel;
    struct scan_fault fault;
    char body[128];

    for (size_t pad = 54; pad <= 58; pad++) {
        size_t size = pad + 6 + len + 2;
        cr_assert_leq(size, sizeof(body));
        memset(body, ' ', pad);
        memcpy(body + pad, "{\"a\":\"", 6);
        memcpy(body + pad + 6, text, len);
        memcpy(body + pad + 6 + len, "\"}", 2);
        bool good = scan_fault_find(body, size, 4, &fault) == 0;
        for (unsigned i = 0; (kernel = scan_kernel_nth(i)) != NULL; i++) {
            struct scan scan = {.spans = NULL};
            struct scan_limits limits = {.depth_max = 4};
            if (kernel->usable()) {
                int outcome = scan_body_with(kernel, (struct slice){body, size},
                                             &limits, &scan);
                cr_assert_eq(outcome == 0, good, "%s: %02x %02x %zu, pad %zu",
                             kernel->name, (uint8_t)text[0], (uint8_t)text[1],
                             len, pad);
            }
        }
    }
}

Test(node_scan_fault, kernels_judge_every_lead_byte_alike)
{
    static const uint8_t edges[] = {'a',  0x7F, 0x80, 0x8F, 0x90, 0x9F,
                                    0xA0, 0xBF, 0xC0, 0xE0, 0xF0, 0xFF};

    for (unsigned lead = 0x80; lead <= 0xFF; lead++) {
        for (size_t i = 0; i < sizeof(edges); i++) {
            char text[] = {(char)lead, (char)edges[i], '\x80', '\xBF', '\x80'};
            for (size_t len = 2; len <= sizeof(text); len++) {
                judged_alike(text, len);
            }
        }
    }
}

Test(node_scan_fault, kernels_judge_every_escape_alike)
{
    for (unsigned c = 0; c <= 0xFF; c++) {
        char text[] = "\\u00e9\\";
        text[1] = (char)c;
        judged_alike(text, 2);
        judged_alike(text, 6);
        text[1] = 'u';
        text[2] = (char)c;
        judged_alike(text, 6);
        text[2] = '0';
        text[5] = (char)c;
        judged_alike(text, 6);
        judged_alike(text, 7);
    }
}
