/* How many engines each group should have. */
#include "node/control/control_scale.h"

#include <inttypes.h>
#include <string.h>

#include "node/base/log.h"
#include "node/config/config_scale.h"
#include "node/control/control.h"
#include "node/text/prom_out.h"

void
control_scale_take(struct control_scale *scale, uint32_t slot,
                   enum control_slo_kept kept)
{
    if (slot < WORKERS_MAX && kept != CONTROL_SLO_NOT_JUDGED) {
        scale->answers[slot]++;
        scale->late[slot] += kept == CONTROL_SLO_LATE;
    }
}

/* Who acts: who holds the lease; in a dry run the first of the living. */
static void ON_CONTROL
find_actor(struct control *control, uint64_t now_us)
{
    struct control_scale *scale = &control->scale;
    struct control_scale_act *act = &scale->act;
    bool holds = control->node->scale.mode == CONFIG_SCALE_ACT;

    if (!holds) {
        scale_words_hear(control_cluster(control), &act->seat.words);
    }
    scale->acts =
        holds ? control_scale_acts(act, now_us) : act->seat.words.first;
    (void)snprintf(scale->actor, sizeof(scale->actor), "%s",
                   holds ? act->holder : act->seat.words.actor);
}

/* The first model that the set's workers list. */
static struct slice
model_of(const struct fleet_view *view, const struct worker_set *set)
{
    for (size_t i = 0; i < view->models->count; i++) {
        const struct fleet_model *model = &view->models->model[i];
        struct worker_set both = worker_set_and(&model->workers, set);
        if (!model->adapter && !worker_set_empty(&both)) {
            return model->name;
        }
    }
    return SLICE("");
}

/* The group of that name, new or known; NULL: there are too many. They are in
 * order of names. */
static struct control_scale_group *
group_of(struct control_scale *scale, struct slice model)
{
    char name[SCALE_MODEL_MAX];

    (void)snprintf(name, sizeof(name), "%.*s", (int)model.len, model.ptr);
    for (uint32_t i = 0; i < scale->count; i++) {
        if (strcmp(scale->group[i].model, name) == 0) {
            return &scale->group[i];
        }
    }
    if (scale->count == CONTROL_SCALE_GROUPS_MAX) {
        scale->left_out++;
        return NULL;
    }
    uint32_t at = scale->count++;
    for (; at > 0 && strcmp(scale->group[at - 1].model, name) > 0; at--) {
        scale->group[at] = scale->group[at - 1];
    }
    struct control_scale_group *group = &scale->group[at];
    *group = (struct control_scale_group){.seen = false};
    memcpy(group->model, name, sizeof(name));
    return group;
}

/* Requests in flight that a worker is good for; 0: not known. */
static uint32_t
capacity_of(const struct fleet_board *board, uint32_t slot)
{
    uint32_t limit = gauge_read(&board->limit[slot]);
    uint32_t within = gauge_read(&board->slo_requests[slot]);

    if (gauge_read(&board->slo) == 0 || within == 0 || within >= SPEED_ANY) {
        return limit;
    }
    return limit == 0 || within < limit ? within : limit;
}

/* Of the workers of a group, without those that drain. */
static struct scale_signals
measure(const struct control_scale *scale, const struct fleet_board *board,
        const struct fleet_view *view, const struct worker_set *set)
{
    struct scale_signals s = {.engines = worker_set_count(set)};
    struct worker_set ready = worker_set_and(set, &view->eligible);
    uint32_t load[WORKERS_MAX];
    uint64_t capacity = 0;
    uint64_t kv = 0;
    uint32_t known = 0;

    fleet_board_loads(board, set, load, NULL);
    WORKER_SET_EACH (slot, set) {
        uint32_t wanted = gauge_read(&board->wanted[slot]);
        s.requests += load[slot];
        s.waiting += gauge_read(&board->waiting[slot]);
        s.queued = wanted > s.queued ? wanted : s.queued;
        s.answers += scale->answers[slot];
        s.late += scale->late[slot];
    }
    WORKER_SET_EACH (slot, &ready) {
        uint32_t own = capacity_of(board, slot);
        capacity += own;
        known += own != 0;
        kv += gauge_read(&board->kv_usage_permille[slot]);
        s.ready++;
    }
    s.capacity = known != 0 ? (uint32_t)(capacity / known) : 0;
    s.kv_permille = s.ready != 0 ? (uint32_t)(kv / s.ready) : 0;
    return s;
}

/* How long requests wait that the set's workers could take, and may. */
static void ON_CONTROL
measure_wait(const struct control *control, const struct worker_set *set,
             uint64_t now_us, struct scale_signals *s)
{
    const struct node_shared *node = control->node;
    const struct node_live *live = publish_get(&node->live);
    struct speed_slo slo[WORKERS_MAX];
    uint64_t most_us = live->timeouts.queue_ms * UINT64_C(1000);

    control_slo_list(&node->slo, fleet_view_get(node->board), slo);
    WORKER_SET_EACH (slot, set) {
        uint64_t ttft_us = slo[slot].ttft_us;
        most_us = ttft_us != 0 && ttft_us < most_us ? ttft_us : most_us;
    }
    s->waited_ms =
        (uint32_t)(queue_oldest_us(control->queue.queue, set, now_us) / 1000);
    s->wait_most_ms = (uint32_t)(most_us / 1000);
}

/* Blocks that a worker holds: as its events say, else as is believed. */
static uint64_t ON_CONTROL
blocks_of(const struct node_shared *node, uint32_t worker)
{
    const struct mirror_view *mirrors = publish_get(&node->mirror_view);
    uint64_t blocks = 0;

    if (mirrors == NULL || !worker_set_has(&mirrors->workers, worker)) {
        return radix_worker_blocks(node->belief, worker);
    }
    for (uint32_t i = 0; i < mirrors->groups_count; i++) {
        WORKER_SET_EACH (slot, &mirrors->groups[i].slots) {
            if (mirrors->owner[slot] == worker) {
                blocks += mirror_slot_blocks(node->mirror, slot);
            }
        }
    }
    return blocks;
}

/* Whether its pool has more of the group than it must. */
static bool
is_spared(const struct config_scale *config, const struct scale_market *market,
          const char *pool)
{
    for (uint32_t i = 0; i < market->pools; i++) {
        if (strcmp(config_scale_at(config, i)->name, pool) == 0) {
            return market->pool[i].engines > market->pool[i].min;
        }
    }
    return true;
}

/* Whether a worker may go: such as were asked for, where somebody acts, as long
 * as its pool is there to end it; of a StatefulSet's pods the last one; of a
 * pool what is beyond its min. */
static bool ON_CONTROL
may_go(const struct control_scale_world *world,
       const struct scale_market *market, uint32_t slot)
{
    const char *id = fleet_view_get(world->board)->worker[slot]->id;
    const struct scale_job *job = scale_seat_find_worker(world->seat, id);
    const char *name = control_scale_pool_of(world, slot);
    const struct config_scale_pool *pool =
        config_scale_find(world->config, name);

    if (!is_spared(world->config, market, name)) {
        return false;
    }
    return world->config->mode != CONFIG_SCALE_ACT ||
           (job != NULL && !control_scale_is_orphan(world->config, job) &&
            (pool == NULL || pool->kubernetes[0] == '\0' ||
             job == scale_seat_find_last(world->seat, job->record.pool)));
}

/* Its price; those of a pool that is given up are the dearest. */
static uint32_t
price_of(const struct config_scale *config, const char *name)
{
    const struct config_scale_pool *pool = config_scale_find(config, name);
    bool given_up = name[0] != '\0' && pool != NULL && pool->max == 0;

    return given_up ? UINT32_MAX : control_scale_price(config, name);
}

/* Who would go of these; "": nobody may. */
static void ON_CONTROL
find_victim(struct control_scale_group *group, const struct node_shared *node,
            const struct control_scale_world *world,
            const struct worker_set *set)
{
    const struct fleet_view *view = fleet_view_get(world->board);
    struct scale_engine engines[WORKERS_MAX];
    uint32_t load[WORKERS_MAX];
    size_t count = 0;

    fleet_board_loads(node->board, set, load, NULL);
    WORKER_SET_EACH (slot, set) {
        if (may_go(world, &group->market, slot)) {
            engines[count++] = (struct scale_engine){
                .id = view->worker[slot]->id,
                .blocks = blocks_of(node, slot),
                .requests = load[slot],
                .price_milli = price_of(world->config,
                                        control_scale_pool_of(world, slot))};
        }
    }
    if (count != 0) {
        (void)snprintf(group->victim, sizeof(group->victim), "%s",
                       engines[scale_victim(engines, count)].id);
    }
}

/* lack: engines that pools need for their mins. */
static struct scale_config
rule_of(const struct config_scale *config, uint32_t engines, uint32_t lack)
{
    uint32_t min = lack != 0 && engines + lack > config->min ? engines + lack
                                                             : config->min;

    return (struct scale_config){
        .min = min < config->max ? min : config->max,
        .max = config->max,
        .target_permille = config->target_permille,
        .step = config->step,
        .provision_ms = config->provision_ms,
        .cool_down_ms = config->cool_down_ms,
    };
}

/* One line for each change of mind, by the node that acts. */
static void
tell(const struct control_scale *scale, struct control_scale_group *group,
     const char *hint)
{
    const struct scale_choice *choice = &group->choice;
    bool changes = choice->desired != group->signals.engines;

    if (!scale->acts || choice->desired == group->told) {
        return;
    }
    if (changes || group->told != 0) {
        LOG_INFO(
            "scale_wants", KV("model", group->model),
            KV("engines", group->signals.engines),
            KV("desired", choice->desired),
            KV("why", scale_why_name(choice->why)),
            KV("needed_permille", choice->need_milli),
            KV("victim", group->victim),
            KV("pool",
               choice->desired > group->signals.engines ? group->next : ""),
            KV("hint", hint));
    }
    group->told = changes ? choice->desired : 0;
}

/* What may be bought for the group, and where the next one would be. */
static void
look_at_market(struct control_scale_group *group,
               const struct control_scale_world *world,
               const struct worker_set *set)
{
    const struct config_scale *config = world->config;
    struct scale_signals *s = &group->signals;
    struct scale_market copy;
    uint32_t at = 0;

    control_scale_market(world, group->model, set, &group->market);
    s->room = scale_market_room(
        &group->market, config->max > s->engines ? config->max - s->engines : 0,
        &s->poor);
    copy = group->market;
    bool any = scale_market_buy(&copy, &at);
    (void)snprintf(group->next, sizeof(group->next), "%s",
                   any ? config_scale_at(config, at)->name : "");
}

static void ON_CONTROL
look_at(struct control *control, struct control_scale_group *group,
        const struct control_scale_world *world, const struct worker_set *set)
{
    const struct node_shared *node = control->node;
    bool acts = node->scale.mode == CONFIG_SCALE_ACT;

    group->seen = true;
    group->victim[0] = '\0';
    look_at_market(group, world, set);
    const struct scale_config rule =
        rule_of(&node->scale, group->signals.engines,
                scale_market_lack(&group->market));
    scale_look(&group->group, &rule, &group->signals, world->now_us,
               &group->choice);
    if (group->choice.desired < group->signals.engines) {
        find_victim(group, node, world, set);
    }
    tell(&control->scale, group,
         acts ? "engines are asked for, or given back"
              : "scale.mode is dry_run: nothing is done");
    const struct scale_wish wish = {.model = group->model,
                                    .engines = group->signals.engines,
                                    .desired = group->choice.desired,
                                    .victim = group->victim,
                                    .market = &group->market};
    if (acts) {
        control_scale_wish(control, &wish);
    }
}

/* Those whose workers are all gone are forgotten. */
static void
forget_unseen(struct control_scale *scale)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < scale->count; i++) {
        if (scale->group[i].seen) {
            scale->group[kept++] = scale->group[i];
        }
    }
    scale->count = kept;
}

/* Requests that this node refused for want of room, so far. */
static uint64_t
shed_so_far(const struct node_shared *node)
{
    uint64_t shed = 0;

    for (uint32_t i = 0; i < node->lanes_count; i++) {
        const struct metrics_lane *m = &node->lanes[i].metrics;
        shed += metrics_ended(&m->ends, METRICS_QUEUE_FULL) +
                metrics_ended(&m->ends, METRICS_QUEUE_LATE) +
                metrics_ended(&m->ends, METRICS_ALL_BUSY);
    }
    return shed;
}

/* Workers that count as engines: those that drain go, and those that were asked
 * for and do not take requests yet count among those that come. */
static struct worker_set ON_CONTROL
find_staying(struct scale_seat *seat, const struct fleet_view *view)
{
    struct worker_set stays = worker_set_minus(&view->present, &view->draining);

    WORKER_SET_EACH (slot, &view->present) {
        const struct scale_job *job =
            scale_seat_find_worker(seat, view->worker[slot]->id);
        if (job != NULL && job->record.state != SCALE_WORKS) {
            worker_set_remove(&stays, slot);
        }
    }
    return stays;
}

/* Engines that were asked for and did not tell this node their models, because
 * it has only just begun. */
static void ON_CONTROL
add_untold(const struct control_scale_world *world, const char *model,
           struct worker_set *set)
{
    const struct fleet_view *view = fleet_view_get(world->board);
    struct worker_set untold = worker_set_and(&view->any_model, world->stays);

    WORKER_SET_EACH (slot, &untold) {
        const struct scale_job *job =
            scale_seat_find_worker(world->seat, view->worker[slot]->id);
        if (job != NULL && strcmp(job->record.model, model) == 0) {
            worker_set_add(set, slot);
        }
    }
}

static void ON_CONTROL
look_at_all(struct control *control, uint64_t now_us)
{
    struct control_scale *scale = &control->scale;
    const struct node_shared *node = control->node;
    const struct fleet_view *view = fleet_view_get(node->board);
    struct worker_set kin[WORKERS_MAX];
    uint64_t shed = shed_so_far(node);
    struct worker_set stays = find_staying(&scale->act.seat, view);
    const struct control_scale_world world = {.config = &node->scale,
                                              .island = &node->island,
                                              .board = node->board,
                                              .seat = &scale->act.seat,
                                              .places = &scale->places,
                                              .stays = &stays,
                                              .now_us = now_us};

    scale_places_hear(control_cluster(control), node->island.name,
                      control->hints.rate_milli / 1000, &scale->places);
    scale->left_out = 0;
    fleet_view_kin(view, kin);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        struct worker_set set = worker_set_and(&kin[i], &stays);
        /* A model whose last engine drains has too few. */
        struct slice model =
            model_of(view, worker_set_empty(&set) ? &kin[i] : &set);
        struct control_scale_group *group =
            model.len != 0 ? group_of(scale, model) : NULL;
        if (group == NULL || group->seen) {
            continue;
        }
        add_untold(&world, group->model, &set);
        group->signals = measure(scale, node->board, view, &set);
        group->signals.engines +=
            scale_seat_coming(&scale->act.seat, group->model);
        group->signals.shed = (uint32_t)(shed - scale->shed);
        measure_wait(control, &set, now_us, &group->signals);
        look_at(control, group, &world, &set);
    }
    scale->shed = shed;
}

void
control_scale_look(struct control *control, uint64_t now_us)
{
    struct control_scale *scale = &control->scale;

    if (now_us < scale->looked_us + CONTROL_SCALE_US) {
        return;
    }
    scale->looked_us = now_us;
    if (control->node->scale.mode == CONFIG_SCALE_OFF) {
        scale->count = 0;
    } else {
        for (uint32_t i = 0; i < scale->count; i++) {
            scale->group[i].seen = false;
        }
        find_actor(control, now_us);
        look_at_all(control, now_us);
        forget_unseen(scale);
    }
    memset(scale->answers, 0, sizeof(scale->answers));
    memset(scale->late, 0, sizeof(scale->late));
}

/* The pool of the next engine, and all of them; nothing where none has a
 * name. */
static void
put_market(const struct config_scale *config,
           const struct control_scale_group *group, struct json_out *json)
{
    if (config->pools.count != 0) {
        json_out_put_text(json, "next_pool", group->next);
        control_scale_put_pools(config, &group->market, json);
    }
}

static void
put_group(const struct config_scale *config,
          const struct control_scale_group *group, struct json_out *json)
{
    const struct scale_signals *s = &group->signals;

    json_out_object_begin(json);
    json_out_put_text(json, "model", group->model);
    json_out_put_uint(json, "engines", s->engines);
    json_out_put_uint(json, "ready", s->ready);
    json_out_put_uint(json, "desired", group->choice.desired);
    json_out_put_text(json, "why", scale_why_name(group->choice.why));
    json_out_put_milli(json, "needed", group->choice.need_milli);
    json_out_put_milli(json, "needed_soon", group->choice.soon_milli);
    json_out_put_text(json, "victim", group->victim);
    put_market(config, group, json);
    json_out_put_uint(json, "requests", s->requests);
    json_out_put_uint(json, "waiting", s->waiting);
    json_out_put_uint(json, "queued", s->queued);
    json_out_put_uint(json, "waited_ms", s->waited_ms);
    json_out_put_uint(json, "capacity", s->capacity);
    json_out_put_milli(json, "kv_usage", s->kv_permille);
    json_out_put_uint(json, "first_tokens", s->answers);
    json_out_put_uint(json, "first_tokens_late", s->late);
    json_out_put_uint(json, "shed", s->shed);
    json_out_object_end(json);
}

void
control_scale_put(const struct control_scale *scale,
                  const struct config_scale *config, struct json_out *json)
{
    bool off = config->mode == CONFIG_SCALE_OFF;
    bool acts = config->mode == CONFIG_SCALE_ACT;

    json_out_object_begin(json);
    json_out_put_text(json, "mode", off ? "off" : acts ? "act" : "dry_run");
    json_out_put_text(json, "actor", off ? "" : scale->actor);
    json_out_put_bool(json, "acts", !off && scale->acts);
    json_out_put_uint(json, "left_out", scale->left_out);
    json_out_key(json, "groups");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < scale->count; i++) {
        put_group(config, &scale->group[i], json);
    }
    json_out_array_end(json);
    json_out_put_text(json, "by", acts ? config_scale_by(config) : "");
    if (acts) {
        control_scale_put_jobs(&scale->act, json);
    }
    json_out_object_end(json);
}

void
control_scale_explain(const struct control_scale *scale,
                      const struct config_scale *config, struct slice model,
                      struct json_out *json)
{
    for (uint32_t i = 0; i < scale->count; i++) {
        const struct control_scale_group *group = &scale->group[i];
        if (config->mode == CONFIG_SCALE_OFF ||
            !slice_equal(slice_of(group->model), model)) {
            continue;
        }
        json_out_key(json, "scale");
        json_out_object_begin(json);
        json_out_put_uint(json, "engines", group->signals.engines);
        json_out_put_uint(json, "ready", group->signals.ready);
        json_out_put_uint(json, "desired", group->choice.desired);
        json_out_put_text(json, "why", scale_why_name(group->choice.why));
        json_out_put_text(json, "actor", scale->actor);
        put_market(config, group, json);
        json_out_object_end(json);
    }
}

static void
put_gauge(const struct control_scale *scale, const char *name, const char *help,
          bool needed, struct buf *out)
{
    prom_out_head(out, name, "gauge", help);
    for (uint32_t i = 0; i < scale->count; i++) {
        const struct scale_choice *choice = &scale->group[i].choice;
        uint32_t milli = needed ? choice->need_milli : choice->desired * 1000;
        buf_printf(out, "%s{model=\"", name);
        prom_out_label(out, scale->group[i].model);
        buf_printf(out, "\"} %" PRIu32 ".%03" PRIu32 "\n", milli / 1000,
                   milli % 1000);
    }
}

/* Engines of each pool by model. */
static void
put_pools(const struct control_scale *scale, const struct config_scale *config,
          struct buf *out)
{
    static const char name[] = "kvasir_scale_pool_engines";

    prom_out_head(out, name, "gauge",
                  "Engines of a pool that are there or come");
    for (uint32_t i = 0; i < scale->count; i++) {
        const struct scale_market *market = &scale->group[i].market;
        for (uint32_t k = 0; k < config->pools.count && k < market->pools;
             k++) {
            buf_printf(out, "%s{model=\"", name);
            prom_out_label(out, scale->group[i].model);
            buf_add_text(out, "\",pool=\"");
            prom_out_label(out, config->pools.pool[k].name);
            buf_printf(out, "\"} %" PRIu32 "\n", market->pool[k].engines);
        }
    }
}

/* Engines in a row that did not come, by pool. */
static void
put_misses(const struct control_scale *scale, const struct config_scale *config,
           struct buf *out)
{
    static const char name[] = "kvasir_scale_pool_missed";

    prom_out_head(out, name, "gauge",
                  "Engines in a row that were asked of a pool and took no "
                  "requests within scale.provision");
    for (uint32_t k = 0; k < config->pools.count; k++) {
        const char *pool = config->pools.pool[k].name;
        buf_printf(out, "%s{pool=\"", name);
        prom_out_label(out, pool);
        buf_printf(out, "\"} %" PRIu32 "\n",
                   scale_seat_record_of(&scale->act.seat, pool).missed);
    }
}

void
control_scale_put_metrics(const struct control_scale *scale,
                          const struct config_scale *config, struct buf *out)
{
    if (config->mode == CONFIG_SCALE_OFF) {
        return;
    }
    prom_out_single(out, "kvasir_scale_acts", "gauge",
                    "1 on the node that acts on what is desired", scale->acts);
    put_gauge(scale, "kvasir_scale_engines_needed",
              "Engines that the load needs, by what is measured", true, out);
    put_gauge(scale, "kvasir_scale_engines_desired",
              "Engines that there should be, within the bounds of scale", false,
              out);
    if (config->pools.count != 0) {
        put_pools(scale, config, out);
        put_misses(scale, config, out);
    }
    if (config->mode == CONFIG_SCALE_ACT) {
        control_scale_put_act_metrics(&scale->act, out);
    }
}
