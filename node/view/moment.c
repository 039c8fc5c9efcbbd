/* When a node elects long prompts. */
#include "node/view/moment.h"

#include "index/base/check.h"

#define SLOT_BITS 8U

void
moment_put(struct moment *moment, uint32_t number, uint32_t nodes)
{
    uint32_t slots = nodes < MOMENT_SLOTS_MAX ? nodes : MOMENT_SLOTS_MAX;
    uint32_t place = 0;

    CHECK(number < nodes);
    if (nodes > 1) {
        place = slots << SLOT_BITS | number % slots;
    }
    gauge_set(&moment->place, (int32_t)place);
}

/* Whether long prompts come in crowds: this one counts, too. */
static bool
is_crowded(struct moment *moment, uint64_t wall_us)
{
    uint32_t now = (uint32_t)wall_us & INT32_MAX;
    uint32_t since = (now - gauge_read(&moment->last)) & INT32_MAX;
    uint32_t credit = gauge_read(&moment->credit);

    if (since <= MOMENT_CROWD_US) {
        credit += MOMENT_EARN;
        credit = credit < MOMENT_MOST ? credit : MOMENT_MOST;
    } else if (credit > 0) {
        credit--;
    }
    gauge_set(&moment->last, (int32_t)now);
    gauge_set(&moment->credit, (int32_t)credit);
    return credit >= MOMENT_FROM;
}

uint32_t
moment_wait_us(struct moment *moment, uint64_t tokens, uint64_t wall_us)
{
    uint32_t place = gauge_read(&moment->place);

    if (place == 0 || tokens < MOMENT_TOKENS || !is_crowded(moment, wall_us)) {
        return 0;
    }
    uint64_t own_us = (place & ((1U << SLOT_BITS) - 1)) * MOMENT_SLOT_US;
    uint64_t round_us = (place >> SLOT_BITS) * MOMENT_SLOT_US;
    CHECK(own_us < round_us);
    uint64_t in_us = (wall_us + round_us - own_us) % round_us;
    return in_us < MOMENT_OPEN_US ? 0 : (uint32_t)(round_us - in_us);
}
