/* Outputs, in order of urgency, and hints that wait for their turn. */
#include <stdio.h>
#include <string.h>

#include "mesh/cluster_internal.h"

/* Hints: discovery may know four times as many addresses as the membership has
 * room for, so they wait here and take turns. */

void
cluster_hint_put(struct cluster *c, const char *address)
{
    CHECK(c->hints_count <= CLUSTER_HINTS_MAX);
    CHECK(c->hints_first < CLUSTER_HINTS_MAX);
    for (uint32_t i = 0; i < c->hints_count; i++) {
        uint32_t at = (c->hints_first + i) % CLUSTER_HINTS_MAX;
        if (strcmp(c->hints[at], address) == 0) {
            return;
        }
    }
    if (address[0] == '\0' || c->hints_count == CLUSTER_HINTS_MAX ||
        strnlen(address, MEMBER_ADDRESS_MAX) == MEMBER_ADDRESS_MAX) {
        return;
    }
    uint32_t at = (c->hints_first + c->hints_count) % CLUSTER_HINTS_MAX;
    (void)snprintf(c->hints[at], sizeof c->hints[at], "%s", address);
    c->hints_count++;
}

bool
cluster_hints_turn(struct cluster *c)
{
    bool any = false;

    CHECK(c->hints_left <= CLUSTER_HINTS_TURN);
    if (c->now_us >= c->hints_us) {
        c->hints_left = CLUSTER_HINTS_TURN;
        c->hints_us = c->now_us + CLUSTER_HINTS_US;
    }
    while (c->hints_count > 0 && c->hints_left > 0) {
        member_hint(c->members, c->hints[c->hints_first], c->now_us);
        c->hints_first = (c->hints_first + 1) % CLUSTER_HINTS_MAX;
        c->hints_count--;
        c->hints_left--;
        any = true;
    }
    return any;
}

uint64_t
cluster_hints_deadline(const struct cluster *c)
{
    CHECK(c->hints_count <= CLUSTER_HINTS_MAX);
    return c->hints_count > 0 ? c->hints_us : UINT64_MAX;
}

/* Outputs */

static bool
out_notice(struct cluster *c, struct cluster_out *out)
{
    CHECK(c->notices_count <= sizeof c->notices / sizeof *c->notices);
    if (c->notices_count == 0) {
        return false;
    }
    c->lent = c->notices[0];
    c->notices[0] = c->notices[1];
    c->notices_count--;
    *out =
        (struct cluster_out){.kind = c->lent.kind, .address = c->lent.address};
    return true;
}

static bool
out_member(struct cluster *c, struct cluster_out *out)
{
    CHECK(c->notices_count == 0);
    if (!member_next_out(c->members, &c->pulled)) {
        return false;
    }
    if (c->pulled.kind == MEMBER_OUT_EVENT) {
        cluster_member_event(c, c->pulled.event, &c->pulled.about);
        *out = (struct cluster_out){.kind = CLUSTER_MEMBER,
                                    .event = c->pulled.event,
                                    .about = c->pulled.about};
        return true;
    }
    *out = (struct cluster_out){
        .kind = CLUSTER_SEND,
        .channel = CLUSTER_CTL,
        .address = c->pulled.address,
        .head = CLUSTER_BODY_MEMBER,
        .tail = {.ptr = (const char *)c->bytes,
                 .len = member_codec_write(c->pulled.message, c->bytes)},
    };
    return true;
}

/* The session's address, if it is still a peer. */
static bool
send_to(struct cluster *c, struct cluster_out *out, uint64_t session,
        struct slice tail)
{
    const struct cluster_peer *peer =
        session != 0 ? cluster_peer_of(c, session) : NULL;

    out->kind = CLUSTER_SEND;
    out->address = peer != NULL ? peer->address : NULL;
    out->tail = tail;
    CHECK(tail.len < CLUSTER_BODY_MAX);
    return peer != NULL;
}

static bool
out_gossip(struct cluster *c, struct cluster_out *out)
{
    CHECK(!c->left && !c->dirty);
    *out = (struct cluster_out){.kind = CLUSTER_GOSSIP};
    while (gossip_next_out(c->gossip, &out->gossip)) {
        if (out->gossip.kind != GOSSIP_SEND) {
            return true;
        }
        struct slice tail = {.ptr = (const char *)out->gossip.bytes,
                             .len = out->gossip.len};
        out->head = CLUSTER_BODY_GOSSIP;
        out->channel =
            out->gossip.channel == GOSSIP_CTL ? CLUSTER_CTL : CLUSTER_BULK;
        if (send_to(c, out, out->gossip.peer, tail)) {
            return true;
        }
        *out = (struct cluster_out){.kind = CLUSTER_GOSSIP};
    }
    return false;
}

static bool
out_roster(struct cluster *c, struct cluster_out *out)
{
    struct roster_out from;

    while (roster_next_out(c->roster, &from)) {
        *out = (struct cluster_out){.kind = CLUSTER_WORKER};
        if (from.kind == ROSTER_CHANGED) {
            out->entry = from.entry;
            cluster_worker_told(c, &from.entry);
            return true;
        }
        struct slice tail = {.ptr = (const char *)from.bytes, .len = from.len};
        out->head = CLUSTER_BODY_ROSTER;
        out->channel =
            from.len > CLUSTER_CTL_BYTES ? CLUSTER_BULK : CLUSTER_CTL;
        if (send_to(c, out, from.peer, tail)) {
            return true;
        }
    }
    return false;
}

/* Hands the hints over; the outputs that they cause follow with the next
 * pull. */
static bool
out_discover(struct cluster *c, struct cluster_out *out)
{
    CHECK(!c->left);
    *out = (struct cluster_out){.kind = CLUSTER_RESOLVE};
    while (c->looks && discover_next_out(&c->discover, &out->discover)) {
        switch (out->discover.kind) {
        case DISCOVER_OUT_HINT:
            cluster_hint_put(c, out->discover.address);
            break;
        case DISCOVER_OUT_RESOLVE:
            return true;
        case DISCOVER_OUT_NEWS:
            out->kind = CLUSTER_NEWS;
            return true;
        }
    }
    c->looks = false;
    return false;
}

static bool
out_ready(struct cluster *c, struct cluster_out *out)
{
    CHECK(!c->left);
    cluster_ready_update(c);
    if (c->ready == c->told) {
        return false;
    }
    c->told = c->ready;
    *out = (struct cluster_out){.kind = CLUSTER_READY, .ready = c->ready};
    return true;
}

/* Outputs of the membership, and what follows from them: before all others. */
static bool
out_urgent(struct cluster *c, struct cluster_out *out)
{
    if (out_notice(c, out) || out_member(c, out)) {
        return true;
    }
    if (c->left) {
        return false;
    }
    if (c->dirty) {
        cluster_refresh(c);
    }
    return cluster_reads_next(c, out);
}

bool
cluster_next_out(struct cluster *c, struct cluster_out *out)
{
    CHECK(out != NULL);
    while (!c->silent) {
        if (out_urgent(c, out)) {
            return true;
        }
        if (c->left) {
            return false;
        }
        if (out_gossip(c, out) || out_roster(c, out) ||
            cluster_claims_next(c, out) || out_discover(c, out)) {
            return true;
        }
        if (!cluster_hints_turn(c)) {
            return out_ready(c, out);
        }
    }
    return false;
}
