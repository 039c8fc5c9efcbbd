/* Who makes engines and ends them. */
#include "node/config/config_scale.h"

#include <inttypes.h>
#include <string.h>

#include "index/base/ascii.h"
#include "node/config/config_error_internal.h"

#define NUMBER "{}" /* in scale.worker */

uint32_t
config_scale_count(const struct config_scale *scale)
{
    return scale->pools.count != 0 ? scale->pools.count : 1;
}

const struct config_scale_pool *
config_scale_at(const struct config_scale *scale, uint32_t at)
{
    CHECK(at < config_scale_count(scale));
    return scale->pools.count != 0 ? &scale->pools.pool[at] : &scale->own;
}

const struct config_scale_pool *
config_scale_find(const struct config_scale *scale, const char *name)
{
    for (uint32_t i = 0; i < config_scale_count(scale); i++) {
        const struct config_scale_pool *pool = config_scale_at(scale, i);
        if (strcmp(pool->name, name) == 0) {
            return pool;
        }
    }
    return NULL;
}

const char *
config_scale_pool_by(const struct config_scale_pool *pool)
{
    return pool->hook.host[0] != '\0'    ? "hook"
           : pool->command[0] != '\0'    ? "command"
           : pool->kubernetes[0] != '\0' ? "kubernetes"
                                         : "";
}

const char *
config_scale_by(const struct config_scale *scale)
{
    return scale->pools.count != 0            ? "scale.pools"
           : scale->own.hook.host[0] != '\0'  ? "scale.hook"
           : scale->own.command[0] != '\0'    ? "scale.command"
           : scale->own.kubernetes[0] != '\0' ? "scale.kubernetes"
                                              : "";
}

uint32_t
config_scale_price(const struct config_scale *scale)
{
    uint32_t least = scale->own.price_milli;

    for (uint32_t i = 0; i < scale->pools.count; i++) {
        uint32_t price = scale->pools.pool[i].price_milli;
        least = least == 0 || (price != 0 && price < least) ? price : least;
    }
    return least;
}

/* What bytes cost is weighed against what an engine does. */
static void
check_links(const struct config *config, struct config_errors *errors)
{
    const struct config_links *links = &config->island.links;

    for (uint32_t i = 0; i < links->count; i++) {
        if (links->link[i].price_milli != 0 &&
            config_scale_price(&config->scale) == 0) {
            config_fault(errors, "island.links",
                         "a link with a price needs what an engine costs an "
                         "hour: scale.price, or price of scale.pools");
            return;
        }
    }
}

bool
config_scale_runs(const struct config_scale *scale)
{
    bool runs = false;

    for (uint32_t i = 0; i < config_scale_count(scale); i++) {
        runs = runs || config_scale_at(scale, i)->command[0] != '\0';
    }
    return runs;
}

/* Of a name in the API: it goes into a path as it is. */
static bool
is_name(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool low = c >= 'a' && c <= 'z';
        if (!low && !ascii_is_digit(c) && c != '-' && c != '.') {
            return false;
        }
    }
    return s.len != 0 && ascii_lower(s.ptr[0]) != '.';
}

bool
config_scale_kube(const struct config_scale_pool *pool, struct slice *space,
                  struct slice *name)
{
    struct slice text = slice_of(pool->kubernetes);

    *space = SLICE("");
    *name = text;
    if (memchr(text.ptr, '/', text.len) == NULL) {
        return is_name(text);
    }
    *space = slice_take(&text, '/');
    *name = text;
    return is_name(*space) && is_name(*name);
}

void
config_scale_worker(const struct config_scale_pool *pool, uint32_t number,
                    struct buf *out)
{
    const char *at = pool->worker;
    const char *next = strstr(at, NUMBER);

    while (next != NULL) {
        buf_add(out, at, (size_t)(next - at));
        buf_printf(out, "%" PRIu32, number);
        at = next + sizeof(NUMBER) - 1;
        next = strstr(at, NUMBER);
    }
    buf_add_text(out, at);
}

static void
check_kube(const struct config_scale_pool *pool, struct config_errors *errors)
{
    bool named = pool->name[0] != '\0';
    struct config_place place = {.source = named ? "scale.pools"
                                                 : "scale.kubernetes"};
    struct config_worker worker;
    struct slice space;
    struct slice name;
    struct buf text;

    if (!config_scale_kube(pool, &space, &name)) {
        config_error(errors, &place,
                     "expected the name of a StatefulSet, or NAMESPACE/NAME");
    }
    place.source = named ? "scale.pools" : "scale.worker";
    if (strstr(pool->worker, NUMBER) == NULL) {
        config_error(errors, &place,
                     "%s needs %s, with " NUMBER " where a pod's number is",
                     named ? "kubernetes of a pool" : "scale.kubernetes",
                     named ? "its worker" : "it");
        return;
    }
    buf_init(&text, 4096);
    config_scale_worker(pool, 0, &text);
    if (config_parse_worker(buf_slice(&text), place.source, &worker, errors) ==
            0 &&
        worker.url.host[0] == '\0') {
        config_error(errors, &place, "expected the URL of one worker");
    }
    buf_fini(&text);
}

static uint32_t
ways_of(const struct config_scale_pool *pool)
{
    return (uint32_t)(pool->hook.host[0] != '\0') +
           (uint32_t)(pool->command[0] != '\0') +
           (uint32_t)(pool->kubernetes[0] != '\0');
}

static void
check_pool(const struct config_scale_pool *pool, struct config_errors *errors)
{
    if (pool->kubernetes[0] != '\0') {
        check_kube(pool, errors);
    }
    if (pool->name[0] == '\0') {
        return;
    }
    if (ways_of(pool) != 1) {
        config_fault(errors, "scale.pools",
                     "pool %s needs one of hook, command and kubernetes",
                     pool->name);
    }
    if (pool->token_file[0] != '\0' && pool->hook.host[0] == '\0') {
        config_fault(errors, "scale.pools",
                     "pool %s has a token_file and no hook", pool->name);
    }
    if (pool->worker[0] != '\0' && pool->kubernetes[0] == '\0') {
        config_fault(errors, "scale.pools",
                     "pool %s has a worker and no kubernetes", pool->name);
    }
    if (pool->min > pool->max) {
        config_fault(errors, "scale.pools", "pool %s has a min over its max",
                     pool->name);
    }
}

/* Both would count its pods from 0, and end each other's. */
static void
check_sets(const struct config_scale *scale, struct config_errors *errors)
{
    for (uint32_t i = 0; i < scale->pools.count; i++) {
        const struct config_scale_pool *pool = &scale->pools.pool[i];
        for (uint32_t k = 0; k < i && pool->kubernetes[0] != '\0'; k++) {
            const struct config_scale_pool *other = &scale->pools.pool[k];
            if (strcmp(pool->kubernetes, other->kubernetes) == 0) {
                config_fault(errors, "scale.pools",
                             "pools %s and %s have one StatefulSet: expected "
                             "one for each",
                             other->name, pool->name);
            }
        }
    }
}

void
config_scale_check(const struct config *config, struct config_errors *errors)
{
    const struct config_scale *scale = &config->scale;
    bool meshed =
        config->mesh.listen.host[0] != '\0' || config->mesh.join.count != 0;
    uint32_t own = ways_of(&scale->own);
    struct config_place place = {.source = "scale.mode"};

    for (uint32_t i = 0; i < config_scale_count(scale); i++) {
        check_pool(config_scale_at(scale, i), errors);
    }
    check_sets(scale, errors);
    check_links(config, errors);
    if (scale->pools.count != 0 && own != 0) {
        place.source = "scale.pools";
        config_error(errors, &place,
                     "expected either pools, or one of scale.hook, "
                     "scale.command and scale.kubernetes");
        place.source = "scale.mode";
    }
    if (scale->mode != CONFIG_SCALE_ACT) {
        return;
    }
    if (scale->pools.count == 0 && own != 1) {
        config_error(errors, &place,
                     "act needs one of scale.hook, scale.command, "
                     "scale.kubernetes and scale.pools");
    }
    if (meshed && scale->quorum < 2) {
        config_error(errors, &place,
                     "act in a mesh needs scale.quorum: more than half of "
                     "its nodes");
    }
}
