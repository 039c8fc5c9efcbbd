/* Inbound connections, and the inbox of their messages. */
#include "mesh/link_wire_internal.h"

#include <stdlib.h>
#include <string.h>

#define DRAIN_MAX 256U /* messages per turn of the loop */

static struct inlet *
find_free(struct mesh_link *link)
{
    for (uint32_t i = 0; i < link->inlets_max; i++) {
        if (!link->inlets[i].used) {
            return &link->inlets[i];
        }
    }
    return NULL;
}

struct inlet *
inlet_opened(struct mesh_link *link, struct wire *wire, const char *from)
{
    struct inlet *inlet = find_free(link);

    if (inlet == NULL) {
        link_count_refused_pipe(link);
        return NULL;
    }
    inlet->used = true;
    inlet->wire = wire;
    inlet->added_us = link_now_us(link);
    inlet->heard_us = inlet->added_us;
    memcpy(inlet->from, from, sizeof inlet->from);
    return inlet;
}

void
inlet_lost(struct mesh_link *link, struct inlet *inlet)
{
    CHECK(inlet->used && inlet->wire != NULL);
    inlet->wire = NULL;
    inlet->gone_at = link->inbox_tail;
    link_wake(link);
}

bool
inlet_has_room(struct mesh_link *link)
{
    bool room =
        link->inbox_tail - link->inbox_head < link->limits.inbox_frames &&
        link->inbox_bytes < link->limits.inbox_bytes;

    link->stats.pauses += link->armed && !room;
    link->armed = room;
    return room;
}

void
inlet_put(struct mesh_link *link, struct message *msg)
{
    uint32_t at = (uint32_t)(link->inbox_tail++ % link->limits.inbox_frames);
    uint32_t count = (uint32_t)(link->inbox_tail - link->inbox_head);

    link->inbox[at] = msg;
    link->inbox_bytes += msg->len;
    if (count > link->stats.inbox_peak) {
        link->stats.inbox_peak = count;
    }
    if (link->inbox_bytes > link->stats.inbox_peak_bytes) {
        link->stats.inbox_peak_bytes = link->inbox_bytes;
    }
    link_wake(link);
}

void
inlet_arm(struct mesh_link *link)
{
    if (inlet_has_room(link)) {
        wires_resume(link);
    }
}

void
inlet_fini(struct mesh_link *link)
{
    for (; link->inbox_head < link->inbox_tail; link->inbox_head++) {
        free(link->inbox[link->inbox_head % link->limits.inbox_frames]);
    }
    free(link->inbox);
    free(link->inlets);
}

static struct message *
take(struct mesh_link *link)
{
    uint32_t at = (uint32_t)(link->inbox_head++ % link->limits.inbox_frames);
    struct message *msg = link->inbox[at];

    link->inbox_bytes -= msg->len;
    return msg;
}

void
inlet_drain(struct mesh_link *link)
{
    for (uint32_t i = 0; i < DRAIN_MAX && link->inbox_head < link->inbox_tail;
         i++) {
        struct message *msg = take(link);
        link_judge(link, msg);
        free(msg);
    }
    inlet_arm(link);
    if (link->inbox_head < link->inbox_tail) {
        link_wake(link); /* the loop's other work goes first */
    }
}

void
inlet_close(struct inlet *inlet, const char *reason)
{
    if (inlet->closed) {
        return;
    }
    inlet->closed = true;
    if (inlet->peer != NULL) {
        peer_unheard(inlet->peer, inlet, reason);
    }
    if (inlet->wire != NULL) {
        wire_close(inlet->wire); /* this also frees its place */
    }
}

void
inlet_news(struct mesh_link *link)
{
    for (uint32_t i = 0; i < link->inlets_max; i++) {
        struct inlet *inlet = &link->inlets[i];

        if (!inlet->used || inlet->wire != NULL ||
            link->inbox_head < inlet->gone_at) {
            continue; /* free, in use, or with messages to be told first */
        }
        if (inlet->peer != NULL) {
            peer_unheard(inlet->peer, inlet, "the connection broke");
        }
        *inlet = (struct inlet){.used = false};
    }
}

void
inlet_tick(struct mesh_link *link, uint64_t now_us)
{
    uint64_t hello_us = (uint64_t)link->limits.hello_ms * 1000;
    uint64_t silent_us = (uint64_t)link->limits.silent_ms * 1000;

    for (uint32_t i = 0; i < link->inlets_max; i++) {
        struct inlet *inlet = &link->inlets[i];

        if (!inlet->used || inlet->closed) {
            continue;
        }
        if (inlet->peer == NULL && now_us - inlet->added_us > hello_us) {
            link_refuse(link, inlet, MESH_REFUSED_SILENT, "no hello came");
        } else if (inlet->peer != NULL &&
                   now_us - inlet->heard_us > silent_us) {
            link_refuse(link, inlet, MESH_REFUSED_SILENT, inlet->peer->name);
        }
    }
}
