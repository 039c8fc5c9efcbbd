/*
 * Engines that are pods of a StatefulSet: which job (scale_job.h) has which
 * pod.
 *
 * Each pool has a StatefulSet of its own. Pods have numbers in place of keys,
 * those of their jobs' records, and are there from 0 up to some number without
 * a gap: so the last one goes first, and a pod is there as long as one with a
 * higher number is. What follows:
 *
 *   One number, two jobs. Two nodes asked before they knew each other. There is
 *   one pod: it belongs to the job that does not end; of two such to that whose
 *   worker is known, then to the first by key. The other job is forgotten, and
 *   nothing is called for it; where an engine is lacking then, the rule asks.
 *
 *   A job that ends under a pod that came. A call to end the lower one was
 *   under way, or waited until all nodes had seen it drain, when the higher one
 *   was asked for. It cannot end, and whatever that call did was undone by the
 *   other, which read what it wrote. So it works again, if it is well, and the
 *   last one goes where there are too many. If nobody knows its worker yet, it
 *   is forgotten.
 *
 *   A number without a job below a pod that came: a job is made for it.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef NODE_SCALE_PODS_H
#define NODE_SCALE_PODS_H

#include "node/scale/scale_job.h"

enum scale_pod_do {
    SCALE_POD_KEEP, /* as scale_job_next() says */
    /* It is forgotten; its worker stays, and where another job has the pod, it
     * drains no more unless that one does. */
    SCALE_POD_FORGET,
    SCALE_POD_BACK, /* it works again, and drains no more */
    SCALE_POD_STAY, /* nothing: an operator drains it, and it is not the last */
};

/* The job that has the pod of that number in a pool (scale_pool.h); NULL:
 * none. */
const struct scale_job *scale_pods_of(const struct scale_job *jobs,
                                      uint32_t count, const char *pool,
                                      uint32_t number);

/* Whether a pod cannot end yet: one with a higher number is asked for, or
 * there; or one below it is nobody's, which would be the last one then. */
bool scale_pods_waits(const struct scale_job *jobs, uint32_t count,
                      const struct scale_job *job);

/* What is to be done about a job (one of jobs) as a pod, by the node that acts.
 * well: its engine is, whether it drains or not. */
enum scale_pod_do scale_pods_next(const struct scale_job *jobs, uint32_t count,
                                  const struct scale_job *job,
                                  const struct scale_facts *facts, bool well);

/* A job of the pool whose pod came, with a lower number that no job has; NULL:
 * none. */
const struct scale_job *scale_pods_gap(const struct scale_job *jobs,
                                       uint32_t count, const char *pool);

#endif
