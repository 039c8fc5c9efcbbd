/* Elections of the policies that see everything: all_seeing_greedy, soonest and
 * sticky. */
#include "chaos/replay/replay_flow_internal.h"
#include "index/base/role.h"

/* How much of the prompt an engine holds, or will hold. */
static uint32_t
foresee(struct replay_world *world, const struct replay_prompt *prompt,
        uint32_t engine)
{
    struct replay_node *node = &world->nodes[0];
    struct mirror_match *match = &node->scratch.tokens.expected;
    const struct engine_blocks *pool = &world->engines[engine].engine.pool;
    uint32_t unused;
    uint32_t held =
        engine_blocks_match(pool, prompt->keys, prompt->blocks, &unused);
    struct worker_set asked;

    worker_set_clear(&asked);
    worker_set_add(&asked, engine);
    if (held < prompt->blocks) {
        mirror_match(replay_expect_index(node->expect), &asked,
                     prompt->keys + held, prompt->blocks - held, match);
        held += match->best;
    }
    CHECK(held <= prompt->blocks);
    return held;
}

/* Copies the engines' present state into the node's scratch. */
static void ON_CONTROL
look(struct replay_world *world, const struct replay_prompt *prompt)
{
    struct replay_node *node = &world->nodes[0];
    struct route_scratch *scratch = &node->scratch;
    uint32_t block = node->config.block_tokens;
    uint32_t usable = shape_usable(block, prompt->tokens);

    CHECK(replay_sees_all(world->setup.policy) && world->nodes_count == 1);
    replay_expect_settle(
        node->expect,
        (struct replay_part){.keys = prompt->keys, .count = prompt->blocks});
    worker_set_clear(&scratch->match.workers);
    for (uint32_t i = 0; i < world->setup.engines; i++) {
        const struct engine_blocks *pool = &world->engines[i].engine.pool;
        uint32_t held = foresee(world, prompt, i) * block;
        uint64_t used = pool->count - pool->free_count;
        uint64_t queued = world->engines[i].queued;
        scratch->load[i] = world->engines[i].open;
        scratch->queued[i] =
            queued < UINT32_MAX ? (uint32_t)queued : UINT32_MAX;
        scratch->kv_usage[i] = (uint16_t)(used * 1000 / pool->count);
        scratch->match.depth[i] = held < usable ? held : usable;
        if (held > 0) {
            worker_set_add(&scratch->match.workers, i);
        }
    }
}

static void
elect(struct replay_world *world, const struct replay_prompt *prompt,
      struct replay_choice *choice)
{
    struct replay_node *node = &world->nodes[0];
    struct route_scratch *scratch = &node->scratch;
    struct elect_choice chosen;
    struct elect_input input = {
        .candidates = node->view.eligible,
        .load = scratch->load,
        .queued = scratch->queued,
        .kv_usage = scratch->kv_usage,
        .match = &scratch->match,
        .total_blocks = prompt->tokens,
        .unit_tokens = 1,
        .identity = node->view.identity,
    };

    elect_pick(&node->config.elect, &world->oracle, &input, &node->rng,
               &chosen);
    CHECK(chosen.worker != WORKER_NONE);
    *choice = (struct replay_choice){.engine = chosen.worker,
                                     .mode = chosen.mode,
                                     .imbalanced = chosen.imbalanced};
}

/*
 * Approximate microseconds until the first token: the prompts before it and its
 * own at the engine's speed, and, when memory is short, the part of an answer's
 * time until enough blocks are released.
 */
static uint64_t
cost(const struct replay_world *world, uint32_t engine,
     const struct replay_request *request, uint32_t cached)
{
    const struct replay_engine *e = &world->engines[engine];
    const struct engine_config *c = &e->engine.config;
    uint64_t queued = e->queued + request->prompt_tokens - cached;
    uint64_t us = queued * 1000000 / c->prefill_tokens_per_s;
    uint64_t used = e->engine.pool.count - e->engine.pool.free_count +
                    e->engine.reserved_blocks + e->wanted +
                    (request->prompt_tokens - cached + request->output_tokens) /
                        c->block_tokens;

    CHECK(cached <= request->prompt_tokens);
    if (used > c->blocks_max) {
        uint64_t step_us = c->step_us + (uint64_t)c->step_per_seq_us * e->open;
        us += step_us * request->output_tokens * (used - c->blocks_max) /
              c->blocks_max;
    }
    return us;
}

/* Of equal costs the one with fewer requests, then the first. */
static void
save(struct replay_world *world, const struct replay_request *request,
     struct replay_choice *choice)
{
    const struct route_scratch *scratch = &world->nodes[0].scratch;
    uint64_t least = UINT64_MAX;

    *choice = (struct replay_choice){.mode = ELECT_POLICY};
    for (uint32_t i = 0; i < world->setup.engines; i++) {
        uint32_t cached = worker_set_has(&scratch->match.workers, i)
                              ? scratch->match.depth[i]
                              : 0;
        uint64_t us = cost(world, i, request, cached);
        if (us < least ||
            (us == least &&
             world->engines[i].open < world->engines[choice->engine].open)) {
            least = us;
            choice->engine = i;
        }
    }
    CHECK(least != UINT64_MAX);
}

/* One block may be the beginning of every prompt, and says nothing then. */
static void
stick(struct replay_world *world, struct replay_choice *choice)
{
    const struct route_scratch *scratch = &world->nodes[0].scratch;
    uint32_t best = world->setup.engine.block_tokens + 1;

    for (uint32_t i = 0; i < world->setup.engines; i++) {
        if (worker_set_has(&scratch->match.workers, i) &&
            scratch->match.depth[i] > best) {
            best = scratch->match.depth[i];
        }
    }
    *choice =
        (struct replay_choice){.engine = WORKER_NONE, .mode = ELECT_POLICY};
    for (int pass = 0; pass < 2 && choice->engine == WORKER_NONE; pass++) {
        for (uint32_t i = 0; i < world->setup.engines; i++) {
            bool holds = worker_set_has(&scratch->match.workers, i) &&
                         scratch->match.depth[i] >= best;
            if ((holds || pass == 1) &&
                (choice->engine == WORKER_NONE ||
                 world->engines[i].computed <
                     world->engines[choice->engine].computed)) {
                choice->engine = i;
            }
        }
    }
}

void
replay_divine(struct replay_world *world, const struct replay_prompt *prompt,
              const struct replay_request *request,
              struct replay_choice *choice)
{
    role_is_control();
    struct replay_node *node = &world->nodes[0];
    struct route_scratch *scratch = &node->scratch;

    look(world, prompt);
    if (world->setup.policy == REPLAY_SOONEST) {
        save(world, request, choice);
    } else if (world->setup.policy == REPLAY_STICKY) {
        stick(world, choice);
    } else {
        elect(world, prompt, choice);
    }
    if (worker_set_has(&scratch->match.workers, choice->engine)) {
        choice->promised = scratch->match.depth[choice->engine];
    }
    uint32_t held = foresee(world, prompt, choice->engine);
    if (held < prompt->blocks) {
        struct replay_part rest = {.keys = prompt->keys + held,
                                   .depth = held,
                                   .count = prompt->blocks - held};
        node->lost += !replay_expect_add(node->expect, choice->engine, rest,
                                         world->time.now_us);
    }
    CHECK(choice->promised <= prompt->tokens);
}
