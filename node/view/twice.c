/* Tokens that are waited for more than once. */
#include "node/view/twice.h"

#include "index/base/check.h"

void
twice_add(struct twice *twice, uint32_t slot, uint64_t tokens, uint64_t now_us)
{
    CHECK(slot < WORKERS_MAX);
    if (now_us >= twice->of[slot].until_us) {
        twice->of[slot].tokens = 0;
    }
    twice->of[slot].tokens += tokens;
    twice->of[slot].until_us = now_us + TWICE_US;
}

uint64_t
twice_less(const struct twice *twice, uint32_t slot, uint64_t queued,
           uint64_t now_us)
{
    CHECK(slot < WORKERS_MAX);
    if (now_us >= twice->of[slot].until_us) {
        return queued;
    }
    return queued > twice->of[slot].tokens ? queued - twice->of[slot].tokens
                                           : 0;
}
