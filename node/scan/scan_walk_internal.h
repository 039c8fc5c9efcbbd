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
#ifndef NODE_SCAN_WALK_INTERNAL_H
#define NODE_SCAN_WALK_INTERNAL_H

#include "index/base/slice.h"
#include "node/scan/scan.h"
#include "node/scan/scan_block_internal.h"

/* Where a token begins, and its first byte; 0 after the last. */
struct token {
    uint32_t at;
    int32_t kind; /* a whole word: it is passed in a register with the other */
};

struct walk {
    const char *body;
    const struct scan_kernel *kernel;

    /* Where the walk is: the block, and its tokens that are not taken yet. */
    size_t at; /* the block's offset in the body */
    uint64_t tokens;
    uint64_t slash; /* the block's backslashes */
    unsigned frame; /* which of the window's */
    uint32_t taken; /* offset of the token taken last */

    /* Where spans go. */
    struct scan_span *spans;
    uint32_t spans_max;
    uint32_t spans_count;
    bool spans_truncated; /* one did not fit; none is written any more */
    bool media;           /* a part was no text */
    bool media_named;     /* ... and had a uuid */

    struct scan_blocks blocks;
};

/* The prompt, or a part of it, as found at one key. */
struct prompt {
    enum scan_shape shape; /* SCAN_NO_PROMPT: of no type that we know */
    uint32_t prompts;
};

/* Starts at body[at], where a value must begin; see scan_blocks_init(). */
void walk_init(struct walk *w, struct slice body, size_t at,
               uint32_t depth_max);

/*
 * Goes on to the next block that has tokens and in which the depth may have
 * come down to `depth` or below. False: there is none.
 */
bool walk_block(struct walk *w, int32_t depth);

/*
 * The next token; of kind 0 at the end of the body, or of what is good of it.
 */
static inline struct token
walk_token(struct walk *w)
{
    if (w->tokens == 0 && !walk_block(w, INT32_MAX)) {
        return (struct token){.at = (uint32_t)w->blocks.end, .kind = 0};
    }
    size_t at = w->at + (size_t)__builtin_ctzll(w->tokens);
    w->tokens &= w->tokens - 1;
    w->taken = (uint32_t)at;
    return (struct token){.at = (uint32_t)at, .kind = w->body[at]};
}

/* True when the next token is the first byte of a value or of a key. */
static inline bool
walk_open(struct token t)
{
    return t.kind != 0 && t.kind != ']' && t.kind != '}';
}

/* Whether a string that begins before the current block, at `from`, and ends
 * in it at `close`, has a backslash. */
bool walk_slashed(const struct walk *w, size_t from, size_t close);

/* Whether the string between these quotes, of which the second was taken last,
 * has a backslash. */
static inline bool
walk_escaped(const struct walk *w, uint32_t open, uint32_t close)
{
    if (LIKELY(open >= w->at)) {
        uint64_t below = (UINT64_C(1) << (close - w->at)) - 1;
        return (w->slash & below) >> (open - w->at) != 0;
    }
    return walk_slashed(w, (size_t)open + 1, close);
}

/* The string whose opening quote is at `at`; takes its closing quote. */
static inline struct scan_text
walk_string(struct walk *w, uint32_t at)
{
    struct token close = walk_token(w);

    CHECK_SLOW(w->body[at] == '"');
    if (UNLIKELY(close.kind == 0)) {
        return (struct scan_text){.present = false};
    }
    return (struct scan_text){.at = at + 1,
                              .len = close.at - at - 1,
                              .present = true,
                              .escaped = walk_escaped(w, at, close.at)};
}

/* Goes past the value that begins with t; the offset after an array, object
 * or string (of a scalar: its own). */
uint32_t walk_skip(struct walk *w, struct token t);

/* Goes past the closing bracket that matches nothing opened from here on; the
 * offset after it. */
uint32_t walk_leave(struct walk *w);

/* As walk_string() when t begins a string; else skips it: not present. */
static inline struct scan_text
walk_text(struct walk *w, struct token t)
{
    if (LIKELY(t.kind == '"')) {
        return walk_string(w, t.at);
    }
    walk_skip(w, t);
    return (struct scan_text){.present = false};
}

/* The raw bytes of an array or object that is not empty; anything else is
 * skipped and not present. */
struct scan_text walk_raw(struct walk *w, struct token t);

/* The raw bytes of the value that begins with t, whatever its type. */
struct scan_text walk_value(struct walk *w, struct token t);

/* Adds a span if it is present, unless the room is used up. */
static inline void
walk_push(struct walk *w, enum scan_span_kind kind, struct scan_text text)
{
    CHECK_SLOW(w->spans_count <= w->spans_max);
    if (!text.present || w->spans_truncated) {
        return;
    }
    if (w->spans_count == w->spans_max) {
        w->spans_truncated = true;
        return;
    }
    w->spans[w->spans_count++] = (struct scan_span){
        .at = text.at,
        .len = text.len,
        .kind = (uint8_t)kind,
        .escaped = text.escaped,
    };
}

/* `content`, `system`: a string, or an array of parts. Spans in order. False
 * when it was neither. (scan_part.c) */
bool walk_content(struct walk *w, struct token t);

/* `messages`: an array of message objects. (scan_prompt.c) */
struct prompt walk_messages(struct walk *w, struct token t);

/* `prompt`, `input`: see enum scan_shape. (scan_prompt.c) */
struct prompt walk_prompt(struct walk *w, struct token t);

/*
 * Room for an escaped name of at most SCAN_NAME_MAX bytes, however it is
 * spelt; a longer one is given as the empty one, as nobody asks for it.
 */
struct scan_name {
    char room[SCAN_NAME_MAX * 6];
};

/* The bytes that an escaped string stands for. */
struct slice walk_unescaped(struct slice text, struct scan_name *name);

/* The bytes that a string stands for: in the body, or in name. */
static inline struct slice
walk_name(const struct walk *w, struct scan_text text, struct scan_name *name)
{
    struct slice raw = {.ptr = w->body + text.at, .len = text.len};

    return UNLIKELY(text.escaped) ? walk_unescaped(raw, name) : raw;
}

/* The same of the key whose opening quote is at `at`; takes its closing quote.
 * Empty at the end of the body. */
static inline struct slice
walk_key(struct walk *w, uint32_t at, struct scan_name *name)
{
    struct token close = walk_token(w);
    struct slice raw = {.ptr = w->body + at + 1, .len = close.at - at - 1};

    if (UNLIKELY(close.kind == 0)) {
        return (struct slice){.ptr = w->body, .len = 0};
    }
    return UNLIKELY(walk_escaped(w, at, close.at)) ? walk_unescaped(raw, name)
                                                   : raw;
}

/* Compares with a literal, whose length the compiler knows. */
#define WALK_IS(name, literal)            \
    ((name).len == sizeof(literal) - 1 && \
     memcmp((name).ptr, literal, sizeof(literal) - 1) == 0)

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
