/*
 * Reads KV-event batches as vLLM, SGLang and TensorRT-LLM publish them: the
 * third frame of a message, one msgpack value.
 *
 * A cursor over the bytes in place: no object tree, nothing trusted before it
 * is checked, both encodings of an event (array and map) told apart event by
 * event. One bad event costs that event: the cursor knows where it ends and
 * goes on. It is held to msgpack-c by a differential fuzzer.
 *
 * The wire. A batch is an array [ts, events] or [ts, events, rank, ...], or a
 * map with the keys `events` and `data_parallel_rank` (SGLang:
 * `attn_dp_rank`). An event is a map with the key `type` (vLLM since about
 * 0.24, SGLang since about 0.5.20, TensorRT-LLM) or an array that begins with
 * the tag (all before). Keys and tags that are not known are passed over, of a
 * key that comes twice the last counts, nil is the same as absent.
 *
 *   BlockStored, slots of the array; maps have the names as keys
 *     1 block_hashes       unsigned, negative or bytes: folded to 64 bits,
 *                          bytes by their last eight, big endian
 *     2 parent_block_hash  nil: the first block of a prefix
 *     3 token_ids          numbers; pairs [t, t + 1] (SGLang under EAGLE),
 *                          of which t counts and the last of a block names
 *                          the token behind it; strings for media
 *                          (TensorRT-LLM) make the event opaque
 *     4 block_size         0, with no tokens, in vLLM's offload placeholders
 *     5 lora_id            before there was lora_name
 *     6 medium             vLLM since about 0.10; SGLang
 *     7 lora_name          of vLLM, a string; of SGLang a map with
 *                          `cache_salt`; anything else is of no interest
 *     8 extra_keys         vLLM since about 0.17
 *     9.. group_idx, kv_cache_spec_kind, the sliding window; told by type,
 *       for a publisher may have put something of its own before them: the
 *       first number up to the kind is the group, the first string the kind,
 *       the first number behind it the window
 *       (kv_cache_spec_sliding_window)
 *     only in maps: locality, cache_salt, mm_keys (TensorRT-LLM's media, in
 *     the place of extra_keys), remaining_copy_counts (of removals),
 *     lookahead_token_ids (vLLM since 0.33, where EAGLE or MTP drafts: for each
 *     block the tokens behind it that its hash covers, as many for each)
 *   BlockRemoved: 1 block_hashes, 2 medium, 3 group_idx, 4 locality, or what is
 *     no string and of no interest (a fork of SGLang has a number there)
 *   AllBlocksCleared
 *
 * A required field that is missing, or any known one of the wrong type, makes
 * its event malformed: half of an event would put blocks under a wrong name.
 *
 * Role: core. Owns: the arrays an event points into. Thread: one owner.
 * Limits: struct kv_limits. Errors: named outcomes.
 */
#ifndef NODE_KV_WIRE_INTERNAL_H
#define NODE_KV_WIRE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

struct kv_limits {
    size_t payload_bytes_max;
    uint32_t hashes_max; /* of one event */
    uint32_t tokens_max; /* of one event */
    uint32_t depth_max;  /* of nesting, the batch itself is 1: 8 to 32 */
};

#define KV_LIMITS_DEFAULT                                      \
    ((struct kv_limits){.payload_bytes_max = (size_t)16 << 20, \
                        .hashes_max = 100000,                  \
                        .tokens_max = 4000000,                 \
                        .depth_max = 16})

enum kv_kind {
    KV_STORED,
    KV_REMOVED,
    KV_CLEARED,
};

/* Absent and nil are the same: count 0, len 0, has_* false. Everything is
 * valid until the next call on the reader; slices point into the payload. */
struct kv_event {
    enum kv_kind kind;
    const uint64_t *hashes; /* folded to 64 bits */
    uint32_t hashes_count;
    bool has_parent;
    uint64_t parent;
    const uint32_t *tokens; /* of a bigram: its first */
    uint32_t tokens_count;  /* 0: a placeholder, else count * block_tokens */
    bool tokens_opaque;     /* a cell was a string: not to be indexed */
    uint32_t block_tokens;  /* block_size */
    uint32_t ahead; /* tokens behind a block that its hash covers, and these,
                       for each hash; over SHAPE_AHEAD_MAX they are not read */
    const uint32_t *ahead_tokens;
    bool pairs; /* `ahead` is from pairs of tokens */
    bool has_lora_id;
    int64_t lora_id;
    struct slice lora_name;
    struct slice salt; /* `cache_salt`: SGLang's; vLLM's is in the extras */
    struct slice medium;
    struct slice locality;
    struct slice spec_kind; /* kv_cache_spec_kind */
    uint32_t window;        /* of sliding layers, in tokens; 0: none */
    bool has_group;
    uint32_t group;
    /* extra_keys, else mm_keys, undecoded: one msgpack array, or len 0. See
     * kv_extras_next(). */
    struct slice extras;
    const uint32_t *remaining; /* remaining_copy_counts, hashes_count of them;
                                  NULL if absent or not aligned */
};

enum kv_fault {
    KV_FAULT_NONE,
    KV_FAULT_MALFORMED,    /* not the msgpack it should be, or over a limit */
    KV_FAULT_UNKNOWN_TYPE, /* a tag that is not known: skipped */
    KV_FAULT_UNALIGNED,    /* tokens are not block_size for each hash */
    KV_FAULT_REPEATED,     /* a store with a hash twice, or its own parent */
    KV_FAULT_MEMORY,       /* there was none for its arrays */
    KV_FAULTS,
};

/* "malformed", ...: names of counters. Static text. */
const char *kv_fault_name(enum kv_fault fault);

struct kv_reader; /* keeps its arrays from batch to batch */

/* 0 and *out, or -ENOMEM. */
int kv_reader_new(struct kv_reader **out, const struct kv_limits *limits)
    MUST_CHECK;

/* NULL is fine. */
void kv_reader_free(struct kv_reader *reader);

enum {
    KV_E_END = 1, /* of the batch */
    KV_E_SKIPPED, /* one event was dropped: *fault says why; continue */
    KV_E_PAYLOAD, /* the rest of the payload cannot be read: *fault */
};

/* The head of a batch. payload stays until the batch is done. 0 or
 * KV_E_PAYLOAD. */
int kv_reader_begin(struct kv_reader *reader, struct slice payload) MUST_CHECK;

/*
 * The next event: 0 and *event, or one of the outcomes above; the last two
 * repeat themselves. An event skipped as UNALIGNED or REPEATED is still
 * described in *event, and of one that removes its kind. *at (may be NULL): the
 * event's offset in the payload, for error messages.
 */
int kv_reader_next(struct kv_reader *reader, struct kv_event *event,
                   enum kv_fault *fault, size_t *at) MUST_CHECK;

/*
 * A hint at what follows: hashes that coming events may be about, at most max,
 * each given once; now and then a number that is no hash. 0: it has looked far
 * enough ahead for now.
 */
uint32_t kv_reader_ahead(struct kv_reader *reader, uint64_t *hashes,
                         uint32_t max);

/* The data-parallel rank that the batch names, -1 when it names none. Known at
 * KV_E_END: in an array the rank follows the events. */
int64_t kv_reader_rank(const struct kv_reader *reader);

/*
 * Memory of the caller's for `count` numbers, which stays until kv_reader_free()
 * and grows with its contents kept. NULL: there is none.
 */
uint64_t *kv_reader_memory(struct kv_reader *reader, size_t count);

/* Bytes of the batch. */
size_t kv_reader_bytes(const struct kv_reader *reader);

/*
 * What sets one block apart beside its tokens, from vLLM's extra_keys. *at: 0
 * before the first block, then moved on. True and, for that block:
 * *media: digest of its multimodal items and embeddings, 0 when none;
 * *salt: the cache salt, where it is told (the first block of a prefix).
 * lora_name: the first element equal to it is the adapter and no medium.
 * False: no block is left, or the rest is malformed.
 *
 * In the first block of a prefix the last other string is the salt. Typed
 * maps ({"type": "cache_salt", "salt": ..}) say themselves what they are, and
 * numbers are the adapters of very old engines. All else is media, in the
 * order told.
 */
bool kv_extras_next(struct slice extras, size_t *at, bool first_block,
                    struct slice lora_name, uint64_t *media,
                    struct slice *salt);

/* Adds one item to the digest of a block's media; media: of the items before it
 * (0: none). An item is its identifier, as the engine names it, and where it
 * begins, counted from the block's first token. Never 0. */
uint64_t kv_media_add(uint64_t media, struct slice identifier, int64_t offset);

/* What sets an event's blocks apart beside their tokens. */
struct kv_apart {
    const uint64_t *extras; /* for key_next_apart(), hashes_count of them: media
                               and tokens ahead; NULL: nothing does */
    bool media;             /* some block has media */
    struct slice salt;      /* as kv_extras_next() tells it */
};

/*
 * The same for all blocks of the event that the reader returned last: 0 and
 * *apart, valid as long as the event. KV_E_SKIPPED and *fault when there is not
 * one extra per hash.
 */
int kv_reader_apart(struct kv_reader *reader, const struct kv_event *event,
                    struct kv_apart *apart, enum kv_fault *fault) MUST_CHECK;

#endif
