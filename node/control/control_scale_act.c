/* Engines that are asked for, and that are given back: who does it, and how far
 * each is. */
#include "node/control/control_scale_act.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "node/base/log.h"
#include "node/config/config_scale.h"
#include "node/control/control.h"
#include "node/control/control_roster.h"
#include "node/fleet/engine_models.h"
#include "node/text/prom_out.h"

_Static_assert(SCALE_MODEL_MAX > ENGINE_MODEL_NAME_MAX, "a model's name fits");
_Static_assert(SCALE_WORKER_MAX >= CONFIG_LABEL_MAX, "a worker's id fits");

/* The lease */

bool
control_scale_acts(const struct control_scale_act *act, uint64_t now_us)
{
    return act->begun && scale_seat_acts(&act->seat, now_us);
}

static void ON_CONTROL
name_holder(struct control *control)
{
    struct control_scale_act *act = &control->scale.act;
    const struct member_table *members =
        cluster_members(control_cluster(control));
    struct member_info member;

    act->holder[0] = '\0';
    for (uint32_t at = 0; member_get(members, at, &member); at++) {
        if (owner_name(member.update.name) == act->seat.lease.own.holder) {
            memcpy(act->holder, member.update.name, sizeof(act->holder));
        }
    }
}

static void ON_CONTROL
vote(struct control *control, uint64_t now_us)
{
    struct control_scale_act *act = &control->scale.act;
    const struct scale_voting voting = {
        .quorum = control->node->scale.quorum,
        .lease_us = SCALE_LEASE_US,
        .wall_s = (uint32_t)time(NULL),
    };

    if (!act->begun) {
        scale_seat_init(&act->seat, control->node->config->name, SCALE_LEASE_US,
                        now_us);
        act->begun = true;
    }
    scale_seat_turn(&act->seat, control_cluster(control), &voting, now_us);
    name_holder(control);
    bool acts = scale_seat_acts(&act->seat, now_us);
    if (acts && !act->acted) {
        LOG_INFO("scale_acts", KV("epoch", act->seat.lease.own.epoch));
    } else if (act->acted && !acts) {
        LOG_WARNING("scale_acts_no_more",
                    KV("epoch", act->seat.lease.own.epoch),
                    KV("hint", "too few nodes answer: another one may act, and "
                               "none does while none has scale.quorum"));
    }
    act->acted = acts;
}

/* Jobs */

static bool ON_CONTROL
say(struct control *control, const char *key, const struct scale_record *record)
{
    int outcome =
        scale_seat_say(&control->scale.act.seat, control_cluster(control), key,
                       record, control_now_us());

    if (outcome != 0) {
        LOG_WARNING("scale_unsaid", KV("key", key), KV("outcome", outcome),
                    KV("hint", "the list of workers is full: remove those "
                               "that are gone"));
    }
    return outcome == 0;
}

static void ON_CONTROL
say_state(struct control *control, struct scale_job *job,
          enum scale_state state)
{
    struct scale_record record = job->record;

    record.state = state;
    (void)say(control, job->key, &record);
}

/* What comes next */

static bool ON_CONTROL
is_idle(const struct control *control, uint32_t slot)
{
    uint32_t load[WORKERS_MAX];
    struct worker_set one = {0};

    if (slot == WORKER_NONE) {
        return true;
    }
    worker_set_add(&one, slot);
    fleet_board_loads(control->node->board, &one, load, NULL);
    return load[slot] == 0;
}

/* With its circuit half open it takes requests on trial, and stays so while
 * none come. */
static bool ON_CONTROL
is_ready(const struct control *control, const struct scale_record *record,
         uint32_t slot)
{
    const struct fleet_view *view = fleet_view_get(control->node->board);
    const struct fleet_model *model =
        fleet_view_model(view, slice_of(record->model));

    return slot != WORKER_NONE && model != NULL &&
           worker_set_has(&model->workers, slot) &&
           (worker_set_has(&view->eligible, slot) ||
            worker_set_has(&view->trial, slot));
}

static struct scale_facts ON_CONTROL
look_at(struct control *control, struct scale_job *job, uint64_t now_us)
{
    uint32_t slot = fleet_find(control->fleet, slice_of(job->record.worker));
    bool ready = is_ready(control, &job->record, slot);

    scale_seat_reach(job, control_cluster(control), ready, now_us);
    struct scale_facts facts =
        scale_seat_facts(&control->scale.act.seat, control_cluster(control),
                         job, control->node->scale.quorum, now_us);

    facts.ready = ready;
    facts.reaches =
        worker_set_count(&fleet_view_get(control->node->board)->eligible) != 0;
    facts.idle = is_idle(control, slot);
    return facts;
}

static void ON_CONTROL
give_up(struct control *control, const struct scale_job *job)
{
    struct control_scale_act *act = &control->scale.act;

    if (scale_job_is_coming(job)) {
        act->missed++;
        act->missed_in_row++;
        LOG_WARNING(
            "scale_missed", KV("key", job->key), KV("model", job->record.model),
            KV("worker", job->record.worker), KV("pool", job->record.pool),
            KV("hint", "an engine that was asked for took no requests "
                       "within scale.provision: it is given back, and "
                       "another one asked for where it is needed"));
    }
}

static void
report_loss(const struct scale_job *job)
{
    if (job->record.state == SCALE_WORKS) {
        LOG_WARNING(
            "scale_lost", KV("key", job->key), KV("model", job->record.model),
            KV("worker", job->record.worker),
            KV("hint", "its worker was removed, or was drained or took no "
                       "requests for scale.provision and had none in flight: "
                       "it is given back, and another one asked for where it "
                       "is needed"));
    }
}

static void ON_CONTROL
carry_on(struct control *control, struct scale_job *job, enum scale_do what)
{
    struct control_scale_act *act = &control->scale.act;
    struct slice worker = slice_of(job->record.worker);
    bool came = job->record.state == SCALE_COMES;

    switch (what) {
    case SCALE_DO_NOTHING:
        break;
    case SCALE_DO_PROVISION:
    case SCALE_DO_TERMINATE:
        control_scale_call(control, job, what == SCALE_DO_PROVISION);
        break;
    case SCALE_DO_WORK:
        act->came += came;
        act->missed_in_row = came ? 0 : act->missed_in_row;
        LOG_INFO("scale_works", KV("key", job->key),
                 KV("worker", job->record.worker), KV("came", came));
        say_state(control, job, SCALE_WORKS);
        (void)!control_roster_drain(control, worker, false);
        break;
    case SCALE_DO_DRAIN:
        give_up(control, job);
        LOG_INFO("scale_drains", KV("key", job->key),
                 KV("worker", job->record.worker));
        if (job->record.state != SCALE_ENDS) {
            say_state(control, job, SCALE_DRAINS);
        }
        (void)!control_roster_drain(control, worker, true);
        break;
    case SCALE_DO_END:
        give_up(control, job);
        report_loss(job);
        say_state(control, job, SCALE_ENDS);
        break;
    }
}

bool
control_scale_answered(struct control *control, const struct scale_job *job,
                       bool provision, const struct config_worker *worker)
{
    struct control_scale_act *act = &control->scale.act;
    struct scale_record record = job->record;
    uint64_t now_us = control_now_us();

    if (!control_scale_acts(act, now_us)) {
        return true; /* who acts now hears the same */
    }
    if (record.state == SCALE_ENDS && !provision) {
        LOG_INFO("scale_ended", KV("key", job->key),
                 KV("worker", record.worker));
        act->ended++;
        (void)!control_roster_remove(control, slice_of(record.worker));
        return scale_seat_forget(job, control_cluster(control), now_us) == 0;
    }
    if (record.state != SCALE_ASKED || worker == NULL) {
        return true;
    }
    int outcome = control_roster_put(control, worker);
    if (outcome != 0 && outcome != FLEET_E_DUPLICATE_ID) {
        return false;
    }
    record.state = SCALE_COMES;
    memcpy(record.worker, worker->id, sizeof(worker->id));
    return say(control, job->key, &record);
}

static bool ON_CONTROL
ask(struct control *control, const struct scale_order *order)
{
    struct control_scale_act *act = &control->scale.act;
    char key[SCALE_KEY_MAX] = "";
    int outcome = scale_seat_ask(&act->seat, control_cluster(control), order,
                                 key, control_now_us());

    if (outcome != 0) {
        LOG_WARNING("scale_unsaid", KV("key", key), KV("outcome", outcome),
                    KV("hint", "the list of workers is full, or the model's "
                               "name has lines: nothing is asked for"));
        return false;
    }
    act->asked++;
    LOG_INFO("scale_asks", KV("key", key), KV("model", order->model),
             KV("pool", order->pool));
    return true;
}

/* Engines of pools that are not configured: each change is a line. */
static void ON_CONTROL
count_orphans(struct control *control, bool acts)
{
    struct control_scale_act *act = &control->scale.act;
    const char *pool = "";
    uint32_t count = 0;

    for (uint32_t i = 0; i < act->seat.count; i++) {
        const struct scale_job *job = &act->seat.job[i];
        if (control_scale_is_orphan(&control->node->scale, job)) {
            pool = job->record.pool;
            count++;
        }
    }
    if (acts && count > act->orphans) {
        LOG_WARNING("scale_pool_gone", KV("engines", count), KV("pool", pool),
                    KV("hint", "they were asked of a pool that is not in "
                               "scale.pools any more: they stay, and nobody "
                               "can end them until it is back"));
    }
    act->orphans = count;
}

void
control_scale_turn(struct control *control)
{
    struct control_scale_act *act = &control->scale.act;
    const struct node_live *live = publish_get(&control->node->live);
    const struct scale_times times = {
        .provision_ms = control->node->scale.provision_ms,
        .drain_ms = live->timeouts.drain_ms};

    control_scale_calls_look(control);
    uint64_t now_us = control_now_us();
    if (control->node->scale.mode != CONFIG_SCALE_ACT) {
        control_scale_stop(control);
        return;
    }
    vote(control, now_us);
    count_orphans(control, act->acted);
    for (uint32_t i = 0; i < act->seat.count; i++) {
        struct scale_job *job = &act->seat.job[i];
        struct scale_facts facts = look_at(control, job, now_us);
        enum scale_do what = scale_job_next(job, &facts, &times, now_us);
        carry_on(control, job, control_scale_pod(control, job, &facts, what));
    }
    const struct scale_job *above = control_scale_gap(control);
    if (above != NULL) {
        (void)ask(control, &(struct scale_order){.model = above->record.model,
                                                 .pool = above->record.pool});
    }
}

void
control_scale_stop(struct control *control)
{
    struct control_scale_act *act = &control->scale.act;

    if (!act->begun) {
        return;
    }
    control_scale_hang_up(control);
    scale_seat_stop(&act->seat, control_cluster(control), control_now_us());
    act->begun = false;
    act->acted = false;
    act->holder[0] = '\0';
}

/* What a group wants */

static bool ON_CONTROL
ask_for_one(struct control *control, const char *model,
            struct scale_market *market)
{
    const struct config_scale *config = &control->node->scale;
    uint32_t at = 0;

    return scale_market_buy(market, &at) &&
           ask(control,
               &(struct scale_order){
                   .model = model, .pool = config_scale_at(config, at)->name});
}

void
control_scale_wish(struct control *control, const struct scale_wish *wish)
{
    struct control_scale_act *act = &control->scale.act;
    struct scale_market market = *wish->market;
    uint32_t more =
        wish->desired > wish->engines ? wish->desired - wish->engines : 0;

    if (!control_scale_acts(act, control_now_us())) {
        return;
    }
    for (; more > 0; more--) {
        struct scale_job *back =
            scale_seat_find_draining(&act->seat, wish->model);
        if (back != NULL) {
            carry_on(control, back, SCALE_DO_WORK);
        } else if (!ask_for_one(control, wish->model, &market)) {
            break;
        }
    }
    struct scale_job *goes = scale_seat_find_worker(&act->seat, wish->victim);
    if (goes != NULL && wish->desired < wish->engines) {
        goes->goes = true;
    }
}

/* For operators */

void
control_scale_put_jobs(const struct control_scale_act *act,
                       struct json_out *json)
{
    json_out_put_uint(json, "epoch", act->seat.lease.own.epoch);
    json_out_put_uint(json, "missed", act->missed);
    json_out_put_uint(json, "jobs_left_out", act->seat.left_out);
    json_out_put_uint(json, "jobs_without_pool", act->orphans);
    json_out_key(json, "jobs");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < act->seat.count; i++) {
        const struct scale_job *job = &act->seat.job[i];
        json_out_object_begin(json);
        json_out_put_text(json, "key", job->key);
        json_out_put_text(json, "model", job->record.model);
        json_out_put_text(json, "worker", job->record.worker);
        json_out_put_text(json, "pool", job->record.pool);
        json_out_put_text(json, "state", scale_state_name(job->record.state));
        json_out_put_uint(json, "number", job->record.number);
        json_out_put_uint(json, "fails", job->fails);
        json_out_object_end(json);
    }
    json_out_array_end(json);
}

void
control_scale_put_act_metrics(const struct control_scale_act *act,
                              struct buf *out)
{
    uint32_t count[SCALE_STATES] = {0};

    for (uint32_t i = 0; i < act->seat.count; i++) {
        count[act->seat.job[i].record.state]++;
    }
    prom_out_head(out, "kvasir_scale_jobs", "gauge",
                  "Engines that nodes asked for, by how far they are");
    for (uint32_t i = 0; i < SCALE_STATES; i++) {
        buf_printf(out, "kvasir_scale_jobs{state=\"%s\"} %" PRIu32 "\n",
                   scale_state_name((enum scale_state)i), count[i]);
    }
    prom_out_single(out, "kvasir_scale_jobs_without_pool", "gauge",
                    "Of these, those of pools that are not configured any "
                    "more: nobody can end them",
                    act->orphans);
    prom_out_single(out, "kvasir_scale_asked_total", "counter",
                    "Engines that this node asked for", act->asked);
    prom_out_single(out, "kvasir_scale_came_total", "counter",
                    "Engines that were asked for and took requests then",
                    act->came);
    prom_out_single(out, "kvasir_scale_missed_total", "counter",
                    "Engines that took none within scale.provision",
                    act->missed);
    prom_out_single(out, "kvasir_scale_ended_total", "counter",
                    "Engines that were given back", act->ended);
    prom_out_single(out, "kvasir_scale_calls_total", "counter",
                    "Calls to what makes engines and ends them", act->calls);
    prom_out_single(out, "kvasir_scale_calls_failed_total", "counter",
                    "Those without a good answer", act->calls_failed);
}
