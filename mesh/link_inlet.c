/* Inbound connections, and the inbox of their messages. */
#include "mesh/link_wire_internal.h"

#include <stdlib.h>
#include <string.h>

#define DRAIN_MAX 256U /* messages per turn of the loop */
#define TAKE_MAX  32U  /* messages per locking */

/* Under the lock. */
static struct inlet *
find(struct mesh_link *link, uint32_t pipe)
{
    for (uint32_t i = 0; i < link->inlets_max; i++) {
        if (link->inlets[i].pipe == pipe) {
            return &link->inlets[i];
        }
    }
    return NULL;
}

/* Finds a free place for a connection. False: there is none. */
static bool
add(struct mesh_link *link, uint32_t pipe, const char *from, struct wire *wire)
{
    uv_mutex_lock(&link->lock);
    struct inlet *inlet = find(link, 0);
    if (inlet != NULL) {
        inlet->pipe = pipe;
        inlet->wire = wire;
        memcpy(inlet->from, from, sizeof inlet->from);
    } else {
        link->pipes_refused++;
    }
    link->changed = true;
    uv_mutex_unlock(&link->lock);
    (void)uv_async_send(&link->async);
    return inlet != NULL;
}

uint32_t
inlet_opened(struct mesh_link *link, struct wire *wire, const char *from)
{
    uint32_t pipe = link->last_pipe % INT32_MAX + 1;

    link->last_pipe = pipe;
    return add(link, pipe, from, wire) ? pipe : 0;
}

void
inlet_lost(struct mesh_link *link, uint32_t pipe)
{
    uv_mutex_lock(&link->lock);
    struct inlet *inlet = find(link, pipe);
    if (inlet != NULL) {
        inlet->wire = NULL;
        inlet->gone = true;
        inlet->gone_at = link->inbox_tail;
        link->changed = true;
    }
    uv_mutex_unlock(&link->lock);
    (void)uv_async_send(&link->async);
}

static bool
has_room(const struct mesh_link *link)
{
    return link->inbox_tail - link->inbox_head < link->limits.inbox_frames &&
           link->inbox_bytes < link->limits.inbox_bytes;
}

bool
inlet_has_room(struct mesh_link *link)
{
    uv_mutex_lock(&link->lock);
    bool room = has_room(link);
    link->pauses += link->armed && !room;
    link->armed = room;
    uv_mutex_unlock(&link->lock);
    return room;
}

/* Under the lock. */
static void
put(struct mesh_link *link, struct message *msg)
{
    uint32_t at = (uint32_t)(link->inbox_tail++ % link->limits.inbox_frames);
    uint32_t count = (uint32_t)(link->inbox_tail - link->inbox_head);

    link->inbox[at] = msg;
    link->inbox_bytes += msg->len;
    if (count > link->inbox_peak) {
        link->inbox_peak = count;
    }
    if (link->inbox_bytes > link->inbox_peak_bytes) {
        link->inbox_peak_bytes = link->inbox_bytes;
    }
}

void
inlet_put(struct mesh_link *link, struct message *msg)
{
    uv_mutex_lock(&link->lock);
    put(link, msg);
    uv_mutex_unlock(&link->lock);
    (void)uv_async_send(&link->async);
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

/* The loop begins to track a new connection. */
static void
see(struct mesh_link *link, struct inlet *inlet)
{
    if (!inlet->seen) {
        inlet->seen = true;
        inlet->id = inlet->pipe;
        inlet->added_us = link_now_us(link);
        inlet->heard_us = inlet->added_us;
    }
}

struct taken {
    struct message *msg;
    struct inlet *inlet; /* NULL: from a connection that was refused */
};

static uint32_t
take(struct mesh_link *link, struct taken *taken)
{
    uint32_t count = 0;

    uv_mutex_lock(&link->lock);
    while (count < TAKE_MAX && link->inbox_head < link->inbox_tail) {
        uint32_t at =
            (uint32_t)(link->inbox_head++ % link->limits.inbox_frames);
        struct message *msg = link->inbox[at];
        struct inlet *inlet = find(link, msg->pipe);
        link->inbox_bytes -= msg->len;
        if (inlet != NULL) {
            see(link, inlet);
        }
        taken[count++] = (struct taken){msg, inlet};
    }
    uv_mutex_unlock(&link->lock);
    return count;
}

void
inlet_drain(struct mesh_link *link)
{
    struct taken taken[TAKE_MAX];
    uint32_t total = 0;
    uint32_t count;

    do {
        count = take(link, taken);
        for (uint32_t i = 0; i < count; i++) {
            if (taken[i].inlet != NULL) {
                link_judge(link, taken[i].inlet, taken[i].msg);
            }
            free(taken[i].msg);
        }
        total += count;
        inlet_arm(link);
    } while (count == TAKE_MAX && total < DRAIN_MAX);
    if (count == TAKE_MAX) {
        (void)uv_async_send(&link->async); /* let the loop's other work go
                                              first */
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

        uv_mutex_lock(&link->lock);
        bool there = inlet->pipe != 0;
        bool over = there && inlet->gone && link->inbox_head >= inlet->gone_at;
        if (there) {
            see(link, inlet);
        }
        /* Some of its messages are not delivered yet: look again. */
        link->changed = link->changed || (there && inlet->gone && !over);
        uv_mutex_unlock(&link->lock);
        if (over && inlet->peer != NULL) {
            peer_unheard(inlet->peer, inlet, "the connection broke");
        }
        if (over) {
            uv_mutex_lock(&link->lock);
            *inlet = (struct inlet){.pipe = 0};
            uv_mutex_unlock(&link->lock);
        }
    }
}

void
inlet_tick(struct mesh_link *link, uint64_t now_us)
{
    uint64_t hello_us = (uint64_t)link->limits.hello_ms * 1000;
    uint64_t silent_us = (uint64_t)link->limits.silent_ms * 1000;

    for (uint32_t i = 0; i < link->inlets_max; i++) {
        struct inlet *inlet = &link->inlets[i];

        if (!inlet->seen || inlet->closed) {
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
