/* Measured step times of models, and engine parameters made of them. */
#include "chaos/replay/replay_timing.h"

#include <stddef.h>
#include <string.h>

#define RUNNING_MAX 256U /* vLLM's default */

/* tests/integration/test_replay.py works these out again from the data. */
static const struct replay_timing timings[] = {
    {"h100-70b-tp4", 14320, 15, 19699, 4096, 30567, 1655,
     "Llama 2 70B on four H100 (the default)"},
    {"h100-7b", 5600, 4, 52777, 4096, 195630, 1324, "Llama 2 7B on one H100"},
    {"a100-70b-tp4", 24880, 32, 6520, 4096, 50196, 5251,
     "Llama 3 70B on four A100"},
    {"a100-8b", 9700, 24, 15541, 4096, 80314, 4201, "Llama 3 8B on one A100"},
    {"stand-in", 8000, 650, 8000, 8192, 0, 0,
     "kvasir engine --max-running 256, nothing measured"},
};

#define TIMINGS_COUNT (sizeof timings / sizeof timings[0])

const struct replay_timing *
replay_timing_at(uint32_t at)
{
    return at < TIMINGS_COUNT ? &timings[at] : NULL;
}

const struct replay_timing *
replay_timing_find(const char *name)
{
    for (size_t i = 0; i < TIMINGS_COUNT; i++) {
        if (strcmp(timings[i].name, name) == 0) {
            return &timings[i];
        }
    }
    return NULL;
}

struct engine_config
replay_timing_engine(const struct replay_timing *timing, uint32_t kv_tokens,
                     uint32_t block_tokens)
{
    CHECK(block_tokens > 0 && kv_tokens >= block_tokens);
    return (struct engine_config){
        .blocks_max = kv_tokens / block_tokens,
        .block_tokens = block_tokens,
        .running_max = RUNNING_MAX,
        .batch_tokens_max = timing->batch_tokens,
        .requests_max = 1,
        .request_tokens_max = UINT32_MAX,
        .prefill_tokens_per_s = timing->prefill_tokens_per_s,
        .step_us = timing->step_us,
        .step_per_seq_us = timing->step_per_seq_us,
        .step_per_context_ps = timing->step_per_context_ps,
        .prefill_per_pair_ps = timing->prefill_per_pair_ps,
        .events = true,
    };
}
