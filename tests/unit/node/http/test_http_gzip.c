#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "node/http/http_gzip.h"

static bool
wants(const char *accept)
{
    static const struct http_limits limits = {4096, 1024, 16};
    char bytes[256];
    struct http_head head;

    int len = snprintf(bytes, sizeof bytes,
                       "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", accept);
    cr_assert_eq(http_head_parse_request(bytes, (size_t)len, &limits, &head), 0,
                 "%s", accept);
    return http_gzip_is_wanted(&head);
}

Test(node_http_gzip, is_wanted_where_it_is_named_and_has_a_weight)
{
    cr_assert(wants("Accept-Encoding: gzip\r\n"));
    cr_assert(wants("accept-encoding: br, GZip ,deflate\r\n"));
    cr_assert(wants("Accept-Encoding: identity;q=0.5,gzip ; q=0.001\r\n"));
    cr_assert(wants("Accept-Encoding: gzip;q=1\r\n"));
    cr_assert(!wants(""));
    cr_assert(!wants("Accept-Encoding:\r\n"));
    cr_assert(!wants("Accept-Encoding: x-gzip, br\r\n"));
    cr_assert(!wants("Accept-Encoding: gzip;q=0\r\n"));
    cr_assert(!wants("Accept-Encoding: br, gzip; Q = 0.000\r\n"));
}

Test(node_http_gzip, zlib_reads_it_back)
{
    static char text[300000];
    static char back[sizeof text];
    struct buf out;

    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)("kvasir_"[i % 7] + (char)(i / 5000));
    }
    buf_init(&out, 1 << 20);
    buf_add_text(&out, "before");
    for (size_t len = 0; len <= sizeof text; len = len * 7 + 1) {
        z_stream stream = {0};
        cr_assert(http_gzip_add(&out, (struct slice){text, len}));
        stream.next_in = (Bytef *)out.ptr + 6;
        stream.avail_in = (uInt)out.len - 6;
        stream.next_out = (Bytef *)back;
        stream.avail_out = sizeof back;
        cr_assert_eq(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
        cr_assert_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
        cr_assert_eq(stream.total_out, len);
        cr_assert_eq(memcmp(back, text, len), 0);
        cr_assert_eq(stream.avail_in, 0);
        cr_assert_eq(inflateEnd(&stream), Z_OK);
        out.len = 6;
    }
    buf_fini(&out);
}

Test(node_http_gzip, without_room_nothing_is_added)
{
    char bytes[16];
    struct buf out = buf_over(bytes, sizeof bytes);

    cr_assert(!http_gzip_add(&out, SLICE("more than will ever fit in there")));
    cr_assert_eq(out.len, 0);
}
