/* The turns of the control thread's loop. */
#include "node/control/control_turns.h"

#include <sched.h>

#include "node/base/log.h"
#include "node/control/control_keys.h"
#include "node/control/control_requests.h"
#include "node/control/control_roster.h"

#define FACTS_MS           1U /* between two looks at the rings while awake */
#define FACTS_MANY         16U /* in a millisecond: some 5,000 requests a second */
#define FACTS_MANY_MS      4U    /* between two looks that find as many */
#define FACTS_PER_TURN     4096U /* of one lane */
#define FACTS_AT_ONCE      64U /* some 25 us; who waits for the processor is next */
#define FACTS_BEHIND_BYTES (UINT64_C(256) << 10) /* some 900 facts */
#define WORK_MS            20U
#define WORK_IDLE_MS       100U /* while there is nothing to do */
#define WORK_STEPS         4096U

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

void
control_await_replays(struct control *control)
{
    struct node_shared *node = control->node;
    const struct fleet_view *view = fleet_view_get(node->board);
    uint64_t age_ms = (control_now_us() - control->started_us) / UINT64_C(1000);
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

void
control_stir(struct control *control)
{
    control->stirred = true;
    if (control->resting) {
        control->resting = false;
        (void)uv_timer_start(&control->work, on_work, WORK_MS, 0);
    }
}

/* Facts */

static void ON_CONTROL
note_decision(struct control *control, const struct fact_decision *fact,
              uint64_t now_us)
{
    const struct fleet_worker *worker =
        fact_sink_worker(&control->sink, fact->slot, fact->generation);

    decisions_add(&control->decisions, fact, worker != NULL ? worker->id : "",
                  worker != NULL ? worker->island : "");
    history_take(&control->history, fact, now_us);
    enum control_slo_kept kept =
        control_slo_take(&control->slo, &control->node->slo, fact);
    mix_take(control->mix, fact,
             control_keys_tenant(control->node, fact->tenant));
    if (worker != NULL) {
        control_scale_take(&control->scale, fact->slot, kept);
        control_islands_take(&control->islands, worker, fact->bytes);
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
take_fact(struct control *control, const void *record, uint64_t now_us)
{
    int outcome = fact_sink_take(&control->sink, record, now_us);

    if (outcome < 0) {
        LOG_WARNING(
            "belief_out_of_memory", KV_FAULT("error", outcome),
            KV("hint", "prompts of workers without events are placed by load: "
                       "lower belief.bytes_max, or give the node memory"));
    }
    control_queue_take(&control->queue, record, now_us);
    uint32_t kind = *(const uint32_t *)record;
    if (kind == FACT_DECISION) {
        note_decision(control, record, now_us);
    } else if (kind == FACT_REQUEST) {
        note_request(control, record);
    } else if (kind == FACT_COLUMNS) {
        columns_add(&control->columns, record,
                    fleet_view_get(control->node->board));
    }
}

bool
control_turns_yields(uint32_t taken, uint64_t waiting_bytes, bool *behind)
{
    *behind = *behind || waiting_bytes >= FACTS_BEHIND_BYTES;
    return taken % FACTS_AT_ONCE == 0 && !*behind;
}

/* How many there were. All of it happens at the same time. What the fleet does
 * at its own times can wait for on_work(). */
static uint64_t ON_CONTROL
take_facts(struct control *control)
{
    uint64_t before = control->facts_taken;
    uint64_t now_us = control_now_us();
    bool behind = false;

    for (uint32_t i = 0; i < control->node->lanes_count; i++) {
        struct ring *ring = &control->node->lanes[i].facts;
        for (uint32_t n = 0; n < FACTS_PER_TURN; n++) {
            size_t size;
            const void *record = ring_peek(ring, &size);
            if (record == NULL) {
                break;
            }
            take_fact(control, record, now_us);
            ring_consume(ring);
            control->facts_taken++;
            if (control_turns_yields(n + 1, ring_waiting_bytes(ring),
                                     &behind)) {
                (void)sched_yield();
            }
        }
    }
    if (control->facts_taken != before) {
        fact_sink_expect(&control->sink, now_us);
        control_stir(control);
    }
    if (fleet_is_stirred(control->fleet)) {
        probe_poke(control->probe);
    }
    return control->facts_taken - before;
}

void
control_take_facts(struct control *control)
{
    (void)take_facts(control);
}

uint64_t
control_turns_pace_ms(uint64_t taken, uint64_t ms, bool waits)
{
    return taken >= FACTS_MANY * ms && !waits ? FACTS_MANY_MS : FACTS_MS;
}

static void on_facts(uv_timer_t *timer);

/* That look took so many. */
static void ON_CONTROL
look_again(struct control *control, uint64_t taken)
{
    uint64_t last_ms = uv_timer_get_repeat(&control->facts);
    uint64_t ms = control_turns_pace_ms(
        taken, last_ms, queue_waiting(control->queue.queue) != 0);

    if (ms != last_ms) {
        (void)uv_timer_start(&control->facts, on_facts, ms, ms);
    }
}

/*
 * Lanes wake the loop only while it says that it sleeps. Under load it looks
 * every few milliseconds instead, and no lane pays for a wake-up.
 */
static void
on_facts(uv_timer_t *timer)
{
    struct control *control = timer->loop->data;

    role_is_control();
    uint64_t taken = take_facts(control);
    if (taken != 0) {
        look_again(control, taken);
        return;
    }
    latch_arm(&control->node->asleep);
    if (take_facts(control) != 0 && latch_take(&control->node->asleep)) {
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
    uint64_t now_us = control_now_us();

    role_is_control();
    bool more = radix_work(control->node->belief, WORK_STEPS, now_us);
    more = expectations_work(control->node->text_expectations, WORK_STEPS,
                             now_us) ||
           more;
    more = ingest_work(control->ingest, now_us) || more;
    (void)qsbr_reclaim(&control->node->qsbr);
    finish_sweeps(control);
    probe_poke(control->probe);
    control_speed_tell(control, now_us);
    control_roster_work(control);
    control_announced_look(control);
    control_models_sweep(&control->models);
    control_models_judge(&control->models, now_us);
    control_models_compare(&control->models, &control->hints, now_us);
    control_await_replays(control);
    renderers_look(&control->renderers, fleet_view_get(control->node->board),
                   now_us);
    control_jwt_look(&control->jwt, now_us);
    control_likeness_look(control, now_us);
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
    uint64_t now_us = control_now_us();
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

void
control_tell_now(struct control *control)
{
    CHECK(uv_timer_start(&control->telling, on_hints, 0, 0) == 0);
}

/* Its begin and end */

void
control_turns_open(struct control *control)
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

void
control_turns_close(struct control *control)
{
    uv_close((uv_handle_t *)&control->wake, NULL);
    uv_close((uv_handle_t *)&control->facts, NULL);
    uv_close((uv_handle_t *)&control->work, NULL);
    uv_close((uv_handle_t *)&control->telling, NULL);
    uv_close((uv_handle_t *)&control->tokens, NULL);
    uv_close((uv_handle_t *)&control->waiting, NULL);
    uv_close((uv_handle_t *)&control->look, NULL);
}
