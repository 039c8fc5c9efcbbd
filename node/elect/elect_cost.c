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
/* Of workers that differ: at a weight of a hundred and a slowness of eight a cost
 * stays within 31 bits. */
#define UNEVEN_OWN_MAX  (UINT32_C(1) << 23)
#define UNEVEN_WAIT_MAX (UINT32_C(1) << 27)

static uint32_t
capped(uint64_t value, uint32_t max)
{
    CHECK_SLOW(max > 0);
    return value < max ? (uint32_t)value : max;
}

#define HALF_MILLI \
    UINT64_C(2000) /* requests at a holder that halve the weight */

uint32_t
elect_cost_weight(const struct elect_config *config, uint32_t heat_milli)
{
    uint64_t above = (config->recompute_weight - UINT64_C(1)) * 1000;

    CHECK_SLOW(config->recompute_weight > 0);
    if (heat_milli == 0) { /* spares a division */
        return (uint32_t)(1000 + above);
    }
    return (uint32_t)(1000 + above * HALF_MILLI / (HALF_MILLI + heat_milli));
}

/* What units of the prompt cost that are not held. */
static uint32_t
units_cost(const struct elect_input *input, uint64_t units,
           uint32_t weight_milli)
{
    return capped(units * input->unit_tokens * weight_milli / 1000, TOKENS_MAX);
}

/* What they cost beside their own time. */
static uint32_t
beyond_own(const struct elect_input *input, uint64_t units,
           uint32_t weight_milli)
{
    CHECK_SLOW(weight_milli >= 1000);
    return units_cost(input, units, weight_milli) -
           capped(units * input->unit_tokens, TOKENS_MAX);
}

static uint32_t
wait_cost(uint32_t queued, uint32_t requests)
{
    return capped(queued, TOKENS_MAX) +
           capped(requests, REQUESTS_MAX) * ELECT_REQUEST_TOKENS;
}

static const uint32_t *
queued_of(const struct elect_input *input)
{
    static const uint32_t nothing[WORKERS_MAX];

    return input->queued != NULL ? input->queued : nothing;
}

static void
fill_some(uint32_t *restrict cost, const uint32_t *restrict load,
          const uint32_t *restrict queued, uint32_t unread)
{
    for (unsigned i = 0; i < ELECT_SOME; i++) {
        cost[i] = unread + wait_cost(queued[i], load[i]);
    }
}

/* As if none of the prompt were held anywhere. */
ELECT_WIDE static void
fill_waits(const struct elect_input *input, uint32_t unread, uint32_t *cost)
{
    const uint32_t *queued = queued_of(input);

    CHECK_SLOW(unread <= TOKENS_MAX);
    ELECT_SOME_EACH(at, &input->candidates)
    {
        fill_some(cost + at, input->load + at, queued + at, unread);
    }
}

uint32_t
elect_cost_unread(const struct elect_config *config,
                  const struct elect_input *input, uint32_t worker)
{
    uint64_t held = elect_counted(config, input, worker);
    uint64_t total = input->total_blocks;
    uint64_t units = held < total ? total - held : 0;

    CHECK_SLOW(worker_set_has(&input->candidates, worker));
    return capped(units * input->unit_tokens, TOKENS_MAX);
}

/* Where workers differ: what waits takes the worker's time, and so does the
 * prompt; what else the prompt costs, it costs all. above: the weight's part
 * beyond one, in thousandths. In doubles, which hold all of it exactly and
 * which a vector unit multiplies. own and wait are at most UNEVEN_*_MAX. */
static inline uint32_t
uneven_cost(int32_t own, int32_t wait, int32_t slowness, int32_t above)
{
    double slow = slowness;
    double cost = own * (above + slow) + wait * slow;

    return (uint32_t)(int32_t)(cost * 0.001);
}

static inline int32_t
uneven_wait(uint32_t queued, uint32_t requests)
{
    uint32_t wait = wait_cost(queued, requests);

    return (int32_t)(wait < UNEVEN_WAIT_MAX ? wait : UNEVEN_WAIT_MAX);
}

static void
fill_some_uneven(uint32_t *restrict cost, const uint32_t *restrict load,
                 const uint32_t *restrict queued,
                 const uint32_t *restrict slowness, int32_t own, int32_t above)
{
    int32_t wait[ELECT_SOME];

    for (unsigned i = 0; i < ELECT_SOME; i++) {
        wait[i] = uneven_wait(queued[i], load[i]);
    }
    for (unsigned i = 0; i < ELECT_SOME; i++) {
        cost[i] = uneven_cost(own, wait[i], (int32_t)slowness[i], above);
    }
}

ELECT_WIDE static void
fill_uneven(const struct elect_input *input, int32_t whole, int32_t above,
            uint32_t *cost)
{
    const uint32_t *queued = queued_of(input);

    ELECT_SOME_EACH(at, &input->candidates)
    {
        fill_some_uneven(cost + at, input->load + at, queued + at,
                         input->slowness + at, whole, above);
    }
}

/* What a holder costs, for whom so much of the prompt is left to compute. */
static void
spare_holder(const struct elect_input *input, uint32_t slot, uint64_t left,
             uint32_t weight, uint32_t unread, uint32_t *cost)
{
    if (input->slowness == NULL) {
        cost[slot] -= unread - units_cost(input, left, weight);
        return;
    }
    cost[slot] =
        uneven_cost((int32_t)capped(left * input->unit_tokens, UNEVEN_OWN_MAX),
                    uneven_wait(queued_of(input)[slot], input->load[slot]),
                    (int32_t)input->slowness[slot], (int32_t)(weight - 1000));
}

/* What it costs to leave the request's own pool. */
static void
add_aside(const struct elect_input *input, uint32_t *cost)
{
    WORKER_SET_EACH (slot, &input->candidates) {
        cost[slot] = elect_add(cost[slot], input->aside[slot]);
    }
}

void
elect_cost_fill(const struct elect_config *config,
                const struct elect_input *input, uint32_t *cost)
{
    uint64_t total = input->total_blocks;
    uint32_t weight = elect_cost_weight(config, input->heat_milli);
    uint32_t unread = units_cost(input, total, weight);
    uint64_t most_ignored = config->cache_threshold_permille * total / 1000;

    CHECK_SLOW(elect_weighs(config));
    if (input->slowness == NULL) {
        fill_waits(input, unread, cost);
    } else {
        fill_uneven(input,
                    (int32_t)capped(total * input->unit_tokens, UNEVEN_OWN_MAX),
                    (int32_t)(weight - 1000), cost);
    }
    for (unsigned i = 0; i < WORKER_WORDS && input->match != NULL; i++) {
        uint64_t bits =
            input->candidates.word[i] & input->match->workers.word[i];
        for (; bits != 0; bits &= bits - 1) {
            uint32_t slot = i * 64 + (uint32_t)__builtin_ctzll(bits);
            uint64_t held = input->match->depth[slot];
            if (held > most_ignored) {
                spare_holder(input, slot, held < total ? total - held : 0,
                             weight, unread, cost);
            }
        }
    }
    if (input->aside != NULL) {
        add_aside(input, cost);
    }
}

ELECT_WIDE static void
fill_less(const struct worker_set *set, const uint32_t *restrict cost,
          uint32_t less, uint32_t *restrict out)
{
    ELECT_SOME_EACH(at, set)
    {
        for (unsigned i = 0; i < ELECT_SOME; i++) {
            out[at + i] = cost[at + i] - less;
        }
    }
}

void
elect_cost_own(const struct elect_config *config,
               const struct elect_input *input, const uint32_t *cost,
               uint32_t *own)
{
    struct elect_config light = *config;
    uint64_t total = input->total_blocks;
    uint32_t weight = elect_cost_weight(config, input->heat_milli);
    uint64_t most_ignored = config->cache_threshold_permille * total / 1000;

    CHECK_SLOW(elect_weighs(config) && cost != own);
    if (input->slowness != NULL || input->match == NULL) {
        light.recompute_weight = 1;
        elect_cost_fill(&light, input, own);
        return;
    }
    fill_less(&input->candidates, cost, beyond_own(input, total, weight), own);
    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        uint64_t bits =
            input->candidates.word[i] & input->match->workers.word[i];
        for (; bits != 0; bits &= bits - 1) {
            uint32_t slot = i * 64 + (uint32_t)__builtin_ctzll(bits);
            uint64_t held = input->match->depth[slot];
            if (held > most_ignored) {
                own[slot] =
                    cost[slot] -
                    beyond_own(input, held < total ? total - held : 0, weight);
            }
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
    uint32_t least = elect_least_of(plan->cost, &plan->near);
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
