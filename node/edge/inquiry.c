/*
 * A request's tokens: made by this node where it has the model's files
 * (inquiry_local.c); else found in the node's cache of conversations, or asked
 * of an engine that could serve it, and never waited for longer than
 * tokens.wait. A late answer is remembered for the next turn.
 *
 * If little of the text is new, an earlier turn of the conversation is enough
 * to proceed at once, because no worker holds blocks that were never sent; the
 * rest is then asked for beside the request. dispatch.c decides whether waiting
 * is worth it.
 */
#include <stdlib.h>

#include "node/base/log.h"
#include "node/edge/inquiry_internal.h"
#include "node/local/local_table.h"

#define NEW_TEXT_PART    4U /* ask and wait when over 1/4 of the text is new */
#define ASK_CONNECTIONS  8U /* kept, per worker */
#define ASK_AGAIN_MS     30000U
#define ASK_ANSWER_BYTES ((size_t)64 << 20)

int
inquiry_lane_init(struct lane *lane)
{
    const struct config_tokens *config = &lane->node->config->tokens;
    struct token_ask_limits limits = {
        .open_max = config->open_max,
        .connections_max = ASK_CONNECTIONS,
        .timeout_ms = config->timeout_ms,
        .answer_bytes_max = ASK_ANSWER_BYTES,
        .copied_bytes_max = lane->node->config->limits.body_bytes_max,
        .retry_ms = ASK_AGAIN_MS,
    };

    return config->wait_ms == 0
               ? 0
               : token_ask_new(&lane->token_ask, &lane->loop, &limits);
}

static void
unlink_inquiry(struct inquiry *inquiry)
{
    *inquiry->prev = inquiry->next;
    if (inquiry->next != NULL) {
        inquiry->next->prev = inquiry->prev;
    }
}

void
inquiry_drop(struct inquiry *inquiry)
{
    inquiry_differ_end(inquiry, NULL);
    unlink_inquiry(inquiry);
    free(inquiry);
}

void
inquiry_lane_close(struct lane *lane)
{
    if (lane->token_ask != NULL) {
        token_ask_free(lane->token_ask); /* no answer follows */
        lane->token_ask = NULL;
    }
    struct inquiry *next;
    for (struct inquiry *i = lane->inquiries; i != NULL; i = next) {
        next = i->next;
        CHECK(i->x == NULL);
        if (i->job != NULL) {
            inquiry_cancel_job(i->job); /* the loop runs on until it ends */
        } else {
            inquiry_drop(i);
        }
    }
}

void
inquiry_lane_fini(struct lane *lane)
{
    CHECK(lane->inquiries == NULL);
    tokenizer_ids_fini(&lane->local_answer.ids);
}

/* What is known */

uint32_t
inquiry_grains(const struct mirror_view *view,
               uint32_t grains[MIRROR_GROUPS_MAX])
{
    for (uint32_t i = 0; i < view->groups_count; i++) {
        grains[i] = view->groups[i].grain;
    }
    return view->groups_count;
}

/* Whether so little of the conversation is new that asking can wait. */
static bool
is_enough(const struct conversation *conversation,
          const struct token_prompt *prompt)
{
    uint64_t all = conversation->bytes[conversation->count - 1];

    return prompt->whole ||
           (all - prompt->covered_bytes) * NEW_TEXT_PART <= all;
}

/* Whether an engine could tell no more; what is longer than belief.depth_max is
 * never whole. */
static bool
is_all(const struct conversation *conversation,
       const struct token_prompt *prompt)
{
    uint32_t last = conversation->count - 1;

    return prompt->whole ||
           (prompt->name == conversation->keys[last] &&
            prompt->covered_bytes >= conversation->bytes[last]);
}

enum knowledge {
    KNOWN_NOTHING, /* worth asking and waiting */
    KNOWN_ENOUGH,  /* proceed; ask for the rest beside the request */
    KNOWN_ALL,     /* or not to be asked */
};

/* From the node's memory into the scratch. name_root: what the conversation is
 * named under. */
static enum knowledge
recall(struct lane *lane, const struct route_world *world, struct slice body,
       uint64_t root, uint64_t name_root)
{
    struct route_scratch *route = &lane->route;
    uint32_t grains[MIRROR_GROUPS_MAX];
    uint32_t grains_count = inquiry_grains(world->tokens.view, grains);
    struct token_room room = {
        .keys = route->tokens.keys,
        .count_max = route->tokens.depth_max,
    };
    struct token_prompt prompt;

    if (route->scan.shape == SCAN_ID_LIST ||
        route->scan.shape == SCAN_ID_LISTS) {
        token_match_read_ids(&route->tokens, world->tokens.view, root, body.ptr,
                             &route->scan);
        return KNOWN_ALL;
    }
    conversation_name(&route->conversation, body.ptr, &route->scan, name_root);
    if (route->conversation.count == 0) {
        return KNOWN_ALL;
    }
    if (!token_cache_find(lane->node->token_cache, &route->conversation, grains,
                          grains_count, &room, &prompt)) {
        return KNOWN_NOTHING;
    }
    token_match_set(&route->tokens, root, &prompt);
    if (is_all(&route->conversation, &prompt)) {
        return KNOWN_ALL;
    }
    return is_enough(&route->conversation, &prompt) ? KNOWN_ENOUGH
                                                    : KNOWN_NOTHING;
}

/* Asking */

/* Shows what asking has counted. */
static void
show_counts(struct lane *lane)
{
    struct metrics_lane *m = &lane->shared->metrics;
    struct token_ask_stats asked = {.open = 0}; /* no engine is asked */

    if (lane->token_ask != NULL) {
        asked = token_ask_stats(lane->token_ask);
    }
    uint64_t told = asked.timed_out + asked.too_large;
    counter_set(&m->tokens_failed,
                asked.failed > told ? asked.failed - told : 0);
    counter_set(&m->tokens_refused, asked.refused);
    counter_set(&m->tokens_unable, asked.unable);
    counter_set(&m->tokens_timed_out, asked.timed_out);
    counter_set(&m->tokens_too_large, asked.too_large);
    counter_set(&m->tokens_busy, asked.busy);
    counter_set(&m->tokens_open, asked.open);
    counter_set(&m->tokens_connections, asked.idle);
}

static void
remember(struct inquiry *inquiry, const struct token_answer *answer)
{
    struct lane *lane = inquiry->lane;
    struct metrics_lane *m = &lane->shared->metrics;

    histogram_add(&m->tokens, lane_clock_us() - inquiry->asked_us);
    if (answer->outcome != TOKEN_OK) {
        return;
    }
    struct token_text prompt = {answer->tokens, answer->count, answer->media};
    token_cache_add(lane->node->token_cache, &inquiry->conversation,
                    inquiry->root, &prompt, inquiry->grains,
                    inquiry->grains_count);
}

void
inquiry_answer(struct inquiry *inquiry, const struct token_answer *answer)
{
    struct exchange *x = inquiry->x;

    inquiry_differ_end(inquiry, answer);
    remember(inquiry, answer);
    show_counts(inquiry->lane);
    unlink_inquiry(inquiry);
    if (x != NULL) {
        x->inquiry = NULL;
        x->remembered = 0; /* what it goes by is new */
        exchange_answered_tokens(x);
    }
    free(inquiry);
}

static void
on_answer(void *context, const struct token_answer *answer)
{
    role_is_lane();
    inquiry_answer(context, answer);
}

/* A worker that could serve the request and can tokenize; of this node's island,
 * if there is one. */
static uint32_t
choose_engine(struct lane *lane, const struct route_world *world)
{
    const struct fleet_board *board = lane->node->board;
    struct worker_set foreign;
    struct worker_set able = route_servers(&lane->route, world, &foreign);
    uint32_t chosen = WORKER_NONE;
    bool inside = false;
    uint64_t seen = 0;

    able = worker_set_and(&able, &world->view->eligible);
    WORKER_SET_EACH (slot, &able) {
        bool crosses = gauge_read(&board->crosses[slot]) != 0;
        if ((crosses && inside) ||
            !token_ask_able(lane->token_ask, world->view->worker[slot],
                            lane->route.scan.api)) {
            continue;
        }
        if (!crosses && !inside) {
            inside = true;
            seen = 0;
        }
        if (rng_below(&lane->rng, ++seen) == 0) {
            chosen = slot;
        }
    }
    return chosen;
}

struct inquiry *
inquiry_new(struct lane *lane, const struct route_world *world, uint64_t root)
{
    const struct conversation *from = &lane->route.conversation;
    struct inquiry *inquiry = malloc(sizeof(*inquiry));

    if (inquiry == NULL) {
        return NULL;
    }
    inquiry->lane = lane;
    inquiry->x = NULL;
    inquiry->question = NULL;
    inquiry->job = NULL;
    inquiry->ours = NULL;
    inquiry->root = root;
    inquiry->asked_us = lane_clock_us();
    inquiry->grains_count = inquiry_grains(world->tokens.view, inquiry->grains);
    inquiry->conversation.count = from->count;
    memcpy(inquiry->conversation.keys, from->keys,
           from->count * sizeof(*from->keys));
    memcpy(inquiry->conversation.bytes, from->bytes,
           from->count * sizeof(*from->bytes));
    return inquiry;
}

void
inquiry_enter(struct inquiry *inquiry)
{
    struct lane *lane = inquiry->lane;

    inquiry->next = lane->inquiries;
    inquiry->prev = &lane->inquiries;
    if (inquiry->next != NULL) {
        inquiry->next->prev = &inquiry->next;
    }
    lane->inquiries = inquiry;
}

/* The question's answer will be remembered; NULL: no engine was asked. */
static struct inquiry *ON_LANE
ask(struct lane *lane, const struct route_world *world, struct slice body,
    uint64_t root)
{
    uint32_t engine =
        lane->token_ask != NULL ? choose_engine(lane, world) : WORKER_NONE;

    if (engine == WORKER_NONE) {
        return NULL;
    }
    struct inquiry *inquiry = inquiry_new(lane, world, root);
    if (inquiry == NULL) {
        return NULL;
    }
    int outcome = token_ask_start(lane->token_ask, &inquiry->question,
                                  world->view->worker[engine], body,
                                  &lane->route.scan, inquiry, on_answer);
    show_counts(lane);
    if (outcome != 0) {
        free(inquiry);
        return NULL;
    }
    counter_bump(&lane->shared->metrics.tokens_asked, 1);
    inquiry_enter(inquiry);
    return inquiry;
}

/* Counts what a new request found in the cache. */
static void
count_known(struct lane *lane)
{
    const struct route_scratch *route = &lane->route;
    struct metrics_lane *m = &lane->shared->metrics;
    bool ids =
        route->scan.shape == SCAN_ID_LIST || route->scan.shape == SCAN_ID_LISTS;

    if (route->tokens.known && !ids) {
        counter_bump(route->tokens.prompt.whole ? &m->tokens_known
                                                : &m->tokens_known_part,
                     1);
    }
}

/* Asks an engine unless enough is known. True: x waits. */
static bool ON_LANE
ask_engine(struct exchange *x, const struct route_world *world, uint64_t root)
{
    struct lane *lane = x->client->lane;
    struct route_scratch *route = &lane->route;
    enum knowledge known = recall(lane, world, x->body, root, root);
    struct inquiry *inquiry = NULL;

    count_known(lane);
    x->remembered = route->tokens.known ? route->tokens.prompt.name : 0;
    if (known != KNOWN_ALL && route_makes_tokens(world)) {
        inquiry = ask(lane, world, x->body, root);
    }
    if (inquiry == NULL || known == KNOWN_ENOUGH) {
        return false;
    }
    inquiry->x = x;
    x->inquiry = inquiry;
    return true;
}

/* Makes the tokens here. What cannot be had here is asked of an engine, but
 * not what would only take too long. True: x waits. */
static bool ON_LANE
make_here(struct exchange *x, const struct route_world *world,
          const struct inquiry_source *source, uint64_t root)
{
    struct lane *lane = x->client->lane;

    conversation_name(&lane->route.conversation, x->body.ptr, &lane->route.scan,
                      source->name_root);
    switch (inquiry_local(x, world, source, root)) {
    case INQUIRY_DONE:
    case INQUIRY_FULL:
        (void)recall(lane, world, x->body, root, source->name_root);
        return false;
    case INQUIRY_WAITS:
        return true;
    case INQUIRY_REFUSED:
        break;
    }
    counter_add(&local_model_counts(source->model)->asked, 1);
    bool waits = ask_engine(x, world, root);
    inquiry_differ_begin(x, source);
    return waits;
}

bool
inquiry_begin(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct node_shared *node = lane->node;
    struct route_scratch *route = &lane->route;
    struct inquiry_source source;
    struct elect_config own;
    bool waits = false;

    CHECK(x->inquiry == NULL && x->dispatch.routed);
    qsbr_online(&node->qsbr, lane->shared->reader);
    struct route_world world = shared_world(
        node,
        shared_elect_for(&lane->elect, &lane->policies, route->model, &own));
    world.residency = x->client->framing.admission.residency.islands;
    uint64_t root = route_token_root(route, x->body.ptr, world.view);
    inquiry_find_source(x, &world, root, &source);
    if (route_wants_tokens(route, &world)) {
        waits = source.model != NULL && route_makes_tokens(&world)
                    ? make_here(x, &world, &source, root)
                    : ask_engine(x, &world, root);
    }
    qsbr_offline(lane->shared->reader);
    return waits;
}

bool
inquiry_is_local(const struct exchange *x)
{
    return x->inquiry != NULL && x->inquiry->job != NULL;
}

void
inquiry_recall(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct node_shared *node = lane->node;
    struct inquiry_source source;

    CHECK(x->dispatch.routed);
    qsbr_online(&node->qsbr, lane->shared->reader);
    struct route_world world = shared_world(node, &lane->elect);
    world.residency = x->client->framing.admission.residency.islands;
    uint64_t root = route_token_root(&lane->route, x->body.ptr, world.view);
    inquiry_find_source(x, &world, root, &source);
    if (route_wants_tokens(&lane->route, &world)) {
        (void)recall(lane, &world, x->body, root,
                     x->local_version != 0 ? source.name_root : root);
    }
    qsbr_offline(lane->shared->reader);
}

void
inquiry_cancel(struct exchange *x)
{
    struct inquiry *inquiry = x->inquiry;

    inquiry_leave(x);
    if (inquiry != NULL && inquiry->job != NULL) {
        inquiry_cancel_job(inquiry->job);
    }
}

/* No engine may be taken at its word about one prompt: another request may have
 * filled its cache meanwhile. But where it never had what was predicted, and
 * always more, the ids are other ones. */
static bool
judge_cache(struct local_model *model, const struct exchange *x,
            const struct usage *usage)
{
    const struct route_choice *choice = &x->dispatch.choice;

    if (!choice->exact || x->dispatch.several || !usage->cached_known ||
        usage->cached_tokens == 0) {
        return true;
    }
    return local_model_judge(model, x->local_way,
                             choice->best.tokens == usage->cached_tokens,
                             choice->best.tokens < usage->cached_tokens);
}

static void
distrust(struct local_model *model, const struct exchange *x,
         const struct usage *usage)
{
    if (local_model_distrust(model, x->local_way)) {
        LOG_ERROR(
            "tokens_differ", KV("model", local_model_name(model)),
            KV("way", local_way_name(x->local_way)),
            KV("ours", x->local_tokens), KV("engine", usage->prompt_tokens),
            KV("predicted", x->dispatch.choice.best.tokens),
            KV("cached", usage->cached_tokens), KV("request", x->dispatch.id),
            KV("hint",
               "engines are asked for these prompts from now on; compare "
               "the files with the engine's, and its flags"));
    }
}

static void
judge_model(struct local_model *model, const struct exchange *x,
            const struct usage *usage)
{
    bool alike = usage->prompt_tokens == x->local_tokens;
    bool counted = local_model_counted(model, x->local_way, alike);
    bool cached = !alike || judge_cache(model, x, usage);

    if (!alike || !cached) {
        counter_bump(&x->client->lane->shared->metrics.tokens_local_wrong, 1);
        counter_add(&local_model_counts(model)->wrong, 1);
    }
    if (!counted || !cached) {
        distrust(model, x, usage);
    }
}

/* The engine counted the prompt's tokens, and so did this node. */
static void
judge_tokens(const struct exchange *x, const struct usage *usage)
{
    struct lane *lane = x->client->lane;

    if (x->local_version == 0 || x->local_tokens == 0 ||
        usage->prompt_tokens == 0) {
        return;
    }
    qsbr_online(&lane->node->qsbr, lane->shared->reader);
    const struct local_table *table = publish_get(&lane->node->local);
    for (uint32_t i = 0; table != NULL && i < table->count; i++) {
        if (local_model_version(table->model[i]) == x->local_version) {
            judge_model(table->model[i], x, usage);
        }
    }
    qsbr_offline(lane->shared->reader);
}

void
inquiry_judge(const struct exchange *x, const struct usage *usage)
{
    const struct route_choice *choice = &x->dispatch.choice;
    struct lane *lane = x->client->lane;

    judge_tokens(x, usage);
    if (x->remembered != 0 && choice->exact && usage->cached_known &&
        choice->best.tokens > usage->cached_tokens) {
        token_cache_forget(lane->node->token_cache, x->remembered);
        counter_bump(&lane->shared->metrics.tokens_wrong, 1);
    }
}

void
inquiry_leave(struct exchange *x)
{
    if (x->inquiry != NULL) {
        x->inquiry->x = NULL;
        x->inquiry = NULL;
    }
}

void
inquiry_forget(struct exchange *x)
{
    inquiry_leave(x);
    inquiry_ended(x, NULL);
    x->remembered = 0;
    x->local_version = 0;
}
