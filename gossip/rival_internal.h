/*
 * Which of two epochs a stream keeps, and who proves what about them: rival.c
 * and who.c.
 *
 * Role: core. Thread: the one owner.
 */
#ifndef GOSSIP_RIVAL_INTERNAL_H
#define GOSSIP_RIVAL_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "gossip/codec_internal.h"
#include "gossip/gossip.h"

struct gossip_stream;

/* An epoch that challenges the stream's own. */
struct gossip_rival {
    struct gossip_epoch epoch; /* no 0: there is none */
    uint64_t peer;             /* that showed it last */
    uint64_t since_us;         /* it was met first, by gossip_awake() */
    uint64_t turns_us;         /* ... or the first of those that take turns */
    bool told;                 /* readers were, of what is known here */
    bool asked;                /* its peer was, for its records or state */
    bool smaller;              /* its vector said so, of the same process */
    uint64_t pos;              /* of the replica, at that time */
    uint32_t proofs;           /* that were asked for because of it */
    bool certain;              /* it is of another process than the reading's */
    uint64_t doubted_us;       /* its readers were asked for proof last, by
                                  gossip_awake(); 0: they were not */
    bool proved;               /* one of them gave it since */
};

/* What a peer says of a stream's epoch. */
struct gossip_met {
    uint64_t peer;
    struct gossip_epoch epoch;
    bool whole;
    bool complete;   /* the peer's replica is */
    bool lives;      /* the peer has a live reading that leads it */
    bool has_print;  /* of the batch at pos */
    bool counts;     /* count is known */
    bool records;    /* it was records that told, not a vector */
    bool from_start; /* ... and they are there from the epoch's first on */
    uint32_t print;
    uint64_t pos;
    uint64_t names; /* the position of the peer's names; 0: it has none, or
                       does not say which batch that is */
    uint32_t names_print; /* of that batch */
    uint64_t count;       /* of blocks that the peer's replica holds */
};

/* rival.c: which of two epochs stays */

/* Whether a peer's other epoch takes the place of the stream's own. It may ask
 * the intake or peers for proof, or raise the number of the own epoch. */
bool gossip_rival_wins(struct gossip *g, struct gossip_stream *s,
                       const struct gossip_met *met);

/* Whether the replica is that of the peer's epoch, too: both are complete, and the
 * peer's last batch is one of ours. */
bool gossip_rival_is_same(const struct gossip_stream *s,
                          const struct gossip_met *met);

/* Whether the stream would go over to its rival, were the rival's state there. */
bool gossip_rival_is_awaited(const struct gossip_stream *s);

/* The reading that leads proved, after it was asked to, that its process is the
 * living one. */
void gossip_rival_proved(struct gossip *g, struct gossip_stream *s);

/* A peer that reads the epoch with this id says that it proved the same. */
void gossip_rival_shown(struct gossip *g, struct gossip_stream *s,
                        uint64_t peer, uint64_t id);

/* The number of the own epoch was raised: readers are in it, or about to be. */
void gossip_rival_outdone(const struct gossip *g, struct gossip_stream *s);

/* The peer went: when it is back, its epoch is met for the first time. */
void gossip_rival_drop_peer(struct gossip *g, uint64_t peer);

/* who.c: whether an epoch has a living reader */

/* Asks all peers whether a living reader leads the stream's epoch. */
void gossip_who_ask(struct gossip *g, const struct gossip_stream *s);

/* Asks all peers that read the epoch with this id to prove that its process
 * lives. */
void gossip_who_doubt(struct gossip *g, const struct gossip_stream *s,
                      uint64_t id);

/* Tells all peers that the process of the stream's epoch has just been proved to
 * live. */
void gossip_who_proved(struct gossip *g, const struct gossip_stream *s);

/* As gossip_recv_delta(). */
int gossip_recv_who(struct gossip *g, uint64_t peer, struct codec_in in);

#endif
