/*
 * Requests whose name stands for models: their bodies are copied, with the name
 * of a model in its place, and read again.
 */
#include "node/edge/answer_internal.h"
#include "node/route/named.h"

/* As the client sent it. */
static struct slice
sent_body(const struct client *client)
{
    return (struct slice){
        .ptr = client->in + client->framing.head_bytes,
        .len = client->framing.body_bytes,
    };
}

void
naming_release(struct exchange *x)
{
    struct edge_naming *naming = &x->naming;

    if (naming->body != NULL) {
        lane_memory_give(&x->client->lane->memory,
                         lane_memory_owner(x->client->quota, naming->body_size),
                         naming->body, naming->body_size);
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
    naming->body = lane_memory_take(&x->client->lane->memory,
                                    lane_memory_owner(x->client->quota, size),
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
    struct alias_edit edit = {
        .place = naming->place,
        .model = slice_of(naming->names->models[naming->next]),
        .members = slice_of(naming->names->members),
    };
    size_t size = alias_body_size(body, &edit);

    CHECK(naming->next < naming->count && x->client->framing.missing == 0);
    naming->next++;
    translating_release(x);
    if (!reserve(x, size)) {
        reply_error(x->client, 503, "overloaded",
                    "limits.buffered_bytes_max is reached; try again");
        return false;
    }
    x->body = alias_body(body, &edit, naming->body);
    x->session = alias_session(naming->session, edit.model);
    request_read_again(x);
    return true;
}

bool
naming_stands(struct lane *lane, struct slice name)
{
    struct node_shared *node = lane->node;

    qsbr_online(&node->qsbr, lane->shared->reader);
    const struct content *content = publish_get(&node->content);
    bool chosen = content != NULL && content_has(content, name);
    qsbr_offline(lane->shared->reader);
    return chosen || config_aliases_find(&lane->aliases, name) != NULL;
}

/* Takes over what the name stands for, which is control's. False: for itself. */
static bool ON_LANE
take_named(struct exchange *x, const struct named *named)
{
    struct lane *lane = x->client->lane;
    struct content *content =
        (struct content *)(uintptr_t)publish_get(&lane->node->content);

    if (named->asked == NULL) {
        return false;
    }
    struct edge_names *names = exchange_part(x, sizeof(*names));
    x->naming.names = names;
    if (names == NULL) {
        return true; /* naming_begin() says so */
    }
    (void)snprintf(names->asked, sizeof(names->asked), "%s", named->asked);
    for (uint32_t i = 0; i < named->count; i++) {
        (void)snprintf(names->models[i], sizeof(names->models[i]), "%s",
                       named->model[i]);
    }
    x->naming.count = named->count;
    if (named->judged) {
        x->naming.semantic_permille = named->verdict.semantic_permille;
        memcpy(names->members, named->verdict.set,
               strlen(named->verdict.set) + 1);
        content_count(content, lane->number, &named->verdict);
        counter_bump(&lane->shared->metrics.content_too_hard,
                     named->verdict.seen.too_hard);
    }
    return true;
}

/* What x's name stands for, of control's and the scratch's. The lane is online. */
static void ON_LANE
find(struct exchange *x, struct named *named)
{
    struct lane *lane = x->client->lane;
    const struct route_scratch *route = &lane->route;
    const struct keys *keys = publish_get(&lane->node->keys);
    struct named_names names = {
        .aliases = &lane->aliases,
        .content = publish_get(&lane->node->content),
        .scratch = lane->content,
    };
    struct content_asked asked = {
        .body = x->body,
        .scan = x->dispatch.routed ? &route->scan : NULL,
        .like = x->naming.like,
        .vector = x->naming.vector,
    };
    uint64_t hash = x->session;

    if (hash == 0) {
        hash = x->dispatch.routed ? route->blocks.prefix_key
                                  : rng_next(&lane->rng);
    }
    if (keys != NULL) {
        asked.tenant = slice_of(
            keys_tenant_name(keys, x->client->framing.admission.tenant));
    }
    named_find(&names, route->model, &asked, hash, named);
}

/* Whether x waits for the vector that the rules want; then *stands is nothing. */
static bool ON_LANE
take_or_wait(struct exchange *x, bool *stands)
{
    struct lane *lane = x->client->lane;
    struct node_shared *node = lane->node;
    struct named named;
    bool waits = false;

    qsbr_online(&node->qsbr, lane->shared->reader);
    find(x, &named);
    if (named.judged && named.verdict.seen.like == CONTENT_LIKE_WANTED) {
        waits = sorting_ask(x, named.verdict.likened);
        if (!waits) {
            find(x, &named);
        }
    }
    *stands = !waits && take_named(x, &named);
    qsbr_offline(lane->shared->reader);
    return waits;
}

bool
naming_begin(struct exchange *x)
{
    bool stands;

    /* A form that goes while it comes was looked at, and stays what it is. */
    if (x->client->lane->route.model.len == 0 ||
        x->client->framing.missing != 0) {
        return true;
    }
    if (x->naming.like == CONTENT_LIKE_UNASKED &&
        x->client->lane->node->config->content.embeddings_model[0] != '\0') {
        x->naming.like = CONTENT_LIKE_WANTED;
    }
    if (take_or_wait(x, &stands)) {
        return false;
    }
    sorting_forget(x);
    if (!stands) {
        return true;
    }
    if (x->naming.names == NULL) {
        reply_error(x->client, 503, "overloaded", "out of memory; try again");
        return false;
    }
    x->naming.place = find_place(x);
    x->naming.session = x->session;
    x->dispatch.models_left = x->naming.count - 1;
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
