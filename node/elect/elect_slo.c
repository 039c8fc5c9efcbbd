/*
 * Who would answer in time (elect.h).
 */
#include "index/base/check.h"
#include "node/elect/elect_cost_internal.h"
#include "node/elect/elect_plan_internal.h"
#include "node/elect/elect_sets_internal.h"

#define OWN_MAX (UINT32_C(1) << 30) /* a prompt and a queue fit in 32 bits */

/* What waits less than a step of an engine is computed in the same one. */
#define SOON_TOKENS UINT32_C(3072)

static inline uint32_t
is_late(uint32_t load, uint32_t queued, uint32_t own,
        const struct elect_slo *slo, uint32_t slot)
{
    uint32_t front = (queued < OWN_MAX ? queued : OWN_MAX) + own;

    return (uint32_t)(front > slo->tokens[slot]) |
           (uint32_t)(load >= slo->requests[slot]);
}

static void
fill_some(uint32_t *restrict late, const uint32_t *restrict load,
          const uint32_t *restrict queued, uint32_t own,
          const uint32_t *restrict tokens, const uint32_t *restrict requests)
{
    const struct elect_slo slo = {.tokens = tokens, .requests = requests};

    for (uint32_t i = 0; i < ELECT_SOME; i++) {
        late[i] = is_late(load[i], queued[i], own, &slo, i);
    }
}

/* As if none of the prompt were held anywhere. */
ELECT_WIDE static void
fill_late(const struct elect_input *input, const struct worker_set *set,
          uint32_t own, uint32_t *late)
{
    const struct elect_slo *slo = input->slo;

    ELECT_SOME_EACH(at, set)
    {
        fill_some(late + at, input->load + at, input->queued + at, own,
                  slo->tokens + at, slo->requests + at);
    }
}

struct worker_set
elect_in_time(const struct elect_config *config,
              const struct elect_input *input, const struct worker_set *set)
{
    uint32_t late[WORKERS_MAX];
    uint64_t whole = (uint64_t)input->total_blocks * input->unit_tokens;

    CHECK(input->slo != NULL && input->queued != NULL);
    fill_late(input, set, whole < OWN_MAX ? (uint32_t)whole : OWN_MAX, late);
    for (unsigned i = 0; i < WORKER_WORDS && input->match != NULL; i++) {
        uint64_t bits = set->word[i] & input->match->workers.word[i];
        for (; bits != 0; bits &= bits - 1) {
            uint32_t slot = i * 64 + (uint32_t)__builtin_ctzll(bits);
            late[slot] = is_late(input->load[slot], input->queued[slot],
                                 elect_cost_unread(config, input, slot),
                                 input->slo, slot);
        }
    }
    return elect_up_to(late, set, 0);
}

bool
elect_soon(const struct elect_config *config, const struct elect_input *input,
           const struct elect_plan *plan, struct worker_set *soon)
{
    uint32_t own[WORKERS_MAX];
    uint32_t least = elect_least_of(plan->cost, &plan->roomy);

    if (least <= SOON_TOKENS) { /* its own time is no more than that */
        return true;
    }
    struct worker_set cheapest = elect_up_to(plan->cost, &plan->roomy, least);
    elect_cost_own(config, input, plan->cost, own);
    uint32_t soonest = elect_least_of(own, &plan->roomy);
    uint32_t later = soonest / 2 > SOON_TOKENS ? soonest / 2 : SOON_TOKENS;
    uint32_t most = elect_add(soonest, later);
    WORKER_SET_EACH (slot, &cheapest) {
        if (own[slot] <= most) {
            return true;
        }
    }
    *soon = elect_up_to(own, &plan->roomy, most);
    return false;
}
