/* The way of a request: client, node, engine and back. */
#include "chaos/sim/sim_request_internal.h"

#include <stdlib.h>

#include "chaos/sim/sim_bounds_internal.h"
#include "chaos/sim/sim_router_internal.h"
#include "index/base/role.h"

#define OURS           (UINT64_C(1) << 63) /* users of the engine */
#define STAMP_BITS     40U
#define CONNECT_MS     300U
#define FIRST_BYTE_MS  2500U
#define STREAM_MS      4000U
#define CLIENT_MS      8000U
#define STALL_MS       100U /* what is lost is sent again */
#define TEXT_BLOCK     ((size_t)2 * SIM_BLOCK_TOKENS)
#define CALM_BORN_US   UINT64_C(3000000)
#define CALM_FULL_US   UINT64_C(4000000)
#define CALM_BROKEN_US UINT64_C(12000000)

enum step {
    STEP_ARRIVE,  /* at its node */
    STEP_SUBMIT,  /* at the engine */
    STEP_HEAD,    /* of the answer, at the node */
    STEP_END,     /* of the answer, at the node */
    STEP_STATUS,  /* 503, at the node */
    STEP_SEVERED, /* the engine is gone: at the node */
    STEP_DUE,     /* the node waits no longer */
    STEP_LOST,    /* the node is gone: at the client */
    STEP_BORED,   /* the client waits no longer */
    STEP_GONE,    /* the client is gone: at the node */
};

static struct rng *
random_of(struct sim_world *w)
{
    return &w->requests->rng;
}

static uint64_t
way_us(struct sim_world *w)
{
    return 100 + rng_below(random_of(w), 400);
}

static uint32_t
slot_of(const struct sim_world *w, const struct sim_flight *f)
{
    return (uint32_t)(f - w->requests->flights);
}

static void
plan(struct sim_world *w, const struct sim_flight *f, enum step step,
     uint64_t at_us)
{
    sim_add(w, at_us, SIM_EV_FLIGHT, slot_of(w, f) | (uint32_t)step << 16,
            f->stamp);
}

/* The way of a client's own events: they are not of an attempt. */
static void
plan_client(struct sim_world *w, const struct sim_flight *f, enum step step,
            uint64_t at_us)
{
    sim_add(w, at_us, SIM_EV_FLIGHT, slot_of(w, f) | (uint32_t)step << 16,
            f->number << 8 | f->tries);
}

/* The client */

static bool
is_patient(const struct sim_flight *f)
{
    return f->patience_us == CLIENT_MS * SIM_MS;
}

static void
fail_unexcused(struct sim_world *w, const struct sim_flight *f, const char *why)
{
    const uint64_t rough = UINT64_C(1) << SIM_PAUSE | UINT64_C(1) << SIM_CRASH |
                           UINT64_C(1) << SIM_LEAVE | UINT64_C(1) << SIM_CLOCK |
                           UINT64_C(1) << SIM_RESTART | UINT64_C(1) << SIM_CUT |
                           UINT64_C(1) << SIM_SICK | UINT64_C(1) << SIM_DAY |
                           SIM_FAULTS_OF_DISKS;
    const struct sim_node *n = &w->nodes[f->node];
    bool gone = !n->up || (f->life != 0 && f->life != n->life);
    uint64_t now_us = w->time.now_us;
    uint64_t full_us = w->requests->full_us;
    bool broken = !w->quiet ? (w->faults & rough) != 0
                            : now_us - w->disturbed_us < CALM_BROKEN_US;
    bool full = full_us != 0 && now_us - full_us < CALM_FULL_US;
    bool young = now_us - n->born_us < CALM_BORN_US || f->tries > 1;

    if (f->probe) {
        sim_fail(w, why, f->node, UINT32_MAX);
    } else if (!gone && !broken && !full && !young && is_patient(f)) {
        sim_fail(w, why, f->node, UINT32_MAX);
    }
}

static void
end_client(struct sim_world *w, struct sim_flight *f, const char *why)
{
    if (!f->wanted) {
        sim_fail(w, "a request ended twice", f->node, UINT32_MAX);
        return;
    }
    f->wanted = false;
    w->requests->answered += why == NULL;
    w->requests->failed += why != NULL;
    sim_saw(w, SIM_SAW_ANSWERED, why == NULL);
    sim_saw(w, SIM_SAW_FAILED, why != NULL);
    sim_trace(w, why == NULL ? "answered" : why, f->node, f->number);
    if (why != NULL) {
        fail_unexcused(w, f, why);
    }
}

static void
set_off(struct sim_world *w, struct sim_flight *f)
{
    const struct load_target *target = load_targets_pick(
        &w->requests->targets, f->number, f->tried, f->tries, w->time.now_us);

    f->target = target->key;
    f->node = (uint32_t)(target - w->requests->targets.target);
    f->tried[f->tries++] = target->key;
    f->headed = false;
    f->life = 0;
    plan_client(w, f, STEP_ARRIVE, w->time.now_us + way_us(w));
    plan_client(w, f, STEP_BORED, w->time.now_us + f->patience_us);
}

/* Nobody took it: elsewhere, if there is an elsewhere. */
static void
send_again(struct sim_world *w, struct sim_flight *f, const char *why)
{
    load_targets_failed(&w->requests->targets, f->target, w->time.now_us);
    if (f->probe || w->requests->targets.count == 1 ||
        f->tries == SIM_TRIES_MAX) {
        end_client(w, f, why);
        return;
    }
    sim_saw(w, SIM_SAW_RESENT, 1);
    set_off(w, f);
}

static struct sim_flight *
free_flight(struct sim_world *w)
{
    for (uint32_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        struct sim_flight *f = &w->requests->flights[i];
        if (!f->wanted && !f->open) {
            uint64_t stamp = f->stamp + 1;
            *f = (struct sim_flight){.wanted = true, .stamp = stamp};
            f->number = ++w->requests->sent;
            return f;
        }
    }
    return NULL;
}

static void
ask(struct sim_world *w)
{
    struct rng *rng = random_of(w);
    struct sim_flight *f = free_flight(w);

    if (f != NULL) {
        bool leaves = sim_below(rng, 16) == 0; /* early */
        f->patience_us = leaves ? 1 + sim_below(rng, 30 * SIM_MS)
                                : CLIENT_MS * (uint32_t)SIM_MS;
        sim_prompt_draw(rng, f->number | UINT64_C(1) << 24, &f->prompt);
        set_off(w, f);
    }
}

/* The node */

static void
wait_for(struct sim_world *w, struct sim_flight *f, uint64_t ms)
{
    f->due_us = sim_now(w, f->node) + ms * SIM_MS;
    plan(w, f, STEP_DUE, w->time.now_us + ms * SIM_MS);
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
        .groups = {{.block_tokens = SIM_BLOCK_TOKENS,
                    .count = blocks,
                    .keys = keys}},
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
static void
close_node(struct sim_world *w, struct sim_flight *f, enum dispatch_end end)
{
    struct dispatch_report report = {
        .end = end,
        .status = end == DISPATCH_REFUSED ? 503 : 0,
        .usage = {.prompt_tokens = f->usage.prompt_tokens,
                  .cached_tokens = f->usage.cached_tokens,
                  .cached_known = true},
        .now_us = sim_now(w, f->node),
    };

    role_is_lane();
    dispatch_end(&f->dispatch, &report);
    sim_router_told(w, f->node);
    if (f->running) {
        engine_cancel(&w->engines[f->engine].engine, f->ticket, w->time.now_us);
        f->running = false;
    }
    f->open = false;
    f->stamp++;
}

static void
refuse(struct sim_world *w, struct sim_flight *f)
{
    bool tried = f->dispatch.refusal == DISPATCH_ALL_FAILED;

    close_node(w, f, DISPATCH_REFUSED);
    if (f->wanted) {
        end_client(w, f, tried ? "all attempts failed" : "no worker is free");
    }
}

/* The answer broke off after its head. */
static void
sever(struct sim_world *w, struct sim_flight *f)
{
    sim_saw(w, SIM_SAW_BROKEN_OFF, 1);
    close_node(w, f, DISPATCH_SEVERED);
    if (f->wanted) {
        end_client(w, f, "the answer broke off");
    }
}

static void
elect(struct sim_world *w, struct sim_flight *f)
{
    struct sim_node *n = &w->nodes[f->node];

    role_is_lane();
    read_prompt(w, f);
    qsbr_online(&n->qsbr, n->router->reader);
    struct route_world world = sim_router_world(w, f->node);
    dispatch_elect(&f->dispatch, &world);
    qsbr_offline(n->router->reader);
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
    plan(w, f, STEP_SUBMIT, w->time.now_us + way_us(w));
    if (w->nodes[f->node].cut[f->engine]) {
        wait_for(w, f, CONNECT_MS);
    } else {
        role_is_lane();
        dispatch_connected(&f->dispatch);
        wait_for(w, f, FIRST_BYTE_MS);
    }
}

/* Does what is due, as exchange.c does with sockets. */
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
}

static void
fail_attempt(struct sim_world *w, struct sim_flight *f,
             enum dispatch_fault fault)
{
    struct dispatch_failure failure = {.fault = fault, .status = 503};

    role_is_lane();
    hang_up(w, f);
    dispatch_failed(&f->dispatch, &failure);
    sim_router_told(w, f->node);
    run(w, f);
}

static void
take_head(struct sim_world *w, struct sim_flight *f)
{
    uint64_t now_us = sim_now(w, f->node);

    role_is_lane();
    dispatch_answered(&f->dispatch, 200, now_us);
    dispatch_began(&f->dispatch, now_us); /* the first token is there */
    sim_router_told(w, f->node);
    f->headed = true;
    wait_for(w, f, STREAM_MS);
}

static void
judge_prediction(struct sim_world *w, const struct sim_flight *f)
{
    const struct route_choice *choice = &f->dispatch.choice;
    bool exact = choice->exact && sim_check_is_whole(w, f->engine);
    uint32_t promised = choice->best.tokens;

    sim_saw(w, SIM_SAW_PREDICTED, promised != 0);
    if (exact && promised != f->usage.cached_tokens) {
        sim_fail(w, "an engine did not find what was predicted", f->node,
                 f->engine);
    }
}

static void
take_end(struct sim_world *w, struct sim_flight *f)
{
    bool probe = f->probe;

    if (!f->headed) { /* it stalled, and came with the rest */
        take_head(w, f);
    }
    if (probe) {
        judge_prediction(w, f);
    }
    f->running = false;
    close_node(w, f, DISPATCH_DONE);
    if (f->wanted) {
        w->requests->probes += probe;
        end_client(w, f, NULL);
    }
}

static void
arrive(struct sim_world *w, struct sim_flight *f)
{
    struct sim_node *n = &w->nodes[f->node];

    if (!n->up) {
        send_again(w, f, "no connection");
        return;
    }
    role_is_lane();
    f->open = true;
    f->life = n->life;
    f->failed_at = 0;
    dispatch_init(&f->dispatch, &n->router->dispatch, sim_now(w, f->node));
    f->dispatch.routed = true;
    dispatch_start(&f->dispatch, false);
    run(w, f);
}

static void
take_due(struct sim_world *w, struct sim_flight *f)
{
    if (f->due_us > sim_now(w, f->node)) {
        return; /* something came meanwhile */
    }
    role_is_lane();
    hang_up(w, f);
    dispatch_expired(&f->dispatch);
    sim_router_told(w, f->node);
    run(w, f);
}

static void
take_severed(struct sim_world *w, struct sim_flight *f)
{
    if (f->headed) {
        role_is_lane();
        dispatch_broke_off(&f->dispatch);
        run(w, f);
    } else {
        fail_attempt(w, f, DISPATCH_CLOSED);
    }
}

/* The engine */

static bool
is_sick(struct sim_world *w)
{
    return !w->quiet &&
           sim_chance(&w->chaos[SIM_SICK], w->requests->sick_permille) &&
           sim_may_break(w, SIM_SICK);
}

/* What an engine says is on its way, in order. */
static void
say(struct sim_world *w, struct sim_flight *f, enum step step)
{
    uint64_t at_us = w->time.now_us + way_us(w);

    f->came_us = at_us > f->came_us ? at_us : f->came_us + 1;
    plan(w, f, step, f->came_us);
}

static void
submit(struct sim_world *w, struct sim_flight *f)
{
    uint32_t tokens[SIM_PROMPT_TOKENS];
    struct engine_request request = {
        .prompt = tokens,
        .prompt_len = f->prompt.len,
        .output_len = f->prompt.output_len,
        .user = OURS | (f->stamp & ((UINT64_C(1) << STAMP_BITS) - 1)) << 16 |
                slot_of(w, f),
    };

    if (w->nodes[f->node].cut[f->engine]) {
        return; /* nobody there: it is due */
    }
    if (f->dispatch.state == DISPATCH_CONNECTING) { /* healed meanwhile */
        role_is_lane();
        dispatch_connected(&f->dispatch);
        wait_for(w, f, FIRST_BYTE_MS);
    }
    uint32_t how = is_sick(w) ? sim_below(&w->chaos[SIM_SICK], 4) : 4;
    if (how == 0) {
        say(w, f, STEP_SEVERED);
        return;
    }
    if (how == 1) {
        say(w, f, STEP_STATUS);
        return;
    }
    f->mute = how == 2;
    f->breaks = how == 3;
    sim_prompt_tokens(&f->prompt, tokens);
    f->process = w->engines[f->engine].processes_count;
    f->running = sim_engine_submit(w, f->engine, &request, &f->ticket);
    if (!f->running) {
        w->requests->full_us = w->time.now_us;
        sim_saw(w, SIM_SAW_FULL, 1);
        say(w, f, STEP_STATUS);
    }
}

void
sim_request_out(struct sim_world *w, uint32_t engine,
                const struct engine_out *out)
{
    if ((out->user & OURS) == 0) {
        return;
    }
    struct sim_flight *f = &w->requests->flights[out->user & 0xffff];
    uint64_t stamp = (out->user & ~OURS) >> 16;
    if (!f->running || f->engine != engine ||
        (f->stamp & ((UINT64_C(1) << STAMP_BITS) - 1)) != stamp) {
        sim_fail(w, "an engine answers what nobody asked", f->node, engine);
        return;
    }
    if (out->kind == ENGINE_OUT_FIRST && !f->mute) {
        say(w, f, STEP_HEAD);
        if (f->breaks) {
            say(w, f, STEP_SEVERED);
        }
    } else if (out->kind == ENGINE_OUT_END) {
        f->running = false;
        f->usage = out->usage;
        if (!f->mute && !f->breaks) {
            say(w, f, STEP_END);
        }
    }
}

void
sim_request_engine_gone(struct sim_world *w, uint32_t engine)
{
    if (w->requests == NULL) {
        return;
    }
    for (uint32_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        struct sim_flight *f = &w->requests->flights[i];
        if (f->open && f->running && f->engine == engine) {
            f->running = false;
            f->came_us = w->time.now_us + 2 * SIM_MS;
            plan(w, f, STEP_SEVERED, f->came_us);
        }
    }
}

/* Nodes and time */

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
        f->open = false;
        f->stamp++;
        if (f->wanted) {
            plan_client(w, f, STEP_LOST, w->time.now_us + way_us(w));
        }
    }
}

void
sim_request_jump(struct sim_world *w, uint32_t node)
{
    for (uint32_t i = 0; w->requests != NULL && i < SIM_FLIGHTS_MAX; i++) {
        const struct sim_flight *f = &w->requests->flights[i];
        if (f->open && f->node == node) {
            plan(w, f, STEP_DUE, w->time.now_us);
        }
    }
}

/* Events */

/* At the node, which does not take anything while it stands still. */
static void
at_node(struct sim_world *w, struct sim_flight *f, enum step step)
{
    bool from_engine =
        step == STEP_HEAD || step == STEP_END || step == STEP_STATUS;

    if (!sim_runs(w, f->node)) {
        plan(w, f, step, w->nodes[f->node].paused_us + 1);
        return;
    }
    /* An end does not overtake a head that had to be sent again. */
    bool ahead = step == STEP_END && !f->headed;
    if (from_engine && (ahead || w->nodes[f->node].cut[f->engine])) {
        plan(w, f, step, w->time.now_us + STALL_MS * SIM_MS);
        return;
    }
    switch (step) {
    case STEP_HEAD:
        take_head(w, f);
        break;
    case STEP_END:
        take_end(w, f);
        break;
    case STEP_STATUS:
        fail_attempt(w, f, DISPATCH_STATUS);
        break;
    case STEP_SEVERED:
        take_severed(w, f);
        break;
    case STEP_DUE:
        take_due(w, f);
        break;
    case STEP_GONE:
        close_node(w, f, DISPATCH_CANCELLED);
        break;
    case STEP_ARRIVE:
    case STEP_SUBMIT:
    case STEP_LOST:
    case STEP_BORED:
        CHECK(false);
    }
    sim_node_pull(w, f->node);
}

static void
at_client(struct sim_world *w, struct sim_flight *f, enum step step)
{
    struct sim_node *n = &w->nodes[f->node];

    if (step == STEP_ARRIVE && n->up && !sim_runs(w, f->node)) {
        plan_client(w, f, step, n->paused_us + 1);
    } else if (step == STEP_ARRIVE) {
        arrive(w, f);
        if (n->up) {
            sim_node_pull(w, f->node);
        }
    } else if (step == STEP_LOST && !f->headed) {
        send_again(w, f, "the node is gone");
    } else if (step == STEP_LOST) {
        end_client(w, f, "the node is gone amid an answer");
    } else {
        sim_saw(w, SIM_SAW_LEFT, !is_patient(f) && !f->headed);
        end_client(w, f, "no answer in time");
        if (f->open) {
            plan(w, f, STEP_GONE, w->time.now_us + way_us(w));
        }
    }
}

static void
happen(struct sim_world *w, struct sim_flight *f, enum step step,
       const struct virtual_event *event)
{
    if (step == STEP_ARRIVE || step == STEP_LOST || step == STEP_BORED) {
        if (f->wanted && event->what == (f->number << 8 | f->tries)) {
            at_client(w, f, step);
        }
        return;
    }
    if (event->what != f->stamp || !f->open) {
        return;
    }
    if (step == STEP_SUBMIT) {
        submit(w, f);
    } else {
        at_node(w, f, step);
    }
}

void
sim_request_event(struct sim_world *w, const struct virtual_event *event)
{
    if (event->kind == SIM_EV_FLIGHT) {
        happen(w, &w->requests->flights[event->who & 0xffff],
               (enum step)(event->who >> 16), event);
        return;
    }
    if (w->time.now_us < w->traffic_end_us) {
        ask(w);
        uint64_t wait_us =
            1 + rng_below(random_of(w),
                          (uint64_t)w->requests->every_ms * 2 * SIM_MS);
        sim_add(w, w->time.now_us + wait_us, SIM_EV_CLIENT, 0, 0);
    }
}

void
sim_request_probe(struct sim_world *w, uint32_t node)
{
    struct sim_flight *f = free_flight(w);

    CHECK(f != NULL);
    f->probe = true;
    f->patience_us = CLIENT_MS * (uint32_t)SIM_MS;
    sim_prompt_draw(random_of(w), f->number | UINT64_C(1) << 24, &f->prompt);
    f->node = node;
    f->tries = 1;
    plan_client(w, f, STEP_ARRIVE, w->time.now_us + way_us(w));
    plan_client(w, f, STEP_BORED, w->time.now_us + CLIENT_MS * SIM_MS);
}

/* Beginning and ending */

void
sim_request_begin(struct sim_world *w)
{
    struct discover_ip ips[SIM_NODES_MAX];

    if (!sim_has(w, SIM_REQUEST)) {
        return;
    }
    w->requests = calloc(1, sizeof *w->requests);
    CHECK(w->requests != NULL);
    rng_init(random_of(w), rng_mix(w->options.seed ^ 0x7265));
    w->requests->balance_abs = 2 + sim_below(random_of(w), 8);
    w->requests->gauge_ms = 50 + sim_below(random_of(w), 150);
    w->requests->every_ms = 8 + sim_below(random_of(w), 100);
    w->requests->sick_permille =
        sim_has(w, SIM_SICK) ? 1 + sim_below(random_of(w), 100) : 0;
    for (uint32_t i = 0; i < w->nodes_count; i++) {
        ips[i] = (struct discover_ip){.size = 4,
                                      .bytes = {10, 0, 0, (uint8_t)(i + 1)}};
    }
    sim_bounds_draw(w);
    load_targets_set(&w->requests->targets, ips, w->nodes_count, 8080);
    sim_add(w, w->time.now_us + SIM_MS, SIM_EV_CLIENT, 0, 0);
}

void
sim_request_end(struct sim_world *w)
{
    free(w->requests);
    w->requests = NULL;
}
