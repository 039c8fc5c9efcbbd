/*
 * Reads small JSON documents token by token: model lists, admin requests.
 * Request bodies have scan.h, which is many times faster and looks for less.
 *
 *   json_pull_init(&pull, bytes);
 *   while ((token = json_pull_next(&pull)) > PULL_END) ...
 *
 * Strict (RFC 8259): one value and nothing but blanks after it, no trailing
 * commas, numbers by the grammar, control characters escaped, well-formed
 * UTF-8. Keys are returned as they come, duplicates too. Text is unescaped only
 * on request.
 *
 * Role: core. Owns: nothing; slices point into the caller's bytes.
 * Thread: any. Limits: JSON_PULL_DEPTH_MAX. Errors: PULL_BAD, sticky, with
 * `fault` and its offset `at`.
 */
#ifndef NODE_JSON_PULL_H
#define NODE_JSON_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define JSON_PULL_DEPTH_MAX 64

enum pull_token {
    PULL_BAD = -1, /* not JSON; every further call returns the same */
    PULL_END = 0,  /* the document ended, whole */
    PULL_OBJECT,
    PULL_OBJECT_END,
    PULL_ARRAY,
    PULL_ARRAY_END,
    PULL_KEY, /* its value is the next token */
    PULL_STRING,
    PULL_NUMBER,
    PULL_TRUE,
    PULL_FALSE,
    PULL_NULL,
};

struct json_pull {
    struct slice bytes;
    size_t at;         /* of the next byte; of the fault with PULL_BAD */
    struct slice text; /* PULL_KEY, PULL_STRING: between the quotes, raw;
                          PULL_NUMBER: its digits */
    bool escaped;      /* text holds a backslash */
    const char *fault; /* static text; NULL while all is well */

    uint64_t in_array; /* a bit per open container, the innermost lowest */
    uint32_t depth;    /* open containers */
    uint8_t expect;    /* enum json_expect of json_pull.c */
};

/* bytes are borrowed while the reader is used. */
void json_pull_init(struct json_pull *pull, struct slice bytes);

/* Reads the next token. PULL_BAD is final, and `fault` says why. */
enum pull_token json_pull_next(struct json_pull *pull) MUST_CHECK;

/*
 * Skips what belongs to the token that json_pull_next() just returned: after a
 * key its value, after an opening bracket everything up to its end; after any
 * other token nothing. False when the document turns out to be bad.
 */
bool json_pull_skip(struct json_pull *pull) MUST_CHECK;

/* json_pull_is(), where there is something to unescape. */
bool json_pull_is_slowly(const struct json_pull *pull, struct slice text);

/* Whether the key or string just returned is this text, unescaped. */
static inline bool
json_pull_is(const struct json_pull *pull, struct slice text)
{
    return UNLIKELY(pull->escaped) ? json_pull_is_slowly(pull, text)
                                   : slice_equal(pull->text, text);
}

/*
 * Copies the key or string just returned, unescaped, with a NUL at its end,
 * into room bytes. A lone surrogate becomes U+FFFD. Its length, or -1 when it
 * does not fit or holds a NUL itself.
 */
int json_pull_copy(const struct json_pull *pull, char *out, size_t room)
    MUST_CHECK;

/* The number just returned as an integer from 0 to max: true and *value. */
bool json_pull_uint(const struct json_pull *pull, uint64_t max, uint64_t *value)
    MUST_CHECK;

#endif
