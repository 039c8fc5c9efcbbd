/*
 * Follows one rank's event stream: which messages are next, which are missing,
 * and when the engine is another process.
 *
 * Numbering. An engine's process numbers its batches from 0, one by one, and
 * never says which process it is. The fingerprint of a batch (key_digest() of
 * its payload, which contains the engine's clock) distinguishes processes: the
 * same seq with another fingerprint is another process. An epoch is one reading
 * of one process; BEGIN announces it. The process is named by the fingerprint
 * of seq 0, so that all its observers find the same name; if seq 0 is gone, by
 * the first known batch and its seq. A process that has published nothing yet
 * is KV_STREAM_EMPTY.
 *
 * Two sources. Live messages come through the event socket, and all messages
 * between kv_stream_connected() and kv_stream_disconnected() must have come
 * through one TCP connection: the shell opens a new socket for each. A replay
 * answers from a given seq on, and then marks its end. The replay is the
 * authority: nothing is trusted that it does not confirm. It is always
 * requested from the last applied batch on, including that batch, whose
 * fingerprint then proves (or disproves) that the answer is of the epoch's
 * process. The first reply is always trusted to be first: engines lose replies
 * in the middle and at the end, never the first.
 *
 *   first reply is the last applied batch     same process, continue
 *   ... under another fingerprint             restarted: read from 0
 *   first reply is beyond it                  history is gone: a new epoch
 *                                             from there on, partial
 *   the end marker alone                      restarted: read from 0, which
 *                                             may well be empty
 *
 * Linking. A live message with the next seq need not be of the same process: a
 * restarted engine reaches the same seq again. So a connection is linked to the
 * epoch only by a message that came both ways, live and replayed, with the same
 * fingerprint. Until then live messages wait (pending), and cause the replay
 * that will prove them. Once linked, contiguous messages are applied as they
 * arrive, even during a replay: replies are judged by what was known when they
 * were requested.
 *
 * Holes. Replies beyond a hole are kept, and the replay is requested again from
 * the hole on, as long as that helps. After three answers in a row that do not
 * help, the hole is permanent (engines do skip a seq when publishing fails): it
 * is skipped, which GAP reports, and the stream is partial. A round without an
 * end marker ends by silence and is requested again. After replay_rounds silent
 * rounds in a row, the endpoint is considered dead: the stream continues as one
 * without a replay, and tries again from time to time. No live message reveals
 * a lost tail or an idle restart, so an idle stream is probed.
 *
 * Without a replay there is only the live connection. Every reconnect begins a
 * new epoch, which is partial unless it begins with seq 0. Missing batches are
 * skipped (GAP), because another node may have them. A stream that reads again,
 * or misses more, has only what comes from there on: a partial epoch under a
 * name of its own, which it keeps while the connection lasts. A lost tail shows
 * with the next batch.
 *
 * Questions. kv_stream_reread() may have a number; numbers rise. The BEGIN that
 * answers it, and those after it, carry the highest number that was known when
 * the reading began, so that an earlier reading is never taken for an answer.
 * While a question waits for its turn (readings again are rare), a reading that
 * begins by itself answers it, and so does a batch that clears the cache: a
 * replay may be too short for that batch by then.
 * Without a replay, a question that comes while the engine is known to hold
 * nothing is answered at once: to begin again would forget that.
 *
 * Outputs are pulled after each call, before the next one: an APPLY points at
 * bytes of the call that caused it, or at held messages, valid until the next
 * output. kv_stream_reread(), kv_stream_cleared() and kv_stream_not_whole() may
 * be called in between.
 *
 * Role: core. Owns: held messages. Thread: one owner. Limits: struct
 * kv_stream_config. Errors: none; what goes wrong is an output or a counter.
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
    uint32_t replay_rounds;     /* silent rounds until the endpoint is
                                   considered dead */
    uint32_t probe_interval_ms; /* of silence until a look for a lost tail; the
                                   next one waits for 2, all others for 4 */
    uint32_t retry_ms;          /* least time between two replay requests */
    size_t payload_bytes_max;   /* a longer batch is empty; 0: none is */
    size_t pending_bytes_max;   /* live messages kept during a replay; as much
                                   again of replayed ones beyond a hole */
};

enum kv_stream_state {
    KV_STREAM_CONNECTING, /* no connection yet, or lost */
    KV_STREAM_READING,    /* a replay runs */
    KV_STREAM_LIVE,       /* in step, and everything since the engine started
                             is known */
    KV_STREAM_PARTIAL,    /* in step, but the engine's earlier blocks are
                             unknown: less is claimed than is there */
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

/* What was applied was inconsistent (KV_APPLY_E_DAMAGED), or the mirror was
 * proved wrong: forgets everything and reads again, at most once per retry_ms *
 * 2^n; n grows while it does not help. ask: the question's number if the caller
 * waits for the BEGIN that answers it, else 0. */
void kv_stream_reread(struct kv_stream *stream, const char *reason,
                      uint64_t ask, uint64_t now_us);

/* The question whether the epoch's process still lives, by number: PROVED
 * answers it, from a replay that was asked for after it; or the BEGIN of what
 * is found instead. */
void kv_stream_prove(struct kv_stream *stream, uint64_t ask, uint64_t now_us);

/* The batch of the last APPLY said that the engine cleared its cache: all
 * that it holds is known from here on. */
void kv_stream_cleared(struct kv_stream *stream);

/* After kv_stream_cleared(), where the batch can be told: a reading that waits for
 * its turn would know no more, and may know less. It is given up. True: it was
 * asked for; the epoch begins once more, with this batch, and that answers *ask.
 * A question that came after all that proves the process stays. */
bool kv_stream_cleared_answers(struct kv_stream *stream, uint64_t *ask)
    MUST_CHECK;

/* There is no replay, and all that came is known to come to nothing. True: that
 * answers the question; an epoch begins whose last batch so far is *seq, of that
 * fingerprint. False: nothing was done. */
bool kv_stream_empty_answers(struct kv_stream *stream, uint64_t ask,
                             uint64_t *seq, uint64_t *fingerprint) MUST_CHECK;

/* The last batch of the epoch that a replay showed and that is not applied yet,
 * because others before it are missing; 0: there is none. */
uint64_t kv_stream_ahead(const struct kv_stream *stream);

/* How far the reading is: enough to continue from there in another process. */
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

/* Call it between two calls, with all outputs pulled. False: there is nothing
 * to continue from (nothing was applied, the stream is dead or must be read
 * again, or there is no replay that could prove that a later engine is the same
 * process). */
bool kv_stream_image(const struct kv_stream *stream,
                     struct kv_stream_image *image) MUST_CHECK;

/* What of the image does not change with each batch, at any time; the rest is
 * 0. False as above, but for a stream that must be read again: until then it is
 * what it was. */
bool kv_stream_origin(const struct kv_stream *stream,
                      struct kv_stream_image *image) MUST_CHECK;

/* For a new stream, before it is connected: as if it had read this far and lost
 * the connection. So the first replay shows whether the engine is still the
 * same process, and brings what came since. False: the image is invalid, or
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

/* What the stream claims at present, without the outputs that are still to be
 * pulled. */
enum kv_stream_state kv_stream_state(const struct kv_stream *stream);

/* Whether the state means that the living process is followed step by step. */
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

/* Verifies each invariant. False: *reason (static text) says which one is
 * broken. */
bool kv_stream_check(const struct kv_stream *stream, const char **reason);

#endif
