/*
 * The engines that a fleet may be made of: how fast, how much memory, and how
 * many requests that holds.
 *
 * A token of a model keeps
 *
 *   2 * layers * max(kv_heads, gpus) * head_dim * kv_bytes
 *
 * bytes on all GPUs of an engine together (keys and values; a head that has
 * fewer copies than there are GPUs is on each of them), and an engine's cache
 * has what its GPUs' memory leaves beside the weights. Its slots are the requests
 * of the longest permitted length that fit in there in whole blocks, and no more
 * than seqs_max.
 *
 * Times are those of chaos/replay/replay_timing.h. `a100-flat` is the engine of
 * arXiv 2604.09613: a step takes 8 ms and 0.65 ms for each sequence, a chunk of
 * a prompt takes nothing beside, and its cache is larger than two such GPUs are
 * (1,048,576 tokens of Llama 3 70B are 344 GB).
 *
 * Role: core. Owns: nothing. Thread: any. Errors: none.
 */
#ifndef CHAOS_PLAN_ENGINE_H
#define CHAOS_PLAN_ENGINE_H

#include <stdint.h>

#include "chaos/engine/engine_model.h"

#define PLAN_BLOCK_TOKENS 16U

/* A model on GPUs, as far as its cache is concerned. */
struct plan_shape {
    uint32_t layers;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t kv_bytes;   /* of one number in the cache */
    uint32_t weights_mb; /* of all GPUs together; 10^6 bytes */
    uint32_t gpu_mb;     /* of one GPU */
    uint32_t gpus;
};

struct plan_engine {
    const char *name;
    const char *meaning; /* one line for the manual */
    uint32_t gpus;
    uint64_t kv_tokens; /* of its cache */
    uint32_t seqs_max;
    uint32_t chunk;        /* prompt tokens of one request in a step */
    uint32_t batch_tokens; /* of all requests in a step */
    uint32_t step_us;
    uint32_t step_per_seq_us;
    uint32_t prefill_tokens_per_s;
    uint32_t step_per_context_ps;
    uint32_t prefill_per_pair_ps;
};

/* Bytes of one token in the cache, on all GPUs together. */
uint64_t plan_kv_bytes(const struct plan_shape *shape);
/* Tokens that fit beside the weights, 90 % of the memory in use; 0: none. */
uint64_t plan_kv_tokens(const struct plan_shape *shape);

/* The engine of that name: true, and *engine. */
bool plan_engine_find(const char *name, struct plan_engine *engine) MUST_CHECK;
/* The name and meaning of the at-th; NULL after the last. The first is the
 * default. */
const char *plan_engine_name(uint32_t at, const char **meaning);

/* Slots for requests of up to max_len tokens in all; 0: not even one fits. */
uint32_t plan_engine_slots(const struct plan_engine *engine, uint32_t max_len);

#endif
