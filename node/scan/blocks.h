/*
 * Splits a prompt into blocks of bytes and names every prefix of it.
 *
 * The engine caches tokens, but without its tokenizer equal text is the best
 * sign of equal tokens. The prompt becomes one canonical run of bytes, in the
 * order in which chat templates render it: strings unescaped, so that two JSON
 * libraries' spellings of one conversation meet; a separator and the role
 * before each message, so that moving text between messages is another
 * prompt; media as a KiB of the digest of their URL or data; token ids as 4
 * bytes each, little endian. That run is split into blocks of block_bytes, the
 * rest at the end is left out, and key i (index/key.h) names the first i + 1
 * blocks under the namespace's root.
 *
 * Role: core. Owns: nothing; writes the caller's keys. Thread: any.
 * Limits: blocks_max blocks, the rest is not looked at. Errors: none.
 */
#ifndef NODE_BLOCKS_H
#define NODE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/slice.h"
#include "node/scan/scan.h"

#define BLOCKS_BYTES_MIN 16U
#define BLOCKS_BYTES_MAX 4096U

struct blocks {
    uint64_t root;       /* of the namespace */
    uint64_t prefix_key; /* of the first 256 bytes of the first system and of
                            the first user message: for rendezvous hashing */
    struct slice salt;   /* the caller's: counts in place of the body's; empty:
                            the body's does */
    uint64_t *keys;      /* the caller's, room for blocks_max */
    uint32_t count;
    uint32_t block_bytes;
    uint32_t blocks_max;
};

/* Where splitting a prompt has come to. */
struct blocks_cut {
    struct blocks *blocks;
    const char *body;
    const struct scan *scan;
    uint64_t parent;
    uint32_t span; /* which comes next, or is begun */
    bool begun;
    struct slice left; /* of the span that is begun */
    bool in_id;        /* within a token id, which is this so far */
    uint32_t id;
    uint32_t filled; /* bytes of the open block */
    unsigned char open[BLOCKS_BYTES_MAX];
};

/*
 * Fills root, prefix_key, keys and count; the caller has set keys, block_bytes
 * (BLOCKS_BYTES_MIN to BLOCKS_BYTES_MAX) and blocks_max. body and scan are as
 * scan_body() left them, and are borrowed for the call.
 */
void blocks_split(struct blocks *blocks, const char *body,
                  const struct scan *scan);

/* The same in pieces: blocks, body and scan are borrowed until it is done, and
 * stay where they are; keys and count grow. */
void blocks_begin(struct blocks_cut *cut, struct blocks *blocks,
                  const char *body, const struct scan *scan);
/* Goes on for about so many bytes of body: up to SCAN_RUN_BYTES more, and a
 * picture, which is read at once. True: it is done. */
bool blocks_more(struct blocks_cut *cut, size_t bytes) MUST_CHECK;

#endif
