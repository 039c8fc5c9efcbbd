/* What is allowed, and yet probably not meant. */
#include "node/config/config_access.h"

#include <string.h>

#include "node/config/config_keys.h"
#include "node/config/config_mesh.h"

bool
config_lends_key(const struct config *config, const char *api_key)
{
    return api_key[0] != '\0' && config->keys.file[0] == '\0' &&
           !config_is_loopback(config->listen.host);
}

static void
add_isolation(const struct config *config, struct buf *out)
{
    struct config_errors errors;
    struct keys *keys = NULL;

    if (config->keys.file[0] == '\0') {
        return;
    }
    config_errors_init(&errors);
    if (config_keys_load(config, NULL, &keys, &errors) == 0 &&
        keys_isolates(keys)) {
        buf_printf(out, "keys.file: isolation: strict is kept by engines that "
                        "know cache_salt (vLLM, SGLang, TensorRT-LLM), in "
                        "chats, completions and Responses, by vLLM in "
                        "all prompts but those of forms; in others tenants "
                        "share a cache, and only what this node knows of it "
                        "is kept apart\n");
    }
    keys_free(keys);
    config_errors_fini(&errors);
}

/* A half of a pair alone splits nothing. Workers of peers may complete it. */
static void
add_halves(const struct config *config, struct buf *out)
{
    uint32_t count[CONFIG_ROLE_DECODE + 1] = {0};

    for (uint32_t i = 0; i < config->workers_count; i++) {
        count[config->workers[i].role]++;
    }
    if ((count[CONFIG_ROLE_PREFILL] == 0) == (count[CONFIG_ROLE_DECODE] == 0)) {
        return;
    }
    enum config_role lone = count[CONFIG_ROLE_PREFILL] != 0
                                ? CONFIG_ROLE_PREFILL
                                : CONFIG_ROLE_DECODE;
    enum config_role lacks =
        lone == CONFIG_ROLE_PREFILL ? CONFIG_ROLE_DECODE : CONFIG_ROLE_PREFILL;
    for (uint32_t i = 0; i < config->workers_count; i++) {
        const struct config_worker *worker = &config->workers[i];
        if (worker->role == lone) {
            buf_printf(out,
                       "workers: %s has the role %s, and no worker here has "
                       "the role %s: nothing is split, so a vLLM serves whole "
                       "requests, and an SGLang none\n",
                       worker->id, config_role_name(lone),
                       config_role_name(lacks));
        }
    }
}

/* Where a gateway is told a worker's key, so is who passes for one. */
static void
add_gateways(const struct config *config, struct buf *out)
{
    const char *host = config->extproc.listen.host;
    uint32_t keys = 0;

    for (uint32_t i = 0; i < config->workers_count; i++) {
        keys += config->workers[i].api_key[0] != '\0';
    }
    if (keys != 0 && host[0] != '\0' && !config_is_loopback(host) &&
        config->tls.client_ca_file[0] == '\0') {
        buf_printf(out,
                   "extproc.listen: %u of %u workers have an api_key, which "
                   "gateways are told, and so is everybody else who can reach "
                   "%s: give tls.client_ca_file, or let nobody reach it but "
                   "the gateway\n",
                   keys, config->workers_count, host);
    }
}

void
config_risks(const struct config *config, struct buf *out)
{
    uint32_t lent = 0;

    for (uint32_t i = 0; i < config->workers_count; i++) {
        lent += config_lends_key(config, config->workers[i].api_key);
    }
    if (lent != 0) {
        buf_printf(
            out,
            "workers: %u of %u have an api_key, and listen is open to "
            "everybody who can reach %s: each request is sent with that key, "
            "whoever sent it. Set keys.file, or listen on loopback\n",
            lent, config->workers_count, config->listen.host);
    }
    add_gateways(config, out);
    if (config->jwt.jwks[0] != '\0' && config->jwt.audience[0] == '\0') {
        buf_printf(out, "jwt.audience: missing: tokens that were made for "
                        "other services are good here; name the one that "
                        "stands in yours\n");
    }
    if (config->workers_count == 0 && config->mesh.join.count == 0) {
        buf_printf(out, "workers: none, so requests are refused until one is "
                        "added (--worker URL, or POST /admin/workers)\n");
    }
    const char *doubt = config_mesh_doubt(&config->mesh);
    if (doubt != NULL) {
        buf_printf(out,
                   "mesh.tls_cert: other nodes refuse it, so this one stays "
                   "alone: %s (by mesh.tls_ca, for mesh.tls_server_name)\n",
                   doubt);
    }
    if (config_mesh_lacks_listen(&config->mesh)) {
        buf_printf(out, "mesh.listen: missing: each node that shares this file "
                        "needs its own, --mesh IP:PORT\n");
    }
    if (strstr(config->paths, "/v1/*") != NULL) {
        buf_printf(out, "paths: /v1/* forwards the administration of engines, "
                        "such as /v1/load_lora_adapter: name the paths that "
                        "clients need\n");
    }
    if (strcmp(config->cors.origins, "*") == 0 &&
        config->keys.file[0] == '\0') {
        buf_printf(out,
                   "cors.origins: *: every page that somebody opens who "
                   "can reach %s may send requests, and needs no key: name the "
                   "pages' origins, or set keys.file\n",
                   config->listen.host);
    }
    if (config->answer_cache.bytes_max != 0 && config->keys.file[0] == '\0' &&
        !config_is_loopback(config->listen.host)) {
        buf_printf(out, "answer_cache: without keys.file all clients share "
                        "answers: who sends what another one sent learns that "
                        "he did, unless each sends a key of its engine's; "
                        "keys.file keeps tenants apart\n");
    }
    add_halves(config, out);
    add_isolation(config, out);
}
