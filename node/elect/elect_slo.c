/*
 * Who would answer in time (elect.h).
 */
#include "index/base/check.h"
#include "node/elect/elect_cost_internal.h"
#include "node/elect/elect_plan_internal.h"
#include "node/elect/elect_sets_internal.h"

#define WAITS_MAX (UINT32_C(1) << 30) /* with a prompt it fits in 32 bits */

/* What waits less than a step of an engine is computed in the same one. */
#define SOON_TOKENS UINT32_C(3072)

static void
fill_some(uint32_t *restrict late, const uint32_t *restrict load,
          const uint32_t *restrict queued, const uint32_t *restrict unread,
          const uint32_t *restrict tokens, const uint32_t *restrict requests)
{
    for (uint32_t i = 0; i < ELECT_SOME; i++) {
        uint32_t waits = queued[i] < WAITS_MAX ? queued[i] : WAITS_MAX;
        late[i] = (uint32_t)(waits + unread[i] > tokens[i]) |
                  (uint32_t)(load[i] >= requests[i]);
    }
}

ELECT_WIDE static void
fill_late(const struct elect_input *input, const struct elect_plan *plan,
          uint32_t *late)
{
    const struct elect_slo *slo = input->slo;

    ELECT_SOME_EACH(at, &plan->roomy)
    {
        fill_some(late + at, input->load + at, input->queued + at,
                  plan->unread + at, slo->tokens + at, slo->requests + at);
    }
}

void
elect_in_time(const struct elect_input *input, const struct elect_plan *plan,
              struct worker_set *timely)
{
    uint32_t late[WORKERS_MAX];

    CHECK(input->slo != NULL && input->queued != NULL);
    fill_late(input, plan, late);
    elect_up_to(late, &plan->roomy, 0, timely);
}

bool
elect_soon(const struct elect_input *input, const struct elect_plan *plan,
           struct worker_set *soon)
{
    uint32_t own[WORKERS_MAX];
    uint32_t least = elect_least_of(plan->cost, &plan->roomy);

    if (least <= SOON_TOKENS) { /* its own time is no more than that */
        return true;
    }
    struct worker_set cheapest;
    elect_up_to(plan->cost, &plan->roomy, least, &cheapest);
    elect_cost_own(input, plan->unread, own);
    uint32_t soonest = elect_least_of(own, &plan->roomy);
    uint32_t later = soonest / 2 > SOON_TOKENS ? soonest / 2 : SOON_TOKENS;
    uint32_t most = elect_add(soonest, later);
    WORKER_SET_EACH (slot, &cheapest) {
        if (own[slot] <= most) {
            return true;
        }
    }
    elect_up_to(own, &plan->roomy, most, soon);
    return false;
}
