/*
 * How much each tenant may ask for: the limits of keys.file and of the
 * configuration as rules (limits_table.h), which lanes go by, and their meters,
 * which are looked at while the loop goes round, and told to and heard of peers.
 *
 * Lanes take and settle without control; what they may take was set at the last
 * look, 10 ms ago or so. Control is awake while requests come, and looks ten
 * times a second otherwise.
 *
 * Role: shell. Owns: the rules; the view that lanes have is the node's. Thread:
 * control. Limits: LIMITS_RULES_MAX. Errors: lines of the configuration's.
 */
#ifndef NODE_CONTROL_LIMITS_H
#define NODE_CONTROL_LIMITS_H

#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/role.h"
#include "node/config/config.h"
#include "node/limits/limits_table.h"
#include "node/peers/hints.h"
#include "node/route/shared.h"
#include "node/text/json_out.h"

struct control_limits {
    struct node_shared *node;
    struct limits_table *table;
    uint64_t looked_us;
    uint64_t heard; /* gossip_gauges_heard() as of the meters */
    uint64_t told[LIMITS_RULES_MAX / 64]; /* rules that peers know of */
};

/* What is wanted; see control_limits_read(). */
struct control_limits_plan {
    struct limits_view *view; /* NULL: nothing was planned */
    struct limits_want *want;
    uint32_t count;
};

/* No rules. node outlives it. 0, or -ENOMEM. */
int control_limits_init(struct control_limits *cl, struct node_shared *node,
                        uint64_t seed) MUST_CHECK;

/* After the lanes are gone. */
void control_limits_fini(struct control_limits *cl);

/* Plans the limits of the configuration, and of keys (NULL: none are needed),
 * which outlives the plan; changes nothing. 0 and *plan, for
 * control_limits_publish() or control_limits_drop(); CONFIG_E_INVALID, and the
 * errors say why. */
int control_limits_read(const struct control_limits *cl,
                        const struct config *config, const struct keys *keys,
                        struct control_limits_plan *plan,
                        struct config_errors *errors) ON_CONTROL MUST_CHECK;

/* Lanes go by it from their next request on. The keys are the published ones
 * by now. */
void control_limits_publish(struct control_limits *cl,
                            struct control_limits_plan *plan, uint64_t now_us)
    ON_CONTROL;

/* It is not wanted. */
void control_limits_drop(struct control_limits_plan *plan);

/* Reads and publishes those of the start. 0, or -EINVAL and the log says
 * why. */
int control_limits_start(struct control_limits *cl, uint64_t now_us)
    ON_CONTROL MUST_CHECK;

/* Looks at what lanes took and peers told, and sets what they may take; tells
 * peers, if tells. Call it often. */
void control_limits_look(struct control_limits *cl, struct hints *hints,
                         bool tells, uint64_t now_us) ON_CONTROL;

/* Of a tenant's request for that model, which may need so many tokens: its
 * limits as members of the open object, and what would become of it now. */
enum limits_take control_limits_explain(const struct control_limits *cl,
                                        uint32_t tenant, struct slice model,
                                        uint64_t tokens, struct json_out *json)
    ON_CONTROL;

/* The rules in force and how they stand. */
void control_limits_put(struct control_limits *cl, struct json_out *json)
    ON_CONTROL;
void control_limits_put_metrics(struct control_limits *cl, struct buf *out)
    ON_CONTROL;

#endif
