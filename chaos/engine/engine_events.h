/*
 * An engine's events on the wire: turns the model's events, step by step, into
 * the payloads that several kinds and versions of engines publish.
 *
 * The events of one step make one batch: [ts, [event, ...], rank]. Stored
 * blocks of one request that continue each other are one BlockStored. vLLM
 * and TensorRT-LLM send one BlockRemoved per block, SGLang joins neighbours. A block computed
 * twice is announced twice and removed twice.
 *
 * Of a window group a BlockStored has the tokens of all blocks that were
 * computed, and the hashes of those that are hittable, even if there are none.
 *
 * A hash as bytes is 32 long and ends in the number, so both forms of a block
 * fold to the same 64 bits.
 *
 * Departures, on purpose: keys are the model's, not a SHA-256 chain that
 * anyone could recompute; a block has no images or sessions, and lives in GPU
 * memory only.
 *
 * Role: core. Owns: three buffers. Thread: one owner.
 * Limits: ENGINE_BATCH_BYTES_MAX. Errors: the payload's `failed`.
 */
#ifndef CHAOS_ENGINE_EVENTS_H
#define CHAOS_ENGINE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "chaos/engine/engine_model.h"
#include "index/base/buf.h"
#include "index/base/slice.h"

#define ENGINE_BATCH_BYTES_MAX   ((size_t)64 << 20)
#define ENGINE_EVENTS_SLOTS_MIN  6  /* v0.9 */
#define ENGINE_EVENTS_SLOTS_MAX  12 /* the last before maps */
#define ENGINE_EVENTS_HASH_BYTES 32

enum engine_events_encoding {
    ENGINE_EVENTS_MAP,          /* vLLM since 0.24 */
    ENGINE_EVENTS_ARRAY,        /* vLLM before: `slots` tells how old */
    ENGINE_EVENTS_SGLANG_MAP,   /* SGLang since 0.5.20 */
    ENGINE_EVENTS_SGLANG_ARRAY, /* SGLang before */
    ENGINE_EVENTS_TRTLLM,       /* TensorRT-LLM: maps; tells no namespace */
    ENGINE_EVENTS_ENCODINGS,    /* how many there are */
};

struct engine_events_format {
    enum engine_events_encoding encoding;
    uint32_t slots; /* ENGINE_EVENTS_ARRAY: the most elements of a BlockStored,
                       its tag included */
    uint32_t block_tokens;
    uint32_t rank;
    bool hash_bytes;  /* vLLM: hashes as bytes, not as numbers */
    uint32_t windows; /* the model's, struct engine_config */
    uint32_t window_tokens;
    uint32_t ahead; /* the model's; maps alone tell */
};

/* The namespace of a stored block. */
struct engine_events_owner {
    struct slice lora_name; /* empty: of the base model */
    struct slice salt;      /* empty: none */
    uint32_t lora_id;
};

/* The batch under way. All members are private. */
struct engine_batch {
    struct engine_events_format format;
    struct buf events; /* encoded */
    uint32_t count;    /* of them */

    /* The event that may still grow. */
    bool open;
    struct engine_event first;
    struct engine_events_owner owner;
    uint32_t span;     /* blocks, passed over or not */
    uint64_t last_key; /* of these */
    struct buf keys;   /* uint64_t each */
    struct buf tokens; /* uint32_t each */
    struct buf ahead;  /* the same, `ahead` for each of keys */
};

/* Allocates nothing yet. */
void engine_batch_init(struct engine_batch *batch,
                       const struct engine_events_format *format);

/* Frees its buffers. */
void engine_batch_fini(struct engine_batch *batch);

/* Whether the batch has no events. */
bool engine_batch_is_empty(const struct engine_batch *batch);

/* Whether the event may join this batch: the batch is empty, or of the same
 * step. */
bool engine_batch_takes(const struct engine_batch *batch,
                        const struct engine_event *event);

/* Adds an event that the batch takes. Its tokens are copied; the owner's texts
 * must last until the batch is sealed. owner is read for stored blocks only. */
void engine_batch_add(struct engine_batch *batch,
                      const struct engine_event *event,
                      const struct engine_events_owner *owner);

/* Appends the payload to out and begins anew. ts: wall clock in seconds.
 * out->failed when anything did not fit. */
void engine_batch_seal(struct engine_batch *batch, double ts, struct buf *out);

/* Forgets what was added. */
void engine_batch_clear(struct engine_batch *batch);

#endif
