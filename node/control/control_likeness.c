/* Asks for the vectors of content rules' examples. */
#include "node/control/control_likeness.h"

#include <stdlib.h>

#include "node/base/log.h"
#include "node/control/control.h"
#include "node/control/control_tls.h"

static void
forget(struct control_likeness *l)
{
    if (l->call != NULL) {
        httpc_cancel(l->call);
        l->call = NULL;
    }
    for (uint32_t i = 0; i < l->count; i++) {
        free(l->vector[i]);
    }
    l->count = 0;
}

void
control_likeness_begin(struct control *control, struct content *content)
{
    struct control_likeness *l = &control->likeness;

    if (content == NULL) {
        return;
    }
    forget(l);
    l->control = control;
    l->content = content_examples(content) != 0 ? content : NULL;
    l->due_us = 0;
    l->told = false;
}

static void ON_CONTROL
try_later(struct control_likeness *l, const char *why)
{
    l->due_us = control_now_us() + CONTROL_LIKENESS_AGAIN_US;
    if (!l->told) {
        LOG_WARNING(
            "content_unlikened",
            KV("model", l->control->node->config->content.embeddings_model),
            KV("why", why),
            KV("hint", "until a worker tells the vectors of all "
                       "examples no rule with like fits; one is asked "
                       "each second"));
        l->told = true;
    }
}

/* All vectors are there. */
static void ON_CONTROL
finish(struct control_likeness *l)
{
    if (content_set_vectors(l->content, l->vector) == 0) {
        LOG_INFO("content_likened", KV("examples", l->count));
        forget(l);
        l->content = NULL;
        httpc_hang_up(&l->waits);
    } else {
        forget(l);
        try_later(l, "the vectors of a rule's examples have no middle");
    }
}

static void
on_vector(void *context, const struct httpc_answer *answer)
{
    struct control_likeness *l = context;
    struct text_vector *vector = embedding_read(answer);

    role_is_control();
    l->call = NULL;
    if (vector == NULL) {
        try_later(l, answer->outcome == HTTPC_OK
                         ? "it answers with no vector"
                         : httpc_outcome_name(answer->outcome));
        return;
    }
    l->vector[l->count++] = vector;
    if (l->count == content_examples(l->content)) {
        finish(l);
        return;
    }
    control_likeness_look(l->control, control_now_us());
}

void
control_likeness_look(struct control *control, uint64_t now_us)
{
    struct control_likeness *l = &control->likeness;
    const struct node_shared *node = control->node;
    const char *name = node->config->content.embeddings_model;

    if (l->content == NULL || l->call != NULL || now_us < l->due_us) {
        return;
    }
    const struct fleet_view *view = fleet_view_get(node->board);
    const struct fleet_worker *worker = embedding_choose(
        view, fleet_view_model(view, slice_of(name)), &control->rng);
    if (worker == NULL) {
        try_later(l, "no worker that is well lists it");
        return;
    }
    const struct embedding_ask ask = {
        .url = worker->url,
        .api_key = worker->api_key,
        .address = (const struct sockaddr *)&worker->address,
        .tls = control_tls_of_workers(node),
        .waits = &l->waits,
        .timeout_ms = CONTROL_LIKENESS_TIMEOUT_MS,
        .context = l,
        .done = on_vector,
        .model = name,
        .text = content_example(l->content, l->count),
    };
    if (embedding_start(&l->call, &control->loop, &ask) != 0) {
        l->call = NULL;
        try_later(l, "it cannot be called");
    }
}

void
control_likeness_stop(struct control *control)
{
    forget(&control->likeness);
    control->likeness.content = NULL;
    httpc_hang_up(&control->likeness.waits);
}
