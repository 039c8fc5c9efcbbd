/*
 * Engines that announce themselves: POST /admin/workers with a ttl, again and
 * again before it is over. Silence removes the worker, on all nodes.
 *
 * The node that heard an engine last counts its time: its name is in the
 * worker's `from` ("announced:TTL:NODE"), which the roster tells all nodes. An
 * engine may announce itself to any node, and to another one the next time;
 * then that one counts. When the node that counts has left the mesh, or is
 * forgotten there (struct member_config, forget_ms after its death), each other
 * one does, from the moment on when it saw that; an engine that is alive finds
 * another node meanwhile. Of a dead node nobody knows what it hears: it may be
 * alive behind a cut, and a removal would take its living engines from it when
 * the cut ends. Until then probes say who of them gets requests. After a
 * restart the time begins anew.
 *
 * Role: shell. Owns: the times. Thread: control. Limits: WORKERS_MAX. Errors:
 * outcomes of the fleet, -errno.
 */
#ifndef NODE_CONTROL_ANNOUNCED_H
#define NODE_CONTROL_ANNOUNCED_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/role.h"
#include "node/config/config.h"

struct control;

/* All zero at first. */
struct control_announced {
    uint64_t looked_us;
    struct control_lease {
        char id[CONFIG_LABEL_MAX]; /* "": this place is free */
        uint64_t due_us;
    } lease[WORKERS_MAX];
};

/* Reads a ttl, from 1s to 1h. False: it is none, and *ttl_ms is unchanged. */
bool control_announced_ttl(struct slice text, uint32_t *ttl_ms) MUST_CHECK;

/* Takes an announced worker in, or renews it; worker has a url and an id. 0;
 * FLEET_E_DUPLICATE_ID: somebody else named a worker of that id; or as
 * control_roster_put(). */
int control_announce(struct control *control,
                     const struct config_worker *worker, uint32_t ttl_ms)
    MUST_CHECK ON_CONTROL;

/* Removes those that were silent for too long. Call it often. */
void control_announced_look(struct control *control) ON_CONTROL;

#endif
