/*
 * What is done about how many engines there should be (scale.mode: act).
 *
 * One node of the mesh acts, the one that holds the lease (scale_lease.h),
 * which nodes grant each other among the gauges that they tell (scale_words.h).
 * It keeps a job (scale_job.h) for each engine that it asks for in the mesh's
 * list of workers, and carries all of them on, whoever began them.
 *
 * Calls (control_scale_call.h) go to one of three: scale.hook, by a POST of a
 * JSON object; scale.command, in arguments and the environment;
 * scale.kubernetes, whose replicas are set. What is told, and what must hold:
 *
 *   action  "provision": make an engine for this key, unless it was made; or
 *           "terminate": end it, if there is one; neither is an error
 *   key     of the engine, the same in all calls about it
 *   epoch   of the node that acts; a call of a lower one than was seen before
 *           comes from a node that was cut off, and may be refused
 *   by      that node's name
 *   model   that the engine is to serve
 *   worker  its id, once it is known; "" before
 *   pool    that it is of (scale_pool.h); "": the only one
 *   missed  engines in a row for this model that were asked for and did not
 *           take requests in time: another place may have some
 *
 * A good answer (2xx; exit code 0) to provision may say where the engine is, in
 * the form of --worker (URL[,KEY=VALUE]...): in a member `worker`, or as the
 * first word that is printed. Until it does, the call comes again. One to
 * terminate says that the engine is gone, or will be, and that a late call to
 * provision does not make that key again. All other answers are failures; the
 * call comes again.
 *
 * Pods of a StatefulSet have no keys but numbers: those of their records
 * (scale_job.h). Pod 3 cannot end before pod 4, so the last one goes first, and
 * one that never took requests stays until it is the last; kube_scale.h says
 * why a call that comes twice, or late, does no harm, and scale_pods.h what
 * becomes of jobs that cross.
 *
 * Role: shell. Owns: jobs as this node knows them, calls under way. Thread:
 * control. Limits: SCALE_JOBS_MAX jobs, and those of control_scale_call.h.
 * Errors: counted; lines in the log.
 */
#ifndef NODE_CONTROL_SCALE_ACT_H
#define NODE_CONTROL_SCALE_ACT_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/role.h"
#include "node/config/config.h"
#include "node/control/control_scale_call.h"
#include "node/peers/scale_seat.h"
#include "node/text/json_out.h"

#define SCALE_LEASE_US 6000000U

/* All zero at first. */
struct control_scale_act {
    bool begun;
    bool acted; /* in the last turn */
    struct scale_seat seat;
    char holder[MEMBER_NAME_MAX]; /* who acts, as far as is known; "" */
    struct scale_call call[SCALE_CALLS_MAX];
    uint64_t asked;  /* engines, by this node */
    uint64_t came;   /* that took requests then */
    uint64_t missed; /* that did not, in time */
    uint64_t missed_in_row;
    uint64_t ended;
    uint64_t calls;
    uint64_t calls_failed;
    uint32_t orphans; /* jobs of pools that are not configured */
};

/* What a look at a group wants done. */
struct scale_wish {
    const char *model;
    uint32_t engines; /* as they were counted */
    uint32_t desired;
    const char *victim; /* the worker that goes where fewer are desired; "" */
    const struct scale_market *market; /* what may be bought; borrowed */
};

/* Votes, and carries jobs on: once a second. */
void control_scale_turn(struct control *control) ON_CONTROL;

/* Begins what a group wants, where this node acts. */
void control_scale_wish(struct control *control, const struct scale_wish *wish)
    ON_CONTROL;

/* Ends what is under way, before the loop does. */
void control_scale_stop(struct control *control) ON_CONTROL;

/* Whether this node acts now. */
bool control_scale_acts(const struct control_scale_act *act, uint64_t now_us);

/* control_scale_call.c: begins a call about a job, unless there are too many;
 * looks after programs, once a second; ends all. */
void control_scale_call(struct control *control, struct scale_job *job,
                        bool provision) ON_CONTROL;
void control_scale_calls_look(struct control *control) ON_CONTROL;
void control_scale_hang_up(struct control *control) ON_CONTROL;

/* A good answer. worker: of a call to provision, NULL where it names none.
 * False: it can do nothing with that. */
bool control_scale_answered(struct control *control,
                            const struct scale_job *job, bool provision,
                            const struct config_worker *worker) ON_CONTROL;

/* control_scale_kube.c: what is to be done about a job, where engines are pods;
 * and a job below whose pod there is one that is nobody's, NULL: none. */
enum scale_do control_scale_pod(struct control *control,
                                const struct scale_job *job,
                                const struct scale_facts *facts,
                                enum scale_do what) ON_CONTROL;
const struct scale_job *control_scale_gap(struct control *control) ON_CONTROL;

/* Members of the object of GET /admin/scale. */
void control_scale_put_jobs(const struct control_scale_act *act,
                            struct json_out *json);

/* Prometheus text. */
void control_scale_put_act_metrics(const struct control_scale_act *act,
                                   struct buf *out);

#endif
