/*
 * Requests that ask for an alias: their bodies are copied, with the name of a
 * model in its place, and read again.
 */
#include "node/edge/answer_internal.h"
#include "node/route/alias.h"

/* As the client sent it. */
static struct slice
sent_body(const struct client *client)
{
    return (struct slice){
        .ptr = client->in + client->framing.head_bytes,
        .len = client->framing.body_bytes,
    };
}

/* Small ones are charged to nobody, as those that clients send. */
static struct quota_bucket *
owner_of(const struct exchange *x, size_t size)
{
    return size > EDGE_INPUT_BYTES ? x->client->quota : NULL;
}

void
naming_release(struct exchange *x)
{
    struct edge_naming *naming = &x->naming;

    if (naming->body != NULL) {
        lane_memory_give(&x->client->lane->memory,
                         owner_of(x, naming->body_size), naming->body,
                         naming->body_size);
        naming->body = NULL;
    }
}

/* Room for the body; there is no other one at the same time. */
static bool ON_LANE
reserve(struct exchange *x, size_t size)
{
    struct edge_naming *naming = &x->naming;

    if (naming->body != NULL && naming->body_size >= size) {
        return true;
    }
    naming_release(x);
    naming->body = lane_memory_take(&x->client->lane->memory, owner_of(x, size),
                                    size, &naming->body_size);
    return naming->body != NULL;
}

/* Where the name stands in the body that the scratch has read. */
static struct alias_place
find_place(const struct exchange *x)
{
    const struct route_scratch *route = &x->client->lane->route;
    const struct scan_text *model = &route->scan.model;

    if (x->dispatch.routed) {
        return (struct alias_place){.at = model->at, .len = model->len};
    }
    return (struct alias_place){.at = (size_t)(route->model.ptr - x->body.ptr),
                                .len = route->model.len};
}

/* Makes it a request for the next model. False: it was refused, x is gone. */
static bool ON_LANE
take_next(struct exchange *x)
{
    struct edge_naming *naming = &x->naming;
    struct slice body = sent_body(x->client);
    struct slice model = slice_of(x->models[naming->next]);
    size_t size = alias_body_size(body, naming->place, model);

    CHECK(naming->next < naming->count && x->client->framing.missing == 0);
    naming->next++;
    translating_release(x);
    if (!reserve(x, size)) {
        counter_bump(&x->client->lane->shared->metrics.requests_overload, 1);
        reply_error(x->client, 503, "overloaded",
                    "limits.buffered_bytes_max is reached; try again");
        return false;
    }
    x->body = alias_body(body, naming->place, model, naming->body);
    x->session = alias_session(naming->session, model);
    request_read_again(x);
    return true;
}

bool
naming_begin(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    const struct route_scratch *route = &lane->route;
    struct edge_naming *naming = &x->naming;
    const struct config_alias *alias =
        config_aliases_find(&lane->aliases, route->model);
    uint8_t order[CONFIG_ALIAS_TARGETS_MAX];

    if (alias == NULL || route->model.len == 0) {
        return true;
    }
    uint64_t hash = x->session;
    if (hash == 0) {
        hash = x->dispatch.routed ? route->blocks.prefix_key
                                  : rng_next(&lane->rng);
    }
    alias_order(alias, hash, order);
    for (uint32_t i = 0; i < alias->targets_count; i++) {
        memcpy(x->models[i], alias->target[order[i]].model,
               sizeof(x->models[i]));
    }
    naming->asked = slice_of(alias->name);
    naming->count = alias->targets_count;
    naming->place = find_place(x);
    naming->session = x->session;
    x->dispatch.models_left = alias->targets_count - 1;
    return take_next(x);
}

bool
naming_next(struct exchange *x)
{
    inquiry_forget(x); /* it was of another model's prompts */
    x->wait.placed = false;
    if (!take_next(x)) {
        return false;
    }
    dispatch_renamed(&x->dispatch);
    return true;
}
