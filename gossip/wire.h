/*
 * Bytes of gossip frames: numbers, and the bodies of records.
 *
 * Numbers are little endian; counts and small numbers are varints (seven bits
 * to a byte, the lowest first). A reader never goes beyond its end: the first
 * thing that is not there makes it fail, and everything after is zero; so a
 * frame is read to its end and judged once.
 *
 * A body is what one record says, wherever it stands: in a log, in a DELTA, in
 * a PAGE. It is kept in this form, so what is pushed is copied, not encoded
 * again.
 *
 *   u8      flags (below)
 *   u32     print of the batch, its lower half: one that differs is proof, and
 *           one that agrees by chance is followed by others
 *   varint  holes, block_tokens: each only if its flag says so
 *   varint  words when decoded
 *   ops     varint (count << 4 | tier << 2 | kind), then count keys of 8 bytes
 *   ...     unknown fields of a later version
 *
 * Keys are hashes: nothing makes them smaller. An op takes two bytes where the
 * decoded one takes eight.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: `failed`, or false.
 */
#ifndef GOSSIP_WIRE_H
#define GOSSIP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/index.h"

/* Longest record as it travels, in words when decoded. */
#define WIRE_WORDS_MAX 8192U

struct wire_out {
    uint8_t *bytes; /* the caller's */
    size_t len;
    size_t max;
    bool failed; /* something did not fit: what is there is not to be used */
};

void wire_put_u8(struct wire_out *out, uint8_t value);
void wire_put_u32(struct wire_out *out, uint32_t value);
void wire_put_u64(struct wire_out *out, uint64_t value);
void wire_put_varint(struct wire_out *out, uint64_t value);
void wire_put_bytes(struct wire_out *out, const void *bytes, size_t len);

struct wire_in {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

static inline size_t
wire_left(const struct wire_in *in)
{
    return (size_t)(in->end - in->at);
}

uint8_t wire_get_u8(struct wire_in *in);
uint32_t wire_get_u32(struct wire_in *in);
uint64_t wire_get_u64(struct wire_in *in);
uint64_t wire_get_varint(struct wire_in *in);
/* A varint that must be max or less. */
uint32_t wire_get_count(struct wire_in *in, uint32_t max);
/* The next len bytes as a reader of their own. */
struct wire_in wire_get_part(struct wire_in *in, uint64_t len);

enum {
    WIRE_GAP = 1,          /* something before it is missing for good */
    WIRE_HOLES = 2,        /* holes follow; else 0 */
    WIRE_HOLES_NONE = 4,   /* holes are EVENT_HOLES_UNKNOWN */
    WIRE_BLOCK_TOKENS = 8, /* block_tokens follow; else 0 */
};

struct wire_body {
    uint8_t flags;
    bool clears; /* has a CLEAR */
    uint32_t print;
    uint32_t holes;
    uint32_t block_tokens;
    uint32_t words_count;
    struct wire_in ops;
};

/* Appends the body of a record with these words (checked, at most
 * WIRE_WORDS_MAX) instead of its own. flags: WIRE_GAP or 0. */
void wire_put_body(struct wire_out *out, const struct event_record *head,
                   const uint64_t *words, uint32_t count, uint64_t print,
                   uint8_t flags);

/* Whether in holds a sound body, and what it says; nothing is allocated. */
bool wire_get_body(struct wire_in in, struct wire_body *body) MUST_CHECK;

/* The words_count words of a sound body. */
void wire_body_words(const struct wire_body *body, uint64_t *words);

/* Upper bound of a body's bytes. */
#define WIRE_BODY_BYTES_MAX(words) (40 + (size_t)(words)*8)

#endif
