/* Two configurations, key by key and worker by worker. */
#include "node/config/config_diff.h"

#include <string.h>

#define TEXT_MAX ((size_t)64 << 10) /* of one value */

/* The others are built into something when the node starts. Whoever adds one
 * here sees to it that everybody who uses it looks again. limits.json_depth_max
 * and limits.spans_max stay out: a request that is read twice must be read the
 * same way (node/edge/exchange.c). */
static const char *const live_keys[] = {
    "placement_headers",
    "cors.origins",
    "messages.cache_control",
    "usage.ask",
    "answer_cache.ttl",
    "answer_cache.seeded",
    "answer_cache.wait",
    "answer_cache.semantic_threshold",
    "answer_cache.semantic_wait",
    "tokens.dir",
    "models",
    "aliases",
    "retries.statuses",
    "retries.after_send",
    "retries.streams",
    "affinity.mode",
    "affinity.headers",
    "affinity.fields",
    "policy.name",
    "policy.models",
    "policy.cache_threshold",
    "policy.recompute_weight",
    "policy.balance_abs",
    "policy.balance_rel",
    "policy.kv_pressure_max",
    "policy.temperature",
    "policy.pool_threshold",
    "policy.pool_spill",
    "policy.pool_tune",
    "policy.attempts_max",
    "slo.ttft",
    "slo.itl",
    "slo.models",
    "island.name",
    "island.links",
    "scale.mode",
    "scale.min",
    "scale.max",
    "scale.target",
    "scale.step",
    "scale.price",
    "scale.budget",
    "scale.provision",
    "scale.cool_down",
    "scale.hook",
    "scale.token_file",
    "scale.command",
    "scale.kubernetes",
    "scale.worker",
    "scale.pools",
    "scale.within",
    "scale.quorum",
    "limits.connections_max",
    "limits.client_connections_max",
    "limits.inflight_max",
    "limits.body_bytes_max",
    "limits.body_rate_min",
    "limits.buffered_bytes_max",
    "limits.client_bytes_max",
    "limits.upstream_idle_max",
    "limits.tenant_requests",
    "limits.tenant_tokens",
    "limits.tenant_concurrent",
    "limits.models",
    "timeouts.head",
    "timeouts.body",
    "timeouts.body_total",
    "timeouts.idle",
    "timeouts.write",
    "timeouts.queue",
    "timeouts.connect",
    "timeouts.first_byte",
    "timeouts.away_connect",
    "timeouts.away_first_byte",
    "timeouts.stream_idle",
    "timeouts.upstream_idle",
    "timeouts.keep_alive",
    "timeouts.lame_duck",
    "timeouts.drain",
    "health.path",
    "health.interval",
    "health.timeout",
    "health.failures",
    "health.successes",
    "health.metrics_interval",
    "health.models_interval",
    "breaker.failures",
    "breaker.successes",
    "breaker.open",
    "breaker.open_max",
    "breaker.max_ejection_percent",
    "workers.max_inflight",
    "workers.resolve",
    "log.level",
    "log.format",
    "log.requests",
};

bool
config_key_is_live(const struct config_key *key)
{
    for (size_t i = 0; i < sizeof live_keys / sizeof *live_keys; i++) {
        if (strcmp(live_keys[i], key->name) == 0) {
            return true;
        }
    }
    return false;
}

/* As they are printed: what prints alike is the same value. */
static bool
is_same(const struct config_key *key, const void *a, const void *b)
{
    struct buf text_a;
    struct buf text_b;

    buf_init(&text_a, TEXT_MAX);
    buf_init(&text_b, TEXT_MAX);
    config_value_print(key, a, &text_a);
    config_value_print(key, b, &text_b);
    bool same = !text_a.failed && !text_b.failed &&
                slice_equal(buf_slice(&text_a), buf_slice(&text_b));
    buf_fini(&text_a);
    buf_fini(&text_b);
    return same;
}

static const struct config_worker *
find_worker(const struct config *config, const char *id)
{
    for (uint32_t i = 0; i < config->workers_count; i++) {
        if (strcmp(config->workers[i].id, id) == 0) {
            return &config->workers[i];
        }
    }
    return NULL;
}

static enum config_worker_change
change_of(const struct config *now, const struct config_worker *wanted)
{
    const struct config_worker *there = find_worker(now, wanted->id);

    if (there == NULL) {
        return CONFIG_WORKER_ADDED;
    }
    for (size_t i = 0; i < config_schema_worker.count; i++) {
        if (!is_same(&config_schema_worker.keys[i], there, wanted)) {
            return CONFIG_WORKER_CHANGED;
        }
    }
    return CONFIG_WORKER_SAME;
}

static void
diff_workers(const struct config *now, const struct config *wanted,
             struct config_diff *diff)
{
    CHECK(now->workers_count <= CONFIG_WORKERS_MAX);
    CHECK(wanted->workers_count <= CONFIG_WORKERS_MAX);
    for (uint32_t i = 0; i < wanted->workers_count; i++) {
        diff->worker[i] = change_of(now, &wanted->workers[i]);
        diff->workers_count += diff->worker[i] != CONFIG_WORKER_SAME;
    }
    for (uint32_t i = 0; i < now->workers_count; i++) {
        diff->gone[i] = find_worker(wanted, now->workers[i].id) == NULL;
        diff->workers_count += diff->gone[i];
    }
}

void
config_diff(const struct config *now, const struct config *wanted,
            struct config_diff *diff)
{
    memset(diff, 0, sizeof *diff);
    for (size_t i = 0; i < config_schema_node.count; i++) {
        const struct config_key *key = &config_schema_node.keys[i];
        diff->changed[i] = !is_same(key, now, wanted);
        diff->live_count += diff->changed[i] && config_key_is_live(key);
        diff->restart_count += diff->changed[i] && !config_key_is_live(key);
    }
    diff_workers(now, wanted, diff);
}

void
config_diff_take(const struct config_diff *diff, const struct config *wanted,
                 struct config *into)
{
    for (size_t i = 0; i < config_schema_node.count; i++) {
        const struct config_key *key = &config_schema_node.keys[i];
        if (diff->changed[i] && config_key_is_live(key)) {
            config_value_copy(key, wanted, into);
        }
    }
}
