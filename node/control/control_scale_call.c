/* Calls to what makes engines and ends them. */
#include "node/control/control_scale_call.h"

#include <string.h>

#include "node/base/log.h"
#include "node/config/config_access.h"
#include "node/config/config_scale.h"
#include "node/control/control.h"
#include "node/control/control_scale_act.h"

const char *
scale_call_lack(const struct httpc_answer *answer)
{
    return answer->outcome == HTTPC_OK ? NULL
           : answer->why[0] != '\0'    ? answer->why
                                       : httpc_outcome_name(answer->outcome);
}

/* The engine that an answer names. NULL, or what is wrong with it. */
static const char *ON_CONTROL
read_worker(const struct control *control, const char *text,
            const struct config_scale_pool *pool, struct config_worker *worker)
{
    struct config_errors errors;
    char denied[CONFIG_DENIED_MAX];

    config_errors_init(&errors);
    bool good =
        config_parse_worker(slice_of(text), "scale", worker, &errors) == 0 &&
        worker->url.host[0] != '\0';
    config_errors_fini(&errors);
    if (good && worker->pool[0] == '\0') {
        memcpy(worker->pool, pool->name, sizeof(pool->name));
    }
    if (good && worker->island[0] == '\0') {
        memcpy(worker->island, pool->island, sizeof(pool->island));
    }
    return !good ? "its worker makes no sense"
           : config_access_denies(&control->node->config->workers_deny, worker,
                                  denied)
               ? "workers.deny denies its worker"
               : NULL;
}

/* One engine that two are said to be would count once, and `max` bound
 * nothing. */
static bool ON_CONTROL
is_of_another(struct control *control, const struct scale_job *job,
              const struct config_worker *worker)
{
    const struct scale_job *other =
        scale_seat_find_worker(&control->scale.act.seat, worker->id);

    return other != NULL && other != job;
}

/* NULL: it is a good one; else why not. */
static const char *ON_CONTROL
take(const struct scale_call *call, const struct scale_job *job,
     const struct scale_said *said)
{
    struct control *control = call->control;
    struct config_worker worker;
    bool named = call->provision && said->worker[0] != '\0';
    const char *why = said->why;

    if (why == NULL && named) {
        why = read_worker(control, said->worker, &call->pool, &worker);
    }
    if (why == NULL && named && is_of_another(control, job, &worker)) {
        why = "its worker is that of another key";
    }
    if (why != NULL) {
        return why;
    }
    return control_scale_answered(control, job, call->provision,
                                  named ? &worker : NULL)
               ? NULL
               : "its worker could not be taken in";
}

void
scale_call_end(struct scale_call *call, const struct scale_said *said)
{
    struct control *control = call->control;
    struct control_scale_act *act = &control->scale.act;
    struct scale_job *job = scale_seat_find(&act->seat, call->key);
    bool waited = call->key[0] != '\0' && job != NULL && job->calling;

    call->key[0] = '\0';
    if (!waited) {
        return;
    }
    const char *why = take(call, job, said);
    scale_job_answered(job, why == NULL, control_now_us());
    if (why != NULL) {
        act->calls_failed++;
        LOG_WARNING("scale_call_failed", KV("key", job->key),
                    KV("action", call->provision ? "provision" : "terminate"),
                    KV("by", config_scale_pool_by(&call->pool)),
                    KV("pool", job->record.pool), KV("why", why),
                    KV("status", said->status), KV("said", said->more),
                    KV("fails", job->fails),
                    KV("hint", "it is called again with the same key"));
    }
}

static const char *ON_CONTROL
begin(struct scale_call *call, const struct scale_job *job)
{
    const struct config_scale_pool *pool =
        config_scale_find(&call->control->node->scale, job->record.pool);

    if (pool == NULL) {
        return "scale.pools has no such pool: it is needed until its engines "
               "are gone";
    }
    call->pool = *pool;
    return pool->command[0] != '\0'      ? scale_call_run(call, job)
           : pool->kubernetes[0] != '\0' ? scale_call_kube(call, job)
           : pool->hook.host[0] != '\0'  ? scale_call_post(call, job)
                                         : "nothing makes engines there";
}

static bool
is_free(const struct scale_call *call)
{
    return call->key[0] == '\0' && call->http == NULL && call->run.pid == 0;
}

void
control_scale_call(struct control *control, struct scale_job *job,
                   bool provision)
{
    struct control_scale_act *act = &control->scale.act;
    uint32_t at = 0;

    while (at < SCALE_CALLS_MAX && !is_free(&act->call[at])) {
        at++;
    }
    if (at == SCALE_CALLS_MAX ||
        (!provision && scale_call_kube_waits(control, job))) {
        return; /* the next turn tries again */
    }
    struct scale_call *call = &act->call[at];
    *call = (struct scale_call){.control = control, .provision = provision};
    memcpy(call->key, job->key, sizeof(call->key));
    act->calls++;
    scale_job_called(job);
    const char *why = begin(call, job);
    if (why != NULL) {
        scale_call_end(
            call, &(struct scale_said){.why = why, .worker = "", .more = ""});
    }
}

void
control_scale_calls_look(struct control *control)
{
    for (uint32_t i = 0; i < SCALE_CALLS_MAX; i++) {
        scale_run_look(&control->scale.act.call[i], control_now_us());
    }
}

void
control_scale_hang_up(struct control *control)
{
    for (uint32_t i = 0; i < SCALE_CALLS_MAX; i++) {
        struct scale_call *call = &control->scale.act.call[i];
        call->key[0] = '\0';
        if (call->http != NULL) {
            httpc_cancel(call->http);
            call->http = NULL;
        }
        scale_run_stop(call);
    }
}
