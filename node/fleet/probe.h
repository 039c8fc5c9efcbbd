/*
 * Carries out what a fleet asks for: probes over HTTP, lookups of names, views,
 * log lines. It decides nothing.
 *
 *   probe_new(&probe, loop, fleet, &owner);
 *   ...
 *   fleet_add(), fleet_remove(), fleet_report(), ...;
 *   probe_poke(probe);
 *   probe_free(probe);
 *
 * One timer is set to the fleet's deadline. Probes go to the address that lanes
 * use, under the worker's own host name, over a connection that is kept for
 * them; a probe that tests whether a connection can be made (`fresh`) gets a
 * new one.
 *
 * Role: shell. Owns: its timer and calls. Thread: the loop's (control). Limits:
 * one call per worker and kind, one kept connection for each;
 * PROBE_ANSWER_BYTES_MAX per answer; 16 addresses per name. Errors: -errno from
 * probe_new(); later errors are failed probes.
 */
#ifndef NODE_PROBE_H
#define NODE_PROBE_H

#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "node/base/sock_tls.h"
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

/* 0, or -errno and *out is NULL. The fleet outlives the probe; work that it
 * already wants is started from the loop. */
int probe_new(struct probe **out, uv_loop_t *loop, struct fleet *fleet,
              const struct probe_owner *owner) MUST_CHECK;

/* What workers with https must show; good until the next call. Before the loop
 * runs. */
void probe_use_tls(struct probe *probe, const struct sock_tls_context *tls);

/* Does all that the fleet wants now and sets the timer. Call it after calls
 * into the fleet. From within the owner's callbacks it does nothing, because
 * the work continues there anyway. */
void probe_poke(struct probe *probe);

/* Cancels what runs; no callback follows. The memory is freed from the loop
 * once its handles are closed. probe may be NULL. */
void probe_free(struct probe *probe);

#endif
