/* The control thread: its parts, its turns, and what goes from one part to
 * another. */
#include "node/control/control.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "node/base/log.h"
#include "node/control/admin.h"
#include "node/control/control_content.h"
#include "node/control/control_keys.h"
#include "node/control/control_requests.h"
#include "node/control/control_roster.h"
#include "node/control/control_sources.h"
#include "node/control/control_tls.h"
#include "node/control/control_warn.h"

#define FACTS_MS         1U   /* between two looks at the rings while awake */
#define FACTS_PER_TURN   512U /* of one lane */
#define WORK_MS          20U
#define UNPROVEN_BYTES   ((size_t)64 << 20)
#define WORK_IDLE_MS     100U /* while there is nothing to do */
#define WORK_STEPS       4096U
#define ASK_ANSWER_BYTES ((size_t)64 << 20)
#define ASK_AGAIN_MS     30000U

uint64_t
control_now_us(const struct control *control)
{
    (void)control;
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

/* Whether this node still waits for what a worker held before. */
static bool
is_replaying(const struct control *control, uint32_t worker, bool early)
{
    const struct intake *intake = ingest_intake(control->ingest);
    const struct fleet_view *view = fleet_view_get(control->node->board);
    bool reads = false;

    for (uint32_t rank = 0; rank < view->worker[worker]->ranks; rank++) {
        const struct intake_numbers *numbers =
            intake != NULL ? intake_numbers(intake, worker, rank) : NULL;
        uint32_t state = numbers != NULL ? gauge_read(&numbers->state)
                                         : (uint32_t)KV_STREAM_LIVE;
        reads = reads || state == KV_STREAM_READING ||
                (early && state == KV_STREAM_CONNECTING);
    }
    return reads;
}

/* A node that has just started is not ready before the engines that it reads
 * have told again what they hold; once it was, it stays so. mesh.ready bounds
 * it, and one replay's time-out the wait for a connection. */
static void
look_for_replays(struct control *control)
{
    struct node_shared *node = control->node;
    const struct fleet_view *view = fleet_view_get(node->board);
    uint64_t age_ms =
        (control_now_us(control) - control->started_us) / UINT64_C(1000);
    bool early = age_ms < node->config->events.replay_timeout_ms;
    bool waits = worker_set_empty(&view->eligible);

    if (gauge_read(&node->replaying) == 0) {
        return;
    }
    WORKER_SET_EACH (worker, &view->eligible) {
        waits = waits || is_replaying(control, worker, early);
    }
    if (!waits || age_ms >= node->config->mesh.ready_ms) {
        gauge_set(&node->replaying, 0);
    }
}

static void on_work(uv_timer_t *timer);

/* Something happened that may make background work. */
static void
stir(struct control *control)
{
    control->stirred = true;
    if (control->resting) {
        control->resting = false;
        (void)uv_timer_start(&control->work, on_work, WORK_MS, 0);
    }
}

/* Facts */

static void ON_CONTROL
note_decision(struct control *control, const struct fact_decision *fact)
{
    const struct fleet_worker *worker =
        fact_sink_worker(&control->sink, fact->slot, fact->generation);

    decisions_add(&control->decisions, fact, worker != NULL ? worker->id : "",
                  worker != NULL ? worker->island : "");
    history_take(&control->history, fact, control_now_us(control));
    enum control_slo_kept kept =
        control_slo_take(&control->slo, &control->node->slo, fact);
    mix_take(control->mix, fact,
             control_keys_tenant(control->node, fact->tenant));
    if (worker != NULL) {
        control_scale_take(&control->scale, fact->slot, kept);
        control_islands_take(&control->islands, worker);
        ingest_answered(control->ingest, fact);
    }
}

static void ON_CONTROL
note_request(struct control *control, const struct fact_request *fact)
{
    const struct fleet_worker *worker = fact_sink_worker(
        &control->sink, fact->decision.slot, fact->decision.generation);

    if (fact->logged) {
        control_log_request(control, fact);
    }
    if (fact->trace.sampled) {
        control_traces_take(&control->traces, fact,
                            worker != NULL ? worker->id : "");
    }
}

static void ON_CONTROL
take_fact(struct control *control, const void *record)
{
    int outcome =
        fact_sink_take(&control->sink, record, control_now_us(control));

    if (outcome < 0) {
        LOG_WARNING(
            "belief_out_of_memory", KV_FAULT("error", outcome),
            KV("hint", "prompts of workers without events are placed by load: "
                       "lower belief.bytes_max, or give the node memory"));
    }
    control_queue_take(&control->queue, record, control_now_us(control));
    uint32_t kind = *(const uint32_t *)record;
    if (kind == FACT_DECISION) {
        note_decision(control, record);
    } else if (kind == FACT_REQUEST) {
        note_request(control, record);
    } else if (kind == FACT_COLUMNS) {
        columns_add(&control->columns, record,
                    fleet_view_get(control->node->board));
    }
}

/* True when there was something. */
static bool ON_CONTROL
take_facts(struct control *control)
{
    uint64_t before = control->facts_taken;

    for (uint32_t i = 0; i < control->node->lanes_count; i++) {
        struct ring *ring = &control->node->lanes[i].facts;
        for (uint32_t n = 0; n < FACTS_PER_TURN; n++) {
            size_t size;
            const void *record = ring_peek(ring, &size);
            if (record == NULL) {
                break;
            }
            take_fact(control, record);
            ring_consume(ring);
            control->facts_taken++;
        }
    }
    if (control->facts_taken != before) {
        stir(control);
        probe_poke(control->probe);
    }
    return control->facts_taken != before;
}

void
control_take_facts(struct control *control)
{
    (void)take_facts(control);
}

static void
on_take_facts(void *context)
{
    role_is_control();
    control_take_facts(context);
}

/*
 * Lanes wake the loop only while it says that it sleeps. Under load it looks
 * every FACTS_MS instead, and no lane pays for a wake-up.
 */
static void
on_facts(uv_timer_t *timer)
{
    struct control *control = timer->loop->data;

    role_is_control();
    if (take_facts(control)) {
        return;
    }
    latch_arm(&control->node->asleep);
    if (take_facts(control) && latch_take(&control->node->asleep)) {
        return; /* a fact arrived meanwhile, without a wake-up */
    }
    (void)uv_timer_stop(&control->facts);
    control->awake = false;
}

static void
on_wake(uv_async_t *wake)
{
    struct control *control = wake->loop->data;

    role_is_control();
    if (!control->awake) {
        control->awake = true;
        (void)uv_timer_start(&control->facts, on_facts, FACTS_MS, FACTS_MS);
    }
    (void)take_facts(control);
}

/* Background work */

static void ON_CONTROL
finish_sweeps(struct control *control)
{
    struct worker_set unswept = fleet_unswept(control->fleet);

    WORKER_SET_EACH (slot, &unswept) {
        if (radix_worker_blocks(control->node->belief, slot) == 0) {
            fleet_swept(control->fleet, slot);
        }
    }
}

/* Each WORK_MS, but more seldom while nothing happens. */
static void
on_work(uv_timer_t *timer)
{
    struct control *control = timer->loop->data;
    uint64_t now_us = control_now_us(control);

    role_is_control();
    bool more = radix_work(control->node->belief, WORK_STEPS, now_us);
    more = expectations_work(control->node->text_expectations, WORK_STEPS,
                             now_us) ||
           more;
    more = ingest_work(control->ingest, now_us) || more;
    (void)qsbr_reclaim(&control->node->qsbr);
    finish_sweeps(control);
    control_speed_tell(control, now_us);
    control_roster_work(control);
    control_announced_look(control);
    control_models_sweep(&control->models);
    control_models_judge(&control->models, now_us);
    control_models_compare(&control->models, &control->hints, now_us);
    look_for_replays(control);
    renderers_look(&control->renderers, fleet_view_get(control->node->board),
                   now_us);
    control_jwt_look(&control->jwt, now_us);
    control_traces_look(&control->traces, now_us);
    control->resting = !more && !control->stirred;
    control->stirred = false;
    (void)uv_timer_start(timer, on_work,
                         control->resting ? WORK_IDLE_MS : WORK_MS, 0);
}

static void
on_hints(uv_timer_t *timer)
{
    struct control *control = timer->loop->data;

    control->telling_us = 0; /* the loop goes round, and sets it again */
}

static void
on_waiting(uv_timer_t *timer)
{
    (void)timer; /* the same */
}

/* Those that wait are looked at whenever the loop goes round: lanes' facts,
 * peers' loads and probes all make it. */
static void ON_CONTROL
look_at_queue(struct control *control, uint64_t now_us)
{
    uint64_t again_us = control_queue_look(&control->queue, now_us);

    if (again_us == UINT64_MAX) {
        return;
    }
    uint64_t ms = again_us > now_us ? (again_us - now_us + 999) / 1000 : 0;
    (void)uv_timer_start(&control->waiting, on_waiting, ms + 1, 0);
}

/* A long prompt brings the time forward. */
static void ON_CONTROL
tell_when_due(struct control *control, uint64_t now_us)
{
    uint64_t due_us = hints_deadline(&control->hints);

    if (due_us == control->telling_us || due_us == UINT64_MAX) {
        return;
    }
    uint64_t wait_us = due_us > now_us ? due_us - now_us : 0;
    control->telling_us = due_us;
    (void)uv_timer_start(&control->telling, on_hints, (wait_us + 999) / 1000,
                         0);
}

/* After each look at the sockets: peers' gauges go on the board at once. */
static void
on_look(uv_check_t *look)
{
    struct control *control = look->loop->data;

    role_is_control();
    uint64_t now_us = control_now_us(control);
    bool tells = hints_tick(&control->hints, now_us);
    if (tells) {
        hints_turn(&control->hints, snapshot_wall_ms());
    }
    control_limits_look(&control->limits, &control->hints, tells, now_us);
    if (control->node->answers != NULL) {
        control_clearing_hear(control);
    }
    tell_when_due(control, now_us);
    look_at_queue(control, now_us);
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
        LOG_WARNING("belief_slot_refused", KV("slot", slot),
                    KV("hint", "this worker's prompts are placed by load until "
                               "the next one comes or goes"));
    }
}

static void
on_fleet_event(void *context, const struct fleet_out *out)
{
    struct control *control = context;

    role_is_control();
    stir(control);
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
    look_for_replays(context);
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
                   gauge_ms, control_now_us(control));
        CHECK(uv_timer_start(&control->telling, on_hints, 0, 0) == 0);
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

static void ON_CONTROL
open_timers(struct control *control)
{
    CHECK(uv_async_init(&control->loop, &control->wake, on_wake) == 0);
    CHECK(uv_timer_init(&control->loop, &control->facts) == 0);
    CHECK(uv_timer_init(&control->loop, &control->work) == 0);
    CHECK(uv_timer_init(&control->loop, &control->telling) == 0);
    CHECK(uv_timer_init(&control->loop, &control->tokens) == 0);
    CHECK(uv_timer_init(&control->loop, &control->waiting) == 0);
    admin_live_init(control);
    CHECK(uv_check_init(&control->loop, &control->look) == 0);
    CHECK(uv_check_start(&control->look, on_look) == 0);
    CHECK(uv_timer_start(&control->work, on_work, WORK_MS, 0) == 0);
    control->node->wake = &control->wake;
    latch_arm(&control->node->asleep);
}

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
    open_timers(control);
    control->started_us = control_now_us(control);
    control->started_wall_s = (uint64_t)time(NULL);
    gauge_set(&node->replaying, 1);
    control_models_start(&control->models, node, &control->loop);
    control_traces_start(&control->traces, node, &control->loop);
    error = control_keys_start(node);
    if (error == 0) {
        error = control_content_start(node);
    }
    if (error == 0 && node->config->content.file[0] != '\0') {
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
    uv_close((uv_handle_t *)&control->wake, NULL);
    uv_close((uv_handle_t *)&control->facts, NULL);
    uv_close((uv_handle_t *)&control->work, NULL);
    uv_close((uv_handle_t *)&control->telling, NULL);
    uv_close((uv_handle_t *)&control->tokens, NULL);
    uv_close((uv_handle_t *)&control->waiting, NULL);
    uv_close((uv_handle_t *)&control->look, NULL);
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
