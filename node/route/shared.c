/* Makes and frees what lanes and the control thread share. */
#include "node/route/shared.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FACTS_BYTES ((size_t)4 << 20) /* of one lane's ring */
#define DECIDED_BYTES_MAX \
    ((size_t)64 << 20) /* 5 million keys: 600 million tokens of caches */

/* Lanes say how each request went, within their timeouts. This is for what
 * peers told that died since, and for answers that are long in coming. */
#define TEXT_EXPECTED_MS 60000U

/* A ring of that many struct wait_told, with what the ring adds. */
static size_t
waits_bytes(uint32_t waits_max)
{
    size_t bytes = 4096;

    while (bytes < waits_max * (sizeof(struct wait_told) + 16)) {
        bytes *= 2;
    }
    return bytes;
}

/* What engines say they hold, and what was just sent to them. */
static int
init_mirror(struct node_shared *node, const struct config *config)
{
    struct mirror_limits mirror = {.bytes_max = config->mirror.bytes_max};
    struct expectations_limits expected = {
        .bytes_max = config->mirror.expected_bytes_max,
        .ttl_ms = config->mirror.expected_ms,
        .proved_ms = EXPECTATIONS_PROVED_MS,
    };
    int error = mirror_new(&node->mirror, &mirror, &node->qsbr);

    if (error == 0) {
        error = expectations_new(&node->expectations, &expected, &node->qsbr);
    }
    if (error == 0) {
        error = decided_new(&node->decided, DECIDED_BYTES_MAX,
                            config->belief.depth_max, &node->qsbr);
    }
    expected.ttl_ms = TEXT_EXPECTED_MS;
    return error < 0 ? error
                     : expectations_new(&node->text_expectations, &expected,
                                        &node->qsbr);
}

struct elect_config
shared_elect(const struct config_policy *policy)
{
    return (struct elect_config){
        .policy = (enum elect_policy)policy->name,
        .cache_threshold_permille = policy->cache_threshold_permille,
        .recompute_weight = policy->recompute_weight,
        .split_tokens = policy->split_tokens,
        .balance_abs = policy->balance_abs,
        .balance_rel_permille = policy->balance_rel_permille,
        .kv_pressure_max_permille = policy->kv_pressure_max_permille,
        .temperature_permille = policy->temperature_permille,
        .pool_threshold = policy->pool_threshold,
        .pool_spill = policy->pool_spill,
        .pool_tune = policy->pool_tune != 0,
    };
}

const struct elect_config *
shared_elect_for(const struct elect_config *usual,
                 const struct config_choices *models, struct slice model,
                 struct elect_config *own)
{
    const struct config_choice *choice =
        models->count != 0 ? config_choices_find(models, model) : NULL;

    if (choice == NULL) {
        return usual;
    }
    *own = *usual;
    own->policy = (enum elect_policy)choice->choice;
    return own;
}

static void
free_live(struct qsbr_node *retired)
{
    free(retired); /* its first member */
}

/* A copy of what is published, to change and replace(); NULL: no memory. */
static struct node_live *
copy_live(struct node_shared *node)
{
    const struct node_live *now = publish_get(&node->live);
    struct node_live *live = calloc(1, sizeof(*live));

    if (live != NULL && now != NULL) {
        *live = *now;
        live->retired = (struct qsbr_node){0};
    }
    return live;
}

static void
replace_live(struct node_shared *node, struct node_live *live)
{
    const struct node_live *before = publish_get(&node->live);

    live->version++;
    publish_set(&node->live, live);
    if (before != NULL) {
        struct node_live *old = (struct node_live *)(uintptr_t)before;
        qsbr_retire(&node->qsbr, &old->retired, free_live);
    }
}

int
shared_publish(struct node_shared *node, const struct config *config)
{
    struct node_live *live = copy_live(node);

    if (live == NULL) {
        return -ENOMEM;
    }
    live->limits = config->limits;
    live->timeouts = config->timeouts;
    live->policy = config->policy;
    live->affinity = config->affinity;
    live->retries = config->retries;
    live->aliases = config->aliases;
    live->cors = config->cors;
    live->messages = config->messages;
    live->answer_cache = config->answer_cache;
    live->placement_headers = config->placement_headers != 0;
    live->usage_ask = config->usage.ask != 0;
    live->log_requests = config->log.requests;
    node->elect = shared_elect(&config->policy);
    session_rule_init(&node->session, &config->affinity);
    node->slo = config->slo;
    node->island = config->island;
    if (node->answers != NULL) {
        answers_set_ttl(node->answers, config->answer_cache.ttl_ms);
    }
    node->scale = config->scale;
    replace_live(node, live);
    return 0;
}

int
shared_publish_operators(struct node_shared *node,
                         const struct http_tokens *operators)
{
    struct node_live *live = copy_live(node);

    if (live == NULL) {
        return -ENOMEM;
    }
    live->operators = *operators;
    replace_live(node, live);
    return 0;
}

/* The configuration was good when it was read. 0, or -errno. */
static int
read_redis(struct node_shared *node, const struct config_answer_cache *cache)
{
    struct node_redis *redis = calloc(1, sizeof(*redis));

    if (redis == NULL) {
        return -ENOMEM;
    }
    node->redis = redis;
    return redis_place_read(slice_of(cache->redis), &redis->place) == NULL &&
                   redis_secret_read(cache->redis_file, &redis->secret) == NULL
               ? 0
               : -EINVAL;
}

int
shared_init(struct node_shared *node, const struct config *config)
{
    const struct config_belief *b = &config->belief;
    struct radix_limits limits = {
        .bytes_max = b->bytes_max,
        .namespaces_max = b->namespaces_max,
        .depth_max = b->depth_max,
    };

    uint64_t seed = 0;

    /* Without a seed the shares are as good, only predictable. */
    (void)uv_random(NULL, NULL, &seed, sizeof(seed), 0, NULL);
    quota_init(&node->quota, seed);
    node->config = config;
    gauge_set(&node->connections_max, (int32_t)config->limits.connections_max);
    node->fd_max = INT_MAX;
    qsbr_init(&node->qsbr);
    if (shared_publish(node, config) < 0) {
        return -ENOMEM;
    }
    node->lanes = aligned_alloc(64, config->lanes * sizeof(*node->lanes));
    if (node->lanes == NULL) {
        return -ENOMEM;
    }
    memset(node->lanes, 0, config->lanes * sizeof(*node->lanes));
    for (uint32_t i = 0; i < config->lanes; i++) {
        node->lanes[i].reader = qsbr_register(&node->qsbr);
        int error = ring_init(&node->lanes[i].facts, FACTS_BYTES);
        if (error < 0) {
            return error;
        }
        node->lanes_count++;
        error = ring_init(
            &node->lanes[i].waits,
            waits_bytes(config->limits.queue_max + SHARED_WAITS_SPARE));
        if (error < 0) {
            return error;
        }
    }
    size_t quarter = config->tokens.cache_bytes_max / 4;
    if (token_cache_new(&node->token_cache, quarter * 3) < 0 ||
        local_turns_new(&node->local_turns, quarter) < 0 ||
        local_samples_new(&node->local_samples) < 0) {
        return -ENOMEM;
    }
    if (config->answer_cache.redis[0] != '\0') {
        int error = read_redis(node, &config->answer_cache);
        if (error < 0) {
            return error;
        }
        seed = node->redis->secret.seed; /* names are alike on all nodes */
    }
    if (config->answer_cache.bytes_max != 0 &&
        answers_new(&node->answers, config->answer_cache.bytes_max,
                    config->answer_cache.ttl_ms, seed) < 0) {
        return -ENOMEM;
    }
    int error = radix_new(&node->belief, &limits, &node->qsbr);
    return error < 0 ? error : init_mirror(node, config);
}

void
shared_free_tls(struct node_tls *tls)
{
    if (tls != NULL) {
        sock_tls_context_free(tls->context);
        free(tls);
    }
}

void
shared_fini(struct node_shared *node)
{
    answers_free(node->answers);
    if (node->redis != NULL) {
        struct node_redis *redis = (void *)(uintptr_t)node->redis;
        redis_secret_forget(&redis->secret);
        free(redis);
    }
    token_cache_free(node->token_cache);
    local_turns_free(node->local_turns);
    local_samples_free(node->local_samples);
    expectations_free(node->text_expectations);
    expectations_free(node->expectations);
    decided_free(node->decided);
    mirror_free(node->mirror);
    radix_free(node->belief);
    free((void *)(uintptr_t)publish_get(&node->live));
    shared_free_tls((void *)(uintptr_t)publish_get(&node->tls));
    shared_free_tls((void *)(uintptr_t)publish_get(&node->admin_tls));
    shared_free_tls((void *)(uintptr_t)publish_get(&node->workers_tls));
    keys_free((void *)(uintptr_t)publish_get(&node->keys));
    keys_jwks_free((void *)(uintptr_t)publish_get(&node->jwks));
    content_free((void *)(uintptr_t)publish_get(&node->content));
    qsbr_fini(&node->qsbr);
    for (uint32_t i = 0; i < node->lanes_count; i++) {
        ring_fini(&node->lanes[i].facts);
        ring_fini(&node->lanes[i].waits);
    }
    free(node->lanes);
}
