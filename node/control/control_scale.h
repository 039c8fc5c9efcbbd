/*
 * How many engines each group should have, for operators: the rule of
 * node/scale/scale.h on what this node measures.
 *
 * A group is named by the first model that its workers list; those that have
 * not told any are in none. Loads are those of all nodes, and engines' queues
 * as the last scrape told; the queue in front of them and how long it takes,
 * refusals and late first tokens are this node's own, so several nodes may say
 * different things for a while. One node acts, the others only show what they
 * would do. With `dry_run` it is the first of the living members by rendezvous
 * hash of its name, which all nodes that see the same members choose alike, and
 * it logs (scale_wants). With `act` it is the one that holds the lease, and
 * asks for engines and gives them back (control_scale_act.h); engines that were
 * asked for and do not take requests yet count as there, and only such as were
 * asked for are given back. Of which pool the next engine is asked says the
 * market of the group (control_scale_pools.h).
 *
 * Role: core, but for the log. Owns: nothing. Thread: control. Limits:
 * CONTROL_SCALE_GROUPS_MAX groups; further ones are left out and counted.
 * Errors: none.
 */
#ifndef NODE_CONTROL_SCALE_H
#define NODE_CONTROL_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/role.h"
#include "mesh/mesh.h"
#include "node/config/config.h"
#include "node/control/control_scale_act.h"
#include "node/control/control_scale_pools.h"
#include "node/control/control_slo.h"
#include "node/route/shared.h"
#include "node/scale/scale.h"
#include "node/text/json_out.h"

#define CONTROL_SCALE_GROUPS_MAX 32U
#define CONTROL_SCALE_US         UINT64_C(5000000) /* between two looks */

struct control_scale_group {
    char model[SCALE_MODEL_MAX];
    bool seen; /* in this look */
    struct scale_group group;
    struct scale_signals signals;
    struct scale_choice choice;
    uint32_t told;               /* engines that were logged; 0: none yet */
    char victim[FLEET_ID_BYTES]; /* who would go; "": nobody */
    struct scale_market market;
    char next[SCALE_POOL_MAX]; /* the pool that the next one would be of; "" */
};

/* All zero at first. */
struct control_scale {
    uint64_t looked_us;
    bool acts;
    char actor[CONFIG_LABEL_MAX];
    uint32_t count;
    uint32_t left_out; /* groups beyond the limit */
    struct control_scale_group group[CONTROL_SCALE_GROUPS_MAX];
    uint64_t shed;                 /* in all, at the last look */
    uint32_t answers[WORKERS_MAX]; /* by slot, since the last look */
    uint32_t late[WORKERS_MAX];
    struct scale_places places;
    struct control_scale_act act;
};

/* A request ended at that slot's worker, and its first token was judged so. */
void control_scale_take(struct control_scale *scale, uint32_t slot,
                        enum control_slo_kept kept);

/* Looks at all groups, when it is time. */
void control_scale_look(struct control *control, uint64_t now_us) ON_CONTROL;

/* What GET /admin/scale answers: an object. */
void control_scale_put(const struct control_scale *scale,
                       const struct config_scale *config,
                       struct json_out *json);

/* How many engines serve that model, and should, as a member `scale` of what
 * GET /admin/explain answers; nothing where nobody judges that, or where its
 * group has another name. */
void control_scale_explain(const struct control_scale *scale,
                           const struct config_scale *config,
                           struct slice model, struct json_out *json);

/* Prometheus text; nothing while it is off. */
void control_scale_put_metrics(const struct control_scale *scale,
                               const struct config_scale *config,
                               struct buf *out);

#endif
