/*
 * Follows one rank's event stream: which messages are next, which are missing,
 * when the engine is another process.
 *
 * Numbering. An engine's process numbers its batches from 0, one by one, and
 * says nowhere which process it is. What tells processes apart is the
 * fingerprint of a batch (key_digest() of its payload, which holds the engine's
 * clock): the same seq with another fingerprint is another process. An epoch is
 * one reading of one process; BEGIN tells of it. The process is named by the
 * fingerprint of seq 0, so that all observers of it find the same name, and by
 * the first batch that is known and its seq where seq 0 is gone. One that has
 * said nothing yet is KV_STREAM_EMPTY.
 *
 * Two sources. Live messages come by the event socket, and all between
 * kv_stream_connected() and kv_stream_disconnected() must have come by one TCP
 * connection: the shell opens a fresh socket for each. Replays answer from a
 * given seq on, then say that this is all. The replay is the authority: what it
 * does not confirm is not trusted, and it is always asked from the last applied
 * batch on, that one included, so that its fingerprint proves (or disproves)
 * that the answer is of the epoch's process. The first reply is taken as it is;
 * engines lose replies in the middle and at the end, never the first.
 *
 *   first reply is the last applied batch    same process, go on
 *   ... under another fingerprint                  restarted: read from 0
 *   first reply is beyond it                 history is gone: a new epoch from
 *                                            there on, partial
 *   the end marker alone                     restarted: read from 0, which
 *                                            may well be empty
 *
 * Linking. That a live message follows on does not say that it is of the same
 * process: a restarted engine comes to the same seq again. So a connection is
 * linked to the epoch only by a message that came both ways, live and replayed,
 * with the same fingerprint. Until then live messages wait (pending), and cause
 * the replay that will prove them. Once linked, contiguous messages are applied
 * as they come, also while a replay runs: replies are judged against what was
 * known when they were asked for.
 *
 * Holes. Replies beyond a hole are kept, and the replay is asked again from the
 * hole on, as long as that helps; three answers in a row that do not help make
 * the hole permanent (engines do skip a seq when publishing fails): it is
 * jumped over, which GAP tells, and the stream is partial. A round without an
 * end marker ends by silence and is asked again; replay_rounds silent rounds in
 * a row, and nobody answers there: the stream goes on as one without a replay,
 * and looks again from time to time.
 *
 * The lost tail and the idle restart show in no live message, so an idle
 * stream is probed.
 *
 * Without a replay the live connection is all there is. Every reconnect begins
 * a new epoch, which is partial unless it begins with seq 0. Batches that are
 * missing are jumped over (GAP): whoever knows better may have them. What
 * reads again, or misses more, has nothing but what comes from there on: a
 * partial epoch under a name of its own, which it keeps while the connection
 * lasts. A tail that is lost shows with the next batch.
 *
 * Questions. kv_stream_reread() may come with a number, rising; the BEGIN that
 * is due to it, and those after it, say the highest one that was known when
 * the reading began, so that nobody takes an answer from before for one.
 *
 * Outputs are pulled after each call, before the next one: an APPLY points at
 * bytes of the call that caused it, or at held ones, good until the next
 * output. kv_stream_reread(), kv_stream_cleared() and kv_stream_not_whole() may
 * be called in between.
 *
 * Role: core. Owns: held messages. Thread: one owner.
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
#include "node/events/kv_apply_internal.h"

struct kv_stream;

/* The name of a process that has published nothing yet. */
#define KV_STREAM_EMPTY UINT64_C(0x7f3a91c2656d7074)

struct kv_stream_config {
    bool has_replay;            /* there is a replay endpoint */
    uint32_t replay_timeout_ms; /* of silence within one round */
    uint32_t replay_rounds;     /* silent ones, until nobody is there */
    uint32_t probe_interval_ms; /* between looks for a lost tail when idle */
    uint32_t retry_ms;          /* least time between two replay requests */
    size_t pending_bytes_max;   /* live messages kept during a replay; as much
                                   again of replayed ones beyond a hole */
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

/* For logs and metrics: static, in lower case. */
const char *kv_stream_state_name(enum kv_stream_state state);

enum kv_out_kind {
    KV_OUT_APPLY,  /* decode and apply payload, batch seq of the epoch */
    KV_OUT_BEGIN,  /* forget the stream: a new epoch begins. reason: static */
    KV_OUT_GAP,    /* batches before the next one are missing for good */
    KV_OUT_REPLAY, /* close the replay socket if open, open a fresh one, ask
                      for batches from `seq` on */
    KV_OUT_HANGUP, /* close the replay socket */
    KV_OUT_PROVED, /* the epoch's process lives: the answer to ask */
    KV_OUT_STATE,  /* the state changed */
};

struct kv_out {
    enum kv_out_kind kind;
    uint64_t seq;
    uint64_t process; /* BEGIN: its name */
    uint64_t
        ask; /* PROVED: the question's number. BEGIN: of the last kv_stream_reread() before it */
    bool whole; /* BEGIN: everything since the process started follows */
    uint64_t fingerprint; /* APPLY: of the payload */
    struct slice payload;
    const char *reason;
    enum kv_stream_state state;
};

/* counters outlives the stream. 0 and *out, or -ENOMEM. */
int kv_stream_new(struct kv_stream **out, const struct kv_stream_config *config,
                  struct kv_counters *counters, uint64_t now_us, uint64_t seed)
    MUST_CHECK;

/* NULL is fine. Outputs that were not pulled are dropped. */
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
 * retry_ms * 2^n, n growing while it does not help. ask: the question's number
 * where somebody waits for the BEGIN that answers it, else 0. */
void kv_stream_reread(struct kv_stream *stream, const char *reason,
                      uint64_t ask, uint64_t now_us);

/* The question whether the epoch's process still lives, by number: PROVED
 * answers it, from a replay that was asked for after it; or the BEGIN of what
 * is found instead. */
void kv_stream_prove(struct kv_stream *stream, uint64_t ask, uint64_t now_us);

/* The batch of the last APPLY said that the engine cleared its cache: all
 * that it holds is known from here on. */
void kv_stream_cleared(struct kv_stream *stream);

/* How far the reading is: enough to go on from there in another life. */
#define KV_STREAM_FINGERPRINTS 16U
struct kv_stream_image {
    uint64_t process;
    uint64_t first_seq;
    uint64_t first_fingerprint;
    uint64_t next_seq;
    bool complete;
    bool unread;
    uint32_t fingerprints_count; /* 1 or more */
    uint64_t fingerprints
        [KV_STREAM_FINGERPRINTS]; /* of the batches before next_seq, the
                                          last one first; 0: not known */
};

/* Between two calls, outputs pulled. False: there is nothing to go on from
 * (nothing was applied, it is dead or to be read again, or there is no replay
 * that could prove that a later engine is the same process). */
bool kv_stream_image(const struct kv_stream *stream,
                     struct kv_stream_image *image) MUST_CHECK;

/* A new stream, before it is connected: as if it had read so far and lost the
 * connection, so that the first replay says whether the engine is still the
 * same process and has what came since. False: the image makes no sense, or
 * there is no replay; nothing changed. */
bool kv_stream_resume(struct kv_stream *stream,
                      const struct kv_stream_image *image) MUST_CHECK;

/* Time passed: asks again, or gives up, where a wait is over. Pull the outputs
 * afterwards. */
void kv_stream_tick(struct kv_stream *stream, uint64_t now_us);

/* UINT64_MAX: never. */
uint64_t kv_stream_deadline(const struct kv_stream *stream);

/* The next thing to do, in order; false: none. *out borrows its payload until
 * the next call into the stream. */
bool kv_stream_next_out(struct kv_stream *stream, struct kv_out *out)
    MUST_CHECK;

/* What the stream claims at the moment, without the outputs still to pull. */
enum kv_stream_state kv_stream_state(const struct kv_stream *stream);

/* Whether a state says that the living process is followed, step by step. */
static inline bool
kv_stream_state_is_live(enum kv_stream_state state)
{
    return state == KV_STREAM_LIVE || state == KV_STREAM_PARTIAL;
}

/* Whether the epoch has everything since seq 0 or a clear, as far as it goes:
 * if not, batches that do not fit together are no wonder. */
bool kv_stream_is_whole(const struct kv_stream *stream);

/* The batch of the last APPLY does not fit, and no reading will change that:
 * the epoch is partial from here on, until it is cleared. */
void kv_stream_not_whole(struct kv_stream *stream);

/* The seq after the last applied one. */
uint64_t kv_stream_next_seq(const struct kv_stream *stream);

/* Whether the invariants hold; otherwise *reason, static, says which does not. */
bool kv_stream_check(const struct kv_stream *stream, const char **reason);

#endif
