/*
 * Any bytes as a request, a whole answer, an error and a stream of another
 * dialect: whatever is made of them is JSON, and a stream cut anywhere becomes
 * the same events.
 */
#include <stdlib.h>
#include <string.h>

#include "index/base/check.h"
#include "node/dialect/dialect.h"
#include "node/text/json_pull.h"

#define ROOM ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_json(struct slice text)
{
    struct json_pull pull;
    enum pull_token token;

    json_pull_init(&pull, text);
    while ((token = json_pull_next(&pull)) > PULL_END) {
    }
    /* Ours may be nested deeper than what it was made of, by a few levels. */
    CHECK(token == PULL_END || pull.depth >= JSON_PULL_DEPTH_MAX - 8);
}

/* Each event is two lines and a blank one, and its data is JSON. */
static void
check_events(struct slice text)
{
    while (text.len != 0) {
        struct slice name = slice_take_line(&text);
        struct slice line = slice_take_line(&text);
        CHECK(name.len > 7 && memcmp(name.ptr, "event: ", 7) == 0);
        CHECK(line.len > 6 && memcmp(line.ptr, "data: ", 6) == 0);
        CHECK(slice_take_line(&text).len == 0);
        check_json((struct slice){line.ptr + 6, line.len - 6});
    }
}

static bool
play(enum dialect api, struct slice in, size_t piece, struct buf *out)
{
    struct dialect_stream s;
    bool good = true;

    dialect_stream_init(&s, api, in, out);
    for (size_t at = 0; at < in.len && good; at += piece) {
        size_t len = in.len - at < piece ? in.len - at : piece;
        good = dialect_stream_give(&s, (struct slice){in.ptr + at, len});
    }
    good = dialect_stream_end(&s) && good;
    CHECK(s.done);
    dialect_stream_fini(&s);
    return good;
}

static void
try_all(enum dialect api, struct slice in)
{
    struct buf out;
    struct buf again;
    const char *why;

    buf_init(&out, ROOM);
    buf_init(&again, ROOM);
    if (dialect_request(api, in, SLICE(""), false, &out, &why)) {
        check_json(buf_slice(&out));
    } else {
        CHECK(why != NULL || out.failed);
    }
    buf_clear(&out);
    if (dialect_answer(api, in, in, &out)) {
        check_json(buf_slice(&out));
    }
    buf_clear(&out);
    dialect_error(api, 500, in, &out);
    check_json(buf_slice(&out));
    buf_clear(&out);
    bool good = play(api, in, in.len + 1, &out);
    if (!out.failed) {
        check_events(buf_slice(&out));
        size_t piece = in.len != 0 ? 1 + (uint8_t)in.ptr[0] % 9 : 1;
        CHECK(play(api, in, piece, &again) == good);
        CHECK(slice_equal(buf_slice(&out), buf_slice(&again)));
    }
    buf_fini(&out);
    buf_fini(&again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = {(const char *)data, size};

    try_all(DIALECT_MESSAGES, in);
    try_all(DIALECT_RESPONSES, in);
    try_all(DIALECT_COUNT, in);
    return 0;
}
