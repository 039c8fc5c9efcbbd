/*
 * Where the control thread's workers come from: the configuration, operators
 * here, and operators on other nodes, all by way of the cluster's roster.
 *
 * Role: shell. Owns: how the roster is applied. Thread: control.
 * Errors: -errno.
 */
#ifndef NODE_CONTROL_ROSTER_H
#define NODE_CONTROL_ROSTER_H

#include "index/base/check.h"
#include "index/base/role.h"
#include "node/control/control.h"

/* The workers of the configuration, in fleet and roster; between peers_new()
 * and peers_start(). 0, or -errno with one line in the log. */
int control_roster_open(struct control *control) MUST_CHECK ON_CONTROL;

/* Frees what control_roster_open() made; also after it failed. */
void control_roster_close(struct control *control);

/* The roster's entry differs from the one reported last. */
void control_roster_changed(struct control *control,
                            const struct roster_entry *entry) ON_CONTROL;

/* Call this now and then: tries again to take in workers that could not be
 * taken in. */
void control_roster_work(struct control *control) ON_CONTROL;

/*
 * Operations on this node, for all nodes. put: 0, an FLEET_E_ outcome, or
 * -errno. The others: false when there is no such worker; a worker that only
 * this node cannot take in does exist.
 */
int control_roster_put(struct control *control,
                       const struct config_worker *worker)
    MUST_CHECK ON_CONTROL;
/* The same for a worker that is there and was announced: as it is now, or named
 * by another node. */
int control_roster_renew(struct control *control,
                         const struct config_worker *worker)
    MUST_CHECK ON_CONTROL;
bool control_roster_drain(struct control *control, struct slice id,
                          bool draining) MUST_CHECK ON_CONTROL;
/* A source's: it has the worker drain because it lists it no more (left), or no
 * longer. An operator's word after it stays. */
bool control_roster_leave(struct control *control, struct slice id, bool left)
    MUST_CHECK ON_CONTROL;
bool control_roster_remove(struct control *control, struct slice id)
    MUST_CHECK ON_CONTROL;

/* Where a worker comes from: what named it (`from`), "scale rule" (an engine
 * that was asked for), "configuration" (of some node), or "operator". Good until
 * the next change of the worker. */
const char *control_roster_from(struct control *control, const char *id)
    ON_CONTROL;

/* Whether it is here, and drains. */
bool control_roster_drains(const struct control *control, struct slice id)
    ON_CONTROL;

/* Whether this node has exactly that worker. */
bool control_roster_has(const struct control *control,
                        const struct config_worker *worker) ON_CONTROL;

#endif
