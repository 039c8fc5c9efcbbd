/*
 * Bytes of gossip frames: numbers, and the bodies of records.
 *
 * Numbers are little endian; counts and small numbers are varints (seven bits
 * per byte, the lowest first). A reader never goes beyond its end: the first
 * missing value makes it fail, and all later values are zero. So a frame is
 * read to its end and checked once.
 *
 * A body is the content of one record, in the same form in a log, a DELTA and a
 * PAGE. So a pushed record is copied, not encoded again.
 *
 *   u8      flags (below)
 *   u32     lower half of the batch's fingerprint: a difference is proof, and
 *           an accidental match is followed by differences
 *   varint  holes, block_tokens: each only if its flag says so
 *   varint  words when decoded
 *   ops     varint (count << 4 | tier << 2 | kind), then count keys of 8 bytes
 *   fields  each u8 what it is, varint len, so many bytes. What is not known
 *           (of a later version) travels on as long as the body has no more
 *           than CODEC_BODY_MAX bytes. Where it has more, what stands behind
 *           the names is left out, or all fields if that does not suffice
 *
 * Keys are hashes and cannot be compressed. An op takes two bytes where the
 * decoded op takes eight.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: `failed`, or false.
 */
#ifndef GOSSIP_CODEC_INTERNAL_H
#define GOSSIP_CODEC_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/index.h"

/* Longest record in a frame, in decoded words. */
#define CODEC_WORDS_MAX 8192U

/* Longest body that a log keeps, and so what every frame must have room for.
 * What is understood of a body always fits: at most 35 bytes of head, and ten
 * for each word. */
#define CODEC_BODY_MAX ((size_t)96 * 1024)

/* Bytes of a record's names at most; more of them go into further parts of the
 * batch. Together with a part's words they are below CODEC_BODY_MAX. */
#define CODEC_NAMES_MAX ((size_t)48 * 1024)

struct codec_out {
    uint8_t *bytes; /* the caller's */
    size_t len;
    size_t max;
    bool failed; /* something did not fit: do not use the bytes */
};

/* Append a number, little endian, or bytes as they are. What does not fit sets
 * `failed`, and nothing is appended from then on. */
void codec_put_u8(struct codec_out *out, uint8_t value);
void codec_put_u32(struct codec_out *out, uint32_t value);
void codec_put_u64(struct codec_out *out, uint64_t value);

/* Appends a number as one to ten bytes of seven bits each. Fails as above. */
void codec_put_varint(struct codec_out *out, uint64_t value);

/* Appends len bytes; bytes may be NULL when len is 0. Fails as above. */
void codec_put_bytes(struct codec_out *out, const void *bytes, size_t len);

/* The free room, to pack maps into; len grows by the packed bytes. */
static inline struct buf
codec_rest(const struct codec_out *out)
{
    CHECK(out->len <= out->max);
    return buf_over(out->bytes + out->len, out->max - out->len);
}

struct codec_in {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

/* How many bytes are left to read. */
static inline size_t
codec_left(const struct codec_in *in)
{
    CHECK_SLOW(in->at <= in->end);
    return (size_t)(in->end - in->at);
}

/* The bytes that are left; empty if the reader has failed. */
static inline struct slice
codec_slice(const struct codec_in *in)
{
    return (struct slice){.ptr = (const char *)in->at,
                          .len = in->failed ? 0 : codec_left(in)};
}

/* Read a little-endian number. Without enough bytes: 0, and `failed` is set. */
uint8_t codec_get_u8(struct codec_in *in);
uint32_t codec_get_u32(struct codec_in *in);
uint64_t codec_get_u64(struct codec_in *in);

/* Reads a varint of at most 64 bits. Without one: 0, and `failed` is set. */
uint64_t codec_get_varint(struct codec_in *in);

/* Reads a varint that must be at most max. */
uint32_t codec_get_count(struct codec_in *in, uint32_t max);

/* The next len bytes as a reader of their own. */
struct codec_in codec_get_part(struct codec_in *in, uint64_t len);

/* A question for a part of what a peer knows of a stream; the answer's frame
 * begins with the same fields. */
struct codec_ask {
    struct event_stream name;
    uint64_t epoch_id;
    uint64_t token; /* the asker's, to know the answer by */
    uint64_t cursor;
};

void codec_put_ask(struct codec_out *out, const struct codec_ask *ask);

/* False: it is cut off. */
bool codec_get_ask(struct codec_in *in, struct codec_ask *ask) MUST_CHECK;

enum {
    CODEC_GAP = 1,          /* records before it are lost for good */
    CODEC_HOLES = 2,        /* holes follow; otherwise 0 */
    CODEC_HOLES_NONE = 4,   /* holes are EVENT_HOLES_UNKNOWN */
    CODEC_BLOCK_TOKENS = 8, /* block_tokens follow; otherwise 0 */
};

enum {
    CODEC_FIELD_NAMES = 1, /* codec_names.c */
    CODEC_FIELD_AHEAD = 2, /* u64: the epoch goes on to this position */
};

struct codec_body {
    uint8_t flags;
    bool clears;    /* contains a CLEAR */
    bool has_names; /* `names` is the field; its content is not checked */
    uint32_t fingerprint;
    uint32_t holes;
    uint32_t block_tokens;
    uint32_t words_count;
    uint64_t ahead; /* 0: it does not say */
    struct codec_in ops;
    const uint8_t *end; /* of the ops */
    struct codec_in names;
};

/* Appends a record's body with these words (checked, at most CODEC_WORDS_MAX)
 * in place of head's own. flags: CODEC_GAP or 0. */
void codec_put_body(struct codec_out *out, const struct event_record *head,
                    const uint64_t *words, uint32_t count, uint64_t fingerprint,
                    uint8_t flags);

/* True if `in` holds a sound body, which *body then describes; nothing is
 * allocated. */
bool codec_get_body(struct codec_in in, struct codec_body *body) MUST_CHECK;

/* The bytes of a sound body that are kept: at most CODEC_BODY_MAX. */
struct codec_in codec_body_kept(struct codec_in in,
                                const struct codec_body *body);

/* The words_count words of a sound body. */
void codec_body_words(const struct codec_body *body, uint64_t *words);

/* Appends a field behind a body. */
void codec_put_field(struct codec_out *out, uint8_t what, const void *bytes,
                     size_t len);

/* Words of names (index/names.h), and how far they were taken. */
struct codec_names {
    const uint64_t *words; /* whole ops */
    uint32_t count;
    uint32_t at;    /* the op */
    uint32_t in_op; /* ... and what was taken of it */
};

/* Puts as many names as there is room for; `words` are those of the same
 * record. Blocks whose keys are not among them wait for the next part, unless
 * this is the last one that has words. */
void codec_put_names(struct codec_out *out, struct codec_names *from,
                     const uint64_t *words, uint32_t count, bool last,
                     uint64_t fingerprint);

/* Appends the names of a body that has them, as words; `words`: the body's own.
 * The fingerprint is the whole one. False: they are malformed, or `into` is
 * full. */
bool codec_get_names(const struct codec_body *body, const uint64_t *words,
                     struct words *into, uint64_t *fingerprint) MUST_CHECK;

#endif
