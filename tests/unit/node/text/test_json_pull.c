#include <criterion/criterion.h>
#include <stdio.h>

#include "node/text/json_pull.h"

static struct json_pull pull;

/* Letters for the tokens of a document, ! for a fault: {k"...}. */
static const char *
tokens_of(const char *text)
{
    static const char letters[] = ".{}[]k\"0tfn";
    static char seen[256];
    size_t count = 0;
    enum pull_token token;

    json_pull_init(&pull, slice_of(text));
    do {
        token = json_pull_next(&pull);
        seen[count++] = token == PULL_BAD ? '!' : letters[token];
    } while (token > PULL_END && count < sizeof seen - 1);
    seen[count] = '\0';
    return seen;
}

Test(node_json_pull, yields_the_tokens_of_a_document)
{
    cr_assert_str_eq(tokens_of(" { \"a\" : [ 1 , -2.5e+3, true ] ,\r\n\t"
                               "\"b\":{}, \"c\":null, \"d\":[] } "),
                     "{k[00t]k{}knk[]}.");
    cr_assert_str_eq(tokens_of("\"\""), "\".");
    cr_assert_str_eq(tokens_of("0"), "0.");
    cr_assert_str_eq(tokens_of("false"), "f.");
}

Test(node_json_pull, refuses_what_is_not_json)
{
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "[",
        "}",
        "]",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{1:1}",
        "[1 2]",
        "[1}",
        "{\"a\":1]",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "0x1",
        "nul",
        "True",
        "NaN",
        "\"\t\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u123",
        "\"abc",
        "\"\\",
        "1 1",
        "[] []",
        "{,}",
        "[,1]",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *seen = tokens_of(bad[i]);
        cr_assert_eq(seen[strlen(seen) - 1], '!', "%s gave %s", bad[i], seen);
        cr_assert_not_null(pull.fault);
        cr_assert_leq(pull.at, strlen(bad[i]) + 2);
        cr_assert_eq(json_pull_next(&pull), PULL_BAD);
    }
}

Test(node_json_pull, depth_is_bounded)
{
    char text[2 * JSON_PULL_DEPTH_MAX + 3];

    memset(text, '[', JSON_PULL_DEPTH_MAX);
    memset(text + JSON_PULL_DEPTH_MAX, ']', JSON_PULL_DEPTH_MAX);
    text[sizeof text - 3] = '\0';
    const char *seen = tokens_of(text);
    cr_assert_eq(seen[strlen(seen) - 1], '.');
    memset(text, '[', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    cr_assert_eq(strlen(tokens_of(text)), JSON_PULL_DEPTH_MAX + 1);
    cr_assert_str_eq(pull.fault, "nested too deep");
}

Test(node_json_pull, skips_the_value_of_a_key_and_the_rest_of_a_container)
{
    json_pull_init(&pull, SLICE("{\"a\":{\"x\":[1,{}]},\"b\":[[2]],\"c\":3}"));
    cr_assert_eq(json_pull_next(&pull), PULL_OBJECT);
    cr_assert_eq(json_pull_next(&pull), PULL_KEY);
    cr_assert(json_pull_skip(&pull));
    cr_assert_eq(json_pull_next(&pull), PULL_KEY);
    cr_assert(json_pull_is(&pull, SLICE("b")));
    cr_assert_eq(json_pull_next(&pull), PULL_ARRAY);
    cr_assert(json_pull_skip(&pull));
    cr_assert_eq(json_pull_next(&pull), PULL_KEY);
    cr_assert_eq(json_pull_next(&pull), PULL_NUMBER);
    cr_assert(json_pull_skip(&pull)); /* of a scalar: nothing */
    cr_assert_eq(json_pull_next(&pull), PULL_OBJECT_END);
    cr_assert_eq(json_pull_next(&pull), PULL_END);

    json_pull_init(&pull, SLICE("[1,2"));
    cr_assert_eq(json_pull_next(&pull), PULL_ARRAY);
    cr_assert_not(json_pull_skip(&pull));
    cr_assert_not(json_pull_skip(&pull));
}

static int
copy_of(const char *text, char *out, size_t room)
{
    json_pull_init(&pull, slice_of(text));
    cr_assert_eq(json_pull_next(&pull), PULL_STRING);
    return json_pull_copy(&pull, out, room);
}

Test(node_json_pull, copies_unescaped)
{
    char out[64];

    cr_assert_eq(copy_of("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", out, 64), 8);
    cr_assert_str_eq(out, "\"\\/\b\f\n\r\t");
    cr_assert_eq(copy_of("\"\\u00e9\\u20AC\\ud83d\\ude00\"", out, 64), 9);
    cr_assert_str_eq(out, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    cr_assert_eq(copy_of("\"\\ud83dx\\ude00\\ud83d\\u0041\"", out, 64), 11);
    cr_assert_str_eq(out, "\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd"
                          "A");
    cr_assert_eq(copy_of("\"abc\"", out, 4), 3);
    cr_assert_eq(copy_of("\"abc\"", out, 3), -1);
    cr_assert_eq(copy_of("\"\"", out, 1), 0);
    cr_assert_eq(copy_of("\"\"", out, 0), -1);
    cr_assert_eq(copy_of("\"a\\u0000b\"", out, 64), -1);
}

static const char *
copied(const char *text)
{
    static char copy[16];

    json_pull_init(&pull, slice_of(text));
    cr_assert_eq(json_pull_next(&pull), PULL_STRING);
    cr_assert_geq(json_pull_copy(&pull, copy, sizeof copy), 0);
    return copy;
}

Test(node_json_pull, code_points_take_as_few_bytes_as_they_need)
{
    cr_assert_str_eq(copied("\"\\u007f\""), "\x7f");
    cr_assert_str_eq(copied("\"\\u0080\""), "\xc2\x80");
    cr_assert_str_eq(copied("\"\\u07ff\""), "\xdf\xbf");
    cr_assert_str_eq(copied("\"\\u0800\""), "\xe0\xa0\x80");
    cr_assert_str_eq(copied("\"\\uffff\""), "\xef\xbf\xbf");
    cr_assert_str_eq(copied("\"\\ud800\\udc00\""), "\xf0\x90\x80\x80");
}

Test(node_json_pull, each_string_says_for_itself_whether_it_has_escapes)
{
    json_pull_init(&pull, SLICE("[\"\\n\",\"n\"]"));
    cr_assert_eq(json_pull_next(&pull), PULL_ARRAY);
    cr_assert_eq(json_pull_next(&pull), PULL_STRING);
    cr_assert(pull.escaped);
    cr_assert_eq(json_pull_next(&pull), PULL_STRING);
    cr_assert_not(pull.escaped);
}

Test(node_json_pull, compares_unescaped)
{
    json_pull_init(&pull, SLICE("{\"\\u0069d\":1}"));
    cr_assert_eq(json_pull_next(&pull), PULL_OBJECT);
    cr_assert_eq(json_pull_next(&pull), PULL_KEY);
    cr_assert(json_pull_is(&pull, SLICE("id")));
    cr_assert_not(json_pull_is(&pull, SLICE("i")));
    cr_assert_not(json_pull_is(&pull, SLICE("idx")));
    cr_assert_not(json_pull_is(&pull, SLICE("Id")));
}

static bool
uint_of(const char *text, uint64_t max, uint64_t *value)
{
    json_pull_init(&pull, slice_of(text));
    cr_assert_eq(json_pull_next(&pull), PULL_NUMBER);
    return json_pull_uint(&pull, max, value);
}

Test(node_json_pull, integers_are_bounded)
{
    uint64_t value;

    cr_assert(uint_of("0", 0, &value) && value == 0);
    cr_assert(uint_of("65535", 65535, &value) && value == 65535);
    cr_assert_not(uint_of("65536", 65535, &value));
    cr_assert_not(uint_of("7", 6, &value));
    cr_assert(uint_of("18446744073709551615", UINT64_MAX, &value));
    cr_assert_eq(value, UINT64_MAX);
    cr_assert_not(uint_of("18446744073709551616", UINT64_MAX, &value));
    cr_assert_not(uint_of("-1", 10, &value));
    cr_assert_not(uint_of("1.0", 10, &value));
    cr_assert_not(uint_of("1e1", 10, &value));
}

/* Eight bytes of ASCII are passed at once, and characters of three bytes. */
Test(node_json_pull, finds_every_byte_of_a_string_wherever_it_is)
{
    static const char *const fill[] = {"aaaaaaaaaaaaaaaaaaaaaaaaaa",
                                       "日日日日日日日日日"};

    for (size_t f = 0; f < 2; f++) {
        for (unsigned c = 0; c < 256; c++) {
            for (size_t at = 0; at <= 21; at += f == 0 ? 1 : 3) {
                char text[40] = "\"";
                size_t len = strlen(fill[f]);
                memcpy(text + 1, fill[f], at);
                text[1 + at] = (char)c;
                memcpy(text + 2 + at, fill[f] + at, len - at);
                text[2 + len] = '"';
                json_pull_init(&pull, (struct slice){text, len + 3});
                enum pull_token token = json_pull_next(&pull);
                bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
                cr_assert_eq(token == PULL_STRING, plain || c == '"',
                             "byte %u at %zu", c, at);
                cr_assert_eq(plain || c == '"' ? pull.text.len : pull.at - 1,
                             plain       ? len + 1
                             : c == '\\' ? at + 2 /* behind the escape */
                                         : at,
                             "byte %u at %zu", c, at);
            }
        }
    }
}

Test(node_json_pull, takes_no_broken_character_of_three_bytes)
{
    static const char *const broken[] = {"\xe0\x80\x80", "\xed\xa0\x80",
                                         "\xe6\x97", "\xe6\x97\x20"};

    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char text[40];
        (void)snprintf(text, sizeof text, "\"日日日%s日日日\"", broken[i]);
        json_pull_init(&pull, slice_of(text));
        cr_assert_eq(json_pull_next(&pull), PULL_BAD);
        cr_assert_str_eq(pull.fault, "not UTF-8");
        cr_assert_eq(pull.at, 10);
    }
}
