/* The chunks of a streamed answer, out of the events they come in. */
#include "chaos/load/load_sse.h"

void
load_sse_init(struct load_sse *sse, size_t text_bytes_max)
{
    *sse = (struct load_sse){.deltas = 0};
    sse_read_init(&sse->read, LOAD_SSE_EVENT_BYTES_MAX);
    buf_init(&sse->text, text_bytes_max);
}

void
load_sse_fini(struct load_sse *sse)
{
    sse_read_fini(&sse->read);
    buf_fini(&sse->text);
}

void
load_sse_restart(struct load_sse *sse)
{
    struct load_sse kept = *sse;

    *sse = (struct load_sse){.read = kept.read, .text = kept.text};
    sse_read_restart(&sse->read);
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
read_content(struct load_sse *sse, struct json_pull *pull)
{
    if (enter(pull, PULL_STRING) && pull->text.len != 0) {
        buf_add_slice(&sse->text, pull->text);
        sse->deltas++;
    }
}

static void
read_delta(struct load_sse *sse, struct json_pull *pull)
{
    while (json_pull_next(pull) == PULL_KEY) {
        if (json_pull_is(pull, SLICE("content"))) {
            read_content(sse, pull);
        } else {
            skip(pull);
        }
    }
}

static void
read_choice(struct load_sse *sse, struct json_pull *pull)
{
    while (json_pull_next(pull) == PULL_KEY) {
        if (json_pull_is(pull, SLICE("text"))) {
            read_content(sse, pull);
        } else if (!json_pull_is(pull, SLICE("delta"))) {
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
read_chunk(struct load_sse *sse, struct slice data)
{
    struct json_pull pull;
    bool failed = false;

    json_pull_init(&pull, data);
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

int
load_sse_feed(struct load_sse *sse, struct slice bytes)
{
    struct sse_event event;
    int r = 0;

    if (sse->done || sse->fault != NULL) {
        return sse->fault == NULL ? 0 : LOAD_SSE_E_BAD;
    }
    CHECK(sse->read.fault == NULL);
    sse_read_give(&sse->read, bytes);
    while (r == 0 && !sse->done && sse_read_next(&sse->read, &event)) {
        if (slice_equal(event.data, SLICE("[DONE]"))) {
            sse->done = true;
        } else {
            r = read_chunk(sse, event.data);
        }
    }
    return sse->read.fault == NULL ? r : fail(sse, sse->read.fault);
}
