/* The three states of a circuit breaker. */
#include "node/view/breaker.h"

#include "index/base/check.h"
#include "index/base/mutant.h"

static uint32_t
next_open_ms(const struct breaker *breaker, const struct config_breaker *config)
{
    uint64_t ms = breaker->open_ms == 0 ? config->open_ms
                                        : (uint64_t)breaker->open_ms * 2;

    return ms < config->open_max_ms ? (uint32_t)ms : config->open_max_ms;
}

static bool
open_up(struct breaker *breaker, const struct config_breaker *config,
        uint64_t now_us)
{
    uint32_t open_ms = next_open_ms(breaker, config);

    *breaker = (struct breaker){
        .state = BREAKER_OPEN,
        .open_ms = open_ms,
        .open_until_us = now_us + (uint64_t)open_ms * 1000,
    };
    CHECK(breaker->open_until_us >= now_us);
    return true;
}

static bool
report_half_open(struct breaker *breaker, const struct config_breaker *config,
                 bool success, uint64_t now_us)
{
    CHECK(breaker->state == BREAKER_HALF_OPEN && breaker->failures == 0);
    if (!success) {
        return open_up(breaker, config, now_us);
    }
    breaker->successes++;
    if (breaker->successes < config->successes) {
        return false;
    }
    *breaker = (struct breaker){.state = BREAKER_CLOSED};
    return true;
}

bool
breaker_report(struct breaker *breaker, const struct config_breaker *config,
               uint32_t enough, bool success, uint64_t now_us)
{
    CHECK(enough != 0);
    switch (breaker->state) {
    case BREAKER_OPEN:
        return false;
    case BREAKER_HALF_OPEN:
        return report_half_open(breaker, config, success, now_us);
    case BREAKER_CLOSED:
        break;
    }
    if (success) {
        breaker->failures = 0;
        breaker->open_ms = 0;
        return false;
    }
    if (enough != BREAKER_NEVER && breaker->failures + 1 >= enough) {
        return open_up(breaker, config, now_us);
    }
    breaker->failures++;
    if (breaker->failures >= config->failures) { /* see BREAKER_NEVER */
        breaker->failures = config->failures - 1;
    }
    return false;
}

bool
breaker_tick(struct breaker *breaker, uint64_t now_us)
{
    if (breaker->state != BREAKER_OPEN || now_us < breaker->open_until_us ||
        MUTANT(NEVER_HALF)) {
        return false;
    }
    breaker->state = BREAKER_HALF_OPEN;
    CHECK(breaker->successes == 0);
    return true;
}

uint64_t
breaker_deadline(const struct breaker *breaker)
{
    return breaker->state == BREAKER_OPEN && !MUTANT(NEVER_HALF)
               ? breaker->open_until_us
               : UINT64_MAX;
}

bool
breaker_reset(struct breaker *breaker)
{
    bool changed = breaker->state != BREAKER_CLOSED;

    *breaker = (struct breaker){
        .state = BREAKER_CLOSED,
        .open_ms = breaker->open_ms,
    };
    return changed;
}
