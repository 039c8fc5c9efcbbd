/*
 * One stream of a node's gossip: its epoch and position, this node's reading of
 * it, what is asked of peers, and the engine's names.
 *
 * Role: core. Thread: the one owner.
 */
#ifndef GOSSIP_STREAM_INTERNAL_H
#define GOSSIP_STREAM_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "gossip/delta_log_internal.h"
#include "gossip/gossip.h"
#include "gossip/rival_internal.h"
#include "index/base/check.h"

#define GOSSIP_PART_LAST 255U
#define GOSSIP_LEFT      4U /* epochs that were left, at most */

/* A record that must be applied and is in no log. */
struct gossip_direct {
    struct gossip_direct *next;
    uint64_t pos; /* passed on as seq */
    uint64_t at;  /* the replica's position afterwards */
    uint32_t len;
    uint8_t body[];
};

/* The state of the intake's own reading. */
struct gossip_reading {
    bool any;
    bool live;
    bool whole;
    bool from_start; /* it was whole when it began */
    bool tolerant;   /* it leads an epoch that is not complete: gaps are
                        marked */
    bool gap;        /* it missed batches, and no CLEAR followed: it may not
                        know what its records are about, so each is marked (the
                        first ones may be old) */
    bool differs;    /* a fingerprint differs, or the epoch goes impossibly
                        further: it belongs to another process */
    bool lost;       /* batches are missing: it does not lead */
    bool split;      /* it is inside a batch */
    uint64_t process;
    uint64_t id; /* of the epoch that it leads, or would lead */
    uint64_t pos;
    uint32_t print;        /* of the batch at print_pos, lower half */
    uint64_t print_pos;    /* of the record that was read last; 0: none was */
    uint32_t part;         /* of the batch, while split */
    uint64_t off_since_us; /* since when, by gossip_awake(), a follower is not
                              at the replica's position; 0: it is */
    uint64_t off_mark;     /* at that time: the position of the one ahead */
    uint64_t off_pos;      /* at that time: the reading's position */
    uint64_t off_replica;  /* at that time: the replica's position */
    bool who_asked;        /* since then: we asked who leads the epoch */
    bool who_lives;        /* since then: a live reader said that it does */
};

/* The fingerprints of the batches that this node's readings had last, which
 * reach back further than the log (prints.c). */
struct gossip_prints {
    uint32_t *print; /* GOSSIP_PRINTS of them, by seq; NULL: none */
    uint64_t low;    /* seqs from low on, below high */
    uint64_t high;
    bool unproved; /* the reading is another one: of the same process only if
                      its next batch is among them */
};

enum gossip_asked {
    GOSSIP_ASKED_NOT,
    GOSSIP_ASKED_JUDGE, /* does the higher epoch's process live? */
    GOSSIP_ASKED_TAKE,  /* no other node reads better */
    GOSSIP_ASKED_PROVE, /* does the leading reading's process live? */
    GOSSIP_ASKED_HEAL,  /* the state is wrong, or no peer can supply it */
};

/* The open question for records. */
struct gossip_pull {
    bool open;
    uint64_t peer;
    uint64_t id; /* of the epoch when it was asked */
    uint64_t from;
    uint64_t due_us;
};

struct gossip_transfer {
    bool active;
    bool begun;     /* the first page arrived: the replica is torn */
    uint64_t epoch; /* the id of the state's: the stream's own, or, until the
                       first page, that of the rival */
    bool wanted;    /* from wanted_from, as soon as a transfer is free */
    uint64_t wanted_from;
    uint64_t peer;
    uint64_t token;
    uint64_t cursor;
    uint64_t due_us;
    uint64_t again_us; /* after a failure, not before this */
    uint32_t tries;
};

/* A table of names, and the batch that it is as of. */
struct gossip_named {
    struct names table;
    uint64_t pos;
    uint64_t print;
};

/* The engine's names for a stream's blocks (stream_names.c). */
struct gossip_ledger {
    struct names table;
    bool known;         /* the table is the reader's, as of pos */
    uint64_t pos;       /* the end of a batch */
    uint64_t print;     /* of that batch */
    uint64_t at;        /* of the last record in the table or the batch */
    struct words batch; /* said by the parts of a batch that has not ended */
    bool clears;        /* ... which begins with a CLEAR */
    struct gossip_named *spare; /* the table of before, while a peer is asked
                                   for a newer one; NULL: there was none */
    /* Asking a peer for its table. */
    uint64_t offer;     /* a peer that knew them lately; 0: none */
    uint64_t offer_old; /* ... as of this position only; 0: as of its own */
    bool old;           /* those are asked for */
    uint64_t peer;      /* 0: nobody is asked */
    uint64_t token;
    uint64_t cursor;
    uint64_t from;  /* pages are of this position, or a later one */
    uint64_t until; /* the last position of a page */
    uint64_t due_us;
    uint64_t again_us; /* nobody is asked before this */
    uint32_t tries;
};

/* An epoch that a takeover ended. */
struct gossip_left {
    uint64_t id;    /* 0: none */
    uint64_t pos;   /* the reading could not go on from names up to here */
    uint32_t times; /* it was left without names to go on from */
};

struct gossip_stream {
    struct event_stream name;
    bool removed;
    uint64_t removed_us;
    struct gossip_epoch epoch;
    uint32_t no_max;    /* highest number ever heard */
    bool whole;         /* the epoch is complete from its start */
    bool complete;      /* ... and is complete at pos */
    uint64_t pos;       /* everything up to here is applied or queued */
    uint64_t told;      /* everything up to here was handed out */
    uint64_t known;     /* furthest position of this epoch that any node has */
    uint64_t ahead;     /* furthest that its readers were shown, read or not */
    uint64_t settle;    /* torn below this position */
    uint64_t behind_us; /* since when pos < known; 0: it is not */
    uint64_t torn_us;   /* since when it is torn; 0: it is not */
    uint64_t look_us;   /* when to look for what is missing; 0: nothing is */
    struct delta_log log;
    uint32_t holes;
    uint32_t block_tokens;
    uint64_t digest_count;
    uint64_t digest_xor;
    uint64_t digest_pos;
    bool digest_known;

    struct gossip_reading reading;
    uint64_t ask;      /* number of the last REREAD */
    uint64_t answered; /* number of the last REREAD that a reading answered */
    enum gossip_asked asked;
    uint64_t asked_us;   /* when that was, by gossip_awake() */
    uint64_t asked_of;   /* id of the epoch when it was asked */
    uint64_t healed_us;  /* when healing was last tried; 0: never */
    uint64_t rebuilt_us; /* ... from the names, because digests differed */

    bool lost;          /* what was handed out was lost: the state is wrong */
    uint32_t lost_peer; /* slots of peers below were asked for theirs since */

    bool resumes;         /* the intake may go on from the names: to be said */
    uint64_t resumed_id;  /* the epoch when that was said last */
    uint64_t resumed_pos; /* ... and the position of the names */
    uint64_t resumed_us;  /* when that was, by gossip_awake(); 0: never */
    bool resuming;        /* ... and no reading began since */
    uint32_t level_tries; /* in the epoch, of a reading that was level */

    struct gossip_rival rival;
    bool late;    /* the own proof did not come in time, nor since */
    bool doubted; /* a peer waits for this node's proof */
    uint64_t led; /* id of the epoch that a reading led when it ended */
    struct gossip_left left[GOSSIP_LEFT]; /* by the last takeovers */
    uint32_t lefts;                       /* how many places were taken */
    uint64_t raised_us;                   /* the epoch's no, last; 0: never */

    struct gossip_pull pull;
    struct gossip_transfer transfer;
    struct {
        uint64_t pos; /* 0: nothing */
        bool complete;
    } before; /* what the names can bring back, if the transfer fails */

    uint32_t rank;
    uint64_t primary;
    uint64_t unread_us;   /* since when no node can read it; 0: some node can */
    bool handing;         /* was primary; the new primary was not heard yet */
    uint64_t pushed;      /* position of the epoch up to which peers were sent
                             records */
    bool heard;           /* the primary has pushed since it is primary */
    uint64_t primary_pos; /* last position seen from the primary */
    uint64_t lag_us;      /* since when the primary is behind; 0: it is not */
    bool to_push;         /* in the list of streams to push */
    struct gossip_stream *next_push;

    uint64_t flips_us[GOSSIP_FLIPS_MAX + 1];
    uint32_t flips;

    struct gossip_ledger names;
    struct gossip_prints prints;

    uint64_t resets;
    uint64_t epoch_name; /* event_record.epoch */
    const char *reset;   /* static text: why a RESET is due, or NULL */
    const char *reread;  /* static text: why a REREAD is due, or NULL */
    struct gossip_direct *direct;
    struct gossip_direct **direct_end;
    bool told_complete, told_stale, told_contested;
    bool ready; /* in the list of streams with outputs */
    struct gossip_stream *next_ready;
    struct gossip_stream *next_hash;
};

/* The position of part `part` of batch `seq`; part is at most
 * GOSSIP_PART_LAST. */
static inline uint64_t
gossip_pos(uint64_t seq, uint32_t part)
{
    CHECK(part <= GOSSIP_PART_LAST);
    return seq << 8 | part;
}

/* The replica is between the first page of a transfer and its end. */
static inline bool
gossip_is_torn(const struct gossip_stream *s)
{
    return s->transfer.begun || s->pos < s->settle;
}

/* The position after which records are missing. */
static inline uint64_t
gossip_need(const struct gossip_stream *s)
{
    return delta_log_covers(&s->log, s->pos) ? s->log.high : s->pos;
}

/* The reading's records are also the replica's. */
static inline bool
gossip_leads(const struct gossip_stream *s)
{
    return s->reading.any && !s->reading.lost && s->epoch.no != 0 &&
           s->reading.id == s->epoch.id;
}

/* What is noted of the epoch with this id, if takeovers ended it; NULL: nothing. */
static inline const struct gossip_left *
gossip_left_of(const struct gossip_stream *s, uint64_t id)
{
    for (uint32_t i = 0; i < GOSSIP_LEFT; i++) {
        if (s->left[i].id == id && id != 0) {
            return &s->left[i];
        }
    }
    return NULL;
}

/* The names are known, as of all that was handed out. */
static inline bool
gossip_names_fresh(const struct gossip_stream *s)
{
    return s->names.known && s->names.at == s->told;
}

/* The position of the names that are here, or were put aside while a peer is asked
 * for newer ones; 0: there are none. */
static inline uint64_t
gossip_names_pos(const struct gossip_stream *s)
{
    const struct gossip_ledger *n = &s->names;

    return n->spare != NULL ? n->spare->pos : n->known ? n->pos : 0;
}

#endif
