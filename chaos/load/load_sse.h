/*
 * Reads a streamed answer to a chat or a completion: server-sent events in
 * pieces of any size, each a chunk, `[DONE]` at the end.
 *
 * Of the events (sse_read.h) only `data` matters here. Of a chunk: the content
 * (a completion's text) of the first choice, and the usage. The content is kept as it stands between
 * its quotes, with its escapes, because the next turn sends it back inside
 * quotes.
 *
 * Role: core. Owns: its buffers. Thread: one owner. Limits:
 * LOAD_SSE_EVENT_BYTES_MAX, and text_bytes_max of load_sse_init().
 * Errors: sticky, a static text in `fault`.
 */
#ifndef CHAOS_LOAD_SSE_H
#define CHAOS_LOAD_SSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "node/node.h"

#define LOAD_SSE_EVENT_BYTES_MAX ((size_t)1 << 20)

struct load_usage {
    uint64_t prompt_tokens;
    uint64_t cached_tokens; /* of these; 0 where engines do not tell */
    uint64_t completion_tokens;
};

struct load_sse {
    struct sse_read read;
    struct buf text; /* the answer so far, raw */
    struct load_usage usage;
    uint32_t deltas; /* chunks that brought content */
    bool has_usage;
    bool done;         /* [DONE] came; what follows is ignored */
    const char *fault; /* NULL while all is well */
};

enum {
    LOAD_SSE_E_BAD = 1, /* not such a stream; every further call says so */
};

/* Allocates nothing yet. */
void load_sse_init(struct load_sse *sse, size_t text_bytes_max);

/* Frees what it owns. */
void load_sse_fini(struct load_sse *sse);

/* Ready for another answer; memory is kept. */
void load_sse_restart(struct load_sse *sse);

/* The next bytes of the body. 0, or LOAD_SSE_E_BAD. */
int load_sse_feed(struct load_sse *sse, struct slice bytes) MUST_CHECK;

#endif
