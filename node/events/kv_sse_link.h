/*
 * The connection to one worker's stream of cache events (kv_sse_internal.h has
 * the contract): GETs its `sse` URL, reads, reconnects, and passes the events
 * on.
 *
 * After a connection fails or ends, another one follows after a wait that
 * doubles from retry_ms (or what the source requests with `retry`) up to
 * retry_max_ms, shortened at random by up to a quarter; the wait starts over
 * once a connection brought an event. A connection that is silent for
 * silence_ms, without even a comment, is considered dead; one that has sent
 * nothing yet does not count as connected.
 *
 * Role: shell. Owns: its call, its timer, its buffers. Thread: control, whose
 * loop it is on. Limits: KV_SSE_EVENT_BYTES_MAX per event or line. Errors:
 * below zero -errno; whatever happens to a connection is a line in the log and
 * another attempt.
 */
#ifndef NODE_KV_SSE_LINK_H
#define NODE_KV_SSE_LINK_H

#include <stdint.h>
#include <uv.h>

#include "node/base/sock_tls.h"
#include "node/config/config.h"
#include "node/events/intake.h"
#include "node/events/kv_sse_internal.h"
#include "node/text/url.h"

#define KV_SSE_EVENT_BYTES_MAX ((size_t)64 << 10)

struct kv_sse_link;

/*
 * Receives items as the intake delivers them (intake.h), with worker,
 * generation and reading as given; record: of an INTAKE_RECORD, otherwise NULL.
 * Called only from the loop, never from within a call of the owner's. A
 * callback may free the link.
 */
struct kv_sse_sink {
    void *context;
    void (*item)(void *context, const struct intake_item *item,
                 const struct event_record *record);
    /* What to trust, for a new connection by https. */
    const struct sock_tls_context *(*tls)(void *context);
};

/* Copied, except for the sink's context. */
struct kv_sse_source {
    char id[CONFIG_LABEL_MAX]; /* the worker's, for the log */
    uint32_t slot;
    uint32_t generation;
    uint32_t reading;
    uint64_t identity; /* goes into stream.worker */
    uint32_t ranks;
    struct url url;
    struct ranges deny;              /* where its name must not lead */
    char api_key[CONFIG_SECRET_MAX]; /* Authorization: Bearer; or "" */
    uint32_t retry_ms;
    uint32_t retry_max_ms;
    uint32_t silence_ms; /* 0: for ever */
    uint64_t seed;
    struct kv_sse_sink sink;
};

/* Connects from the loop's next turn on. 0 and *out, or -ENOMEM. */
int kv_sse_link_new(struct kv_sse_link **out, uv_loop_t *loop,
                    const struct kv_sse_source *source) MUST_CHECK;

/* No callback follows; the connection and the memory are given up in later
 * turns of the loop. link may be NULL. */
void kv_sse_link_free(struct kv_sse_link *link);

/* Forgets what the source told and reconnects; the BEGIN comes from the loop.
 * ask: the question's number, 0: none. reason: static text. */
void kv_sse_link_reread(struct kv_sse_link *link, const char *reason,
                        uint64_t ask);

/* Whether the stream began to arrive; whether the last try ended without an
 * event and the next one has brought nothing yet. */
bool kv_sse_link_is_connected(const struct kv_sse_link *link);
/* Whether it tries to connect, and has not yet. */
bool kv_sse_link_is_failing(const struct kv_sse_link *link);

/* Good as long as the link. */
const struct kv_sse_stats *kv_sse_link_stats(const struct kv_sse_link *link);

#endif
