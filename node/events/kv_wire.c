/* Reads a batch of KV events, event by event, without a copy. */
#include "node/events/kv_wire_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "node/events/kv_wire_event_internal.h"

#define AHEAD_BYTES_ENOUGH 2048 /* some twenty small events */
#define AHEAD_BYTES_MAX    8192
#define DEPTH_LEAST        8 /* what well-formed events need, and some */

enum state {
    STATE_EVENTS, /* `left` of them are to come */
    STATE_DONE,
    STATE_BROKEN,
};

struct kv_reader {
    struct kv_limits limits;
    struct kv_arrays arrays;
    struct kv_array memory; /* the caller's */
    enum state state;
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *ahead; /* up to where kv_reader_ahead() looked */
    const uint8_t *end;
    uint32_t left;
    uint64_t tail; /* elements of an array envelope behind the events */
    int64_t rank;
    bool is_map;
    const uint8_t *map_end; /* NULL: it is broken off */
};

const char *
kv_fault_name(enum kv_fault fault)
{
    static const char *const names[] = {
        [KV_FAULT_NONE] = "none",
        [KV_FAULT_MALFORMED] = "malformed",
        [KV_FAULT_UNKNOWN_TYPE] = "unknown_type",
        [KV_FAULT_UNALIGNED] = "unaligned",
        [KV_FAULT_REPEATED] = "repeated",
        [KV_FAULT_MEMORY] = "memory",
    };

    CHECK(fault < KV_FAULTS);
    return names[fault];
}

int
kv_reader_new(struct kv_reader **out, const struct kv_limits *limits)
{
    CHECK(limits->depth_max >= DEPTH_LEAST);
    CHECK(limits->depth_max <= TOKEN_DEPTH_MAX);
    struct kv_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        return -ENOMEM;
    }
    reader->limits = *limits;
    reader->state = STATE_BROKEN;
    reader->rank = -1;
    *out = reader;
    return 0;
}

void
kv_reader_free(struct kv_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    free(reader->arrays.hashes.ptr);
    free(reader->arrays.tokens.ptr);
    free(reader->arrays.remaining.ptr);
    free(reader->arrays.ahead.ptr);
    free(reader->arrays.extras.ptr);
    free(reader->arrays.seen.ptr);
    free(reader->memory.ptr);
    free(reader);
}

/* Values around the events may be nested to any depth. */
static const uint8_t *
pass(const struct kv_reader *reader, const uint8_t *at)
{
    bool deep;

    return token_skip(at, reader->end, 1, TOKEN_DEPTH_MAX, &deep);
}

static const uint8_t *
read_rank(struct kv_reader *reader, const uint8_t *at)
{
    struct token token;

    if (token_read(at, reader->end, &token) == NULL) {
        return NULL;
    }
    bool told = token.kind == TOKEN_UINT && token.value <= INT64_MAX;
    reader->rank = told ? (int64_t)token.value : -1;
    return pass(reader, at);
}

/*
 * A map has its keys in any order and may have them twice: all of it is looked
 * over before the first event is read. Returns where the events are, or NULL;
 * notes where the map ends.
 */
static const uint8_t *
scan_map(struct kv_reader *reader, const uint8_t *at, uint64_t items)
{
    const uint8_t *events = NULL;

    for (uint64_t i = 0; i < items && at != NULL; i += 2) {
        struct token key;
        const uint8_t *value = pass(reader, at);
        if (value == NULL || token_read(at, reader->end, &key) == NULL) {
            return events;
        }
        at = value;
        if (key.kind != TOKEN_STR) {
            at = pass(reader, value);
        } else if (slice_equal(key.bytes, SLICE("events"))) {
            events = value;
            at = pass(reader, value);
        } else if (slice_equal(key.bytes, SLICE("data_parallel_rank")) ||
                   slice_equal(key.bytes, SLICE("attn_dp_rank"))) {
            at = read_rank(reader, value);
        } else {
            at = pass(reader, value);
        }
    }
    reader->map_end = at;
    return events;
}

/* Where the events are; NULL when they are not. */
static const uint8_t *
open_envelope(struct kv_reader *reader)
{
    struct token token;
    const uint8_t *at = token_read(reader->start, reader->end, &token);

    if (at == NULL || token.kind < TOKEN_ARRAY) {
        return NULL;
    }
    reader->is_map = token.kind == TOKEN_MAP;
    if (reader->is_map) {
        return scan_map(reader, at, token.value);
    }
    if (token.value < 2) {
        return NULL;
    }
    reader->tail = token.value - 2;
    return pass(reader, at);
}

int
kv_reader_begin(struct kv_reader *reader, struct slice payload)
{
    struct token events;
    const uint8_t *start = (const uint8_t *)payload.ptr;

    reader->state = STATE_BROKEN;
    reader->start = start;
    reader->at = start;
    reader->ahead = start;
    reader->end = start;
    reader->rank = -1;
    reader->tail = 0;
    reader->map_end = NULL;
    if (payload.len == 0 || payload.len > reader->limits.payload_bytes_max) {
        return KV_E_PAYLOAD;
    }
    reader->end = start + payload.len;
    const uint8_t *at = open_envelope(reader);
    at = at != NULL ? token_read(at, reader->end, &events) : NULL;
    if (at == NULL || events.kind != TOKEN_ARRAY) {
        return KV_E_PAYLOAD;
    }
    reader->at = at;
    reader->left = (uint32_t)events.value;
    reader->state = STATE_EVENTS;
    return 0;
}

/* Reads the elements after the events. True when they are complete, and nothing
 * follows. */
static bool
close_envelope(struct kv_reader *reader)
{
    const uint8_t *at = reader->at;

    if (reader->is_map) {
        return reader->map_end == reader->end;
    }
    for (uint64_t i = 0; i < reader->tail && at != NULL; i++) {
        at = i == 0 ? read_rank(reader, at) : pass(reader, at);
    }
    return at == reader->end;
}

static int
say(const struct kv_reader *reader, enum kv_fault *fault)
{
    CHECK(reader->state != STATE_EVENTS);
    bool done = reader->state == STATE_DONE;

    *fault = done ? KV_FAULT_NONE : KV_FAULT_MALFORMED;
    return done ? KV_E_END : KV_E_PAYLOAD;
}

int
kv_reader_next(struct kv_reader *reader, struct kv_event *event,
               enum kv_fault *fault, size_t *at)
{
    if (at != NULL) {
        *at = (size_t)(reader->at - reader->start);
    }
    if (reader->state != STATE_EVENTS) {
        return say(reader, fault);
    }
    if (reader->left == 0) {
        reader->state = close_envelope(reader) ? STATE_DONE : STATE_BROKEN;
        return say(reader, fault);
    }
    CHECK(reader->at <= reader->end);
    const uint8_t *next = kv_event_read(&reader->arrays, &reader->limits,
                                        reader->at, reader->end, event, fault);
    if (next == NULL) {
        reader->state = STATE_BROKEN;
        return say(reader, fault);
    }
    CHECK(next > reader->at && next <= reader->end);
    reader->at = next;
    reader->left--;
    return *fault == KV_FAULT_NONE ? 0 : KV_E_SKIPPED;
}

uint32_t
kv_reader_ahead(struct kv_reader *reader, uint64_t *hashes, uint32_t max)
{
    if (reader->state != STATE_EVENTS || reader->arrays.lead == 0) {
        return 0;
    }
    CHECK(hashes != NULL && max > 0);
    if (reader->ahead < reader->at) {
        reader->ahead = reader->at;
    }
    if (reader->ahead - reader->at >= AHEAD_BYTES_ENOUGH) {
        return 0;
    }
    const uint8_t *stop = reader->end - reader->at > AHEAD_BYTES_MAX
                              ? reader->at + AHEAD_BYTES_MAX
                              : reader->end;
    return kv_hashes_ahead(reader->arrays.lead, &reader->ahead, stop,
                           reader->end, hashes, max);
}

int
kv_reader_apart(struct kv_reader *reader, const struct kv_event *event,
                struct kv_apart *apart, enum kv_fault *fault)
{
    return kv_apart_read(&reader->arrays, event, apart, fault);
}

int64_t
kv_reader_rank(const struct kv_reader *reader)
{
    return reader->rank;
}

size_t
kv_reader_bytes(const struct kv_reader *reader)
{
    CHECK(reader->end >= reader->start);
    return (size_t)(reader->end - reader->start);
}

uint64_t *
kv_reader_memory(struct kv_reader *reader, size_t count)
{
    struct kv_array *memory = &reader->memory;
    size_t size = count * sizeof(uint64_t);

    CHECK(count <= SIZE_MAX / sizeof(uint64_t) / 2);
    if (size > memory->size) {
        void *more = realloc(memory->ptr, size * 2);
        if (more == NULL) {
            return NULL;
        }
        *memory = (struct kv_array){.ptr = more, .size = size * 2};
    }
    return memory->ptr;
}
