/* Reads an array of token ids in one pass, without building a tree of it. */
#include "node/tokens/token_ask_ids_internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "node/text/json_pull.h"

#define ROOM_MIN 1024U

void
token_ids_fini(struct token_ids *ids)
{
    free(ids->ids);
    *ids = (struct token_ids){.ids = NULL};
}

static bool
grow(struct token_ids *out)
{
    uint32_t room = out->room < ROOM_MIN ? ROOM_MIN : out->room;
    uint32_t *ids;

    CHECK(out->count == out->room && out->room < UINT32_MAX);
    room = room > UINT32_MAX / 2 ? UINT32_MAX : 2 * room;
    ids = realloc(out->ids, room * sizeof(*ids));
    if (ids == NULL) {
        return false;
    }
    out->ids = ids;
    out->room = room;
    return true;
}

static const char *
skip_blanks(const char *at, const char *end)
{
    while (at != end &&
           (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) {
        at++;
    }
    return at;
}

/* The digits at `at`: the offset after them, or NULL when they are no id. */
static const char *
read_id(const char *at, const char *end, uint32_t *id)
{
    const char *first = at;
    uint64_t value = 0;

    for (; at != end && (unsigned char)(*at - '0') < 10; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
        if (value > UINT32_MAX) {
            return NULL;
        }
    }
    *id = (uint32_t)value;
    return at == first || (*first == '0' && at - first > 1) ? NULL : at;
}

/* The elements of an array, from behind its bracket. */
static int
read_array(struct token_ids *out, const char *at, const char *end)
{
    at = skip_blanks(at, end);
    if (at != end && *at == ']') {
        return 0;
    }
    for (;;) {
        uint32_t id;
        if (out->count == out->room && !grow(out)) {
            return -ENOMEM;
        }
        at = read_id(at, end, &id);
        if (at == NULL) {
            return TOKEN_IDS_E_BAD;
        }
        out->ids[out->count++] = id;
        at = skip_blanks(at, end);
        if (at == end || (*at != ',' && *at != ']')) {
            return TOKEN_IDS_E_BAD;
        }
        if (*at++ == ']') {
            return 0;
        }
        at = skip_blanks(at, end);
    }
}

/* Into the object, or the first of an array of them. */
static bool
enter(struct json_pull *pull)
{
    enum pull_token token = json_pull_next(pull);

    if (token == PULL_ARRAY) {
        token = json_pull_next(pull);
    }
    return token == PULL_OBJECT;
}

/* The value of the key that the reader is behind. */
static int
read_value(struct token_ids *out, struct json_pull *pull)
{
    const char *at;
    const char *end = pull->bytes.ptr + pull->bytes.len;
    enum pull_token token = json_pull_next(pull);

    if (token != PULL_ARRAY) {
        return token == PULL_BAD ? TOKEN_IDS_E_BAD : TOKEN_IDS_E_NONE;
    }
    at = skip_blanks(pull->bytes.ptr + pull->at, end);
    return read_array(out, at != end && *at == '[' ? at + 1 : at, end);
}

int
token_ids_read(struct token_ids *out, struct slice json, struct slice key)
{
    struct json_pull pull;
    enum pull_token token;

    CHECK(json.len <= UINT32_MAX);
    out->count = 0;
    json_pull_init(&pull, json);
    if (!enter(&pull)) {
        return TOKEN_IDS_E_BAD;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        if (json_pull_is(&pull, key)) {
            return read_value(out, &pull);
        }
        if (!json_pull_skip(&pull)) {
            return TOKEN_IDS_E_BAD;
        }
    }
    return token == PULL_OBJECT_END ? TOKEN_IDS_E_NONE : TOKEN_IDS_E_BAD;
}
