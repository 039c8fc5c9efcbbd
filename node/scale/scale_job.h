/*
 * A job: one engine that was asked for, from the first call until it is gone.
 *
 * What is known of it is a record in the mesh's list of workers
 * (gossip/roster.h), under an id that no worker can have, so it is on all
 * nodes, in snapshots, and newer words win. Who holds the lease (scale_lease.h)
 * carries it on:
 *
 *   asked    a call to provision, again and again with the same key, until an
 *            answer says where the engine is; then it is added as a worker
 *   comes    until it takes requests, of any node
 *   works    until it is chosen to go (scale_victim()), or is lost: it takes no
 *            requests of any node that lives, while others do, or an operator
 *            drains it, and nothing is in flight there, for provision_ms; then
 *            it ends, and drains before the call
 *   drains   until all nodes have seen that it drains and nothing is in flight
 *            on any, or drain_ms passed
 *   ends     a call to terminate, again and again, until one is answered well;
 *            then worker and job are removed. One that was lost drains first:
 *            it may take requests again, of any node
 *
 * What was asked for and does not take requests within provision_ms drains and
 * ends, and the rule (scale.h) asks anew. What is removed from the list of
 * workers ends as well.
 *
 * Calls. None is made before a quorum of nodes has the same list, this job in
 * it: so who takes over knows each engine that may have been made, and asks
 * with the same key. None to terminate is made while some node is not known to
 * have the same list, in which the worker drains or is gone: a node that was
 * cut off may have had an answer that no other one knows of. A call that failed
 * is repeated after SCALE_AGAIN_US, twice as long each time.
 *
 * Epochs. What a node said before it was cut off may reach the others after the
 * next holder has acted, and be the newer word by count. So a record has the
 * epoch of who said it, and a job never goes back to an earlier one, nor to an
 * engine whose place is not known: nodes that know better put that into the
 * list once more (scale_seat.h).
 *
 * Role: core. Owns: nothing. Thread: one owner per job. Limits: as below.
 * Errors: none. Times are the node's own: since it heard of a state.
 */
#ifndef NODE_SCALE_JOB_H
#define NODE_SCALE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "node/scale/scale_pool.h"

#define SCALE_KEY_MAX       32U /* with its NUL; so are the others */
#define SCALE_MODEL_MAX     257U
#define SCALE_WORKER_MAX    64U
#define SCALE_RECORD_MAX    512U
#define SCALE_AGAIN_US      UINT64_C(1000000)
#define SCALE_AGAIN_MOST_US UINT64_C(60000000)
#define SCALE_IDLE_US       UINT64_C(3000000) /* idle for so long */

enum scale_state {
    SCALE_ASKED,
    SCALE_COMES,
    SCALE_WORKS,
    SCALE_DRAINS,
    SCALE_ENDS,
    SCALE_STATES, /* how many there are */
};

/* "asked", "comes", ...: static text. */
const char *scale_state_name(enum scale_state state);

/* What all nodes know. */
struct scale_record {
    enum scale_state state;
    char model[SCALE_MODEL_MAX];   /* of its group */
    char worker[SCALE_WORKER_MAX]; /* its id; "": not known yet */
    char pool[SCALE_POOL_MAX];     /* where it is made; "": the only one */
    uint32_t epoch;                /* of who said it */
    uint32_t number; /* its place among engines of the pool; no two have the
                        same, but where two nodes acted before they knew each
                        other */
};

/* All zero but the key and the record at first. */
struct scale_job {
    char key[SCALE_KEY_MAX];
    struct scale_record record;
    uint64_t since_us; /* when this node heard of that state */
    uint64_t due_us;   /* no call before */
    uint64_t idle_us;  /* idle since; 0: it is not */
    uint32_t fails;    /* calls in a row */
    bool calling;      /* a call is under way */
    bool goes;         /* it was chosen */
    bool undone;       /* the list has what is not so any more */
    bool worked;       /* in the state before this one */
    bool told;         /* to peers: it takes requests of this node */
};

/* What a node sees of a job, now. */
struct scale_facts {
    bool acts;     /* this node has the lease */
    bool kept;     /* a quorum of nodes knows the same list */
    bool all_know; /* all nodes do, as far as any is known to live */
    bool there;    /* the worker is in the list */
    bool drains;   /* it drains */
    bool ready;    /* it takes requests, of this node */
    bool reached;  /* ... of another one */
    bool reaches;  /* this node knows any engine that does */
    bool idle;     /* nothing is in flight there, of any node */
};

struct scale_times {
    uint32_t provision_ms;
    uint32_t drain_ms;
};

/* What is to be done now. A state that is to follow is said by
 * scale_job_says(), and the list tells this node like all others
 * (scale_job_heard()). */
enum scale_do {
    SCALE_DO_NOTHING,
    SCALE_DO_PROVISION, /* call */
    SCALE_DO_TERMINATE, /* call */
    SCALE_DO_WORK,      /* say that it works; the worker drains no more */
    SCALE_DO_DRAIN,     /* say so, and drain the worker */
    SCALE_DO_END,       /* say so */
};

/* What is to be done about the job, as things are. */
enum scale_do scale_job_next(struct scale_job *job,
                             const struct scale_facts *facts,
                             const struct scale_times *times, uint64_t now_us);

/* The next one of that kind was begun, or was answered. */
void scale_job_called(struct scale_job *job);
void scale_job_answered(struct scale_job *job, bool well, uint64_t now_us);

/* The list says this now; of what an earlier epoch said, the worker is taken
 * where none is known. So is the pool, which a node of an earlier version
 * leaves out of what it says. */
void scale_job_heard(struct scale_job *job, const struct scale_record *record,
                     uint64_t now_us);

/* Whether the engine has not begun to take requests, and still may. */
static inline bool
scale_job_is_coming(const struct scale_job *job)
{
    return job->record.state == SCALE_ASKED || job->record.state == SCALE_COMES;
}

/* Records as bytes: lines of key=value; unknown keys are skipped. put: into a
 * buffer of SCALE_RECORD_MAX; it fails for a model of several lines. get: false
 * where they make no sense. */
void scale_record_put(const struct scale_record *record, struct buf *out);
bool scale_record_get(struct slice bytes, struct scale_record *record)
    MUST_CHECK;

/* A job's id in the list of workers, and back: the key; NULL: it is no job. */
#define SCALE_JOB_PREFIX "scale/" /* no worker's id has a slash */
const char *scale_job_key(const char *id);

#endif
