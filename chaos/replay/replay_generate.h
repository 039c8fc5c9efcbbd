/*
 * Generated workloads: the loads that routers are compared by.
 *
 *   shared prefixes (b2b, x37, tiered, easy32): G system prompts of random
 *     tokens, P questions below each. All G x P prompts are made once,
 *     shuffled, and cycled, as inference-perf's shared_prefix does it.
 *   chat   conversations below shared system prompts; each turn carries all
 *          turns before it, and comes a pause after the last answer's end.
 *   rag    questions over documents found for them: a short instruction, four
 *          documents of a Zipf-like choice in order of the search's ranking,
 *          the question. Prefixes meet only where the first documents do.
 *   mix    nine short requests for each long one, nothing shared but a short
 *          system prompt: what matters is who stands behind the long ones.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: named outcomes of
 * replay_load.h, -ENOMEM. The same seed gives the same load, byte for byte.
 */
#ifndef CHAOS_REPLAY_GENERATE_H
#define CHAOS_REPLAY_GENERATE_H

#include <stdbool.h>
#include <stdint.h>

#include "chaos/replay/replay_load.h"
#include "index/base/check.h"

enum replay_shape {
    REPLAY_SHARED_PREFIX,
    REPLAY_CHAT,
    REPLAY_RAG,
    REPLAY_MIX,
};

/* A workload and the cluster it is meant for. */
struct replay_workload {
    const char *name;
    enum replay_shape shape;
    bool poisson;        /* arrivals; else evenly spaced */
    uint32_t rate_milli; /* arrivals per 1,000 s at load x1 */
    uint32_t groups;     /* system prompts; rag: documents */
    uint32_t per_group;  /* questions; chat: mean turns */
    uint32_t system;     /* tokens of a system prompt; rag: of a document */
    uint32_t question;   /* tokens; mix: of a short prompt */
    uint32_t output;     /* tokens */
    uint32_t pause_ms;   /* chat: mean, before the next turn */
    uint32_t engines;    /* of the cluster */
    uint32_t kv_tokens;  /* of each engine's cache */
    const char *purpose; /* one line for the manual */
};

/* The at-th workload; NULL after the last. */
const struct replay_workload *replay_workload_at(uint32_t at);

/* The workload of this name; NULL: there is none. */
const struct replay_workload *replay_workload_find(const char *name);

/* Adds `requests` requests (chat: about as many, whole conversations) to an
 * empty load. 0, or the outcome of what did not fit. */
int replay_generate(const struct replay_workload *workload, uint64_t seed,
                    uint32_t requests, struct replay_load *load) MUST_CHECK;

#endif
