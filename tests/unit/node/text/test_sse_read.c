#include "node/text/sse_read.h"

#include <criterion/criterion.h>
#include <string.h>

#define BYTES_MAX 64

static struct sse_read sse;
static struct buf out; /* "type|data|id;" for each event */

static void
setup(void)
{
    sse_read_init(&sse, BYTES_MAX);
    buf_init(&out, 1 << 16);
}

static void
teardown(void)
{
    sse_read_fini(&sse);
    buf_fini(&out);
}

TestSuite(node_sse_read, .init = setup, .fini = teardown);

static void
give(struct slice bytes)
{
    struct sse_event event;

    sse_read_give(&sse, bytes);
    while (sse_read_next(&sse, &event)) {
        buf_add_slice(&out, event.type);
        buf_add_text(&out, "|");
        buf_add_slice(&out, event.data);
        buf_add_text(&out, "|");
        buf_add_slice(&out, event.id);
        buf_add_text(&out, ";");
    }
}

static void
expect(const char *expected)
{
    struct slice got = buf_slice(&out);

    cr_assert(slice_equal(got, slice_of(expected)), "got %.*s, not %s",
              (int)got.len, got.ptr, expected);
}

/* Whole, and cut after each byte, a stream reads as these events. */
static void
reads_as(const char *stream, const char *expected)
{
    size_t len = strlen(stream);

    for (size_t cut = 0; cut <= len; cut++) {
        teardown();
        setup();
        give((struct slice){stream, cut});
        give((struct slice){stream + cut, len - cut});
        expect(expected);
        cr_assert_null(sse.fault);
    }
    teardown();
    setup();
    for (size_t i = 0; i < len; i++) {
        give((struct slice){stream + i, 1});
    }
    expect(expected);
}

Test(node_sse_read, type_data_and_id)
{
    reads_as("event: created\ndata: {}\nid: 7\n\n", "created|{}|7;");
}

Test(node_sse_read, lines_end_in_lf_cr_and_crlf)
{
    reads_as("data: a\r\ndata: b\rdata: c\n\r\n", "|a\nb\nc|;");
    reads_as("data: a\r\rdata: b\n\ndata: c\r\n\r\n", "|a|;|b|;|c|;");
    reads_as("data: a\n\rdata: b\r\n\n", "|a|;|b|;");
}

Test(node_sse_read, one_space_after_the_colon_is_dropped)
{
    reads_as("data:a\n\ndata:  a \n\ndata: a:b\n\n", "|a|;| a |;|a:b|;");
}

Test(node_sse_read, comments_and_unknown_fields_are_skipped)
{
    reads_as(": hello\n:\ndata: a\nfoo: b\nDATA: c\ndatax: d\n\n", "|a|;");
    give(SLICE(":\n: x\n"));
    cr_assert_eq(sse.comments, 4);
}

Test(node_sse_read, empty_data_is_an_event_and_no_data_is_none)
{
    reads_as("data\n\n", "||;");
    reads_as("data:\ndata\n\n", "|\n|;");
    reads_as("event: x\n\ndata: a\n\n\n\n", "|a|;");
}

Test(node_sse_read, an_id_stays_until_another_is_given)
{
    reads_as("id: 1\n\ndata: a\n\ndata: b\nid: 2\n\ndata: c\n\nid\ndata: d\n\n",
             "|a|1;|b|2;|c|2;|d|;");
}

Test(node_sse_read, an_id_with_a_nul_is_ignored)
{
    give(SLICE("id: 1\nid: a\0b\ndata: a\n\n"));
    expect("|a|1;");
}

Test(node_sse_read, an_event_that_breaks_off_is_none)
{
    reads_as("data: a\n\ndata: b\n", "|a|;");
}

Test(node_sse_read, a_byte_order_mark_is_skipped_once)
{
    reads_as("\xEF\xBB\xBF"
             "data: a\n\n",
             "|a|;");
    reads_as("\xEF\xBB\xBF\xEF\xBB\xBF"
             "data: a\n\ndata: b\n\n",
             "|b|;");
    reads_as("\xEF\xBB"
             "data: a\n\ndata: b\n\n",
             "|b|;");
    reads_as("\xEF\n\ndata: b\n\n", "|b|;");
}

Test(node_sse_read, retry_is_a_number_or_nothing)
{
    give(SLICE("retry: 250\nretry: 1s\nretry:\n"));
    cr_assert_eq(sse.retry_ms, 250);
    give(SLICE("retry: 99999999999999999999999\n"));
    cr_assert_eq(sse.retry_ms, UINT32_MAX);
}

/* A stream with one field that is so long. */
static const char *
fault_of(const char *before, size_t len, const char *after, size_t piece)
{
    struct buf stream;

    teardown();
    setup();
    buf_init(&stream, 4096);
    buf_add_text(&stream, before);
    for (size_t i = 0; i < len; i++) {
        buf_add_text(&stream, "x");
    }
    buf_add_text(&stream, after);
    for (size_t at = 0; at < stream.len; at += piece) {
        size_t left = stream.len - at;
        give((struct slice){stream.ptr + at, left < piece ? left : piece});
    }
    buf_fini(&stream);
    return sse.fault;
}

Test(node_sse_read, each_bound_is_exact_and_sticky)
{
    for (size_t piece = 1; piece < 200; piece += 66) {
        cr_assert_null(fault_of("data: ", BYTES_MAX - 6, "\n\n", piece));
        cr_assert_not_null(fault_of("data: ", BYTES_MAX - 5, "\n\n", piece));
        cr_assert_not_null(fault_of(":", BYTES_MAX, "\n\n", piece));
        cr_assert_null(fault_of("event: ", BYTES_MAX - 7, "\n\n", piece));
        cr_assert_not_null(
            fault_of("data:1234567890\ndata: ", BYTES_MAX - 10, "\n\n", piece));
    }
    buf_clear(&out);
    give(SLICE("\n\ndata: a\n\n"));
    expect("");
    cr_assert_not_null(sse.fault);
}

Test(node_sse_read, ids_and_types_have_bounds_of_their_own)
{
    teardown();
    sse_read_init(&sse, 1024);
    buf_init(&out, 1 << 16);
    struct buf line;
    buf_init(&line, 1024);
    buf_printf(&line, "id: %0*d\n", SSE_READ_ID_MAX, 1);
    buf_printf(&line, "event: %0*d\n", SSE_READ_TYPE_MAX, 1);
    give(buf_slice(&line));
    cr_assert_null(sse.fault);
    buf_clear(&line);
    buf_printf(&line, "event: %0*d\n", SSE_READ_TYPE_MAX + 1, 1);
    give(buf_slice(&line));
    cr_assert_not_null(sse.fault);
    sse_read_restart(&sse);
    cr_assert_null(sse.fault);
    buf_clear(&line);
    buf_printf(&line, "id: %0*d\n", SSE_READ_ID_MAX + 1, 1);
    give(buf_slice(&line));
    cr_assert_not_null(sse.fault);
    buf_fini(&line);
}

Test(node_sse_read, a_restart_keeps_the_id_and_nothing_else)
{
    give(SLICE("retry: 5\nid: 9\ndata: a\n\nevent: x\ndata: half\r"));
    sse_read_restart(&sse);
    give(SLICE("\ndata: b\n\n"));
    expect("|a|9;|b|9;");
    cr_assert_eq(sse.retry_ms, 5);
}
