/* Server-sent events out of a byte stream. */
#include "node/text/sse_read.h"

#include <string.h>

static const char byte_order_mark[] = {'\xEF', '\xBB', '\xBF'};
#define MARK_BYTES 3

void
sse_read_init(struct sse_read *sse, size_t bytes_max)
{
    *sse = (struct sse_read){.mark = 0};
    buf_init(&sse->line, bytes_max);
    buf_init(&sse->data, bytes_max);
}

void
sse_read_fini(struct sse_read *sse)
{
    buf_fini(&sse->line);
    buf_fini(&sse->data);
}

void
sse_read_restart(struct sse_read *sse)
{
    buf_clear(&sse->line);
    buf_clear(&sse->data);
    sse->given = (struct slice){NULL, 0};
    sse->type_len = 0;
    sse->comments = 0;
    sse->has_data = false;
    sse->handed_out = false;
    sse->after_cr = false;
    sse->mark = 0;
    sse->fault = NULL;
    CHECK(sse->line.len == 0 && sse->data.len == 0);
}

void
sse_read_give(struct sse_read *sse, struct slice bytes)
{
    CHECK(sse->given.len == 0);
    sse->given = bytes;
}

static void
fail(struct sse_read *sse, const char *why)
{
    CHECK(sse->fault == NULL);
    sse->fault = why;
    sse->given.len = 0;
}

/* Skips the mark, or hands on what looked like one and was not. */
static void
skip_mark(struct sse_read *sse)
{
    CHECK(sse->line.len == 0);
    while (sse->mark < MARK_BYTES && sse->given.len > 0) {
        if (sse->given.ptr[0] != byte_order_mark[sse->mark]) {
            buf_add(&sse->line, byte_order_mark, sse->mark);
            sse->mark = MARK_BYTES;
            return;
        }
        sse->mark++;
        slice_skip(&sse->given, 1);
    }
}

static void
take_data(struct sse_read *sse, struct slice value)
{
    CHECK(!sse->handed_out);
    if (sse->has_data) {
        buf_add_text(&sse->data, "\n");
    }
    buf_add_slice(&sse->data, value);
    sse->has_data = true;
    if (sse->data.failed) {
        fail(sse, "an event is too long");
    }
}

static void
take_id(struct sse_read *sse, struct slice value)
{
    if (value.len > sizeof sse->id) {
        fail(sse, "an id is too long");
    } else if (value.len == 0 || memchr(value.ptr, '\0', value.len) == NULL) {
        sse->id_len = value.len;
        memcpy(sse->id, value.len > 0 ? value.ptr : "", value.len);
    }
    CHECK(sse->id_len <= sizeof sse->id);
}

static void
take_type(struct sse_read *sse, struct slice value)
{
    if (value.len > sizeof sse->type) {
        fail(sse, "the name of an event is too long");
    } else {
        sse->type_len = value.len;
        memcpy(sse->type, value.len > 0 ? value.ptr : "", value.len);
    }
    CHECK(sse->type_len <= sizeof sse->type);
}

/* Digits alone; more than fit are a very long time. */
static void
take_retry(struct sse_read *sse, struct slice value)
{
    uint64_t ms = 0;

    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9') {
            return;
        }
        ms = ms * 10 + (uint64_t)(value.ptr[i] - '0');
        ms = ms < UINT32_MAX ? ms : UINT32_MAX;
    }
    if (value.len > 0) {
        sse->retry_ms = (uint32_t)ms;
    }
}

static void
take_field(struct sse_read *sse, struct slice name, struct slice value)
{
    if (slice_equal(name, SLICE("data"))) {
        take_data(sse, value);
    } else if (slice_equal(name, SLICE("event"))) {
        take_type(sse, value);
    } else if (slice_equal(name, SLICE("id"))) {
        take_id(sse, value);
    } else if (slice_equal(name, SLICE("retry"))) {
        take_retry(sse, value);
    }
}

/* A line without its end. True when it completes an event. */
static bool
take_line(struct sse_read *sse, struct slice line)
{
    if (line.len == 0) {
        sse->type_len = sse->has_data ? sse->type_len : 0;
        return sse->has_data;
    }
    if (line.ptr[0] == ':') {
        sse->comments++;
        return false;
    }
    const char *colon = memchr(line.ptr, ':', line.len);
    if (colon == NULL) {
        take_field(sse, line, (struct slice){"", 0});
        return false;
    }
    size_t len = (size_t)(colon - line.ptr);
    size_t from = len + 1;
    from += from < line.len && line.ptr[from] == ' ';
    take_field(sse, (struct slice){line.ptr, len},
               (struct slice){line.ptr + from, line.len - from});
    return false;
}

/* Bytes before the first CR or LF; all of them when there is none. */
static size_t
line_len(struct slice bytes)
{
    const char *lf = memchr(bytes.ptr, '\n', bytes.len);
    size_t len = lf != NULL ? (size_t)(lf - bytes.ptr) : bytes.len;
    const char *cr = memchr(bytes.ptr, '\r', len);

    CHECK_SLOW(len <= bytes.len);
    return cr != NULL ? (size_t)(cr - bytes.ptr) : len;
}

/* One line of what was given, or what there is of one. True when it completes
 * an event. */
static bool
step(struct sse_read *sse)
{
    CHECK(sse->given.len > 0 && sse->mark == MARK_BYTES);
    size_t len = line_len(sse->given);
    struct slice line = {sse->given.ptr, len};
    bool whole = len < sse->given.len;
    bool joined = sse->line.len > 0 || !whole;
    bool event = false;

    if (line.len > sse->line.max_bytes) {
        fail(sse, "a line is too long");
        return false;
    }
    if (joined) {
        buf_add_slice(&sse->line, line);
        line = buf_slice(&sse->line);
    }
    if (sse->line.failed) {
        fail(sse, "a line is too long");
        return false;
    }
    sse->after_cr = whole && sse->given.ptr[len] == '\r';
    slice_skip(&sse->given, len + (whole ? 1 : 0));
    if (whole) {
        event = take_line(sse, line);
        buf_clear(&sse->line);
    }
    return event && sse->fault == NULL;
}

bool
sse_read_next(struct sse_read *sse, struct sse_event *event)
{
    if (sse->handed_out) {
        sse->handed_out = false;
        sse->has_data = false;
        sse->type_len = 0;
        buf_clear(&sse->data);
    }
    if (sse->mark < MARK_BYTES && sse->fault == NULL) {
        skip_mark(sse);
    }
    while (sse->given.len > 0 && sse->fault == NULL) {
        if (sse->after_cr && sse->given.ptr[0] == '\n') {
            sse->after_cr = false;
            slice_skip(&sse->given, 1);
        } else if (step(sse)) {
            CHECK(sse->has_data && sse->line.len == 0);
            sse->handed_out = true;
            *event = (struct sse_event){
                .type = {sse->type, sse->type_len},
                .data = buf_slice(&sse->data),
                .id = {sse->id, sse->id_len},
            };
            return true;
        }
    }
    sse->given.len = 0;
    CHECK(!sse->handed_out);
    return false;
}
