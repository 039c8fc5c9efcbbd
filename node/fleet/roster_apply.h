/*
 * Makes the fleet what the roster says, and the roster what the operators of
 * this node say: a worker that is added, drained or removed on one node is so
 * on all.
 *
 * What an entry says and what the fleet has determine the step: a worker that
 * is not there is added, one of another spec is replaced (its slot too: nothing
 * of the old one is believed of the new one), draining begins or ends, and one
 * that was removed goes. Steps are idempotent, whoever makes them first.
 *
 * A worker that this node cannot take in (its spec makes no sense here, another
 * worker has its url, no slot is free) is left out, with one log line for each
 * change of the entry; in the latter two cases roster_apply_work() tries again.
 * Of two workers with one url, and of more than WORKERS_MAX, the first by id
 * are taken, the same on all nodes: one that comes before another that is there
 * takes its place.
 *
 * API keys. Where they do not travel (roster_spec_internal.h), a worker whose
 * entry has none has the key that this node was told: by an operator, or by its
 * configuration.
 *
 * Role: core, but that it logs. Owns: keys that operators said here. Thread:
 * control. Limits: WORKERS_MAX keys. Errors: named outcomes, -ENOMEM.
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
    ROSTER_KEEP,    /* nothing to do */
    ROSTER_ADD,     /* add it, and drain it if the entry says so */
    ROSTER_REPLACE, /* remove it, then as ROSTER_ADD */
    ROSTER_DRAIN,
    ROSTER_UNDRAIN,
    ROSTER_REMOVE,
};

/*
 * The step that a worker needs: `there` is what the fleet has (NULL: the fleet
 * does not have it), `wanted` what the entry says (NULL: it was removed). Both
 * are borrowed for the call.
 */
enum roster_step roster_step(const struct config_worker *there,
                             bool there_drains,
                             const struct config_worker *wanted,
                             bool wanted_drains);

/*
 * secrets: API keys travel, links have TLS. All is borrowed for the life of
 * the result. 0 and *out, or -ENOMEM.
 */
int roster_apply_new(struct roster_apply **out, struct fleet *fleet,
                     struct roster *roster, const struct config *config,
                     bool secrets) MUST_CHECK;

/* Frees it; the fleet and the roster stay. NULL is fine. */
void roster_apply_free(struct roster_apply *apply);

/* Carries out a changed entry (ROSTER_CHANGED). by: the name of the node that
 * sent it; NULL: unknown, or it was said here. Both are borrowed for the
 * call. */
void roster_apply_entry(struct roster_apply *apply,
                        const struct roster_entry *entry, const char *by,
                        uint64_t now_us);

/* Tries again to take in what was left out, at most once a second. Call it now
 * and then. */
void roster_apply_work(struct roster_apply *apply, uint64_t now_us);

/* Why the entry's worker is left out: static text. NULL: it is not, or it was
 * removed. */
const char *roster_apply_left_out(const struct roster_apply *apply,
                                  const struct roster_entry *entry);

/*
 * Operations on this node; afterwards pull the roster's outputs. 0; or an
 * outcome of roster_put(), or -ENOMEM, and nothing has changed.
 */

/* Adds the configured workers to the roster, once; the fleet has them
 * already. */
int roster_apply_configure(struct roster_apply *apply, uint64_t now_us)
    MUST_CHECK;

/* Gives a worker without an API key the key that this node was given for its
 * id, if any. */
void roster_apply_complete(const struct roster_apply *apply,
                           struct config_worker *worker);

/* Adds a worker to the roster for an operator. The fleet has it already; its id
 * is set. */
int roster_apply_put(struct roster_apply *apply,
                     const struct config_worker *worker, uint64_t now_us)
    MUST_CHECK;

#endif
