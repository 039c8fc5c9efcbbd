/* Budgets by class, the threshold of the least load, and the median. */
#include "node/view/pool_tune.h"

#include <stdlib.h>

#include "index/base/check.h"

#define STEPS 4U /* classes to a doubling */

uint32_t
pool_budget_upto(uint32_t class)
{
    /* 2^(i/4), in 65,536ths */
    static const uint64_t root[STEPS] = {65536, 77936, 92682, 110218};

    CHECK(class < POOL_BUDGETS);
    return (uint32_t)((root[class % STEPS] << (class / STEPS)) >> 16);
}

/* The first that is long enough; beyond the last, the last. */
static uint32_t
class_of(uint32_t budget)
{
    uint32_t class = STEPS * (31U - (uint32_t)__builtin_clz(budget));

    while (class < POOL_BUDGETS - 1 && pool_budget_upto(class) < budget) {
        class ++;
    }
    return class < POOL_BUDGETS ? class : POOL_BUDGETS - 1;
}

void
pool_budgets_add(struct pool_budgets *budgets, uint32_t budget,
                 uint32_t computed, uint32_t answer)
{
    if (budget != 0) {
        uint32_t class = class_of(budget);
        budgets->requests[class] += 1;
        budgets->work[class] += computed + POOL_ANSWER_TOKENS * answer;
    }
}

void
pool_budgets_join(struct pool_budgets *to, const struct pool_budgets *from)
{
    for (uint32_t i = 0; i < POOL_BUDGETS; i++) {
        to->requests[i] += from->requests[i];
        to->work[i] += from->work[i];
    }
}

void
pool_budgets_fade(struct pool_budgets *budgets, double left)
{
    for (uint32_t i = 0; i < POOL_BUDGETS; i++) {
        budgets->requests[i] *= left;
        budgets->work[i] *= left;
    }
}

/* Of classes up to one. */
static double
load_upto(const struct pool_budgets *budgets,
          const struct pool_engines *engines, uint32_t class)
{
    double below = 0;
    double above = 0;

    for (uint32_t i = 0; i < POOL_BUDGETS; i++) {
        *(i <= class ? &below : &above) += budgets->work[i];
    }
    below /= engines->shorter;
    above /= engines->longer;
    return below > above ? below : above;
}

/* What is longer never gets to the short ones. */
static uint32_t
threshold_of(const struct pool_engines *engines, uint32_t class)
{
    uint32_t upto = pool_budget_upto(class);

    return upto < engines->short_len ? upto : engines->short_len;
}

struct pool_told
pool_tune_judge(const struct pool_budgets *budgets,
                const struct pool_engines *engines,
                const struct pool_told *before)
{
    uint32_t last = 0;
    double requests = 0;

    for (uint32_t i = 0; i < POOL_BUDGETS; i++) {
        requests += budgets->requests[i];
    }
    if (engines->shorter == 0 || engines->longer == 0 ||
        engines->short_len == 0 || requests < POOL_REQUESTS) {
        return (struct pool_told){.threshold = 0};
    }
    last = class_of(engines->short_len);
    uint32_t best = last; /* of equals the greatest */
    for (uint32_t i = last; i > 0; i--) {
        if (load_upto(budgets, engines, i - 1) <
            load_upto(budgets, engines, best)) {
            best = i - 1;
        }
    }
    if (before->threshold != 0) {
        uint32_t now = class_of(before->threshold);
        now = now < last ? now : last;
        if (load_upto(budgets, engines, best) >=
            POOL_BETTER * load_upto(budgets, engines, now)) {
            best = now;
        }
    }
    return (struct pool_told){
        .threshold = threshold_of(engines, best),
        .weight = requests < UINT32_MAX ? (uint32_t)requests : UINT32_MAX,
    };
}

static int
by_threshold(const void *a, const void *b)
{
    uint32_t left = ((const struct pool_told *)a)->threshold;
    uint32_t right = ((const struct pool_told *)b)->threshold;

    return (left > right) - (left < right);
}

uint32_t
pool_tune_agree(struct pool_told *told, uint32_t count)
{
    uint64_t all = 0;
    uint64_t upto = 0;

    for (uint32_t i = 0; i < count; i++) {
        all += told[i].threshold != 0 ? told[i].weight : 0;
    }
    qsort(told, count, sizeof(*told), by_threshold);
    for (uint32_t i = 0; i < count && all != 0; i++) {
        upto += told[i].threshold != 0 ? told[i].weight : 0;
        if (2 * upto >= all) {
            return told[i].threshold;
        }
    }
    return 0;
}
