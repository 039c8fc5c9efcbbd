/* A request whose name stands for models, explained. */
#include "node/control/admin_alias.h"

#include <errno.h>

#include "node/route/alias.h"

int
admin_alias_read(struct admin_alias *alias, const struct named_names *names,
                 const struct content_asked *asked, uint64_t session,
                 struct route_scratch *route)
{
    struct slice body = asked->body;

    admin_alias_fini(alias);
    alias->body = body;
    named_find(names, route->model, asked,
               session != 0 ? session : route->blocks.prefix_key,
               &alias->named);
    if (alias->named.asked == NULL) {
        return 0;
    }
    struct alias_edit edit = {
        .place = {.at = route->scan.model.at, .len = route->scan.model.len},
        .model = slice_of(alias->named.model[0]),
        .members =
            slice_of(alias->named.judged ? alias->named.verdict.set : ""),
    };
    size_t size = alias_body_size(body, &edit);
    buf_init(&alias->own, size);
    char *room = buf_reserve(&alias->own, size);
    if (room == NULL) {
        return -ENOMEM;
    }
    alias->body = alias_body(body, &edit, room);
    /* It was well-formed with another name in its place. */
    CHECK(route_read(route, alias->body, route->scan.api) == 0);
    return 0;
}

struct slice
admin_alias_asked(const struct admin_alias *alias,
                  const struct route_scratch *route)
{
    return alias->named.asked != NULL ? slice_of(alias->named.asked)
                                      : route->model;
}

static void
put_verdict(const struct content_verdict *verdict, struct json_out *json)
{
    json_out_key(json, "content");
    json_out_object_begin(json);
    json_out_put_text(json, "name", verdict->name);
    json_out_put_text(json, "rule", verdict->rule);
    json_out_put_text(json, "model", verdict->model);
    json_out_put_text(json, "set", verdict->set);
    if (verdict->semantic_permille != 0) {
        json_out_put_milli(json, "semantic_threshold",
                           verdict->semantic_permille);
    }
    json_out_put_uint(json, "prompt_bytes", verdict->seen.bytes);
    json_out_put_text(json, "language",
                      content_language_name(verdict->seen.language));
    json_out_key(json, "has");
    json_out_array_begin(json);
    for (unsigned i = 0; i < CONTENT_THINGS; i++) {
        if ((verdict->seen.things >> i & 1U) != 0) {
            json_out_text(json, content_thing_name((enum content_thing)i));
        }
    }
    json_out_array_end(json);
    json_out_put_uint(json, "too_hard", verdict->seen.too_hard);
    json_out_put_text(json, "like", content_like_name(verdict->seen.like));
    json_out_put_text(json, "nearest", verdict->seen.nearest);
    json_out_put_milli(json, "cosine", verdict->seen.permille);
    json_out_object_end(json);
}

void
admin_alias_put(const struct admin_alias *alias, struct json_out *json)
{
    const struct named *named = &alias->named;

    if (named->asked == NULL) {
        return;
    }
    if (named->judged) {
        put_verdict(&named->verdict, json);
    }
    if (named->alias != NULL) {
        json_out_put_text(json, "alias", named->alias);
    }
    json_out_key(json, "models");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < named->count; i++) {
        json_out_text(json, named->model[i]);
    }
    json_out_array_end(json);
}

void
admin_alias_fini(struct admin_alias *alias)
{
    if (alias->named.asked != NULL) {
        buf_fini(&alias->own);
    }
    *alias = (struct admin_alias){.body = {.ptr = NULL}};
}
