#include "mesh/link_inner.h"

#include <nng/protocol/pipeline0/push.h>
#include <stdio.h>
#include <stdlib.h>

/* NNG shall not redial by itself, ever. */
#define NEVER_MS (24 * 60 * 60 * 1000)

static void
on_add_pre(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct wire *wire = arg;

    (void)event;
    uv_mutex_lock(&wire->link->lock);
    bool wanted = wire->lane != NULL && wire->pipe == 0;
    if (wanted) {
        wire->pipe = (uint32_t)nng_pipe_id(pipe);
    }
    uv_mutex_unlock(&wire->link->lock);
    if (!wanted) {
        (void)nng_pipe_close(pipe); /* NNG redialled, or we gave up */
    }
}

static void
on_add_post(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct wire *wire = arg;

    (void)event;
    uv_mutex_lock(&wire->link->lock);
    if (wire->lane != NULL && wire->pipe == (uint32_t)nng_pipe_id(pipe)) {
        lane_on_attached(wire->lane);
    }
    uv_mutex_unlock(&wire->link->lock);
    (void)uv_async_send(&wire->link->async);
}

/* Before NNG frees the connection; it waits for us. */
static void
on_remove(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct wire *wire = arg;

    (void)event;
    uv_mutex_lock(&wire->link->lock);
    bool ours = wire->pipe == (uint32_t)nng_pipe_id(pipe);
    if (ours && wire->lane != NULL) {
        lane_on_broken(wire->lane);
    }
    uv_mutex_unlock(&wire->link->lock);
    if (ours) {
        uv_mutex_lock(&wire->calls);
        wire->lost = true;
        uv_mutex_unlock(&wire->calls);
    }
    (void)uv_async_send(&wire->link->async);
}

void
link_message_free(struct mesh_link *link, nng_msg *msg)
{
    CHECK(link->messages > 0);
    link->messages--;
    nng_msg_free(msg);
}

/* NNG took the message, or could not. Takes the next one at once. */
static void
on_sent(void *arg)
{
    struct wire *wire = arg;
    nng_msg *next = NULL;
    bool sent = nng_aio_result(wire->aio) == 0;
    bool wake = false;

    uv_mutex_lock(&wire->link->lock);
    if (sent) {
        wire->link->messages--; /* NNG's */
    } else {
        link_message_free(wire->link, nng_aio_get_msg(wire->aio));
        nng_aio_set_msg(wire->aio, NULL);
    }
    if (wire->lane != NULL) {
        wake = lane_on_sent(wire->lane, sent, &next);
    }
    uv_mutex_unlock(&wire->link->lock);
    if (next != NULL) {
        wire_send(wire, next);
    }
    if (wake) {
        (void)uv_async_send(&wire->link->async);
    }
}

void
wire_send(struct wire *wire, nng_msg *msg)
{
    uv_mutex_lock(&wire->calls);
    bool lost = wire->lost;
    if (!lost) {
        nng_aio_set_msg(wire->aio, msg);
        nng_send_aio(wire->socket, wire->aio);
    }
    uv_mutex_unlock(&wire->calls);
    if (lost) { /* and the lane is broken */
        uv_mutex_lock(&wire->link->lock);
        link_message_free(wire->link, msg);
        uv_mutex_unlock(&wire->link->lock);
    }
}

static int
set_up(struct wire *wire)
{
    nng_socket socket = wire->socket;
    int rv;

    if ((rv = nng_socket_set_int(socket, NNG_OPT_SENDBUF, 0)) != 0 ||
        (rv = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ,
                                  FRAME_HEAD_SIZE)) != 0 ||
        (rv = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, NEVER_MS)) != 0 ||
        (rv = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, on_add_pre, wire)) !=
            0 ||
        (rv = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, on_add_post,
                              wire)) != 0) {
        return rv;
    }
    return nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, on_remove, wire);
}

static int
start(struct wire *wire, const char *address)
{
    struct mesh_link *link = wire->link;
    char url[MESH_ADDRESS_MAX + 16];
    int rv;

    (void)snprintf(url, sizeof url, "%s%s", link->tls ? "tls+tcp://" : "tcp://",
                   address);
    if ((rv = nng_dialer_create(&wire->dialer, wire->socket, url)) != 0 ||
        (link->tls && (rv = nng_dialer_set_ptr(wire->dialer, NNG_OPT_TLS_CONFIG,
                                               link->tls_client)) != 0)) {
        return rv;
    }
    return nng_dialer_start(wire->dialer, NNG_FLAG_NONBLOCK);
}

struct wire *
wire_open(struct lane *lane, const char *address)
{
    struct wire *wire = calloc(1, sizeof *wire);

    if (wire == NULL) {
        return NULL;
    }
    wire->link = lane->link;
    wire->lane = lane;
    CHECK(uv_mutex_init(&wire->calls) == 0);
    if (nng_push0_open(&wire->socket) != 0 ||
        nng_aio_alloc(&wire->aio, on_sent, wire) != 0 || set_up(wire) != 0 ||
        start(wire, address) != 0) {
        wire_retire(wire);
        return NULL;
    }
    return wire;
}

void
wire_retire(struct wire *wire)
{
    struct mesh_link *link = wire->link;

    uv_mutex_lock(&link->lock);
    wire->lane = NULL;
    uv_mutex_unlock(&link->lock);
    wire->next = link->retired;
    link->retired = wire;
    link->retired_count++;
    sweep(link);
}

/*
 * Nothing is sent any more. First the frame that waits is taken back: a dying
 * connection may swallow it.
 */
static bool
stop(const struct wire *batch)
{
    bool open = false;

    for (const struct wire *wire = batch; wire != NULL; wire = wire->next) {
        if (wire->aio != NULL) {
            nng_aio_stop(wire->aio);
        }
        open = open || wire->pipe != 0;
    }
    return open;
}

static void
close_all(const struct wire *batch)
{
    for (const struct wire *wire = batch; wire != NULL; wire = wire->next) {
        if (wire->dialer.id != 0) {
            (void)nng_dialer_close(wire->dialer); /* does not wait */
        }
    }
    for (const struct wire *wire = batch; wire != NULL; wire = wire->next) {
        if (nng_socket_id(wire->socket) > 0) {
            (void)nng_close(wire->socket);
        }
    }
}

static void
free_all(struct wire *batch)
{
    while (batch != NULL) {
        struct wire *wire = batch;
        batch = wire->next;
        /* What was given to it after it stopped came to nothing. */
        nng_msg *msg = wire->aio != NULL ? nng_aio_get_msg(wire->aio) : NULL;
        if (msg != NULL) {
            uv_mutex_lock(&wire->link->lock);
            link_message_free(wire->link, msg);
            uv_mutex_unlock(&wire->link->lock);
        }
        nng_aio_free(wire->aio);
        uv_mutex_destroy(&wire->calls);
        free(wire);
    }
}

/* On a thread of libuv's pool; one such work at a time. */
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
        link_closed(link);
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
