/*
 * A stream's way through gossip: items of its reading (reading.h) go in, what
 * gossip says of it is carried out on the feed and the mirror.
 *
 * How a stream stands is gossip's word, but while this node's own reading
 * leads it: then it is no better than that reading. What was loaded from a
 * snapshot is stale until the own reading has caught up, or the node with its
 * peers. An engine that has said nothing is a process like any other: what a
 * node was told of the one before it is not true any more.
 *
 * Role: core. Owns: how each stream stands. Thread: one owner. Limits: none of
 * its own. Errors: none; a lack of memory is the feed's to name (it is read
 * again).
 */
#ifndef NODE_FOLLOW_GOSSIP_H
#define NODE_FOLLOW_GOSSIP_H

#include <stdbool.h>
#include <stdint.h>

#include "gossip/gossip.h"
#include "index/base/role.h"
#include "node/events/reading.h"
#include "node/follow/feed_internal.h"
#include "node/view/expectations.h"

/* One stream: a rank of a worker. Names first, filled in by the owner. */
struct follow_rank {
    struct event_stream stream;
    uint32_t worker; /* slot in the fleet */
    uint32_t generation;
    bool replays;              /* its source can tell that it has nothing */
    enum kv_stream_state read; /* the own reading */
    enum kv_stream_state told; /* to the feed */
    bool known;                /* there is an epoch */
    bool complete;             /* as gossip says */
    bool loaded;               /* from a snapshot, and not caught up since */
    bool stale;
    bool begun;   /* the own reading said whose it is */
    bool wrong;   /* its answers differ from what was predicted */
    bool unasked; /* ask did not reach the source yet */
    uint64_t ask; /* of the last REREAD */
};

/* What all streams share; all but expected (NULL: none) outlive it. */
struct follow_gossip {
    struct gossip *gossip;
    struct feed *feed;
    struct mirror *mirror;
    struct expectations *expectations;
    bool caught_up; /* with peers; so what was loaded is of today */
    uint64_t page[GOSSIP_PAGE_WORDS];
};

/* What a call did, to be looked at by the caller: bits. */
enum {
    FOLLOW_TOLD = 1,      /* rank->told changed */
    FOLLOW_VIEW = 2,      /* the feed has something to publish */
    FOLLOW_NO_MEMORY = 4, /* part of a record was not applied */
    FOLLOW_ASKED = 8,     /* rank->ask: the source is to be read again */
};

/* An item of the stream's reading; record: with INTAKE_RECORD only. Gossip's
 * outputs are to be pulled then. */
unsigned follow_gossip_item(struct follow_gossip *f, struct follow_rank *rank,
                            const struct intake_item *item,
                            const struct event_record *record, uint64_t now_us)
    ON_CONTROL;

/* The stream is not read here any more; the same. */
unsigned follow_gossip_end(struct follow_gossip *f, struct follow_rank *rank,
                           uint64_t now_us) ON_CONTROL;

/* One of gossip's outputs about the stream (SEND and BELIEF are ignored). */
unsigned follow_gossip_out(struct follow_gossip *f, struct follow_rank *rank,
                           const struct gossip_out *out, uint64_t now_us)
    ON_CONTROL;

/* The same about a stream that is gone here: an export is to be answered. */
void follow_gossip_refuse(struct follow_gossip *f, const struct gossip_out *out,
                          uint64_t now_us) ON_CONTROL;

/* Tells the feed how the stream stands now. */
unsigned follow_gossip_tell(struct follow_gossip *f, struct follow_rank *rank)
    ON_CONTROL;

#endif
