/* /metrics: the lanes' counters added up, the workers, belief, the log. */
#include <malloc.h>
#include <stddef.h>

#include "index/base/page_heap.h"
#include "node/base/log.h"
#include "node/control/admin_mesh.h"
#include "node/control/admin_snapshot.h"
#include "node/control/control_cache.h"
#include "node/control/control_content.h"
#include "node/control/control_keys.h"
#include "node/control/control_sources.h"
#include "node/control/control_tls.h"
#include "node/text/prom_out.h"

struct family {
    const char *name;
    const char *type;
    const char *help;
    uint64_t (*value)(const struct node_shared *node,
                      const struct fleet_view *view, uint32_t slot);
    uint64_t per; /* of the value make 1; 0: one */
    bool sparse;  /* no series where the value is 0 */
};

/* clang-format off */
#define VALUE(name, number)                                           \
    static uint64_t name(const struct node_shared *node,              \
                         const struct fleet_view *view, uint32_t slot) \
    {                                                                 \
        (void)node, (void)view;                                       \
        return number;                                                \
    }

VALUE(is_eligible, worker_set_has(&view->eligible, slot))
VALUE(inflight, gauge_read(&node->board->inflight[slot]))
VALUE(peers_inflight, gauge_read(&node->board->peers[slot]))
VALUE(queued_tokens, gauge_read(&node->board->queued_tokens[slot]))
VALUE(waiting, gauge_read(&node->board->waiting[slot]))
VALUE(running, gauge_read(&node->board->running[slot]))
VALUE(kv_usage, gauge_read(&node->board->kv_usage_permille[slot]))
VALUE(slowness, gauge_read(&node->board->slowness_permille[slot]))
VALUE(requests, counter_read(&node->board->counters[slot].requests))
VALUE(failures, counter_read(&node->board->counters[slot].failures) +
                    counter_read(&node->board->counters[slot].streams_severed))
VALUE(belief_blocks, ingest_has_events(view->worker[slot])
                         ? 0 : radix_worker_blocks(node->belief, slot))
#undef VALUE
/* clang-format on */

/* With those of its stream a worker has 16 series at most, so that 256 of them
 * make less than 5,000: what would make it more is a total, and by worker in
 * /admin/workers (tests/integration/test_metrics_listed.py). */
static const struct family families[] = {
    {"kvasir_worker_eligible", "gauge", "1 when requests may go there",
     is_eligible},
    {"kvasir_worker_inflight", "gauge", "Requests this node has open there",
     inflight},
    {"kvasir_worker_inflight_peers", "gauge",
     "Requests other nodes of the mesh have open there", peers_inflight},
    {"kvasir_worker_queued_tokens", "gauge",
     "Prompt tokens this node sent there that wait for an answer to begin",
     queued_tokens},
    {"kvasir_worker_waiting", "gauge", "Requests in the engine's queue",
     waiting},
    {"kvasir_worker_running", "gauge", "Requests the engine runs", running},
    {"kvasir_worker_kv_usage_ratio", "gauge",
     "Share of the engine's KV cache in use", kv_usage, 1000},
    {"kvasir_worker_slowness_ratio", "gauge",
     "Time to a first token beside the median of its model; 1: usual", slowness,
     1000},
    {"kvasir_worker_requests_total", "counter", "Attempts sent there",
     requests},
    {"kvasir_worker_failures_total", "counter",
     "Attempts that failed there, and answers severed after their first byte; "
     "none: no series",
     failures, .sparse = true},
    {"kvasir_worker_belief_blocks", "gauge",
     "Prompt blocks that a worker without events is believed to hold; none: no "
     "series",
     belief_blocks, .sparse = true},
};

static void
put_worker(struct buf *out, const char *name, const char *id)
{
    buf_printf(out, "%s{worker=\"", name);
    prom_out_label(out, id);
    buf_add(out, "\"", 1);
}

/* A further one. */
static void
put_label(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, ",%s=\"", name);
    prom_out_label(out, value);
    buf_add(out, "\"", 1);
}

static void
put_workers(struct control *control, struct buf *out)
{
    const struct fleet_view *view = fleet_view_get(control->node->board);
    uint64_t foreign = 0;

    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++) {
        const struct family *f = &families[i];
        prom_out_head(out, f->name, f->type, f->help);
        WORKER_SET_EACH (slot, &view->present) {
            uint64_t value = f->value(control->node, view, slot);
            if (f->sparse && value == 0) {
                continue;
            }
            put_worker(out, f->name, view->worker[slot]->id);
            buf_add(out, "}", 1);
            prom_out_value(out, value, f->per != 0 ? f->per : 1);
        }
    }
    WORKER_SET_EACH (slot, &view->present) {
        foreign += gauge_read(&control->node->board->foreign[slot]);
    }
    prom_out_single(out, "kvasir_inflight_foreign", "gauge",
                    "Requests at engines that no node of the mesh sent",
                    foreign);
}

/* What a worker is, and how it stands: always 1. */
static void ON_CONTROL
put_states(struct control *control, struct buf *out)
{
    static const char state[] = "kvasir_worker_state";
    static const char info[] = "kvasir_worker_info";
    const struct fleet_view *view = fleet_view_get(control->node->board);
    struct fleet_status status;

    prom_out_head(out, state, "gauge",
                  "1 for the state that a worker is in, as `kvasir status` "
                  "has it");
    WORKER_SET_EACH (slot, &view->present) {
        if (fleet_status(control->fleet, slot, &status)) {
            put_worker(out, state, status.config->id);
            put_label(out, "state", status.state);
            buf_add_text(out, "} 1\n");
        }
    }
    prom_out_head(out, info, "gauge", "What a worker is: always 1");
    WORKER_SET_EACH (slot, &view->present) {
        const struct fleet_worker *w = view->worker[slot];
        put_worker(out, info, w->id);
        put_label(out, "url", w->url);
        put_label(out, "engine", engine_kind_name(w->kind));
        put_label(out, "island", w->island);
        put_label(out, "pool", w->pool);
        put_label(out, "role", config_role_name(w->role));
        buf_add_text(out, "} 1\n");
    }
}

#define PUT_ROWS(out, prefix, rows, stats) \
    prom_out_rows(out, prefix, rows, sizeof(rows) / sizeof(rows)[0], stats)

#define AT(member) offsetof(struct radix_stats, member)
static const struct prom_row belief_rows[] = {
    PROM_ONE("inserts", AT(inserts), "Prefixes learned"),
    PROM_FAMILY("evicted", "reason", "Blocks given up"),
    PROM_OF("worker_full", AT(evicted_blocks), "their worker's cache is full"),
    PROM_OF("bytes_max", AT(evicted_bound), "belief.bytes_max"),
    PROM_ONE("refused", AT(refused),
             "Prefixes not learned because a bound was reached"),
};
#undef AT

#define AT(member) offsetof(struct hints_stats, member)
static const struct prom_row hints_rows[] = {
    PROM_FAMILY("told", "what", "Told to other nodes"),
    PROM_OF("decisions", AT(told), "where prompts went"),
    PROM_OF("expected", AT(expected_told), "prompts in tokens"),
    PROM_FAMILY("heard", "what", "Heard of other nodes"),
    PROM_OF("decisions", AT(learned), "where prompts went, and believed"),
    PROM_OF("expected", AT(expected_heard), "prompts in tokens"),
    PROM_OF("places", AT(decided_heard), "places in the order of decisions"),
    PROM_FAMILY("dropped", "reason", "Told or heard in vain"),
    PROM_OF("unknown", AT(unknown), "decisions for workers not known here"),
    PROM_OF("refused", AT(refused), "decisions that belief had no room for"),
    PROM_OF("unsent", AT(gauges_failed), "loads not sent: a bound is reached"),
};
#undef AT

static void
put_belief(struct control *control, struct buf *out)
{
    struct radix_stats s;

    radix_stats(control->node->belief, &s);
    prom_out_single(out, "kvasir_belief_bytes", "gauge",
                    "Memory of the belief tree", s.bytes);
    prom_out_single(out, "kvasir_belief_blocks", "gauge",
                    "Distinct blocks believed", s.blocks);
    prom_out_single(out, "kvasir_belief_holder_blocks", "gauge",
                    "Pairs of worker and block believed", s.holder_blocks);
    prom_out_single(out, "kvasir_belief_namespaces", "gauge",
                    "Namespaces believed", s.namespaces);
    PUT_ROWS(out, "kvasir_belief", belief_rows, &s);
}

static void
put_hints(struct control *control, struct buf *out)
{
    PUT_ROWS(out, "kvasir_hints", hints_rows, &control->hints.stats);
}

/* The allocator's own figures, over all of its arenas, and those of the index's
 * page heaps: a rise of `held` alone is fragmentation, one of `used` is ours. */
static void
put_heap(struct buf *out)
{
    struct mallinfo2 heap = mallinfo2();
    size_t used;
    size_t held;

    page_heap_total(&used, &held);
    prom_out_head(out, "kvasir_process_heap_bytes", "gauge",
                  "Heap in use, and held from the system to that end");
    buf_printf(out,
               "kvasir_process_heap_bytes{state=\"used\"} %zu\n"
               "kvasir_process_heap_bytes{state=\"held\"} %zu\n",
               heap.uordblks + heap.hblkhd + used,
               heap.arena + heap.hblkhd + held);
}

static void
put_node(struct control *control, struct buf *out)
{
    struct node_shared *node = control->node;
    struct log_stats log;

    log_stats(&log);
    prom_out_head(out, "kvasir_info", "gauge", "Which node this is: always 1");
    buf_add_text(out, "kvasir_info{node=\"");
    prom_out_label(out, node->config->name);
    buf_add_text(out, "\",version=\"" KVASIR_VERSION "\"} 1\n");
    prom_out_head(out, "kvasir_build_info", "gauge",
                  "What was built; commit: of the source, where that is known");
    buf_add_text(out,
                 "kvasir_build_info{version=\"" KVASIR_VERSION "\",commit=\"");
    prom_out_label(out, node->commit != NULL ? node->commit : "");
    buf_add_text(out, "\"} 1\n");
    prom_out_single(out, "kvasir_uptime_seconds", "gauge",
                    "How long the process runs",
                    (control_now_us() - control->started_us) / 1000000);
    prom_out_single(out, "kvasir_ready", "gauge", "1 while /ready says yes",
                    control_unready(control) == NULL);
    prom_out_single(out, "kvasir_connections", "gauge",
                    "Client connections open", gauge_read(&node->connections));
    prom_out_single(out, "kvasir_inflight", "gauge", "Requests being served",
                    gauge_read(&node->inflight));
    prom_out_single(out, "kvasir_buffered_bytes", "gauge",
                    "Bytes of requests and answers held",
                    counter_read(&node->held_bytes));
    prom_out_single(out, "kvasir_facts_total", "counter",
                    "Facts the control thread took from lanes",
                    control->facts_taken);
    prom_out_single(out, "kvasir_log_lines_total", "counter",
                    "Log lines written", log.written);
    prom_out_single(out, "kvasir_log_dropped_total", "counter",
                    "Log lines held back by their rate limit or lost",
                    log.dropped + log.lost);
    put_heap(out);
    admin_put_process_metrics(control, out);
    control_text_put_metrics(&control->text, out);
}

static int64_t
mesh_expiry_s(const struct control *control)
{
    struct mesh_link *link = peers_link(control->peers);
    struct mesh_link_stats stats = {0};

    if (link != NULL) {
        mesh_link_stats(link, &stats);
    }
    return stats.certificate_expiry_s;
}

/* Of what lanes remember together. */
static void
count_remembered(const struct node_shared *node, struct metrics_lane *total)
{
    struct token_cache_stats stats;

    token_cache_stats(node->token_cache, &stats);
    counter_set(&total->tokens_evicted, stats.evicted);
    counter_set(&total->tokens_unkept, stats.refused);
    counter_set(&total->tokens_cache_bytes, stats.bytes);
    counter_set(&total->tokens_cache_turns, stats.turns);
}

void
admin_put_metrics(struct control *control, struct buf *out)
{
    struct metrics_lane total = {0};

    for (uint32_t i = 0; i < control->node->lanes_count; i++) {
        metrics_merge(&total, &control->node->lanes[i].metrics);
    }
    count_remembered(control->node, &total);
    put_node(control, out);
    put_workers(control, out);
    put_states(control, out);
    put_hints(control, out);
    put_belief(control, out);
    admin_put_event_metrics(control, out);
    admin_put_mesh_metrics(control, out);
    admin_put_snapshot_metrics(control, out);
    admin_put_mix_metrics(control, out);
    control_models_put_metrics(&control->models, out);
    control_keys_put_metrics(control->node, out);
    control_content_put_metrics(control->node, out);
    control_cache_put_metrics(control->node, out);
    control_jwt_put_metrics(&control->jwt, out);
    control_traces_put_metrics(&control->traces, out);
    control_sources_put_metrics(control, out);
    control_queue_put_metrics(&control->queue, out);
    control_limits_put_metrics(&control->limits, out);
    control_slo_put_metrics(&control->slo, out);
    control_scale_put_metrics(&control->scale, &control->node->scale, out);
    control_islands_put_metrics(&control->islands, control->node->board, out);
    control_tls_put_metrics(control->node, mesh_expiry_s(control), out);
    metrics_print(&total, out);
}
