/*
 * A second source of cache events, beside engines' ZeroMQ: server-sent events
 * of a sidecar. Code after the records cannot tell the two sources apart.
 *
 * The contract. GET on the worker's `sse` URL answers with text/event-stream.
 * Events, by type:
 *
 *   cache_created    the block is in the device now (or in `tier`)
 *   cache_evicted    the block is gone from every tier (or from `tier`)
 *   cache_offloaded  it went from the device to the host (or to `tier`)
 *   cache_reloaded   it is in the device again, too
 *   cache_purged     nothing is held any more; with a prefix_hash, as
 *                    cache_evicted
 *
 * The data is a JSON object:
 *
 *   prefix_hash   the key (key.h: token ids, key_token_root()) of the prefix
 *                 that ends with this block: 16 hex digits in quotes, or an
 *                 unsigned number. Not needed to purge everything
 *   token_count   tokens of that prefix, a multiple of the block's
 *   block_tokens  tokens of a block, always the same number;
 *                 KV_SSE_BLOCK_TOKENS if the first event does not give it
 *   rank          data-parallel rank, 0 when absent; without one a purge is
 *                 for all
 *   tier          device or gpu, host or cpu, disk, external
 *
 * A member that is null is as good as absent. Other members and types are
 * skipped, so heartbeats may be events. Anything that breaks the contract is
 * counted under its reason and skipped.
 *
 * Continuity. A source that numbers its events proves that none is missing: an
 * id ends in a decimal number that grows by one with each event, after a prefix
 * that stays the same for one life of the source ("7", "b81-7"). After a lost
 * connection we send the last id as Last-Event-ID. If the first event then has
 * the next number, the stream continues. It also continues if an event of an
 * unknown type repeats the last id (a heartbeat). Until then the source does
 * not count as connected. Any other id, or none, starts a new epoch, because
 * missed events are lost for good. If a number is left out within a connection,
 * we hang up, in the hope that the source can repeat; ids that never grew by
 * one prove nothing and cause no hang-up. A source whose first event is number
 * 0 or 1 has told everything since it began (LIVE); with any other first
 * number, earlier blocks are unknown (PARTIAL).
 *
 * Names. A reading begins twice. It begins with the connection, under a name of
 * its own (earlier state must not be used any more). If the ids count, it
 * begins again with the first event, which names the source: so all nodes that
 * follow the source from there on find the same name, and a record's seq is the
 * event's number. If the ids do not count, records are numbered as they arrive,
 * so two nodes cannot compare their readings of such a source. The first event
 * answers a question (kv_sse_reread()).
 *
 * A source of this kind cannot say how many blocks it holds without the one
 * before them, so its records have EVENT_HOLES_UNKNOWN.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: SSE_READ_ID_MAX.
 * Errors: none; what goes wrong is an output or a counter.
 */
#ifndef NODE_KV_SSE_INTERNAL_H
#define NODE_KV_SSE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/rng.h"
#include "index/index.h"
#include "node/events/kv_stream.h"
#include "node/text/sse_read.h"

#define KV_SSE_BLOCK_TOKENS 16U
#define KV_SSE_WORDS_MAX    8 /* of one event's record */

/* X(name, help): one per source. */
#define KV_SSE_COUNTERS(X)                                             \
    X(events, "Events read, of any type")                              \
    X(applied, "Events that became a record")                          \
    X(other, "Events skipped: not about the cache")                    \
    X(drop_malformed, "Events dropped: not the JSON they should be")   \
    X(drop_rank, "Events dropped: a rank that does not exist")         \
    X(drop_tier, "Events dropped: an unknown tier")                    \
    X(drop_block_size, "Events dropped: another block size")           \
    X(drop_unaligned, "Events dropped: tokens do not fill the blocks") \
    X(drop_gap, "Events dropped: they came after a gap")               \
    X(gaps, "Times that event ids were missing")                       \
    X(resumed, "Connections that continued where the last one ended")  \
    X(restarted, "Connections that did not, and restarted streams")    \
    X(connects, "Connections that brought an event stream")            \
    X(disconnects, "Of these, those that ended")

#define KV_SSE_COUNTER_MEMBER(name, help) uint64_t name;

struct kv_sse_stats {
    KV_SSE_COUNTERS(KV_SSE_COUNTER_MEMBER)
};

/* Whether ids say which events are missing. */
enum kv_sse_ids {
    KV_SSE_IDS_OPEN,  /* not known yet */
    KV_SSE_IDS_COUNT, /* each one is the one before and one */
    KV_SSE_IDS_FREE,  /* they are names, or there are none */
};

enum kv_sse_out_kind {
    KV_SSE_BEGIN,  /* a reading of the rank begins (again): see reason */
    KV_SSE_STATE,  /* the rank's state changed */
    KV_SSE_RECORD, /* the rank's cache changed */
    KV_SSE_HANGUP, /* close the connection, open another one */
};

struct kv_sse_out {
    enum kv_sse_out_kind kind;
    uint32_t rank;        /* not HANGUP */
    uint64_t process;     /* BEGIN: its name */
    bool whole;           /* BEGIN: all since it began follows */
    uint64_t ask;         /* BEGIN: the last question that it answers */
    const char *reason;   /* BEGIN: static text */
    uint64_t fingerprint; /* RECORD: of the event */
    enum kv_stream_state state;
    const struct event_record *record; /* RECORD; good until the next call */
};

struct kv_sse {
    uint64_t identity;
    uint32_t ranks;
    struct rng rng; /* of names */
    struct kv_sse_stats stats;

    enum kv_stream_state state; /* of all ranks */
    bool in_full;               /* the epoch is known from its beginning */
    bool begun;                 /* there is an epoch */
    bool fresh;                 /* ... and no event of it yet */
    bool connected;
    bool proved; /* the connection is proved to continue this epoch */
    bool hung;   /* what still comes of the connection is after a gap */
    uint64_t process;
    uint64_t ask;      /* the last question */
    uint64_t ask_told; /* ... as the last BEGIN has it */
    uint64_t seq;
    uint64_t fingerprint;  /* of the last event */
    uint32_t block_tokens; /* 0: not known yet */

    enum kv_sse_ids ids;
    char id[SSE_READ_ID_MAX]; /* of the last event in step */
    size_t id_len;

    /* Outputs still to be pulled: ranks from begin_rank on, up to `ranks`. */
    uint32_t begin_rank;
    uint32_t state_rank;
    uint32_t record_rank;
    uint32_t record_end;
    bool hangup;
    const char *reason;
    uint64_t record[sizeof(struct event_record) / 8 + KV_SSE_WORDS_MAX];
};

/* identity: of the worker; ranks: 1 or more. */
void kv_sse_init(struct kv_sse *sse, uint64_t identity, uint32_t ranks,
                 uint64_t seed);

/* After each of these pull until there is nothing. */

/* The event stream began to arrive; ended. */
void kv_sse_connected(struct kv_sse *sse);
/* The connection is gone: a half-read event is dropped. */
void kv_sse_disconnected(struct kv_sse *sse);

/* One event of it; borrowed for the call. */
void kv_sse_event(struct kv_sse *sse, const struct sse_event *event);

/* Forgets everything and begins again, with another connection. ask: the
 * question's number, 0: none. */
void kv_sse_reread(struct kv_sse *sse, const char *reason, uint64_t ask);

bool kv_sse_next_out(struct kv_sse *sse, struct kv_sse_out *out) MUST_CHECK;

/* What to send as Last-Event-ID; empty: nothing. Good until the next call. */
struct slice kv_sse_last_id(const struct kv_sse *sse);

#endif
