/* A stream reads the same whole and in pieces, and as a plain reading of all
 * of it at once. */
#include <string.h>

#include "index/base/rng.h"
#include "node/text/sse_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES_MAX 100

/* Everything that was read, one after the other. */
struct record {
    struct sse_read sse;
    struct buf out;
};

static void
give(struct record *record, struct slice bytes)
{
    struct sse_event event;

    sse_read_give(&record->sse, bytes);
    while (sse_read_next(&record->sse, &event)) {
        CHECK(record->sse.fault == NULL);
        CHECK(event.data.len <= BYTES_MAX);
        buf_add_slice(&record->out, event.type);
        buf_add(&record->out, "|", 1);
        buf_add_slice(&record->out, event.data);
        buf_add(&record->out, "|", 1);
        buf_add_slice(&record->out, event.id);
        buf_add(&record->out, ";", 1);
    }
}

static void
record_init(struct record *record)
{
    sse_read_init(&record->sse, BYTES_MAX);
    buf_init(&record->out, (size_t)64 << 20);
}

static void
record_fini(struct record *record)
{
    sse_read_fini(&record->sse);
    buf_fini(&record->out);
}

/* The naive reading: all in memory, line by line. */
struct naive {
    struct buf data;
    struct buf out;
    struct slice type;
    struct slice id;
    bool has_data;
    bool failed;
};

static void
naive_field(struct naive *naive, struct slice name, struct slice value)
{
    if (slice_equal(name, SLICE("data"))) {
        buf_add(&naive->data, "\n", naive->has_data ? 1 : 0);
        buf_add_slice(&naive->data, value);
        naive->has_data = true;
        naive->failed |= naive->data.failed;
    } else if (slice_equal(name, SLICE("event"))) {
        naive->type = value;
        naive->failed |= value.len > SSE_READ_TYPE_MAX;
    } else if (slice_equal(name, SLICE("id"))) {
        bool bad = value.len > 0 && memchr(value.ptr, 0, value.len) != NULL;
        naive->id = bad ? naive->id : value;
        naive->failed |= value.len > SSE_READ_ID_MAX;
    }
}

static void
naive_line(struct naive *naive, struct slice line)
{
    naive->failed |= line.len > BYTES_MAX;
    if (line.len == 0) {
        if (naive->has_data) {
            buf_add_slice(&naive->out, naive->type);
            buf_add(&naive->out, "|", 1);
            buf_add_slice(&naive->out, buf_slice(&naive->data));
            buf_add(&naive->out, "|", 1);
            buf_add_slice(&naive->out, naive->id);
            buf_add(&naive->out, ";", 1);
        }
        naive->type.len = 0;
        naive->has_data = false;
        buf_clear(&naive->data);
        return;
    }
    const char *colon = memchr(line.ptr, ':', line.len);
    if (colon == NULL) {
        naive_field(naive, line, (struct slice){line.ptr, 0});
    } else if (colon != line.ptr) {
        const char *end = line.ptr + line.len;
        const char *value = colon + 1;
        value += value < end && *value == ' ';
        naive_field(naive, (struct slice){line.ptr, (size_t)(colon - line.ptr)},
                    (struct slice){value, (size_t)(end - value)});
    }
}

static void
naive_read(struct naive *naive, struct slice bytes)
{
    size_t at =
        bytes.len >= 3 && memcmp(bytes.ptr, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    size_t from = at;

    for (; at < bytes.len && !naive->failed; at++) {
        if (bytes.ptr[at] != '\n' && bytes.ptr[at] != '\r') {
            continue;
        }
        naive_line(naive, (struct slice){bytes.ptr + from, at - from});
        at += bytes.ptr[at] == '\r' && at + 1 < bytes.len &&
              bytes.ptr[at + 1] == '\n';
        from = at + 1;
    }
    naive->failed |= from < bytes.len && bytes.len - from > BYTES_MAX;
}

static void
compare_naive(const struct record *whole, struct slice bytes)
{
    struct naive naive = {.type = {"", 0}, .id = {"", 0}};

    buf_init(&naive.data, BYTES_MAX);
    buf_init(&naive.out, (size_t)64 << 20);
    naive_read(&naive, bytes);
    CHECK(naive.failed == (whole->sse.fault != NULL));
    CHECK(slice_equal(buf_slice(&naive.out), buf_slice(&whole->out)));
    buf_fini(&naive.data);
    buf_fini(&naive.out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {.ptr = (const char *)data, .len = size};
    struct record whole;
    struct record parts;
    struct rng rng;

    rng_init(&rng, size);
    record_init(&whole);
    record_init(&parts);
    give(&whole, bytes);
    compare_naive(&whole, bytes);
    while (bytes.len > 0) {
        size_t len = 1 + rng_below(&rng, bytes.len < 40 ? bytes.len : 40);
        give(&parts, (struct slice){bytes.ptr, len});
        bytes.ptr += len;
        bytes.len -= len;
    }
    CHECK(slice_equal(buf_slice(&whole.out), buf_slice(&parts.out)));
    CHECK((whole.sse.fault == NULL) == (parts.sse.fault == NULL));
    CHECK(whole.sse.retry_ms == parts.sse.retry_ms || whole.sse.fault != NULL);
    record_fini(&whole);
    record_fini(&parts);
    return 0;
}
