/*
 * Requests that wait for a worker with room, of all lanes: lanes say who waits
 * (FACT_WAIT), the queue decides who goes next (node/queue), and lanes are told
 * (struct wait_told). A place that was given is kept free until its lane has
 * taken it, or for a second. A lane that hears of it after half of that, because
 * it stood still, asks again: the place may be somebody else's by then.
 *
 * The queue lives here and not in lanes, because tenants take turns on the
 * node and not on a lane, and no lane waits for a lock. A request that finds a
 * worker with room passes none of this.
 *
 * Role: shell. Owns: the queue. Thread: control. Limits: limits.queue_max
 * requests; CONTROL_QUEUE_GIVEN_MAX places given and not taken. Errors:
 * -ENOMEM.
 */
#ifndef NODE_CONTROL_QUEUE_H
#define NODE_CONTROL_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/role.h"
#include "index/base/worker_set.h"
#include "node/queue/queue.h"
#include "node/route/shared.h"
#include "node/text/json_out.h"
#include "node/view/facts.h"
#include "node/view/speed.h"

#define CONTROL_QUEUE_GIVEN_MAX 1024U

struct control_queue {
    struct node_shared *node;
    const struct speed *speed;
    struct queue *queue;
    struct worker_set eligible; /* when it was last looked at */
    struct worker_set last;     /* the same: last resorts */
    bool known;                 /* some worker's numbers are on the board */
    uint32_t given_count;
    struct control_queue_given {
        uint64_t id;
        uint64_t until_us;
        uint32_t slot;
    } given[CONTROL_QUEUE_GIVEN_MAX];
};

/* Makes an empty queue; node and speed outlive it. 0, or -ENOMEM. */
int control_queue_init(struct control_queue *cq, struct node_shared *node,
                       const struct speed *speed) MUST_CHECK;

/* Frees what control_queue_init() made. */
void control_queue_fini(struct control_queue *cq);

/* Takes a fact of a lane; of other kinds than those of waiting it looks at
 * where a request ended. */
void control_queue_take(struct control_queue *cq, const void *record,
                        uint64_t now_us) ON_CONTROL;

/* Gives the free places away. Returns when to look again at the latest, even if
 * nothing happens; UINT64_MAX: never. */
uint64_t control_queue_look(struct control_queue *cq, uint64_t now_us)
    ON_CONTROL;

/* Who waits, for the status: an object. */
void control_queue_put(const struct control_queue *cq, uint64_t now_us,
                       struct json_out *json) ON_CONTROL;

/* Its numbers as Prometheus text. */
void control_queue_put_metrics(const struct control_queue *cq, struct buf *out);

#endif
