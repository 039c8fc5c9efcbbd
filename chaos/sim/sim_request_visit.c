/* A request at its node: does what dispatch.h decides, as a lane does. */
#include "chaos/sim/sim_flight_internal.h"

#include "chaos/sim/sim_router_internal.h"
#include "chaos/sim/sim_streams_internal.h"
#include "chaos/sim/sim_tenants_internal.h"
#include "index/base/role.h"

#define CONNECT_MS    300U
#define FIRST_BYTE_MS 2500U
#define STREAM_MS     4000U
#define TEXT_BLOCK    ((size_t)2 * SIM_BLOCK_TOKENS)

static void
wait_for(struct sim_world *w, struct sim_flight *f, uint64_t ms)
{
    CHECK(f->open && ms > 0);
    f->due_us = sim_now(w, f->node) + ms * SIM_MS;
    sim_flight_plan(w, f, STEP_DUE, w->time.now_us + ms * SIM_MS);
}

/* As the tokenizer would have left it in the scratch; some are not known by
 * their tokens. */
static void
read_prompt(struct sim_world *w, const struct sim_flight *f)
{
    struct route_scratch *scratch = &w->nodes[f->node].router->scratch;
    static uint64_t keys[SIM_PROMPT_BLOCKS];
    uint32_t tokens[SIM_PROMPT_TOKENS];
    uint64_t root = key_token_root(SLICE(""), SLICE(""));
    uint32_t blocks = f->prompt.len / SIM_BLOCK_TOKENS;
    struct token_prompt prompt = {
        .tokens = f->prompt.len,
        .whole = true,
        .groups_count = 1,
        .groups = {{.grain = SIM_BLOCK_TOKENS, .count = blocks, .keys = keys}},
    };

    sim_prompt_tokens(&f->prompt, tokens);
    route_read_nothing(scratch);
    scratch->blocks.root = rng_mix(root);
    scratch->blocks.prefix_key = f->prompt.family;
    scratch->blocks.count = f->prompt.len / TEXT_BLOCK;
    (void)key_chain(scratch->blocks.root, tokens, scratch->blocks.count,
                    TEXT_BLOCK * sizeof *tokens, scratch->blocks.keys);
    if (f->probe || f->number % 8 != 0) {
        (void)key_chain(root, tokens, blocks, SIM_BLOCK_TOKENS * sizeof *tokens,
                        keys);
        token_match_set(&scratch->tokens, root, &prompt);
    }
}

/* The request has ended at the node, however it did. */
void
sim_visit_close(struct sim_world *w, struct sim_flight *f,
                enum dispatch_end end)
{
    struct dispatch_report report = {
        .end = end,
        .status = end == DISPATCH_REFUSED ? 503 : 0,
        .usage = {.prompt_tokens = f->usage.prompt_tokens,
                  .cached_tokens = f->usage.cached_tokens,
                  .cached_known = true},
        .now_us = sim_now(w, f->node),
    };

    CHECK(f->open);
    role_is_lane();
    sim_wait_end(w, f);
    dispatch_end(&f->dispatch, &report);
    sim_router_told(w, f->node);
    if (f->running) {
        engine_cancel(&w->engines[f->engine].engine, f->ticket, w->time.now_us);
        f->running = false;
    }
    f->open = false;
    f->stamp++;
    CHECK(!f->dispatch.choice.lease.taken && !f->running);
}

static void
refuse(struct sim_world *w, struct sim_flight *f)
{
    bool tried = f->dispatch.refusal == DISPATCH_ALL_FAILED;
    bool waited = f->dispatch.refusal == DISPATCH_QUEUE_LATE ||
                  f->dispatch.refusal == DISPATCH_QUEUE_FULL;

    sim_visit_close(w, f, DISPATCH_REFUSED);
    if (f->wanted) {
        sim_client_end(w, f,
                       waited  ? sim_client_waited
                       : tried ? "all attempts failed"
                               : "no worker is free");
    }
}

/* The answer broke off after its head. */
static void
sever(struct sim_world *w, struct sim_flight *f)
{
    sim_saw(w, SIM_SAW_BROKEN_OFF, 1);
    if (f->streams) {
        sim_stream_severed(w, f);
    }
    sim_visit_close(w, f, DISPATCH_SEVERED);
    if (f->wanted) {
        sim_client_end(w, f, "the answer broke off");
    }
}

static void
elect(struct sim_world *w, struct sim_flight *f)
{
    struct sim_node *n = &w->nodes[f->node];

    CHECK(f->open && f->life == n->life);
    role_is_lane();
    read_prompt(w, f);
    qsbr_online(&n->qsbr, n->router->reader);
    struct route_world world = sim_router_world(w, f->node);
    world.placed = f->wait.placed;
    world.place = f->wait.place;
    dispatch_elect(&f->dispatch, &world, 0);
    qsbr_offline(n->router->reader);
    f->elsewhere =
        world.placed && f->dispatch.choice.lease.slot != f->wait.place;
    sim_wait_end(w, f);
    dispatch_elected(&f->dispatch, sim_now(w, f->node));
    sim_router_told(w, f->node);
}

static void
note_choice(struct sim_world *w, const struct sim_flight *f)
{
    const struct route_choice *choice = &f->dispatch.choice;
    uint32_t slot = choice->lease.slot;

    sim_saw(w, SIM_SAW_AFFINITY, choice->elect.mode == ELECT_AFFINITY);
    sim_saw(w, SIM_SAW_BALANCE, choice->elect.mode == ELECT_BALANCE);
    sim_saw(w, SIM_SAW_IMBALANCED, choice->elect.imbalanced);
    sim_saw(w, SIM_SAW_RETRIED, f->dispatch.attempts_count > 0);
    sim_trace(w, "elect", f->node, f->number << 8 | slot);
    sim_hash(w, f->number << 8 | slot);
    if ((f->failed_at >> slot & 1) != 0) {
        sim_fail(w, "a worker that failed is tried again", f->node, slot);
    }
}

void
sim_visit_connected(struct sim_world *w, struct sim_flight *f)
{
    role_is_lane();
    dispatch_connected(&f->dispatch);
    dispatch_sent(&f->dispatch);
    wait_for(w, f, FIRST_BYTE_MS);
}

static void
send_request(struct sim_world *w, struct sim_flight *f)
{
    note_choice(w, f);
    f->engine = f->dispatch.choice.lease.slot;
    f->stamp++;
    f->came_us = 0;
    f->breaks = false;
    f->mute = false;
    f->usage = (struct engine_usage){.prompt_tokens = 0};
    sim_flight_plan(w, f, STEP_SUBMIT, w->time.now_us + sim_flight_way_us(w));
    if (w->nodes[f->node].severed[f->engine]) {
        wait_for(w, f, CONNECT_MS);
    } else {
        sim_visit_connected(w, f);
    }
}

/* Carries out the due action, as exchange.c does with sockets. */
static void
run(struct sim_world *w, struct sim_flight *f)
{
    role_is_lane();
    for (;;) {
        switch (dispatch_next(&f->dispatch)) {
        case DISPATCH_ELECT:
            elect(w, f);
            break;
        case DISPATCH_CONNECT:
            send_request(w, f);
            break;
        case DISPATCH_REFUSE:
            refuse(w, f);
            return;
        case DISPATCH_SEVER:
            sever(w, f);
            return;
        case DISPATCH_QUEUE:
            CHECK(w->tenants != NULL && w->tenants->places != 0);
            sim_wait_begin(w, f);
            break;
        case DISPATCH_RENAME:
            CHECK(false && "models have one name each here");
            return;
        case DISPATCH_PREFILL:
            CHECK(false && "engines have no roles here");
            return;
        case DISPATCH_YIELD:
            CHECK(false && "nodes take no turns here");
            return;
        case DISPATCH_ASK:
            CHECK(false && "tokens come with the prompt");
            return;
        case DISPATCH_WAIT:
            return;
        }
    }
}

/* The connection to the engine is gone. */
static void
hang_up(struct sim_world *w, struct sim_flight *f)
{
    if (f->running) {
        engine_cancel(&w->engines[f->engine].engine, f->ticket, w->time.now_us);
        f->running = false;
    }
    f->failed_at |= 1U << f->engine;
    f->stamp++;
    CHECK(!f->running);
}

void
sim_visit_fail(struct sim_world *w, struct sim_flight *f,
               enum dispatch_fault fault)
{
    struct dispatch_failure failure = {.fault = fault, .status = 503};

    role_is_lane();
    hang_up(w, f);
    dispatch_failed(&f->dispatch, &failure);
    sim_router_told(w, f->node);
    run(w, f);
}

void
sim_visit_head(struct sim_world *w, struct sim_flight *f)
{
    uint64_t now_us = sim_now(w, f->node);

    CHECK(f->open && (!f->headed || f->dispatch.resumed != 0));
    role_is_lane();
    dispatch_answered(&f->dispatch, 200, now_us);
    dispatch_began(&f->dispatch, now_us); /* the first token is there */
    sim_router_told(w, f->node);
    f->headed = true;
    if (f->streams) {
        sim_stream_head(w, f);
    }
    wait_for(w, f, STREAM_MS);
    CHECK(f->dispatch.choice.lease.taken);
}

void
sim_visit_token(struct sim_world *w, struct sim_flight *f)
{
    CHECK(f->open && f->streams);
    sim_stream_token(w, f);
    wait_for(w, f, STREAM_MS);
}

static void
judge_prediction(struct sim_world *w, const struct sim_flight *f)
{
    const struct route_choice *choice = &f->dispatch.choice;
    bool exact = choice->exact && sim_check_is_whole(w, f->engine);
    uint32_t promised = choice->best.tokens;

    CHECK(f->usage.cached_tokens <= f->usage.prompt_tokens);
    sim_saw(w, SIM_SAW_PREDICTED, promised != 0);
    if (exact && promised != f->usage.cached_tokens) {
        sim_fail(w, "an engine did not find what was predicted", f->node,
                 f->engine);
    }
}

/* The client has all of the answer. */
static void
close_whole(struct sim_world *w, struct sim_flight *f)
{
    f->running = false;
    sim_visit_close(w, f, DISPATCH_DONE);
    if (f->wanted) {
        if (f->streams) {
            sim_stream_judge(w, f);
        }
        w->requests->probes += f->probe;
        sim_client_end(w, f, NULL);
    }
    CHECK(!f->open);
}

void
sim_visit_end(struct sim_world *w, struct sim_flight *f)
{
    if (f->dispatch.state != DISPATCH_STREAMING) { /* it stalled, and came with
                                                      the rest */
        sim_visit_head(w, f);
    }
    if (f->probe) {
        judge_prediction(w, f);
    }
    if (f->streams) {
        sim_stream_rest(w, f);
    }
    close_whole(w, f);
}

/* The connection that the answer came by is gone, as exchange_broke_off() has
 * it. */
static void
break_off(struct sim_world *w, struct sim_flight *f)
{
    role_is_lane();
    if (f->streams) {
        sim_stream_tear(w, f);
        hang_up(w, f);
        if (sim_stream_is_all(w, f)) {
            close_whole(w, f);
            return;
        }
        if (sim_stream_asks(w, f)) {
            dispatch_resumes(&f->dispatch);
            sim_router_told(w, f->node);
            run(w, f);
            return;
        }
    }
    dispatch_broke_off(&f->dispatch);
    run(w, f);
}
void
sim_visit_begin(struct sim_world *w, struct sim_flight *f)
{
    struct sim_node *n = &w->nodes[f->node];

    if (!n->up) {
        sim_client_send_again(w, f, "no connection");
        return;
    }
    role_is_lane();
    f->open = true;
    CHECK(f->wanted);
    f->life = n->life;
    f->failed_at = 0;
    f->wait.id = 0;
    f->wait.deadline_us = 0;
    f->wait.placed = false;
    dispatch_init(&f->dispatch, &n->router->dispatch, sim_now(w, f->node));
    f->dispatch.tenant = f->tenant;
    f->dispatch.routed = true;
    if (f->streams) {
        sim_stream_open(w, f);
    }
    dispatch_start(&f->dispatch, false);
    run(w, f);
}

void
sim_visit_due(struct sim_world *w, struct sim_flight *f)
{
    if (f->due_us > sim_now(w, f->node)) {
        return; /* something came meanwhile */
    }
    role_is_lane();
    if (f->dispatch.state == DISPATCH_QUEUED) {
        sim_wait_due(w, f);
        run(w, f);
        return;
    }
    if (f->streams && f->dispatch.state == DISPATCH_STREAMING) {
        break_off(w, f);
        return;
    }
    hang_up(w, f);
    dispatch_expired(&f->dispatch);
    sim_router_told(w, f->node);
    run(w, f);
}

void
sim_visit_told(struct sim_world *w, struct sim_flight *f)
{
    sim_wait_told(w, f);
    run(w, f);
}

void
sim_visit_severed(struct sim_world *w, struct sim_flight *f)
{
    CHECK(f->open);
    if (f->dispatch.state == DISPATCH_STREAMING) {
        break_off(w, f);
    } else {
        sim_visit_fail(w, f, DISPATCH_CLOSED);
    }
}

void
sim_request_node_gone(struct sim_world *w, uint32_t node)
{
    for (uint32_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        struct sim_flight *f = &w->requests->flights[i];
        if (!f->open || f->node != node) {
            continue;
        }
        if (f->running) {
            engine_cancel(&w->engines[f->engine].engine, f->ticket,
                          w->time.now_us);
            f->running = false;
        }
        f->dispatch.choice.lease.taken = false;
        f->wait.id = 0;
        f->open = false;
        f->stamp++;
        if (f->wanted) {
            sim_flight_plan_client(w, f, STEP_LOST,
                                   w->time.now_us + sim_flight_way_us(w));
        }
    }
}

void
sim_request_jump(struct sim_world *w, uint32_t node)
{
    for (uint32_t i = 0; w->requests != NULL && i < SIM_FLIGHTS_MAX; i++) {
        const struct sim_flight *f = &w->requests->flights[i];
        if (f->open && f->node == node) {
            sim_flight_plan(w, f, STEP_DUE, w->time.now_us);
        }
    }
}
