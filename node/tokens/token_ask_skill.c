/*
 * What each worker's renderer can do: learnt from answers and refusals, and
 * forgotten after a while, so that an engine that was upgraded is asked again.
 */
#include "node/tokens/token_ask_internal.h"

#define REFUSALS_MAX 4U
#define FAILURES_MAX 4U

void
ask_slot_renew(struct token_ask *ask, uint32_t slot, uint32_t generation)
{
    CHECK(slot < WORKERS_MAX);
    struct ask_slot *s = &ask->slots[slot];

    if (s->generation < generation) {
        ask_conn_close_idle(s);
        *s = (struct ask_slot){.generation = generation, .taken = s->taken};
    }
}

/* Knowledge of a worker expires. */
static bool
is_known(const struct token_ask *ask, const struct ask_skill *skill)
{
    return skill->way != ASK_RENDER && uv_now(ask->loop) < skill->until_ms;
}

enum ask_way
ask_way_now(const struct token_ask *ask, uint32_t slot, uint32_t generation,
            enum scan_api api)
{
    CHECK(slot < WORKERS_MAX && api < SCAN_APIS);
    const struct ask_slot *s = &ask->slots[slot];

    if (api == SCAN_API_EMBEDDINGS) {
        return ASK_NOTHING;
    }
    if (s->generation != generation) {
        return ASK_RENDER;
    }
    if (uv_now(ask->loop) < s->rest_until_ms) {
        return ASK_NOTHING;
    }
    return is_known(ask, &s->skill[api]) ? s->skill[api].way : ASK_RENDER;
}

/* /tokenize knows chats and texts alone. */
static enum ask_way
way_after(enum scan_api api, enum ask_way way)
{
    bool known = api == SCAN_API_CHAT || api == SCAN_API_TEXT;

    CHECK(way < ASK_NOTHING);
    return way == ASK_RENDER && known ? ASK_TOKENIZE : ASK_NOTHING;
}

enum ask_way
ask_way_after(const struct token_question *q)
{
    return q->strict ? ASK_NOTHING : way_after(q->api, q->way);
}

/* Where to keep what q taught; NULL: the worker is another by now, or that
 * way was given up meanwhile. */
static struct ask_skill *
skill_of(const struct token_question *q)
{
    struct ask_slot *s = &q->ask->slots[q->slot];
    struct ask_skill *skill = &s->skill[q->api];

    CHECK(q->way < ASK_NOTHING);
    if (s->generation != q->generation) {
        return NULL;
    }
    if (q->way == ASK_RENDER && skill->way != ASK_RENDER &&
        !is_known(q->ask, skill)) {
        *skill = (struct ask_skill){.way = ASK_RENDER};
    }
    return skill->way == q->way ? skill : NULL;
}

void
ask_learn_good(const struct token_question *q)
{
    struct ask_skill *skill = skill_of(q);

    if (skill != NULL) {
        skill->proven = true;
        skill->refusals = 0;
    }
    if (q->ask->slots[q->slot].generation == q->generation) {
        q->ask->slots[q->slot].failures = 0;
    }
}

bool
ask_learn_refused(const struct token_question *q, bool missing)
{
    struct ask_slot *s = &q->ask->slots[q->slot];
    struct ask_skill *skill = skill_of(q);

    if (s->generation == q->generation) {
        s->failures = 0; /* it does answer */
    }
    if (skill == NULL) {
        return missing;
    }
    skill->refusals += missing || !skill->proven;
    if (!(missing && !skill->proven) && skill->refusals < REFUSALS_MAX) {
        return false;
    }
    *skill = (struct ask_skill){
        .way = way_after(q->api, q->way),
        .until_ms = uv_now(q->ask->loop) + q->ask->limits.retry_ms};
    return true;
}

void
ask_learn_failed(const struct token_question *q)
{
    struct ask_slot *s = &q->ask->slots[q->slot];

    if (s->generation != q->generation) {
        return;
    }
    s->failures++;
    if (s->failures >= FAILURES_MAX) {
        s->failures = 0;
        s->rest_until_ms = uv_now(q->ask->loop) + q->ask->limits.retry_ms;
    }
}
