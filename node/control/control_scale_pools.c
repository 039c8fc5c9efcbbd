/* What may be bought for a group of engines. */
#include "node/control/control_scale_pools.h"

#include <string.h>

#include "node/config/config_scale.h"
#include "node/view/island.h"

const char *
control_scale_pool_of(const struct control_scale_world *world, uint32_t slot)
{
    const struct fleet_worker *worker =
        fleet_view_get(world->board)->worker[slot];
    const struct scale_job *job =
        scale_seat_find_worker(world->seat, worker->id);
    const char *name = job != NULL ? job->record.pool : worker->pool;

    return config_scale_find(world->config, name) != NULL ? name : "";
}

bool
control_scale_is_orphan(const struct config_scale *config,
                        const struct scale_job *job)
{
    return config_scale_find(config, job->record.pool) == NULL;
}

uint32_t
control_scale_price(const struct config_scale *config, const char *pool)
{
    const struct config_scale_pool *found = config_scale_find(config, pool);

    return found != NULL ? found->price_milli : config->own.price_milli;
}

/* The way from one island to another; or unknown. */
static uint32_t
way_us(const struct control_scale_world *world, const char *from,
       const char *to)
{
    const struct fleet_view *view = fleet_view_get(world->board);
    struct slice here = slice_of(from);
    struct slice there = slice_of(to);

    if (here.len == 0 || there.len == 0) {
        return 0;
    }
    uint32_t us = island_link_us(&world->island->links, here, there);
    if (us != UINT32_MAX) {
        return us;
    }
    if (island_within(here, there) || island_within(there, here)) {
        return 0;
    }
    if (strcmp(from, world->island->name) == 0) {
        WORKER_SET_EACH (slot, &view->healthy) {
            if (island_within(slice_of(view->worker[slot]->island), there)) {
                return gauge_read(&world->board->link_us[slot]);
            }
        }
    }
    return SCALE_WAY_UNKNOWN;
}

static bool
is_near(const struct control_scale_world *world, const char *from,
        const char *to)
{
    uint32_t within_ms = world->config->within_ms;
    uint32_t us = within_ms != 0 ? way_us(world, from, to) : 0;

    return us != SCALE_WAY_UNKNOWN && us <= within_ms * UINT64_C(1000);
}

/* Engines that are so near to a place. */
static uint32_t
count_near(const struct control_scale_world *world, const char *model,
           const struct worker_set *set, const char *place)
{
    const struct fleet_view *view = fleet_view_get(world->board);
    uint32_t count = 0;

    WORKER_SET_EACH (slot, set) {
        count += is_near(world, place, view->worker[slot]->island);
    }
    for (uint32_t i = 0; i < world->seat->count; i++) {
        const struct scale_job *job = &world->seat->job[i];
        const struct config_scale_pool *pool =
            config_scale_find(world->config, job->record.pool);
        count += scale_job_is_coming(job) && pool != NULL &&
                 strcmp(job->record.model, model) == 0 &&
                 is_near(world, place, pool->island);
    }
    return count;
}

/* What is left of the budget, an hour. */
static uint64_t
money_left(const struct control_scale_world *world)
{
    const struct config_scale *config = world->config;
    uint64_t spent = 0;

    if (config->budget_milli == 0) {
        return SCALE_MONEY_NO_END;
    }
    WORKER_SET_EACH (slot, world->stays) {
        spent +=
            control_scale_price(config, control_scale_pool_of(world, slot));
    }
    for (uint32_t i = 0; i < world->seat->count; i++) {
        const struct scale_job *job = &world->seat->job[i];
        spent += scale_job_is_coming(job)
                     ? control_scale_price(config, job->record.pool)
                     : 0;
    }
    return config->budget_milli > spent ? config->budget_milli - spent : 0;
}

/* Engines of the group in that pool, that are there or come. */
static uint32_t
count_in(const struct control_scale_world *world, const char *model,
         const struct worker_set *set, const char *pool)
{
    uint32_t count = 0;

    WORKER_SET_EACH (slot, set) {
        count += strcmp(control_scale_pool_of(world, slot), pool) == 0;
    }
    for (uint32_t i = 0; i < world->seat->count; i++) {
        const struct scale_record *record = &world->seat->job[i].record;
        count += scale_job_is_coming(&world->seat->job[i]) &&
                 strcmp(record->pool, pool) == 0 &&
                 strcmp(record->model, model) == 0;
    }
    return count;
}

void
control_scale_market(const struct control_scale_world *world, const char *model,
                     const struct worker_set *set, struct scale_market *market)
{
    const struct config_scale *config = world->config;
    const struct scale_places *places = world->places;

    *market = (struct scale_market){
        .pools = config_scale_count(config),
        .places = places->count,
        .within_us = config->within_ms != 0 ? config->within_ms * UINT32_C(1000)
                                            : SCALE_ANY_WAY,
        .money_milli = money_left(world),
        .provision_ms = config->provision_ms,
        .now_us = world->now_us,
    };
    for (uint32_t i = 0; i < places->count; i++) {
        market->place[i] = (struct scale_place){
            .requests = places->place[i].requests,
            .engines = count_near(world, model, set, places->place[i].island)};
    }
    for (uint32_t i = 0; i < market->pools; i++) {
        const struct config_scale_pool *from = config_scale_at(config, i);
        struct scale_pool *pool = &market->pool[i];
        *pool = (struct scale_pool){
            .engines = count_in(world, model, set, from->name),
            .min = from->min,
            .max = from->name[0] != '\0' ? from->max : UINT32_MAX,
            .price_milli = from->price_milli,
            .record = scale_seat_record_of(world->seat, from->name)};
        for (uint32_t k = 0; k < places->count; k++) {
            pool->way_us[k] =
                way_us(world, places->place[k].island, from->island);
        }
    }
}

/* The way from the place that it is nearest to; or unknown. */
static uint32_t
shortest_us(const struct scale_market *market, const struct scale_pool *pool)
{
    uint32_t least = SCALE_WAY_UNKNOWN;

    for (uint32_t i = 0; i < market->places; i++) {
        least = pool->way_us[i] < least ? pool->way_us[i] : least;
    }
    return least;
}

static void
put_pool(const struct config_scale_pool *from,
         const struct scale_market *market, uint32_t at, struct json_out *json)
{
    const struct scale_pool *pool = &market->pool[at];
    uint64_t until_us =
        scale_record_until_us(&pool->record, market->provision_ms);
    uint32_t way = shortest_us(market, pool);

    json_out_object_begin(json);
    json_out_put_text(json, "name", from->name);
    json_out_put_text(json, "by", config_scale_pool_by(from));
    json_out_put_text(json, "island", from->island);
    json_out_put_uint(json, "engines", pool->engines);
    json_out_put_uint(json, "min", from->min);
    json_out_put_uint(json, "max", from->max);
    json_out_put_milli(json, "price", pool->price_milli);
    if (way != SCALE_WAY_UNKNOWN) {
        json_out_put_milli(json, "way_ms", way);
    }
    json_out_put_text(json, "may",
                      scale_may_name(scale_market_may(market, at)));
    json_out_put_uint(json, "missed", pool->record.missed);
    json_out_put_milli(
        json, "backs_off_s",
        until_us > market->now_us ? (until_us - market->now_us) / 1000 : 0);
    json_out_object_end(json);
}

void
control_scale_put_pools(const struct config_scale *config,
                        const struct scale_market *market,
                        struct json_out *json)
{
    if (config->pools.count == 0 || market->pools != config->pools.count) {
        return; /* none has a name, or they changed since the last look */
    }
    json_out_key(json, "pools");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < market->pools; i++) {
        put_pool(config_scale_at(config, i), market, i, json);
    }
    json_out_array_end(json);
}
