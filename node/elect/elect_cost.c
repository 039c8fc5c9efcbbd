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
some_alike(uint32_t *out, uint32_t value)
{
    for (unsigned i = 0; i < ELECT_SOME; i++) {
        out[i] = value;
    }
}

static void
some_unread(uint32_t *restrict unread, const uint32_t *restrict depth,
            uint32_t known, const struct elect_input *input, uint32_t ignored)
{
    uint32_t total = input->total_blocks;
    uint32_t unit = input->unit_tokens;

    for (uint32_t i = 0; i < ELECT_SOME; i++) {
        uint32_t held = depth[i] & elect_mask(known, i);
        held &= -(uint32_t)(held > ignored);
        unread[i] = (total - (held < total ? held : total)) * unit;
    }
}

/* Of a prompt of so many tokens that they do not fit in 32 bits. */
static void
unread_of_many(const struct elect_config *config,
               const struct elect_input *input, uint32_t *unread)
{
    uint64_t total = input->total_blocks;

    WORKER_SET_EACH (slot, &input->candidates) {
        uint64_t held = elect_counted(config, input, slot);
        uint64_t units = held < total ? total - held : 0;
        unread[slot] = capped(units * input->unit_tokens, TOKENS_MAX);
    }
}

ELECT_WIDE void
elect_cost_unread(const struct elect_config *config,
                  const struct elect_input *input, uint32_t *unread)
{
    uint64_t total = input->total_blocks;
    uint64_t whole = total * input->unit_tokens;
    uint64_t ignored = config->cache_threshold_permille * total / 1000;

    CHECK_SLOW(elect_weighs(config));
    if (whole > TOKENS_MAX) {
        unread_of_many(config, input, unread);
        return;
    }
    ELECT_SOME_EACH(at, &input->candidates)
    {
        uint32_t known = elect_some_known(input, at);
        if (known == 0) {
            some_alike(unread + at, (uint32_t)whole);
        } else {
            some_unread(unread + at, input->match->depth + at, known, input,
                        (uint32_t)ignored);
        }
    }
}

/* What tokens cost that are not held, uncapped: less than 2^31. In doubles,
 * which hold all of it exactly and which a vector unit multiplies; the half
 * keeps whole quotients from falling short. */
static inline uint32_t
price(uint32_t tokens, uint32_t weight_milli)
{
    double product = (double)(int32_t)tokens * weight_milli;

    return (uint32_t)(int32_t)((product + 0.5) * 0.001);
}

static void
some_prices(uint32_t *restrict prices, const uint32_t *restrict unread,
            uint32_t weight)
{
    for (unsigned i = 0; i < ELECT_SOME; i++) {
        prices[i] = price(unread[i], weight);
    }
}

/* weight: in thousandths. */
ELECT_WIDE static void
fill_prices(const struct elect_input *input, const uint32_t *unread,
            uint32_t weight, uint32_t *prices)
{
    uint32_t whole =
        capped((uint64_t)input->total_blocks * input->unit_tokens, TOKENS_MAX);

    if ((uint64_t)whole * weight / 1000 > TOKENS_MAX) {
        WORKER_SET_EACH (slot, &input->candidates) {
            prices[slot] =
                capped((uint64_t)unread[slot] * weight / 1000, TOKENS_MAX);
        }
        return;
    }
    ELECT_SOME_EACH(at, &input->candidates)
    {
        if (elect_some_known(input, at) == 0) {
            some_alike(prices + at, price(whole, weight));
        } else {
            some_prices(prices + at, unread + at, weight);
        }
    }
}

static void
fill_some(uint32_t *restrict cost, const uint32_t *restrict prices,
          const uint32_t *restrict load, const uint32_t *restrict queued)
{
    for (unsigned i = 0; i < ELECT_SOME; i++) {
        cost[i] = prices[i] + wait_cost(queued[i], load[i]);
    }
}

/* With what waits. */
ELECT_WIDE static void
fill_even(const struct elect_input *input, const uint32_t *prices,
          uint32_t *cost)
{
    const uint32_t *queued = queued_of(input);

    ELECT_SOME_EACH(at, &input->candidates)
    {
        fill_some(cost + at, prices + at, input->load + at, queued + at);
    }
}

/* Where workers differ: what waits takes the worker's time, and so does the
 * prompt; what else the prompt costs, it costs all. above: the weight's part
 * beyond one, in thousandths. In doubles, too. own and wait are at most
 * UNEVEN_*_MAX. */
static inline uint32_t
uneven_cost(int32_t own, int32_t wait, int32_t slowness, int32_t above)
{
    double slow = slowness;
    double cost = own * (above + slow) + wait * slow;

    return (uint32_t)(int32_t)(cost * 0.001);
}

static void
fill_some_uneven(uint32_t *restrict cost, const uint32_t *restrict load,
                 const uint32_t *restrict queued,
                 const uint32_t *restrict unread,
                 const uint32_t *restrict slowness, int32_t above)
{
    for (unsigned i = 0; i < ELECT_SOME; i++) {
        uint32_t own = capped(unread[i], UNEVEN_OWN_MAX);
        uint32_t wait = capped(wait_cost(queued[i], load[i]), UNEVEN_WAIT_MAX);
        cost[i] = uneven_cost((int32_t)own, (int32_t)wait, (int32_t)slowness[i],
                              above);
    }
}

ELECT_WIDE static void
fill_uneven(const struct elect_input *input, const uint32_t *unread,
            int32_t above, uint32_t *cost)
{
    const uint32_t *queued = queued_of(input);

    ELECT_SOME_EACH(at, &input->candidates)
    {
        fill_some_uneven(cost + at, input->load + at, queued + at, unread + at,
                         input->slowness + at, above);
    }
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
                const struct elect_input *input, const uint32_t *unread,
                uint32_t *cost)
{
    uint32_t weight = elect_cost_weight(config, input->heat_milli);
    uint32_t prices[WORKERS_MAX];

    CHECK_SLOW(elect_weighs(config));
    if (input->slowness == NULL) {
        fill_prices(input, unread, weight, prices);
        fill_even(input, prices, cost);
    } else {
        fill_uneven(input, unread, (int32_t)(weight - 1000), cost);
    }
    if (input->aside != NULL) {
        add_aside(input, cost);
    }
}

void
elect_cost_own(const struct elect_input *input, const uint32_t *unread,
               uint32_t *own)
{
    if (input->slowness == NULL) {
        fill_even(input, unread, own);
    } else {
        fill_uneven(input, unread, 0, own);
    }
    if (input->aside != NULL) {
        add_aside(input, own);
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
    struct worker_set cheapest;
    elect_up_to(plan->cost, &plan->near, least, &cheapest);
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
    elect_up_to(plan->cost, &alike, level, &alike);
    return alike;
}

void
elect_cost_narrow(const struct elect_config *config,
                  const struct elect_input *input, struct elect_plan *plan)
{
    uint32_t least = elect_least_of(plan->cost, &plan->near);
    uint32_t near = elect_add(least, least / NEAR_COST_DIVISOR);
    struct worker_set keep;
    elect_up_to(plan->cost, &plan->near, near, &keep);

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
