/*
 * Costs in tokens, and which of them are near the least.
 */
#include "node/elect/elect_cost_internal.h"

#include "index/base/check.h"
#include "node/elect/elect_sets_internal.h"

#define NEAR_COST_DIVISOR 32 /* of the least cost */

/* Caps: costs add up within 32 bits, and all values beyond these are treated
 * alike. */
#define TOKENS_MAX   (UINT32_C(1) << 30)
#define REQUESTS_MAX (UINT32_C(1) << 20)

static uint32_t
capped(uint64_t value, uint32_t max)
{
    CHECK_SLOW(max > 0);
    return value < max ? (uint32_t)value : max;
}

/* What one unit of the prompt that is not held costs. */
static uint64_t
unit_cost(const struct elect_config *config, const struct elect_input *input)
{
    CHECK_SLOW(config->recompute_weight > 0);
    return (uint64_t)input->unit_tokens * config->recompute_weight;
}

static uint32_t
wait_cost(uint32_t queued, uint32_t requests)
{
    return capped(queued, TOKENS_MAX) +
           capped(requests, REQUESTS_MAX) * ELECT_REQUEST_TOKENS;
}

/* A word of the set that is full: see elect_sets_internal.h. */
static void
fill_full(uint32_t *restrict cost, const uint32_t *restrict load,
          const uint32_t *restrict queued, uint32_t unread)
{
    for (unsigned i = 0; i < 64; i++) {
        cost[i] = unread + wait_cost(queued[i], load[i]);
    }
}

/* As if none of the prompt were held anywhere. */
static void
fill_waits(const struct elect_input *input, uint32_t unread, uint32_t *cost)
{
    static const uint32_t nothing[WORKERS_MAX];
    const uint32_t *queued = input->queued != NULL ? input->queued : nothing;

    CHECK_SLOW(unread <= TOKENS_MAX);
    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        uint64_t bits = input->candidates.word[i];
        const uint32_t at = i * 64;
        if (bits == UINT64_MAX) {
            fill_full(cost + at, input->load + at, queued + at, unread);
            continue;
        }
        for (; bits != 0; bits &= bits - 1) {
            uint32_t slot = at + (uint32_t)__builtin_ctzll(bits);
            cost[slot] = unread + wait_cost(queued[slot], input->load[slot]);
        }
    }
}

void
elect_cost_fill(const struct elect_config *config,
                const struct elect_input *input, struct elect_plan *plan)
{
    uint32_t total = input->total_blocks;
    uint64_t unit = unit_cost(config, input);
    uint32_t unread = capped(total * unit, TOKENS_MAX);
    uint64_t enough = (uint64_t)config->cache_threshold_permille * total;

    CHECK_SLOW(elect_weighs(config));
    fill_waits(input, unread, plan->cost);
    if (input->match == NULL) {
        return;
    }
    struct worker_set holders =
        worker_set_and(&input->candidates, &input->match->workers);
    WORKER_SET_EACH (slot, &holders) {
        uint64_t held = input->match->depth[slot];
        if (held * 1000 > enough) {
            uint64_t left = held < total ? total - held : 0;
            plan->cost[slot] -= unread - capped(left * unit, TOKENS_MAX);
        }
    }
}

/*
 * Requests that other nodes have sent since went where the cost was least, as
 * this one would. So among workers that hold as much of it as the cheapest,
 * those below the level to which these requests would fill them are no longer
 * known to be cheaper.
 */
static struct worker_set
filled_since(const struct elect_config *config, const struct elect_input *input,
             const struct elect_plan *plan, uint32_t least)
{
    struct worker_set cheapest = elect_up_to(plan->cost, &plan->near, least);
    uint32_t first = worker_set_next(&cheapest, 0);
    uint32_t held = elect_counted(config, input, first);
    uint32_t total = input->total_blocks;
    uint32_t units = held < total ? total - held : 0;
    struct worker_set alike =
        held > 0 ? elect_overlap_from(input, &plan->near,
                                      elect_near_overlap(input, held))
                 : plan->near;
    uint32_t each = ELECT_REQUEST_TOKENS +
                    capped((uint64_t)units * input->unit_tokens, TOKENS_MAX);
    uint32_t level =
        elect_level(plan->cost, &alike, least, input->unseen, each);

    CHECK_SLOW(!worker_set_empty(&plan->near));
    return elect_up_to(plan->cost, &alike, level);
}

void
elect_cost_narrow(const struct elect_config *config,
                  const struct elect_input *input, struct elect_plan *plan)
{
    uint32_t least = elect_span_of(plan->cost, &plan->near).min;
    uint32_t near = elect_add(least, least / NEAR_COST_DIVISOR);
    struct worker_set keep = elect_up_to(plan->cost, &plan->near, near);

    CHECK(!worker_set_empty(&keep));
    CHECK_SLOW(!worker_set_empty(&plan->near));
    if (input->unseen > 0) {
        struct worker_set since = filled_since(config, input, plan, least);
        for (unsigned i = 0; i < WORKER_WORDS; i++) {
            keep.word[i] |= since.word[i];
        }
    }
    plan->near = keep;
    CHECK_SLOW(!worker_set_empty(&plan->near));
}
