/* Which engines are long enough, and which suit. */
#include "node/route/route_pools.h"

#include "node/route/route.h"

/* What is not told is any length. */
static uint64_t
length_of(const struct fleet_view *view, uint32_t slot)
{
    uint32_t len = view->max_len[slot];

    return len != 0 ? len : UINT64_MAX;
}

/* Tokens that the request takes at least. */
static uint64_t
least_of(const struct pools_need *need)
{
    /* One is generated where nothing is said. */
    return need->prompt + (need->answer > 0 ? need->answer : 1);
}

static uint64_t
longest_of(const struct fleet_view *view, const struct worker_set *set)
{
    uint64_t longest = 0;

    WORKER_SET_EACH (slot, set) {
        uint64_t len = length_of(view, slot);
        longest = len > longest ? len : longest;
    }
    return longest;
}

/* Those that are not long enough; or, where none is and the tokens are not
 * counted, all but the longest. */
static struct worker_set
too_short(const struct pools_need *need, const struct fleet_view *view,
          const struct worker_set *candidates)
{
    uint64_t wanted = least_of(need);
    uint64_t longest = longest_of(view, candidates);
    struct worker_set out;

    if (!need->counted && wanted > longest) {
        wanted = need->answer > longest ? need->answer : longest;
    }
    worker_set_clear(&out);
    WORKER_SET_EACH (slot, candidates) {
        if (length_of(view, slot) < wanted) {
            worker_set_add(&out, slot);
        }
    }
    return out;
}

uint32_t
pools_budget(const struct pools_need *need)
{
    uint64_t budget =
        need->prompt + (need->answer > 0 ? need->answer : ELECT_REQUEST_TOKENS);

    if (!need->known) {
        return 0;
    }
    return budget < POOL_TOKENS_MAX ? (uint32_t)budget : POOL_TOKENS_MAX;
}

/* The pools among these workers, and what the wrong one costs. */
static void
set_aside(struct pools *pools, const struct elect_config *config,
          const struct fleet_view *view, const struct worker_set *candidates)
{
    uint64_t longest = longest_of(view, candidates);
    bool is_short = pools_budget(&pools->need) <= pools->threshold;
    uint32_t right = 0;

    WORKER_SET_EACH (slot, candidates) {
        bool suits = is_short == (length_of(view, slot) < longest);
        right += suits;
        pools->aside[slot] =
            suits ? 0 : config->pool_spill * ELECT_REQUEST_TOKENS;
    }
    if (right > 0 && right < worker_set_count(candidates)) {
        pools->wants = is_short ? POOLS_SHORT : POOLS_LONG;
    }
}

int
pools_apply(struct pools *pools, const struct elect_config *config,
            const struct fleet_view *view, const struct worker_set *serves,
            struct worker_set *candidates)
{
    const struct pools_need *need = &pools->need;

    pools->wants = POOLS_NONE;
    worker_set_clear(&pools->too_short);
    pools->longest = 0;
    if (!need->known || !view->tells_len) {
        return 0;
    }
    if (least_of(need) <= view->same_len) { /* as nearly always */
        pools->longest = view->same_len;
        return 0;
    }
    uint64_t longest = longest_of(view, serves);
    pools->longest = longest <= UINT32_MAX ? (uint32_t)longest : 0;
    bool never = longest != 0 &&
                 (need->counted ? least_of(need) : need->answer) > longest;
    pools->too_short = too_short(need, view, candidates);
    *candidates = worker_set_minus(candidates, &pools->too_short);
    if (never) {
        worker_set_clear(candidates);
        return ROUTE_E_TOO_LONG;
    }
    if (pools->threshold != 0 && config->pool_spill != 0) {
        set_aside(pools, config, view, candidates);
    }
    return 0;
}

bool
pools_spilled(const struct pools *pools, uint32_t slot)
{
    return pools->wants != POOLS_NONE && slot < WORKERS_MAX &&
           pools->aside[slot] != 0;
}
