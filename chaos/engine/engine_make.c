/* What the makes of engine have of their own, as a table. */
#include "chaos/engine/engine_make_internal.h"

static const struct engine_make_facts facts[ENGINE_MAKES] = {
    [ENGINE_MAKE_VLLM] =
        {
            .owned_by = "vllm",
            .version = "0.33.0+kvasir.stand-in",
            .cache = ENGINE_CACHE_BLOCKS,
            .block_tokens = 16,
            .running_max = 128,
            .replay_frames = 4,
            .counts_each = true,
            .publishes = true,
            .events = ENGINE_EVENTS_MAP,
            .events_before = ENGINE_EVENTS_ARRAY,
        },
    [ENGINE_MAKE_SGLANG] =
        {
            .owned_by = "sglang",
            .version = "0.5.23+kvasir.stand-in",
            .cache = ENGINE_CACHE_RADIX,
            .block_tokens = 16,
            .running_max = 128,
            .replay_frames = 4,
            .counts_each = true,
            .null_usage = true,
            .publishes = true,
            .events = ENGINE_EVENTS_SGLANG_MAP,
            .events_before = ENGINE_EVENTS_SGLANG_ARRAY,
        },
    [ENGINE_MAKE_TRTLLM] =
        {
            .owned_by = "tensorrt_llm",
            .version = "1.3.0+kvasir.stand-in",
            .cache = ENGINE_CACHE_TREE,
            .block_tokens = 32,
            .running_max = 128,
            .replay_frames = 4,
            .publishes = true,
            .events = ENGINE_EVENTS_TRTLLM,
            .events_before = ENGINE_EVENTS_TRTLLM,
        },
    [ENGINE_MAKE_LLAMACPP] =
        {
            .owned_by = "llamacpp",
            .cache = ENGINE_CACHE_SLOTS,
            .tells = ENGINE_TELLS_TIMINGS,
            .block_tokens = 16,
            .running_max = 4,
        },
    [ENGINE_MAKE_TGI] =
        {
            .owned_by = "",
            .cache = ENGINE_CACHE_RADIX,
            .tells = ENGINE_TELLS_NOTHING,
            .block_tokens = 16,
            .running_max = 128,
        },
    [ENGINE_MAKE_TRANSFORMERS] =
        {
            .owned_by = "",
            .cache = ENGINE_CACHE_SLOTS,
            .tells = ENGINE_TELLS_NOTHING,
            .block_tokens = 16,
            .running_max = 1,
        },
};

const struct engine_make_facts *
engine_make_facts(enum engine_make make)
{
    CHECK(make < ENGINE_MAKES);
    return &facts[make];
}
