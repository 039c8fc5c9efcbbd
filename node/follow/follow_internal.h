/*
 * The inside of following, shared by its files: follow.c has the beginning and
 * the end, and what lanes tell; follow_source.c starts sources and takes what
 * they deliver; follow_out.c carries out what gossip says; follow_watch.c
 * speaks aloud.
 *
 * Role: shell, private to follow. Thread: control.
 */
#ifndef NODE_FOLLOW_INTERNAL_H
#define NODE_FOLLOW_INTERNAL_H

#include "node/events/kv_sse_link.h"
#include "node/follow/follow.h"
#include "node/follow/follow_gossip.h"
#include "node/follow/follow_reach.h"

#define FOLLOW_RANKS_MAX 64U    /* of a worker, by the configuration */
#define FOLLOW_BUDGET    16384U /* table slots of the mirror that are looked at */
#define FOLLOW_HASH      1024U
#define FOLLOW_GRAVES    4U /* links ended in one turn */

/* Where the ledger was when one of its cuts ended. */
struct follow_position {
    uint64_t cut;
    struct reading_position *at; /* in the same memory, behind this */
};

/* One worker's events. */
struct followed {
    bool present;
    bool refused; /* a source was, as was last said in the log */
    bool stuck;   /* the intake still has the source of one that went, */
    uint32_t stuck_generation; /* ... which was of this one */
    uint32_t generation;
    struct follow_reach reach;
    uint32_t ranks;
    uint32_t reading;  /* how many sources it had */
    uint64_t requests; /* sent to it, when last looked at */
    uint64_t warned_us;
    uint64_t computed; /* since then: ranks that stored new blocks, going by
                          their answers, a bit each */
    bool contested;    /* as was last said in the log */
    bool left_out;
    bool lost;
    struct kv_sse_link *link; /* its sidecar's; NULL: the intake reads it */
    struct kv_sse_link *gone[FOLLOW_GRAVES]; /* to be freed */
    struct fleet_worker *worker;             /* a copy */
    struct follow_rank rank[FOLLOW_RANKS_MAX];
    struct follow_position *position[FOLLOW_RANKS_MAX]; /* NULL: not known */
    char id[FLEET_ID_BYTES];
};

struct follow {
    struct node_shared *node;
    uv_loop_t *loop;
    struct follow_owner owner;
    struct feed *feed;
    struct intake *intake;
    uv_async_t wake; /* the intake has items, or the feed is to publish */
    bool awake;      /* within its call */
    bool waking;     /* it was sent */
    bool stopped;
    struct rng rng;
    struct worker_set
        admitted; /* slots of the mirror's view that are open among
                                   the expected blocks */
    uint64_t looked_us;
    uint64_t started_us; /* 0: not yet */
    struct follow_gossip streams;
    uint16_t by_identity[FOLLOW_HASH]; /* fleet slot + 1; 0: none */
    struct followed workers[WORKERS_MAX];
};

/* The worker of an identity that is present, or NULL. */
struct followed *follow_find(struct follow *follow, uint64_t identity);
void follow_index(struct follow *follow);

static inline struct event_stream
follow_stream(const struct followed *f, uint32_t rank)
{
    return (struct event_stream){.worker = f->worker->identity, .rank = rank};
}

/* After a call of gossip. */
void follow_pull(struct follow *follow);

/* follow_source.c */
void follow_take_items(struct follow *follow, bool *more) ON_CONTROL;
/* Does what its reach asks for. The worker may be gone then. */
void follow_reach_settle(struct follow *follow, struct followed *f) ON_CONTROL;
/* The same after a look at its source. */
void follow_reach_watch(struct follow *follow, struct followed *f,
                        uint64_t now_us) ON_CONTROL;
/* The worker goes. */
void follow_stop_reading(struct follow *follow, struct followed *f) ON_CONTROL;
void follow_bury(struct follow *follow) ON_CONTROL;
void follow_ask(struct follow *follow, struct followed *f, uint32_t rank)
    ON_CONTROL;

/* follow_image.c: where a rank's reading was, as the intake said; forgets it. */
void follow_position_take(struct followed *f, const struct intake_item *item,
                          const struct reading_position *position);
void follow_position_drop(struct followed *f, uint32_t rank);

/* follow_out.c: looks at what a call of follow_gossip.h did; tells the feed how
 * the stream stands now. */
void follow_did(struct follow *follow, struct followed *f, uint32_t rank,
                unsigned did) ON_CONTROL;
void follow_tell_state(struct follow *follow, struct followed *f, uint32_t rank)
    ON_CONTROL;

/* A look at all workers, once a second: says aloud which of them serve and tell
 * nothing, and whose streams count for less than they could. */
void follow_watch(struct follow *follow, uint64_t now_us) ON_CONTROL;

#endif
