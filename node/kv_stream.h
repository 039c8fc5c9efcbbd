/*
 * Follows one rank's event stream: which messages are next, which are missing,
 * when the engine is another process.
 *
 * [the essay: numbering, joining late, gaps, restarts, the lost tail, replay
 * with holes, what proves that a connection leads to the same process: see the
 * reference's sections 1.3 and mesh notes 2.2; where this departs and why]
 *
 * Outputs are pulled after each call, before the next one: an APPLY points at
 * bytes of the call that caused it, or at pending ones.
 *
 * Role: core. Owns: pending messages. Thread: one owner.
 * Limits: struct kv_stream_config. Errors: none; what goes wrong is an output
 * or a counter.
 */
#ifndef NODE_KV_STREAM_H
#define NODE_KV_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/kv_apply.h"

struct kv_stream;

struct kv_stream_config {
    bool has_replay;            /* there is a replay endpoint */
    uint32_t replay_timeout_ms; /* of silence within one round */
    uint32_t replay_rounds;     /* until a gap counts as unrecoverable */
    uint32_t probe_interval_ms; /* between looks for a lost tail when idle */
    uint32_t retry_ms;          /* least time between two replay requests */
    size_t pending_bytes_max;   /* live messages kept during a replay */
};

enum kv_stream_state {
    KV_STREAM_CONNECTING, /* no connection yet, or lost */
    KV_STREAM_READING,    /* a replay runs */
    KV_STREAM_LIVE,       /* in step, and everything since the engine started
                             is known */
    KV_STREAM_PARTIAL,    /* in step, but what the engine held before is not
                             known: less is claimed than is there */
    KV_STREAM_STALE,      /* events are missing: do not trust it */
};

const char *kv_stream_state_name(enum kv_stream_state state);

enum kv_out_kind {
    KV_OUT_APPLY,  /* decode and apply payload, batch seq of the epoch */
    KV_OUT_RESET,  /* forget the stream: a new epoch begins. reason: static */
    KV_OUT_REPLAY, /* close the replay socket if open, open a fresh one, ask
                      for batches from `seq` on */
    KV_OUT_HANGUP, /* close the replay socket */
    KV_OUT_STATE,  /* the state changed */
};

struct kv_out {
    enum kv_out_kind kind;
    uint64_t seq;
    uint64_t epoch; /* RESET, APPLY */
    struct slice payload;
    const char *reason;
    enum kv_stream_state state;
};

/* counters outlives the stream. 0 and *out, or -ENOMEM. */
int kv_stream_new(struct kv_stream **out, const struct kv_stream_config *config,
                  struct kv_counters *counters, uint64_t now_us, uint64_t seed)
    MUST_CHECK;

void kv_stream_free(struct kv_stream *stream);

/* The event socket's connection came up, or went down. */
void kv_stream_connected(struct kv_stream *stream, uint64_t now_us);
void kv_stream_disconnected(struct kv_stream *stream, uint64_t now_us);

/* A message of the event socket; bytes are borrowed for the call and the
 * outputs after it. */
void kv_stream_live(struct kv_stream *stream, uint64_t seq,
                    struct slice payload, uint64_t now_us);

/* A message of the replay socket opened last; its end marker. */
void kv_stream_replayed(struct kv_stream *stream, uint64_t seq,
                        struct slice payload, uint64_t now_us);
void kv_stream_replay_end(struct kv_stream *stream, uint64_t now_us);

/* What was applied did not fit together (KV_APPLY_E_DAMAGED), or the mirror
 * proved wrong: forget and read everything again, at most once per
 * retry_ms * 2^n, n growing while it does not help. */
void kv_stream_reread(struct kv_stream *stream, const char *reason,
                      uint64_t now_us);

void kv_stream_tick(struct kv_stream *stream, uint64_t now_us);

/* UINT64_MAX: never. */
uint64_t kv_stream_deadline(const struct kv_stream *stream);

bool kv_stream_next_out(struct kv_stream *stream, struct kv_out *out)
    MUST_CHECK;

enum kv_stream_state kv_stream_state(const struct kv_stream *stream);

/* The seq after the last applied one. */
uint64_t kv_stream_next_seq(const struct kv_stream *stream);

bool kv_stream_check(const struct kv_stream *stream, const char **reason);

#endif
