/* /admin/mesh, and its part of /admin/status. */
#include "node/control/admin_mesh.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/config/config_mesh.h"
#include "node/peers/peers.h"

static void
put_hex(struct json_out *json, const char *key, uint64_t value)
{
    char text[20];

    (void)snprintf(text, sizeof text, "%016" PRIx64, value);
    json_out_put_text(json, key, text);
}

/* Members and links */

/* The link to an address; false: nobody tried. */
static bool
find_link(struct mesh_link *link, const char *address,
          struct mesh_link_peer *peer)
{
    for (uint32_t at = 0; link != NULL && mesh_link_peer(link, at, peer);
         at++) {
        if (strcmp(peer->address, address) == 0) {
            return true;
        }
    }
    return false;
}

static const char *
link_state(struct mesh_link *link, const struct member_info *member)
{
    struct mesh_link_peer peer;

    if (member->self) {
        return "self";
    }
    if (!find_link(link, member->update.address, &peer)) {
        return "none";
    }
    return !peer.up ? "down" : peer.lagging ? "lagging" : "up";
}

static void ON_CONTROL
put_member(struct control *control, struct json_out *json,
           const struct member_info *m, bool whole)
{
    struct mesh_link *link = peers_link(control->peers);
    uint64_t now_us = control_now_us();

    json_out_object_begin(json);
    json_out_put_text(json, "name", m->update.name);
    json_out_put_text(json, "state",
                      member_state_name((enum member_state)m->update.state));
    json_out_put_uint(json, "incarnation", m->update.incarnation);
    json_out_put_uint(json, "since_s", (now_us - m->since_us) / 1000000);
    json_out_put_text(json, "address",
                      link != NULL ? m->update.address : "none");
    json_out_put_text(json, "link", link_state(link, m));
    if (whole) {
        json_out_put_bool(json, "self", m->self);
        put_hex(json, "id", m->update.id.word[0]);
        json_out_key(json, "heard_ms");
        if (m->heard_us == 0) {
            json_out_null(json);
        } else {
            json_out_uint(json, (now_us - m->heard_us) / 1000);
        }
    }
    json_out_object_end(json);
}

static void ON_CONTROL
put_members(struct control *control, struct json_out *json, bool whole)
{
    const struct member_table *table =
        cluster_members(control_cluster(control));
    struct member_info member;

    json_out_key(json, "members");
    json_out_array_begin(json);
    for (uint32_t at = 0; member_get(table, at, &member); at++) {
        put_member(control, json, &member, whole);
    }
    json_out_array_end(json);
}

static void
put_link(struct json_out *json, const struct mesh_link_peer *peer)
{
    json_out_object_begin(json);
    json_out_put_text(json, "address", peer->address);
    json_out_put_text(json, "name", peer->name);
    json_out_put_bool(json, "up", peer->up);
    json_out_put_bool(json, "lagging", peer->lagging);
    json_out_put_uint(json, "ctl_frames", peer->frames[MESH_CTL]);
    json_out_put_uint(json, "ctl_bytes", peer->bytes[MESH_CTL]);
    json_out_put_uint(json, "bulk_frames", peer->frames[MESH_BULK]);
    json_out_put_uint(json, "bulk_bytes", peer->bytes[MESH_BULK]);
    json_out_object_end(json);
}

/* The next peer in order of addresses after `last`, which becomes its. */
static bool
next_link(struct mesh_link *link, char last[MESH_ADDRESS_MAX],
          struct mesh_link_peer *next)
{
    char best[MESH_ADDRESS_MAX] = "";
    uint32_t best_at = 0;

    for (uint32_t at = 0; mesh_link_peer(link, at, next); at++) {
        if (strcmp(next->address, last) > 0 &&
            (best[0] == '\0' || strcmp(next->address, best) < 0)) {
            (void)snprintf(best, sizeof best, "%s", next->address);
            best_at = at;
        }
    }
    memcpy(last, best, sizeof best);
    return best[0] != '\0' && mesh_link_peer(link, best_at, next);
}

static void ON_CONTROL
put_links(struct control *control, struct json_out *json)
{
    struct mesh_link *link = peers_link(control->peers);
    char last[MESH_ADDRESS_MAX] = "";
    struct mesh_link_peer peer;

    json_out_key(json, "links");
    json_out_array_begin(json);
    while (link != NULL && next_link(link, last, &peer)) {
        put_link(json, &peer);
    }
    json_out_array_end(json);
}

/* Streams */

struct stream_row {
    const char *worker; /* its id */
    struct gossip_status is;
};

static const char *
worker_id(const struct fleet_view *view, uint64_t identity)
{
    WORKER_SET_EACH (slot, &view->present) {
        if (view->identity[slot] == identity) {
            return view->worker[slot]->id;
        }
    }
    return NULL;
}

static int
compare_streams(const void *a, const void *b)
{
    const struct stream_row *one = a;
    const struct stream_row *other = b;
    int order = strcmp(one->worker, other->worker);

    return order != 0 ? order
                      : (one->is.stream.rank > other->is.stream.rank) -
                            (one->is.stream.rank < other->is.stream.rank);
}

/* Those of present workers, sorted; NULL: none, or no memory. */
static struct stream_row *
list_streams(struct control *control, uint32_t *count)
{
    const struct fleet_view *view = fleet_view_get(control->node->board);
    struct gossip *gossip = cluster_gossip(control_cluster(control));
    struct gossip_stats stats;

    gossip_stats(gossip, &stats);
    *count = 0;
    if (stats.streams == 0) {
        return NULL;
    }
    struct stream_row *rows = calloc(stats.streams, sizeof *rows);
    struct stream_row row;
    for (uint32_t at = 0; rows != NULL && *count < stats.streams &&
                          gossip_status(gossip, at, &row.is);
         at++) {
        row.worker = worker_id(view, row.is.stream.worker);
        if (row.worker != NULL) {
            rows[(*count)++] = row;
        }
    }
    if (*count != 0) {
        qsort(rows, *count, sizeof *rows, compare_streams);
    }
    return rows;
}

static const char *
stream_state(const struct gossip_status *s)
{
    return s->contested       ? "contested"
           : s->epoch.no == 0 ? "unknown"
           : s->transfers     ? "transfer"
           : s->stale         ? "stale"
           : s->complete      ? "complete"
                              : "partial";
}

/* Batches; a position is seq << 8 | part. */
static uint64_t
lag_of(const struct gossip_status *s)
{
    return s->pos_known > s->pos ? (s->pos_known >> 8) - (s->pos >> 8) : 0;
}

void
admin_put_readers(struct control *control, struct json_out *json,
                  uint64_t worker)
{
    const char *names[MEMBERS_MAX];
    uint32_t count =
        cluster_readers(control_cluster(control), worker, names, MEMBERS_MAX);

    json_out_array_begin(json);
    for (uint32_t i = 0; i < count; i++) {
        json_out_text(json, names[i]);
    }
    json_out_array_end(json);
}

static void
put_stream(struct json_out *json, const struct stream_row *row)
{
    const struct gossip_status *s = &row->is;

    json_out_object_begin(json);
    json_out_put_text(json, "worker", row->worker);
    json_out_put_uint(json, "rank", s->stream.rank);
    json_out_put_text(json, "state", stream_state(s));
    json_out_put_uint(json, "epoch", s->epoch.no);
    put_hex(json, "epoch_id", s->epoch.id);
    json_out_put_uint(json, "position", s->pos);
    json_out_put_uint(json, "position_known", s->pos_known);
    json_out_put_uint(json, "lag", lag_of(s));
    json_out_put_bool(json, "complete", s->complete);
    json_out_put_bool(json, "stale", s->stale);
    json_out_put_bool(json, "contested", s->contested);
    json_out_put_uint(json, "blocks", s->count);
    put_hex(json, "digest", s->xor_keys);
    json_out_put_bool(json, "digest_known", s->digest_known);
    json_out_put_bool(json, "names_known", s->names_known);
    json_out_put_bool(json, "reads", s->reads);
    json_out_put_bool(json, "follower", s->follower);
    json_out_put_bool(json, "pushes", s->pushes);
    json_out_put_bool(json, "transfers", s->transfers);
    json_out_object_end(json);
}

static void ON_CONTROL
put_streams(struct control *control, struct json_out *json)
{
    uint32_t count;
    struct stream_row *rows = list_streams(control, &count);

    json_out_key(json, "streams");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < count; i++) {
        put_stream(json, &rows[i]);
    }
    json_out_array_end(json);
    json_out_key(json, "readers");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < count; i++) {
        if (i != 0 && strcmp(rows[i - 1].worker, rows[i].worker) == 0) {
            continue; /* another rank of it */
        }
        json_out_object_begin(json);
        json_out_put_text(json, "worker", rows[i].worker);
        json_out_key(json, "nodes");
        admin_put_readers(control, json, rows[i].is.stream.worker);
        json_out_object_end(json);
    }
    json_out_array_end(json);
    free(rows);
}

/* "a,b": a cell of a table. */
static void ON_CONTROL
put_readers_text(struct control *control, struct json_out *json,
                 uint64_t worker)
{
    const char *names[MEMBERS_MAX];
    uint32_t count =
        cluster_readers(control_cluster(control), worker, names, MEMBERS_MAX);
    struct buf text;

    buf_init(&text, (size_t)MEMBERS_MAX * (MEMBER_NAME_MAX + 1));
    for (uint32_t i = 0; i < count; i++) {
        buf_printf(&text, "%s%s", i != 0 ? "," : "", names[i]);
    }
    json_out_put_slice(json, "readers", buf_slice(&text));
    buf_fini(&text);
}

static void ON_CONTROL
put_stream_rows(struct control *control, struct json_out *json)
{
    uint32_t count;
    struct stream_row *rows = list_streams(control, &count);

    json_out_key(json, "streams");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < count; i++) {
        const struct gossip_status *s = &rows[i].is;
        json_out_object_begin(json);
        json_out_put_text(json, "worker", rows[i].worker);
        json_out_put_uint(json, "rank", s->stream.rank);
        json_out_put_text(json, "state", stream_state(s));
        json_out_put_uint(json, "epoch", s->epoch.no);
        json_out_put_uint(json, "seq", s->pos >> 8);
        json_out_put_uint(json, "lag", lag_of(s));
        json_out_put_uint(json, "blocks", s->count);
        put_hex(json, "digest", s->xor_keys);
        put_readers_text(control, json, s->stream.worker);
        json_out_object_end(json);
    }
    json_out_array_end(json);
    free(rows);
}

/* Discovery and the roster */

static int
compare_names(const void *a, const void *b)
{
    const struct discover_name *one = *(const struct discover_name *const *)a;
    const struct discover_name *other = *(const struct discover_name *const *)b;
    int order = strcmp(one->what.name, other->what.name);

    return order != 0 ? order : (int)one->what.port - (int)other->what.port;
}

static void
put_name(struct json_out *json, const struct discover_name *name)
{
    json_out_object_begin(json);
    json_out_put_text(json, "name", name->what.name);
    json_out_put_uint(json, "port", name->what.port);
    json_out_put_text(json, "records",
                      name->what.kind == DISCOVER_SERVICE ? "SRV" : "A AAAA");
    json_out_put_text(json, "outcome", discover_outcome_name(name->outcome));
    json_out_put_bool(json, "configured", name->parent == DISCOVER_NONE);
    json_out_object_end(json);
}

static void ON_CONTROL
put_discovery(struct control *control, struct json_out *json)
{
    const struct discover *d = cluster_discover(control_cluster(control));
    const struct discover_name *names[DISCOVER_NAMES_MAX];
    struct discover_stats stats;
    uint32_t count = 0;

    discover_stats(d, &stats);
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        if (d->names[i].what.kind != 0) {
            names[count++] = &d->names[i];
        }
    }
    qsort(names, count, sizeof names[0], compare_names);
    json_out_key(json, "discovery");
    json_out_object_begin(json);
    json_out_put_uint(json, "addresses", stats.addresses);
    json_out_put_uint(json, "lookups", stats.lookups);
    json_out_key(json, "names");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < count; i++) {
        put_name(json, names[i]);
    }
    json_out_array_end(json);
    json_out_object_end(json);
}

static void ON_CONTROL
put_roster(struct control *control, struct json_out *json)
{
    const struct roster *roster = cluster_roster(control_cluster(control));
    struct roster_stats stats;

    roster_stats(roster, &stats);
    json_out_key(json, "roster");
    json_out_object_begin(json);
    json_out_put_uint(json, "entries", stats.entries);
    json_out_put_uint(json, "removed", stats.removed);
    put_hex(json, "digest", roster_digest(roster));
    json_out_object_end(json);
}

/* The whole */

static void ON_CONTROL
put_self(struct control *control, struct json_out *json)
{
    const struct config_mesh *mesh = &control->node->config->mesh;
    struct cluster *cluster = control_cluster(control);
    const char *address = peers_address(control->peers);
    struct cluster_stats stats;
    struct gossip_stats gossip;

    cluster_stats(cluster, &stats);
    gossip_stats(cluster_gossip(cluster), &gossip);
    json_out_put_text(json, "cluster", mesh->cluster);
    json_out_put_text(json, "address", address != NULL ? address : "none");
    json_out_put_bool(json, "tls", config_mesh_tls(mesh));
    json_out_put_text(json, "ready",
                      cluster_ready_name(cluster_ready(cluster)));
    json_out_put_uint(json, "alive",
                      member_count_alive(cluster_members(cluster)));
    json_out_put_uint(json, "peers_up", stats.peers_up);
    json_out_put_uint(json, "health", member_health(cluster_members(cluster)));
    json_out_put_uint(json, "reading", stats.reading);
    json_out_put_uint(json, "summaries_equal", gossip.summaries_equal);
    json_out_put_uint(json, "summaries_differ", gossip.summaries_differ);
    json_out_put_uint(json, "digest_mismatches", gossip.digest_mismatches);
}

void
admin_put_mesh(struct control *control, struct json_out *json)
{
    json_out_object_begin(json);
    json_out_put_text(json, "node", control->node->config->name);
    put_self(control, json);
    put_members(control, json, true);
    put_links(control, json);
    put_streams(control, json);
    put_roster(control, json);
    put_discovery(control, json);
    json_out_object_end(json);
}

void
admin_put_mesh_rows(struct control *control, struct json_out *json)
{
    json_out_key(json, "mesh");
    json_out_object_begin(json);
    put_self(control, json);
    json_out_object_end(json);
    put_members(control, json, false);
    put_stream_rows(control, json);
}
