/*
 * Who cannot reach the events of which workers, as bytes: version u64, count
 * u32, that many workers u64 in rising order; little endian. What a later
 * version adds stands behind and is skipped.
 */
#include <stdlib.h>
#include <string.h>

#include "mesh/cluster_internal.h"

#define CLAIMS_HEAD 12U

static void
put_number(uint8_t *at, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t
get_number(const char *at, uint32_t bytes)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < bytes; i++) {
        value |= (uint64_t)(uint8_t)at[i] << (8 * i);
    }
    return value;
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
rises(const char *workers, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (get_number(workers + (size_t)(i - 1) * 8, 8) >=
            get_number(workers + (size_t)i * 8, 8)) {
            return false;
        }
    }
    return true;
}

/* Takes the place of what was said before; false: no room, it comes again. */
static bool
replace(struct cluster_claims *claims, uint64_t version, const char *workers,
        uint32_t count)
{
    uint64_t *copy = count > 0 ? malloc(count * sizeof *copy) : NULL;

    if (count > 0 && copy == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        copy[i] = get_number(workers + (size_t)i * 8, 8);
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

    if (row == NULL || row->self || !cluster_row_counts(row)) {
        return CLUSTER_E_STRANGER;
    }
    if (tail.len < CLAIMS_HEAD) {
        return CLUSTER_E_BAD;
    }
    uint64_t version = get_number(tail.ptr, 8);
    uint32_t count = (uint32_t)get_number(tail.ptr + 8, 4);
    const char *workers = tail.ptr + CLAIMS_HEAD;
    if (count > GOSSIP_STREAMS_MAX ||
        tail.len - CLAIMS_HEAD < (size_t)count * 8 || !rises(workers, count)) {
        return CLUSTER_E_BAD;
    }
    struct cluster_claims *claims = find(c, session);
    claims = claims != NULL ? claims : find(c, 0);
    if (claims == NULL ||
        (claims->session == session && version <= claims->version)) {
        return 0;
    }
    if (replace(claims, version, workers, count)) {
        claims->session = session;
        cluster_workers_rank(c);
    }
    return 0;
}

/* Ours */

static void
owe_all(struct cluster *c)
{
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
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->workers_count; i++) {
        if (c->workers[i].unable) {
            put_number(c->claims_bytes + CLAIMS_HEAD + (size_t)count * 8,
                       c->workers[i].id, 8);
            count++;
        }
    }
    put_number(c->claims_bytes, c->version, 8);
    put_number(c->claims_bytes + 8, count, 4);
    return CLAIMS_HEAD + (size_t)count * 8;
}

bool
cluster_claims_next(struct cluster *c, struct cluster_out *out)
{
    for (uint32_t i = 0; i < MEMBERS_MAX && c->claims_due; i++) {
        struct cluster_peer *peer = &c->peers[i];

        if (peer->session == 0 || !peer->owed) {
            continue;
        }
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
