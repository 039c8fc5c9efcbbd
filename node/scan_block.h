/*
 * The body as 64-byte blocks of bit masks: what the scanner's kernels make of
 * the bytes, and what its walk over the tokens stands on. Private to scan.
 *
 * A kernel turns 64 bytes into words in which bit i speaks of byte i, and the
 * JSON grammar is then decided by arithmetic on whole words, the same for
 * every kernel (scan_advance.h has the essay). The walk sees tokens only from
 * blocks that were found good, so it never meets a grammar fault: it meets
 * tokens in an order that JSON allows, or the end.
 *
 * Role: core. Owns: nothing. Thread: any, one per struct scan_blocks.
 * Limits: SCAN_DEPTH_MAX levels. Errors: `ok` goes false once and for all; what
 * and where is for scan_fault_find() to say.
 */
#ifndef NODE_SCAN_BLOCK_H
#define NODE_SCAN_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"

#define SCAN_BLOCK     64
#define SCAN_DEPTH_MAX 1024
#define SCAN_ANY_DEPTH INT32_MAX

/* What scan_scalar() finds. */
enum scan_scalar {
    SCAN_NOT_SCALAR, /* neither a literal nor a number */
    SCAN_LITERAL,    /* true, false, null */
    SCAN_NUMBER,     /* any other number */
    SCAN_PLAIN,      /* a number of decimal digits and nothing else */
};

struct scan_blocks {
    const char *body;
    size_t end;  /* offset one past the last byte */
    size_t at;   /* offset of the block described below */
    size_t next; /* offset of the first byte not loaded yet */

    /* The current block. */
    uint64_t tokens; /* not yet taken: brackets, quotes (both of a string) and
                        first bytes of scalars; no commas, no colons */
    uint64_t opens;  /* { and [ outside strings */
    uint64_t closes; /* } and ] outside strings */
    uint64_t plain;  /* scalars that are SCAN_PLAIN */
    uint64_t slashes;
    size_t slash_before;  /* 1 + offset of the last \ before this block, or 0 */
    size_t slash_through; /* the same, this block included */
    int32_t depth;        /* levels open after this block */
    int32_t depth_max;
    bool ok;

    /* What one block leaves to the next: 0 or 1 unless said otherwise. */
    uint64_t in_string; /* all ones: the next byte is inside a string */
    uint64_t in_key;    /* ... and that string is a key */
    uint64_t in_scalar;
    uint64_t escape;       /* the next byte is escaped */
    uint64_t hex;          /* bits 0-3: bytes that must be hex digits */
    uint64_t continuation; /* bits 0-2: bytes that must be 80..BF */
    uint64_t after_e0;     /* the byte before was E0; the like below */
    uint64_t after_ed;
    uint64_t after_f0;
    uint64_t after_f4;
    uint64_t after_open;      /* the next token follows { or [ */
    uint64_t after_separator; /* ... a comma or colon */
    uint64_t before_key;      /* ... what a key must follow */
    uint64_t before_colon;    /* ... a key */

    unsigned char tail[SCAN_BLOCK]; /* the last block, filled up with spaces */

    /*
     * kinds[SCAN_KINDS_BELOW + d]: is the container at depth d an object? One
     * block can open or close 64 before anyone looks at the limits.
     */
#define SCAN_KINDS_BELOW SCAN_BLOCK
    uint8_t kinds[SCAN_KINDS_BELOW + SCAN_DEPTH_MAX + SCAN_BLOCK + 2];
};

/* One way to make masks of bytes; all give the same answers. */
struct scan_kernel {
    const char *name;

    /* True when this processor can run it. */
    bool (*usable)(void);

    /*
     * Goes on to the next block that has tokens and in which the depth came
     * down to `depth` or below; SCAN_ANY_DEPTH takes every block that has
     * tokens. Checks everything on the way. False: the body ended first, or
     * is not JSON (then ok is false), and no tokens are left.
     */
    bool (*advance)(struct scan_blocks *b, int32_t depth);
};

extern const struct scan_kernel scan_kernel_portable;
#if defined(__x86_64__)
extern const struct scan_kernel scan_kernel_sse2;
#endif

/* The fastest that runs here. */
const struct scan_kernel *scan_kernel_best(void);

/* All of them, for tests: NULL after the last. */
const struct scan_kernel *scan_kernel_nth(unsigned i);

/*
 * Starts at body[at], where a value is expected; the value must be an array
 * or object for the depth to make sense.
 */
void scan_blocks_init(struct scan_blocks *b, const char *body, size_t at,
                      size_t end, uint32_t depth_max);

/*
 * The last block of the body, filled up with spaces: for kernels, when less
 * than SCAN_BLOCK bytes are left at b->next.
 */
const unsigned char *scan_blocks_tail(struct scan_blocks *b);

/*
 * The scalar that starts at body[at] and reaches to the next space, bracket,
 * comma, colon, quote or to end.
 */
enum scan_scalar scan_scalar(const char *body, size_t at, size_t end);

#endif
