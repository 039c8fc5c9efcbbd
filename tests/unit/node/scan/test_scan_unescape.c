#include <criterion/criterion.h>
#include <stdlib.h>

#include "index/base/rng.h"
#include "index/base/slice.h"
#include "node/scan/scan.h"

/* In memory that ends with the text. */
static void
unescape(const char *raw, const char *want)
{
    size_t len = strlen(raw);
    size_t count;
    char *from = malloc(len + 1);
    char *to = malloc(len + 1);

    cr_assert(from != NULL && to != NULL);
    memcpy(from + 1, raw, len);
    count = scan_unescape(from + 1, len, to + 1);
    cr_assert(count <= len);
    cr_assert_eq(count, strlen(want), "%s: %zu bytes", raw, count);
    cr_assert_eq(memcmp(to + 1, want, count), 0, "%s", raw);
    cr_assert_eq(memcmp(from + 1, raw, len), 0);
    free(from);
    free(to);
}

Test(node_scan_unescape, text_without_escapes_is_itself)
{
    unescape("", "");
    unescape("abc \u4e2d\u6587", "abc \u4e2d\u6587");
}

Test(node_scan_unescape, every_escape)
{
    unescape("\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t");
    unescape("a\\nb\\\\nc", "a\nb\\nc");
    unescape("\\\\\\\\\\\\", "\\\\\\");
}

Test(node_scan_unescape, unicode_in_one_to_four_bytes)
{
    unescape("\\u0041\\u007f", "A\x7f");
    unescape("\\u0080\\u07FF", "\xC2\x80\xDF\xBF");
    unescape("\\u0800\\uFFFF\\uffff", "\xE0\xA0\x80\xEF\xBF\xBF\xEF\xBF\xBF");
    unescape("\\uD800\\uDC00\\uDBFF\\uDFFF",
             "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
    unescape("\\ud83d\\ude00!", "\U0001F600!");
    unescape("\\uABcd\\uefAB", "\xEA\xAF\x8D\xEE\xBE\xAB");
}

Test(node_scan_unescape, lone_surrogate_is_the_replacement_character)
{
    unescape("\\uD800", "\uFFFD");
    unescape("\\uDC00x", "\uFFFDx");
    unescape("\\uD800\\uD800\\uDC00", "\uFFFD\xF0\x90\x80\x80");
    unescape("\\uD800\\n", "\uFFFD\n");
    unescape("\\uD800\\u0041", "\uFFFDA");
    unescape("\\uD800uDC00", "\uFFFDuDC00");
    unescape("\\uDC00\\uD800", "\uFFFD\uFFFD");
}

Test(node_scan_unescape, null_character_is_a_byte)
{
    char out[16];

    cr_assert_eq(scan_unescape("a\\u0000b", 8, out), 3);
    cr_assert_eq(memcmp(out, "a\0b", 3), 0);
}

Test(node_scan_unescape, long_runs_between_escapes_stay_whole)
{
    char raw[512];
    char want[512];

    for (unsigned run = 0; run < 130; run++) {
        size_t at = 0;
        size_t to = 0;
        for (unsigned k = 0; k < 3; k++) {
            memset(raw + at, 'a' + (int)k, run);
            memset(want + to, 'a' + (int)k, run);
            at += run;
            to += run;
            memcpy(raw + at, "\\n", 2);
            want[to++] = '\n';
            at += 2;
        }
        raw[at] = '\0';
        want[to] = '\0';
        unescape(raw, want);
    }
}

/* Whatever the pieces, they make up the whole. */
static void
pieces_make(const char *raw, size_t len)
{
    static char want[65536];
    static char got[65536];
    char room[SCAN_PIECE_BYTES];
    struct slice left = {.ptr = raw, .len = len};
    size_t count = scan_unescape(raw, len, want);
    size_t at = 0;

    for (;;) {
        struct slice piece = scan_unescape_next(&left, room);
        if (piece.len == 0) {
            break;
        }
        cr_assert((piece.ptr[0] & 0xC0) != 0x80, "%.*s", (int)len, raw);
        memcpy(got + at, piece.ptr, piece.len);
        at += piece.len;
    }
    cr_assert_eq(left.len, 0);
    cr_assert_eq(at, count);
    cr_assert_eq(memcmp(got, want, count), 0, "%.*s", (int)len, raw);
}

Test(node_scan_unescape, pieces_tear_no_character)
{
    static const char *const kinds[] = {"\\ud83d", "\\ud83d",   "\\ude00",
                                        "\\ude00", "\\n",       "plain",
                                        "\u00e4",  "\U0001f600"};
    static char raw[8192];
    struct rng rng;

    rng_init(&rng, 1);
    for (unsigned round = 0; round < 1000; round++) {
        uint64_t count = rng_below(&rng, 900);
        uint64_t odds = 4 + rng_below(&rng, 5);
        size_t len = 0;
        for (uint64_t i = 0; i < count; i++) {
            const char *kind = kinds[rng_below(&rng, odds)];
            memcpy(raw + len, kind, strlen(kind));
            len += strlen(kind);
        }
        pieces_make(raw, len);
    }
}
