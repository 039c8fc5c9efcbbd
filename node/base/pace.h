/*
 * Whether what somebody sends comes fast enough: on the average of all of it,
 * so that no trickle keeps a place for long.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef NODE_PACE_H
#define NODE_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
    uint64_t start_us;    /* nothing is expected before */
    uint64_t total_us;    /* all of it must be there by then; 0: no bound */
    uint64_t bytes_per_s; /* at least, after start_us; 0: no bound */
};

/* Whether `bytes` in elapsed_us are enough to wait for more. */
static inline bool
pace_holds(const struct pace *pace, uint64_t elapsed_us, uint64_t bytes)
{
    if (pace->total_us != 0 && elapsed_us > pace->total_us) {
        return false;
    }
    if (pace->bytes_per_s == 0 || elapsed_us <= pace->start_us) {
        return true;
    }
    /* Whole milliseconds: 2^64 / 10^3 us are centuries, and bytes are few. */
    uint64_t due_ms = (elapsed_us - pace->start_us) / 1000;
    return bytes * 1000 >= due_ms * pace->bytes_per_s;
}

#endif
