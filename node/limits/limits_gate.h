/*
 * What one limit lets through on this node, for lanes: a request takes what it
 * may need before it goes to a worker, and settles when it ends. Control looks
 * at what was taken and says how much more may be (limits_meter.h).
 *
 * Numbers are of requests, tokens or open requests, since the node began; they
 * only differ from each other by what counts.
 *
 * Role: core. Owns: nothing. Thread: taking and settling by lanes, the rest by
 * control; no lane waits. All zero lets nothing through.
 */
#ifndef NODE_LIMITS_GATE_H
#define NODE_LIMITS_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/claim.h"
#include "index/base/counter.h"

struct limits_gate {
    struct counter level; /* taken, less what was settled for nothing */
    struct counter spent; /* settled for something; the rest is open */
    struct counter refused;
    struct counter waits;  /* of those who wait for some of it */
    struct counter waited; /* how many did, since the node began */

    /* Control writes. */
    struct counter open;     /* while the level is below, one may take ... */
    struct counter most;     /* ... what ends no higher than this */
    struct counter limit;    /* the whole */
    struct counter first_ms; /* until some of what is spent counts no more */
    struct counter last_ms;  /* until all of it does not */
};

/* How a limit stands, for a client. */
struct limits_standing {
    uint64_t limit;
    uint64_t left;
    uint64_t reset_ms; /* until it is whole again, if nothing more is taken */
    uint64_t wait_ms;  /* until there is probably enough for who was refused */
};

/* The most that one request may take at this node now. */
static inline uint64_t
limits_gate_room(const struct limits_gate *gate)
{
    uint64_t level = counter_read(&gate->level);
    uint64_t most = counter_read(&gate->most);

    return level < counter_read(&gate->open) && level < most ? most - level : 0;
}

enum limits_take {
    LIMITS_TAKEN,
    LIMITS_WAITS, /* there is so much, but not at hand: this node asks for it */
    LIMITS_OVER,  /* there is not */
};

/* What would become of n, 1 or more: before those who wait already, if it is
 * one of them, or else behind them. */
static inline enum limits_take
limits_gate_look(const struct limits_gate *gate, uint64_t n, bool waits)
{
    uint64_t before = waits ? 0 : counter_read(&gate->waits);
    uint64_t level = counter_read(&gate->level);
    uint64_t most = counter_read(&gate->most);

    if (most < before || most - before < level || n > most - before - level) {
        return LIMITS_OVER;
    }
    return before == 0 && level < counter_read(&gate->open) ? LIMITS_TAKEN
                                                            : LIMITS_WAITS;
}

/* The same, and takes it if it can be taken; who is over is counted. */
static inline enum limits_take
limits_gate_ask(struct limits_gate *gate, uint64_t n, bool waits)
{
    enum limits_take outcome = limits_gate_look(gate, n, waits);

    CHECK_SLOW(n != 0);
    if (outcome == LIMITS_TAKEN &&
        !counter_claim(&gate->level, n, counter_read(&gate->open),
                       counter_read(&gate->most))) {
        outcome = LIMITS_WAITS; /* another lane was faster */
    }
    counter_add(&gate->refused, outcome == LIMITS_OVER);
    return outcome;
}

/* Somebody waits for n, from now on or no longer. */
static inline void
limits_gate_wait(struct limits_gate *gate, uint64_t n)
{
    counter_add(&gate->waits, n);
    counter_add(&gate->waited, 1);
}

static inline void
limits_gate_leave(struct limits_gate *gate, uint64_t n)
{
    counter_add(&gate->waits, -n); /* modulo 2^64 */
}

/* Takes n, 1 or more. False: there is not so much, and it is counted. */
static inline bool
limits_gate_take(struct limits_gate *gate, uint64_t n)
{
    bool taken = counter_claim(&gate->level, n, counter_read(&gate->open),
                               counter_read(&gate->most));

    CHECK_SLOW(n != 0);
    if (!taken) {
        counter_add(&gate->refused, 1);
    }
    return taken;
}

/* Of n that were taken, `spent` were: it may be more. */
static inline void
limits_gate_settle(struct limits_gate *gate, uint64_t n, uint64_t spent)
{
    counter_add(&gate->spent, spent);
    counter_add(&gate->level, spent - n); /* modulo 2^64 */
}

/* Of n that were taken, m are needed instead: the rest is settled for m. */
static inline void
limits_gate_change(struct limits_gate *gate, uint64_t n, uint64_t m)
{
    counter_add(&gate->level, m - n); /* modulo 2^64 */
}

/* For a client who takes n more. */
struct limits_standing limits_gate_standing(const struct limits_gate *gate,
                                            uint64_t n);

#endif
