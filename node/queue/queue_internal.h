/*
 * The table of those that wait. Each stands in the list of its flow (one
 * tenant in one class), in a chain of the ids' hash, and in a heap by
 * deadline. Private to node/queue.
 */
#ifndef NODE_QUEUE_INTERNAL_H
#define NODE_QUEUE_INTERNAL_H

#include "node/queue/queue.h"

#define QUEUE_NONE UINT32_MAX /* not an index */

struct queue_wait {
    struct queue_request request;
    uint64_t since_us;
    uint64_t passed_us; /* when it first passed a place up; 0: it did not */
    uint32_t next;      /* of its flow, or the next free one */
    uint32_t prev;
    uint32_t chain;   /* the next of the same hash */
    uint32_t heap_at; /* where it stands in the heap */
};

struct queue_flow {
    uint32_t first;
    uint32_t last;
    uint32_t weight;
    uint32_t next; /* tenant after it that takes turns in the class */
    uint32_t prev;
    uint64_t deficit; /* tokens that it may still send in its turn */
    uint64_t tokens;  /* that wait */
};

struct queue_tier {
    struct queue_flow flow[QUEUE_TENANTS];
    uint32_t turn;   /* tenant whose turn it is; QUEUE_NONE: nobody waits */
    uint64_t credit; /* QUEUE_SHARE-ths of tokens, from classes before */
};

struct queue_worker {
    uint64_t ended_us; /* when a request last ended there; 0: none did */
    uint64_t gap_us;   /* between two of them, of late */
    uint32_t wanted;   /* of those that wait, how many it could take */
    uint32_t claims;   /* of those, how many pass up places for it */
};

struct queue {
    uint32_t waits_max;
    uint32_t count;
    uint32_t free;      /* the first unused wait */
    uint32_t hash_mask; /* of chains */
    struct queue_wait *wait;
    uint32_t *chains;
    uint32_t *heap;        /* the first: whose time is over first */
    uint64_t look_us;      /* when one that passes places up stops doing so */
    uint64_t pace_us;      /* when the pace was last looked at */
    uint64_t pace_tokens;  /* placed since then */
    uint64_t tokens_per_s; /* of late; 0: not known */
    struct queue_counts counts;
    struct queue_worker worker[WORKERS_MAX];
    struct queue_tier tier[QUEUE_CLASSES];
};

/* Takes a wait out of everything. */
void queue_remove(struct queue *queue, uint32_t at);

/* The one that should go next, and where; QUEUE_NONE: none goes. Turns and
 * credits are settled as if it went. */
uint32_t queue_pick(struct queue *queue, const struct worker_set *roomy,
                    const uint32_t *room, uint64_t now_us, uint32_t *worker);

#endif
