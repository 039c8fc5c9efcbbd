/* The network of the node's cluster on the control loop: links, lookups, time,
 * and lines in the log. */
#include "node/peers/peers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/base/log.h"
#include "node/base/port_fault.h"
#include "node/config/config_mesh.h"
#include "node/peers/peers_log_internal.h"

#define NEVER             UINT64_MAX
#define WATCH_US          UINT64_C(5000000)
#define MISSING_MS        15000U /* a link comes up within a second or two */
#define LOOKUP_TIMEOUT_MS 10000U
/* Never advertised: there is no link. */
#define ALONE_ADDRESS "127.0.0.1:1"

_Static_assert((int)CLUSTER_CTL == (int)MESH_CTL &&
                   (int)CLUSTER_BULK == (int)MESH_BULK,
               "channels are the same");

struct peers {
    uv_timer_t timer;
    uv_prepare_t sleeping; /* the loop is about to: the timer is set then, once
                              for all that the turn did */
    uint64_t armed_us;     /* when it fires; NEVER: it does not */
    const struct config *config;
    struct peers_owner owner;
    struct hub *hub;
    struct mesh_link *link; /* NULL: no mesh port */
    struct resolve *resolve;
    struct member_id id;
    bool started;
    bool leaving;
    bool stopped;
    uint64_t watched_us; /* when links were last compared with members */
    struct peers_stats stats;
    uint8_t body[MESH_BODY_MAX];
};

static uint64_t
now_us(void)
{
    return uv_hrtime() / 1000;
}

/* Outputs */

static void
count_send(struct peers *peers, const char *address, int rc)
{
    if (rc == MESH_LINK_E_FULL || rc == MESH_LINK_E_DOWN) {
        peers->stats.sends_refused++; /* as if lost; the cores make it good */
    } else if (rc == MESH_LINK_E_ADDRESS &&
               strcmp(address, mesh_link_address(peers->link)) == 0) {
        peers->stats.sends_bad++; /* to the process that was here before */
    } else if (rc > 0) {
        peers->stats.sends_bad++;
        LOG_WARNING("mesh_send_failed", KV("address", address),
                    KV("outcome", rc),
                    KV("hint", "can this node reach the address that its "
                               "mesh.advertise names?"));
    } else if (rc < 0) {
        peers->stats.sends_no_memory++;
    }
}

static void
send_body(struct peers *peers, const struct cluster_out *out)
{
    size_t len = out->tail.len + 1;

    if (peers->link == NULL || len > sizeof peers->body) {
        peers->stats.sends_bad++;
        return;
    }
    peers->body[0] = out->head;
    if (out->tail.len != 0) {
        memcpy(peers->body + 1, out->tail.ptr, out->tail.len);
    }
    count_send(peers, out->address,
               mesh_link_send(peers->link, out->address,
                              (enum mesh_channel)out->channel,
                              (struct slice){(char *)peers->body, len}));
}

static void
take_member(struct peers *peers, const struct cluster_out *out)
{
    peers_log_member(out->event, &out->about);
    if (out->event == MEMBER_DUPLICATE) {
        peers->owner.refused(peers->owner.context);
    }
}

static void ON_CONTROL
look_up(struct peers *peers, const struct discover_out *wanted)
{
    if (resolve_ask(peers->resolve, wanted) != 0) {
        peers->stats.lookups_full++;
        hub_lookup_failed(peers->hub, wanted->ticket, now_us());
    }
}

/* The hub's network: the cluster's outputs for it. */

static void
on_out(void *context, const struct cluster_out *out)
{
    struct peers *peers = context;

    role_is_control();
    switch ((int)out->kind) {
    case CLUSTER_SEND:
        send_body(peers, out);
        return;
    case CLUSTER_DROP:
        if (peers->link != NULL) {
            mesh_link_drop(peers->link, out->address);
        }
        return;
    case CLUSTER_RESOLVE:
        look_up(peers, &out->discover);
        return;
    case CLUSTER_NEWS:
        peers_log_news(&out->discover);
        return;
    case CLUSTER_MEMBER:
        take_member(peers, out);
        return;
    case CLUSTER_READY:
        LOG_INFO("mesh_ready", KV("how", cluster_ready_name(out->ready)));
        peers->owner.ready(peers->owner.context, out->ready);
        return;
    default:
        CHECK(false); /* the hub has other consumers for these */
    }
}

static void
on_doubt(void *context, const char *address)
{
    struct peers *peers = context;

    if (peers->link != NULL) {
        mesh_link_doubt(peers->link, address);
    }
}

static void
on_fault(void *context, enum hub_fault fault, uint64_t worker)
{
    (void)context;
    switch (fault) {
    case HUB_TASKS_FULL:
        LOG_ERROR("mesh_tasks_full", KV("worker", worker),
                  KV("hint", "nobody reads its events until ranks go: fewer "
                             "workers, or ranks"));
        return;
    case HUB_STREAMS_FULL:
        LOG_WARNING(
            "events_not_followed", KV("worker", worker),
            KV("reason", "there are too many streams"),
            KV("hint",
               "its prompts are placed by text: fewer workers, or ranks"));
        return;
    case HUB_STREAMS_NO_MEMORY:
        LOG_WARNING(
            "events_not_followed", KV("worker", worker),
            KV("reason", "out of memory"),
            KV("hint",
               "its prompts are placed by text until the next event of it"));
        return;
    }
}

/* Time */

static void on_timer(uv_timer_t *timer);

/* Only brings the timer forward: one that fires too early is set again. */
static void
set_timer(struct peers *peers)
{
    uint64_t due = hub_deadline(peers->hub);
    uint64_t now = now_us();

    if (due >= peers->armed_us) {
        return;
    }
    peers->armed_us = due;
    uv_update_time(peers->timer.loop);
    (void)uv_timer_start(&peers->timer, on_timer,
                         due > now ? (due - now + 999) / 1000 : 0, 0);
}

/* Others reach this member, for it is alive, and we do not: all that is known
 * of the link is forgotten, so that the next message begins a new one. */
static void
retry_link(struct peers *peers, const struct member_info *member)
{
    const char *address = member->update.address;
    struct mesh_link_peer peer;

    for (uint32_t at = 0; mesh_link_peer(peers->link, at, &peer); at++) {
        if (strcmp(peer.address, address) != 0 || peer.down_ms < MISSING_MS) {
            continue;
        }
        peers->stats.links_retried++;
        LOG_ERROR("link_missing",
                  KV("member", (const char *)member->update.name),
                  KV("address", address), KV("down_s", peer.down_ms / 1000),
                  KV("hint", "others reach it, this node does not: look at the "
                             "network and the certificates between the two"));
        mesh_link_drop(peers->link, address);
        return;
    }
}

static bool
has_link(struct mesh_link *link, const char *address)
{
    struct mesh_link_peer peer;

    for (uint32_t at = 0; mesh_link_peer(link, at, &peer); at++) {
        if (strcmp(peer.address, address) == 0) {
            return peer.down_ms < MISSING_MS;
        }
    }
    return true; /* nobody has tried yet */
}

static void ON_CONTROL
watch_links(struct peers *peers, uint64_t now)
{
    const struct member_table *table = cluster_members(hub_cluster(peers->hub));
    struct member_info member;

    if (peers->link == NULL || now - peers->watched_us < WATCH_US) {
        return;
    }
    peers->watched_us = now;
    peers->stats.links_missing = 0;
    for (uint32_t at = 0; member_get(table, at, &member); at++) {
        if (!member.self && member.update.state == MEMBER_ALIVE &&
            !has_link(peers->link, member.update.address)) {
            peers->stats.links_missing++;
            retry_link(peers, &member);
        }
    }
}

static void
on_sleeping(uv_prepare_t *sleeping)
{
    struct peers *peers = sleeping->data;

    role_is_control();
    if (peers->started && !peers->stopped) {
        watch_links(peers, now_us());
        hub_pull(peers->hub, now_us());
        set_timer(peers);
    }
}

static void
on_timer(uv_timer_t *timer)
{
    struct peers *peers = timer->data;

    role_is_control();
    peers->armed_us = NEVER;
    hub_tick(peers->hub, now_us());
}

/* Links */

static void
on_received(void *context, const struct mesh_link_from *from, struct slice body)
{
    struct peers *peers = context;

    role_is_control();
    if (from->channel == MESH_BULK) {
        peers->owner.take_facts(peers->owner.context);
    }
    /* Outcomes are in cluster_stats(). */
    if (hub_recv(peers->hub, from->session, body, now_us()) == CLUSTER_E_BAD) {
        LOG_WARNING(
            "mesh_frame_bad", KV("address", from->address),
            KV("member", from->name),
            KV("hint",
               "the frame is dropped; is that node of another version?"));
    }
}

static void
on_up(void *context, const char *address, uint64_t session)
{
    struct peers *peers = context;

    role_is_control();
    LOG_INFO("link_up", KV("address", address));
    hub_link_up(peers->hub, address, session, now_us());
}

static void
on_down(void *context, const char *address, const char *reason)
{
    struct peers *peers = context;

    role_is_control();
    LOG_INFO("link_down", KV("address", address), KV("reason", reason));
    hub_link_down(peers->hub, address, now_us());
}

static void
on_resumed(void *context, const char *address)
{
    (void)context;
    LOG_INFO("link_resumed", KV("address", address));
}

static void
on_refused(void *context, enum mesh_refusal reason, const char *from,
           const char *what, uint64_t count)
{
    (void)context;
    peers_log_refused(reason, from, what, count);
}

static void
on_certificate(void *context, enum mesh_certificate what, int64_t expiry_s,
               const char *why)
{
    (void)context;
    peers_log_certificate(what, expiry_s, why);
}

static void
on_answered(void *context, const struct discover_answer *answer)
{
    struct peers *peers = context;

    role_is_control();
    hub_answered(peers->hub, answer, now_us());
}

/* The beginning */

static uint64_t
seed_of_system(void)
{
    uint64_t seed;

    CHECK(uv_random(NULL, NULL, &seed, sizeof seed, 0, NULL) == 0);
    return seed;
}

static void
choose_id(struct member_id *id)
{
    do {
        id->word[0] = seed_of_system();
    } while (id->word[0] == 0);
    id->word[1] = seed_of_system();
}

static struct mesh_link_tls
tls_of(const struct config_mesh *mesh)
{
    if (!config_mesh_tls(mesh)) {
        return (struct mesh_link_tls){.ca = NULL};
    }
    return (struct mesh_link_tls){.ca = mesh->tls_ca,
                                  .cert = mesh->tls_cert,
                                  .key = mesh->tls_key,
                                  .server_name = mesh->tls_server_name};
}

static void
say_not_listening(const struct config_mesh *mesh, int error, const char *why)
{
    struct sockaddr_storage address;
    char listen[URL_TEXT_MAX];
    char holder[PORT_FAULT_TEXT_MAX];

    if (url_sockaddr(&mesh->listen, &address) != 0) {
        error = -EINVAL; /* and no address has no holder */
    }
    LOG_ERROR(
        "mesh_listen_failed",
        KV("address", url_authority(&mesh->listen, listen)),
        KV("reason", why != NULL ? why : ""), KV_FAULT("error", error),
        KV("holder",
           port_fault_holder(error, (const struct sockaddr *)&address, holder)),
        KV("hint", error == -EADDRINUSE || error == -EADDRNOTAVAIL
                       ? port_fault_hint(error)
                       : "mend what the reason names: mesh.listen, the files "
                         "of mesh.tls_*, or mesh.secret_file"));
}

static int
open_link(struct peers *peers, uv_loop_t *loop)
{
    const struct config_mesh *mesh = &peers->config->mesh;
    char listen[URL_TEXT_MAX];
    char advertise[URL_TEXT_MAX];
    const char *why = NULL;
    struct mesh_link_config config = {
        .listen = url_authority(&mesh->listen, listen),
        .advertise = mesh->advertise.host[0] != '\0'
                         ? url_authority(&mesh->advertise, advertise)
                         : NULL,
        .cluster = mesh->cluster,
        .name = peers->config->name,
        .session = peers->id.word[0],
        .seed = seed_of_system(),
        .insecure = mesh->insecure != 0,
        .tls = tls_of(mesh),
        .secret_path = mesh->secret_file[0] != '\0' ? mesh->secret_file : NULL,
    };
    struct mesh_link_sink sink = {.context = peers,
                                  .received = on_received,
                                  .up = on_up,
                                  .down = on_down,
                                  .resumed = on_resumed,
                                  .refused = on_refused,
                                  .certificate = on_certificate};

    if (mesh->listen.host[0] == '\0') {
        return 0;
    }
    int rc = mesh_link_new(&peers->link, loop, &config, &sink, &why);
    if (rc != 0) {
        peers->link = NULL;
        rc = rc < 0 ? rc : -EINVAL;
        say_not_listening(mesh, rc, why);
        return rc;
    }
    if (mesh_link_warning(peers->link) != NULL) {
        LOG_WARNING(
            "mesh_without_tls", KV("address", mesh_link_address(peers->link)),
            KV("what", mesh_link_warning(peers->link)),
            KV("hint", "mesh.tls_*, or mesh.secret_file, says who may join"));
    }
    return 0;
}

static int
open_resolver(struct peers *peers, uv_loop_t *loop)
{
    struct resolve_owner owner = {.context = peers, .answered = on_answered};
    struct resolve_config config = {.timeout_ms = LOOKUP_TIMEOUT_MS,
                                    .server = &peers->config->mesh.resolver};

    return resolve_new(&peers->resolve, loop, &config, &owner);
}

static int
make_cluster(struct peers *peers)
{
    const struct config_mesh *mesh = &peers->config->mesh;
    struct cluster_config config = cluster_config_default();
    struct member_self self = {.id = peers->id};
    struct hub_network network = {
        .context = peers, .out = on_out, .doubt = on_doubt, .fault = on_fault};

    config.replicas = mesh->ingest_replicas;
    config.ready_ms = mesh->ready_ms;
    config.gossip.log_bytes = (uint32_t)mesh->log_bytes;
    config.gossip.logs_bytes_max = (size_t)mesh->logs_bytes_max;
    config.gossip.transfers_max = mesh->transfers_max;
    config.gossip.push_ms = mesh->push_ms;
    config.gossip.names_bytes_max =
        (size_t)peers->config->mirror.ledger_bytes_max;
    (void)snprintf(self.name, sizeof self.name, "%s", peers->config->name);
    (void)snprintf(
        self.address, sizeof self.address, "%s",
        peers->link != NULL ? mesh_link_address(peers->link) : ALONE_ADDRESS);
    (void)snprintf(self.island, sizeof self.island, "%s",
                   peers->config->island.name);
    int rc = hub_new(&peers->hub, &config, &self, &network, now_us(),
                     seed_of_system());

    for (uint32_t i = 0; rc == 0 && i < mesh->join.count; i++) {
        if (cluster_join(hub_cluster(peers->hub), &mesh->join.join[i],
                         now_us()) != 0) {
            LOG_WARNING(
                "join_ignored", KV("reason", "there are too many"),
                KV("hint", "one name with all addresses stands for them all"));
        }
    }
    return rc;
}

int
peers_new(struct peers **out, uv_loop_t *loop, const struct config *config,
          const struct peers_owner *owner)
{
    struct peers *peers = calloc(1, sizeof *peers);

    if (peers == NULL) {
        return -ENOMEM;
    }
    peers->config = config;
    peers->owner = *owner;
    peers->armed_us = NEVER;
    choose_id(&peers->id);
    CHECK(uv_timer_init(loop, &peers->timer) == 0);
    peers->timer.data = peers;
    CHECK(uv_prepare_init(loop, &peers->sleeping) == 0);
    peers->sleeping.data = peers;
    CHECK(uv_prepare_start(&peers->sleeping, on_sleeping) == 0);
    *out = peers;
    int rc = open_link(peers, loop);
    if (rc == 0) {
        rc = open_resolver(peers, loop);
    }
    return rc == 0 ? make_cluster(peers) : rc;
}

void
peers_start(struct peers *peers)
{
    peers->started = true;
    hub_start(peers->hub, now_us());
}

/* The end */

void
peers_leave(struct peers *peers)
{
    if (!peers->leaving) {
        peers->leaving = true;
        hub_leave(peers->hub, now_us());
    }
}

/* Frames for those who can hear; the others get none anyway. */
static bool
has_frames_left(struct mesh_link *link)
{
    struct mesh_link_peer peer;
    bool waiting = false;

    for (uint32_t at = 0; mesh_link_peer(link, at, &peer); at++) {
        waiting =
            waiting ||
            (peer.up && peer.frames[MESH_CTL] + peer.frames[MESH_BULK] != 0);
    }
    return waiting;
}

bool
peers_left(const struct peers *peers)
{
    return peers->leaving &&
           (peers->link == NULL || !has_frames_left(peers->link));
}

void
peers_stop(struct peers *peers)
{
    if (peers == NULL || peers->stopped) {
        return;
    }
    peers->stopped = true;
    if (peers->hub != NULL) {
        hub_stop(peers->hub);
    }
    mesh_link_free(peers->link);
    peers->link = NULL;
    resolve_free(peers->resolve);
    peers->resolve = NULL;
    uv_close((uv_handle_t *)&peers->timer, NULL);
    uv_close((uv_handle_t *)&peers->sleeping, NULL);
}

void
peers_free(struct peers *peers)
{
    if (peers != NULL) {
        CHECK(peers->stopped);
        hub_free(peers->hub);
        free(peers);
    }
}

/* To look at */

struct hub *
peers_hub(const struct peers *peers)
{
    return peers->hub;
}

struct mesh_link *
peers_link(const struct peers *peers)
{
    return peers->link;
}

const char *
peers_address(const struct peers *peers)
{
    return peers->link != NULL ? mesh_link_address(peers->link) : NULL;
}

void
peers_stats(const struct peers *peers, struct peers_stats *stats)
{
    *stats = peers->stats;
}
