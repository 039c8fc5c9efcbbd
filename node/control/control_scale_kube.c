/* Calls about engines that are pods of a StatefulSet: its scale sub-resource is
 * read, and set where need be. */
#include <stdio.h>
#include <string.h>

#include "node/config/config_scale.h"
#include "node/control/control.h"
#include "node/control/control_scale_call.h"
#include "node/control/kube_api.h"
#include "node/control/kube_scale.h"

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

/* why: NULL where all is well. */
static void ON_CONTROL
end(struct scale_call *call, const char *why, const struct httpc_answer *answer)
{
    char spec[SCALE_SPEC_MAX];
    struct buf worker = buf_over(spec, sizeof(spec) - 1);
    bool answered = answer != NULL && answer->outcome == HTTPC_OK;

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

/* Another engine that has the job's number; see scale_record. */
static const struct scale_job *
find_twin(const struct scale_seat *seat, const struct scale_job *job)
{
    for (uint32_t i = 0; i < seat->count; i++) {
        const struct scale_job *other = &seat->job[i];
        if (other != job && other->record.number == job->record.number &&
            strcmp(other->record.pool, job->record.pool) == 0) {
            return other;
        }
    }
    return NULL;
}

/* Of two with one number, the pod belongs to that whose worker is known, or that
 * was asked for first; the other one has none. */
static bool
has_pod(const struct scale_job *job, const struct scale_job *twin)
{
    bool known = job->record.worker[0] != '\0';

    return twin == NULL || (known && twin->record.worker[0] == '\0') ||
           (known == (twin->record.worker[0] != '\0') &&
            strcmp(job->key, twin->key) < 0);
}

bool
scale_call_kube_waits(struct control *control, const struct scale_job *job)
{
    const struct scale_job *last =
        scale_seat_find_last(&control->scale.act.seat, job->record.pool);
    const struct config_scale_pool *pool =
        config_scale_find(&control->node->scale, job->record.pool);

    return pool != NULL && pool->kubernetes[0] != '\0' && last != NULL &&
           last->record.number > job->record.number;
}

const char *
scale_call_kube(struct scale_call *call, const struct scale_job *job)
{
    const struct scale_job *twin =
        find_twin(&call->control->scale.act.seat, job);

    call->number = job->record.number;
    if (has_pod(job, twin)) {
        return ask(call, SLICE(""), on_read);
    }
    if (call->provision) {
        return "another engine has its number";
    }
    end(call, NULL, NULL);
    return NULL;
}
