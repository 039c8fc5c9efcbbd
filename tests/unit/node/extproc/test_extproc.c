/* Messages of external processing. The bytes of those that come were made by
 * Google's protobuf from Envoy's field numbers. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "node/extproc/extproc.h"
#include "node/extproc/grpc.h"
#include "node/extproc/pb_internal.h"

#define BYTES(literal) SLICE(literal)

/* {request_headers {headers {:path=/a, x=y (as text)} end_of_stream}
 *  metadata {envoy.lb: {k: "v"}} protocol_config {4, 1}} */
static const char head[] =
    "\x12\x19\x0a\x15\x0a\x0b\x0a\x05:path\x1a\x02/a\x0a\x06\x0a\x01x\x12\x01y"
    "\x18\x01"
    "\x42\x1b\x0a\x19\x0a\x08"
    "envoy.lb\x12\x0d\x0a\x0b\x0a\x01k\x12\x06\x1a\x04v, w"
    "\x5a\x04\x08\x04\x10\x01";

/* In a block of just that size: a byte read beyond it is a report. */
static int
read_copy(struct slice bytes, struct extproc_message *out)
{
    char *copy = malloc(bytes.len != 0 ? bytes.len : 1);

    cr_assert_not_null(copy);
    memcpy(copy, bytes.ptr, bytes.len);
    int outcome = extproc_read((struct slice){copy, bytes.len}, out);
    free(copy);
    return outcome;
}

static void
assert_text(struct slice got, const char *wanted)
{
    cr_assert(slice_equal(got, slice_of(wanted)), "%.*s, not %s", (int)got.len,
              got.ptr != NULL ? got.ptr : "", wanted);
}

Test(node_extproc, a_head_is_read)
{
    struct extproc_message m;
    struct extproc_texts texts;
    struct slice text;

    cr_assert_eq(extproc_read(SLICE(head), &m), 0);
    cr_assert_eq(m.part, EXTPROC_REQUEST_HEADERS);
    cr_assert(m.ends && m.modes && !m.observes);
    cr_assert_eq(m.request_mode, EXTPROC_DUPLEX);
    cr_assert_eq(m.response_mode, EXTPROC_STREAMED);
    assert_text(extproc_header_find(m.headers, ":path"), "/a");
    assert_text(extproc_header_find(m.headers, "x"), "y");
    assert_text(extproc_header_find(m.headers, "z"), "");
    cr_assert(extproc_texts_find(m.metadata, "envoy.lb", "k", &texts));
    cr_assert(extproc_texts_next(&texts, &text));
    assert_text(text, "v");
    cr_assert(extproc_texts_next(&texts, &text));
    assert_text(text, "w");
    cr_assert_not(extproc_texts_next(&texts, &text));
    cr_assert_not(extproc_texts_find(m.metadata, "envoy.lb", "l", &texts));
    cr_assert_not(extproc_texts_find(m.metadata, "envoy", "k", &texts));
}

Test(node_extproc, what_is_cut_off_is_bad)
{
    struct extproc_message m;
    size_t fields[] = {0, 27, 56, 62}; /* where whole fields end */
    size_t next = 0;

    for (size_t len = 0; len < sizeof head; len++) {
        bool whole = next < 4 && len == fields[next];
        next += whole;
        cr_assert_eq(read_copy((struct slice){head, len}, &m),
                     whole ? 0 : EXTPROC_E_BAD, "%zu", len);
    }
    cr_assert_eq(next, 4);
}

Test(node_extproc, what_is_bad_within_a_head_makes_it_bad)
{
    struct extproc_message m;

    /* A header that is longer than its map; a value longer than its header. */
    cr_assert_eq(read_copy(SLICE("\x12\x04\x0a\x02\x0a\x05"), &m),
                 EXTPROC_E_BAD);
    cr_assert_eq(read_copy(SLICE("\x12\x06\x0a\x04\x0a\x02\x1a\x05"), &m),
                 EXTPROC_E_BAD);
    cr_assert_eq(read_copy(SLICE("\x12\x06\x0a\x04\x0a\x02\x1a\x00"), &m), 0);
}

Test(node_extproc, bodies_and_their_ends_are_read)
{
    struct extproc_message m;

    cr_assert_eq(extproc_read(BYTES("\x22\x05\x0a\x03xyz"), &m), 0);
    cr_assert(m.part == EXTPROC_REQUEST_BODY && !m.ends);
    assert_text(m.body, "xyz");
    cr_assert_eq(extproc_read(BYTES("\x2a\x02\x10\x01"), &m), 0);
    cr_assert(m.part == EXTPROC_RESPONSE_BODY && m.ends && m.body.len == 0);
    cr_assert_eq(extproc_read(BYTES("\x3a\x00"), &m), 0);
    cr_assert_eq(m.part, EXTPROC_RESPONSE_TRAILERS);
    cr_assert_eq(extproc_read(BYTES("\x50\x01"), &m), 0);
    cr_assert(m.part == EXTPROC_NOTHING && m.observes);
}

Test(node_extproc, the_last_of_a_union_counts)
{
    struct extproc_message m;

    cr_assert_eq(
        extproc_read(BYTES("\x22\x05\x0a\x01x\x10\x01\x2a\x03\x0a\x01y"), &m),
        0);
    cr_assert_eq(m.part, EXTPROC_RESPONSE_BODY);
    cr_assert_not(m.ends);
    assert_text(m.body, "y");
}

Test(node_extproc, unknown_fields_of_every_kind_are_passed_over)
{
    struct extproc_message m;

    cr_assert_eq(extproc_read(BYTES("\xa0\x06\x05" /* 100: 5 */
                                    "\xa1\x06"     /* 8 bytes */
                                    "12345678"
                                    "\xa2\x06\x02xy" /* bytes */
                                    "\xa5\x06"       /* 4 bytes */
                                    "1234\x22\x03\x0a\x01z"),
                              &m),
                 0);
    assert_text(m.body, "z");
    cr_assert_eq(extproc_read(BYTES("\xa3\x06"), &m), EXTPROC_E_BAD);
    cr_assert_eq(extproc_read(BYTES("\x00\x00"), &m), EXTPROC_E_BAD);
    cr_assert_eq(extproc_read(BYTES("\x50\xff\xff\xff\xff\xff\xff\xff\xff"
                                    "\xff\x02"),
                              &m),
                 EXTPROC_E_BAD); /* 65 bits */
}

Test(node_extproc, lists_are_texts_one_by_one)
{
    /* {s: {k: ["a", 1.0, "b,c"]}, t: {k: []}} */
    static const char lists[] = "\x0a\x28\x0a\x01s\x12\x23\x0a\x21\x0a\x01k\x12"
                                "\x1c\x32\x1a\x0a\x03\x1a\x01"
                                "a\x0a\x09\x11\x00\x00\x00\x00\x00\x00\xf0\x3f"
                                "\x0a\x08\x1a\x06 b,c  "
                                "\x0a\x0e\x0a\x01t\x12\x09\x0a\x07\x0a\x01k\x12"
                                "\x02\x32\x00";
    struct extproc_texts texts;
    struct slice text;

    cr_assert(extproc_texts_find(SLICE(lists), "s", "k", &texts));
    cr_assert(extproc_texts_next(&texts, &text));
    assert_text(text, "a");
    cr_assert(extproc_texts_next(&texts, &text));
    assert_text(text, "b,c");
    cr_assert_not(extproc_texts_next(&texts, &text));
    cr_assert(extproc_texts_find(SLICE(lists), "t", "k", &texts));
    cr_assert_not(extproc_texts_next(&texts, &text));
}

static void
assert_out(struct buf *out, struct slice wanted)
{
    cr_assert_not(out->failed);
    cr_assert(slice_equal(buf_slice(out), wanted));
    buf_clear(out);
}

Test(node_extproc, answers_are_as_protobuf_writes_them)
{
    const struct extproc_header set[] = {{SLICE("a"), SLICE("b")}};
    static const struct slice remove[] = {{"c", 1}};
    const struct extproc_change change = {
        .set = set,
        .set_count = 1,
        .remove = remove,
        .remove_count = 1,
    };
    const struct slice body = SLICE("new");
    struct buf out;

    buf_init(&out, 4096);
    extproc_put_headers(&out, EXTPROC_RESPONSE_HEADERS, NULL);
    assert_out(&out, BYTES("\0\0\0\0\x04\x12\x02\x0a\x00"));
    extproc_put_body(&out, EXTPROC_REQUEST_BODY, &change, &body);
    assert_out(&out, BYTES("\0\0\0\0\x1e\x1a\x1c\x0a\x1a\x12\x0f"
                           "\x0a\x0a\x0a\x06\x0a\x01"
                           "a\x1a\x01"
                           "b\x18\x02\x12\x01"
                           "c\x1a\x05\x0a\x03new\x28\x01"));
    extproc_put_piece(&out, EXTPROC_RESPONSE_BODY, SLICE("xy"), true);
    assert_out(&out, BYTES("\0\0\0\0\x0e\x22\x0c\x0a\x0a\x1a\x08\x1a\x06\x0a"
                           "\x02xy\x10\x01"));
    extproc_put_piece(&out, EXTPROC_REQUEST_BODY, SLICE(""), false);
    assert_out(&out,
               BYTES("\0\0\0\0\x0a\x1a\x08\x0a\x06\x1a\x04\x1a\x02\x0a\x00"));
    extproc_put_trailers(&out, EXTPROC_REQUEST_TRAILERS);
    assert_out(&out, BYTES("\0\0\0\0\x02\x2a\x00"));
    extproc_put_immediate(&out, 503, set, 1, SLICE("no"));
    assert_out(&out, BYTES("\0\0\0\0\x19\x3a\x17\x0a\x03\x08\xf7\x03\x12\x0c"
                           "\x0a\x0a\x0a\x06\x0a\x01"
                           "a\x1a\x01"
                           "b\x18\x02\x1a\x02no"));
    buf_fini(&out);
}

Test(node_extproc, long_pieces_have_long_lengths)
{
    static char bytes[70000];
    struct slice message;
    struct pb_field field;
    struct buf out;

    buf_init(&out, sizeof bytes + 100);
    memset(bytes, 'x', sizeof bytes);
    extproc_put_piece(&out, EXTPROC_REQUEST_BODY,
                      (struct slice){bytes, sizeof bytes}, true);
    cr_assert_eq(grpc_take(buf_slice(&out), out.len, &message), 0);
    cr_assert_eq(message.len, out.len - GRPC_HEAD);
    uint32_t way[] = {EXTPROC_REQUEST_BODY, 1, 3, 3, 1};
    for (size_t i = 0; i < 5; i++) {
        struct pb pb = pb_over(message);
        cr_assert(pb_next(&pb, &field));
        cr_assert(pb_is_bytes(&field, way[i]));
        message = field.bytes;
    }
    cr_assert_eq(message.len, sizeof bytes);
    buf_fini(&out);
}

Test(node_extproc, the_endpoint_is_told_twice_and_the_same)
{
    const struct extproc_change change = {.endpoints = SLICE("1.2.3.4:5")};
    struct slice message;
    struct pb_field field;
    struct buf out;
    unsigned found = 0;

    buf_init(&out, 4096);
    extproc_put_headers(&out, EXTPROC_REQUEST_HEADERS, &change);
    cr_assert_eq(grpc_take(buf_slice(&out), out.len, &message), 0);
    for (size_t at = 0; at + 9 <= message.len; at++) {
        found += memcmp(message.ptr + at, "1.2.3.4:5", 9) == 0;
    }
    cr_assert_eq(found, 2);
    struct pb pb = pb_over(message);
    cr_assert(pb_next(&pb, &field) && pb_next(&pb, &field));
    cr_assert(pb_is_bytes(&field, 8)); /* a Struct, whose map is field 1 */
    buf_fini(&out);
}

Test(node_extproc, a_full_buffer_fails)
{
    struct buf out;

    for (size_t size = 0; size < 28; size++) {
        buf_init(&out, size);
        extproc_put_piece(&out, EXTPROC_REQUEST_BODY, SLICE("0123456789"),
                          true);
        cr_assert_eq(out.failed, size < 27, "%zu", size);
        buf_fini(&out);
    }
    buf_init(&out, 9);
    extproc_put_immediate(&out, 500, NULL, 0, SLICE("0123456789"));
    cr_assert(out.failed);
    buf_fini(&out);
}

Test(node_extproc, frames_are_taken_whole_or_not)
{
    struct slice message;

    cr_assert_eq(grpc_take(SLICE(""), 9, &message), GRPC_E_MORE);
    cr_assert_eq(grpc_take(BYTES("\0\0\0\0"), 9, &message), GRPC_E_MORE);
    cr_assert_eq(grpc_take(BYTES("\0\0\0\0\2a"), 9, &message), GRPC_E_MORE);
    cr_assert_eq(grpc_take(BYTES("\0\0\0\0\2ab."), 9, &message), 0);
    assert_text(message, "ab");
    cr_assert_eq(grpc_take(BYTES("\0\0\0\0\12"), 9, &message), GRPC_E_LARGE);
    cr_assert_eq(grpc_take(BYTES("\0\xff\xff\xff\xff"), 9, &message),
                 GRPC_E_LARGE);
    cr_assert_eq(grpc_take(BYTES("\1"), 9, &message), GRPC_E_CODED);
}
