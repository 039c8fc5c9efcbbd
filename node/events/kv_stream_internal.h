/*
 * The inside of kv_stream.h, shared by its files:
 *
 *   kv_stream.c         the connection, the probes, the state
 *   kv_stream_epoch.c   the epoch: its begin, what is applied, its end
 *   kv_stream_live.c    live batches
 *   kv_stream_round.c   replays
 *   kv_stream_reread.c  reading again from the first batch
 *   kv_stream_out.c     the outputs
 */
#ifndef NODE_KV_STREAM_INTERNAL_H
#define NODE_KV_STREAM_INTERNAL_H

#include "index/base/rng.h"
#include "node/events/kv_held_internal.h"
#include "node/events/kv_stream.h"

#define KV_STREAM_RECENT  512U /* applied messages with a kept fingerprint */
#define KV_STREAM_OUTS    8U
#define KV_STREAM_CONFIRM 3U /* equal replies that make a hole permanent */

struct kv_recent {
    uint64_t seq;
    uint64_t fingerprint;
};

/* A replay in progress, and what was known when it was requested. */
struct kv_round {
    bool active;
    bool fresh;           /* from 0, whichever process answers */
    bool heard;           /* a reply came */
    bool lost;            /* a reply could not be held */
    uint64_t ask;         /* the last question when it was asked for */
    uint64_t from;        /* not fresh: the last applied one */
    uint64_t fingerprint; /* ... and its fingerprint */
    uint64_t silent_at_us;
    uint64_t next_before; /* to see whether the round helped */
    uint32_t early_before;
    uint64_t early_top; /* above all that was held early */
    bool filled;        /* something below that came */
    bool linked_before;
};

struct kv_stream {
    struct kv_stream_config config;
    struct kv_counters *counters;
    struct rng rng;
    uint64_t now_us; /* of the last call */

    /* The event socket's connection. */
    bool connected;
    bool linked;        /* it leads to the epoch's process: proved */
    bool has_live_last; /* a message came by it */
    uint64_t live_last; /* ... this was the last one */

    /* The epoch: what was applied. */
    bool blank;      /* nothing */
    bool complete;   /* everything since seq 0, or since a clear */
    bool dead;       /* proved to be of a process that is gone, or to be read
                      again: the next fresh round replaces it */
    bool force;      /* ... even if it is the same process */
    bool gap;        /* messages are known to be missing */
    bool proved;     /* a replay since the connection came up said that this is
                      the process and that nothing is missing */
    bool reading;    /* begun by a replay that did not reach its end yet */
    bool unread;     /* begun live in the middle: a replay may know more */
    const char *why; /* dead */
    bool opened;     /* blank, and announced: the next messages of this
                        connection belong to it */
    bool part;       /* `process` names a reading that began in the middle */
    uint64_t process;
    uint64_t first_seq;
    uint64_t first_fingerprint;
    uint64_t next_seq;
    struct kv_recent recent[KV_STREAM_RECENT];

    /* Replays. */
    struct kv_round round;
    uint64_t early_top; /* above all that is held early */
    bool wanted;        /* a round, at round_at_us or later */
    bool silent;        /* the replay endpoint does not answer */
    bool accepting;     /* skip what is still missing */
    uint64_t round_at_us;
    uint64_t asked_us;  /* the last request; 0: none */
    uint64_t quiet_us;  /* since when nothing was heard */
    uint64_t probe_us;  /* of silence until the next probe */
    uint32_t in_vain;   /* probes since a message came, at most two */
    uint32_t fruitless; /* rounds in a row that timed out without help */
    uint32_t confirmed; /* rounds in a row that ended without help */

    /* Reading again. */
    bool proving;          /* the last question was for proof */
    uint64_t ask;          /* the last question */
    uint64_t ask_told;     /* ... when the epoch began */
    const char *reread;    /* wanted, why */
    uint64_t reread_at_us; /* not before */
    uint64_t reread_last_us;
    uint32_t rereads; /* in short order */

    struct kv_held early;    /* replayed messages after a hole */
    struct kv_held pending;  /* live messages that cannot be applied yet */
    struct kv_message *lent; /* what the last APPLY points at */

    struct kv_out outs[KV_STREAM_OUTS];
    uint32_t outs_count;
    uint32_t outs_next;
    enum kv_stream_state told;
};

enum kv_known {
    KV_KNOWN_SAME,  /* this very message was applied */
    KV_KNOWN_OTHER, /* another one under its seq: not the same process */
    KV_KNOWN_NOT,   /* too long ago, or never */
};

static inline uint64_t
kv_stream_us(uint32_t ms)
{
    return (uint64_t)ms * 1000;
}

/* No replay is available: there are only live messages. */
static inline bool
kv_stream_unaided(const struct kv_stream *stream)
{
    return !stream->config.has_replay || stream->silent;
}

/* What is kept of a batch: nothing of one that is too long to be read. Its
 * fingerprint is that of all of it, as other nodes have it. */
static inline struct slice
kv_stream_kept(const struct kv_stream *stream, struct slice payload)
{
    size_t most = stream->config.payload_bytes_max;

    return most != 0 && payload.len > most ? SLICE("") : payload;
}

enum kv_known kv_stream_known(const struct kv_stream *stream, uint64_t seq,
                              uint64_t fingerprint);
/* Appends an output; the payload of one is borrowed until it is pulled. */
void kv_stream_push(struct kv_stream *stream, const struct kv_out *out);
void kv_stream_begin(struct kv_stream *stream, uint64_t seq,
                     uint64_t fingerprint, uint64_t ask, const char *reason);
/* Forgets everything that is known. empty: a replay said that the engine holds
 * nothing, either. */
void kv_stream_forget(struct kv_stream *stream, bool empty, uint64_t ask,
                      const char *reason);
void kv_stream_apply(struct kv_stream *stream, uint64_t fingerprint,
                     struct slice payload);
/* This message is the first known one of the epoch; it is applied next. */
void kv_epoch_start(struct kv_stream *stream, uint64_t seq,
                    uint64_t fingerprint);
/* Continues at seq, which is above the next one: what lies between is lost, and
 * a GAP is emitted. */
void kv_epoch_skip_to(struct kv_stream *stream, uint64_t seq);
/* The same for a message that is applied next, and that no replay fills up. */
void kv_epoch_jump(struct kv_stream *stream, uint64_t seq,
                   uint64_t fingerprint);
/* The epoch is not, or no longer, the engine's process: read from 0. */
void kv_stream_restart(struct kv_stream *stream, const char *reason);

/* Live messages: an epoch begins with this one, which is applied next. */
void kv_live_begin(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
                   const char *reason);

/* Begins the reading again, from the first batch that a replay has. reason:
 * static text. */
void kv_stream_read_again(struct kv_stream *stream, const char *reason);
/* When the next such reading is due; UINT64_MAX: none is wanted, or there is no
 * connection. */
uint64_t kv_reread_due(const struct kv_stream *stream);
/* Does it; the connection is up, and it is due. */
void kv_reread_start(struct kv_stream *stream);

/* A message came: probes are frequent again. */
void kv_stream_stir(struct kv_stream *stream);

/* Rounds. */
void kv_round_want(struct kv_stream *stream);
/* A replay is asked for after a few probe intervals. */
void kv_round_later(struct kv_stream *stream);
/* Asks for a replay now. */
void kv_round_ask(struct kv_stream *stream);
/* Hangs up the replay that runs, if one does. */
void kv_round_stop(struct kv_stream *stream);
/* Replays that took too long, or are due. */
void kv_round_tick(struct kv_stream *stream);

/* kv_stream_reread.c: proof that the process lives, if it was asked for */

/* A replay was read to its end, and nothing is missing before that. */
void kv_stream_prove_round(struct kv_stream *stream);
/* Nobody answers at the replay endpoint: the connection is the only witness. */
void kv_stream_prove_unaided(struct kv_stream *stream);

#endif
