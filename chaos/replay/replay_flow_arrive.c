/* A request arrives in a replay: read, elected for, sent to its engine. */
#include "chaos/replay/replay_flow_internal.h"

static void
count_mode(struct replay_result *result, const struct replay_choice *choice)
{
    enum replay_mode mode = REPLAY_MODE_POLICY;

    if (choice->mode == ELECT_AFFINITY) {
        mode = REPLAY_MODE_AFFINITY;
    } else if (choice->mode == ELECT_BALANCE) {
        mode =
            choice->imbalanced ? REPLAY_MODE_IMBALANCED : REPLAY_MODE_BALANCE;
    }
    result->modes[mode]++;
}

/* The prompt's tokens into world->tokens, its keys into world->keys. */
static struct replay_prompt
read_prompt(struct replay_world *world, const struct replay_request *request)
{
    uint32_t block = world->setup.engine.block_tokens;
    struct replay_prompt prompt = {
        .root = world->root,
        .keys = world->keys,
        .blocks = request->prompt_tokens / block,
        .tokens = request->prompt_tokens,
        .answer = request->output_tokens,
        .family = request->family,
    };

    replay_load_tokens(world->load, request, world->tokens);
    if (prompt.blocks > 0) {
        (void)key_chain(world->root, world->tokens, prompt.blocks,
                        block * sizeof(*world->tokens), world->keys);
    }
    CHECK(prompt.blocks * block <= prompt.tokens);
    return prompt;
}

static int
submit(struct replay_world *world, uint32_t number)
{
    const struct replay_request *r = &world->load->requests[number];
    struct replay_flight *flight = &world->flights[number];
    struct replay_engine *e = &world->engines[flight->engine];
    uint32_t output = replay_answer_tokens(world, r);
    struct replay_run answer = {.text = r->answer, .tokens = output};
    struct engine_request request = {
        .user = number,
        .prompt = world->tokens,
        .output = world->tokens + r->prompt_tokens,
        .prompt_len = r->prompt_tokens,
        .output_len = flight->split && !flight->passed ? 1 : output,
        .passed = flight->passed ? r->prompt_tokens - 1 : 0,
    };
    uint32_t block = world->setup.engine.block_tokens;
    uint64_t ticket;

    CHECK(flight->engine < world->setup.engines);
    replay_run_tokens(&answer, world->tokens + r->prompt_tokens);
    int error = engine_submit(&e->engine, &request, replay_now(world), &ticket);
    CHECK(error <= 0); /* there is room, and it is not too long */
    if (error < 0) {
        return error;
    }
    flight->wanted = (flight->queued + output + block - 1) / block;
    e->queued += flight->queued;
    e->wanted += flight->wanted;
    e->open++;
    e->peak = e->open > e->peak ? e->open : e->peak;
    CHECK(e->open <= e->peak && e->queued >= flight->queued);
    return replay_engine_wake_when_due(world, flight->engine);
}

/* No engine has room for it, ever; nor do those come that wait for it. */
static bool
refuse(struct replay_world *world, uint32_t number)
{
    const struct replay_request *r = &world->load->requests[number];
    const struct engine_config *c = &world->setup.engine;
    uint64_t tokens =
        (uint64_t)r->prompt_tokens + replay_answer_tokens(world, r);

    if (tokens - 1 <= (uint64_t)c->blocks_max * c->block_tokens) {
        return false;
    }
    do {
        world->result.refused++;
        world->left--;
        number = world->load->requests[number].next;
    } while (number != REPLAY_NONE && !world->setup.sequential);
    CHECK(world->result.refused <= world->load->count);
    return true;
}

static bool
tells_decisions(const struct replay_world *world)
{
    const struct replay_setup *setup = &world->setup;

    return world->nodes_count > 1 &&
           (setup->policy == REPLAY_BELIEF ||
            (replay_hears_events(setup->policy) && !setup->expect_alone));
}

/* Peers hear what the engine will hold: the blocks they do not know, and the
 * prompt's place in the order of decisions. */
static int
tell_decision(struct replay_world *world, const struct replay_flight *flight,
              const struct replay_prompt *prompt, uint32_t known, bool ordered)
{
    uint64_t at_us = replay_now(world) + world->setup.gossip_us;
    uint32_t new = prompt->blocks - known;
    int error = 0;

    CHECK(known <= prompt->blocks);
    if (new > 0) {
        struct replay_record *record =
            replay_record_new(flight->node, prompt->keys + known, new);
        if (record != NULL) {
            record->depth = known;
        }
        world->result.told_blocks += new;
        error = replay_send(world, at_us, KIND_BELIEF, flight->engine, record);
    }
    uint32_t kept =
        error == 0 && ordered && replay_hears_events(world->setup.policy)
            ? decided_told(prompt->keys, prompt->blocks,
                           world->setup.engine.block_tokens,
                           world->nodes[flight->node].scratch.tokens.longest,
                           world->keys)
            : 0;
    if (kept > 0) {
        world->result.told_blocks += kept;
        error = replay_send(world, at_us, KIND_DECIDED, flight->engine,
                            replay_record_new(flight->node, world->keys, kept));
    }
    return error;
}

/* Where it goes first; of a split request the other engine is told of, too. */
static int
place(struct replay_world *world, struct replay_flight *flight,
      const struct replay_choice *choice, const struct replay_prompt *prompt)
{
    int error = 0;

    flight->engine = choice->engine;
    flight->lease = choice->lease;
    flight->split = choice->split;
    if (!choice->split) {
        return 0;
    }
    world->result.split++;
    error = replay_tell_peers(world, KIND_OPENED, flight);
    if (error == 0 && tells_decisions(world)) {
        error = tell_decision(world, flight, prompt, choice->known_next, false);
    }
    flight->next = choice->engine;
    flight->next_lease = choice->lease;
    flight->engine = choice->prefill;
    flight->lease = choice->prefill_lease;
    return error;
}

uint64_t
replay_transfer_us(struct replay_world *world, uint32_t number)
{
    const struct replay_request *r = &world->load->requests[number];
    const struct replay_flight *flight = &world->flights[number];
    const struct engine_request request = {.prompt = world->tokens,
                                           .prompt_len = r->prompt_tokens};

    CHECK(flight->split);
    replay_load_tokens(world->load, r, world->tokens);
    uint64_t lacks =
        r->prompt_tokens -
        engine_cached_tokens(&world->engines[flight->next].engine, &request);
    uint64_t rate = world->setup.transfer_tokens_per_s;
    return rate != 0 ? lacks * 1000000 / rate : 0;
}

int
replay_pass(struct replay_world *world, uint32_t number)
{
    struct replay_flight *flight = &world->flights[number];

    CHECK(flight->split && !flight->passed);
    flight->passed = true;
    flight->engine = flight->next;
    flight->lease = flight->next_lease;
    flight->queued = 0;
    replay_load_tokens(world->load, &world->load->requests[number],
                       world->tokens);
    return submit(world, number);
}

/* The island of a conversation's first turn is drawn; later turns come from
 * there, too. */
static uint32_t
draw_island(struct replay_world *world)
{
    const struct replay_setup *setup = &world->setup;
    uint64_t all = 0;
    uint32_t island = 0;

    for (uint32_t i = 0; i < setup->islands; i++) {
        all += setup->island_weight[i];
    }
    CHECK(all > 0);
    uint64_t at = rng_below(&world->rng, all);
    while (at >= setup->island_weight[island]) {
        at -= setup->island_weight[island++];
    }
    CHECK(island < setup->islands);
    return island;
}

static uint32_t
draw_node(struct replay_world *world, uint32_t number)
{
    const struct replay_request *request = &world->load->requests[number];
    uint32_t islands = world->setup.islands;
    struct replay_flight *flight = &world->flights[number];

    if (islands <= 1) {
        return (uint32_t)rng_below(&world->rng, world->nodes_count);
    }
    if (request->after == REPLAY_NONE) {
        flight->island = draw_island(world);
    }
    if (request->next != REPLAY_NONE) {
        world->flights[request->next].island = flight->island;
    }
    uint32_t count =
        (world->nodes_count - flight->island + islands - 1) / islands;
    return flight->island + islands * (uint32_t)rng_below(&world->rng, count);
}

int
replay_reach(struct replay_world *world, uint32_t number)
{
    replay_load_tokens(world->load, &world->load->requests[number],
                       world->tokens);
    return submit(world, number);
}

int
replay_arrive(struct replay_world *world, uint32_t number)
{
    struct replay_flight *flight = &world->flights[number];

    if (refuse(world, number)) {
        return replay_next_in_sequence(world, number);
    }
    flight->node = draw_node(world, number);
    flight->arrived_us = replay_now(world);
    world->first_us =
        world->result.sent++ == 0 ? replay_now(world) : world->first_us;
    return replay_elect(world, number);
}

int
replay_elect(struct replay_world *world, uint32_t number)
{
    const struct replay_request *request = &world->load->requests[number];
    struct replay_flight *flight = &world->flights[number];
    struct replay_prompt prompt = read_prompt(world, request);
    struct replay_choice choice;
    uint32_t wait_us = 0;

    if (replay_sees_all(world->setup.policy)) {
        replay_divine(world, &prompt, request, &choice);
    } else {
        wait_us = replay_node_elect(&world->nodes[flight->node], &prompt,
                                    flight->waited, replay_now(world), &choice);
    }
    if (wait_us != 0) {
        flight->waited = true;
        world->result.waited++;
        return replay_schedule(world, replay_now(world) + wait_us, KIND_MOMENT,
                               number, 0);
    }
    CHECK(choice.known <= prompt.blocks);
    CHECK(choice.promised < prompt.tokens);
    int error = place(world, flight, &choice, &prompt);
    flight->load = choice.load;
    flight->queued = prompt.tokens - choice.promised;
    if (flight->lease.taken) {
        replay_node_queue(&world->nodes[flight->node], &flight->lease,
                          flight->queued);
    }
    world->result.promised_tokens += choice.promised;
    count_mode(&world->result, &choice);
    world->rates[flight->node].sent++;
    if (error == 0) {
        error = replay_tell_peers(world, KIND_OPENED, flight);
    }
    if (error == 0) {
        error = replay_tell_soon(world, flight->node, flight->engine);
    }
    if (error == 0 && tells_decisions(world)) {
        error = tell_decision(world, flight, &prompt, choice.known, true);
    }
    flight->crossed = world->setup.islands > 1 &&
                      flight->engine % world->setup.islands != flight->island;
    if (error == 0 && flight->crossed) {
        return replay_schedule(world, replay_now(world) + world->setup.away_us,
                               KIND_REACHED, number, 0);
    }
    return error == 0 ? submit(world, number) : error;
}
