/* /admin/explain: the request path's own steps, without sending anything. */
#include <stdio.h>

#include "node/admin.h"

static void
put_row(struct json_out *json, const struct fleet_view *view,
        const struct elect_row *row)
{
    json_out_object_begin(json);
    json_out_put_text(json, "worker", view->worker[row->worker]->id);
    json_out_put_text(json, "verdict", row->verdict);
    json_out_put_uint(json, "overlap", row->overlap);
    json_out_put_uint(json, "load", row->load);
    json_out_put_milli(json, "kv_usage", row->kv_usage);
    json_out_put_bool(json, "candidate", row->candidate);
    json_out_object_end(json);
}

static void
put_choice(struct json_out *json, const struct fleet_view *view,
           const struct elect_choice *choice)
{
    json_out_key(json, "worker");
    if (choice->worker == WORKER_NONE) {
        json_out_null(json);
        return;
    }
    json_out_text(json, view->worker[choice->worker]->id);
    json_out_put_text(json, "mode", elect_mode_name(choice->mode));
    json_out_put_text(json, "reason", choice->reason);
    json_out_put_bool(json, "imbalanced", choice->imbalanced);
    json_out_put_uint(json, "overlap", choice->overlap);
}

static void
put_rule(struct json_out *json, const struct elect_config *config)
{
    json_out_key(json, "rule");
    json_out_object_begin(json);
    json_out_put_text(json, "policy", elect_policy_name(config->policy));
    json_out_put_milli(json, "cache_threshold",
                       config->cache_threshold_permille);
    json_out_put_uint(json, "balance_abs", config->balance_abs);
    json_out_put_milli(json, "balance_rel", config->balance_rel_permille);
    json_out_put_milli(json, "kv_pressure_max",
                       config->kv_pressure_max_permille);
    json_out_object_end(json);
}

static void
put_request(struct json_out *json, const struct route_scratch *route)
{
    json_out_put_slice(json, "model", route->model);
    json_out_put_bool(json, "stream", route->scan.stream);
    json_out_put_uint(json, "total", route->blocks.count);
    json_out_put_uint(json, "block_bytes", route->blocks.block_bytes);
}

/* Overlap and load of workers that cannot be chosen are shown too. */
static void
look_at_all(struct control *control, const struct fleet_view *view,
            struct elect_input *input)
{
    struct node_shared *node = control->node;
    struct route_scratch *route = &control->explain;

    fleet_board_loads(node->board, &view->present, route->load,
                      route->kv_usage);
    if (route->blocks.count != 0) {
        radix_match(node->belief, route->blocks.root, route->blocks.keys,
                    route->blocks.count, &route->match);
        input->match = &route->match;
    }
}

unsigned
admin_put_explain(struct control *control, struct slice body,
                  struct json_out *json, char fault[160])
{
    struct node_shared *node = control->node;
    struct route_scratch *route = &control->explain;
    const struct fleet_view *view = fleet_view_get(node->board);
    struct worker_set tried;
    struct elect_input input;
    struct elect_choice choice;
    struct elect_row rows[WORKERS_MAX];

    if (route_read(route, body) != 0) {
        (void)snprintf(fault, 160, "not valid JSON: %s at byte %zu",
                       route->scan.fault, route->scan.fault_at);
        return 400;
    }
    worker_set_clear(&tried);
    int outcome =
        route_input(route, view, node->board, node->belief, &tried, &input);
    look_at_all(control, view, &input);
    elect_pick(&node->elect, &route->elect, &input, &control->rng, &choice);
    struct elect_standing standing = {
        .present = view->present,
        .healthy = view->healthy,
        .draining = view->draining,
        .open = view->open,
        .serves = fleet_view_find_model(view, route->model),
    };
    size_t count =
        elect_explain(&node->elect, &input, &standing, &choice, rows);

    json_out_object_begin(json);
    put_choice(json, view, &choice);
    if (outcome != 0) {
        json_out_put_text(
            json, "refused",
            outcome == ROUTE_E_NO_MODEL ? "model_not_found" : "no_worker");
    }
    put_request(json, route);
    put_rule(json, &node->elect);
    json_out_key(json, "candidates");
    json_out_array_begin(json);
    for (size_t i = 0; i < count; i++) {
        put_row(json, view, &rows[i]);
    }
    json_out_array_end(json);
    json_out_object_end(json);
    return 0;
}
