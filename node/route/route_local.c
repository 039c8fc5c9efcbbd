/* Whose files a request's tokens are made by. */
#include "node/route/route_local.h"

#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "node/local/local_tokens.h"

static const struct fleet_model *
model_of(const struct route_scratch *route, const struct fleet_view *view)
{
    const struct fleet_models *models = view->models;

    if (route->model.len == 0) {
        return models->count == 1 ? &models->model[0] : NULL;
    }
    return fleet_view_model(view, route->model);
}

/* A JSON string's text, unless it has escapes. */
static struct slice
bare(struct slice json)
{
    if (json.len < 2 || json.ptr[0] != '"' ||
        memchr(json.ptr, '\\', json.len) != NULL) {
        return (struct slice){.len = 0};
    }
    return (struct slice){json.ptr + 1, json.len - 2};
}

/* Of an engine that may get the request. */
static enum engine_kind
kind_of(const struct route_scratch *route, const struct fleet_view *view)
{
    struct worker_set able = fleet_view_find_model(view, route->model);
    uint32_t slot;

    able = worker_set_and(&able, &view->present);
    slot = worker_set_next(&able, 0);
    return slot != WORKER_NONE ? view->worker[slot]->kind : ENGINE_OTHER;
}

static struct local_model *
find_model(const struct route_scratch *route, const struct fleet_view *view,
           const struct local_table *table)
{
    const struct fleet_model *told = model_of(route, view);
    struct slice names[4] = {route->model};

    if (told != NULL) {
        names[1] = told->name;
        names[2] = bare(told->fact[MODEL_ROOT]);
        names[3] = bare(told->fact[MODEL_PARENT]);
    }
    return local_table_find(table, names, 4);
}

struct local_model *
route_local_find(const struct route_scratch *route,
                 const struct fleet_view *view, const struct local_table *table,
                 struct slice body, enum engine_kind *kind)
{
    struct local_question probe = {.body = body};

    if (table == NULL || table->count == 0 || !route->by_tokens ||
        route->scan.shape == SCAN_ID_LIST ||
        route->scan.shape == SCAN_ID_LISTS ||
        !local_question_read(&probe, &route->scan)) {
        return NULL;
    }
    *kind = kind_of(route, view);
    return find_model(route, view, table);
}

struct template_clock
route_local_clock(void)
{
    struct timeval now;
    struct tm local;

    (void)gettimeofday(&now, NULL);
    (void)localtime_r(&now.tv_sec, &local);
    return (struct template_clock){
        .year = local.tm_year + 1900,
        .month = local.tm_mon + 1,
        .day = local.tm_mday,
        .hour = local.tm_hour,
        .minute = local.tm_min,
        .second = local.tm_sec,
        .microsecond = (int)now.tv_usec,
        .weekday = local.tm_wday,
        .yearday = local.tm_yday,
    };
}
