/*
 * The streams of all workers' events, on their way through gossip: items of a
 * decoder (decoder.h) go in; what gossip then outputs of a stream, whoever read
 * it, is written into the mirror (mirror_writer.h).
 *
 *   item -> ingest_stream_item() -> hub -> gossip
 *   gossip -> hub -> (this core) -> mirror_writer -> mirror
 *
 * Gossip decides the state of a stream, except while this node's own reading
 * leads it: then the state is no better than that reading's. A stream loaded
 * from a snapshot is stale until the own reading, or the node with its peers,
 * has caught up. An engine that has published nothing yet is a process like any
 * other: what is known of the previous process is not true any more.
 *
 * Role: core. Owns: the states of the streams. Thread: one owner. Limits:
 * WORKERS_MAX workers. Errors: none; the mirror writer records what found no
 * memory, and it is read again.
 */
#ifndef NODE_INGEST_STREAM_H
#define NODE_INGEST_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "gossip/gossip.h"
#include "index/base/role.h"
#include "node/events/decoder.h"
#include "node/ingest/mirror_writer.h"
#include "node/peers/hub.h"
#include "node/view/expectations.h"
#include "node/view/facts.h"

/* One stream: a rank of a worker. Names first, filled in by the owner. */
struct ingest_rank {
    struct event_stream stream;
    uint32_t worker; /* slot in the fleet */
    uint32_t generation;
    bool replays;              /* its source can tell that it has nothing */
    enum kv_stream_state read; /* the own reading */
    enum kv_stream_state told; /* to the mirror writer */
    bool known;                /* there is an epoch */
    bool complete;             /* as gossip reports */
    bool loaded;               /* from a snapshot, and not caught up since */
    bool stale;
    bool begun;   /* the own reading has identified its process */
    bool wrong;   /* answers differ from its predictions */
    bool unasked; /* ask did not reach the source yet */
    uint64_t ask; /* of the last REREAD */
    bool prove;   /* ... which proof will answer */
    bool hands;   /* its source waits for ingest_streams_hand() */
};

/* What a call, or one of gossip's outputs, did to a stream, as bits. */
enum {
    INGEST_TOLD = 1,      /* rank->told changed */
    INGEST_VIEW = 2,      /* the mirror writer has a view to publish */
    INGEST_NO_MEMORY = 4, /* part of a record was not applied */
    INGEST_ASKED = 8,     /* rank->ask: the source must be read again */
    INGEST_RESUMES = 16,  /* the source may go on (ingest_streams_hand()) */
};

/* The owner of the sources, who also logs. All are required. */
struct ingest_sink {
    void *context;
    /* Gossip's output for the stream, which is carried out next. */
    void (*said)(void *context, const struct ingest_rank *rank,
                 const struct gossip_out *out);
    /* did: INGEST_ bits, never none. No input of the hub's from within. */
    void (*did)(void *context, struct ingest_rank *rank, unsigned did);
    /* What is applied of the stream is wrong or incomplete: it is read or
     * transferred again. reason: static text. */
    void (*lost)(void *context, const struct ingest_rank *rank,
                 const char *reason);
    /* Begin (on) or stop reading the worker in that slot. */
    void (*read)(void *context, uint32_t worker, bool on);
};

/* A worker with streams, as ingest_streams_add() was given it. */
struct ingest_source {
    uint64_t identity;
    uint32_t generation;
    uint32_t ranks; /* 0: there is none */
    bool replays;   /* its sources can tell that they have nothing */
    struct ingest_rank *rank;
};

#define INGEST_HASH (4U * WORKERS_MAX) /* a power of two */

/* What all streams share; the pointers outlive it. */
struct ingest_streams {
    struct hub *hub;
    struct gossip *gossip; /* the hub's, to look at and to answer its outputs */
    struct mirror_writer *writer;
    struct mirror *mirror;
    struct expectations *expectations; /* NULL: none */
    struct ingest_sink sink;
    bool caught_up; /* with peers, so what was loaded is up to date */
    struct ingest_rank *handed; /* whose names are being copied; or NULL */
    struct names_twin twin;     /* ... into this */
    struct ingest_source workers[WORKERS_MAX]; /* by slot of the fleet */
    uint16_t by_identity[INGEST_HASH];         /* slot + 1; 0: none */
    uint32_t
        page_words; /* of a page that a peer gets; the simulator has less */
    uint64_t page[GOSSIP_PAGE_WORDS];
};

/* An empty table. The members that are borrowed are set before; registers with
 * the hub. */
void ingest_streams_init(struct ingest_streams *s,
                         const struct ingest_sink *sink);

/* Adds a worker to a free slot. source->rank: as many as source->ranks says,
 * filled in here, and borrowed until the worker is removed. 0, or -ENOMEM and
 * it has no streams. */
int ingest_streams_add(struct ingest_streams *s, uint32_t worker,
                       const struct ingest_source *source)
    ON_CONTROL MUST_CHECK;

/* Removes a worker; its streams are not read any more (ingest_stream_end()).
 * The slot may be empty. */
void ingest_streams_remove(struct ingest_streams *s, uint32_t worker)
    ON_CONTROL;

/* The slot of the worker of an identity, or WORKER_NONE. */
uint32_t ingest_streams_find(const struct ingest_streams *s, uint64_t identity);

/* A rank of the worker in a slot, or NULL. */
struct ingest_rank *ingest_streams_rank(const struct ingest_streams *s,
                                        uint32_t worker, uint32_t rank);

/* An item of the stream's reading; record: with INTAKE_RECORD only. */
void ingest_stream_item(struct ingest_streams *s, struct ingest_rank *rank,
                        const struct intake_item *item,
                        const struct event_record *record, uint64_t now_us)
    ON_CONTROL;

/*
 * Sources that go on from the names that are known. Each rank whose `hands` the
 * owner has set gets a copy of them; one is made at a time.
 *
 * ingest_streams_hand(): copies about so many bytes. Returns the hand once it is
 * complete, for the source of *rank; the caller frees it or hands it on. NULL:
 * there is none yet.
 * ingest_streams_hands(): whether any rank waits, or is being copied. Those that
 * wait are not judged meanwhile.
 */
struct decoder_hand *ingest_streams_hand(struct ingest_streams *s, size_t bytes,
                                         struct ingest_rank **rank,
                                         uint64_t now_us) ON_CONTROL;
bool ingest_streams_hands(struct ingest_streams *s, uint64_t now_us) ON_CONTROL;

/* The rank waits for no copy any more, and none is made for it. */
void ingest_hand_forget(struct ingest_streams *s, struct ingest_rank *rank)
    ON_CONTROL;

/* This node no longer reads the stream. */
void ingest_stream_end(struct ingest_streams *s, struct ingest_rank *rank,
                       uint64_t now_us) ON_CONTROL;

/* Passes the stream's present state to the mirror writer. Call it now and then,
 * because a reading may have begun or ceased to lead. */
void ingest_stream_tell(struct ingest_streams *s, struct ingest_rank *rank)
    ON_CONTROL;

/* That request had its worker clear its cache, of which engines tell late. */
void ingest_stream_cleared(struct ingest_streams *s,
                           const struct fact_decision *fact) ON_CONTROL;

/* A request ended: checks its prediction. If it was wrong, the next
 * ingest_streams_heal() obtains the stream's state again. */
void ingest_stream_answer(struct ingest_streams *s,
                          const struct fact_decision *fact, uint64_t now_us)
    ON_CONTROL;

/* Whether the owner of a mirror's slot that is seen by lanes holds blocks that
 * no event will tell of: its stream is partial. Where windows decide what is of
 * use, answers prove nothing. */
bool ingest_streams_lacks(const struct ingest_streams *s,
                          const struct mirror_view *view, uint32_t slot);

/* Obtains again the streams that answers showed to be wrong; and, about once a
 * second (look), those of which the mirror writer lost something. Not from
 * within a consumer of the hub's. */
void ingest_streams_heal(struct ingest_streams *s, bool look, uint64_t now_us)
    ON_CONTROL;

#endif
