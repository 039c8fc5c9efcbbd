/* Calls about engines that are pods of a StatefulSet: its scale sub-resource is
 * read, and set where need be. */
#include <stdio.h>

#include "node/base/log.h"
#include "node/config/config_scale.h"
#include "node/control/control.h"
#include "node/control/control_roster.h"
#include "node/control/control_scale_call.h"
#include "node/control/kube_api.h"
#include "node/control/kube_scale.h"
#include "node/scale/scale_pods.h"

#define BODY_MAX 2048U
#define REST_MAX 512U

/* Starts a request about the sub-resource. NULL, or why it cannot be. */
static const char *ON_CONTROL
ask(struct scale_call *call, struct slice body,
    void (*done)(void *, const struct httpc_answer *))
{
    const struct node_shared *node = call->control->node;
    char rest[REST_MAX];
    struct kube_api_place place = {.group = "apps/v1", .rest = rest};
    struct slice name;
    struct httpc_request request = {
        .method = body.len != 0 ? "PUT" : "GET",
        .body = body,
        .timeout_ms = SCALE_CALL_MS,
        .answer_bytes_max = SCALE_ANSWER_MAX,
        .context = call,
        .done = done,
    };

    if (!config_scale_kube(&call->pool, &place.space, &name)) {
        return "the name of the StatefulSet makes no sense";
    }
    (void)snprintf(rest, sizeof(rest), "statefulsets/%.*s/scale", (int)name.len,
                   name.ptr);
    const char *why =
        kube_api_start(&node->config->kubernetes, &call->control->loop, &place,
                       &request, &call->http);
    if (why != NULL) {
        call->http = NULL;
    }
    return why;
}

static const char *
refusal(const struct httpc_answer *answer)
{
    const char *why = scale_call_lack(answer);

    if (why != NULL) {
        return why;
    }
    switch (answer->head->status) {
    case 200:
    case 201:
        return NULL;
    case 401:
        return "the API server does not know the token of kubernetes.dir";
    case 403:
        return "the service account may not get or update statefulsets/scale";
    case 404:
        return "there is no such StatefulSet";
    case 409:
        return "somebody else changed the StatefulSet just now";
    default:
        return "the API server answered with an error";
    }
}

static const char other_has_it[] = "another engine has its number";

static bool ON_CONTROL
has_pod(const struct scale_call *call, const struct scale_job *job)
{
    const struct scale_seat *seat = &call->control->scale.act.seat;

    return scale_pods_of(seat->job, seat->count, call->pool.name,
                         call->number) == job;
}

/* What came between a call and its answer. NULL: nothing. */
static const char *ON_CONTROL
find_change(const struct scale_call *call)
{
    struct control *control = call->control;
    const struct scale_job *job =
        scale_seat_find(&control->scale.act.seat, call->key);

    return job == NULL           ? NULL
           : !has_pod(call, job) ? other_has_it
           : !call->provision && scale_call_kube_waits(control, job)
               ? "a pod with a higher number was asked for meanwhile"
               : NULL;
}

/* why: NULL where all is well. */
static void ON_CONTROL
end(struct scale_call *call, const char *why, const struct httpc_answer *answer)
{
    char spec[SCALE_SPEC_MAX];
    struct buf worker = buf_over(spec, sizeof(spec) - 1);
    bool answered = answer != NULL && answer->outcome == HTTPC_OK;

    why = why == NULL ? find_change(call) : why;
    config_scale_worker(&call->pool, call->number, &worker);
    spec[worker.len] = '\0';
    scale_call_end(
        call,
        &(struct scale_said){
            .why = why != NULL     ? why
                   : worker.failed ? "what its pods are as workers is too long"
                                   : NULL,
            .status = answered ? (int)answer->head->status : 0,
            .worker = spec,
            .more = ""});
}

static void
on_set(void *context, const struct httpc_answer *answer)
{
    struct scale_call *call = context;

    role_is_control();
    call->http = NULL;
    end(call, refusal(answer), answer);
}

static void
on_read(void *context, const struct httpc_answer *answer)
{
    struct scale_call *call = context;
    const char *why = refusal(answer);
    char bytes[BODY_MAX];
    struct buf body = buf_over(bytes, sizeof(bytes));
    struct kube_scale scale;

    role_is_control();
    call->http = NULL;
    if (why == NULL && !kube_scale_read(answer->body, &scale)) {
        why = "the API server's answer is no Scale";
    }
    enum kube_scale_do what =
        why == NULL ? kube_scale_next(&scale, call->provision, call->number)
                    : KUBE_SCALE_DONE;
    if (what == KUBE_SCALE_MORE) {
        why = "it has more replicas than were asked for: who else scales it?";
    } else if (what == KUBE_SCALE_SET) {
        kube_scale_put(&scale, &body);
        why = body.failed ? "its names are too long"
                          : ask(call, buf_slice(&body), on_set);
    }
    if (why != NULL || what == KUBE_SCALE_DONE) {
        end(call, why, answer);
    }
}

static bool ON_CONTROL
is_pod(const struct control *control, const struct scale_job *job)
{
    const struct config_scale_pool *pool =
        config_scale_find(&control->node->scale, job->record.pool);

    return pool != NULL && pool->kubernetes[0] != '\0';
}

bool
scale_call_kube_waits(struct control *control, const struct scale_job *job)
{
    const struct scale_seat *seat = &control->scale.act.seat;

    return is_pod(control, job) &&
           scale_pods_waits(seat->job, seat->count, job);
}

const char *
scale_call_kube(struct scale_call *call, const struct scale_job *job)
{
    call->number = job->record.number;
    return has_pod(call, job) ? ask(call, SLICE(""), on_read) : other_has_it;
}

/* Its worker drains no more, unless whose pod it is wants that. */
static void ON_CONTROL
forget(struct control *control, const struct scale_job *job)
{
    struct scale_seat *seat = &control->scale.act.seat;
    const struct scale_job *other = scale_pods_of(
        seat->job, seat->count, job->record.pool, job->record.number);

    LOG_INFO("scale_forgotten", KV("key", job->key),
             KV("number", job->record.number), KV("whose_pod", other->key));
    if (other->record.state < SCALE_DRAINS) {
        (void)!control_roster_drain(control, slice_of(job->record.worker),
                                    false);
    }
    (void)!scale_seat_forget(job, control_cluster(control), control_now_us());
}

enum scale_do
control_scale_pod(struct control *control, const struct scale_job *job,
                  const struct scale_facts *facts, enum scale_do what)
{
    const struct scale_seat *seat = &control->scale.act.seat;
    uint32_t slot = fleet_find(control->fleet, slice_of(job->record.worker));
    bool well =
        slot != WORKER_NONE &&
        worker_set_has(&fleet_view_get(control->node->board)->healthy, slot);

    if (!is_pod(control, job)) {
        return what;
    }
    switch (scale_pods_next(seat->job, seat->count, job, facts, well)) {
    case SCALE_POD_KEEP:
        return what;
    case SCALE_POD_BACK:
        return SCALE_DO_WORK;
    case SCALE_POD_STAY:
        return SCALE_DO_NOTHING;
    case SCALE_POD_FORGET:
    default:
        forget(control, job);
        return SCALE_DO_NOTHING;
    }
}

const struct scale_job *
control_scale_gap(struct control *control)
{
    const struct scale_seat *seat = &control->scale.act.seat;
    const struct config_scale *config = &control->node->scale;
    uint64_t now_us = control_now_us();
    const struct scale_job *above = NULL;

    for (uint32_t i = 0; i < config_scale_count(config) && above == NULL; i++) {
        const struct config_scale_pool *pool = config_scale_at(config, i);
        above = pool->kubernetes[0] != '\0'
                    ? scale_pods_gap(seat->job, seat->count, pool->name)
                    : NULL;
    }
    if (above == NULL) {
        return NULL;
    }
    struct scale_facts facts = scale_seat_facts(seat, control_cluster(control),
                                                above, config->quorum, now_us);
    return facts.acts && facts.kept ? above : NULL;
}
