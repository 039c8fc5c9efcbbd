/* The control thread: its parts, and what goes from one part to another. */
#include "node/control/control.h"

#include <errno.h>
#include <time.h>

#include "node/base/log.h"
#include "node/control/admin.h"
#include "node/control/control_content.h"
#include "node/control/control_keys.h"
#include "node/control/control_roster.h"
#include "node/control/control_sources.h"
#include "node/control/control_tls.h"
#include "node/control/control_turns.h"
#include "node/control/control_warn.h"

#define UNPROVEN_BYTES   ((size_t)64 << 20)
#define ASK_ANSWER_BYTES ((size_t)64 << 20)
#define ASK_AGAIN_MS     30000U

uint64_t
control_now_us(void)
{
    return probe_now_us();
}

struct cluster *
control_cluster(const struct control *control)
{
    return hub_cluster(peers_hub(control->peers));
}

const char *
control_unready(const struct control *control)
{
    const struct fleet_view *view = fleet_view_get(control->node->board);

    if (gauge_read(&control->node->leaving) != 0) {
        return "this node is shutting down";
    }
    if (worker_set_empty(&view->eligible)) {
        return "no worker is eligible";
    }
    if (gauge_read(&control->node->mesh_ready) == CLUSTER_CATCHING_UP) {
        return "this node has not caught up with its peers yet";
    }
    if (gauge_read(&control->node->replaying) != 0) {
        return "engines are still telling what they hold";
    }
    return NULL;
}

/* What happens to workers */

static uint64_t
blocks_of_tokens(const struct control *control, uint64_t tokens)
{
    /* About 4 bytes of text a token; see reference tables of tokenizers. */
    return tokens * 4 / control->node->config->belief.block_bytes;
}

static void
admit(struct control *control, uint32_t slot, uint64_t blocks_max)
{
    const struct config_belief *belief = &control->node->config->belief;

    if (blocks_max == 0) {
        blocks_max = belief->worker_blocks_max;
    }
    int outcome = radix_worker_add(control->node->belief, slot, blocks_max,
                                   (enum radix_eviction)belief->eviction);
    if (outcome != 0) {
        LOG_WARNING(
            "belief_slot_refused", KV("slot", slot),
            KV("hint",
               "there was no memory: this worker's prompts are placed by load "
               "until the next one comes or goes; lower belief.bytes_max, or "
               "give the node memory"));
    }
}

static void
on_fleet_event(void *context, const struct fleet_out *out)
{
    struct control *control = context;

    role_is_control();
    control_stir(control);
    if (out->event == FLEET_ADDED) {
        admit(control, out->worker->slot, out->worker->blocks_max);
        control_warn_of_key(control, out->worker);
        ingest_added(control->ingest, out->worker);
    } else if (out->event == FLEET_CAPACITY_CHANGED) {
        ingest_slots_capacity(ingest_slots(control->ingest), out->worker->slot,
                              out->number);
        if (out->worker->blocks_max == 0) {
            admit(control, out->worker->slot,
                  blocks_of_tokens(control, out->number));
        }
    } else if (out->event == FLEET_RECOGNISED) {
        control_warn_of_engine(control, out->worker);
    } else if (out->event == FLEET_REMOVED) {
        ingest_removed(control->ingest, out->worker);
        ingest_slots_capacity(ingest_slots(control->ingest), out->worker->slot,
                              0);
        radix_worker_remove(control->node->belief, out->worker->slot);
        expectations_gone(control->node->text_expectations, out->worker->slot);
    }
}

/* A worker may just have become eligible. */
static void
on_published(void *context)
{
    control_await_replays(context);
}

/* What happens in the mesh */

static void
on_mesh_worker(void *context, const struct roster_entry *entry)
{
    role_is_control();
    control_roster_changed(context, entry);
}

static void
on_mesh_ready(void *context, enum cluster_ready ready)
{
    struct control *control = context;

    gauge_set(&control->node->mesh_ready, (int32_t)ready);
}

static void
on_mesh_refused(void *context)
{
    struct control *control = context;

    control->refused(control->owner);
}

static void
on_take_facts(void *context)
{
    role_is_control();
    control_take_facts(context);
}

static int
open_peers(struct control *control)
{
    struct peers_owner owner = {
        .context = control,
        .ready = on_mesh_ready,
        .refused = on_mesh_refused,
        .take_facts = on_take_facts,
    };
    struct hub_roster roster = {.context = control, .changed = on_mesh_worker};
    int error = peers_new(&control->peers, &control->loop,
                          control->node->config, &owner);

    if (error == 0) {
        hub_attach_roster(peers_hub(control->peers), &roster);
    }
    return error;
}

/* Without a mesh port there are no peers to tell. */
static void ON_CONTROL
open_hints(struct control *control)
{
    struct node_shared *node = control->node;
    uint32_t gauge_ms = gossip_config_default().gauge_ms;
    struct hints_world world = {
        .board = node->board,
        .belief = node->belief,
        .mirror = node->mirror,
        .mirror_view = &node->mirror_view,
        .expectations = node->expectations,
        .decided = node->decided,
        .text = node->text_expectations,
        .rank_inflight = node->rank_inflight,
        .rank_peers = node->rank_peers,
        .ticket = (uint32_t)key_digest(slice_of(node->config->name)) | 1,
    };

    hints_init(&control->hints, &world);
    if (peers_link(control->peers) != NULL) {
        hints_attach(&control->hints, peers_hub(control->peers));
        hints_join(&control->hints, hub_gossip(peers_hub(control->peers)),
                   gauge_ms, control_now_us());
        control_tell_now(control);
    }
}

static void
open_sink(struct control *control)
{
    control->sink = (struct fact_sink){
        .fleet = control->fleet,
        .board = control->node->board,
        .belief = control->node->belief,
        .expected = control->node->text_expectations,
        .hints = &control->hints,
        .slots = ingest_slots(control->ingest),
        .streams = ingest_streams(control->ingest),
        .unproven = &control->unproven,
        .speed = &control->speed.own,
        .text = &control->text,
        .gathers = true,
    };
}

static int ON_CONTROL
open_snapshot(struct control *control)
{
    const struct snapshot_parts parts = {
        .loop = &control->loop,
        .node = control->node,
        .fleet = control->fleet,
        .ingest = control->ingest,
        .cluster = control_cluster(control),
        .mix = control->mix,
        .text = &control->text,
        .meshed = peers_link(control->peers) != NULL,
        .context = control,
        .worker = on_mesh_worker,
    };

    return snapshot_start(control->snapshot, &parts);
}

/* The beginning and the end */

static int
open_token_ask(struct control *control)
{
    const struct config_tokens *config = &control->node->config->tokens;
    struct token_ask_limits limits = {
        .open_max = config->open_max,
        .timeout_ms = config->timeout_ms,
        .answer_bytes_max = ASK_ANSWER_BYTES,
        .copied_bytes_max = control->node->config->limits.body_bytes_max,
        .retry_ms = ASK_AGAIN_MS,
    };

    int error = config->wait_ms == 0 ? 0
                                     : token_ask_new(&control->token_ask,
                                                     &control->loop, &limits);
    control->renderers.ask = control->token_ask;
    return error;
}

static void
on_cut(void *context, uint64_t number)
{
    struct control *control = context;

    role_is_control();
    snapshot_told(control->snapshot, number);
}

static int
open_ingest(struct control *control)
{
    struct ingest_owner owner = {
        .context = control,
        .take_facts = on_take_facts,
        .cut = on_cut,
        .hub = peers_hub(control->peers),
    };

    return ingest_new(&control->ingest, control->node, &control->loop, &owner,
                      rng_next(&control->rng));
}

void
control_use_tls(struct control *control)
{
    const struct sock_tls_context *tls = control_tls_of_workers(control->node);

    probe_use_tls(control->probe, tls);
    admin_use_tls(control);
    if (control->clearing.redis != NULL) {
        redis_use_tls(control->clearing.redis, tls);
    }
    if (control->token_ask != NULL) {
        token_ask_use_tls(control->token_ask, tls);
    }
}

void
control_limit_workers(struct control *control, const struct config *config)
{
    bool waits = config->timeouts.queue_ms != 0;

    fleet_limit(control->fleet, waits ? config->workers_max_inflight : 0,
                waits);
}

static int ON_CONTROL
open_fleet(struct control *control, uint64_t seed)
{
    const struct config *config = control->node->config;
    struct fleet_config fleet = {
        .health = config->health,
        .breaker = config->breaker,
        .resolve_interval_ms = 30000,
        .deny = config->workers_deny,
        .seed = seed,
    };
    int error = fleet_new(&control->fleet, &fleet, &control->node->qsbr);

    if (error < 0) {
        return error;
    }
    control->node->board = fleet_board(control->fleet);
    control_limit_workers(control, config);
    struct probe_owner owner = {
        .context = control, .event = on_fleet_event, .published = on_published};
    error = probe_new(&control->probe, &control->loop, control->fleet, &owner);
    if (error == 0) {
        control_use_tls(control); /* before the first worker is looked at */
        error = control_roster_open(control);
    }
    return error;
}

/* What stands on the loop, in this order. */
static int ON_CONTROL
open_parts(struct control *control)
{
    const struct config *config = control->node->config;
    int error =
        decisions_init(&control->decisions, config->limits.decisions_max);

    columns_init(&control->columns, config->limits.decision_columns_bytes);
    control->mix = mix_new(snapshot_wall_ms());
    if (error == 0 && control->mix == NULL) {
        error = -ENOMEM;
    }
    if (error == 0) {
        error = route_scratch_init(&control->explain, config);
    }
    if (error == 0) {
        error = control_queue_init(&control->queue, control->node,
                                   &control->speed.all);
    }
    if (error == 0) {
        error = open_token_ask(control);
    }
    if (error == 0) {
        error = open_peers(control);
    }
    if (error == 0) {
        error = open_ingest(control);
    }
    if (error == 0) {
        error = open_fleet(control, rng_next(&control->rng));
    }
    return error;
}

int
control_init(struct control *control, struct node_shared *node,
             struct snapshot *snapshot, uint64_t seed)
{
    role_is_control();
    *control = (struct control){.node = node, .snapshot = snapshot};
    unproven_init(&control->unproven, UNPROVEN_BYTES);
    int error = uv_loop_init(&control->loop);
    if (error < 0) {
        return error;
    }
    control->loop.data = control;
    rng_init(&control->rng, seed);
    control_turns_open(control);
    control->started_us = control_now_us();
    control->started_wall_s = (uint64_t)time(NULL);
    gauge_set(&node->replaying, 1);
    control_models_start(&control->models, node, &control->loop);
    control_traces_start(&control->traces, node, &control->loop);
    error = control_keys_start(node);
    if (error == 0) {
        error = control_content_start(node);
    }
    if (error == 0 && node->config->content.file[0] != '\0') {
        control_likeness_begin(
            control, (struct content *)(uintptr_t)publish_get(&node->content));
        control->content = content_scratch_new();
        error = control->content != NULL ? 0 : -ENOMEM;
    }
    if (error == 0) {
        error = control_jwt_start(&control->jwt, node, &control->loop);
    }
    if (error == 0) {
        error = control_limits_init(&control->limits, node,
                                    rng_next(&control->rng));
    }
    if (error == 0) {
        error = control_limits_start(&control->limits, control->started_us);
    }
    if (error == 0) {
        error = control_tls_start(node);
    }
    if (error == 0) {
        error = control_clearing_start(control);
    }
    if (error == 0) {
        error = open_parts(control);
    }
    if (error == 0) {
        open_hints(control);
        open_sink(control);
        error = open_snapshot(control);
    }
    if (error == 0) {
        error = ingest_start(control->ingest);
    }
    if (error == 0) {
        error = control_sources_open(control);
    }
    if (error == 0) {
        peers_start(control->peers);
        return 0;
    }
    control_stop(control);
    (void)uv_run(&control->loop, UV_RUN_DEFAULT);
    control_fini(control);
    return error;
}

void
control_stop(struct control *control)
{
    control_jwt_stop(&control->jwt);
    control_likeness_stop(control);
    control_clearing_stop(&control->clearing);
    control_traces_stop(&control->traces);
    control_scale_stop(control);
    control_sources_close(control);
    httpd_free(control->admin);
    control->admin = NULL;
    httpd_free(control->metrics);
    control->metrics = NULL;
    admin_live_close(&control->live);
    control_models_stop(&control->models);
    snapshot_stop(control->snapshot);
    probe_free(control->probe);
    control->probe = NULL;
    peers_stop(control->peers);
    ingest_stop(control->ingest);
    if (control->token_ask != NULL) {
        token_ask_free(control->token_ask);
        control->token_ask = NULL;
        control->renderers.ask = NULL;
    }
    control_turns_close(control);
}

void
control_fini(struct control *control)
{
    CHECK(uv_loop_close(&control->loop) == 0);
    unproven_fini(&control->unproven);
    control_traces_fini(&control->traces);
    route_scratch_fini(&control->explain);
    admin_alias_fini(&control->alias);
    content_scratch_free(control->content);
    decisions_fini(&control->decisions);
    columns_fini(&control->columns);
    mix_free(control->mix);
    control_queue_fini(&control->queue);
    if (control->limits.table != NULL) {
        control_limits_fini(&control->limits);
    }
    ingest_free(control->ingest);
    control_roster_close(control);
    peers_free(control->peers);
    (void)qsbr_reclaim(&control->node->qsbr);
    control_models_fini(&control->models);
    fleet_free(control->fleet);
}
