/* Engines by name; the formulas of their caches. */
#include "chaos/plan/plan_engine.h"

#include <string.h>

#include "chaos/replay/replay_timing.h"

#define SEQS_MAX      256U        /* vLLM's default, as in replays */
#define MEMORY_IN_100 90U         /* vLLM's gpu_memory_utilization */
#define FREE          4000000000U /* tokens/s: prefill takes no time */

static const struct plan_engine flat = {
    .name = "a100-flat",
    .meaning = "8 ms and 0.65 ms a sequence, of arXiv 2604.09613",
    .gpus = 1, /* it prices one GPU, and states two */
    .kv_tokens = UINT64_C(65536) * PLAN_BLOCK_TOKENS,
    .seqs_max = 128,
    .chunk = 512,
    .batch_tokens = 512 + 128, /* a chunk, and all that decode */
    .step_us = 8000,
    .step_per_seq_us = 650,
    .prefill_tokens_per_s = FREE,
};

/* Shapes of the models that replay_timing.h has times of, by its names. */
static const struct {
    const char *name;
    struct plan_shape shape;
} measured[] = {
    {"h100-70b-tp4", {80, 8, 128, 2, 137953, 80000, 4}},
    {"h100-7b", {32, 32, 128, 2, 13477, 80000, 1}},
    {"a100-70b-tp4", {80, 8, 128, 2, 141107, 80000, 4}},
    {"a100-8b", {32, 8, 128, 2, 16061, 80000, 1}},
};

#define MEASURED_COUNT (sizeof measured / sizeof measured[0])

uint64_t
plan_kv_bytes(const struct plan_shape *shape)
{
    uint64_t heads =
        shape->kv_heads > shape->gpus ? shape->kv_heads : shape->gpus;

    return 2 * heads * shape->layers * shape->head_dim * shape->kv_bytes;
}

uint64_t
plan_kv_tokens(const struct plan_shape *shape)
{
    uint64_t usable_mb =
        (uint64_t)shape->gpus * shape->gpu_mb * MEMORY_IN_100 / 100;
    uint64_t bytes = plan_kv_bytes(shape);

    CHECK(bytes > 0);
    if (usable_mb <= shape->weights_mb) {
        return 0;
    }
    return (usable_mb - shape->weights_mb) * 1000000 / bytes;
}

bool
plan_engine_find(const char *name, struct plan_engine *engine)
{
    if (strcmp(name, flat.name) == 0) {
        *engine = flat;
        return true;
    }
    for (size_t i = 0; i < MEASURED_COUNT; i++) {
        if (strcmp(measured[i].name, name) != 0) {
            continue;
        }
        const struct replay_timing *timing = replay_timing_find(name);
        CHECK(timing != NULL);
        *engine = (struct plan_engine){
            .name = timing->name,
            .meaning = timing->meaning,
            .gpus = measured[i].shape.gpus,
            .kv_tokens = plan_kv_tokens(&measured[i].shape),
            .seqs_max = SEQS_MAX,
            .chunk = timing->batch_tokens,
            .batch_tokens = timing->batch_tokens,
            .step_us = timing->step_us,
            .step_per_seq_us = timing->step_per_seq_us,
            .prefill_tokens_per_s = timing->prefill_tokens_per_s,
            .step_per_context_ps = timing->step_per_context_ps,
            .prefill_per_pair_ps = timing->prefill_per_pair_ps,
        };
        return true;
    }
    return false;
}

const char *
plan_engine_name(uint32_t at, const char **meaning)
{
    if (at < MEASURED_COUNT) {
        *meaning = replay_timing_find(measured[at].name)->meaning;
        return measured[at].name;
    }
    *meaning = flat.meaning;
    return at == MEASURED_COUNT ? flat.name : NULL;
}

uint32_t
plan_engine_slots(const struct plan_engine *engine, uint32_t max_len)
{
    uint64_t blocks = engine->kv_tokens / PLAN_BLOCK_TOKENS;
    uint64_t needed = (max_len + PLAN_BLOCK_TOKENS - 1) / PLAN_BLOCK_TOKENS;

    CHECK(max_len > 0 && engine->seqs_max > 0);
    uint64_t slots = blocks / needed;
    return (uint32_t)(slots < engine->seqs_max ? slots : engine->seqs_max);
}
