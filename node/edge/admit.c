/* Whose request it is, and whether its tenant may use the model. */
#include <time.h>

#include "node/edge/client_internal.h"
#include "node/keys/keys.h"
#include "node/scan/scan_form.h"

#define ADMIT_E_LATER KEYS_TOKEN_OUTCOMES /* no key of tokens is known yet */
#define MESSAGE_MAX   (KEYS_NAME_MAX + FACT_MODEL_MAX + 128U)

bool
admit_is_probe(const struct http_head *head)
{
    return slice_equal(head->path, SLICE("/health")) ||
           slice_equal(head->path, SLICE("/ready"));
}

/* Nor what browsers ask for a page. */
static bool
needs_no_key(const struct http_head *head)
{
    return admit_is_probe(head) || http_cors_is_preflight(head);
}

/* OpenAI's clients send a key in Authorization, Anthropic's in x-api-key. */
static bool
has_key(const struct http_head *head, struct slice *key)
{
    if (http_head_find(head, HTTP_FIELD_AUTHORIZATION) != NULL) {
        return http_tokens_bearer(head, key);
    }
    const struct http_header *header =
        http_head_find_name(head, ADMIT_KEY_FIELD);
    *key = header != NULL ? header->value : SLICE("");
    return key->len != 0;
}

static int ON_LANE
refuse_key(struct client *client, const char *message)
{
    request_refuse(client, 401, "invalid_api_key", message);
    return FRAME_REFUSED;
}

static int64_t
wall_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec;
}

/* Whose token it is. The lane is online in the qsbr. */
static int ON_LANE
check_token(struct lane *lane, struct slice token, uint32_t *tenant)
{
    const struct keys_jwks *jwks = publish_get(&lane->node->jwks);
    const struct keys *keys = publish_get(&lane->node->keys);
    struct metrics_lane *m = &lane->shared->metrics;
    bool verified;

    if (jwks == NULL) {
        return ADMIT_E_LATER;
    }
    int outcome = keys_token_check(lane->tokens, jwks, keys, token, wall_s(),
                                   tenant, &verified);
    counter_bump(&m->jwt_verified, verified);
    counter_bump(&m->jwt_unknown_key, outcome == KEYS_TOKEN_KEY);
    return outcome;
}

/* FRAME_WHOLE, or FRAME_REFUSED: it was answered. */
static int ON_LANE
admit_token(struct client *client, int outcome)
{
    if (outcome == KEYS_TOKEN_FINE) {
        return FRAME_WHOLE;
    }
    if (outcome == ADMIT_E_LATER) {
        request_refuse(client, 503, "overloaded",
                       "the keys of tokens are not known yet; try again");
        return FRAME_REFUSED;
    }
    return outcome < 0
               ? client_refuse_overload(client)
               : refuse_key(client,
                            keys_token_why((enum keys_token_outcome)outcome));
}

int
admit_head(struct client *client, struct admission *admission)
{
    struct lane *lane = client->lane;
    struct node_shared *node = lane->node;
    struct slice key;

    *admission = (struct admission){.keyed = lane->checker != NULL};
    if (!admission->keyed || needs_no_key(&lane->head)) {
        return FRAME_WHOLE;
    }
    if (!has_key(&lane->head, &key)) {
        return refuse_key(client, "no API key: send it as Authorization: "
                                  "Bearer KEY or x-api-key: KEY");
    }
    bool token = lane->tokens != NULL && keys_token_is(key);
    qsbr_online(&node->qsbr, lane->shared->reader);
    int outcome = token ? check_token(lane, key, &admission->tenant)
                        : keys_check(lane->checker, publish_get(&node->keys),
                                     key, &admission->tenant);
    if (outcome == 0) {
        admission->priority =
            keys_priority(publish_get(&node->keys), admission->tenant);
        admission->isolation =
            *keys_isolation(publish_get(&node->keys), admission->tenant);
        admission->residency =
            *keys_residency(publish_get(&node->keys), admission->tenant);
    }
    qsbr_offline(lane->shared->reader);
    if (token) {
        return admit_token(client, outcome);
    }
    if (outcome < 0) {
        return client_refuse_overload(client);
    }
    return outcome == 0 ? FRAME_WHOLE
                        : refuse_key(client, "this API key is not known here");
}

bool
admit_allows(struct client *client, const struct keys *keys, struct slice model)
{
    const struct admission *admission = &client->framing.admission;

    if (!admission->keyed || keys_allows(keys, admission->tenant, model)) {
        return true;
    }
    /* BASE:ADAPTER of SGLang, which knows nothing else by ADAPTER's name. */
    struct slice adapter =
        fleet_view_adapter(fleet_view_get(client->lane->node->board), model);
    return adapter.len != 0 && keys_allows(keys, admission->tenant, adapter);
}

/* Whether its tenant, which may use its model, may use the adapters that it names
 * beside that. */
static bool ON_LANE
allows_adapters(const struct exchange *x, const struct keys *keys)
{
    const struct route_scratch *route = &x->client->lane->route;
    uint32_t tenant = x->client->framing.admission.tenant;
    char room[ROUTE_TEXT_MAX];

    if (!x->dispatch.routed || !keys_is_limited(keys, tenant)) {
        return true;
    }
    struct slice adapter = route_adapter(route, x->body.ptr, room);
    return !route->scan.adapters &&
           (adapter.len == 0 ||
            keys_allows_adapter(keys, tenant, route->model, adapter));
}

static void ON_LANE
refuse_model(struct client *client, const char *tenant, const char *model,
             bool beside)
{
    char message[MESSAGE_MAX];

    if (beside) {
        (void)snprintf(message, sizeof(message),
                       "the tenant %s may not use that adapter of '%s': name "
                       "one of its own as model, or in lora_path",
                       tenant, model);
    } else if (model[0] == '\0') {
        (void)snprintf(message, sizeof(message),
                       "the tenant %s may use some models only, and this "
                       "request names none in a JSON body or a plain form",
                       tenant);
    } else {
        (void)snprintf(message, sizeof(message),
                       "the tenant %s may not use the model '%s'", tenant,
                       model);
    }
    reply_error(client, 403, "model_not_allowed", message);
}

/* The model of a form, if no engine can read another one out of it: of two
 * boundaries each would be some engine's. */
static struct slice ON_LANE
sole_model(const struct exchange *x)
{
    const struct http_head *head = &x->client->lane->head;
    const struct http_header *type =
        http_head_find(head, HTTP_FIELD_CONTENT_TYPE);
    uint32_t bit = UINT32_C(1) << HTTP_FIELD_CONTENT_TYPE;

    return type != NULL && (head->fields_repeated & bit) == 0 &&
                   !request_is_encoded(head)
               ? scan_form_sole_model(type->value, x->body)
               : SLICE("");
}

bool
admit_model(struct exchange *x, struct slice model)
{
    struct client *client = x->client;
    struct lane *lane = client->lane;
    struct node_shared *node = lane->node;
    uint32_t tenant = client->framing.admission.tenant;
    char name[KEYS_NAME_MAX];

    if (!client->framing.admission.keyed) {
        return true;
    }
    qsbr_online(&node->qsbr, lane->shared->reader);
    const struct keys *keys = publish_get(&node->keys);
    bool allowed = admit_allows(client, keys, model);
    if (!allowed && !x->dispatch.routed) {
        model = sole_model(x);
        allowed = model.len != 0 && admit_allows(client, keys, model);
    }
    bool beside = allowed && !allows_adapters(x, keys);
    memcpy(name, keys_tenant_name(keys, tenant), sizeof(name));
    qsbr_offline(lane->shared->reader);
    x->dispatch.tenant = tenant;
    x->tenant = key_digest(slice_of(name));
    counter_bump(&lane->shared->tenant[tenant].requests, 1);
    if (!allowed || beside) {
        counter_bump(&lane->shared->tenant[tenant].refused, 1);
        refuse_model(client, name, model.len != 0 ? x->dispatch.model : "",
                     beside);
        return false;
    }
    return true;
}

void
admit_count(const struct exchange *x, const struct usage *usage)
{
    const struct client *client = x->client;
    struct tenant_counts *counts =
        &client->lane->shared->tenant[x->dispatch.tenant];

    if (client->framing.admission.keyed) {
        counter_bump(&counts->prompt_tokens, usage->prompt_tokens);
        counter_bump(&counts->cached_tokens, usage->cached_tokens);
        counter_bump(&counts->completion_tokens, usage->completion_tokens);
    }
}
