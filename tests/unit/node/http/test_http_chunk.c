#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>

#include "index/base/buf.h"
#include "node/http/http_chunk.h"
#include "tests/unit/node/http/http_chunk_cases.h"

#define DATA_MAX 8192

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Copies bytes to a block of just that size (so that a byte read beyond it is
 * a sanitizer's report), feeds it to both functions, and has them agree.
 */
static int
feed(struct http_chunk *next, struct http_chunk *walk, struct slice bytes,
     struct buf *data, size_t *taken)
{
    char *copy = malloc(bytes.len != 0 ? bytes.len : 1);
    struct slice in = {.ptr = copy, .len = bytes.len};
    struct slice piece;
    size_t walked;
    int outcome;

    cr_assert_not_null(copy);
    memcpy(copy, bytes.ptr, bytes.len);
    while ((outcome = http_chunk_next(next, &in, &piece)) ==
           HTTP_CHUNK_E_DATA) {
        cr_assert_gt(piece.len, 0);
        buf_add_slice(data, piece);
    }
    cr_assert_eq(piece.len, 0);
    *taken = bytes.len - in.len;
    cr_assert_eq(http_chunk_walk(walk, copy, bytes.len, &walked), outcome);
    cr_assert_eq(walked, *taken);
    cr_assert_eq(next->state, walk->state);
    cr_assert_eq(next->fault, walk->fault);
    free(copy);
    return outcome;
}

/* Feeds bytes cut at the two places; *taken counts over all pieces. */
static int
feed_cut(struct slice bytes, size_t a, size_t b, struct buf *data,
         size_t *taken)
{
    struct http_chunk next = {0};
    struct http_chunk walk = {0};
    size_t cuts[] = {0, a, b, bytes.len};
    int outcome = HTTP_CHUNK_E_MORE;

    *taken = 0;
    for (size_t i = 0; i < 3 && outcome == HTTP_CHUNK_E_MORE; i++) {
        struct slice part = {.ptr = bytes.ptr + cuts[i],
                             .len = cuts[i + 1] - cuts[i]};
        size_t used;

        outcome = feed(&next, &walk, part, data, &used);
        *taken += used;
    }
    return outcome;
}

Test(node_http_chunk, a_body_is_decoded_wherever_it_is_cut)
{
    for (size_t i = 0; i < COUNT(http_chunk_goods); i++) {
        size_t len = http_chunk_goods[i].body.len;

        for (size_t a = 0; a <= len; a++) {
            for (size_t b = a; b <= len; b += len > 100 ? 7 : 1) {
                struct buf data;
                size_t taken;
                int outcome;

                buf_init(&data, DATA_MAX);
                outcome =
                    feed_cut(http_chunk_goods[i].body, a, b, &data, &taken);
                cr_assert_eq(outcome, 0, "%s at %zu, %zu",
                             http_chunk_goods[i].name, a, b);
                cr_assert_eq(taken, len, "%s", http_chunk_goods[i].name);
                cr_assert(
                    slice_equal(buf_slice(&data), http_chunk_goods[i].data),
                    "%s", http_chunk_goods[i].name);
                buf_fini(&data);
            }
        }
    }
}

Test(node_http_chunk, every_prefix_of_a_body_wants_more)
{
    for (size_t i = 0; i < COUNT(http_chunk_goods); i++) {
        for (size_t len = 0; len < http_chunk_goods[i].body.len; len++) {
            struct slice prefix = {.ptr = http_chunk_goods[i].body.ptr,
                                   .len = len};
            struct http_chunk next = {0};
            struct http_chunk walk = {0};
            struct buf data;
            size_t taken;

            buf_init(&data, DATA_MAX);
            cr_assert_eq(feed(&next, &walk, prefix, &data, &taken),
                         HTTP_CHUNK_E_MORE, "%s up to %zu",
                         http_chunk_goods[i].name, len);
            cr_assert_eq(taken, len);
            buf_fini(&data);
        }
    }
}

Test(node_http_chunk, what_follows_the_body_is_left)
{
    for (size_t i = 0; i < COUNT(http_chunk_goods); i++) {
        struct http_chunk next = {0};
        struct http_chunk walk = {0};
        struct buf wire;
        struct buf data;
        size_t taken;

        buf_init(&wire, DATA_MAX);
        buf_init(&data, DATA_MAX);
        buf_add_slice(&wire, http_chunk_goods[i].body);
        buf_add_text(&wire, "GET / HTTP/1.1\r\n");
        for (int again = 0; again < 2; again++) {
            cr_assert_eq(feed(&next, &walk, buf_slice(&wire), &data, &taken), 0,
                         "%s", http_chunk_goods[i].name);
            cr_assert_eq(taken, again == 0 ? http_chunk_goods[i].body.len : 0);
        }
        buf_fini(&wire);
        buf_fini(&data);
    }
}

Test(node_http_chunk, what_is_wrong_is_refused_at_its_byte_wherever_it_is_cut)
{
    for (size_t i = 0; i < COUNT(http_chunk_wrongs); i++) {
        size_t len = http_chunk_wrongs[i].bytes.len;

        for (size_t a = 0; a <= len; a++) {
            struct buf data;
            size_t taken;
            int outcome;

            buf_init(&data, DATA_MAX);
            outcome =
                feed_cut(http_chunk_wrongs[i].bytes, a, len, &data, &taken);
            cr_assert_eq(outcome, HTTP_CHUNK_E_BAD, "%s cut at %zu",
                         http_chunk_wrongs[i].name, a);
            cr_assert_eq(taken, http_chunk_wrongs[i].at, "%s: at %zu",
                         http_chunk_wrongs[i].name, taken);
            buf_fini(&data);
        }
    }
}

Test(node_http_chunk, a_refusal_lasts_and_names_its_reason)
{
    struct http_chunk chunk = {0};
    const char *fault;
    size_t taken;

    cr_assert_eq(http_chunk_walk(&chunk, "x", 1, &taken), HTTP_CHUNK_E_BAD);
    cr_assert_not_null(chunk.fault);
    fault = chunk.fault;
    cr_assert_eq(http_chunk_walk(&chunk, "", 0, &taken), HTTP_CHUNK_E_BAD);
    cr_assert_eq(http_chunk_walk(&chunk, "0\r\n\r\n", 5, &taken),
                 HTTP_CHUNK_E_BAD);
    cr_assert_eq(taken, 0);
    cr_assert_eq(chunk.fault, fault);
}

Test(node_http_chunk, a_size_of_16_digits_is_all_of_64_bits)
{
    struct http_chunk chunk = {0};
    size_t taken;

    cr_assert_eq(http_chunk_walk(&chunk, "FFFFFFFFFFFFFFFF\r\nab", 20, &taken),
                 HTTP_CHUNK_E_MORE);
    cr_assert_eq(taken, 20);
    cr_assert_eq(chunk.left, UINT64_MAX - 2);
}

/* head, then count times filler, then tail: the outcome at its end. */
static int
outcome_of_run(const char *head, char filler, size_t count, const char *tail)
{
    struct http_chunk chunk = {0};
    size_t taken;
    int outcome = http_chunk_walk(&chunk, head, strlen(head), &taken);

    for (size_t i = 0; i < count && outcome == HTTP_CHUNK_E_MORE; i++) {
        outcome = http_chunk_walk(&chunk, &filler, 1, &taken);
    }
    if (outcome == HTTP_CHUNK_E_MORE) {
        outcome = http_chunk_walk(&chunk, tail, strlen(tail), &taken);
    }
    return outcome;
}

Test(node_http_chunk, extensions_and_trailers_are_bounded)
{
    size_t trailer_max = HTTP_CHUNK_TRAILER_MAX - strlen("a:\r\n\r\n");

    cr_assert_eq(
        outcome_of_run("1;", 'e', HTTP_CHUNK_EXTENSION_MAX, "\r\nx\r\n"),
        HTTP_CHUNK_E_MORE);
    cr_assert_eq(
        outcome_of_run("1;", 'e', HTTP_CHUNK_EXTENSION_MAX + 1, "\r\nx\r\n"),
        HTTP_CHUNK_E_BAD);
    cr_assert_eq(outcome_of_run("0\r\na:", 'v', trailer_max, "\r\n\r\n"), 0);
    cr_assert_eq(outcome_of_run("0\r\na:", 'v', trailer_max + 1, "\r\n\r\n"),
                 HTTP_CHUNK_E_BAD);
    cr_assert_eq(outcome_of_run("0\r\n", 'n', 3 * HTTP_CHUNK_TRAILER_MAX, ""),
                 HTTP_CHUNK_E_BAD);
}

Test(node_http_chunk, each_size_line_has_room_for_its_own_extension)
{
    struct http_chunk chunk = {0};
    struct buf line;
    size_t taken;

    buf_init(&line, DATA_MAX);
    buf_add_text(&line, "1;");
    for (size_t i = 0; i < HTTP_CHUNK_EXTENSION_MAX; i++) {
        buf_add_text(&line, "e");
    }
    buf_add_text(&line, "\r\nx\r\n");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(http_chunk_walk(&chunk, line.ptr, line.len, &taken),
                     HTTP_CHUNK_E_MORE);
    }
    cr_assert_eq(http_chunk_walk(&chunk, "0\r\n\r\n", 5, &taken), 0);
    buf_fini(&line);
}
