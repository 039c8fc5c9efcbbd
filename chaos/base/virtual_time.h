/*
 * Virtual time: a clock, and a heap of the events that will happen on it.
 *
 * Time stands still until virtual_time_next() hands out the earliest event
 * and moves the clock there. Of events of one moment the one that was added
 * first comes first, so the same calls give the same order, on every machine.
 *
 * An event cannot be withdrawn. An owner that no longer wants an event ignores
 * it when it comes, and recognises it by a number of its own in `what`.
 *
 * Role: core. Owns: one array, which grows. Thread: one owner.
 * Limits: events_max pending at a time. Errors: VIRTUAL_TIME_E_FULL, -ENOMEM.
 * Cost: O(log n) for each event, four children to a node.
 */
#ifndef CHAOS_VIRTUAL_TIME_H
#define CHAOS_VIRTUAL_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"

#define VIRTUAL_TIME_NEVER UINT64_MAX

enum {
    VIRTUAL_TIME_E_FULL = 1, /* events_max wait already: nothing was added */
};

struct virtual_event {
    uint64_t time_us;
    uint64_t order; /* of adding, from 0; filled by virtual_time_add() */
    uint32_t kind;  /* these three are the caller's */
    uint32_t who;
    uint64_t what;
};

struct virtual_time {
    uint64_t now_us;
    uint64_t added; /* events so far */
    struct virtual_event *heap;
    uint32_t count;
    uint32_t size; /* of heap */
    uint32_t events_max;
};

/* The clock stands at now_us. Allocates nothing yet. events_max: 1 or more. */
void virtual_time_init(struct virtual_time *time, uint32_t events_max,
                       uint64_t now_us);

/* Frees the heap; what was pending never happens. */
void virtual_time_fini(struct virtual_time *time);

/* event->time_us is not before now. 0, VIRTUAL_TIME_E_FULL, or -ENOMEM. */
int virtual_time_add(struct virtual_time *time,
                     const struct virtual_event *event) MUST_CHECK;

/*
 * Hands out the earliest event that is not after until_us, and moves the clock
 * to it: true. False: there is none; the clock stands at until_us then, unless
 * that is VIRTUAL_TIME_NEVER or before now.
 */
bool virtual_time_next(struct virtual_time *time, uint64_t until_us,
                       struct virtual_event *event) MUST_CHECK;

/* When the earliest event is, or VIRTUAL_TIME_NEVER. */
uint64_t virtual_time_deadline(const struct virtual_time *time);

/* Verifies every invariant; false and *reason (static text) when broken. */
bool virtual_time_check(const struct virtual_time *time, const char **reason);

#endif
