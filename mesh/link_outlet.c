/* One outbound connection, from dialling to closing. */
#include "mesh/link_wire_internal.h"

#include <nng/protocol/pipeline0/push.h>
#include <stdio.h>
#include <stdlib.h>

/* NNG must never redial by itself. */
#define NEVER_MS (24 * 60 * 60 * 1000)

static void
on_add_pre(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct outlet *outlet = arg;

    (void)event;
    uv_mutex_lock(&outlet->link->lock);
    bool wanted = outlet->channel != NULL && outlet->pipe == 0;
    if (wanted) {
        outlet->pipe = (uint32_t)nng_pipe_id(pipe);
    }
    uv_mutex_unlock(&outlet->link->lock);
    if (!wanted) {
        (void)nng_pipe_close(pipe); /* NNG redialled, or we gave up the
                                       outlet */
    }
}

static void
on_add_post(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct outlet *outlet = arg;

    (void)event;
    uv_mutex_lock(&outlet->link->lock);
    if (outlet->channel != NULL &&
        outlet->pipe == (uint32_t)nng_pipe_id(pipe)) {
        channel_on_attached(outlet->channel);
    }
    uv_mutex_unlock(&outlet->link->lock);
    (void)uv_async_send(&outlet->link->async);
}

/* NNG calls this before it frees the connection, and waits for us. */
static void
on_remove(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct outlet *outlet = arg;

    (void)event;
    uv_mutex_lock(&outlet->link->lock);
    bool ours = outlet->pipe == (uint32_t)nng_pipe_id(pipe);
    if (ours && outlet->channel != NULL) {
        channel_on_broken(outlet->channel);
    }
    uv_mutex_unlock(&outlet->link->lock);
    if (ours) {
        uv_mutex_lock(&outlet->calls);
        outlet->lost = true;
        uv_mutex_unlock(&outlet->calls);
    }
    (void)uv_async_send(&outlet->link->async);
}

void
link_message_free(struct mesh_link *link, nng_msg *msg)
{
    CHECK(link->messages > 0);
    link->messages--;
    nng_msg_free(msg);
}

/* NNG took the message, or could not. Sends the next one at once. */
static void
on_sent(void *arg)
{
    struct outlet *outlet = arg;
    nng_msg *next = NULL;
    bool sent = nng_aio_result(outlet->aio) == 0;
    bool wake = false;

    uv_mutex_lock(&outlet->link->lock);
    if (sent) {
        outlet->link->messages--; /* now owned by NNG */
    } else {
        link_message_free(outlet->link, nng_aio_get_msg(outlet->aio));
        nng_aio_set_msg(outlet->aio, NULL);
    }
    if (outlet->channel != NULL) {
        wake = channel_on_sent(outlet->channel, sent, &next);
    }
    uv_mutex_unlock(&outlet->link->lock);
    if (next != NULL) {
        outlet_send(outlet, next);
    }
    if (wake) {
        (void)uv_async_send(&outlet->link->async);
    }
}

static void
drop(struct outlet *outlet, nng_msg *msg)
{
    uv_mutex_lock(&outlet->link->lock);
    link_message_free(outlet->link, msg);
    uv_mutex_unlock(&outlet->link->lock);
}

void
outlet_send(struct outlet *outlet, nng_msg *msg)
{
    if (outlet->wire != NULL) {
        wire_send(outlet->wire, msg);
        return;
    }
    if (outlet->link->tls) {
        drop(outlet, msg); /* it is lost, and the channel is broken */
        return;
    }
    uv_mutex_lock(&outlet->calls);
    bool lost = outlet->lost;
    if (!lost) {
        nng_aio_set_msg(outlet->aio, msg);
        nng_send_aio(outlet->socket, outlet->aio);
    }
    uv_mutex_unlock(&outlet->calls);
    if (lost) { /* then the channel is broken, too */
        drop(outlet, msg);
    }
}

/* With TLS: the wire's. */

void
outlet_opened(struct outlet *outlet)
{
    uv_mutex_lock(&outlet->link->lock);
    channel_on_attached(outlet->channel);
    uv_mutex_unlock(&outlet->link->lock);
    (void)uv_async_send(&outlet->link->async);
}

void
outlet_lost(struct outlet *outlet)
{
    outlet->wire = NULL;
    uv_mutex_lock(&outlet->link->lock);
    channel_on_broken(outlet->channel);
    uv_mutex_unlock(&outlet->link->lock);
    (void)uv_async_send(&outlet->link->async);
}

void
outlet_wrote(struct outlet *outlet, nng_msg *msg)
{
    nng_msg *next = NULL;

    uv_mutex_lock(&outlet->link->lock);
    link_message_free(outlet->link, msg);
    bool wake = channel_on_sent(outlet->channel, true, &next);
    uv_mutex_unlock(&outlet->link->lock);
    if (next != NULL) {
        wire_send(outlet->wire, next);
    }
    if (wake) {
        (void)uv_async_send(&outlet->link->async);
    }
}

/* Without TLS: NNG's. */

static int
set_up(struct outlet *outlet)
{
    nng_socket socket = outlet->socket;
    int rv;

    if ((rv = nng_socket_set_int(socket, NNG_OPT_SENDBUF, 0)) != 0 ||
        (rv = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ,
                                  FRAME_HEAD_SIZE)) != 0 ||
        (rv = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, NEVER_MS)) != 0 ||
        (rv = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, on_add_pre,
                              outlet)) != 0 ||
        (rv = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, on_add_post,
                              outlet)) != 0) {
        return rv;
    }
    return nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, on_remove, outlet);
}

static int
start(struct outlet *outlet, const char *address)
{
    char url[MESH_ADDRESS_MAX + 16];
    int rv;

    (void)snprintf(url, sizeof url, "tcp://%s", address);
    if ((rv = nng_dialer_create(&outlet->dialer, outlet->socket, url)) != 0) {
        return rv;
    }
    return nng_dialer_start(outlet->dialer, NNG_FLAG_NONBLOCK);
}

struct outlet *
outlet_open(struct channel *channel, const char *address)
{
    struct outlet *outlet = calloc(1, sizeof *outlet);

    if (outlet == NULL) {
        return NULL;
    }
    outlet->link = channel->link;
    outlet->channel = channel;
    CHECK(uv_mutex_init(&outlet->calls) == 0);
    if (outlet->link->tls) {
        outlet->wire = wire_dial(outlet->link, address, outlet);
        if (outlet->wire == NULL) {
            outlet_retire(outlet);
            return NULL;
        }
        return outlet;
    }
    if (nng_push0_open(&outlet->socket) != 0 ||
        nng_aio_alloc(&outlet->aio, on_sent, outlet) != 0 ||
        set_up(outlet) != 0 || start(outlet, address) != 0) {
        outlet_retire(outlet);
        return NULL;
    }
    return outlet;
}

void
outlet_retire(struct outlet *outlet)
{
    struct mesh_link *link = outlet->link;

    uv_mutex_lock(&link->lock);
    outlet->channel = NULL;
    uv_mutex_unlock(&link->lock);
    if (link->tls) {
        if (outlet->wire != NULL) {
            wire_close(outlet->wire);
        }
        uv_mutex_destroy(&outlet->calls);
        free(outlet);
        return;
    }
    outlet->next = link->retired;
    link->retired = outlet;
    link->retired_count++;
    sweep(link);
}

/*
 * Stops sending. First takes back the frame that waits, because a dying
 * connection may swallow it.
 */
static bool
stop(const struct outlet *batch)
{
    bool open = false;

    for (const struct outlet *outlet = batch; outlet != NULL;
         outlet = outlet->next) {
        if (outlet->aio != NULL) {
            nng_aio_stop(outlet->aio);
        }
        open = open || outlet->pipe != 0;
    }
    return open;
}

static void
close_all(const struct outlet *batch)
{
    for (const struct outlet *outlet = batch; outlet != NULL;
         outlet = outlet->next) {
        if (outlet->dialer.id != 0) {
            (void)nng_dialer_close(outlet->dialer); /* returns at once */
        }
    }
    for (const struct outlet *outlet = batch; outlet != NULL;
         outlet = outlet->next) {
        if (nng_socket_id(outlet->socket) > 0) {
            (void)nng_close(outlet->socket);
        }
    }
}

static void
free_all(struct outlet *batch)
{
    while (batch != NULL) {
        struct outlet *outlet = batch;
        batch = outlet->next;
        /* A message passed to it after it stopped was not sent. */
        nng_msg *msg =
            outlet->aio != NULL ? nng_aio_get_msg(outlet->aio) : NULL;
        if (msg != NULL) {
            uv_mutex_lock(&outlet->link->lock);
            link_message_free(outlet->link, msg);
            uv_mutex_unlock(&outlet->link->lock);
        }
        nng_aio_free(outlet->aio);
        uv_mutex_destroy(&outlet->calls);
        free(outlet);
    }
}

/* On a thread of libuv's pool; one such job at a time. */
static void
work_sweep(uv_work_t *work)
{
    struct mesh_link *link = work->data;
    bool open = stop(link->swept);

    if (link->swept_last) {
        inlet_stop(link);
    }
    if (open || (link->swept_last && link->listening)) {
        uv_sleep(LINK_QUIET_MS);
    }
    close_all(link->swept);
    free_all(link->swept);
    if (link->swept_last) {
        inlet_shut(link);
    }
}

static void
work_swept(uv_work_t *work, int status)
{
    struct mesh_link *link = work->data;

    CHECK(status == 0 && link->sweeping);
    link->sweeping = false;
    link->swept = NULL;
    peer_free_closed(link);
    if (link->swept_last) {
        link->swept_all = true;
        link_closed_part(link);
    } else if (link->retired != NULL || link->closing) {
        sweep(link);
    }
}

void
sweep(struct mesh_link *link)
{
    if (link->sweeping) {
        return;
    }
    link->sweeping = true;
    link->swept = link->retired;
    link->swept_last = link->closing && link->peers_count == 0;
    link->retired = NULL;
    link->retired_count = 0;
    link->work.data = link;
    CHECK(uv_queue_work(link->loop, &link->work, work_sweep, work_swept) == 0);
}
