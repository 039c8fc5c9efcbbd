/* Answers by gzip. */
#include "node/http/http_gzip.h"

#define ZLIB_CONST
#include <zlib.h>

#include "node/http/http_text_internal.h"

#define GZIP_LEVEL \
    1 /* twelve times smaller; 6: fourteen, at three times the cost */
#define GZIP_WINDOW (MAX_WBITS + 16) /* 16: gzip's head and end around it */
#define GZIP_MEMORY 8                /* zlib's default */

/* "0", "0.", "0.0" ... "0.000" */
static bool
is_zero(struct slice weight)
{
    size_t at = 0;

    while (at < weight.len &&
           (weight.ptr[at] == '0' || weight.ptr[at] == '.')) {
        at++;
    }
    return weight.len != 0 && at == weight.len;
}

bool
http_gzip_is_wanted(const struct http_head *head)
{
    const struct http_header *header =
        http_head_find_name(head, SLICE("accept-encoding"));
    struct slice rest = header != NULL ? header->value : SLICE("");
    struct slice item;

    while (http_text_list_next(&rest, &item)) {
        struct slice name = slice_trim(slice_take(&item, ';'));
        if (slice_equal_nocase(name, SLICE("gzip"))) {
            struct slice key = slice_trim(slice_take(&item, '='));
            return !slice_equal_nocase(key, SLICE("q")) ||
                   !is_zero(slice_trim(item));
        }
    }
    return false;
}

bool
http_gzip_add(struct buf *out, struct slice text)
{
    z_stream stream = {0};

    if (text.len > UINT32_MAX / 2 ||
        deflateInit2(&stream, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        return false;
    }
    size_t most = deflateBound(&stream, (uLong)text.len);
    char *room = buf_reserve(out, most);
    bool good = false;
    if (room != NULL) {
        stream.next_in = (const Bytef *)text.ptr;
        stream.avail_in = (uInt)text.len;
        stream.next_out = (Bytef *)room;
        stream.avail_out = (uInt)most;
        good = deflate(&stream, Z_FINISH) == Z_STREAM_END;
        out->len += good ? (size_t)stream.total_out : 0;
    }
    (void)deflateEnd(&stream);
    return good;
}
