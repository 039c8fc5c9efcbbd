/*
 * Applies the roster to the fleet, and passes operations on this node to the
 * roster. So a worker that is added, drained or removed on one node is added,
 * drained or removed on all.
 *
 * The roster's entry and the fleet's worker determine the step. A worker that
 * the fleet lacks is added. A worker with another spec is replaced, and gets a
 * new slot: nothing that is known of the old one counts for the new one.
 * Draining begins or ends. A removed worker is removed. Steps are idempotent.
 *
 * This node leaves a worker out if its spec makes no sense here, if another
 * worker has its url, or if no slot is free. It logs that once for each change
 * of the entry. In the latter two cases roster_apply_work() tries again. Of two
 * workers with one url, and of more than WORKERS_MAX workers, the first by id
 * are taken, on all nodes alike: a worker takes the place of one that comes
 * after it.
 *
 * API keys. If keys do not travel (roster_spec_internal.h) and an entry has
 * none, its worker uses the key that an operator or the configuration gave to
 * this node; one that announced itself only if it has the url and the sse that the
 * key was given for.
 *
 * Role: core, except that it logs. Owns: keys that operators gave to this node.
 * Thread: control. Limits: WORKERS_MAX keys. Errors: named outcomes, -ENOMEM.
 */
#ifndef NODE_ROSTER_APPLY_H
#define NODE_ROSTER_APPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "gossip/gossip.h"
#include "index/base/check.h"
#include "node/config/config.h"
#include "node/fleet/fleet.h"

struct roster_apply;

enum roster_step {
    ROSTER_KEEP,    /* nothing to do, but for who names it (`from`) */
    ROSTER_ADD,     /* add it, and drain it if the entry says so */
    ROSTER_REPLACE, /* remove it, then as ROSTER_ADD */
    ROSTER_DRAIN,
    ROSTER_UNDRAIN,
    ROSTER_REMOVE,
};

/*
 * The step that a worker needs. there: the fleet's worker (NULL: the fleet does
 * not have it); wanted: the entry's (NULL: it was removed). Both are borrowed
 * for the call.
 */
enum roster_step roster_step(const struct config_worker *there,
                             bool there_drains,
                             const struct config_worker *wanted,
                             bool wanted_drains);

/*
 * secrets: API keys travel, because links have TLS. All arguments are borrowed
 * for the life of the result. 0 and *out, or -ENOMEM.
 */
int roster_apply_new(struct roster_apply **out, struct fleet *fleet,
                     struct roster *roster, const struct config *config,
                     bool secrets) MUST_CHECK;

/* Frees it, but not the fleet and the roster. apply may be NULL. */
void roster_apply_free(struct roster_apply *apply);

/* Another configuration is in force; it is borrowed as the first one was. */
void roster_apply_use(struct roster_apply *apply, const struct config *config);

/* Applies a changed entry (ROSTER_CHANGED). by: the name of the node that sent
 * it; NULL: it is unknown, or the change was made here. Both are borrowed for
 * the call. */
void roster_apply_entry(struct roster_apply *apply,
                        const struct roster_entry *entry, const char *by,
                        uint64_t now_us);

/* Tries again to take in workers that were left out, at most once a second.
 * Call it regularly. */
void roster_apply_work(struct roster_apply *apply, uint64_t now_us);

/* Why the entry's worker is left out: static text. NULL: it is not left out, or
 * it was removed. */
const char *roster_apply_left_out(const struct roster_apply *apply,
                                  const struct roster_entry *entry);

/*
 * Operations on this node. Afterwards pull the roster's outputs. 0; or an
 * outcome of roster_put() or -ENOMEM, and then nothing has changed.
 */

/* Adds the configured workers to the roster, once; the fleet has them
 * already. */
int roster_apply_configure(struct roster_apply *apply, uint64_t now_us)
    MUST_CHECK;

/* Gives a worker without an API key the key that this node was given for its
 * id, if any; one of a source, or that announced itself, only what the
 * configuration has for it. */
void roster_apply_complete(const struct roster_apply *apply,
                           struct config_worker *worker);

/* Adds a worker to the roster for an operator; or renews it (roster_renew()).
 * The fleet has it already; its id is set. */
int roster_apply_put(struct roster_apply *apply,
                     const struct config_worker *worker, bool renews,
                     uint64_t now_us) MUST_CHECK;

#endif
