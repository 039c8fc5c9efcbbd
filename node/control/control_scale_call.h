/*
 * A call about an engine to what makes engines and ends them: a hook
 * (control_scale_hook.c), a program (control_scale_run.c), or the scale
 * sub-resource of a StatefulSet (control_scale_kube.c). Each begins a call and
 * ends it with the same few words; what they mean is control_scale_act.h's.
 *
 * Role: shell. Owns: the calls under way. Thread: control. Limits:
 * SCALE_CALLS_MAX at one time, SCALE_CALL_MS for each; SCALE_RUN_MS for a
 * program, or scale.provision where that is less. Errors: counted; lines in the
 * log.
 */
#ifndef NODE_CONTROL_SCALE_CALL_H
#define NODE_CONTROL_SCALE_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "index/base/role.h"
#include "node/config/config.h"
#include "node/http/httpc.h"
#include "node/scale/scale_job.h"

#define SCALE_CALLS_MAX  8U
#define SCALE_CALL_MS    10000U
#define SCALE_RUN_MS     60000U
#define SCALE_ANSWER_MAX ((size_t)64 << 10)
#define SCALE_SPEC_MAX   2048U /* of a worker, as --worker has it */

struct control;

/* A program that runs. */
struct scale_run {
    pid_t pid;         /* and its process group; 0: none */
    int out;           /* what it prints, a file of SCALE_ANSWER_MAX at most */
    int err;           /* the same of its errors */
    uint64_t begun_us; /* when it was started */
    bool late;         /* its time is over: it was killed */
};

struct scale_call {
    struct control *control;
    char key[SCALE_KEY_MAX]; /* of the engine; "": nobody waits for it */
    bool provision;
    struct httpc *http; /* NULL: none is under way */
    struct scale_run run;
    struct config_scale_pool pool; /* whose engine it is, as the call began */
    uint32_t number;               /* of a pod */
};

struct scale_said {
    const char *why;    /* it is no good answer; NULL: it is one */
    int status;         /* of HTTP, or an exit code; 0: none */
    const char *worker; /* where the engine is, as --worker has it; "" */
    const char *more;   /* for people; "" */
};

/* Begin a call. NULL, or why it cannot be; it may have ended already. */
const char *scale_call_post(struct scale_call *call,
                            const struct scale_job *job) ON_CONTROL;
const char *scale_call_run(struct scale_call *call, const struct scale_job *job)
    ON_CONTROL;
const char *scale_call_kube(struct scale_call *call,
                            const struct scale_job *job) ON_CONTROL;

/* Whether a pod cannot end yet: those with higher numbers go first. */
bool scale_call_kube_waits(struct control *control, const struct scale_job *job)
    ON_CONTROL;

/* A call is over; its place is free. */
void scale_call_end(struct scale_call *call, const struct scale_said *said)
    ON_CONTROL;

/* Why there is no answer of HTTP at all; NULL: there is one. */
const char *scale_call_lack(const struct httpc_answer *answer);

/* Looks after a program: when it ended, or its time did. */
void scale_run_look(struct scale_call *call, uint64_t now_us) ON_CONTROL;
/* Nobody waits for it any more. */
void scale_run_stop(struct scale_call *call);

#endif
