/*
 * Runs what a fleet asks for: probes over HTTP, lookups of names, views, log
 * lines. It decides nothing.
 *
 *   probe_new(&probe, loop, fleet, &owner);
 *   ... fleet_add(), fleet_remove(), fleet_report(), ...; probe_poke(probe);
 *   probe_free(probe);
 *
 * One timer stands at the fleet's deadline. Probes go to the address that
 * lanes use, under the worker's own host name, over a connection that is kept
 * for them; those that are to show whether a connection can be had (`fresh`)
 * get a new one.
 *
 * Role: shell. Owns: its timer and calls. Thread: the loop's (control).
 * Limits: one call per worker and kind, one connection kept for each;
 * PROBE_ANSWER_BYTES_MAX of an answer; 16 addresses of a name.
 * Errors: -errno from probe_new(); later ones are failed probes.
 */
#ifndef NODE_PROBE_H
#define NODE_PROBE_H

#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "node/fleet/fleet.h"

#define PROBE_ANSWER_BYTES_MAX ((size_t)8 << 20)

struct probe;

struct probe_owner {
    void *context;
    /*
     * Something happened to a worker; it was logged already. FLEET_ADDED,
     * FLEET_CAPACITY_CHANGED and FLEET_REMOVED concern the index. Called from
     * within probe_poke(); may call fleet functions. NULL: not interested.
     */
    void (*event)(void *context, const struct fleet_out *out);
    /* A new view was published. NULL: not interested. */
    void (*published)(void *context);
};

/* The clock that fleets under a probe live on: monotonic microseconds. */
uint64_t probe_now_us(void);

/* 0, or -errno and *out is NULL. The fleet outlives the probe; what it wants
 * already is started from the loop. */
int probe_new(struct probe **out, uv_loop_t *loop, struct fleet *fleet,
              const struct probe_owner *owner) MUST_CHECK;

/* Does all that the fleet wants now and sets the timer. To be called after
 * calls into the fleet; from within the owner's callbacks without effect,
 * since it goes on there anyway. */
void probe_poke(struct probe *probe);

/* Cancels what runs; nothing is called any more. Freed from the loop once its
 * handles are closed. NULL is fine. */
void probe_free(struct probe *probe);

#endif
