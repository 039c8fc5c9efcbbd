/*
 * The door of links: opening and closing, sending, time, and status.
 */
#include "mesh/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/link_wire_internal.h"

#define PIPES_PER_PEER 4U /* two channels, old and new connections */
#define PIPES_SPARE    16U
#define TICK_MS        250U
#define TICKS_PER_DIAL 4U
#define TICKS_MISSED   8U /* then this process stood still */

static void
set_default(uint32_t *value, uint32_t standard)
{
    *value = *value != 0 ? *value : standard;
}

static void
set_defaults(struct mesh_link_limits *limits)
{
    set_default(&limits->peers_max, 64);
    set_default(&limits->ctl_frames, 256);
    set_default(&limits->bulk_frames, 512);
    set_default(&limits->inbox_frames, 4096);
    set_default(&limits->redial_ms, 1000);
    set_default(&limits->redial_slow_ms, 5000);
    set_default(&limits->redial_slow_after_ms, 60000);
    set_default(&limits->idle_ms, 3000);
    set_default(&limits->silent_ms, 10000);
    set_default(&limits->hello_ms, 5000);
    set_default(&limits->stale_ms, 2000);
    set_default(&limits->forget_ms, 60000);
    if (limits->queue_bytes == 0) {
        limits->queue_bytes = (size_t)4 << 20;
    }
    if (limits->inbox_bytes == 0) {
        limits->inbox_bytes = (size_t)16 << 20;
    }
}

/* The texts of our hello. */
static bool
copy_text(char out[FRAME_TEXT_MAX], const char *text)
{
    size_t len = text != NULL ? strlen(text) : 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    if (len == 0 || len >= FRAME_TEXT_MAX) {
        return false;
    }
    memcpy(out, text, len + 1);
    return true;
}

/* Determines where to listen and which address to advertise. NULL, or what is
 * wrong. */
static const char *
choose_addresses(struct mesh_link *link, const struct mesh_link_config *config,
                 char listen[MESH_ADDRESS_MAX])
{
    if (config->listen == NULL || !link_address_read(config->listen, listen)) {
        return "the mesh's address is not a numeric HOST:PORT";
    }
    if (!link->tls && !link_address_loopback(listen)) {
        link->warning = "the mesh port has no TLS: whoever reaches it can "
                        "join and read";
        if (link->secret) {
            link->warning = "the mesh port has no TLS: whoever is on the way "
                            "can read, and change what is said";
        } else if (!config->insecure) {
            link->warning = "the mesh port has no TLS: it is bound to "
                            "loopback only";
            link_address_to_loopback(listen);
        }
    }
    if (config->advertise == NULL) {
        memcpy(link->address, listen, MESH_ADDRESS_MAX);
    } else if (!link_address_read(config->advertise, link->address)) {
        return "the advertised address is not a numeric HOST:PORT";
    }
    return link_address_wildcard(link->address)
               ? "a wildcard address cannot be advertised to other nodes"
               : NULL;
}

static const char *
fill_in(struct mesh_link *link, const struct mesh_link_config *config,
        char listen[MESH_ADDRESS_MAX])
{
    const struct mesh_link_tls *tls = &config->tls;
    int files = (tls->ca != NULL) + (tls->cert != NULL) + (tls->key != NULL) +
                (tls->server_name != NULL);

    CHECK(config->session != 0);
    link->session = config->session;
    link->limits = config->limits;
    set_defaults(&link->limits);
    rng_init(&link->rng, config->seed);
    if (!copy_text(link->cluster, config->cluster)) {
        return "the cluster's name is not 1 to 63 printable characters";
    }
    if (!copy_text(link->name, config->name)) {
        return "the node's name is not 1 to 63 printable characters";
    }
    if (files != 0 && config->secret_path != NULL) {
        return "a shared secret takes the place of TLS: give one of them";
    }
    if (files != 0 && files != 4) {
        return "TLS needs a CA, a certificate, a key and a server name";
    }
    if (link->limits.queue_bytes < FRAME_HEAD_SIZE + FRAME_BODY_MAX) {
        return "a channel's queue cannot hold one frame";
    }
    link->tls = files == 4;
    link->secret = config->secret_path != NULL;
    return choose_addresses(link, config, listen);
}

static int
allocate(struct mesh_link *link)
{
    link->inlets_max = PIPES_PER_PEER * link->limits.peers_max + PIPES_SPARE;
    link->inlets = calloc(link->inlets_max, sizeof link->inlets[0]);
    link->inbox = calloc(link->limits.inbox_frames, sizeof link->inbox[0]);
    link->peers = calloc(link->limits.peers_max, sizeof link->peers[0]);
    link->read_buffer = malloc(LINK_READ_MAX);
    return link->inlets != NULL && link->inbox != NULL && link->peers != NULL &&
                   link->read_buffer != NULL
               ? 0
               : -ENOMEM;
}

static void
destroy(struct mesh_link *link)
{
    peer_free_closed(link);
    CHECK(link->handles == 0 && link->peers_count == 0);
    inlet_fini(link);
    tls_files_free(link->tls_files);
    secrets_forget(&link->secrets);
    free(link->secret_path);
    free(link->read_buffer);
    free(link->peers);
    free(link);
}

static void
on_handle_closed(uv_handle_t *handle)
{
    struct mesh_link *link = handle->data;

    if (--link->handles == 0) {
        destroy(link);
    }
}

void
link_closed_part(struct mesh_link *link)
{
    if (!link->closing || link->wires_count != 0) {
        return;
    }
    uv_close((uv_handle_t *)&link->idle, on_handle_closed);
    uv_close((uv_handle_t *)&link->timer, on_handle_closed);
}

static void
channel_news_of_all(struct mesh_link *link)
{
    for (uint32_t i = link->peers_count; i > 0; i--) {
        if (i > link->peers_count) {
            continue; /* the owner dropped several peers at once */
        }
        struct peer *peer = link->peers[i - 1];
        for (unsigned channel = 0; channel < MESH_CHANNELS; channel++) {
            const char *gone = channel_news(&peer->channels[channel]);
            if (gone != NULL) {
                peer_judge(peer, gone);
            }
        }
    }
}

void
link_count_refused_pipe(struct mesh_link *link)
{
    link->pipes_refused++;
}

static void
tell_pipes_refused(struct mesh_link *link)
{
    uint64_t count = link->pipes_refused;
    link->pipes_refused = 0;
    if (count > 0) {
        link->stats.refused[MESH_REFUSED_PIPES] += count;
        link->sink.refused(link->sink.context, MESH_REFUSED_PIPES, "several",
                           "too many connections", count);
    }
}

static void
on_idle(uv_idle_t *idle)
{
    struct mesh_link *link = idle->data;

    CHECK(!link->closing && uv_idle_stop(idle) == 0);
    channel_news_of_all(link);
    inlet_drain(link);
    inlet_news(link);
}

void
link_wake(struct mesh_link *link)
{
    if (!link->closing) {
        CHECK(uv_idle_start(&link->idle, on_idle) == 0);
    }
}

/* Time in which this process did not run does not count as a peer's silence. */
static void
forgive(struct mesh_link *link, uint64_t gap_us)
{
    for (uint32_t i = 0; i < link->inlets_max; i++) {
        struct inlet *inlet = &link->inlets[i];
        inlet->heard_us = link_forgiven_us(link, inlet->heard_us, gap_us);
        inlet->added_us = link_forgiven_us(link, inlet->added_us, gap_us);
    }
    wires_forgive(link, gap_us);
    for (uint32_t i = 0; i < link->peers_count; i++) {
        for (unsigned channel = 0; channel < MESH_CHANNELS; channel++) {
            uint64_t *since_us = &link->peers[i]->channels[channel].since_us;
            *since_us = link_forgiven_us(link, *since_us, gap_us);
        }
    }
}

static void
on_timer(uv_timer_t *timer)
{
    struct mesh_link *link = timer->data;
    uint64_t now_us = link_now_us(link);
    uint64_t gap_us = now_us - link->ticked_us;

    link->ticked_us = now_us;
    if (gap_us > (uint64_t)TICKS_MISSED * link->tick_ms * 1000) {
        forgive(link, gap_us);
    }
    peer_free_closed(link);
    inlet_tick(link, now_us);
    wires_tick(link, now_us);
    for (uint32_t i = link->peers_count; i > 0; i--) {
        if (i <= link->peers_count) {
            peer_tick(link->peers[i - 1], now_us);
        }
    }
    inlet_arm(link);
    tell_pipes_refused(link);
    if (now_us - link->looked_us >= (uint64_t)link->limits.idle_ms * 1000) {
        link->looked_us = now_us;
        port_tick(link);
    }
}

static void
start(struct mesh_link *link)
{
    uint32_t tick_ms = link->limits.redial_ms / TICKS_PER_DIAL;

    tick_ms = tick_ms < 1 ? 1 : tick_ms > TICK_MS ? TICK_MS : tick_ms;
    link->tick_ms = tick_ms;
    link->ticked_us = link_now_us(link);
    link->looked_us = link->ticked_us;
    CHECK(uv_timer_start(&link->timer, on_timer, tick_ms, tick_ms) == 0);
}

int
mesh_link_new(struct mesh_link **out, uv_loop_t *loop,
              const struct mesh_link_config *config,
              const struct mesh_link_sink *sink, const char **why)
{
    struct mesh_link *link = calloc(1, sizeof *link);
    char listen[MESH_ADDRESS_MAX];
    int rc;

    *why = NULL;
    if (link == NULL) {
        return -ENOMEM;
    }
    link->loop = loop;
    link->sink = *sink;
    *why = fill_in(link, config, listen);
    if (*why != NULL || (rc = allocate(link)) != 0) {
        rc = *why != NULL ? MESH_LINK_E_CONFIG : -ENOMEM;
        goto fail;
    }
    if (link->tls &&
        (rc = tls_files_new(&link->tls_files, &config->tls, why)) != 0) {
        goto fail;
    }
    if (link->secret &&
        ((link->secret_path = strdup(config->secret_path)) == NULL ||
         (rc = secrets_read(&link->secrets, link->secret_path, why)) != 0)) {
        rc = rc != 0 ? rc : -ENOMEM;
        goto fail;
    }
    link->idle.data = link;
    link->timer.data = link;
    CHECK(uv_idle_init(loop, &link->idle) == 0);
    CHECK(uv_timer_init(loop, &link->timer) == 0);
    link->handles = 2;
    if ((rc = port_open(link, listen)) != 0) {
        *why = "the mesh's port cannot be opened";
        mesh_link_free(link);
        return rc;
    }
    start(link);
    *out = link;
    return 0;
fail:
    tls_files_free(link->tls_files);
    secrets_forget(&link->secrets);
    free(link->secret_path);
    free(link->read_buffer);
    free(link->inlets);
    free(link->inbox);
    free(link->peers);
    free(link);
    return rc;
}

int
mesh_link_read_files(const struct mesh_link_tls *tls, const char *secret_path,
                     const char **why, const char **doubt)
{
    struct tls_files *files = NULL;
    struct secrets secrets = {.count = 0};

    *why = NULL;
    int rc = tls != NULL ? tls_files_new(&files, tls, why)
                         : secrets_read(&secrets, secret_path, why);
    *doubt = files != NULL ? tls_files_doubt(files) : NULL;
    tls_files_free(files);
    secrets_forget(&secrets);
    return rc;
}

void
mesh_link_free(struct mesh_link *link)
{
    if (link == NULL) {
        return;
    }
    CHECK(!link->closing);
    link->closing = true;
    CHECK(uv_timer_stop(&link->timer) == 0);
    CHECK(uv_idle_stop(&link->idle) == 0);
    for (uint32_t i = 0; i < link->inlets_max; i++) {
        link->inlets[i].peer = NULL;
    }
    while (link->peers_count > 0) {
        struct peer *peer = link->peers[link->peers_count - 1];
        memset(peer->inlets, 0, sizeof peer->inlets);
        peer_close(peer);
    }
    if (link->port_is_open) {
        uv_close((uv_handle_t *)&link->port, on_handle_closed);
    }
    wires_close(link);
    link_closed_part(link);
}

const char *
mesh_link_address(const struct mesh_link *link)
{
    return link->address;
}

const char *
mesh_link_warning(const struct mesh_link *link)
{
    return link->warning;
}

int
mesh_link_send(struct mesh_link *link, const char *address,
               enum mesh_channel channel, struct slice body)
{
    struct peer *peer;

    CHECK(channel < MESH_CHANNELS && !link->closing);
    if (body.len > MESH_BODY_MAX) {
        return MESH_LINK_E_SIZE;
    }
    int rc = peer_get(link, address, &peer);
    if (rc != 0) {
        return rc;
    }
    peer->wanted_us = link_now_us(link);
    if (channel == MESH_BULK && !peer->up) {
        return MESH_LINK_E_DOWN;
    }
    return channel_send(&peer->channels[channel], body);
}

static struct peer *
find_any(struct mesh_link *link, const char *address)
{
    char canonical[MESH_ADDRESS_MAX];

    return link_address_read(address, canonical) ? peer_find(link, canonical)
                                                 : NULL;
}

void
mesh_link_doubt(struct mesh_link *link, const char *address)
{
    struct peer *peer = find_any(link, address);

    CHECK(!link->closing);
    if (peer == NULL || !peer->up) {
        return; /* it is being dialled already */
    }
    for (unsigned channel = 0; channel < MESH_CHANNELS; channel++) {
        channel_break(&peer->channels[channel], 0);
    }
    peer_judge(peer, "in doubt");
}

void
mesh_link_drop(struct mesh_link *link, const char *address)
{
    struct peer *peer = find_any(link, address);

    CHECK(!link->closing);
    if (peer != NULL) {
        peer->up = false; /* without telling the owner */
        peer_close(peer);
    }
}

static void
look(struct mesh_link *link, const struct peer *peer,
     struct mesh_link_peer *out)
{
    *out = (struct mesh_link_peer){
        .address = peer->address,
        .name = peer->name,
        .up = peer->up,
        .down_ms = peer->up ? 0 : (link_now_us(link) - peer->down_us) / 1000,
    };
    for (unsigned i = 0; i < MESH_CHANNELS; i++) {
        out->frames[i] = peer->channels[i].count + peer->channels[i].sending;
        out->bytes[i] = peer->channels[i].bytes;
        out->lagging = out->lagging || peer->channels[i].lagging;
    }
}

bool
mesh_link_peer(struct mesh_link *link, uint32_t at, struct mesh_link_peer *peer)
{
    if (at >= link->peers_count) {
        return false;
    }
    look(link, link->peers[at], peer);
    return true;
}

size_t
mesh_link_waiting(struct mesh_link *link, const char *address)
{
    const struct peer *only = address != NULL ? find_any(link, address) : NULL;
    size_t count = 0;

    for (uint32_t i = 0; i < link->peers_count; i++) {
        struct mesh_link_peer peer;
        look(link, link->peers[i], &peer);
        if (address == NULL || link->peers[i] == only) {
            count += peer.frames[MESH_CTL] + peer.frames[MESH_BULK];
        }
    }
    return count;
}

void
mesh_link_stats(struct mesh_link *link, struct mesh_link_stats *stats)
{
    *stats = link->stats;
    for (uint32_t i = 0; i < link->peers_count; i++) {
        const struct peer *peer = link->peers[i];
        for (unsigned channel = 0; channel < MESH_CHANNELS; channel++) {
            stats->frames_sent += peer->channels[channel].sent_frames;
            stats->bytes_sent += peer->channels[channel].sent_bytes;
        }
        stats->peers_up += peer->up;
    }
    for (uint32_t i = 0; i < link->inlets_max; i++) {
        stats->pipes += link->inlets[i].used;
    }
    stats->peers = link->peers_count;
    stats->certificate_expiry_s =
        link->tls ? tls_files_expiry(link->tls_files) : 0;
}
