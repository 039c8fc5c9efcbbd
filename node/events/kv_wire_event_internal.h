/*
 * The reader's inside: one event off the bytes. Private to kv_wire.
 *
 * Role: core. Owns: struct kv_arrays. Thread: one owner.
 * Limits: struct kv_limits. Errors: enum kv_fault, NULL for broken bytes.
 */
#ifndef NODE_KV_WIRE_EVENT_INTERNAL_H
#define NODE_KV_WIRE_EVENT_INTERNAL_H

#include "node/events/kv_wire_internal.h"
#include "node/events/kv_wire_token_internal.h"

/* Memory that grows to the largest event seen and stays. */
struct kv_array {
    void *ptr;
    size_t size; /* bytes */
};

struct kv_arrays {
    struct kv_array hashes;    /* uint64_t */
    struct kv_array tokens;    /* uint32_t */
    struct kv_array remaining; /* uint32_t */
    struct kv_array ahead;     /* uint32_t */
    struct kv_array extras;    /* uint64_t */
    struct kv_array seen;      /* uint32_t or uint64_t: of kv_has_repeated() */
    uint8_t lead; /* first byte of the last event's hashes, 0: none yet */
};

/* What kv_array_reserve() does when there is not room enough. */
bool kv_array_grow(struct kv_array *array, size_t size) MUST_CHECK;

/* Makes room for count elements of this size; the old contents are lost. False:
 * no memory. */
static inline bool
kv_array_reserve(struct kv_array *array, uint32_t count, size_t bytes)
{
    size_t size = count * bytes;

    return LIKELY(size <= array->size) || kv_array_grow(array, size);
}

/* In the order in which vLLM has them in a map. */
enum kv_field {
    KV_FIELD_TYPE,
    KV_FIELD_HASHES,
    KV_FIELD_PARENT,
    KV_FIELD_TOKENS,
    KV_FIELD_BLOCK_SIZE,
    KV_FIELD_LORA_ID,
    KV_FIELD_MEDIUM,
    KV_FIELD_LORA_NAME,
    KV_FIELD_EXTRAS,
    KV_FIELD_GROUP,
    KV_FIELD_SPEC_KIND,
    KV_FIELD_WINDOW,
    KV_FIELD_SALT,
    KV_FIELD_LOCALITY,
    KV_FIELD_MM_KEYS,
    KV_FIELD_REMAINING,
    KV_FIELD_AHEAD,
    KV_FIELD_NONE,
};

enum kv_tag {
    KV_TAG_STORED,
    KV_TAG_REMOVED,
    KV_TAG_CLEARED,
    KV_TAG_UNKNOWN,
};

/* One event on the way. A field is good, bad (the wrong type) or neither. */
struct kv_decode {
    struct kv_arrays *arrays;
    const struct kv_limits *limits;
    const uint8_t *end;
    struct kv_event *event;
    uint32_t good;
    uint32_t bad;
    bool deep; /* a container was nested deeper than is allowed */
    bool no_memory;
    enum kv_tag tag; /* counts when KV_FIELD_TYPE is good */
    struct slice mm_keys;
    uint32_t remaining_count;
    uint32_t ahead_count; /* blocks that lookahead_token_ids tells of */
    bool pairs;           /* token_ids were pairs: */
    uint32_t last_second; /* of the last one */
};

#define KV_FIELD_BIT(field) (UINT32_C(1) << (field))
#define KV_LEVEL_FIELD      4 /* of nesting */

/* An int, or bytes, as a block's hash; false: it is none. */
bool kv_fold(const struct token *token, uint64_t *hash);

/* The same for the bytes of a msgpack number, which mostly has 64 bits. Returns
 * the position after it; NULL: it is no number, or is truncated. */
static inline const uint8_t *
kv_read_hash(const uint8_t *at, const uint8_t *end, uint64_t *hash)
{
    struct token token;

    if (LIKELY(end - at > 8 && at[0] == 0xcf)) {
        *hash = token_be64(at + 1);
        return at + 9;
    }
    at = token_read(at, end, &token);
    return at != NULL && kv_fold(&token, hash) ? at : NULL;
}

/* Passes over a value that lies at this level. NULL: broken off. */
static inline const uint8_t *
kv_pass(struct kv_decode *d, const uint8_t *at, uint32_t level)
{
    return token_skip(at, d->end, level, d->limits->depth_max, &d->deep);
}

/* Reads token ids that are plain numbers, up to count of them, and stops at
 * anything else or near the end. Returns how many; *cursor is after them. */
uint32_t kv_read_ids(const uint8_t **cursor, const uint8_t *end, uint32_t *out,
                     uint32_t count);

/* The fields that are arrays: read the value at `at` into the event and mark
 * it. Return the position after it, or NULL. */
const uint8_t *kv_read_tokens(struct kv_decode *d, const uint8_t *start);
const uint8_t *kv_read_hashes(struct kv_decode *d, const uint8_t *start);
const uint8_t *kv_read_remaining(struct kv_decode *d, const uint8_t *start);
const uint8_t *kv_read_ahead(struct kv_decode *d, const uint8_t *start);

/* Of tokens that came as pairs, the one behind each block. False: no memory. */
bool kv_pairs_ahead(struct kv_decode *d) MUST_CHECK;

/*
 * Reads one event. Returns the position after it, or NULL when the payload is
 * truncated. *fault and *event: see kv_reader_next().
 */
const uint8_t *kv_event_read(struct kv_arrays *arrays,
                             const struct kv_limits *limits, const uint8_t *at,
                             const uint8_t *end, struct kv_event *event,
                             enum kv_fault *fault) MUST_CHECK;

/* kv_reader_apart(). */
int kv_apart_read(struct kv_arrays *arrays, const struct kv_event *event,
                  struct kv_apart *apart, enum kv_fault *fault) MUST_CHECK;

/* Finds what may be hashes between *at and stop, at most max of them; *at moves
 * behind what was examined. */
uint32_t kv_hashes_ahead(uint8_t lead, const uint8_t **at, const uint8_t *stop,
                         const uint8_t *end, uint64_t *hashes, uint32_t max);

/* Whether a hash is in the list twice. Takes linear time, or n log n if someone
 * chose the hashes to collide. False: no memory. */
bool kv_find_repeated(struct kv_array *seen, const uint64_t *hashes,
                      uint32_t count, bool *repeated) MUST_CHECK;

#endif
