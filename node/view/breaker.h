/*
 * A circuit breaker: keeps requests away from a worker whose requests fail
 * although its health checks pass.
 *
 *   closed     every request may go there; `failures` in a row open it, if the
 *              owner lets them: see below
 *   open       none may, for open_ms; each reopening doubles that, up to
 *              open_max_ms
 *   half open  trial requests may, one at a time; `successes` in a row
 *              close it, one failure opens it again
 *
 * (Nygard, Release It!, 2007.) While it is open, late results of requests sent
 * before change nothing. If a worker was down and is up again, that explains
 * its failures: breaker_reset() closes the breaker, so that a restarted engine
 * is back within one health interval. But until a success is seen, the next
 * opening remembers how long the last one was.
 *
 * Failures may be the requests' fault. So the owner says how many are enough
 * now, or that none are (BREAKER_NEVER): fleet.c, fleet_outlier.c.
 *
 * The limits may be others at each report, because a reload changes them: those
 * of the report count, for what is on record, too.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: struct config_breaker.
 * Errors: none.
 */
#ifndef NODE_BREAKER_H
#define NODE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "node/config/config.h"

enum breaker_state {
    BREAKER_CLOSED,
    BREAKER_OPEN,
    BREAKER_HALF_OPEN,
};

/* All zero is closed, with nothing on record. */
struct breaker {
    enum breaker_state state;
    uint32_t failures;      /* in a row, while closed */
    uint32_t successes;     /* in a row, while half open */
    uint32_t open_ms;       /* of the last opening; 0: none on record */
    uint64_t open_until_us; /* while open */
};

#define BREAKER_NEVER UINT32_MAX

/* A request's result. enough: failures in a row that open it, 1 to
 * config->failures, or BREAKER_NEVER. True when the state changed. */
bool breaker_report(struct breaker *breaker,
                    const struct config_breaker *config, uint32_t enough,
                    bool success, uint64_t now_us);

/* Lets time pass. True when the state changed (open to half open). */
bool breaker_tick(struct breaker *breaker, uint64_t now_us);

/* When breaker_tick() has something to do; UINT64_MAX: never. */
uint64_t breaker_deadline(const struct breaker *breaker);

/* The worker was down and is up. True when the state changed. */
bool breaker_reset(struct breaker *breaker);

/* Whether successes matter to it: it is not closed, or has failures. */
static inline bool
breaker_watches(const struct breaker *breaker)
{
    return breaker->state != BREAKER_CLOSED || breaker->failures > 0 ||
           breaker->open_ms > 0;
}

#endif
