/* Limits: from the configuration to lanes, and between the meters and peers. */
#include "node/control/control_limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "mesh/mesh.h"
#include "node/base/log.h"
#include "node/control/control_keys.h"
#include "node/peers/hints_limits.h"
#include "node/text/prom_out.h"

#define LOOK_US      UINT64_C(10000)
#define LOOK_IDLE_US UINT64_C(90000) /* a rule that nobody uses */

_Static_assert(KEYS_TENANTS_MAX <= LIMITS_TENANTS_MAX, "rules for each tenant");
_Static_assert(KEYS_MODEL_MAX <= LIMITS_NAME_MAX, "a rule for each model");
_Static_assert(CONFIG_LIMIT_MODEL_MAX <= LIMITS_NAME_MAX, "likewise");
_Static_assert((KEYS_TENANTS_MAX + CONFIG_MODELS_MAX) * LIMITS_OFS +
                       KEYS_LIMITS_MAX <=
                   LIMITS_RULES_MAX,
               "room for all that a file can say");

int
control_limits_init(struct control_limits *cl, struct node_shared *node,
                    uint64_t seed)
{
    *cl = (struct control_limits){.node = node};
    return limits_table_new(&cl->table, seed);
}

void
control_limits_fini(struct control_limits *cl)
{
    limits_view_free(
        (struct limits_view *)(uintptr_t)publish_get(&cl->node->limits));
    publish_set(&cl->node->limits, NULL);
    limits_table_free(cl->table);
    cl->table = NULL;
}

/* What is wanted */

static void
add_want(struct control_limits_plan *plan, const struct limits_want *want)
{
    CHECK(plan->count < LIMITS_RULES_MAX);
    if (want->rate.amount != 0) {
        plan->want[plan->count++] = *want;
    }
}

/* A tenant's limits; of all its requests those of the configuration where it
 * has none of its own. */
static void
add_tenant(struct control_limits_plan *plan,
           const struct limits_rate usual[LIMITS_OFS], const struct keys *keys,
           uint32_t tenant)
{
    struct limits_want want = {.tenant = tenant, .name = KEYS_DEFAULT};
    bool own[LIMITS_OFS] = {false};
    const struct keys_limit *limit;

    want.name = keys != NULL ? keys_tenant_name(keys, tenant) : want.name;
    for (uint32_t i = 0; keys != NULL && (limit = keys_limit(keys, i)) != NULL;
         i++) {
        if (limit->tenant == tenant) {
            want.of = limit->of;
            want.rate = limit->rate;
            want.model = limit->model;
            add_want(plan, &want);
            own[limit->of] = own[limit->of] || limit->model[0] == '\0';
        }
    }
    for (unsigned of = 0; of < LIMITS_OFS; of++) {
        want.of = (enum limits_of)of;
        want.rate = usual[of];
        want.model = "";
        if (!own[of]) {
            add_want(plan, &want);
        }
    }
}

/* Of all tenants together. */
static void
add_models(struct control_limits_plan *plan,
           const struct config_model_limits *models)
{
    for (uint32_t i = 0; i < models->count; i++) {
        for (unsigned of = 0; of < LIMITS_OFS; of++) {
            add_want(plan, &(struct limits_want){
                               .tenant = LIMITS_EVERYBODY,
                               .name = "",
                               .of = (enum limits_of)of,
                               .rate = models->model[i].rate[of],
                               .model = models->model[i].name,
                           });
        }
    }
}

static void
say_full(struct config_errors *errors, int outcome)
{
    const char *why = outcome == LIMITS_E_FULL
                          ? "too many limits since this node began: restart "
                            "it to forget those that are gone\n"
                          : "no memory for limits; try again\n";

    buf_add_text(&errors->text, why);
    errors->count++;
}

int
control_limits_read(const struct control_limits *cl,
                    const struct config *config, const struct keys *keys,
                    struct control_limits_plan *plan,
                    struct config_errors *errors)
{
    const struct limits_rate usual[LIMITS_OFS] = {
        [LIMITS_REQUESTS] = config->limits.tenant_requests,
        [LIMITS_TOKENS] = config->limits.tenant_tokens,
        [LIMITS_CONCURRENT] = {.amount = config->limits.tenant_concurrent},
    };

    *plan = (struct control_limits_plan){
        .want = calloc(LIMITS_RULES_MAX, sizeof(*plan->want))};
    int outcome = plan->want != NULL ? 0 : -ENOMEM;
    for (uint32_t tenant = 0; outcome == 0 && tenant < KEYS_TENANTS_MAX;
         tenant++) {
        if (keys != NULL ? keys_has_tenant(keys, tenant) : tenant == 0) {
            add_tenant(plan, usual, keys, tenant);
        }
    }
    if (outcome == 0) {
        add_models(plan, &config->model_limits);
        outcome =
            limits_table_plan(cl->table, plan->want, plan->count, &plan->view);
    }
    if (outcome != 0) {
        say_full(errors, outcome);
        control_limits_drop(plan);
    }
    return outcome == 0 ? 0 : CONFIG_E_INVALID;
}

void
control_limits_drop(struct control_limits_plan *plan)
{
    limits_view_free(plan->view);
    free(plan->want);
    *plan = (struct control_limits_plan){.view = NULL};
}

/* Meters */

/* Without a mesh port there is nobody to hear. */
static bool
is_single(const struct node_shared *node)
{
    const struct config_mesh *mesh = &node->config->mesh;

    return mesh->listen.host[0] == '\0' && mesh->join.count == 0;
}

static bool
caught_up(const struct node_shared *node)
{
    return is_single(node) ||
           gauge_read(&node->mesh_ready) != CLUSTER_CATCHING_UP;
}

static bool
is_in_force(const struct control_limits *cl, uint32_t at)
{
    return limits_table_rule(cl->table, at)->rate.amount != 0;
}

static void
hear(struct control_limits *cl, const struct hints *hints)
{
    uint64_t heard =
        hints->gossip != NULL ? gossip_gauges_heard(hints->gossip) : 0;

    if (heard == cl->heard) {
        return;
    }
    cl->heard = heard;
    for (uint32_t at = 0; at < limits_table_count(cl->table); at++) {
        if (is_in_force(cl, at)) {
            hints_hear_limit(hints, limits_table_rule(cl->table, at)->identity,
                             limits_table_meter(cl->table, at));
        }
    }
}

static bool
is_used(struct control_limits *cl, uint32_t at)
{
    const struct limits_meter *meter = limits_table_meter(cl->table, at);
    const struct limits_gate *gate = limits_table_gate(cl->table, at);

    return limits_meter_used(meter) != 0 ||
           counter_read(&gate->level) != meter->level;
}

static void
tick(struct control_limits *cl, uint32_t at, const struct limits_peers *peers,
     uint64_t now_us)
{
    limits_meter_tick(limits_table_meter(cl->table, at),
                      limits_table_gate(cl->table, at), peers, now_us);
}

/* Rules that were never used are not told; those that go are told once more, as
 * nothing. */
static void
tell(struct control_limits *cl, struct hints *hints, uint64_t now_us)
{
    for (uint32_t at = 0; at < limits_table_count(cl->table); at++) {
        struct limits_told told = limits_table_tell(cl->table, at);
        bool some = told.spent != 0 || told.open != 0 || told.window != 0;
        uint64_t bit = UINT64_C(1) << at % 64;
        if (some || (cl->told[at / 64] & bit) != 0) {
            hints_tell_limit(hints, limits_table_rule(cl->table, at)->identity,
                             &told, now_us);
        }
        cl->told[at / 64] =
            some ? cl->told[at / 64] | bit : cl->told[at / 64] & ~bit;
    }
}

void
control_limits_look(struct control_limits *cl, struct hints *hints, bool tells,
                    uint64_t now_us)
{
    if (limits_table_count(cl->table) == 0) {
        return;
    }
    hear(cl, hints);
    if (now_us >= cl->looked_us + LOOK_US) {
        bool first = cl->looked_us == 0;
        struct limits_peers peers =
            hints_limits_peers(hints, caught_up(cl->node));
        cl->looked_us = now_us;
        for (uint32_t at = 0; at < limits_table_count(cl->table); at++) {
            uint64_t since = limits_table_meter(cl->table, at)->now_us;
            if (is_in_force(cl, at) &&
                (first || is_used(cl, at) || now_us >= since + LOOK_IDLE_US)) {
                tick(cl, at, &peers, now_us);
            }
        }
    }
    if (tells) {
        tell(cl, hints, now_us);
    }
}

/* Publishing */

void
control_limits_publish(struct control_limits *cl,
                       struct control_limits_plan *plan, uint64_t now_us)
{
    const struct limits_peers unheard = {.settled = is_single(cl->node)};
    struct limits_view *before =
        (struct limits_view *)(uintptr_t)publish_get(&cl->node->limits);
    bool any = limits_view_any(plan->view);

    limits_table_take(cl->table, plan->want, plan->count, now_us);
    for (uint32_t at = 0; at < limits_table_count(cl->table); at++) {
        if (is_in_force(cl, at)) {
            tick(cl, at, &unheard, now_us); /* a gate that never was looked at
                                               lets nothing through */
        }
    }
    cl->looked_us = 0; /* at once, with the peers */
    cl->heard = 0;
    publish_set(&cl->node->limits, any ? plan->view : NULL);
    if (before != NULL) {
        qsbr_retire(&cl->node->qsbr, limits_view_retired(before),
                    limits_view_free_retired);
    }
    plan->view = any ? NULL : plan->view;
    control_limits_drop(plan);
}

int
control_limits_start(struct control_limits *cl, uint64_t now_us)
{
    struct control_limits_plan plan;
    struct config_errors errors;

    config_errors_init(&errors);
    int outcome = control_limits_read(
        cl, cl->node->config, publish_get(&cl->node->keys), &plan, &errors);
    if (outcome == 0) {
        control_limits_publish(cl, &plan, now_us);
    } else {
        LOG_ERROR("limits_unread", KV("first", buf_slice(&errors.text)),
                  KV("hint", "the node does not start; see the limits of "
                             "keys.file, limits.tenant_* and limits.models"));
    }
    config_errors_fini(&errors);
    return outcome == 0 ? 0 : -EINVAL;
}

/* How they stand */

/* "": everybody. */
static const char *ON_CONTROL
tenant_name(const struct control_limits *cl, const struct limits_rule *rule)
{
    return rule->tenant != LIMITS_EVERYBODY
               ? control_keys_tenant(cl->node, rule->tenant)
               : "";
}

void
control_limits_put(struct control_limits *cl, struct json_out *json)
{
    json_out_array_begin(json);
    for (uint32_t at = 0; at < limits_table_count(cl->table); at++) {
        const struct limits_rule *rule = limits_table_rule(cl->table, at);
        const struct limits_meter *meter = limits_table_meter(cl->table, at);
        const struct limits_gate *gate = limits_table_gate(cl->table, at);
        if (rule->rate.amount == 0) {
            continue;
        }
        json_out_object_begin(json);
        json_out_put_text(json, "tenant", tenant_name(cl, rule));
        json_out_put_text(json, "model", rule->model);
        json_out_put_text(json, "of", limits_of_name(rule->of));
        json_out_put_uint(json, "limit", rule->rate.amount);
        json_out_put_uint(json, "window_s", rule->rate.window_ms / 1000);
        json_out_put_uint(json, "used", limits_meter_used(meter));
        json_out_put_uint(json, "open_here", meter->open);
        json_out_put_uint(json, "waited_here", counter_read(&gate->waited));
        json_out_put_uint(json, "refused_here", counter_read(&gate->refused));
        json_out_object_end(json);
    }
    json_out_array_end(json);
}

/* A limit that one request meets. */
static enum limits_take
explain_gate(const struct control_limits *cl, const struct limits_gate *gate,
             uint64_t needs, struct json_out *json)
{
    const struct limits_rule *rule =
        limits_table_rule(cl->table, limits_table_of(cl->table, gate));
    struct limits_standing s = limits_gate_standing(gate, needs);
    enum limits_take outcome = limits_gate_look(gate, needs, false);

    json_out_object_begin(json);
    json_out_put_text(json, "of", limits_of_name(rule->of));
    json_out_put_text(json, "model", rule->model);
    json_out_put_bool(json, "of_all_tenants", rule->tenant == LIMITS_EVERYBODY);
    json_out_put_uint(json, "limit", s.limit);
    json_out_put_uint(json, "window_s", rule->rate.window_ms / 1000);
    json_out_put_uint(json, "needs", needs);
    json_out_put_uint(json, "left", s.left);
    json_out_put_uint(json, "left_here", limits_gate_room(gate));
    json_out_put_uint(json, "reset_ms", s.reset_ms);
    json_out_put_text(json, "verdict",
                      needs > s.limit           ? "can never fit"
                      : outcome == LIMITS_OVER  ? "over the limit"
                      : outcome == LIMITS_WAITS ? "not at hand here"
                                                : "passes");
    json_out_object_end(json);
    return outcome;
}

enum limits_take
control_limits_explain(const struct control_limits *cl, uint32_t tenant,
                       struct slice model, uint64_t tokens,
                       struct json_out *json)
{
    const struct limits_view *view = publish_get(&cl->node->limits);
    struct limits_gates gates;
    enum limits_take worst = LIMITS_TAKEN;

    json_out_put_text(json, "tenant", control_keys_tenant(cl->node, tenant));
    json_out_key(json, "limits");
    json_out_array_begin(json);
    bool any = view != NULL && limits_view_find(view, tenant, model, &gates);
    for (unsigned of = 0; any && of < LIMITS_OFS; of++) {
        uint64_t needs = of == LIMITS_TOKENS ? tokens : 1;
        for (unsigned i = 0; i < LIMITS_WHOSES; i++) {
            const struct limits_gate *gate = gates.at[i][of];
            if (gate != NULL) {
                enum limits_take one = explain_gate(cl, gate, needs, json);
                worst = one > worst ? one : worst;
            }
        }
    }
    json_out_array_end(json);
    return worst;
}

enum number {
    NUMBER_LIMIT,
    NUMBER_USED,
    NUMBER_WAITED,
    NUMBER_REFUSED,
};

static uint64_t
number_of(struct control_limits *cl, uint32_t at, enum number number)
{
    switch (number) {
    case NUMBER_LIMIT:
        return limits_table_rule(cl->table, at)->rate.amount;
    case NUMBER_USED:
        return limits_meter_used(limits_table_meter(cl->table, at));
    case NUMBER_WAITED:
        return counter_read(&limits_table_gate(cl->table, at)->waited);
    case NUMBER_REFUSED:
        return counter_read(&limits_table_gate(cl->table, at)->refused);
    }
    return 0;
}

void
control_limits_put_metrics(struct control_limits *cl, struct buf *out)
{
    static const struct {
        const char *name;
        const char *type;
        const char *help;
        enum number number;
    } family[] = {
        {"kvasir_limit", "gauge",
         "What a tenant (none: all together, for a model) may ask for of all "
         "nodes, in a window or at one time",
         NUMBER_LIMIT},
        {"kvasir_limit_used", "gauge",
         "What of it is in use, on all nodes, as this one knows", NUMBER_USED},
        {"kvasir_limit_waited_total", "counter",
         "Requests that waited until this node had enough of it at hand",
         NUMBER_WAITED},
        {"kvasir_limit_refused_total", "counter",
         "Requests that this node refused for it (429)", NUMBER_REFUSED},
    };

    if (publish_get(&cl->node->limits) == NULL) {
        return;
    }
    for (size_t f = 0; f < sizeof family / sizeof family[0]; f++) {
        prom_out_head(out, family[f].name, family[f].type, family[f].help);
        for (uint32_t at = 0; at < limits_table_count(cl->table); at++) {
            const struct limits_rule *rule = limits_table_rule(cl->table, at);
            if (rule->rate.amount == 0) {
                continue;
            }
            buf_printf(out, "%s{tenant=\"", family[f].name);
            prom_out_label(out, tenant_name(cl, rule));
            buf_add_text(out, "\",model=\"");
            prom_out_label(out, rule->model);
            buf_printf(out, "\",of=\"%s\"} %" PRIu64 "\n",
                       limits_of_name(rule->of),
                       number_of(cl, at, family[f].number));
        }
    }
}
