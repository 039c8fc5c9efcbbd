/* A request that asks for an alias, explained. */
#include "node/control/admin_alias.h"

#include <errno.h>

#include "node/control/admin.h"
#include "node/route/alias.h"

static const char *
model_at(const struct admin_alias *alias, uint32_t at)
{
    return alias->alias->target[alias->order[at]].model;
}

int
admin_alias_read(struct admin_alias *alias,
                 const struct config_aliases *aliases, struct slice body,
                 uint64_t session, struct route_scratch *route)
{
    const struct alias_place place = {.at = route->scan.model.at,
                                      .len = route->scan.model.len};

    admin_alias_fini(alias);
    alias->body = body;
    alias->alias = config_aliases_find(aliases, route->model);
    if (alias->alias == NULL) {
        return 0;
    }
    alias_order(alias->alias, session != 0 ? session : route->blocks.prefix_key,
                alias->order);
    struct slice model = slice_of(model_at(alias, 0));
    size_t size = alias_body_size(body, place, model);
    buf_init(&alias->own, size);
    char *room = buf_reserve(&alias->own, size);
    if (room == NULL) {
        return -ENOMEM;
    }
    alias->body = alias_body(body, place, model, room);
    /* It was well-formed with another name in its place. */
    CHECK(route_read(route, alias->body, route->scan.api) == 0);
    return 0;
}

void
admin_alias_put(const struct admin_alias *alias, struct json_out *json)
{
    if (alias->alias == NULL) {
        return;
    }
    json_out_put_text(json, "alias", alias->alias->name);
    json_out_key(json, "models");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < alias->alias->targets_count; i++) {
        json_out_text(json, model_at(alias, i));
    }
    json_out_array_end(json);
}

void
admin_alias_fini(struct admin_alias *alias)
{
    if (alias->alias != NULL) {
        buf_fini(&alias->own);
    }
    *alias = (struct admin_alias){.alias = NULL};
}
