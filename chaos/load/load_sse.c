#include "chaos/load/load_sse.h"

#include <string.h>

#include "node/node.h"

void
load_sse_init(struct load_sse *sse, size_t text_bytes_max)
{
    *sse = (struct load_sse){.deltas = 0};
    buf_init(&sse->line, LOAD_SSE_EVENT_BYTES_MAX);
    buf_init(&sse->data, LOAD_SSE_EVENT_BYTES_MAX);
    buf_init(&sse->text, text_bytes_max);
}

void
load_sse_fini(struct load_sse *sse)
{
    buf_fini(&sse->line);
    buf_fini(&sse->data);
    buf_fini(&sse->text);
}

void
load_sse_restart(struct load_sse *sse)
{
    struct load_sse kept = *sse;

    *sse = (struct load_sse){
        .line = kept.line, .data = kept.data, .text = kept.text};
    buf_clear(&sse->line);
    buf_clear(&sse->data);
    buf_clear(&sse->text);
}

static int
fail(struct load_sse *sse, const char *why)
{
    sse->fault = why;
    return LOAD_SSE_E_BAD;
}

/*
 * One chunk. Each reader below is called inside its object, takes the members
 * it knows and leaves at its end. A document that turns out bad is bad at
 * every further token, so only read_chunk() needs to look.
 */

static void
skip(struct json_pull *pull)
{
    bool good = json_pull_skip(pull);

    (void)good; /* the next token says it again */
}

/* Whether the next value opens like that; any other one is skipped. */
static bool
enter(struct json_pull *pull, enum pull_token wanted)
{
    enum pull_token token = json_pull_next(pull);

    if (token != wanted && token != PULL_BAD) {
        skip(pull);
    }
    return token == wanted;
}

static void
read_delta(struct load_sse *sse, struct json_pull *pull)
{
    while (json_pull_next(pull) == PULL_KEY) {
        if (!json_pull_is(pull, SLICE("content"))) {
            skip(pull);
        } else if (enter(pull, PULL_STRING) && pull->text.len != 0) {
            buf_add_slice(&sse->text, pull->text);
            sse->deltas++;
        }
    }
}

static void
read_choice(struct load_sse *sse, struct json_pull *pull)
{
    while (json_pull_next(pull) == PULL_KEY) {
        if (!json_pull_is(pull, SLICE("delta"))) {
            skip(pull);
        } else if (enter(pull, PULL_OBJECT)) {
            read_delta(sse, pull);
        }
    }
}

static void
read_choices(struct load_sse *sse, struct json_pull *pull)
{
    bool first = true;

    for (;;) {
        enum pull_token token = json_pull_next(pull);
        if (token <= PULL_END || token == PULL_ARRAY_END) {
            return;
        }
        if (token == PULL_OBJECT && first) {
            read_choice(sse, pull);
        } else {
            skip(pull);
        }
        first = false;
    }
}

/* The value of a key, when it is a number. */
static void
read_count(struct json_pull *pull, uint64_t *count)
{
    uint64_t number;

    if (enter(pull, PULL_NUMBER) && json_pull_uint(pull, UINT32_MAX, &number)) {
        *count = number;
    }
}

static void
read_details(struct load_sse *sse, struct json_pull *pull)
{
    while (json_pull_next(pull) == PULL_KEY) {
        if (json_pull_is(pull, SLICE("cached_tokens"))) {
            read_count(pull, &sse->usage.cached_tokens);
        } else {
            skip(pull);
        }
    }
}

static void
read_usage(struct load_sse *sse, struct json_pull *pull)
{
    sse->has_usage = true;
    while (json_pull_next(pull) == PULL_KEY) {
        if (json_pull_is(pull, SLICE("prompt_tokens"))) {
            read_count(pull, &sse->usage.prompt_tokens);
        } else if (json_pull_is(pull, SLICE("completion_tokens"))) {
            read_count(pull, &sse->usage.completion_tokens);
        } else if (!json_pull_is(pull, SLICE("prompt_tokens_details"))) {
            skip(pull);
        } else if (enter(pull, PULL_OBJECT)) {
            read_details(sse, pull);
        }
    }
}

static int
read_chunk(struct load_sse *sse)
{
    struct json_pull pull;
    bool failed = false;

    json_pull_init(&pull, buf_slice(&sse->data));
    if (!enter(&pull, PULL_OBJECT)) {
        return fail(sse, "an event is not a JSON object");
    }
    while (json_pull_next(&pull) == PULL_KEY) {
        if (json_pull_is(&pull, SLICE("choices"))) {
            if (enter(&pull, PULL_ARRAY)) {
                read_choices(sse, &pull);
            }
        } else if (json_pull_is(&pull, SLICE("usage"))) {
            if (enter(&pull, PULL_OBJECT)) {
                read_usage(sse, &pull);
            }
        } else {
            failed |= json_pull_is(&pull, SLICE("error"));
            skip(&pull);
        }
    }
    if (json_pull_next(&pull) != PULL_END) {
        return fail(sse, "an event is not JSON");
    }
    if (failed) {
        return fail(sse, "the engine reported an error in the stream");
    }
    return sse->text.failed ? fail(sse, "the answer is too long") : 0;
}

/* An empty line was read: the event is whole. */
static int
end_event(struct load_sse *sse)
{
    int r = 0;

    if (!sse->has_data) {
        return 0; /* a comment, or an event without data */
    }
    if (slice_equal(buf_slice(&sse->data), SLICE("[DONE]"))) {
        sse->done = true;
    } else {
        r = read_chunk(sse);
    }
    sse->has_data = false;
    buf_clear(&sse->data);
    return r;
}

static int
end_line(struct load_sse *sse, struct slice line)
{
    if (line.len > 0 && line.ptr[line.len - 1] == '\r') {
        line.len--;
    }
    if (line.len == 0) {
        return end_event(sse);
    }
    if (line.len < 5 || memcmp(line.ptr, "data:", 5) != 0) {
        return 0;
    }
    size_t value = line.len > 5 && line.ptr[5] == ' ' ? 6 : 5;
    if (sse->has_data) {
        buf_add_text(&sse->data, "\n");
    }
    buf_add(&sse->data, line.ptr + value, line.len - value);
    sse->has_data = true;
    return sse->data.failed ? fail(sse, "an event is too long") : 0;
}

/* A line without its LF; joined with what came of it before. */
static int
take_line(struct load_sse *sse, struct slice line)
{
    if (sse->line.len == 0) {
        return end_line(sse, line);
    }
    buf_add_slice(&sse->line, line);
    if (sse->line.failed) {
        return fail(sse, "a line is too long");
    }
    int r = end_line(sse, buf_slice(&sse->line));
    buf_clear(&sse->line);
    return r;
}

int
load_sse_feed(struct load_sse *sse, struct slice bytes)
{
    while (bytes.len > 0 && !sse->done && sse->fault == NULL) {
        const char *end = memchr(bytes.ptr, '\n', bytes.len);
        if (end == NULL) {
            buf_add_slice(&sse->line, bytes);
            return sse->line.failed ? fail(sse, "a line is too long") : 0;
        }
        size_t len = (size_t)(end - bytes.ptr);
        int r = take_line(sse, (struct slice){bytes.ptr, len});
        if (r != 0) {
            return r;
        }
        bytes.ptr += len + 1;
        bytes.len -= len + 1;
    }
    return sse->fault == NULL ? 0 : LOAD_SSE_E_BAD;
}
