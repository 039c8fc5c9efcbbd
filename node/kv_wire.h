/*
 * Reads KV-event batches as vLLM, SGLang and TensorRT-LLM publish them: the
 * third frame of a message, one msgpack value.
 *
 * A cursor over the bytes in place: no object tree, nothing trusted before it
 * is checked, both encodings of an event (array and map) told apart event by
 * event. One bad event costs that event: the cursor knows where it ends and
 * goes on. It is held to msgpack-c by a differential fuzzer.
 * [the wire, version by version, in the words of the project]
 *
 * Role: core. Owns: the arrays an event points into. Thread: one owner.
 * Limits: struct kv_limits. Errors: named outcomes.
 */
#ifndef NODE_KV_WIRE_H
#define NODE_KV_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

struct kv_limits {
    size_t payload_bytes_max;
    uint32_t hashes_max; /* of one event */
    uint32_t tokens_max; /* of one event */
    uint32_t depth_max;  /* of nesting */
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
    const uint64_t *hashes; /* folded to 64 bits: rule 5 of the reference */
    uint32_t hashes_count;
    bool has_parent;
    uint64_t parent;
    const uint32_t *tokens; /* of a bigram: its first */
    uint32_t tokens_count;
    bool tokens_opaque;    /* a cell was no number: not to be indexed */
    uint32_t block_tokens; /* block_size */
    bool has_lora_id;
    int64_t lora_id;
    struct slice lora_name;
    struct slice salt; /* `cache_salt`: SGLang's; vLLM's is in the extras */
    struct slice medium;
    struct slice locality;
    struct slice spec_kind; /* kv_cache_spec_kind */
    bool has_group;
    uint32_t group;
    /* vLLM's extra_keys, undecoded: one msgpack value, or len 0. See
     * kv_extras_next(). */
    struct slice extras;
    const uint32_t *remaining; /* remaining_copy_counts, hashes_count of them,
                                  or NULL */
};

enum kv_fault {
    KV_FAULT_NONE,
    KV_FAULT_MALFORMED,    /* not the msgpack it should be, or over a limit */
    KV_FAULT_UNKNOWN_TYPE, /* a tag that is not known: skipped */
    KV_FAULT_UNALIGNED,    /* tokens are not block_size for each hash */
    KV_FAULT_REPEATED,     /* a hash twice in one event, or its own parent */
    KV_FAULTS,
};

/* "malformed", ...: names of counters. Static text. */
const char *kv_fault_name(enum kv_fault fault);

struct kv_reader; /* keeps its arrays from batch to batch */

/* 0 and *out, or -ENOMEM. */
int kv_reader_new(struct kv_reader **out, const struct kv_limits *limits)
    MUST_CHECK;

void kv_reader_free(struct kv_reader *reader);

enum {
    KV_E_END = 1, /* of the batch */
    KV_E_SKIPPED, /* one event was dropped: *fault says why; go on */
    KV_E_PAYLOAD, /* the rest of the payload cannot be read: *fault */
};

/* The head of a batch. payload stays until the batch is done. *rank: as the
 * payload says, -1 when it does not. 0 or KV_E_PAYLOAD. */
int kv_reader_begin(struct kv_reader *reader, struct slice payload,
                    int64_t *rank) MUST_CHECK;

/* The next event: 0 and *event, or one of the above. *at (may be NULL): the
 * offset of the event in the payload, for error messages. */
int kv_reader_next(struct kv_reader *reader, struct kv_event *event,
                   enum kv_fault *fault, size_t *at) MUST_CHECK;

/*
 * What sets one block apart beside its tokens, from vLLM's extra_keys. *at: 0
 * before the first block, then moved on. True and, for that block:
 * *media: digest of its multimodal items and embeddings, 0 when none;
 * *salt: the cache salt, where it is told (the first block of a prefix).
 * lora_name: elements equal to it are the adapter and no medium.
 * False: no block is left, or the rest is malformed.
 */
bool kv_extras_next(struct slice extras, size_t *at, bool first_block,
                    struct slice lora_name, uint64_t *media,
                    struct slice *salt);

#endif
