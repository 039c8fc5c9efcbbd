/* Warnings about workers: keys that everybody uses, caches that everybody
 * shares. */
#include "node/control/control_warn.h"

#include "node/base/log.h"

/* Wherever the worker comes from: file, operator or peer. Once is loud enough. */
void
control_warn_of_key(struct control *control, const struct fleet_worker *worker)
{
    const struct config *config = control->node->config;

    if (!control->lends && config_lends_key(config, worker->api_key)) {
        control->lends = true;
        LOG_WARNING("api_key_lent_to_everybody", KV("worker", worker->id),
                    KV("listen", config->listen.host),
                    KV("hint", "whoever reaches this node's port has requests "
                               "sent with the worker's key; set keys.file, "
                               "listen on loopback, or put what knows its "
                               "clients in front"));
    }
}

/* Its engine does not keep isolated tenants' prompts apart. */
void
control_warn_of_engine(struct control *control,
                       const struct fleet_worker *worker)
{
    const struct keys *keys = publish_get(&control->node->keys);

    if (keys != NULL && keys_isolates(keys) &&
        !engine_kind_salts(worker->kind)) {
        LOG_WARNING(
            "isolation_incomplete", KV("worker", worker->id),
            KV("engine", engine_kind_name(worker->kind)),
            KV("hint",
               "the engine knows no cache_salt: tenants with isolation: strict "
               "share its cache, and only what this node knows of it is kept "
               "apart; bind such tenants to models of other engines"));
    }
}

void
control_warn_of_sharing(struct control *control)
{
    const struct fleet_view *view = fleet_view_get(control->node->board);

    WORKER_SET_EACH (slot, &view->present) {
        if (view->worker[slot]->kind != ENGINE_OTHER) {
            control_warn_of_engine(control, view->worker[slot]);
        }
    }
}
