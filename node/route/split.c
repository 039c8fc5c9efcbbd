/* Elects both halves of a request. */
#include "node/route/split.h"

const char *
split_flow_name(enum split_flow flow)
{
    static const char *const names[] = {
        [SPLIT_NONE] = NULL,
        [SPLIT_PARAMS] = "params",
        [SPLIT_ROOM] = "room",
    };

    CHECK(flow <= SPLIT_ROOM);
    return names[flow];
}

const char *
split_why_name(enum split_why why)
{
    static const char *const names[] = {
        [SPLIT_UNASKED] = "not for such requests",
        [SPLIT_SHORT] = "too little is to be computed",
        [SPLIT_ALONE] = "no pair is free",
        [SPLIT_FAILED] = "a half has failed",
    };

    CHECK(why <= SPLIT_FAILED);
    return names[why];
}

struct route_world
split_world(const struct route_world *world, enum route_part part,
            enum engine_kind partner, struct elect_config *elect)
{
    struct route_world half = *world;

    *elect = *world->elect;
    half.elect = elect;
    half.part = part;
    half.partner = partner;
    if (part == ROUTE_DECODE && elect->recompute_weight != 0) {
        elect->recompute_weight = SPLIT_RECOMPUTE_WEIGHT;
    }
    if (part == ROUTE_PREFILL) { /* sessions are where answers are made */
        half.affinity = SESSION_OFF;
        half.placed = false;
    }
    return half;
}

uint64_t
split_prompt_tokens(const struct route_scratch *scratch)
{
    return scratch->tokens.known
               ? scratch->tokens.prompt.tokens
               : (uint64_t)scratch->blocks.count * scratch->blocks.block_bytes /
                     ROUTE_BYTES_PER_TOKEN;
}

/* Which rank of a worker gets its half, SGLang's workers agree on themselves. */
static void
leave_rank(struct route_choice *choice)
{
    if (choice->ranked) {
        choice->ranked = false;
        choice->placed = false;
    }
}

/* The worker that answers is elected. 0, or there is nobody for the prompt. */
static int ON_LANE
elect_prefill(struct route_scratch *scratch, const struct route_world *world,
              const struct worker_set *tried, struct rng *rng,
              struct route_choice *choice, struct split_choice *split)
{
    struct session_place session = scratch->session;
    uint32_t slot = choice->elect.worker;
    enum engine_kind kind = world->view->worker[slot]->kind;
    struct elect_config elect;
    struct route_world half = split_world(world, ROUTE_PREFILL, kind, &elect);
    int outcome = route_elect(scratch, &half, tried, rng, &split->prefill);

    scratch->session = session;
    if (outcome != 0) {
        return outcome;
    }
    split->flow = kind == ENGINE_SGLANG ? SPLIT_ROOM : SPLIT_PARAMS;
    if (split->flow == SPLIT_ROOM) {
        leave_rank(choice);
        leave_rank(&split->prefill);
    }
    return 0;
}

static int ON_LANE
elect_pair(struct route_scratch *scratch, const struct route_world *world,
           const struct worker_set *tried, struct rng *rng,
           struct route_choice *choice, struct split_choice *split)
{
    struct elect_config elect;
    struct route_world half =
        split_world(world, ROUTE_DECODE, ENGINE_OTHER, &elect);
    int outcome = route_elect(scratch, &half, tried, rng, choice);

    split->why = SPLIT_ALONE;
    if (outcome != 0) {
        return outcome;
    }
    uint64_t lacks = route_unread_tokens(scratch, choice);
    bool bound = worker_set_has(&world->view->bound, choice->elect.worker);
    split->lacks = lacks < UINT32_MAX ? (uint32_t)lacks : UINT32_MAX;
    if (!bound && split_is_short(world->elect, lacks)) {
        split->why = SPLIT_SHORT;
        return 0;
    }
    outcome = elect_prefill(scratch, world, tried, rng, choice, split);
    if (outcome == 0 || !bound) {
        return 0; /* one that is not bound does it alone */
    }
    fleet_lease_leave(&choice->lease, world->board);
    return outcome;
}

int
split_elect(struct route_scratch *scratch, const struct route_world *world,
            const struct worker_set *tried, struct rng *rng,
            struct route_choice *choice, struct split_choice *split)
{
    split->flow = SPLIT_NONE;
    split->why = SPLIT_UNASKED;
    if (split->asked == SPLIT_NEVER) {
        return route_elect(scratch, world, tried, rng, choice);
    }
    bool is_short = split_is_short(world->elect, split_prompt_tokens(scratch));
    bool alone = split->asked == SPLIT_LAST || is_short;
    int outcome = 0;
    if (alone) {
        split->why = split->asked == SPLIT_LAST ? SPLIT_FAILED : SPLIT_SHORT;
        outcome = route_elect(scratch, world, tried, rng, choice);
        if (outcome == 0) {
            return 0;
        }
    }
    int paired = elect_pair(scratch, world, tried, rng, choice, split);
    if (paired == 0 || alone) {
        return paired == 0 || outcome != ROUTE_E_FULL ? paired : outcome;
    }
    outcome = route_elect(scratch, world, tried, rng, choice);
    return outcome == ROUTE_E_NO_WORKER ? paired : outcome;
}

/* As if it had not been elected. */
static void ON_LANE
give_back(const struct route_world *world, struct route_choice *choice)
{
    fleet_lease_leave(&choice->lease, world->board);
    choice->ranked = false;
}

uint32_t
split_yield(const struct route_scratch *scratch,
            const struct route_world *world, uint64_t wall_us,
            struct route_choice *choice, struct split_choice *split)
{
    const struct route_choice *computes =
        split->flow == SPLIT_NONE ? choice : &split->prefill;
    const struct elect_choice *elect = &computes->elect;

    CHECK(computes->lease.taken);
    if (world->elect->policy != ELECT_KVASIR || elect->candidates < 2 ||
        elect->mode == ELECT_SESSION) {
        return 0; /* what peers decide would change nothing */
    }
    uint32_t wait_us = moment_wait_us(
        &world->board->moment, route_unread_tokens(scratch, computes), wall_us);
    if (wait_us != 0) {
        give_back(world, choice);
        if (split->flow != SPLIT_NONE) {
            give_back(world, &split->prefill);
        }
    }
    return wait_us;
}
