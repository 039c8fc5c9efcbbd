/*
 * The body as 64-byte blocks of bit masks: what the scanner's kernels make of
 * the bytes, and what its walk over the tokens stands on. Private to scan.
 *
 * A kernel turns 64 bytes into words in which bit i speaks of byte i, and the
 * JSON grammar is then decided by arithmetic on whole words, the same for
 * every kernel (scan_window_internal.h has the essay). It reads a window of
 * blocks at a time. The walk sees tokens only from windows that were found
 * good, so it never meets a fault: it meets tokens in an order that JSON
 * allows, or the end.
 *
 * Role: core. Owns: nothing. Thread: any, one per struct scan_blocks.
 * Limits: SCAN_DEPTH_MAX levels. Errors: `ok` goes false once and for all; what
 * and where is for scan_fault_find() to say.
 */
#ifndef NODE_SCAN_BLOCK_INTERNAL_H
#define NODE_SCAN_BLOCK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"

#define SCAN_BLOCK     64
#define SCAN_WINDOW    64 /* blocks whose strings are found at once */
#define SCAN_DEPTH_MAX 1024
#define SCAN_LANES_MAX 8 /* words that a kernel handles side by side */

/* What scan_scalar() finds. */
enum scan_scalar {
    SCAN_NOT_SCALAR, /* neither a literal nor a number */
    SCAN_LITERAL,    /* true, false, null */
    SCAN_NUMBER,     /* any other number */
    SCAN_PLAIN,      /* a number of decimal digits and nothing else */
};

/* What one block leaves to the next: 0 or 1 unless said otherwise. */
struct scan_string_carry {
    uint64_t in_string; /* all ones: the next byte is inside a string */
    uint64_t escape;    /* the next byte is escaped */
    uint64_t slashed;   /* not 0: the string has had a backslash so far */
    uint64_t hex;       /* bits 0-3: bytes that must be hex digits */
};

struct scan_frame_carry {
    uint64_t in_key;    /* the next byte is in a string that is a key */
    uint64_t in_scalar; /* ... may belong to the last scalar */
    uint64_t scalar_at; /* ... which begins there */
    uint64_t opened;    /* the next token follows { or [ */
    uint64_t separated; /* ... a comma or colon */
    uint64_t key;       /* ... what a key must follow */
    uint64_t keyed;     /* ... a key */
    uint64_t kinds;     /* of the containers: is it an object? Bit 63 is of the
                           innermost, 62 of the one around it; good as long as
                           there are not more than 64 */
    int32_t depth;      /* levels open */
};

/*
 * Blocks that have anything outside strings, and what that is; [k] is of the
 * k-th of them, and its bit i speaks of byte i.
 */
struct scan_frames {
    unsigned count;
    uint64_t plain;   /* set of those with scalars, and all of digits */
    uint64_t tangled; /* ... with arrays that need a look at each bracket */
    uint64_t tokens[SCAN_WINDOW]; /* brackets, quotes (both of a string), first
                                     bytes of scalars; no commas, no colons */
    uint64_t open[SCAN_WINDOW];   /* { and [ */
    uint64_t close[SCAN_WINDOW];  /* } and ] */
    uint32_t block[SCAN_WINDOW];  /* which of the window's it is */
    int32_t depth[SCAN_WINDOW];   /* levels open after it */
    int32_t lowest[SCAN_WINDOW];  /* in it there are not less than these */

    /* Between the steps that check them. */
    uint64_t quote[SCAN_WINDOW]; /* as in the window */
    uint64_t in_string[SCAN_WINDOW];
    uint64_t bit_2[SCAN_WINDOW]; /* as in struct frame_masks */
    uint64_t bit_5[SCAN_WINDOW];
    uint64_t bit_6[SCAN_WINDOW];
    uint64_t brace[SCAN_WINDOW]; /* in open and close: a curly one */
    uint64_t comma[SCAN_WINDOW];
    uint64_t colon[SCAN_WINDOW];
    uint64_t space[SCAN_WINDOW];
    uint64_t scalar[SCAN_WINDOW];
    uint64_t starts[SCAN_WINDOW];  /* first bytes of scalars */
    uint64_t objects[SCAN_WINDOW]; /* the innermost container is an object */
};

/*
 * As much of the body as is looked at in one go. Bit i of a set speaks of the
 * window's block i.
 */
struct scan_window {
    size_t at;        /* offset in the body */
    unsigned count;   /* blocks */
    uint64_t busy;    /* blocks that have anything outside strings */
    uint64_t slashed; /* blocks that have a backslash, or its escaped byte */
    uint64_t carried; /* not 0: the string that comes from before has had one
                         there */
    struct scan_frames frames;
    uint64_t slash[SCAN_WINDOW + SCAN_LANES_MAX];
    uint64_t quote[SCAN_WINDOW + SCAN_LANES_MAX]; /* those not escaped */
    uint64_t in_string[SCAN_WINDOW]; /* opening quote and contents */
    uint64_t escaped[SCAN_WINDOW];   /* bytes that a backslash escapes */
};

struct scan_blocks {
    const char *body;
    size_t end;  /* offset one past the last byte */
    size_t next; /* offset of the first byte in no window yet */
    int32_t depth_max;
    bool ok;
    bool closed; /* depth 0 was reached: nothing is read any more */

    struct scan_string_carry strings;
    struct scan_frame_carry frame;
    struct scan_window window;
    unsigned char tail[SCAN_BLOCK]; /* the last block, filled up with spaces */

    /*
     * Once the depth is over 64: bit d of all is of the container at depth
     * d + 1. One block can open 64 before anyone looks at depth_max.
     */
    uint64_t deep_kinds[SCAN_DEPTH_MAX / 64 + 2];
};

/* One way to make masks of bytes; all give the same answers. */
struct scan_kernel {
    const char *name;

    /* True when this processor can run it. */
    bool (*usable)(void);

    /*
     * Checks the next blocks and fills the window with what is in them. False:
     * the body ended, or is not JSON (then ok is false): no frames.
     */
    bool (*read)(struct scan_blocks *b);
};

extern const struct scan_kernel scan_kernel_portable;
#if defined(__x86_64__)
extern const struct scan_kernel scan_kernel_sse2;
extern const struct scan_kernel scan_kernel_avx2;
extern const struct scan_kernel scan_kernel_avx512;
#endif

/* The fastest that runs here. */
const struct scan_kernel *scan_kernel_best(void);

/* All of them, for tests: NULL after the last. */
const struct scan_kernel *scan_kernel_nth(unsigned i);

/* Starts at body[at], where a value is expected, and goes no further than
 * body[end]. */
void scan_blocks_init(struct scan_blocks *b, const char *body, size_t at,
                      size_t end, uint32_t depth_max);

/* memset() to 0 for a few hundred bytes: the library's takes a third of what
 * gcc's own (rep stos) does. */
void scan_wipe(void *at, size_t bytes);

/*
 * Starts a window: at, count and tail. False at the end of the body, or of
 * what is worth reading.
 */
bool scan_window_start(struct scan_blocks *b);

/*
 * The bytes of frame k whose innermost container is an object, found bracket
 * by bracket: when there are more than 64 levels before or in it.
 */
uint64_t scan_deep_objects(struct scan_blocks *b, unsigned k);

/*
 * The scalar that starts at body[at] and reaches to the next space, bracket,
 * comma, colon, quote or to end.
 */
enum scan_scalar scan_scalar(const char *body, size_t at, size_t end);

#endif
