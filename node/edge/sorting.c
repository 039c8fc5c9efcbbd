/*
 * Requests whose model depends on what they are about: the first rule with examples
 * that comes into question has x wait for its message's vector, of a worker that
 * lists content.embeddings_model, for content.embeddings_wait at most. Then the
 * rules are gone through again. Without a vector no rule with examples fits.
 */
#include <stdlib.h>

#include "node/edge/answer_internal.h"

static void
on_vector(void *context, const struct httpc_answer *answer)
{
    role_is_lane();
    struct exchange *x = context;
    struct edge_naming *naming = &x->naming;

    naming->vector = vectors_answered(x->client->lane, EDGE_EMBEDS_CONTENT,
                                      &naming->call, answer);
    naming->like = naming->vector != NULL             ? CONTENT_LIKE_KNOWN
                   : answer->outcome == HTTPC_TIMEOUT ? CONTENT_LIKE_LATE
                                                      : CONTENT_LIKE_FAILED;
    request_go_on(x);
}

/* Asks a worker. False: there is none to ask. The lane is online. */
static bool ON_LANE
call(struct exchange *x, struct slice text)
{
    struct lane *lane = x->client->lane;
    const struct node_shared *node = lane->node;
    const struct config_content_file *config = &node->config->content;
    struct embedding_ask ask = {
        .model = config->embeddings_model,
        .text = text,
        .timeout_ms = config->embeddings_wait_ms,
        .context = x,
        .done = on_vector,
    };

    const struct fleet_view *view = fleet_view_get(node->board);
    const struct fleet_worker *worker = embedding_choose(
        view, fleet_view_model(view, slice_of(ask.model)), &lane->rng);
    return worker != NULL && vectors_call(lane, EDGE_EMBEDS_CONTENT,
                                          &x->naming.call, worker, ask);
}

bool
sorting_ask(struct exchange *x, struct slice text)
{
    const struct admission *admission = &x->client->framing.admission;

    if (!keys_may_embed(&admission->isolation, admission->residency.islands)) {
        x->naming.like = CONTENT_LIKE_TENANT;
        return false;
    }
    x->naming.like = CONTENT_LIKE_AWAY;
    if (text.len == 0 || !vectors_may(x->client->lane, EDGE_EMBEDS_CONTENT)) {
        return false;
    }
    bool asked = call(x, text);
    x->read = !asked;
    return asked;
}

void
sorting_forget(struct exchange *x)
{
    vectors_cancel(x->client->lane, EDGE_EMBEDS_CONTENT, &x->naming.call);
    free(x->naming.vector);
    x->naming.vector = NULL;
}
