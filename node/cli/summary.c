/* What a node is as it begins to serve. */
#include "node/cli/summary_internal.h"

#include "node/base/log.h"
#include "node/config/config_access.h"

#define TEXT_MAX ((size_t)LOG_VALUE_MAX)

/* Ports */

static void
add_listen(const struct config *config, const struct url *listen,
           struct buf *out)
{
    bool keys = config->keys.file[0] != '\0';
    bool tokens = config->jwt.jwks[0] != '\0';
    bool certificates = config->tls.client_ca_file[0] != '\0';

    buf_add_text(out, config->tls.cert_file[0] == '\0' ? "clear text"
                      : certificates ? "TLS with clients' certificates"
                                     : "TLS");
    if (keys || tokens) {
        buf_printf(out, ", %s%s%s", keys ? "keys" : "",
                   keys && tokens ? " or " : "", tokens ? "tokens" : "");
    } else {
        buf_add_text(out, ", no keys");
    }
    if (config_is_loopback(listen->host)) {
        buf_add_text(out, ", this machine alone");
    } else if (!keys && !tokens && !certificates) {
        buf_add_text(out, ": whoever reaches it is served");
    }
}

static void
add_admin(const struct config *config, struct buf *out)
{
    buf_add_text(out, config->tls.admin != 0 ? "TLS" : "clear text");
    if (config->admin_access.token_file[0] != '\0') {
        buf_add_text(out, ", tokens");
    } else if (config_is_loopback(config->admin.host)) {
        buf_add_text(out, ", no tokens, this machine alone");
    } else {
        buf_add_text(out, ", no tokens: whoever reaches it may change the "
                          "node (admin.insecure)");
    }
}

static void
add_mesh(const struct config *config, struct buf *out)
{
    const struct config_mesh *mesh = &config->mesh;

    if (mesh->tls_ca[0] != '\0') {
        buf_add_text(out, "TLS with nodes' certificates");
    } else if (mesh->secret_file[0] != '\0') {
        buf_add_text(out, "clear text, a shared secret");
    } else if (config_is_loopback(mesh->listen.host)) {
        buf_add_text(out, "clear text, this machine alone");
    } else {
        buf_add_text(out, "clear text: whoever reaches it may join "
                          "(mesh.insecure)");
    }
}

void
summary_protection(const struct config *config, enum summary_port port,
                   struct buf *out)
{
    switch (port) {
    case SUMMARY_LISTEN:
        add_listen(config, &config->listen, out);
        break;
    case SUMMARY_EXTPROC:
        add_listen(config, &config->extproc.listen, out);
        break;
    case SUMMARY_ADMIN:
        add_admin(config, out);
        break;
    case SUMMARY_METRICS:
        buf_printf(out, "%s, reads alone",
                   config->tls.admin != 0 ? "TLS" : "clear text");
        break;
    case SUMMARY_MESH:
        add_mesh(config, out);
        break;
    }
}

static void
log_ports(const struct config *config, const struct summary_ports *ports)
{
    static const char *const keys[] = {"listen", "admin", "admin.metrics",
                                       "extproc.listen", "mesh.listen"};

    for (unsigned i = SUMMARY_LISTEN; i <= SUMMARY_MESH; i++) {
        struct buf text;
        if (ports->address[i][0] == '\0') {
            continue;
        }
        buf_init(&text, TEXT_MAX);
        summary_protection(config, (enum summary_port)i, &text);
        LOG_INFO("start_port", KV("key", keys[i]),
                 KV("address", ports->address[i]),
                 KV("protection", buf_slice(&text)));
        buf_fini(&text);
    }
}

/* Workers */

/* Why a worker's cache is not known from its events. NULL: it is. */
static const char *ON_CONTROL
why_belief(const struct control *control, const struct fleet_worker *worker)
{
    if (worker->events.host[0] == '\0' && worker->sse.host[0] == '\0') {
        return "no events= is given, so where prompts went is all that is "
               "known";
    }
    return ingest_left_out(control->ingest, worker->slot);
}

/* The next of a list; the ninth and those after it are not named. */
static void
add_name(struct buf *names, uint32_t count, const char *name)
{
    if (count < SUMMARY_NAMES) {
        buf_printf(names, "%s%s", count != 0 ? " " : "", name);
    } else if (count == SUMMARY_NAMES) {
        buf_add_text(names, " ...");
    }
}

static void ON_CONTROL
log_workers(const struct control *control)
{
    const struct fleet_view *view = fleet_view_get(control->node->board);
    const char *why = NULL;
    uint32_t mirrored = 0;
    uint32_t believed = 0;
    uint32_t away = 0;
    struct buf believed_names;
    struct buf away_names;

    buf_init(&believed_names, TEXT_MAX);
    buf_init(&away_names, TEXT_MAX);
    WORKER_SET_EACH (slot, &view->present) {
        const struct fleet_worker *worker = view->worker[slot];
        const char *reason = why_belief(control, worker);
        if (reason == NULL) {
            mirrored++;
        } else {
            add_name(&believed_names, believed++, worker->id);
            why = reason;
        }
        if (!worker_set_has(&view->eligible, slot)) {
            add_name(&away_names, away++, worker->id);
        }
    }
    LOG_INFO("start_workers", KV("mirrored", mirrored),
             KV("by_belief", believed), KV("not_eligible", away),
             KV("models", (uint64_t)view->models->count));
    if (believed != 0) {
        LOG_INFO("start_by_belief", KV("workers", buf_slice(&believed_names)),
                 KV("why", why));
    }
    if (away != 0) {
        LOG_INFO("start_not_eligible", KV("workers", buf_slice(&away_names)),
                 KV("hint", "kvasir status says why, kvasir doctor what is "
                            "missing"));
    }
    buf_fini(&believed_names);
    buf_fini(&away_names);
}

/* The rest */

static void ON_CONTROL
log_tokens(const struct control *control)
{
    const struct local_table *table = publish_get(&control->node->local);
    uint32_t asked_ms = control->node->config->tokens.wait_ms;
    uint32_t local = 0;
    struct buf names;

    buf_init(&names, TEXT_MAX);
    for (uint32_t i = 0; table != NULL && i < table->count; i++) {
        const struct local_model *model = table->model[i];
        if (local_model_why(model)[0] == '\0') {
            add_name(&names, local++, local_model_name(model));
        }
    }
    LOG_INFO(
        "start_tokens", KV("made_here", local), KV("models", buf_slice(&names)),
        KV("others", asked_ms != 0 ? "asked of engines with events, within "
                                     "tokens.wait"
                                   : "not asked for: those go by text"));
    buf_fini(&names);
}

static void ON_CONTROL
log_mesh(const struct control *control)
{
    const struct config_mesh *mesh = &control->node->config->mesh;

    if (mesh->listen.host[0] == '\0') {
        LOG_INFO("start_mesh", KV("state", "none"),
                 KV("why", "neither mesh.listen nor mesh.join is given"));
        return;
    }
    LOG_INFO("start_mesh", KV("state", "open"), KV("cluster", mesh->cluster),
             KV("places_to_join", mesh->join.count),
             KV("nodes_alive",
                member_count_alive(cluster_members(control_cluster(control)))));
}

static void ON_CONTROL
log_snapshot(const struct control *control)
{
    struct snapshot_status s;

    if (control->snapshot == NULL) {
        LOG_INFO("start_snapshot", KV("state", "none"),
                 KV("why", "data.dir is not given: after a restart the node "
                           "learns from replays and peers"));
        return;
    }
    snapshot_status(control->snapshot, &s);
    LOG_INFO("start_snapshot", KV("state", s.loaded.warm ? "warm" : "cold"),
             KV("why", s.loaded.reason), KV("dir", s.dir),
             KV("age_s", s.loaded.warm ? s.loaded.age_ms / 1000 : 0),
             KV("blocks", s.loaded.blocks),
             KV("belief_blocks", s.loaded.belief_blocks));
}

static void
log_sandbox(const struct confined *confined)
{
    LOG_INFO("start_sandbox", KV("bounds", confined_name(confined)),
             KV("why", confined->why));
}

void
summary_log(const struct control *control, const struct summary_ports *ports)
{
    log_ports(control->node->config, ports);
    log_workers(control);
    log_tokens(control);
    log_mesh(control);
    log_snapshot(control);
    log_sandbox(&control->node->confined);
}
