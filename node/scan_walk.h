/*
 * The walk over a body's tokens: what is left to do once the blocks are known
 * to be JSON. Private to scan.
 *
 * The grammar is checked before a token is seen, so code here may rely on it:
 * after an object's key comes its value, quotes come in pairs. At the end of
 * the body, or at a fault, every further token is of kind 0, which ends every
 * loop; the faults are sorted out once, in scan_body().
 *
 * Role: core. Owns: nothing. Thread: one per struct walk.
 */
#ifndef NODE_SCAN_WALK_H
#define NODE_SCAN_WALK_H

#include "index/base/slice.h"
#include "node/scan.h"
#include "node/scan_block.h"

/* Where a token begins, and its first byte; 0 after the last. */
struct token {
    uint32_t at;
    char kind;
};

struct walk {
    struct scan_blocks blocks;
    const struct scan_kernel *kernel;
    uint32_t taken; /* offset of the token taken last */

    /* Where spans go. */
    struct scan_span *spans;
    uint32_t spans_max;
    uint32_t spans_count;
    bool spans_cut; /* one did not fit; none is written any more */
};

/* The prompt, or a part of it, as found at one key. */
struct prompt {
    enum scan_shape shape; /* SCAN_NO_PROMPT: of no type that we know */
    uint32_t prompts;
};

static inline struct token
walk_token(struct walk *w)
{
    struct scan_blocks *b = &w->blocks;

    if (b->tokens == 0 && !w->kernel->advance(b, SCAN_ANY_DEPTH)) {
        return (struct token){.at = (uint32_t)b->end, .kind = 0};
    }
    size_t at = b->at + (size_t)__builtin_ctzll(b->tokens);
    b->tokens &= b->tokens - 1;
    w->taken = (uint32_t)at;
    return (struct token){.at = (uint32_t)at, .kind = b->body[at]};
}

/* True when the next token is the first byte of a value or of a key. */
static inline bool
walk_open(struct token t)
{
    return t.kind != 0 && t.kind != ']' && t.kind != '}';
}

/* The string whose opening quote is at `at`; takes its closing quote. */
struct scan_text walk_string(struct walk *w, uint32_t at);

/* Goes past the value that begins with t; the offset after an array, object
 * or string (of a scalar: its own). */
uint32_t walk_skip(struct walk *w, struct token t);

/* Goes past `level` closing brackets that match nothing opened from here on;
 * the offset after the last. */
uint32_t walk_leave(struct walk *w, int32_t level);

/* As walk_string() when t begins a string; else skips it: not present. */
struct scan_text walk_text(struct walk *w, struct token t);

/* The raw bytes of an array or object that is not empty; anything else is
 * skipped and not present. */
struct scan_text walk_raw(struct walk *w, struct token t);

/* Adds a span unless the room is used up. */
void walk_push(struct walk *w, enum scan_span_kind kind, struct scan_text text);

/* `content`, `system`: a string, or an array of parts. Spans in order. False
 * when it was neither. (scan_part.c) */
bool walk_content(struct walk *w, struct token t);

/* `messages`: an array of message objects. (scan_prompt.c) */
struct prompt walk_messages(struct walk *w, struct token t);

/* `prompt`, `input`: see enum scan_shape. (scan_prompt.c) */
struct prompt walk_prompt(struct walk *w, struct token t);

/*
 * The string as the bytes it stands for: in the body, or in name when it is
 * escaped. An escaped string that is longer than any spelling of a name of
 * SCAN_NAME_MAX bytes is given as the empty one: nobody asks for that.
 */
#define SCAN_NAME_MAX 24
struct scan_name {
    char room[SCAN_NAME_MAX * 6];
};
struct slice walk_name(const struct walk *w, struct scan_text text,
                       struct scan_name *name);

/*
 * The scalar at body[at] as an integer: exact for integers and for fractions
 * and exponents that make one, saturating. False: no number, or not integral.
 */
bool scan_integer(const char *body, size_t at, size_t end, int64_t *value);

/* Scans with one kernel: scan_body() takes the best. For tests. */
int scan_body_with(const struct scan_kernel *kernel, struct slice body,
                   const struct scan_limits *limits, struct scan *scan)
    MUST_CHECK;

#endif
