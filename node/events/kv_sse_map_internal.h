/*
 * One event's data as the words of a record; see kv_sse_internal.h for the
 * contract.
 */
#ifndef NODE_KV_SSE_MAP_INTERNAL_H
#define NODE_KV_SSE_MAP_INTERNAL_H

#include "node/events/kv_sse_internal.h"

#define KV_SSE_ALL_RANKS UINT32_MAX

struct kv_sse_change {
    uint32_t rank; /* below the source's, or KV_SSE_ALL_RANKS */
    uint32_t words_count;
    uint64_t words[KV_SSE_WORDS_MAX];
};

/* Whether events of this type are about the cache. */
bool kv_sse_is_cache_event(struct slice type);

/* Reads the data of such an event; learns the block size from the first one.
 * False: it was counted, and must be skipped. */
bool kv_sse_map(struct kv_sse *sse, const struct sse_event *event,
                struct kv_sse_change *change) MUST_CHECK;

#endif
