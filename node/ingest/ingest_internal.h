/*
 * The inside of ingest, shared by its files: ingest.c has the beginning and
 * the end, and what lanes tell; ingest_source.c starts sources and takes what
 * they deliver; ingest_out.c carries out what gossip says; ingest_watch.c
 * logs warnings.
 *
 * Role: shell, private to ingest. Thread: control.
 */
#ifndef NODE_INGEST_INTERNAL_H
#define NODE_INGEST_INTERNAL_H

#include "node/events/kv_sse_link.h"
#include "node/ingest/ingest.h"
#include "node/ingest/ingest_reach.h"
#include "node/ingest/ingest_slots.h"
#include "node/ingest/ingest_stream.h"

#define INGEST_RANKS_MAX  64U    /* of a worker, by the configuration */
#define INGEST_BUDGET     16384U /* table slots of the mirror that are looked at */
#define INGEST_HAND_BYTES ((size_t)256 << 10) /* of names copied at once */

/* The ledger's position when one of its cuts ended. */
struct ingest_position {
    uint64_t cut;
    struct decoder_position *at; /* in the same allocation, after this */
};

/* One worker's events. */
struct ingest_worker {
    bool present;  /* it has streams */
    bool followed; /* they were asked for, whatever came of it */
    bool no_room;  /* as was last said in the log */
    bool refused;  /* a source was, as was last said in the log */
    bool stuck;    /* the intake still has the source of a removed worker */
    uint32_t stuck_generation; /* ... which was of this one */
    uint32_t generation;
    struct ingest_reach reach;
    uint32_t ranks;
    uint32_t reading;  /* how many sources it had */
    uint64_t requests; /* sent to it, when last looked at */
    uint64_t warned_us;
    uint64_t computed; /* since then: ranks that stored new blocks, going by
                          their answers, a bit each */
    bool filled;       /* since then: an answer's prompt was long enough for a
                          block, or of no known length */
    bool contested;    /* as was last said in the log */
    bool left_out;
    bool unruled;
    bool lost;
    struct kv_sse_link *link; /* its sidecar's; NULL: the intake reads it */
    struct ingest_name name[INTAKE_PLACES];      /* of the sockets of events */
    struct ingest_lookup *lookup[INTAKE_PLACES]; /* that runs; or NULL */
    bool untold[INTAKE_PLACES]; /* the intake does not know the address yet */
    uint64_t replays_asked;     /* when its replay socket was last well */
    uint64_t replay_well_us;
    struct fleet_worker *worker; /* a copy; NULL: no events */
    struct ingest_rank rank[INGEST_RANKS_MAX];
    struct ingest_position *position[INGEST_RANKS_MAX]; /* NULL: not known */
    char id[FLEET_ID_BYTES];
};

struct ingest {
    struct node_shared *node;
    uv_loop_t *loop;
    struct ingest_owner owner;
    struct mirror_writer *writer;
    struct intake *intake;
    uv_async_t
        wake;    /* the intake has items, or the mirror writer is to publish */
    bool awake;  /* within its call */
    bool waking; /* it was sent */
    bool stopped;
    struct rng rng;
    struct ingest_slots slots;
    uint64_t looked_us;
    uint64_t started_us; /* 0: not yet */
    struct ingest_streams streams;
    struct event_stream handing; /* what the intake was handed last */
    struct ingest_worker workers[WORKERS_MAX];
};

static inline struct event_stream
ingest_stream_name(const struct ingest_worker *w, uint32_t rank)
{
    return (struct event_stream){.worker = w->worker->identity, .rank = rank};
}

/* ingest_source.c */
void ingest_take_items(struct ingest *ingest, bool *more) ON_CONTROL;
/* Does what its reach asks for. The worker may be gone then. */
void ingest_reach_settle(struct ingest *ingest, struct ingest_worker *w)
    ON_CONTROL;
/* The same after a look at its source. */
void ingest_reach_watch(struct ingest *ingest, struct ingest_worker *w,
                        uint64_t now_us) ON_CONTROL;
/* The worker goes. */
void ingest_stop_reading(struct ingest *ingest, struct ingest_worker *w)
    ON_CONTROL;
void ingest_ask(struct ingest *ingest, struct ingest_worker *w, uint32_t rank)
    ON_CONTROL;
/* Has its source go on from the names that are known, if it can. */
void ingest_hand(struct ingest *ingest, struct ingest_worker *w, uint32_t rank)
    ON_CONTROL;
/* A piece of that. True: there is more to do. */
bool ingest_hand_work(struct ingest *ingest, uint64_t now_us)
    ON_CONTROL MUST_CHECK;

/* ingest_image.c: where a rank's reading was, as the intake said; forgets it.
 * */
void ingest_position_take(struct ingest_worker *w,
                          const struct intake_item *item,
                          const struct decoder_position *position);
/* Forgets where the rank's reading was. */
void ingest_position_drop(struct ingest_worker *w, uint32_t rank);

/* Has a turn made, in this turn of the loop (ingest_out.c). */
void ingest_wake(struct ingest *ingest);

/* ingest_lookup.c: its source was opened: the names of its hosts are looked up,
 * judged, and told the intake. */
void ingest_lookup_begin(struct ingest *ingest, struct ingest_worker *w)
    ON_CONTROL;
/* Looks them up again where they led nowhere; to be called once a second. */
void ingest_lookup_watch(struct ingest *ingest, struct ingest_worker *w,
                         uint64_t now_us) ON_CONTROL;
/* No lookup of the worker's is waited for any more. */
void ingest_lookup_drop(struct ingest_worker *w);

/* ingest_out.c: the streams' sink, which logs and asks sources. */
void ingest_said(void *context, const struct ingest_rank *rank,
                 const struct gossip_out *out);
/* Logs the state, asks for a view, asks the source. */
void ingest_did(void *context, struct ingest_rank *rank, unsigned did);
/* Logs that a stream is obtained again, and why. */
void ingest_lost(void *context, const struct ingest_rank *rank,
                 const char *reason);
/* ingest_source.c: ... and begins and ends their readings. */
void ingest_read(void *context, uint32_t worker, bool on);

/* Examines all workers, once a second: warns of those that serve requests but
 * send no events, and of those whose streams count for less than they could. */
void ingest_watch(struct ingest *ingest, uint64_t now_us) ON_CONTROL;

#endif
