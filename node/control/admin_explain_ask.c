/*
 * /admin/explain: what a lane would ask engines for, the request's tokens and its
 * message's vector, is asked for here as well, and waited for as long.
 */
#include <stdio.h>
#include <stdlib.h>

#include "node/control/admin_explain_internal.h"
#include "node/control/admin_snapshot.h"
#include "node/control/control_tls.h"
#include "node/local/local_tokens.h"
#include "node/route/alias.h"
#include "node/route/route_local.h"
#include "node/route/stored.h"

/* A request that is explained; on the heap while it waits for what was asked for. */
struct explaining {
    struct control *control;
    struct httpd_request *request;
    struct token_question *question; /* for its tokens; NULL: it is not asked */
    struct httpc *call;              /* for its message's vector; likewise */
    enum scan_api api;
    enum content_like like;
    struct text_vector *vector; /* or NULL */
};

/* Tokens */

/* Whose request it is; 0: nobody's. */
static uint64_t
owner_of(const struct httpd_request *request)
{
    const struct http_header *tenant =
        http_head_find_name(httpd_head(request), TENANT_FIELD);

    return tenant != NULL ? key_digest(tenant->value) : 0;
}

/* Which session a request for that model is of; the scratch has read body. */
static uint64_t
session_of(struct control *control, const struct httpd_request *request,
           struct slice body, struct slice model)
{
    const struct session_asked asked = {
        .head = httpd_head(request),
        .body = body.ptr,
        .scan = &control->explain.scan,
        .tenant = owner_of(request),
        .model = model,
    };

    return session_key(&control->node->session, &asked);
}

/* Reads the request's body: route_read(), or -ENOMEM. */
static int ON_CONTROL
read_body(const struct explaining *e)
{
    struct control *control = e->control;
    const struct httpd_request *request = e->request;
    struct route_scratch *route = &control->explain;
    struct slice body = httpd_body(request);
    const struct keys *keys = publish_get(&control->node->keys);
    const struct http_header *tenant =
        http_head_find_name(httpd_head(request), TENANT_FIELD);

    session_rule_scan(&control->node->session, &route->limits);
    route->isolation =
        keys != NULL && tenant != NULL
            ? keys_isolation(keys, keys_find_tenant(keys, tenant->value))
            : NULL;
    int outcome = route_read(route, body, e->api);
    if (outcome != 0) {
        return outcome;
    }
    const struct node_live *live = publish_get(&control->node->live);
    struct named_names names = {
        .aliases = &live->aliases,
        .content = publish_get(&control->node->content),
        .scratch = control->content,
    };
    struct content_asked asked = {
        .body = body,
        .scan = &route->scan,
        .tenant = tenant != NULL ? tenant->value : SLICE(""),
        .like = e->like,
        .vector = e->vector,
    };
    return admin_alias_read(&control->alias, &names, &asked,
                            session_of(control, request, body, route->model),
                            route);
}

/* The world as it is, for a request that the scratch has read. */
static struct route_world
world_of(struct control *control, const struct httpd_request *request)
{
    struct node_shared *node = control->node;
    const struct admin_alias *named = &control->alias;
    const struct node_live *live = publish_get(&node->live);
    const struct keys *keys = publish_get(&node->keys);
    struct slice model = control->explain.model;
    struct route_world world =
        shared_world(node, shared_elect_for(&node->elect, &live->policy.models,
                                            model, &control->explain_rule));
    struct slice asked = admin_alias_asked(named, &control->explain);
    uint64_t session = session_of(control, request, named->body, asked);

    if (keys != NULL) {
        world.residency =
            keys_residency(keys, admin_explain_tenant(control, request))
                ->islands;
    }
    world.affinity = node->session.mode;
    world.session =
        named->named.asked != NULL ? alias_session(session, model) : session;
    struct slice id = stored_body_id(&control->explain.scan, named->body);
    if (id.len != 0) {
        world.affinity = SESSION_BOUND;
        world.session = stored_key(owner_of(request), id);
    }
    return world;
}

/* By the model's own files, if that does not take long. */
static bool ON_CONTROL
make_tokens(struct control *control, const struct route_world *world,
            struct slice body)
{
    struct route_scratch *route = &control->explain;
    struct local_patience patience = LOCAL_HASTY;
    struct local_answer answer = {.ids.max = LOCAL_IDS_MAX};
    struct local_question question = {.body = body,
                                      .clock = route_local_clock()};

    question.model =
        route_local_find(route, world->view, publish_get(&control->node->local),
                         body, &question.kind);
    bool made = question.model != NULL &&
                local_question_read(&question, &route->scan) &&
                local_tokens(&question, &patience, NULL, &answer) == 0;
    if (made) {
        struct token_text prompt = {answer.ids.ptr, (uint32_t)answer.ids.count,
                                    NULL};
        token_match_take(&route->tokens, world->tokens.view,
                         route_token_root(route, body.ptr, world->view),
                         &prompt);
    }
    tokenizer_ids_fini(&answer.ids);
    return made;
}

/* The API of the path that ?path= names, of those that have prompts; without
 * one it is guessed by the body's shape. False: no such path. */
static bool
find_api(struct control *control, const struct httpd_request *request,
         enum scan_api *api)
{
    struct http_head asked = *httpd_head(request);
    struct slice path;

    *api = SCAN_API_GUESSED;
    if (!admin_query(&asked, SLICE("path"), &path)) {
        return false;
    }
    if (path.len == 0) {
        return true;
    }
    asked.path = path;
    *api = route_api(&asked);
    return route_kind_of(&asked, control->node->config->paths) == ROUTE_PROMPT;
}

static void
free_explaining(struct explaining *e)
{
    free(e->vector);
    free(e);
}

static void
on_tokens(void *context, const struct token_answer *tokens)
{
    struct explaining *e = context;
    struct control *control = e->control;
    struct route_scratch *route = &control->explain;

    role_is_control();
    *httpd_user(e->request) = NULL;
    if (read_body(e) != 0) {
        httpd_error(e->request, 503, "overloaded", "out of memory; try again");
        free_explaining(e);
        return;
    }
    struct slice body = control->alias.body;
    struct route_world world = world_of(control, e->request);
    if (tokens->outcome == TOKEN_OK) {
        struct token_text prompt = {tokens->tokens, tokens->count,
                                    tokens->media};
        token_match_take(&route->tokens, world.tokens.view,
                         route_token_root(route, body.ptr, world.view),
                         &prompt);
    }
    admin_explain_answer(control, &world,
                         tokens->outcome == TOKEN_OK ? "engine" : "none",
                         e->request);
    free_explaining(e);
}

/* True: the answer comes when the tokens have. */
static bool ON_CONTROL
ask_tokens(struct explaining *e, const struct route_world *world)
{
    struct control *control = e->control;
    struct worker_set foreign;
    struct worker_set able = route_servers(&control->explain, world, &foreign);
    int outcome = TOKEN_ASK_E_BUSY;

    if (control->token_ask == NULL) {
        return false;
    }
    able = worker_set_and(&able, &world->view->eligible);
    WORKER_SET_EACH (slot, &able) {
        const struct fleet_worker *worker = world->view->worker[slot];
        if (outcome != 0 && token_ask_able(control->token_ask, worker,
                                           control->explain.scan.api)) {
            outcome = token_ask_start(control->token_ask, &e->question, worker,
                                      control->alias.body,
                                      &control->explain.scan, e, on_tokens);
        }
    }
    if (outcome != 0) {
        return false;
    }
    *httpd_user(e->request) = e;
    return true;
}

/* Its body is read, and its model chosen. Frees e, or it waits. */
static void ON_CONTROL
go_on(struct explaining *e)
{
    struct control *control = e->control;
    struct route_scratch *route = &control->explain;
    struct slice body = control->alias.body;
    struct route_world world = world_of(control, e->request);
    const char *tokens_by = "none";

    if (route_wants_tokens(route, &world)) {
        token_match_read_ids(&route->tokens, world.tokens.view,
                             route_token_root(route, body.ptr, world.view),
                             body.ptr, &route->scan);
        if (route->tokens.known) {
            tokens_by = "request";
        } else if (route_makes_tokens(&world) &&
                   make_tokens(control, &world, body)) {
            tokens_by = "local";
        } else if (route_makes_tokens(&world) && ask_tokens(e, &world)) {
            return;
        }
    }
    admin_explain_answer(control, &world, tokens_by, e->request);
    free_explaining(e);
}

/* Reads its body. False: it was refused, and is gone. */
static bool ON_CONTROL
read_or_refuse(struct explaining *e)
{
    const struct scan *scan = &e->control->explain.scan;
    char fault[160];
    int outcome = read_body(e);

    if (outcome == 0) {
        return true;
    }
    if (outcome < 0) {
        httpd_error(e->request, 503, "overloaded", "out of memory; try again");
    } else {
        (void)snprintf(fault, sizeof(fault), "not valid JSON: %s at byte %zu",
                       scan->fault, scan->fault_at);
        httpd_error(e->request, 400, "invalid_json", fault);
    }
    free_explaining(e);
    return false;
}

/* Vectors */

static void
on_vector(void *context, const struct httpc_answer *answer)
{
    struct explaining *e = context;

    role_is_control();
    *httpd_user(e->request) = NULL;
    e->call = NULL;
    e->vector = embedding_read(answer);
    e->like = e->vector != NULL                  ? CONTENT_LIKE_KNOWN
              : answer->outcome == HTTPC_TIMEOUT ? CONTENT_LIKE_LATE
                                                 : CONTENT_LIKE_FAILED;
    if (read_or_refuse(e)) {
        go_on(e);
    }
}

/* Asks for its message's vector, as a lane would: sorting.c. False: there is nobody
 * to ask, and e->like says why. */
static bool ON_CONTROL
ask_vector(struct explaining *e)
{
    struct control *control = e->control;
    const struct node_shared *node = control->node;
    const struct config_content_file *config = &node->config->content;
    const struct keys *keys = publish_get(&node->keys);
    const char *islands =
        keys != NULL
            ? keys_residency(keys, admin_explain_tenant(control, e->request))
                  ->islands
            : NULL;

    if (!keys_may_embed(control->explain.isolation, islands)) {
        e->like = CONTENT_LIKE_TENANT;
        return false;
    }
    const struct fleet_view *view = fleet_view_get(node->board);
    const struct fleet_worker *worker = embedding_choose(
        view, fleet_view_model(view, slice_of(config->embeddings_model)),
        &control->rng);
    e->like = CONTENT_LIKE_AWAY;
    struct slice text = control->alias.named.verdict.likened;
    if (worker == NULL || text.len == 0) {
        return false;
    }
    const struct embedding_ask ask = {
        .url = worker->url,
        .api_key = worker->api_key,
        .address = (const struct sockaddr *)&worker->address,
        .tls = control_tls_of_workers(node),
        .timeout_ms = config->embeddings_wait_ms,
        .context = e,
        .done = on_vector,
        .model = config->embeddings_model,
        .text = text,
    };
    if (embedding_start(&e->call, &control->loop, &ask) != 0) {
        return false;
    }
    *httpd_user(e->request) = e;
    return true;
}

static bool
wants_vector(const struct control *control)
{
    const struct named *named = &control->alias.named;

    return named->judged && named->verdict.seen.like == CONTENT_LIKE_WANTED;
}

void
admin_explain(struct control *control, struct httpd_request *request)
{
    struct explaining *e = malloc(sizeof(*e));
    enum scan_api api;

    if (e == NULL) {
        httpd_error(request, 503, "overloaded", "out of memory; try again");
        return;
    }
    if (!find_api(control, request, &api)) {
        httpd_error(request, 400, "bad_path",
                    "expected ?path= and one whose requests have prompts, as "
                    "/v1/chat/completions, or no query");
        free(e);
        return;
    }
    *e =
        (struct explaining){.control = control, .request = request, .api = api};
    if (control->node->config->content.embeddings_model[0] != '\0') {
        e->like = CONTENT_LIKE_WANTED;
    }
    if (!read_or_refuse(e)) {
        return;
    }
    if (!wants_vector(control)) {
        go_on(e);
    } else if (!ask_vector(e) && read_or_refuse(e)) {
        go_on(e);
    }
}

void
admin_gone(void *context, struct httpd_request *request)
{
    struct explaining *e = *httpd_user(request);

    role_is_control();
    if (slice_equal(httpd_head(request)->path, SLICE("/admin/snapshot"))) {
        admin_snapshot_gone(context, request);
        return;
    }
    if (slice_equal(httpd_head(request)->path, SLICE("/admin/live"))) {
        admin_live_gone(context, request);
        return;
    }
    control_clearing_gone(context, request);
    if (e != NULL) {
        if (e->question != NULL) {
            token_ask_forget(e->question);
        }
        if (e->call != NULL) {
            httpc_cancel(e->call);
        }
        free_explaining(e);
    }
}
