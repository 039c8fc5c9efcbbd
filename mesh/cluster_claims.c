/*
 * Which members cannot reach the events of which workers. Claims travel as a
 * msgpack map: v is the version, w a bin of the workers, eight bytes each,
 * little endian and in rising order.
 */
#include <stdlib.h>

#include "index/base/pack.h"
#include "mesh/cluster_internal.h"

static void
put_worker(struct buf *out, uint64_t worker)
{
    uint8_t bytes[8];

    for (unsigned i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(worker >> 8 * i);
    }
    buf_add(out, bytes, sizeof bytes);
}

static uint64_t
get_worker(struct slice workers, uint32_t at)
{
    const char *bytes = workers.ptr + (size_t)at * 8;
    uint64_t worker = 0;

    CHECK(((size_t)at + 1) * 8 <= workers.len);
    for (unsigned i = 0; i < 8; i++) {
        worker |= (uint64_t)(uint8_t)bytes[i] << 8 * i;
    }
    return worker;
}

static struct cluster_claims *
find(struct cluster *c, uint64_t session)
{
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        if (c->claims[i].session == session) {
            return &c->claims[i];
        }
    }
    return NULL;
}

static bool
holds(const struct cluster_claims *claims, uint64_t worker)
{
    uint32_t low = 0;
    uint32_t high = claims->count;

    CHECK(claims->count == 0 || claims->workers != NULL);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (claims->workers[middle] == worker) {
            return true;
        }
        if (claims->workers[middle] < worker) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

bool
cluster_claims_say(const struct cluster *c, uint64_t session, uint64_t worker)
{
    CHECK(session != 0);
    if (session == c->self) {
        const struct cluster_worker *w = cluster_worker_of(c, worker);
        return w != NULL && w->unable;
    }
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        if (c->claims[i].session == session) {
            return holds(&c->claims[i], worker);
        }
    }
    return false;
}

static bool
rises(struct slice workers)
{
    CHECK(workers.len % 8 == 0);
    for (uint32_t i = 1; i < workers.len / 8; i++) {
        if (get_worker(workers, i - 1) >= get_worker(workers, i)) {
            return false;
        }
    }
    return true;
}

/* Replaces the member's earlier claims; false: no room, and they will come
 * again. */
static bool
replace(struct cluster_claims *claims, uint64_t version, struct slice workers)
{
    uint32_t count = (uint32_t)(workers.len / 8);
    uint64_t *copy = count > 0 ? malloc(count * sizeof *copy) : NULL;

    CHECK(workers.len % 8 == 0);
    if (count > 0 && copy == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        copy[i] = get_worker(workers, i);
    }
    free(claims->workers);
    claims->workers = copy;
    claims->count = count;
    claims->version = version;
    return true;
}

int
cluster_claims_recv(struct cluster *c, uint64_t session, struct slice tail)
{
    const struct cluster_row *row = cluster_row_of(c, session);
    struct unpack in;

    CHECK(session != 0 && session != c->self);
    if (row == NULL || row->self || !cluster_row_counts(row)) {
        return CLUSTER_E_STRANGER;
    }
    unpack_init(&in, tail);
    if (!unpack_next(&in)) {
        return CLUSTER_E_BAD;
    }
    uint64_t version = unpack_uint(&in, "v", UINT64_MAX);
    struct slice workers =
        unpack_bytes(&in, "w", (size_t)GOSSIP_STREAMS_MAX * 8);
    if (in.failed || workers.len % 8 != 0 || !rises(workers)) {
        return CLUSTER_E_BAD;
    }
    struct cluster_claims *claims = find(c, session);
    claims = claims != NULL ? claims : find(c, 0);
    if (claims == NULL ||
        (claims->session == session && version <= claims->version)) {
        return 0;
    }
    if (replace(claims, version, workers)) {
        claims->session = session;
        cluster_workers_rank(c);
    }
    return 0;
}

/* This node's own claims */

static void
owe_all(struct cluster *c)
{
    CHECK(c->version != 0);
    c->claims_us = c->now_us + CLUSTER_CLAIMS_US;
    c->claims_due = true;
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        c->peers[i].owed = c->peers[i].session != 0;
    }
}

void
cluster_claims_changed(struct cluster *c)
{
    c->version++;
    owe_all(c);
}

void
cluster_claims_tick(struct cluster *c)
{
    if (c->version == 0 || c->now_us < c->claims_us) {
        return;
    }
    owe_all(c);
}

static size_t
build(struct cluster *c)
{
    struct buf out =
        buf_over(c->claims_bytes, cluster_claims_size(&c->config.gossip));
    struct pack_map map = pack_open(&out);
    size_t count = 0;

    CHECK(c->version != 0);
    for (uint32_t i = 0; i < c->workers_count; i++) {
        count += c->workers[i].unable;
    }
    CHECK(count <= c->config.gossip.streams_max);
    pack_put_uint(&map, "v", c->version);
    pack_put_bytes_head(&map, "w", count * 8);
    for (uint32_t i = 0; i < c->workers_count; i++) {
        if (c->workers[i].unable) {
            put_worker(&out, c->workers[i].id);
        }
    }
    pack_close(&map);
    CHECK(!out.failed);
    return out.len;
}

bool
cluster_claims_next(struct cluster *c, struct cluster_out *out)
{
    for (uint32_t i = 0; i < MEMBERS_MAX && c->claims_due; i++) {
        struct cluster_peer *peer = &c->peers[i];

        if (peer->session == 0 || !peer->owed) {
            continue;
        }
        CHECK(peer->address[0] != '\0' && c->version != 0);
        peer->owed = false;
        *out = (struct cluster_out){
            .kind = CLUSTER_SEND,
            .channel = CLUSTER_CTL,
            .address = peer->address,
            .head = CLUSTER_BODY_CLAIMS,
            .tail = {.ptr = (const char *)c->claims_bytes, .len = build(c)},
        };
        return true;
    }
    c->claims_due = false;
    return false;
}

void
cluster_claims_prune(struct cluster *c)
{
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        struct cluster_claims *claims = &c->claims[i];
        const struct cluster_row *row =
            claims->session != 0 ? cluster_row_of(c, claims->session) : NULL;

        if (claims->session != 0 && (row == NULL || !cluster_row_counts(row))) {
            free(claims->workers);
            *claims = (struct cluster_claims){0};
        }
    }
}

void
cluster_claims_fini(struct cluster *c)
{
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        free(c->claims[i].workers);
    }
    free(c->claims_bytes);
}
