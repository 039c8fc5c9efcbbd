/* Traces that carry prompts as text. */
#include <string.h>

#include "chaos/replay/replay_reader_internal.h"
#include "index/base/rng.h"
#include "index/index.h"

#define BYTES_PER_TOKEN (REPLAY_PIECE_BYTES / REPLAY_PIECE_TOKENS)
#define FAMILY_BYTES    256U

static uint32_t
tokens_of(size_t bytes)
{
    size_t tokens = (bytes + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN;

    return tokens < UINT32_MAX ? (uint32_t)tokens : UINT32_MAX;
}

/* Equal pieces are equal tokens wherever they are. */
int
replay_reader_split(struct replay_reader *reader, struct slice text)
{
    int outcome = 0;

    for (size_t at = 0; at < text.len && outcome == 0;
         at += REPLAY_PIECE_BYTES) {
        size_t left = text.len - at;
        struct slice piece = {
            .ptr = text.ptr + at,
            .len = left < REPLAY_PIECE_BYTES ? left : REPLAY_PIECE_BYTES,
        };
        outcome = replay_load_run(reader->load, rng_mix(key_digest(piece)), 0,
                                  tokens_of(piece.len));
    }
    return replay_reader_said(reader, outcome);
}

static uint64_t
family_of(struct slice text)
{
    text.len = text.len < FAMILY_BYTES ? text.len : FAMILY_BYTES;
    return key_digest(text);
}

/* The string after a key, unescaped, in reader->text + at. */
static int
read_text(struct replay_reader *reader, size_t at, struct slice *out)
{
    if (json_pull_next(&reader->pull) != PULL_STRING) {
        return replay_reader_bad(reader, "expected text");
    }
    int len = json_pull_copy(&reader->pull, reader->text + at,
                             reader->text_size - at);
    if (len < 0) {
        return replay_reader_bad(reader, "the text contains a NUL");
    }
    *out = (struct slice){.ptr = reader->text + at, .len = (size_t)len};
    return 0;
}

struct session {
    struct slice input;
    struct slice output;
    uint64_t time_us;
    bool timed;
};

static int
read_session_key(struct replay_reader *reader, struct session *s)
{
    struct json_pull *pull = &reader->pull;
    int outcome;

    if (json_pull_is(pull, SLICE("timestamp"))) {
        s->timed = true;
        return replay_reader_uint(reader, UINT64_MAX >> 4, &s->time_us);
    }
    if (json_pull_is(pull, SLICE("input"))) {
        /* After the output, if that came first. */
        size_t at = s->output.ptr != NULL ? s->output.len + 1 : 0;
        return read_text(reader, at, &s->input);
    }
    if (json_pull_is(pull, SLICE("output"))) {
        size_t at = s->input.ptr != NULL ? s->input.len + 1 : 0;
        outcome = read_text(reader, at, &s->output);
        return outcome;
    }
    return json_pull_skip(pull) ? 0 : replay_reader_bad(reader, "not JSON");
}

int
replay_reader_session(struct replay_reader *reader)
{
    struct session s = {.timed = false};
    enum pull_token token = json_pull_next(&reader->pull);
    int outcome = 0;

    if (token != PULL_OBJECT) {
        return replay_reader_bad(reader, "not a JSON object");
    }
    while (outcome == 0 &&
           (token = json_pull_next(&reader->pull)) == PULL_KEY) {
        outcome = read_session_key(reader, &s);
    }
    if (outcome != 0) {
        return outcome;
    }
    if (token != PULL_OBJECT_END || json_pull_next(&reader->pull) != PULL_END) {
        return replay_reader_bad(reader, "not JSON");
    }
    if (!s.timed || s.input.ptr == NULL) {
        return replay_reader_bad(reader, "timestamp or input is missing");
    }
    outcome = replay_reader_split(reader, s.input);
    if (outcome != 0) {
        return outcome;
    }
    uint32_t answer = tokens_of(s.output.len);
    struct replay_request request = {
        .at_us = s.time_us,
        .after = REPLAY_NONE,
        .output_tokens = answer > 0 ? answer : 1,
        .answer = rng_mix(key_digest(s.output) + reader->load->count),
        .family = family_of(s.input),
    };
    return replay_reader_said(reader,
                              replay_load_add(reader->load, &request, NULL));
}

/* The part of a conversation that was read: the bytes of its messages, as in
 * the line, one after another in reader->text. */
struct dialogue {
    size_t len;
    uint64_t family;
    uint32_t messages;
    uint32_t last; /* request */
};

static int
add_turn(struct replay_reader *reader, struct dialogue *d, size_t answer)
{
    bool first = d->last == REPLAY_NONE;
    uint32_t output = tokens_of(answer);
    struct replay_request request = {
        .at_us =
            first ? reader->dialogues * REPLAY_DIALOGUE_US : REPLAY_PAUSE_US,
        .after = d->last,
        .output_tokens = output > 0 ? output : 1,
        .answer = rng_mix(d->family + reader->load->count),
        .family = d->family,
    };
    int outcome = replay_reader_split(
        reader, (struct slice){.ptr = reader->text, .len = d->len});

    if (outcome != 0) {
        return outcome;
    }
    return replay_reader_said(
        reader, replay_load_add(reader->load, &request, &d->last));
}

/* The object that was just opened, with its brackets, and whether it is of the
 * assistant. */
static int
read_message(struct replay_reader *reader, struct slice *message,
             bool *assistant)
{
    struct json_pull *pull = &reader->pull;
    size_t from = pull->at - 1;
    enum pull_token token;
    int outcome = 0;

    *assistant = false;
    while (outcome == 0 && (token = json_pull_next(pull)) == PULL_KEY) {
        if (json_pull_is(pull, SLICE("role"))) {
            if (json_pull_next(pull) != PULL_STRING) {
                return replay_reader_bad(reader, "a role is not text");
            }
            *assistant = json_pull_is(pull, SLICE("assistant"));
        } else if (!json_pull_skip(pull)) {
            outcome = replay_reader_bad(reader, "not JSON");
        }
    }
    if (outcome == 0 && token != PULL_OBJECT_END) {
        return replay_reader_bad(reader, "not JSON");
    }
    *message =
        (struct slice){.ptr = reader->line.ptr + from, .len = pull->at - from};
    return outcome;
}

static int
read_messages(struct replay_reader *reader, struct dialogue *d)
{
    struct json_pull *pull = &reader->pull;
    enum pull_token token;
    struct slice message = SLICE("");
    bool assistant;

    if (json_pull_next(pull) != PULL_ARRAY) {
        return replay_reader_bad(reader, "traj is not a list");
    }
    while ((token = json_pull_next(pull)) == PULL_OBJECT) {
        int outcome = read_message(reader, &message, &assistant);
        if (outcome == 0 && assistant && d->len > 0) {
            outcome = add_turn(reader, d, message.len);
        }
        if (outcome != 0) {
            return outcome;
        }
        if (d->messages++ < 2) {
            d->family = rng_mix(d->family ^ family_of(message));
        }
        memcpy(reader->text + d->len, message.ptr, message.len);
        d->len += message.len;
    }
    return token == PULL_ARRAY_END
               ? 0
               : replay_reader_bad(reader, "a message is not an object");
}

int
replay_reader_dialogue(struct replay_reader *reader)
{
    struct dialogue d = {.last = REPLAY_NONE};
    enum pull_token token = json_pull_next(&reader->pull);
    int outcome = 0;

    if (token != PULL_OBJECT) {
        return replay_reader_bad(reader, "not a JSON object");
    }
    while (outcome == 0 &&
           (token = json_pull_next(&reader->pull)) == PULL_KEY) {
        if (json_pull_is(&reader->pull, SLICE("traj")) && d.messages == 0) {
            outcome = read_messages(reader, &d);
        } else if (!json_pull_skip(&reader->pull)) {
            outcome = replay_reader_bad(reader, "not JSON");
        }
    }
    if (outcome != 0) {
        return outcome;
    }
    if (token != PULL_OBJECT_END || json_pull_next(&reader->pull) != PULL_END) {
        return replay_reader_bad(reader, "not JSON");
    }
    reader->dialogues++;
    return 0;
}
