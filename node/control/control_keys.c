/* Reads, publishes and counts the keys of tenants. */
#include "node/control/control_keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#include "node/base/log.h"
#include "node/config/config_keys.h"
#include "node/text/prom_out.h"

static const struct keys *
keys_now(const struct node_shared *node)
{
    return publish_get(&node->keys);
}

int
control_keys_read(const struct node_shared *node, struct keys **fresh,
                  struct config_errors *errors)
{
    *fresh = NULL; /* whether keys are needed is settled when a node starts */
    return node->config->keys.file[0] == '\0'
               ? 0
               : config_keys_load(node->config, keys_now(node), fresh, errors);
}

void
control_keys_publish(struct node_shared *node, struct keys *fresh)
{
    struct keys *before = (struct keys *)(uintptr_t)keys_now(node);

    if (fresh == NULL) {
        return;
    }
    publish_set(&node->keys, fresh);
    if (before != NULL) {
        qsbr_retire(&node->qsbr, keys_retired(before), keys_free_retired);
    }
    LOG_INFO("keys_read", KV("file", node->config->keys.file),
             KV("tenants", keys_tenants_count(fresh)),
             KV("keys", keys_count(fresh)));
}

int
control_keys_start(struct node_shared *node)
{
    struct config_errors errors;
    struct keys *fresh;

    config_errors_init(&errors);
    int outcome = control_keys_read(node, &fresh, &errors);
    if (outcome == 0) {
        control_keys_publish(node, fresh);
    } else {
        LOG_ERROR(
            "keys_unread", KV("first", buf_slice(&errors.text)),
            KV("hint",
               "the keys read before stay in force: mend the file and reload"));
    }
    config_errors_fini(&errors);
    return outcome == 0 ? 0 : -EINVAL;
}

const char *
control_keys_tenant(const struct node_shared *node, uint32_t tenant)
{
    const struct keys *keys = keys_now(node);

    return keys != NULL ? keys_tenant_name(keys, tenant) : KEYS_DEFAULT;
}

static const struct {
    const char *name;
    const char *help;
    size_t at; /* of a struct counter in struct tenant_counts */
} families[] = {
    {"kvasir_tenant_requests_total", "Requests with a known key, by its tenant",
     offsetof(struct tenant_counts, requests)},
    {"kvasir_tenant_refused_total",
     "Requests for a model that is not their tenant's (403)",
     offsetof(struct tenant_counts, refused)},
    {"kvasir_tenant_prompt_tokens_total",
     "Prompt tokens, as engines reported them; of answers that were left, as "
     "this node counted them",
     offsetof(struct tenant_counts, prompt_tokens)},
    {"kvasir_tenant_cached_tokens_total",
     "Prompt tokens from cache, as engines reported them",
     offsetof(struct tenant_counts, cached_tokens)},
    {"kvasir_tenant_completion_tokens_total",
     "Tokens of answers, likewise; of streams that were left, their events",
     offsetof(struct tenant_counts, completion_tokens)},
};

static uint64_t
sum_of(const struct node_shared *node, uint32_t tenant, size_t at)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < node->lanes_count; i++) {
        const char *counts = (const char *)&node->lanes[i].tenant[tenant];
        sum += counter_read((const void *)(counts + at));
    }
    return sum;
}

void
control_keys_put_metrics(const struct node_shared *node, struct buf *out)
{
    const struct keys *keys = keys_now(node);

    if (keys == NULL) {
        return;
    }
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        prom_out_head(out, families[f].name, "counter", families[f].help);
        for (uint32_t tenant = 0; tenant < KEYS_TENANTS_MAX; tenant++) {
            if (keys_has_tenant(keys, tenant)) {
                buf_printf(out, "%s{tenant=\"", families[f].name);
                prom_out_label(out, keys_tenant_name(keys, tenant));
                buf_printf(out, "\"} %" PRIu64 "\n",
                           sum_of(node, tenant, families[f].at));
            }
        }
    }
}
