/*
 * A node's seat among those of which one acts: its lease (scale_lease.h), what
 * it heard of the others (scale_words.h), and all jobs (scale_job.h) as the
 * mesh's list of workers has them, whoever began them.
 *
 * What a node that was cut off said may undo, by the list's own rule, what was
 * done since. Each node that knows the record of a later epoch puts that into
 * the list again; all put the same, so they agree. A job that comes back after
 * its end ends once more.
 *
 * What comes of the engines that are asked of a pool (scale_pool.h) each node
 * reads from the states of their jobs, so who takes over knows which pools
 * back off, but for those that missed before it was there.
 *
 * Role: core. Owns: nothing. Thread: control. Limits: SCALE_JOBS_MAX jobs;
 * further ones are counted and wait. Errors: outcomes of the roster.
 */
#ifndef NODE_SCALE_SEAT_H
#define NODE_SCALE_SEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "mesh/mesh.h"
#include "node/peers/scale_words.h"
#include "node/scale/scale_job.h"
#include "node/scale/scale_lease.h"
#include "node/scale/scale_pool.h"

#define SCALE_JOBS_MAX  256U
#define SCALE_ENDED_MAX 64U /* keys that are remembered */

struct scale_seat {
    struct scale_lease lease;
    struct scale_words words;
    uint32_t made; /* keys of made_epoch */
    uint32_t made_epoch;
    uint32_t count;
    struct scale_job job[SCALE_JOBS_MAX];
    uint32_t left_out; /* jobs beyond the limit */
    /* The latest keys that were ended: a ring. */
    char ended[SCALE_ENDED_MAX][SCALE_KEY_MAX];
    uint32_t ended_next;
    /* Of pools that engines were asked of; where there are too many, the one
     * that missed longest ago makes room. */
    struct scale_seat_record {
        char pool[SCALE_POOL_MAX];
        struct scale_record_of record;
    } record[SCALE_POOLS_MAX];
    uint32_t records;
};

struct scale_voting {
    uint32_t quorum;
    uint32_t lease_us;
    uint32_t wall_s; /* since 1970 */
};

/* name: this node's. */
void scale_seat_init(struct scale_seat *seat, const char *name,
                     uint32_t lease_us, uint64_t now_us);

/* Hears the others, votes, tells them, and reads the list; at most a fifth of
 * lease_us after the last such call. */
void scale_seat_turn(struct scale_seat *seat, struct cluster *cluster,
                     const struct scale_voting *voting, uint64_t now_us);

/* Tells the others whether a job's worker takes requests of this node; call it
 * in each turn, on each node. */
void scale_seat_reach(struct scale_job *job, struct cluster *cluster,
                      bool ready, uint64_t now_us);

/* What is seen of a job; ready, reaches and idle are the caller's. */
struct scale_facts scale_seat_facts(const struct scale_seat *seat,
                                    struct cluster *cluster,
                                    const struct scale_job *job,
                                    uint32_t quorum, uint64_t now_us);

/* Votes no more, and tells the others so; init begins anew. */
void scale_seat_stop(struct scale_seat *seat, struct cluster *cluster,
                     uint64_t now_us);

/* Tells all nodes what is so of a job, new or known. 0 or an outcome of
 * roster_put(); ROSTER_E_SIZE also for a model of several lines. */
int scale_seat_say(struct scale_seat *seat, struct cluster *cluster,
                   const char *key, const struct scale_record *record,
                   uint64_t now_us) MUST_CHECK;

/* What is asked for, and of whom. */
struct scale_order {
    const char *model;
    const char *pool; /* "": the only one */
};

/* Says that an engine is asked for: key is its own, and its number the lowest
 * that no job of the pool has. Outcomes as above; ROSTER_E_FULL also beyond
 * SCALE_JOBS_MAX. */
int scale_seat_ask(struct scale_seat *seat, struct cluster *cluster,
                   const struct scale_order *order, char key[SCALE_KEY_MAX],
                   uint64_t now_us) MUST_CHECK;

/* The engine is gone: so is its job. 0 or an outcome of roster_remove(). */
int scale_seat_forget(const struct scale_job *job, struct cluster *cluster,
                      uint64_t now_us) MUST_CHECK;

/* NULL: there is none. */
struct scale_job *scale_seat_find(struct scale_seat *seat, const char *key);
struct scale_job *scale_seat_find_worker(struct scale_seat *seat,
                                         const char *worker);
/* One that worked, as far as this node has seen it, and may be taken back. */
struct scale_job *scale_seat_find_draining(struct scale_seat *seat,
                                           const char *model);

/* The pool's job with the highest number; of equals one whose worker is
 * known. */
struct scale_job *scale_seat_find_last(struct scale_seat *seat,
                                       const char *pool);

/* Engines of a model (NULL: of all) that were asked for and take no requests
 * yet. */
uint32_t scale_seat_coming(const struct scale_seat *seat, const char *model);

/* Engines of a model (NULL: of all) at a pool, that are there or come. */
uint32_t scale_seat_count(const struct scale_seat *seat, const char *model,
                          const char *pool);

/* What came of the engines that were asked of a pool. */
struct scale_record_of scale_seat_record_of(const struct scale_seat *seat,
                                            const char *pool);

/* Whether this node acts now. */
static inline bool
scale_seat_acts(const struct scale_seat *seat, uint64_t now_us)
{
    return scale_lease_acts(&seat->lease, now_us);
}

#endif
