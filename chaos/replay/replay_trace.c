/* Traces that carry numbers; recognises the kind of a trace by its first
 * line. */
#include "chaos/replay/replay_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/replay/replay_reader_internal.h"
#include "index/base/rng.h"

#define HASHES_SALT  UINT64_C(0x6d6f6f6e63616b65)
#define LENGTHS_SALT UINT64_C(0x617a757265)
#define ANSWERS_SALT UINT64_C(0x616e73776572)
#define TIME_MAX_US  (UINT64_C(1) << 60)

enum kind {
    KIND_UNKNOWN,
    KIND_HASHES,
    KIND_LENGTHS,
    KIND_SESSIONS,
    KIND_DIALOGUES,
};

int
replay_reader_bad(struct replay_reader *reader, const char *why)
{
    (void)snprintf(reader->fault->text, sizeof(reader->fault->text), "%s", why);
    return REPLAY_TRACE_E_BAD;
}

int
replay_reader_said(struct replay_reader *reader, int outcome)
{
    switch (outcome) {
    case REPLAY_E_FULL:
        return replay_reader_bad(reader, "more requests than can be replayed");
    case REPLAY_E_TOO_LONG:
        return replay_reader_bad(reader,
                                 "the prompt or the answer is too long");
    case REPLAY_E_EMPTY:
        return replay_reader_bad(reader, "the prompt is empty");
    default:
        CHECK(outcome <= 0);
        return outcome;
    }
}

int
replay_reader_uint(struct replay_reader *reader, uint64_t max, uint64_t *out)
{
    if (json_pull_next(&reader->pull) != PULL_NUMBER ||
        !json_pull_uint(&reader->pull, max, out)) {
        return replay_reader_bad(reader, "expected a number of 0 or more");
    }
    return 0;
}

/* A row of numbers. */
struct row {
    uint64_t time;
    uint64_t prompt;
    uint64_t output;
    bool hashes;
};

/* The ids of a prompt become runs; their number has to fit its length, so
 * lengths come before. */
static int
read_hashes(struct replay_reader *reader, const struct row *row,
            uint64_t *family)
{
    uint64_t left = row->prompt;
    uint32_t count = 0;
    enum pull_token token = json_pull_next(&reader->pull);

    if (token != PULL_ARRAY) {
        return replay_reader_bad(reader, "hash_ids is not a list");
    }
    while ((token = json_pull_next(&reader->pull)) == PULL_NUMBER) {
        uint64_t id;
        if (!json_pull_uint(&reader->pull, UINT64_MAX >> 1, &id)) {
            return replay_reader_bad(reader, "a hash id is not a number");
        }
        uint64_t tokens = left < REPLAY_HASH_TOKENS ? left : REPLAY_HASH_TOKENS;
        if (tokens == 0) {
            return replay_reader_bad(reader, "more hash_ids than input_length");
        }
        uint64_t text = rng_mix(rng_mix(HASHES_SALT) + id);
        int outcome = replay_load_run(reader->load, text, 0, (uint32_t)tokens);
        if (outcome != 0) {
            return replay_reader_said(reader, outcome);
        }
        *family ^= count < 2 ? rng_mix(text + count) : 0;
        left -= tokens;
        count++;
    }
    if (token != PULL_ARRAY_END) {
        return replay_reader_bad(reader, "a hash id is not a number");
    }
    return left == 0
               ? 0
               : replay_reader_bad(reader, "fewer hash_ids than input_length");
}

static int
read_hashes_key(struct replay_reader *reader, struct row *row, uint64_t *family)
{
    struct json_pull *pull = &reader->pull;
    uint64_t lengths_max = UINT32_MAX;

    if (json_pull_is(pull, SLICE("timestamp"))) {
        return replay_reader_uint(reader, TIME_MAX_US / 1000, &row->time);
    }
    if (json_pull_is(pull, SLICE("input_length"))) {
        return replay_reader_uint(reader, lengths_max, &row->prompt);
    }
    if (json_pull_is(pull, SLICE("output_length"))) {
        return replay_reader_uint(reader, lengths_max, &row->output);
    }
    if (json_pull_is(pull, SLICE("hash_ids"))) {
        if (row->hashes) {
            return replay_reader_bad(reader, "hash_ids appears twice");
        }
        row->hashes = true;
        return read_hashes(reader, row, family);
    }
    return json_pull_skip(pull) ? 0 : replay_reader_bad(reader, "not JSON");
}

/* An empty answer counts as one token, because an engine generates at least
 * one. */
static int
add_row(struct replay_reader *reader, const struct row *row, uint64_t family)
{
    uint64_t number = reader->load->count;
    uint64_t output = row->output > 0 ? row->output : 1;
    struct replay_request request = {
        .at_us = row->time,
        .after = REPLAY_NONE,
        .output_tokens = output < UINT32_MAX ? (uint32_t)output : UINT32_MAX,
        .answer = rng_mix(rng_mix(ANSWERS_SALT) + number),
        .family = family,
    };

    return replay_reader_said(reader,
                              replay_load_add(reader->load, &request, NULL));
}

static int
read_hashes_line(struct replay_reader *reader)
{
    struct row row = {.time = UINT64_MAX};
    uint64_t family = 0;
    enum pull_token token = json_pull_next(&reader->pull);
    int outcome = 0;

    if (token != PULL_OBJECT) {
        return replay_reader_bad(reader, "not a JSON object");
    }
    while (outcome == 0 &&
           (token = json_pull_next(&reader->pull)) == PULL_KEY) {
        outcome = read_hashes_key(reader, &row, &family);
    }
    if (outcome != 0) {
        return outcome;
    }
    if (token != PULL_OBJECT_END || json_pull_next(&reader->pull) != PULL_END) {
        return replay_reader_bad(reader, "not JSON");
    }
    if (row.time == UINT64_MAX || !row.hashes) {
        return replay_reader_bad(reader, "timestamp or hash_ids is missing");
    }
    row.time *= 1000;
    return add_row(reader, &row, family);
}

/* Days since 1970-01-01 of a date of the Gregorian calendar (years from 1970
 * on), counting in years that begin in March. */
static uint64_t
days_of(uint32_t year, uint32_t month, uint32_t day)
{
    uint64_t y = year - (month <= 2);
    uint64_t m = month > 2 ? month - 3 : month + 9;

    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 -
           719468;
}

/* Up to 9 digits after the point, in microseconds. */
static bool
read_fraction(const char **at, uint64_t *us)
{
    uint64_t unit = 100000;

    *us = 0;
    if (**at != '.') {
        return true;
    }
    for ((*at)++; **at >= '0' && **at <= '9'; (*at)++) {
        *us += unit * (uint64_t)(**at - '0');
        unit /= 10;
    }
    return true;
}

/* 2023-11-16 18:15:46.6805900,374,44 in reader->text. */
static int
read_lengths_line(struct replay_reader *reader)
{
    uint32_t date[6];
    uint32_t lengths[2];
    uint64_t us;
    int used = 0;
    struct row row;

    memcpy(reader->text, reader->line.ptr, reader->line.len);
    reader->text[reader->line.len] = '\0';
    if (sscanf(reader->text,
               "%4" SCNu32 "-%2" SCNu32 "-%2" SCNu32 " %2" SCNu32 ":%2" SCNu32
               ":%2" SCNu32 "%n",
               &date[0], &date[1], &date[2], &date[3], &date[4], &date[5],
               &used) != 6 ||
        date[0] < 1970 || date[1] < 1 || date[1] > 12 || date[2] < 1 ||
        date[2] > 31) {
        return replay_reader_bad(reader, "expected YYYY-MM-DD HH:MM:SS");
    }
    const char *at = reader->text + used;
    used = 0;
    if (!read_fraction(&at, &us) ||
        sscanf(at, ",%9" SCNu32 ",%9" SCNu32 "%n", &lengths[0], &lengths[1],
               &used) != 2 ||
        used == 0 || at[used] != '\0') {
        return replay_reader_bad(reader, "expected two numbers");
    }
    uint64_t seconds = days_of(date[0], date[1], date[2]) * 86400 +
                       date[3] * UINT64_C(3600) + date[4] * UINT64_C(60) +
                       date[5];
    row = (struct row){.time = seconds * 1000000 + us, .output = lengths[1]};
    uint64_t text = rng_mix(rng_mix(LENGTHS_SALT) + reader->load->count);
    int outcome = replay_load_run(reader->load, text, 0, lengths[0]);
    return outcome == 0 ? add_row(reader, &row, text)
                        : replay_reader_said(reader, outcome);
}

/* By the keys of the first line's object. */
static enum kind
kind_of(struct slice line)
{
    struct json_pull pull;
    enum pull_token token;

    if (line.len >= 9 && memcmp(line.ptr, "TIMESTAMP", 9) == 0) {
        return KIND_LENGTHS;
    }
    json_pull_init(&pull, line);
    token = json_pull_next(&pull);
    while (token == PULL_OBJECT || token == PULL_KEY) {
        if (token == PULL_KEY && json_pull_is(&pull, SLICE("hash_ids"))) {
            return KIND_HASHES;
        }
        if (token == PULL_KEY && json_pull_is(&pull, SLICE("input"))) {
            return KIND_SESSIONS;
        }
        if (token == PULL_KEY && json_pull_is(&pull, SLICE("traj"))) {
            return KIND_DIALOGUES;
        }
        if (token == PULL_KEY && !json_pull_skip(&pull)) {
            break;
        }
        token = json_pull_next(&pull);
    }
    return KIND_UNKNOWN;
}

static int
read_line(struct replay_reader *reader, enum kind kind)
{
    json_pull_init(&reader->pull, reader->line);
    switch (kind) {
    case KIND_HASHES:
        return read_hashes_line(reader);
    case KIND_LENGTHS:
        return reader->fault->line == 1 ? 0 : read_lengths_line(reader);
    case KIND_SESSIONS:
        return replay_reader_session(reader);
    case KIND_DIALOGUES:
        return replay_reader_dialogue(reader);
    case KIND_UNKNOWN:
        break;
    }
    return replay_reader_bad(reader, "unknown kind of trace; see --help");
}

static int
read_lines(struct replay_reader *reader, struct slice bytes)
{
    enum kind kind = KIND_UNKNOWN;
    int outcome = 0;

    while (outcome == 0 && bytes.len != 0) {
        reader->line = slice_take_line(&bytes);
        reader->fault->line++;
        if (slice_trim(reader->line).len == 0) {
            continue;
        }
        kind = kind == KIND_UNKNOWN ? kind_of(reader->line) : kind;
        outcome = read_line(reader, kind);
    }
    if (outcome == 0 && reader->load->count == 0) {
        return replay_reader_bad(reader, "the trace has no requests");
    }
    return outcome;
}

/* Times from the first one on, in order. */
static int
set_clock(struct replay_reader *reader)
{
    struct replay_load *load = reader->load;
    uint64_t first_us = UINT64_MAX;
    uint64_t last_us = 0;

    for (uint32_t i = 0; i < load->count; i++) {
        if (load->requests[i].after != REPLAY_NONE) {
            return 0; /* dialogues: they have no clock */
        }
        uint64_t at_us = load->requests[i].at_us;
        first_us = at_us < first_us ? at_us : first_us;
        last_us = at_us > last_us ? at_us : last_us;
    }
    if (last_us - first_us > REPLAY_TRACE_US_MAX) {
        return replay_reader_bad(reader, "the trace is longer than 31 days");
    }
    for (uint32_t i = 0; i < load->count; i++) {
        load->requests[i].at_us -= first_us;
    }
    replay_load_sort(load);
    return 0;
}

int
replay_trace_read(struct slice bytes, struct replay_load *load,
                  struct replay_fault *fault)
{
    struct replay_reader reader = {.load = load, .fault = fault};

    CHECK(load->count == 0);
    *fault = (struct replay_fault){.line = 0};
    reader.text_size = bytes.len + 1;
    reader.text = malloc(reader.text_size);
    if (reader.text == NULL) {
        return -ENOMEM;
    }
    int outcome = read_lines(&reader, bytes);
    free(reader.text);
    if (outcome != 0) {
        replay_load_drop(load);
        return outcome;
    }
    return set_clock(&reader);
}
