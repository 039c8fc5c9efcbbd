/* Computes peers from members and links: who is up for gossip and the
 * roster. */
#include <stdio.h>
#include <string.h>

#include "mesh/cluster_internal.h"

/* Members */

void
cluster_rows_load(struct cluster *c)
{
    struct member_info info;

    c->rows_count = 0;
    c->counted = 0;
    for (uint32_t at = 0; member_get(c->members, at, &info); at++) {
        uint64_t session = info.update.id.word[0];
        if (session == 0 || (session == c->self && !info.self) ||
            cluster_row_of(c, session) != NULL) {
            continue; /* hearsay about an impossible process */
        }
        struct cluster_row *row = &c->rows[c->rows_count++];

        CHECK(c->rows_count <= MEMBERS_MAX);
        *row = (struct cluster_row){
            .id = info.update.id,
            .name_hash = owner_name(info.update.name),
            .island = island_path_of(slice_of(info.update.island)),
            .state = (enum member_state)info.update.state,
            .self = info.self,
        };
        memcpy(row->name, info.update.name, sizeof row->name);
        memcpy(row->address, info.update.address, sizeof row->address);
        memcpy(row->label, info.update.island, sizeof row->label);
        c->counted += cluster_row_counts(row);
    }
    CHECK(c->rows_count >= 1 && c->counted <= c->rows_count);
}

const struct cluster_row *
cluster_row_of(const struct cluster *c, uint64_t session)
{
    for (uint32_t i = 0; i < c->rows_count; i++) {
        if (c->rows[i].id.word[0] == session) {
            return &c->rows[i];
        }
    }
    return NULL;
}

const char *
cluster_peer_name(const struct cluster *c, uint64_t peer)
{
    const struct cluster_row *row = cluster_row_of(c, peer);

    return row != NULL ? row->name : NULL;
}

const char *
cluster_peer_island(const struct cluster *c, uint64_t peer)
{
    const struct cluster_row *row = cluster_row_of(c, peer);

    return row != NULL ? row->label : NULL;
}

static bool
anyone_counts_at(const struct cluster *c, const char *address)
{
    for (uint32_t i = 0; i < c->rows_count; i++) {
        if (cluster_row_counts(&c->rows[i]) &&
            strcmp(c->rows[i].address, address) == 0) {
            return true;
        }
    }
    return false;
}

static void
notice(struct cluster *c, enum cluster_out_kind kind, const char *address)
{
    CHECK(kind == CLUSTER_DOUBT || kind == CLUSTER_DROP);
    CHECK(c->notices_count < sizeof c->notices / sizeof *c->notices);
    struct cluster_notice *n = &c->notices[c->notices_count++];

    n->kind = kind;
    (void)snprintf(n->address, sizeof n->address, "%s", address);
}

static struct cluster_link *
find_link(struct cluster *c, const char *address)
{
    for (uint32_t i = 0; i < CLUSTER_LINKS_MAX; i++) {
        if (strcmp(c->links[i].address, address) == 0) {
            return &c->links[i];
        }
    }
    return NULL;
}

/* No process lives at the address any more, unless a new one does. No
 * cluster_link_down() follows. */
static void
drop(struct cluster *c, uint64_t session, const char *address)
{
    struct cluster_link *link = find_link(c, address);

    if ((link != NULL && link->session != session) ||
        anyone_counts_at(c, address)) {
        return;
    }
    if (link != NULL) {
        *link = (struct cluster_link){0};
    }
    notice(c, CLUSTER_DROP, address);
}

/* Another process took the name over: drops the old process's address. */
static void
drop_replaced(struct cluster *c, const struct member_update *about)
{
    for (uint32_t i = 0; i < c->rows_count; i++) {
        struct cluster_row was = c->rows[i];

        if (strcmp(was.name, about->name) == 0 &&
            !member_id_equal(was.id, about->id) &&
            strcmp(was.address, about->address) != 0) {
            c->rows[i].state = MEMBER_DEAD;
            drop(c, was.id.word[0], was.address);
            return;
        }
    }
}

void
cluster_member_event(struct cluster *c, enum member_event event,
                     const struct member_update *about)
{
    CHECK(event < MEMBER_EVENTS && about != NULL);
    c->dirty = true;
    switch (event) {
    case MEMBER_SUSPECTED:
        /* What other members say of it is no reason to break a working link. */
        if (about->by.word[0] == c->self) {
            notice(c, CLUSTER_DOUBT, about->address);
        }
        break;
    case MEMBER_DEPARTED:
        cluster_rows_load(c);
        drop(c, about->id.word[0], about->address);
        break;
    case MEMBER_REPLACED:
        drop_replaced(c, about);
        break;
    case MEMBER_DUPLICATE:
        c->left = true;
        c->silent = true;
        break;
    case MEMBER_DIED: /* our pings failed too; we go on pinging it */
        notice(c, CLUSTER_DOUBT, about->address);
        break;
    case MEMBER_JOINED:
    case MEMBER_CLEARED:
    case MEMBER_REFUTED:
    case MEMBER_PLACED:
    case MEMBER_REFUSED:
    case MEMBER_FULL:
    case MEMBER_EVENTS:
        break;
    }
}

/* Links */

uint64_t
cluster_link_session(const struct cluster *c, const char *address)
{
    CHECK(address != NULL);
    for (uint32_t i = 0; i < CLUSTER_LINKS_MAX; i++) {
        if (strcmp(c->links[i].address, address) == 0) {
            return c->links[i].session;
        }
    }
    return 0;
}

void
cluster_link_up(struct cluster *c, const char *address, uint64_t session,
                uint64_t now_us)
{
    CHECK(address != NULL && now_us != UINT64_MAX);
    if (c->left || address[0] == '\0' || session == 0 || session == c->self ||
        strnlen(address, MEMBER_ADDRESS_MAX) == MEMBER_ADDRESS_MAX) {
        return;
    }
    struct cluster_link *link = find_link(c, address);

    link = link != NULL ? link : find_link(c, "");
    c->now_us = now_us > c->now_us ? now_us : c->now_us;
    c->dirty = true;
    if (link != NULL) {
        link->session = session;
        link->fresh = true;
        (void)snprintf(link->address, sizeof link->address, "%s", address);
    }
    member_link(c->members, address, true, c->now_us);
}

void
cluster_link_down(struct cluster *c, const char *address, uint64_t now_us)
{
    struct cluster_link *link =
        address[0] != '\0' ? find_link(c, address) : NULL;

    CHECK(now_us != UINT64_MAX);
    if (c->left || address[0] == '\0') {
        return;
    }
    c->now_us = now_us > c->now_us ? now_us : c->now_us;
    c->dirty = true;
    if (link != NULL) {
        *link = (struct cluster_link){0};
    }
    member_link(c->members, address, false, c->now_us);
}

/* Peers */

struct cluster_peer *
cluster_peer_of(struct cluster *c, uint64_t session)
{
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        if (c->peers[i].session == session) {
            return &c->peers[i];
        }
    }
    return NULL;
}

/* The link to a process: preferably at its own address. */
static struct cluster_link *
link_to(struct cluster *c, const struct cluster_row *row)
{
    struct cluster_link *found = NULL;

    CHECK(row->id.word[0] != 0);
    for (uint32_t i = 0; i < CLUSTER_LINKS_MAX; i++) {
        struct cluster_link *link = &c->links[i];
        if (link->address[0] == '\0' || link->session != row->id.word[0]) {
            continue;
        }
        if (found == NULL || strcmp(link->address, row->address) == 0) {
            found = link;
        }
    }
    return found;
}

static void
peer_down(struct cluster *c, struct cluster_peer *peer)
{
    CHECK(peer->session != 0 && c->stats.peers_up > 0);
    gossip_peer_down(c->gossip, peer->session, c->now_us);
    roster_peer_down(c->roster, peer->session);
    *peer = (struct cluster_peer){0};
    c->stats.peers_up--;
}

static void
peer_up(struct cluster *c, uint64_t session, const char *address)
{
    struct cluster_peer *peer = cluster_peer_of(c, 0);

    CHECK(session != 0 && session != c->self && address[0] != '\0');
    CHECK(cluster_peer_of(c, session) == NULL);
    if (peer == NULL || gossip_peer_up(c->gossip, session, c->now_us) != 0) {
        return;
    }
    if (roster_peer_up(c->roster, session, c->now_us) != 0) {
        gossip_peer_down(c->gossip, session, c->now_us);
        return;
    }
    *peer = (struct cluster_peer){.session = session, .owed = c->version != 0};
    c->claims_due |= c->version != 0;
    (void)snprintf(peer->address, sizeof peer->address, "%s", address);
    c->met = true;
    c->stats.peers_up++;
    CHECK(c->stats.peers_up <= MEMBERS_MAX);
}

/* Whether it is still a peer, over the link with which it came up. */
static bool
stays(struct cluster *c, const struct cluster_peer *peer)
{
    const struct cluster_row *row = cluster_row_of(c, peer->session);

    CHECK(peer->session != 0);
    if (row == NULL || !cluster_row_counts(row)) {
        return false;
    }
    const struct cluster_link *link = link_to(c, row);
    return link != NULL && !link->fresh &&
           strcmp(link->address, peer->address) == 0;
}

static void
sync_row(struct cluster *c, const struct cluster_row *row)
{
    struct cluster_peer *peer = cluster_peer_of(c, row->id.word[0]);
    const struct cluster_link *link = link_to(c, row);
    const struct cluster_row *self = cluster_row_of(c, c->self);
    bool suspect = row->state == MEMBER_SUSPECT;

    CHECK(row->id.word[0] != 0 && self != NULL);
    if (row->self || !cluster_row_counts(row) || link == NULL) {
        return;
    }
    if (peer == NULL) {
        peer_up(c, row->id.word[0], link->address);
        peer = cluster_peer_of(c, row->id.word[0]);
    }
    if (peer != NULL && peer->suspect != suspect) {
        peer->suspect = suspect;
        gossip_peer_suspect(c->gossip, peer->session, suspect, c->now_us);
    }
    uint64_t away = island_path_apart(&self->island, &row->island);
    if (peer != NULL && peer->away != away) {
        peer->away = away;
        gossip_peer_away(c->gossip, peer->session, away);
    }
}

static uint32_t
count_up(const struct cluster *c)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        count += c->peers[i].session != 0;
    }
    return count;
}

void
cluster_peers_sync(struct cluster *c)
{
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        if (c->peers[i].session != 0 && !stays(c, &c->peers[i])) {
            peer_down(c, &c->peers[i]);
        }
    }
    for (uint32_t i = 0; i < c->rows_count; i++) {
        sync_row(c, &c->rows[i]);
    }
    for (uint32_t i = 0; i < CLUSTER_LINKS_MAX; i++) {
        /* A link that comes up before its member is known stays fresh: there is
         * no peer over it yet. */
        c->links[i].fresh = false;
    }
    CHECK(count_up(c) == c->stats.peers_up);
}
