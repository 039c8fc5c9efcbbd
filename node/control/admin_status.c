/* /admin/status, /admin/workers, /admin/index, /admin/decisions. */
#include "node/control/admin_mesh.h"
#include "node/control/admin_snapshot.h"
#include "node/control/control_cache.h"
#include "node/control/control_keys.h"
#include "node/control/control_roster.h"
#include "node/control/control_sources.h"

static uint64_t
sum(const struct control *control, size_t offset)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < control->node->lanes_count; i++) {
        const char *lane = (const char *)&control->node->lanes[i].metrics;
        total +=
            counter_read((const struct counter *)(const void *)(lane + offset));
    }
    return total;
}

#define SUM(control, name) sum((control), offsetof(struct metrics_lane, name))

static uint64_t
ended(const struct control *control, enum metrics_reason reason)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < control->node->lanes_count; i++) {
        total += metrics_ended(&control->node->lanes[i].metrics.ends, reason);
    }
    return total;
}

void
admin_count_ends(struct control *control, uint64_t now_us)
{
    uint64_t all[METRICS_REASONS_COUNT];

    for (unsigned i = 0; i < METRICS_REASONS_COUNT; i++) {
        all[i] = ended(control, (enum metrics_reason)i);
    }
    history_ends(&control->history, all, now_us);
}

/* What its client must mend. */
static uint64_t
ended_bad(const struct control *control)
{
    static const enum metrics_reason bad[] = {
        METRICS_KEY,       METRICS_REQUEST,  METRICS_JSON,
        METRICS_TIMEOUT,   METRICS_PRIORITY, METRICS_TRANSLATION,
        METRICS_NOT_FOUND, METRICS_METHOD,   METRICS_SLOW,
        METRICS_TOO_LARGE, METRICS_ENCODING, METRICS_UPGRADE,
    };
    uint64_t total = 0;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        total += ended(control, bad[i]);
    }
    return total;
}

static void
put_labels(struct json_out *json, const struct fleet_worker *w)
{
    json_out_key(json, "labels");
    json_out_object_begin(json);
    if (w->island[0] != '\0') {
        json_out_put_text(json, "island", w->island);
    }
    if (w->pool[0] != '\0') {
        json_out_put_text(json, "pool", w->pool);
    }
    if (w->role != CONFIG_ROLE_BOTH) {
        json_out_put_text(json, "role", config_role_name(w->role));
    }
    json_out_object_end(json);
}

static void
put_models(struct json_out *json, const struct fleet_view *view, uint32_t slot)
{
    json_out_key(json, "models");
    json_out_array_begin(json);
    for (size_t i = 0; i < view->models->count; i++) {
        if (worker_set_has(&view->models->model[i].workers, slot)) {
            json_out_slice(json, view->models->model[i].name);
        }
    }
    json_out_array_end(json);
}

static void
put_numbers(struct json_out *json, const struct control *control, uint32_t slot)
{
    const struct node_shared *node = control->node;
    const struct fleet_board *board = node->board;
    const struct fleet_counters *c = &board->counters[slot];
    struct hints_load load = hints_load(&control->hints, slot);

    json_out_put_uint(json, "inflight", load.own.inflight);
    json_out_put_uint(json, "inflight_peers", load.peers.inflight);
    json_out_put_uint(json, "inflight_foreign",
                      gauge_read(&board->foreign[slot]));
    json_out_put_uint(json, "limit", gauge_read(&board->limit[slot]));
    json_out_put_uint(json, "queued_tokens", load.own.queued_tokens);
    json_out_put_uint(json, "queued_tokens_peers", load.peers.queued_tokens);
    json_out_put_uint(json, "blocks", load.own.blocks);
    json_out_put_uint(json, "blocks_peers", load.peers.blocks);
    json_out_put_uint(json, "running", gauge_read(&board->running[slot]));
    json_out_put_uint(json, "waiting", gauge_read(&board->waiting[slot]));
    json_out_put_milli(json, "kv_usage",
                       gauge_read(&board->kv_usage_permille[slot]));
    json_out_put_milli(json, "slowness",
                       gauge_read(&board->slowness_permille[slot]));
    json_out_put_uint(json, "prefill_tokens_per_s",
                      speed_rate(&control->speed.all, slot));
    json_out_put_bool(
        json, "messages_as_chats",
        fleet_board_lacks(board, FLEET_LACKS_MESSAGES, slot, control_now_us()));
    json_out_put_bool(json, "responses_as_chats",
                      fleet_board_lacks(board, FLEET_LACKS_RESPONSES, slot,
                                        control_now_us()));
    json_out_put_bool(
        json, "counts_by_tokenize",
        fleet_board_lacks(board, FLEET_LACKS_COUNT, slot, control_now_us()));
    control_slo_put_worker(board, slot, json);
    control_islands_put_worker(board, slot, json);
    json_out_put_uint(json, "requests", counter_read(&c->requests));
    json_out_put_uint(json, "failures", counter_read(&c->failures));
    json_out_put_uint(json, "streams_severed",
                      counter_read(&c->streams_severed));
    json_out_put_uint(json, "belief_blocks",
                      radix_worker_blocks(node->belief, slot));
}

/* Present workers' slots in the order of their ids. */
static uint32_t
sorted_slots(const struct fleet_view *view, uint32_t slots[WORKERS_MAX])
{
    uint32_t count = 0;

    WORKER_SET_EACH (slot, &view->present) {
        uint32_t at = count++;
        while (at != 0 && strcmp(view->worker[slots[at - 1]]->id,
                                 view->worker[slot]->id) > 0) {
            slots[at] = slots[at - 1];
            at--;
        }
        slots[at] = slot;
    }
    return count;
}

/* Whole ones have their event streams inside. */
static void ON_CONTROL
put_workers(struct control *control, struct json_out *json, bool whole)
{
    const struct fleet_view *view = fleet_view_get(control->node->board);
    uint32_t slots[WORKERS_MAX];
    uint32_t count = sorted_slots(view, slots);

    json_out_array_begin(json);
    for (uint32_t i = 0; i < count; i++) {
        const struct fleet_worker *w = view->worker[slots[i]];
        struct fleet_status status;
        if (!fleet_status(control->fleet, slots[i], &status)) {
            continue; /* removed since the view was published */
        }
        json_out_object_begin(json);
        json_out_put_text(json, "id", w->id);
        json_out_put_text(json, "url", w->url);
        json_out_put_text(json, "engine", engine_kind_name(w->kind));
        json_out_put_text(json, "state", status.state);
        json_out_put_text(json, "reason", status.reason);
        json_out_put_bool(json, "eligible",
                          worker_set_has(&view->eligible, slots[i]));
        json_out_put_text(json, "renderer",
                          renderer_name(renderers_of(&control->renderers, w)));
        json_out_put_text(json, "from", control_roster_from(control, w->id));
        put_labels(json, w);
        put_models(json, view, slots[i]);
        put_numbers(json, control, slots[i]);
        if (whole) {
            admin_put_streams(control, json, slots[i]);
        }
        json_out_object_end(json);
    }
    json_out_array_end(json);
}

static void
put_left_out(struct json_out *json, const char *worker, const char *what,
             const char *why)
{
    json_out_object_begin(json);
    json_out_put_text(json, "worker", worker);
    json_out_put_text(json, "what", what);
    json_out_put_text(json, "why", why);
    json_out_object_end(json);
}

/* What the roster has and this node does not follow: workers, and events. */
static void ON_CONTROL
put_all_left_out(struct control *control, struct json_out *json)
{
    const struct roster *roster = cluster_roster(control_cluster(control));
    struct roster_entry entry;

    json_out_key(json, "left_out");
    json_out_array_begin(json);
    for (uint32_t i = 0; roster_get(roster, i, &entry); i++) {
        bool job = scale_job_key(entry.id) != NULL;
        const char *why =
            job ? NULL : roster_apply_left_out(control->workers, &entry);
        uint32_t slot = fleet_find(control->fleet, slice_of(entry.id));
        if (why != NULL) {
            put_left_out(json, entry.id, "worker", why);
            continue;
        }
        why =
            slot != WORKER_NONE ? ingest_left_out(control->ingest, slot) : NULL;
        if (why != NULL) {
            put_left_out(json, entry.id, "events", why);
        }
    }
    json_out_array_end(json);
}

void
admin_put_workers(struct control *control, struct json_out *json)
{
    put_workers(control, json, true);
}

void
admin_put_index(struct control *control, struct json_out *json)
{
    struct radix_stats s;

    radix_stats(control->node->belief, &s);
    json_out_object_begin(json);
    json_out_key(json, "belief");
    json_out_object_begin(json);
    json_out_put_uint(json, "bytes", s.bytes);
    json_out_put_uint(json, "bytes_max",
                      control->node->config->belief.bytes_max);
    json_out_put_uint(json, "nodes", s.nodes);
    json_out_put_uint(json, "blocks", s.blocks);
    json_out_put_uint(json, "holder_blocks", s.holder_blocks);
    json_out_put_uint(json, "namespaces", s.namespaces);
    json_out_put_uint(json, "inserts", s.inserts);
    json_out_put_uint(json, "evicted_blocks", s.evicted_blocks);
    json_out_put_uint(json, "evicted_bound", s.evicted_bound);
    json_out_put_uint(json, "refused", s.refused);
    json_out_object_end(json);
    admin_put_mirror(control, json);
    json_out_object_end(json);
}

static void
put_requests(struct control *control, struct json_out *json)
{
    json_out_key(json, "requests");
    json_out_object_begin(json);
    json_out_put_uint(json, "read", SUM(control, requests_read));
    json_out_put_uint(json, "forwarded",
                      SUM(control, mode_affinity) + SUM(control, mode_balance) +
                          SUM(control, mode_policy) +
                          SUM(control, mode_session));
    json_out_put_uint(json, "inflight", gauge_read(&control->node->inflight));
    json_out_put_uint(json, "retries", SUM(control, retries));
    json_out_put_uint(json, "all_failed", ended(control, METRICS_ALL_FAILED));
    json_out_put_uint(json, "severed", ended(control, METRICS_BROKE_OFF));
    json_out_put_uint(json, "cancelled", ended(control, METRICS_CANCELLED));
    json_out_put_uint(json, "bad", ended_bad(control));
    json_out_put_uint(json, "overload", ended(control, METRICS_OVERLOADED));
    json_out_put_uint(json, "no_worker", ended(control, METRICS_NO_WORKER));
    json_out_put_uint(json, "too_long", ended(control, METRICS_TOO_LONG));
    json_out_object_end(json);
}

static void
put_placement(struct control *control, struct json_out *json)
{
    json_out_key(json, "placement");
    json_out_object_begin(json);
    json_out_put_text(json, "policy",
                      elect_policy_name(control->node->elect.policy));
    json_out_put_uint(json, "affinity", SUM(control, mode_affinity));
    json_out_put_uint(json, "balance", SUM(control, mode_balance));
    json_out_put_uint(json, "policy_chosen", SUM(control, mode_policy));
    json_out_put_uint(json, "session", SUM(control, mode_session));
    json_out_put_uint(json, "imbalanced", SUM(control, imbalanced));
    json_out_put_uint(json, "blocks", SUM(control, blocks));
    json_out_put_uint(json, "blocks_matched", SUM(control, blocks_matched));
    json_out_put_uint(json, "exact", SUM(control, exact));
    json_out_put_uint(json, "tokens_matched", SUM(control, tokens_matched));
    json_out_put_uint(json, "tokens_local", SUM(control, tokens_local));
    json_out_put_uint(json, "tokens_asked", SUM(control, tokens_asked));
    json_out_put_uint(json, "tokens_late", SUM(control, tokens_late));
    json_out_put_uint(
        json, "tokens_failed",
        SUM(control, tokens_failed) + SUM(control, tokens_refused) +
            SUM(control, tokens_unable) + SUM(control, tokens_timed_out) +
            SUM(control, tokens_too_large));
    json_out_put_uint(json, "prompt_tokens", SUM(control, prompt_tokens));
    json_out_put_uint(json, "cached_tokens", SUM(control, cached_tokens));
    json_out_object_end(json);
}

static void
put_sandbox(struct json_out *json, const struct confined *confined)
{
    json_out_key(json, "sandbox");
    json_out_object_begin(json);
    json_out_put_text(json, "bounds", confined_name(confined));
    json_out_put_text(json, "why", confined->why);
    json_out_object_end(json);
}

void
admin_put_status(struct control *control, struct json_out *json)
{
    struct node_shared *node = control->node;

    json_out_object_begin(json);
    json_out_put_text(json, "node", node->config->name);
    if (node->island.name[0] != '\0') {
        json_out_put_text(json, "island", node->island.name);
        control_islands_put_sums(&control->islands, json);
    }
    json_out_put_text(json, "version", KVASIR_VERSION);
    if (node->commit != NULL && node->commit[0] != '\0') {
        json_out_put_text(json, "commit", node->commit);
    }
    json_out_put_uint(json, "uptime_s",
                      (control_now_us() - control->started_us) / 1000000);
    json_out_put_bool(json, "ready", control_unready(control) == NULL);
    json_out_put_bool(json, "draining", gauge_read(&node->leaving) != 0);
    put_sandbox(json, &node->confined);
    admin_put_mesh_rows(control, json);
    json_out_put_uint(json, "lanes", node->lanes_count);
    json_out_put_uint(json, "connections", gauge_read(&node->connections));
    admin_put_snapshot(control, json);
    put_requests(control, json);
    json_out_key(json, "queue");
    control_queue_put(&control->queue, control_now_us(), json);
    put_placement(control, json);
    control_cache_put(control, json);
    json_out_put_uint(json, "model_files_differ", control->models.differ);
    json_out_key(json, "models");
    control_models_put(&control->models, json);
    json_out_key(json, "limits");
    control_limits_put(&control->limits, json);
    json_out_key(json, "scale");
    control_scale_put(&control->scale, &node->scale, json);
    json_out_key(json, "index");
    admin_put_index(control, json);
    json_out_key(json, "workers");
    put_workers(control, json, false);
    put_all_left_out(control, json);
    json_out_key(json, "worker_sources");
    control_sources_put(control, json);
    json_out_key(json, "events");
    admin_put_stream_rows(control, json);
    json_out_object_end(json);
}

static void
put_decision(struct json_out *json, const struct control *control,
             const struct fact_decision *d,
             const struct decisions_worker *worker, const char *tenant)
{
    json_out_put_uint(json, "time_ms", d->wall_ms);
    json_out_put_text(json, "id", d->id);
    json_out_put_text(json, "tenant", tenant);
    json_out_put_text(json, "model", d->model);
    json_out_put_text(json, "worker", worker->id);
    if (worker->island[0] != '\0') {
        json_out_put_text(json, "island", worker->island);
        json_out_put_bool(
            json, "crossed",
            control_islands_crosses(&control->node->island, worker->island));
    }
    json_out_put_text(json, "mode",
                      d->slot == WORKER_NONE
                          ? "none"
                          : elect_mode_name((enum elect_mode)d->mode));
    json_out_put_text(json, "reason", d->reason != NULL ? d->reason : "");
    json_out_put_uint(json, "candidates", d->candidates);
    json_out_put_uint(json, "load", d->load);
    json_out_put_uint(json, "cost", d->cost);
    json_out_put_uint(json, "overlap", d->overlap);
    json_out_put_uint(json, "total", d->total);
    json_out_put_text(json, "source", d->exact ? "mirror" : "belief");
    json_out_put_bool(json, "whole", d->whole);
    json_out_put_bool(json, "imbalanced", d->imbalanced);
    json_out_put_uint(json, "too_late", d->late);
    json_out_put_uint(json, "attempts", d->attempts);
    json_out_put_uint(json, "status", d->status);
    json_out_put_bool(json, "stream", d->stream);
    json_out_put_uint(json, "resumed", d->resumed);
    if (d->prefill[0] != '\0') {
        json_out_put_text(json, "prefill", d->prefill);
    }
    json_out_put_bool(json, "severed", d->severed);
    json_out_put_bool(json, "cancelled", d->cancelled);
    json_out_put_uint(json, "prompt_tokens", d->prompt_tokens);
    json_out_put_uint(json, "cached_tokens", d->cached_tokens);
    json_out_put_bool(json, "cached_known", d->cached_known);
    json_out_put_uint(json, "predicted_tokens", d->predicted_tokens);
    json_out_put_uint(json, "possible_tokens", d->possible_tokens);
    json_out_put_uint(json, "rank", d->rank);
    json_out_put_uint(json, "route_us", d->route_us);
    json_out_put_uint(json, "waited_us", d->waited_us);
    json_out_put_uint(json, "first_byte_us", d->first_byte_us);
    json_out_put_uint(json, "first_token_us", d->first_token_us);
    json_out_put_uint(json, "duration_us", d->duration_us);
}

/* One worker's, in the words of /admin/explain. */
static void
put_column(struct json_out *json, const struct columns_of *columns, uint32_t at)
{
    const struct fact_column *c = &columns->column[at];

    json_out_object_begin(json);
    json_out_put_text(json, "worker", columns_worker(columns, at));
    json_out_put_text(json, "verdict", c->verdict);
    json_out_key(json, "filter");
    if (c->filter != NULL) {
        json_out_text(json, c->filter);
    } else {
        json_out_null(json);
    }
    json_out_put_bool(json, "candidate", c->candidate);
    if (c->candidate) {
        json_out_put_uint(json, "overlap", c->overlap);
        json_out_put_uint(json, "load", c->load);
        json_out_put_uint(json, "queued_tokens", c->queued);
        json_out_put_uint(json, "unread_tokens", c->unread);
        json_out_put_uint(json, "aside_tokens", c->aside);
        json_out_put_milli(json, "slowness", c->slowness);
        json_out_put_milli(json, "kv_usage", c->kv_usage);
        json_out_put_uint(json, "cost", c->cost);
    }
    if (c->queued_weight != 0) {
        json_out_key(json, "weights");
        json_out_object_begin(json);
        json_out_put_milli(json, "unread_tokens", c->unread_weight);
        json_out_put_milli(json, "queued_tokens", c->queued_weight);
        json_out_put_milli(json, "load", c->load_weight);
        json_out_put_milli(json, "aside_tokens", 1000);
        json_out_object_end(json);
    }
    json_out_object_end(json);
}

static void
put_columns(struct json_out *json, const struct columns_of *columns)
{
    json_out_key(json, "columns");
    if (columns == NULL) {
        json_out_null(json);
        return;
    }
    json_out_array_begin(json);
    for (uint32_t i = 0; i < columns->count; i++) {
        put_column(json, columns, i);
    }
    json_out_array_end(json);
}

bool
admin_put_decision(struct control *control, struct json_out *json,
                   struct slice id)
{
    const struct decisions *d = &control->decisions;

    for (uint32_t i = 0; i < d->count; i++) {
        const struct decisions_worker *worker;
        const struct fact_decision *record = decisions_get(d, i, &worker);
        if (slice_equal(slice_of(record->id), id)) {
            json_out_object_begin(json);
            put_decision(json, control, record, worker,
                         control_keys_tenant(control->node, record->tenant));
            put_columns(json, columns_find(&control->columns, record->columns));
            json_out_object_end(json);
            return true;
        }
    }
    return false;
}

void
admin_put_decisions(struct control *control, struct json_out *json,
                    uint32_t count)
{
    const struct decisions *d = &control->decisions;

    json_out_array_begin(json);
    for (uint32_t i = 0; i < d->count && i < count; i++) {
        const struct decisions_worker *worker;
        const struct fact_decision *record = decisions_get(d, i, &worker);
        json_out_object_begin(json);
        put_decision(json, control, record, worker,
                     control_keys_tenant(control->node, record->tenant));
        json_out_object_end(json);
    }
    json_out_array_end(json);
}

void
admin_put_scale(struct control *control, struct json_out *json)
{
    control_scale_put(&control->scale, &control->node->scale, json);
}
