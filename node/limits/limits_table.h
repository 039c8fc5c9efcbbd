/*
 * All limits of a node: which there are, whose requests they are for, and what
 * lanes take from.
 *
 * A rule is a limit of one thing (limits_of) for one tenant, of its requests
 * for one model or for all; or of all tenants' requests for one model together
 * (LIMITS_EVERYBODY). It keeps its place, its gate and its meter for the
 * life of the node, whatever later configurations say: what was spent stays
 * spent when an amount changes, or when a rule goes and comes back.
 *
 *   limits_table_plan()   what a configuration wants; changes nothing
 *   limits_table_take()   makes it so; the plan's view is for lanes
 *   limits_view_find()    a lane finds the gates of a request
 *
 * Role: core. Owns: its rules; a view is whoever's planned it. Thread: one;
 * views and gates are for any. Limits: LIMITS_RULES_MAX since the node began.
 * Errors: named outcomes, -ENOMEM.
 */
#ifndef NODE_LIMITS_TABLE_H
#define NODE_LIMITS_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/slice.h"
#include "node/limits/limits_gate.h"
#include "node/limits/limits_meter.h"
#include "node/limits/limits_rate.h"

#define LIMITS_RULES_MAX   1152U
#define LIMITS_TENANTS_MAX 256U
#define LIMITS_EVERYBODY   LIMITS_TENANTS_MAX /* in place of one tenant */
#define LIMITS_NAME_MAX    128U               /* of a model, with its NUL */

struct limits_want {
    uint32_t tenant;  /* its number, or LIMITS_EVERYBODY */
    const char *name; /* its name, the same on all nodes, or ""; for the call */
    enum limits_of of;
    struct limits_rate rate; /* amount: 1 or more */
    const char *model; /* "": all; with a * at its end all that begin so */
};

struct limits_rule {
    uint64_t identity; /* the same on all nodes */
    uint32_t tenant;
    enum limits_of of;
    struct limits_rate rate; /* amount 0: it is not in force */
    char model[LIMITS_NAME_MAX];
    uint64_t base; /* of what was spent, when it was last not in force */
};

/* What a limit is of. */
enum limits_whose {
    LIMITS_TENANT,       /* all requests of a tenant */
    LIMITS_TENANT_MODEL, /* its requests for a model */
    LIMITS_MODEL,        /* everybody's requests for a model */
    LIMITS_WHOSES,
};

/* The gates that a request passes, in this order; NULL: none. */
struct limits_gates {
    struct limits_gate *at[LIMITS_WHOSES][LIMITS_OFS];
};

struct limits_table;
struct limits_view;

enum {
    LIMITS_E_FULL = 1, /* LIMITS_RULES_MAX is reached */
};

/* No rules. 0 and *out, or -ENOMEM. */
int limits_table_new(struct limits_table **out, uint64_t seed) MUST_CHECK;

/* NULL is fine. No lane has a view or a gate any more. */
void limits_table_free(struct limits_table *table);

/* What lanes go by if all that is wanted, and nothing else, is in force: 0 and
 * *out, the caller's, for limits_view_free(); LIMITS_E_FULL, -ENOMEM. Of one
 * tenant's models, and of everybody's, the first that fits a request counts. No
 * two are of the same tenant, thing and model. */
int limits_table_plan(const struct limits_table *table,
                      const struct limits_want *want, uint32_t count,
                      struct limits_view **out) MUST_CHECK;

/* Makes the same so, right after it was planned. */
void limits_table_take(struct limits_table *table,
                       const struct limits_want *want, uint32_t count,
                       uint64_t now_us);

/* The rules that are or were in force; at is below the count. */
uint32_t limits_table_count(const struct limits_table *table);
const struct limits_rule *limits_table_rule(const struct limits_table *table,
                                            uint32_t at);
struct limits_gate *limits_table_gate(struct limits_table *table, uint32_t at);
struct limits_meter *limits_table_meter(struct limits_table *table,
                                        uint32_t at);

/* The rule of a gate that a view found. */
uint32_t limits_table_of(const struct limits_table *table,
                         const struct limits_gate *gate);

/* What a node tells of a rule: nothing (all zero) while it is not in force. */
struct limits_told limits_table_tell(const struct limits_table *table,
                                     uint32_t at);

/* Finds the gates of a tenant's request for that model ("": it names none).
 * False: there are none. */
bool limits_view_find(const struct limits_view *view, uint32_t tenant,
                      struct slice model, struct limits_gates *found);

/* Whether there is any. */
bool limits_view_any(const struct limits_view *view);

/* NULL is fine. */
void limits_view_free(struct limits_view *view);

/* For qsbr_retire() with limits_view_free_retired(). */
struct qsbr_node *limits_view_retired(struct limits_view *view);
void limits_view_free_retired(struct qsbr_node *retired);

#endif
