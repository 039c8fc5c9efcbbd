/*
 * A stream's way through gossip: items of its reading (decoder.h) go in, what
 * gossip says of it is carried out on the mirror writer and the mirror.
 *
 * How a stream stands is gossip's word, but while this node's own reading
 * leads it: then it is no better than that reading. What was loaded from a
 * snapshot is stale until the own reading has caught up, or the node with its
 * peers. An engine that has said nothing is a process like any other: what a
 * node was told of the one before it is not true any more.
 *
 * Role: core. Owns: how each stream stands. Thread: one owner. Limits: none of
 * its own. Errors: none; a lack of memory is the writer's to name (it is read
 * again).
 */
#ifndef NODE_INGEST_STREAM_H
#define NODE_INGEST_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "gossip/gossip.h"
#include "index/base/role.h"
#include "node/events/decoder.h"
#include "node/ingest/mirror_writer.h"
#include "node/view/expectations.h"

/* One stream: a rank of a worker. Names first, filled in by the owner. */
struct ingest_rank {
    struct event_stream stream;
    uint32_t worker; /* slot in the fleet */
    uint32_t generation;
    bool replays;              /* its source can tell that it has nothing */
    enum kv_stream_state read; /* the own reading */
    enum kv_stream_state told; /* to the mirror writer */
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
struct ingest_streams {
    struct gossip *gossip;
    struct mirror_writer *writer;
    struct mirror *mirror;
    struct expectations *expectations;
    bool caught_up; /* with peers; so what was loaded is of today */
    uint64_t page[GOSSIP_PAGE_WORDS];
};

/* What a call did, to be looked at by the caller: bits. */
enum {
    INGEST_TOLD = 1,      /* rank->told changed */
    INGEST_VIEW = 2,      /* the mirror writer has something to publish */
    INGEST_NO_MEMORY = 4, /* part of a record was not applied */
    INGEST_ASKED = 8,     /* rank->ask: the source is to be read again */
};

/* An item of the stream's reading; record: with INTAKE_RECORD only. Gossip's
 * outputs are to be pulled then. */
unsigned ingest_stream_item(struct ingest_streams *f, struct ingest_rank *rank,
                            const struct intake_item *item,
                            const struct event_record *record, uint64_t now_us)
    ON_CONTROL;

/* The stream is not read here any more; the same. */
unsigned ingest_stream_end(struct ingest_streams *f, struct ingest_rank *rank,
                           uint64_t now_us) ON_CONTROL;

/* One of gossip's outputs about the stream (SEND and BELIEF are ignored). */
unsigned ingest_stream_out(struct ingest_streams *f, struct ingest_rank *rank,
                           const struct gossip_out *out, uint64_t now_us)
    ON_CONTROL;

/* The same about a stream that is gone here: an export is to be answered. */
void ingest_stream_refuse(struct ingest_streams *f,
                          const struct gossip_out *out, uint64_t now_us)
    ON_CONTROL;

/* Tells the mirror writer how the stream stands now. */
unsigned ingest_stream_tell(struct ingest_streams *f, struct ingest_rank *rank)
    ON_CONTROL;

#endif
