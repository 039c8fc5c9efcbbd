/*
 * Requests that ask in other words what was answered before. Where
 * answer_cache.semantic_model names a model, the first request of a kind, for which
 * there is no answer, asks a worker that lists that model for its question's vector, for
 * semantic_wait at most, and takes the answer to a question like it
 * (answers_find_alike()). If there is none it goes to an engine, and its own answer is
 * found by its vector from then on.
 *
 * What it gets is a copy, kept under its own name: it lives no longer than the first
 * one, and is not found by vectors, so that likeness does not drift from question to
 * question. A vector that comes too late, or not at all, costs a hit.
 */
#include <stdlib.h>

#include "node/answers/answers_guard.h"
#include "node/answers/answers_rule.h"
#include "node/edge/answer_internal.h"

#define TRIES_MAX 4U /* answers that were gone, for one question */

/* Which */

struct slice
resembling_question(const struct exchange *x)
{
    struct slice raw;

    return answers_judge_question(&x->client->lane->route.scan, x->body,
                                  &raw) == ANSWERS_UNLIKE_MAY
               ? raw
               : SLICE("");
}

void
resembling_read(struct exchange *x, struct slice question)
{
    struct lane *lane = x->client->lane;
    struct edge_resembling *r = &x->caching.resembling;
    const struct admission *admission = &x->client->framing.admission;

    r->permille = x->naming.semantic_permille != 0
                      ? x->naming.semantic_permille
                      : lane->answer_cache.semantic_permille;
    if (question.len == 0 || lane->answer_cache.semantic_model[0] == '\0' ||
        r->permille > 1000 ||
        !keys_may_embed(&admission->isolation, admission->residency.islands)) {
        return;
    }
    r->may = true;
    r->at = (uint32_t)(question.ptr - x->body.ptr);
    r->len = (uint32_t)question.len;
}

/* Answering */

static struct answers_question ON_LANE
question_of(const struct exchange *x)
{
    const struct edge_resembling *r = &x->caching.resembling;

    return (struct answers_question){
        .kin = r->kin,
        .tenant = x->caching.key.tenant,
        .model = x->caching.key.model,
        .guard = r->guard,
        .vector = r->vector,
        .permille = r->permille,
    };
}

/* NULL: no memory. */
static struct answers_kept *
copy_of(const struct answers_kept *answer, uint32_t permille)
{
    struct answers_kept *copy = answers_kept_new(answer->len);

    if (copy != NULL) {
        memcpy(copy->type, answer->type, sizeof(copy->type));
        memcpy(copy->body, answer->body, answer->len);
        copy->alike = permille;
    }
    return copy;
}

/* Gives x a copy of the answer of that key. False: it is gone. */
static bool ON_LANE
take_answer(struct exchange *x, const struct answers_key *key,
            uint32_t permille)
{
    struct lane *lane = x->client->lane;
    struct answers *cache = lane->node->answers;
    struct answers_asker asker = {.lane = lane->number};
    uint64_t now_us = lane_now_us(lane);
    struct answers_got got;

    if (answers_ask(cache, key, &asker, now_us, &got) != ANSWERS_HIT) {
        return false;
    }
    uint64_t since_us = got.answer->since_us;
    uint64_t age_us =
        got.answer->age_us + (now_us > since_us ? now_us - since_us : 0);
    struct answers_kept *copy = copy_of(got.answer, permille);
    answers_give_back(cache, key, got.answer);
    if (copy == NULL) {
        return false;
    }
    counter_add(&answers_asked(cache)->alike, 1);
    caching_found(x, copy, age_us);
    return true;
}

/* x has its vector. True: it was answered, and is gone. */
static bool ON_LANE
find(struct exchange *x)
{
    struct answers *cache = x->client->lane->node->answers;
    struct answers_asked *asked = answers_asked(cache);
    struct answers_question question = question_of(x);
    enum answers_alike found = ANSWERS_UNLIKE;
    struct answers_key key;
    uint32_t permille;

    for (unsigned i = 0; i < TRIES_MAX; i++) {
        found = answers_find_alike(cache, &question, &key, &permille);
        if (found != ANSWERS_ALIKE) {
            break;
        }
        /* The question's vector goes with x. */
        answers_touch_alike(cache, &question, &key, false);
        if (take_answer(x, &key, permille)) {
            return true;
        }
        answers_touch_alike(cache, &question, &key, true);
    }
    counter_add(found == ANSWERS_GUARDED ? &asked->guarded : &asked->unlike, 1);
    return false;
}

/* Asking */

/* False: it is in a language that the guard does not know. */
static bool
set_guard(struct exchange *x)
{
    struct edge_resembling *r = &x->caching.resembling;
    char room[ANSWERS_QUESTION_MAX];
    struct slice text = {room,
                         scan_unescape(x->body.ptr + r->at, r->len, room)};

    r->guard = answers_guard(text);
    return content_language_of(text) == CONTENT_EN;
}

static void
on_vector(void *context, const struct httpc_answer *answer)
{
    role_is_lane();
    struct exchange *x = context;
    struct lane *lane = x->client->lane;
    struct edge_resembling *r = &x->caching.resembling;
    struct answers_asked *asked = answers_asked(lane->node->answers);

    r->vector = vectors_answered(lane, EDGE_EMBEDS_ANSWERS, &r->call, answer);
    if (r->vector == NULL) {
        bool late = answer->outcome == HTTPC_TIMEOUT;
        counter_add(late ? &asked->late : &asked->failed, 1);
    }
    if (r->vector == NULL || x->caching.anew || !find(x)) {
        caching_go_on(x);
    }
}

/* Calls the worker. False: it could not be. */
static bool ON_LANE
call(struct exchange *x, const struct fleet_worker *worker)
{
    struct lane *lane = x->client->lane;
    struct edge_resembling *r = &x->caching.resembling;
    struct embedding_ask ask = {
        .model = lane->answer_cache.semantic_model,
        .text = {x->body.ptr + r->at, r->len},
        .raw = true,
        .timeout_ms = lane->answer_cache.semantic_wait_ms,
        .context = x,
        .done = on_vector,
    };

    return vectors_call(lane, EDGE_EMBEDS_ANSWERS, &r->call, worker, ask);
}

/* Asks a worker. The guard costs more than all else of a short request, so it
 * waits until there is somebody to ask. */
static bool ON_LANE
ask_worker(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct node_shared *node = lane->node;
    struct edge_resembling *r = &x->caching.resembling;
    struct slice name = slice_of(lane->answer_cache.semantic_model);
    bool asked = false;
    bool other = false;

    qsbr_online(&node->qsbr, lane->shared->reader);
    const struct fleet_view *view = fleet_view_get(node->board);
    const struct fleet_model *model = fleet_view_model(view, name);
    const struct fleet_worker *worker =
        vectors_may(lane, EDGE_EMBEDS_ANSWERS)
            ? embedding_choose(view, model, &lane->rng)
            : NULL;
    if (worker != NULL) { /* another model's vectors are other ones */
        other = !set_guard(x);
        r->kin = answers_form_add(r->kin, model->fact[MODEL_ROOT],
                                  answers_seed(node->answers));
        asked = !other && call(x, worker);
    }
    qsbr_offline(lane->shared->reader);
    if (!asked && !other) {
        counter_add(&answers_asked(node->answers)->away, 1);
    }
    return asked;
}

bool
resembling_ask(struct exchange *x)
{
    struct edge_resembling *r = &x->caching.resembling;

    if (!r->may) {
        return false;
    }
    CHECK(r->vector == NULL);
    r->may = false;
    if (!ask_worker(x)) {
        return false;
    }
    x->read = false;
    return true;
}

void
resembling_keep(struct exchange *x)
{
    struct edge_resembling *r = &x->caching.resembling;
    struct answers_question question = question_of(x);

    if (r->vector != NULL) {
        answers_add_alike(x->client->lane->node->answers, &question,
                          &x->caching.key, r->vector);
        r->vector = NULL;
    }
}

void
resembling_forget(struct exchange *x)
{
    struct edge_resembling *r = &x->caching.resembling;

    vectors_cancel(x->client->lane, EDGE_EMBEDS_ANSWERS, &r->call);
    free(r->vector);
    r->vector = NULL;
}
