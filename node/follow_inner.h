/*
 * The inside of following: what follow.c owns and follow_watch.c speaks about.
 *
 * Role: shell, private to follow. Thread: control.
 */
#ifndef NODE_FOLLOW_INNER_H
#define NODE_FOLLOW_INNER_H

#include "node/follow.h"
#include "node/kv_sse_link.h"

/* One worker's events, as far as speaking about them goes. */
struct followed {
    bool present;
    uint32_t generation;
    uint32_t ranks;
    uint64_t requests; /* sent to it, when last looked at */
    uint64_t warned_us;
    uint64_t computed; /* since then: ranks that stored new blocks, going by
                          their answers, a bit each */
    bool contested;    /* as was last said in the log */
    bool left_out;
    bool lost;
    struct kv_sse_link *link; /* its sidecar's; NULL: the intake reads it */
    char id[FLEET_ID_BYTES];
};

struct follow {
    struct node_shared *node;
    uv_loop_t *loop;
    struct follow_owner owner;
    struct feed *feed;
    struct intake *intake;
    uv_async_t wake;  /* the intake has items */
    uv_check_t check; /* sidecars' streams may have brought something */
    uint32_t links_count;
    struct rng rng;
    struct worker_set
        admitted; /* slots of the mirror's view that are open among
                                   the expected blocks */
    uint64_t looked_us;
    struct mirror_match match;
    struct followed workers[WORKERS_MAX];
};

#define FOLLOW_RANKS_MAX 64U /* of a worker, by the configuration */

/* A look at all workers, once a second: says aloud which of them serve and tell
 * nothing, and whose streams count for less than they could. */
void follow_watch(struct follow *follow, uint64_t now_us) ON_CONTROL;

#endif
