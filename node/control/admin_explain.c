/* /admin/explain: the request path's own steps, without sending anything. */

#include "node/control/admin_explain_internal.h"
#include "node/control/control_cache.h"
#include "node/control/control_resume.h"
#include "node/control/control_roster.h"
#include "node/route/route_columns.h"
#include "node/route/route_needs.h"
#include "node/route/split.h"

/* What is known of a request beside the scratch. */
struct asked {
    const char *tokens_by;
    size_t body_len;
    uint32_t tenant;
};

uint32_t
admin_explain_tenant(const struct control *control,
                     const struct httpd_request *request)
{
    const struct keys *keys = publish_get(&control->node->keys);
    const struct http_header *tenant =
        http_head_find_name(httpd_head(request), TENANT_FIELD);

    return keys != NULL && tenant != NULL
               ? keys_find_tenant(keys, tenant->value)
               : 0;
}

/* What beyond the events' word is predicted, and whether it is blocks that were
 * sent there a moment ago, or blocks that answers proved. */
static void
put_beyond(struct json_out *json, const struct route_world *world,
           const struct route_scratch *route,
           const struct token_match_rank *best)
{
    const struct mirror_weights weights = {.permille = {1000, 1, 1, 1}};
    const struct token_blocks *blocks =
        token_match_blocks(&route->tokens, best->grain);
    uint64_t held = (uint64_t)best->held * shape_tokens(best->grain);
    enum tier farthest;

    if (blocks == NULL || best->tokens <= held) {
        return;
    }
    uint64_t beyond = best->tokens - held;
    (void)mirror_score(
        world->tokens.expected, best->slot, blocks->keys + best->held,
        (uint32_t)(beyond / shape_tokens(best->grain)), &weights, &farthest);
    json_out_put_uint(json, "tokens_beyond_events", beyond);
    json_out_put_text(json, "beyond_by",
                      farthest == TIER_DEVICE ? "requests" : "answers");
}

static void
put_rank(struct json_out *json, const struct route_world *world,
         const struct route_scratch *route, uint32_t worker)
{
    const struct token_match_rank *best = &route->tokens.best[worker];

    if (!worker_set_has(&route->tokens.workers, worker)) {
        json_out_put_text(json, "source", "belief");
        return;
    }
    json_out_put_text(json, "source", "mirror");
    json_out_put_uint(json, "tokens", best->tokens);
    put_beyond(json, world, route, best);
    json_out_put_uint(json, "block_tokens", shape_tokens(best->grain));
    json_out_put_uint(json, "rank", best->rank);
    json_out_put_text(json, "tier", event_tier_name((enum tier)best->tier));
    json_out_put_milli(json, "trust",
                       world->tokens.view->trust_permille[best->slot]);
}

static void
put_filter(struct json_out *json, const char *filter)
{
    json_out_key(json, "filter");
    if (filter != NULL) {
        json_out_text(json, filter);
    } else {
        json_out_null(json);
    }
}

/* The columns whose sum the row's cost is, and what each counts. */
static void
put_weights(struct json_out *json, const struct elect_weights *weights)
{
    if (weights->queued == 0) {
        return;
    }
    json_out_key(json, "weights");
    json_out_object_begin(json);
    json_out_put_milli(json, "unread_tokens", weights->unread);
    json_out_put_milli(json, "queued_tokens", weights->queued);
    json_out_put_milli(json, "queued_tokens_peers", weights->queued);
    json_out_put_milli(json, "load", weights->load);
    json_out_put_milli(json, "aside_tokens", 1000);
    json_out_object_end(json);
}

/* Its length, and which engines suit that. */
static void
put_pool(struct json_out *json, const struct route_scratch *route)
{
    const struct pools *pools = &route->pools;
    static const char *const names[] = {
        [POOLS_NONE] = "any", [POOLS_SHORT] = "short", [POOLS_LONG] = "long"};

    if (!pools->need.known) {
        return;
    }
    json_out_key(json, "length");
    json_out_object_begin(json);
    json_out_put_uint(json, "prompt_tokens", pools->need.prompt);
    json_out_put_bool(json, "counted", pools->need.counted);
    json_out_put_text(json, "text", text_kind_name(route->text_kind));
    json_out_put_milli(json, "bytes_per_token", pools->need.bytes_milli);
    json_out_put_uint(json, "answer_tokens", pools->need.answer);
    json_out_put_uint(json, "longest", pools->longest);
    json_out_put_text(json, "pool", names[pools->wants]);
    json_out_put_uint(json, "threshold", pools->threshold);
    json_out_put_bool(json, "tuned", pools->tuned);
    json_out_object_end(json);
}

/* Where the worker is, and what the way there costs; aside_tokens has that,
 * less the cheapest candidate's. */
static void
put_island(struct json_out *json, const struct fleet_worker *worker,
           const struct fleet_board *board)
{
    if (worker->island[0] != '\0') {
        json_out_put_text(json, "island", worker->island);
    }
    control_islands_put_worker(board, worker->slot, json);
}

static void ON_CONTROL
put_row(struct json_out *json, struct control *control,
        const struct route_world *world, const struct elect_row *row)
{
    const struct route_scratch *route = &control->explain;
    const struct fleet_view *view = world->view;
    const struct fleet_board *board = world->board;
    const struct session_place *session = &route->session;
    bool is_home = session->mode != SESSION_OFF && session->home == row->worker;

    json_out_object_begin(json);
    json_out_put_text(json, "worker", view->worker[row->worker]->id);
    json_out_put_text(
        json, "from",
        control_roster_from(control, view->worker[row->worker]->id));
    json_out_put_text(json, "verdict", row->verdict);
    put_filter(json, row->filter);
    json_out_put_uint(
        json, "overlap",
        is_home && session->credited ? session->held : row->overlap);
    json_out_put_bool(json, "session", is_home);
    put_rank(json, world, route, row->worker);
    json_out_put_uint(json, "load", row->load);
    json_out_put_uint(json, "limit", gauge_read(&board->limit[row->worker]));
    json_out_put_uint(json, "wanted", gauge_read(&board->wanted[row->worker]));
    json_out_put_uint(json, "load_peers",
                      gauge_read(&board->peers[row->worker]));
    json_out_put_uint(json, "queued_tokens",
                      gauge_read(&board->queued_tokens[row->worker]));
    json_out_put_uint(json, "queued_tokens_peers",
                      gauge_read(&board->peers_queued_tokens[row->worker]));
    json_out_put_uint(json, "unread_tokens", row->unread);
    json_out_put_uint(json, "aside_tokens", row->aside);
    json_out_put_uint(json, "max_model_len", view->max_len[row->worker]);
    json_out_put_milli(json, "slowness", row->slowness);
    put_island(json, view->worker[row->worker], board);
    control_slo_put_worker(board, row->worker, json);
    json_out_put_uint(json, "cost", row->cost);
    put_weights(json, &row->weights);
    json_out_put_milli(json, "kv_usage", row->kv_usage);
    if (route->scan.api == SCAN_API_MESSAGES ||
        route->scan.api == SCAN_API_RESPONSES) {
        enum fleet_lack what = route->scan.api == SCAN_API_MESSAGES
                                   ? FLEET_LACKS_MESSAGES
                                   : FLEET_LACKS_RESPONSES;
        json_out_put_bool(
            json, "as_chat",
            fleet_board_lacks(board, what, row->worker, probe_now_us()));
    }
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
    json_out_put_uint(json, "recompute_weight", config->recompute_weight);
    json_out_put_uint(json, "balance_abs", config->balance_abs);
    json_out_put_milli(json, "balance_rel", config->balance_rel_permille);
    json_out_put_milli(json, "temperature", config->temperature_permille);
    json_out_put_milli(json, "kv_pressure_max",
                       config->kv_pressure_max_permille);
    json_out_object_end(json);
}

static void ON_CONTROL
put_request(struct json_out *json, const struct control *control,
            const char *tokens_by)
{
    const struct route_scratch *route = &control->explain;

    json_out_put_slice(json, "model", route->model);
    admin_alias_put(&control->alias, json);
    json_out_put_bool(json, "stream", route->scan.stream);
    json_out_put_text(json, "unit", route->tokens.known ? "tokens" : "blocks");
    json_out_put_text(json, "tokens_by", tokens_by);
    json_out_put_uint(json, "total", route->total);
    json_out_put_uint(json, "block_bytes", route->blocks.block_bytes);
}

/* Overlap and load of workers that cannot be chosen are shown too. */
static void
look_at_all(struct control *control, const struct route_world *world,
            struct elect_input *input)
{
    struct route_scratch *route = &control->explain;

    input->kv_usage = route->kv_usage;
    fleet_board_loads(world->board, &world->view->present, route->load,
                      route->kv_usage);
    fleet_board_queued(world->board, &world->view->present, route->queued);
    route_look_up(route, world, &world->view->present, input);
}

static void ON_CONTROL
put_candidates(struct control *control, const struct route_world *world,
               const struct elect_config *config,
               const struct elect_input *input,
               const struct elect_choice *choice, struct json_out *json)
{
    struct elect_row rows[WORKERS_MAX];
    struct elect_standing standing =
        route_columns_standing(&control->explain, world);
    size_t count = elect_explain(config, input, &standing, choice, rows);

    json_out_key(json, "candidates");
    json_out_array_begin(json);
    for (size_t i = 0; i < count; i++) {
        put_row(json, control, world, &rows[i]);
    }
    json_out_array_end(json);
}

/* Its tenant's limits, and what would become of it. */
static void ON_CONTROL
put_admission(struct control *control, const struct asked *asked, int outcome,
              struct json_out *json)
{
    const struct route_scratch *route = &control->explain;
    struct route_needs needs = route_needs(route, asked->body_len);
    uint64_t tokens = needs.prompt + needs.answer;

    struct slice model = admin_alias_asked(&control->alias, route);
    enum limits_take taken = control_limits_explain(
        &control->limits, asked->tenant, model, tokens != 0 ? tokens : 1, json);
    json_out_put_text(json, "admission",
                      taken == LIMITS_OVER      ? "limited"
                      : taken == LIMITS_WAITS   ? "waits"
                      : outcome == ROUTE_E_FULL ? "queued"
                      : outcome != 0            ? "refused"
                                                : "passes");
}

/* The world of the worker that answers, as split_elect() finds it; *config is
 * the caller's. */
static struct route_world
answering_world(struct control *control, const struct route_world *world,
                enum split_asked asked, struct elect_config *config)
{
    struct route_scratch *route = &control->explain;
    struct route_world half =
        split_world(world, ROUTE_DECODE, ENGINE_OTHER, config);
    bool is_short = split_is_short(world->elect, split_prompt_tokens(route));
    struct elect_input input;
    struct worker_set tried;

    worker_set_clear(&tried);
    int outcome =
        asked == SPLIT_NEVER
            ? 0
            : route_input(route, is_short ? world : &half, &tried, &input);
    bool pairs = is_short ? outcome == ROUTE_E_NO_WORKER : outcome == 0;
    return asked != SPLIT_NEVER && pairs ? half : *world;
}

/* How one half of the request, or all of it, would be placed. Returns as
 * route_input(). */
static int ON_CONTROL
put_election(struct control *control, const struct asked *asked,
             const struct route_world *world, struct elect_choice *choice,
             struct json_out *json)
{
    struct route_scratch *route = &control->explain;
    struct worker_set tried;
    struct elect_input input;
    struct elect_config config;

    worker_set_clear(&tried);
    int outcome = route_input(route, world, &tried, &input);
    look_at_all(control, world, &input);
    (void)route_pick(route, world, &input, &control->rng, choice);
    config = session_rule_of(&route->session, world->elect);
    put_choice(json, world->view, choice);
    if (outcome != 0) {
        json_out_put_text(json, "refused",
                          outcome == ROUTE_E_NO_MODEL    ? "model_not_found"
                          : outcome == ROUTE_E_FULL      ? "waits"
                          : outcome == ROUTE_E_RESIDENCY ? "residency"
                          : outcome == ROUTE_E_TOO_LONG
                              ? "context_length_exceeded"
                              : "no_worker");
    }
    if (world->residency != NULL && world->residency[0] != '\0') {
        json_out_put_text(json, "residency", world->residency);
    }
    if (asked != NULL) {
        put_request(json, control, asked->tokens_by);
        put_admission(control, asked, outcome, json);
    }
    put_pool(json, route);
    json_out_put_uint(json, "unseen", input.unseen);
    put_rule(json, &config);
    put_candidates(control, world, &config, &input, choice, json);
    return outcome;
}

/* What becomes of it where workers have roles: who computes the prompt, or why
 * the one that answers does. */
static void ON_CONTROL
put_split(struct control *control, const struct route_world *world,
          const struct route_world *half, enum split_asked asked,
          const struct elect_choice *choice, struct json_out *json)
{
    struct route_scratch *route = &control->explain;
    const struct route_choice held = {.elect = *choice};
    struct elect_config config;
    struct elect_choice prefill;
    uint32_t slot = choice->worker;

    json_out_key(json, "split");
    json_out_object_begin(json);
    bool pairs = half->part == ROUTE_DECODE && slot != WORKER_NONE;
    bool is_short =
        split_is_short(world->elect, pairs ? route_unread_tokens(route, &held)
                                           : split_prompt_tokens(route));
    if (!pairs || (is_short && !worker_set_has(&world->view->bound, slot))) {
        json_out_put_text(json, "why_not",
                          split_why_name(asked == SPLIT_NEVER ? SPLIT_UNASKED
                                         : is_short           ? SPLIT_SHORT
                                                              : SPLIT_ALONE));
    } else {
        enum engine_kind kind = world->view->worker[slot]->kind;
        struct route_world other =
            split_world(world, ROUTE_PREFILL, kind, &config);
        json_out_put_text(
            json, "by",
            split_flow_name(kind == ENGINE_SGLANG ? SPLIT_ROOM : SPLIT_PARAMS));
        json_out_key(json, "prefill");
        json_out_object_begin(json);
        (void)put_election(control, NULL, &other, &prefill, json);
        json_out_object_end(json);
    }
    json_out_object_end(json);
}

/* The route scratch has read the request, and knows its tokens if it can. */
static void ON_CONTROL
put_explain(struct control *control, const struct asked *asked,
            const struct route_world *world, struct json_out *json)
{
    struct split_form form;
    struct elect_choice choice;
    struct elect_config config;
    bool may = split_has_pairs(world->view);
    bool apt = may && split_suits(&control->explain.scan) &&
               split_read(control->alias.body, &form);
    enum split_asked split = apt ? SPLIT_MAY : SPLIT_NEVER;
    struct route_world half = answering_world(control, world, split, &config);

    json_out_object_begin(json);
    (void)put_election(control, asked, &half, &choice, json);
    if (may) {
        put_split(control, world, &half, split, &choice, json);
    }
    control_cache_explain(control, world->residency, control->alias.body, json);
    control_resume_explain(control, world, choice.worker, control->alias.body,
                           json);
    control_scale_explain(&control->scale, &control->node->scale,
                          control->explain.model, json);
    json_out_object_end(json);
}

void
admin_explain_answer(struct control *control, const struct route_world *world,
                     const char *tokens_by, struct httpd_request *request)
{
    struct asked asked = {
        .tokens_by = tokens_by,
        .body_len = httpd_body(request).len,
        .tenant = admin_explain_tenant(control, request),
    };
    struct buf body;
    struct json_out json;

    role_is_control();
    buf_init(&body, ADMIN_BYTES_MAX);
    json_out_init(&json, &body);
    put_explain(control, &asked, world, &json);
    buf_add(&body, "\n", 1);
    admin_answer(request, "application/json", &body);
    buf_fini(&body);
}
