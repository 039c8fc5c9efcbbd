/*
 * Requests that wait until a worker has room, and which of them goes next.
 *
 *   classes    By priority, the lower number first, as vLLM has it. A later
 *              class gets QUEUE_SHARE of what those before it get, so none
 *              starves.
 *   tenants    Of one class take turns by tokens: deficit round robin (Shreedhar
 *              and Varghese 1995), a tenant's quantum times its weight. One
 *              tenant's requests go in the order in which they came, but for
 *              those whose workers have no room: they hold up nobody else's.
 *   home       A worker that holds a request's prefix. A place elsewhere is
 *              passed up while a home is expected to have one sooner than the
 *              prefix could be computed again, and so long at most: delay
 *              scheduling (Zaharia et al. 2010). It costs no turn.
 *   full       The request that came last of the tenant that has most waiting,
 *              for its weight, in the last class gives way: one tenant's flood
 *              costs no other its place (McKenney 1991).
 *   deadline   A request waits no longer than that.
 *
 * Whoever waits is told one of three things, once: its place, that it had to
 * give way, or that its time is over. Or it leaves before.
 *
 *   queue_add(q, &request, now, &gone)    it waits; another one may be gone
 *   queue_ended(q, worker, now)           a request ended there
 *   while (queue_next(q, room, now, &out)) { tell out.id }
 *   queue_deadline(q)                     when to ask again, if nothing happens
 *
 * Role: core. Owns: its table. Thread: one owner. Limits: waits_max requests,
 * QUEUE_TENANTS tenants, QUEUE_CLASSES classes. Errors: named outcomes; -ENOMEM
 * when it is made.
 */
#ifndef NODE_QUEUE_H
#define NODE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/worker_set.h"

#define QUEUE_TENANTS    256U
#define QUEUE_CLASSES    8U
#define QUEUE_FIRST      (-4)  /* priority of the first class */
#define QUEUE_LAST       3     /* ... of the last one */
#define QUEUE_SHARE      16U   /* a later class gets one token in this many */
#define QUEUE_QUANTUM    1024U /* tokens of one turn, by weight */
#define QUEUE_WEIGHT_MAX 1000U
#define QUEUE_TOKENS_MAX (1U << 22) /* of one request; more counts as this */
#define QUEUE_LOOK       16U /* of one tenant's, that pass the same places up */

/* The class of a priority: 0 is the first. */
static inline uint32_t
queue_class(int64_t priority)
{
    int64_t within = priority < QUEUE_FIRST  ? QUEUE_FIRST
                     : priority > QUEUE_LAST ? QUEUE_LAST
                                             : priority;

    return (uint32_t)(within - QUEUE_FIRST);
}

struct queue_request {
    uint64_t id; /* the caller's, of no other that waits; not 0 */
    uint32_t tenant;
    uint32_t weight; /* 1 to QUEUE_WEIGHT_MAX; the tenant's last one counts */
    uint32_t class;  /* queue_class() */
    uint32_t tokens; /* that it costs */
    uint64_t deadline_us;
    struct worker_set able;  /* those that may take it */
    struct worker_set homes; /* of these, those that hold its prefix */
    uint64_t saved_us;       /* what computing that prefix again would take */
};

enum queue_event {
    QUEUE_PLACE,   /* it has a place at `worker` */
    QUEUE_EXPIRED, /* its time is over */
};

struct queue_out {
    enum queue_event event;
    uint64_t id;
    uint32_t worker;
    bool home; /* ... which is one of its homes */
    uint32_t class;
};

/* Numbers for metrics. */
struct queue_counts {
    uint32_t waiting[QUEUE_CLASSES]; /* now */
    uint64_t tokens[QUEUE_CLASSES];  /* of these */
    uint64_t placed[QUEUE_CLASSES];  /* since the beginning, as the next */
    uint64_t expired[QUEUE_CLASSES];
    uint64_t gave_way[QUEUE_CLASSES]; /* those refused at once among them */
    uint64_t left[QUEUE_CLASSES];
    uint64_t homes;  /* of those placed: at a home */
    uint64_t passed; /* of those placed: passed a place up before */
};

struct queue;

/* Room for waits_max requests, 1 or more. 0 and *out, or -ENOMEM. */
int queue_new(struct queue **out, uint32_t waits_max) MUST_CHECK;

/* NULL is fine. */
void queue_free(struct queue *queue);

enum {
    QUEUE_E_FULL = 1, /* it does not wait: no room for it */
    QUEUE_E_PUSHED,   /* it waits, and *gone had to give way */
    QUEUE_E_TWICE,    /* its id waits already; nothing has changed */
};

/* Lets a request wait; borrowed for the call. 0 or an outcome above. */
int queue_add(struct queue *queue, const struct queue_request *request,
              uint64_t now_us, uint64_t *gone) MUST_CHECK;

/* It waits no longer: its client hung up. False: it did not wait. */
bool queue_leave(struct queue *queue, uint64_t id);

/* A request ended at that worker: places become free there. */
void queue_ended(struct queue *queue, uint32_t worker, uint64_t now_us);

/*
 * What happens to one that waits, if anything does: room has the free places
 * of each worker, in an array of WORKERS_MAX, and loses the one that is given
 * away. Pull until it is false.
 */
bool queue_next(struct queue *queue, uint32_t *room, uint64_t now_us,
                struct queue_out *out);

/* When queue_next() may have something even if no place becomes free;
 * UINT64_MAX: never. */
uint64_t queue_deadline(const struct queue *queue);

/* How many of those that wait a worker could take. */
uint32_t queue_wanted(const struct queue *queue, uint32_t worker);

/* The id of one that waits; 0: nobody does. */
uint64_t queue_first(const struct queue *queue);

/* How many wait. */
uint32_t queue_waiting(const struct queue *queue);

/* How long the one that came first has waited, of those that one of these workers
 * (NULL: any) could take; 0: there is none. It looks at each of them. */
uint64_t queue_oldest_us(const struct queue *queue, const struct worker_set *of,
                         uint64_t now_us);

/* In how many seconds one of that class may come again: what waits in its class
 * and in those before it, at the pace of late; 1 to QUEUE_RETRY_MAX_S. */
uint32_t queue_retry_after_s(const struct queue *queue, uint32_t class);

#define QUEUE_RETRY_MAX_S 60U

/* Good until the next call. */
const struct queue_counts *queue_counts(const struct queue *queue);

/* False and *reason: it is not as it should be. */
bool queue_check(const struct queue *queue, const char **reason);

#endif
