/*
 * The makes of engine that the stand-in can be, and in what they differ.
 *
 * vllm, sglang and trtllm publish their cache's events. llamacpp, tgi and
 * transformers are plain servers: what they cache is known from their answers
 * alone, if they tell at all.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 * Source: vLLM 0.32, SGLang 0.5.23, TensorRT-LLM 1.3, llama.cpp's server
 * (2026), TGI 3.3, transformers 5.
 */
#ifndef CHAOS_ENGINE_MAKE_INTERNAL_H
#define CHAOS_ENGINE_MAKE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "chaos/engine/engine_events.h"
#include "chaos/engine/engine_model.h"

#define ENGINE_MAKE_WORDS "vllm|sglang|trtllm|llamacpp|tgi|transformers"

/* In the order of the words. */
enum engine_make {
    ENGINE_MAKE_VLLM,
    ENGINE_MAKE_SGLANG,
    ENGINE_MAKE_TRTLLM,
    ENGINE_MAKE_LLAMACPP,
    ENGINE_MAKE_TGI,
    ENGINE_MAKE_TRANSFORMERS,
    ENGINE_MAKES, /* how many there are */
};

/* How an answer tells how many tokens of the prompt were cached. */
enum engine_tells {
    ENGINE_TELLS_USAGE,   /* usage.prompt_tokens_details.cached_tokens */
    ENGINE_TELLS_TIMINGS, /* there, and in timings.cache_n */
    ENGINE_TELLS_NOTHING,
};

struct engine_make_facts {
    const char *owned_by; /* in the list of models */
    const char *version;  /* what GET /version answers */
    enum engine_cache cache;
    enum engine_tells tells;
    uint32_t block_tokens;  /* unless --block-size says otherwise */
    uint32_t running_max;   /* likewise --max-running */
    uint32_t replay_frames; /* likewise --replay-frames */
    bool counts_each;       /* tells the usage of each event, where asked */
    bool null_usage;        /* completions' events say that they have none */
    bool publishes;         /* its cache's events */
    enum engine_events_encoding events;
    enum engine_events_encoding events_before; /* its older releases' */
};

/* Static. */
const struct engine_make_facts *engine_make_facts(enum engine_make make);

#endif
