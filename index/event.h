/*
 * The event vocabulary: what changed in a cache, in our own keys.
 *
 * A source (an engine's ZeroMQ stream, a sidecar's SSE, a peer's delta) turns
 * whatever it hears into records. A record says what one batch of one stream
 * changed, and everything behind it (index, gossip, snapshots) knows nothing
 * else. Records are flat: a head, then 64-bit words.
 *
 *   op word: kind in bits 0..7, tier in bits 8..15, count in bits 32..63
 *   STORE, REMOVE: count keys follow; CLEAR: count is 0
 *
 * A STORE says that the blocks are now in this tier, whether or not they were
 * in it or another one before; a REMOVE that they are no longer in this tier.
 * Both may be repeated. So applying a record twice changes nothing, and the
 * last word on a block wins.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: EVENT_WORDS_MAX.
 * Errors: event_check() for what came from elsewhere.
 */
#ifndef INDEX_EVENT_H
#define INDEX_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a block lies, the nearest first. */
enum tier {
    TIER_DEVICE,   /* GPU memory */
    TIER_HOST,     /* CPU memory */
    TIER_DISK,     /* local storage */
    TIER_EXTERNAL, /* a store shared over the network */
    TIERS,         /* how many there are */
};

enum event_kind {
    EVENT_STORE,
    EVENT_REMOVE,
    EVENT_CLEAR, /* nothing is held any more, in any tier */
    EVENT_KINDS,
};

/* One stream: the events of one data-parallel rank of one worker. */
struct event_stream {
    uint64_t worker; /* key_digest() of the worker's id: same on all nodes */
    uint32_t rank;
    uint32_t unused; /* 0 */
};

#define EVENT_WORDS_MAX (UINT32_C(1) << 22) /* of one record */

struct event_record {
    struct event_stream stream;
    uint64_t epoch; /* incarnation of the stream's writer, as the source names
                       it: another number is another process or a re-read */
    uint64_t seq;   /* of the batch, within the epoch */
    uint64_t ahead; /* a later batch that the source is known to have, and that
                       is not read yet; 0: it knows of none */
    /* Blocks that the worker holds without the block before them, as the
     * source counts, after this record; EVENT_HOLES_UNKNOWN when it cannot. */
    uint32_t holes;
    uint32_t block_tokens; /* the shape of the stream's blocks (shape.h) */
    uint32_t words_count;
    uint32_t names_count; /* words of names (names.h), behind the words; with
                             EVENT_NAMED, if names are told at all */
    uint64_t words[];
};

#define EVENT_HOLES_UNKNOWN UINT32_MAX
#define EVENT_NAMED         (UINT32_C(1) << 31)

/* An op word; count is 0 for EVENT_CLEAR alone. */
static inline uint64_t
event_op(enum event_kind kind, enum tier tier, uint32_t count)
{
    return (uint64_t)kind | (uint64_t)tier << 8 | (uint64_t)count << 32;
}

/* The kind in an op word, of unchecked words any number. */
static inline enum event_kind
event_op_kind(uint64_t op)
{
    return (enum event_kind)(op & 0xff);
}

/* The tier in an op word, of unchecked words any number. */
static inline enum tier
event_op_tier(uint64_t op)
{
    return (enum tier)(op >> 8 & 0xff);
}

/* The count of keys that follow an op word. */
static inline uint32_t
event_op_count(uint64_t op)
{
    return (uint32_t)(op >> 32);
}

/* The name of a tier, below TIERS: "device", "host", "disk" or "external".
 * Static text. */
const char *event_tier_name(enum tier tier);

/* True when words are whole, known ops and nothing else. For records that came
 * from elsewhere: whoever gets false refuses the record. */
bool event_check(const uint64_t *words, uint32_t count);

/*
 * Collects the words of one record in memory of the caller's; once something
 * does not fit, `failed` is set and what is there is not to be used.
 */
struct event_words {
    uint64_t *words;
    uint32_t count;
    uint32_t max;
    uint32_t last; /* where the last op is, when count is not 0 */
    bool failed;
};

/*
 * Makes room for an op and its count keys (EVENT_CLEAR: 0, else 1 or more) and
 * returns where the caller writes the keys, before the next call. NULL:
 * `failed` is set. An op of the same kind and tier as the last one is joined
 * to it.
 */
uint64_t *event_words_add(struct event_words *out, enum event_kind kind,
                          enum tier tier, uint32_t count);

#endif
