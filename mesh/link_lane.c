#include "mesh/link_inner.h"

#include <errno.h>
#include <nng/protocol/pipeline0/push.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELLOS_ROOM 4U

/* NNG shall not redial by itself, ever. */
#define NEVER_MS (24 * 60 * 60 * 1000)

int
link_errno(int rv)
{
    static const struct {
        int nng;
        int os;
    } table[] = {
        {NNG_ENOMEM, -ENOMEM},
        {NNG_EADDRINUSE, -EADDRINUSE},
        {NNG_EADDRINVAL, -EADDRNOTAVAIL},
        {NNG_EPERM, -EACCES},
        {NNG_ENOFILES, -EMFILE},
        {NNG_ENOTSUP, -ENOTSUP},
        {NNG_EINVAL, -EINVAL},
        {NNG_ECRYPTO, -EBADMSG},
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].nng == rv) {
            return table[i].os;
        }
    }
    return rv == 0 ? 0 : -EIO;
}

/* Marked, so that the loop looks; under the lock. */
static void
note(struct lane *lane)
{
    lane->link->changed = true;
}

static void
lane_on_add_pre(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct lane *lane = arg;

    (void)event;
    uv_mutex_lock(&lane->link->lock);
    bool wanted = lane->expecting && lane->pipe == 0;
    if (wanted) {
        lane->expecting = false;
        lane->pipe = (uint32_t)nng_pipe_id(pipe);
    }
    uv_mutex_unlock(&lane->link->lock);
    if (!wanted) {
        (void)nng_pipe_close(pipe); /* of a dialer that was given up */
    }
}

static void
lane_on_add_post(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct lane *lane = arg;

    (void)event;
    uv_mutex_lock(&lane->link->lock);
    if (lane->pipe == (uint32_t)nng_pipe_id(pipe)) {
        lane->attached = true;
        note(lane);
    }
    uv_mutex_unlock(&lane->link->lock);
    (void)uv_async_send(&lane->link->async);
}

static void
lane_on_remove(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct lane *lane = arg;

    (void)event;
    uv_mutex_lock(&lane->link->lock);
    if (lane->pipe == (uint32_t)nng_pipe_id(pipe)) {
        lane->pipe = 0;
        lane->attached = false;
        lane->greeted = false;
        lane->broken = true;
        note(lane);
    }
    uv_mutex_unlock(&lane->link->lock);
    (void)uv_async_send(&lane->link->async);
}

/* The oldest frame, or NULL; under the lock. */
static nng_msg *
pop(struct lane *lane)
{
    if (lane->count == 0) {
        return NULL;
    }
    nng_msg *msg = lane->queue[lane->head].msg;
    lane->head = (lane->head + 1) % lane->room;
    lane->count--;
    lane->bytes -= nng_msg_len(msg);
    return msg;
}

/* NNG took the message, or could not. Takes the next one at once. */
static void
lane_on_sent(void *arg)
{
    struct lane *lane = arg;
    int rv = nng_aio_result(lane->aio);
    nng_msg *next = NULL;
    bool wake = rv != 0;

    if (rv != 0) {
        nng_msg_free(nng_aio_get_msg(lane->aio));
        nng_aio_set_msg(lane->aio, NULL);
    }
    uv_mutex_lock(&lane->link->lock);
    if (rv == 0) {
        lane->sent_frames++;
        next = lane->greeted ? pop(lane) : NULL;
    }
    lane->sending = next != NULL;
    if (lane->lagging && next == NULL) {
        lane->drained = true;
        wake = true;
    }
    if (next != NULL) {
        lane->sent_bytes += nng_msg_len(next);
    }
    if (wake) {
        note(lane);
    }
    uv_mutex_unlock(&lane->link->lock);
    if (next != NULL) {
        nng_aio_set_msg(lane->aio, next);
        nng_send_aio(lane->socket, lane->aio);
    }
    if (wake) {
        (void)uv_async_send(&lane->link->async);
    }
}

static int
set_up(struct lane *lane)
{
    nng_socket socket = lane->socket;
    int rv;

    if ((rv = nng_socket_set_int(socket, NNG_OPT_SENDBUF, 0)) != 0 ||
        (rv = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ,
                                  FRAME_HEAD_SIZE)) != 0 ||
        (rv = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, NEVER_MS)) != 0 ||
        (rv = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, lane_on_add_pre,
                              lane)) != 0 ||
        (rv = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, lane_on_add_post,
                              lane)) != 0) {
        return rv;
    }
    return nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, lane_on_remove, lane);
}

int
lane_open(struct lane *lane, struct peer *peer, enum mesh_lane kind)
{
    const struct mesh_link_limits *limits = &peer->link->limits;
    bool bulk = kind == MESH_BULK;
    int rv;

    *lane = (struct lane){
        .link = peer->link,
        .peer = peer,
        .kind = kind,
        .frames_max = bulk ? limits->bulk_frames : limits->ctl_frames,
        .bytes_max = bulk ? limits->bulk_bytes : SIZE_MAX,
        .sequence = peer->link->sequence_floor,
    };
    lane->room = lane->frames_max + HELLOS_ROOM;
    lane->queue = calloc(lane->room, sizeof lane->queue[0]);
    if (lane->queue == NULL) {
        return -ENOMEM;
    }
    if ((rv = nng_push0_open(&lane->socket)) != 0) {
        return link_errno(rv);
    }
    if ((rv = nng_aio_alloc(&lane->aio, lane_on_sent, lane)) == 0) {
        rv = set_up(lane);
    }
    return link_errno(rv);
}

void
lane_shut(struct lane *lane)
{
    if (lane->aio != NULL) {
        nng_aio_stop(lane->aio);
    }
    if (nng_socket_id(lane->socket) > 0) {
        (void)nng_close(lane->socket);
    }
    if (lane->aio != NULL) {
        /* What was given to it after it stopped came to nothing. */
        if (nng_aio_get_msg(lane->aio) != NULL) {
            nng_msg_free(nng_aio_get_msg(lane->aio));
        }
        nng_aio_free(lane->aio);
        lane->aio = NULL;
    }
}

void
lane_fini(struct lane *lane)
{
    nng_msg *msg;

    CHECK(lane->aio == NULL);
    while (lane->queue != NULL && (msg = pop(lane)) != NULL) {
        nng_msg_free(msg);
    }
    free(lane->queue);
    lane->queue = NULL;
}

/* Drops all that waits; returns how many. Under the lock. */
static uint32_t
drop_all(struct lane *lane)
{
    uint32_t count = 0;
    nng_msg *msg;

    while ((msg = pop(lane)) != NULL) {
        nng_msg_free(msg);
        count++;
    }
    return count;
}

/* Whether a frame of this size may wait. Bulk that may not is dropped. */
static bool
make_room(struct lane *lane, size_t size)
{
    struct mesh_link *link = lane->link;
    uint32_t dropped = 0;

    uv_mutex_lock(&link->lock);
    bool full = lane->lagging || lane->count >= lane->frames_max ||
                (lane->count > 0 && lane->bytes + size > lane->bytes_max);
    if (full && lane->kind == MESH_BULK && !lane->lagging) {
        dropped = drop_all(lane);
        lane->lagging = true;
        lane->drained = !lane->sending;
        note(lane);
    }
    uv_mutex_unlock(&link->lock);
    if (dropped > 0) {
        (void)uv_async_send(&link->async);
    }
    link->stats.frames_dropped += dropped;
    link->stats.sends_full += full;
    return !full;
}

/* To NNG when it is idle, else to the queue; hellos go first. */
static void
put(struct lane *lane, nng_msg *msg, bool first)
{
    struct mesh_link *link = lane->link;

    uv_mutex_lock(&link->lock);
    bool start = lane->greeted && !lane->sending;
    bool fits = lane->count < lane->room;
    if (start) {
        CHECK(lane->count == 0);
        lane->sending = true;
        lane->sent_bytes += nng_msg_len(msg);
    } else if (fits) {
        uint32_t at =
            first ? lane->head + lane->room - 1 : lane->head + lane->count;
        lane->head = first ? at % lane->room : lane->head;
        lane->queue[at % lane->room] = (struct waiting){
            .msg = msg, .at_us = link_now_us(link), .hello = first};
        lane->count++;
        lane->bytes += nng_msg_len(msg);
    }
    uv_mutex_unlock(&link->lock);
    if (start) {
        nng_aio_set_msg(lane->aio, msg);
        nng_send_aio(lane->socket, lane->aio);
    } else if (!fits) {
        nng_msg_free(msg); /* a hello; another one follows with what changes */
    }
    lane->spoke_us = link_now_us(link);
}

/* NULL: out of memory. */
static nng_msg *
build(const struct lane *lane, enum frame_type type, uint64_t sequence,
      struct slice body)
{
    const struct frame frame = {.major = FRAME_MAJOR_MIN,
                                .minor = FRAME_MINOR,
                                .type = (uint8_t)type,
                                .session = lane->link->session,
                                .sequence = sequence};
    size_t size = FRAME_HEAD_SIZE + body.len;
    nng_msg *msg;

    if (nng_msg_alloc(&msg, size) != 0) {
        return NULL;
    }
    uint8_t *bytes = nng_msg_body(msg);
    if (body.len > 0) {
        memcpy(bytes + FRAME_HEAD_SIZE, body.ptr, body.len);
    }
    frame_seal(&frame, bytes, size);
    return msg;
}

int
lane_send(struct lane *lane, struct slice body)
{
    if (!make_room(lane, FRAME_HEAD_SIZE + body.len)) {
        return MESH_LINK_E_FULL;
    }
    nng_msg *msg = build(lane, FRAME_DATA, lane->sequence + 1, body);
    if (msg == NULL) {
        return -ENOMEM;
    }
    lane->sequence++;
    put(lane, msg, false);
    return 0;
}

void
lane_say(struct lane *lane, enum frame_type type, struct slice body)
{
    nng_msg *msg = build(lane, type, 0, body);

    if (msg != NULL) {
        put(lane, msg, type == FRAME_HELLO);
    }
}

/* A time around ms, so that nodes do not dial in step. */
static uint64_t
jitter_us(struct lane *lane, uint32_t ms)
{
    uint64_t us = (uint64_t)ms * 1000;

    return us - us / 4 + rng_below(&lane->link->rng, us / 2 + 1);
}

void
lane_break(struct lane *lane, uint32_t wait_ms)
{
    struct mesh_link *link = lane->link;
    uint32_t dropped = 0;

    if (lane->peer->closing) {
        return;
    }
    uv_mutex_lock(&link->lock);
    lane->expecting = false;
    lane->pipe = 0;
    lane->attached = false;
    lane->greeted = false;
    lane->broken = false;
    lane->lagging = false;
    lane->drained = false;
    if (lane->kind == MESH_BULK) {
        dropped = drop_all(lane);
    }
    uv_mutex_unlock(&link->lock);
    link->stats.frames_dropped += dropped;
    lane->echoed = false;
    lane->nonce = 0;
    if (lane->dialer.id != 0) {
        (void)nng_dialer_close(lane->dialer);
        lane->dialer.id = 0;
    }
    nng_aio_cancel(lane->aio);
    lane->dial_us = link_now_us(link) + jitter_us(lane, wait_ms);
}

bool
lane_is_greeted(struct lane *lane)
{
    uv_mutex_lock(&lane->link->lock);
    bool greeted = lane->greeted;
    uv_mutex_unlock(&lane->link->lock);
    return greeted;
}

/* Hellos of the last connection (they are in front), and frames that waited
 * too long for this one. */
static void
drop_stale(struct lane *lane)
{
    struct mesh_link *link = lane->link;
    uint64_t stale_us = (uint64_t)link->limits.stale_ms * 1000;
    uint64_t now_us = link_now_us(link);

    uv_mutex_lock(&link->lock);
    while (lane->count > 0) {
        const struct waiting *oldest = &lane->queue[lane->head];
        if (!oldest->hello && now_us - oldest->at_us <= stale_us) {
            break;
        }
        link->stats.frames_stale += !oldest->hello;
        nng_msg_free(pop(lane));
    }
    uv_mutex_unlock(&link->lock);
}

/* The connection is there: our hello, then what waited. */
static void
greet(struct lane *lane)
{
    struct mesh_link *link = lane->link;

    drop_stale(lane);
    peer_say_hello(lane->peer, lane->kind); /* to the front of the queue */
    uv_mutex_lock(&link->lock);
    nng_msg *hello = lane->attached && !lane->sending ? pop(lane) : NULL;
    if (hello != NULL) {
        lane->greeted = true;
        lane->sending = true;
        lane->sent_bytes += nng_msg_len(hello);
    }
    uv_mutex_unlock(&link->lock);
    if (hello != NULL) {
        nng_aio_set_msg(lane->aio, hello);
        nng_send_aio(lane->socket, lane->aio);
    }
    lane->since_us = link_now_us(link);
}

const char *
lane_news(struct lane *lane)
{
    struct mesh_link *link = lane->link;

    if (lane->peer->closing) {
        return NULL;
    }
    uv_mutex_lock(&link->lock);
    bool broken = lane->broken;
    bool fresh = lane->attached && !lane->greeted;
    bool resumed = lane->drained && !broken;
    if (resumed) {
        lane->drained = false;
        lane->lagging = false;
    }
    uv_mutex_unlock(&link->lock);
    if (broken) {
        lane_break(lane, link->limits.redial_ms / 4);
        return "the connection broke";
    }
    if (fresh) {
        greet(lane);
    }
    if (resumed) {
        link->sink.resumed(link->sink.context, lane->peer->address);
    }
    return NULL;
}

static void
dial(struct lane *lane, uint64_t now_us)
{
    struct mesh_link *link = lane->link;
    const struct mesh_link_limits *limits = &link->limits;
    bool slow =
        !lane->peer->up && now_us - lane->peer->down_us >
                               (uint64_t)limits->redial_slow_after_ms * 1000;
    char url[MESH_ADDRESS_MAX + 16];

    if (lane->dialer.id != 0) {
        (void)nng_dialer_close(lane->dialer);
        lane->dialer.id = 0;
    }
    (void)snprintf(url, sizeof url, "%s%s", link->tls ? "tls+tcp://" : "tcp://",
                   lane->peer->address);
    lane->dial_us = now_us + jitter_us(lane, slow ? limits->redial_slow_ms
                                                  : limits->redial_ms);
    lane->nonce = rng_next(&link->rng) | 1;
    link->stats.dials++;
    if (nng_dialer_create(&lane->dialer, lane->socket, url) != 0) {
        lane->dialer.id = 0;
        return;
    }
    if (link->tls && nng_dialer_set_ptr(lane->dialer, NNG_OPT_TLS_CONFIG,
                                        link->tls_client) != 0) {
        return; /* without it there shall be no connection */
    }
    uv_mutex_lock(&link->lock);
    lane->expecting = true;
    uv_mutex_unlock(&link->lock);
    (void)nng_dialer_start(lane->dialer, NNG_FLAG_NONBLOCK);
}

void
lane_tick(struct lane *lane, uint64_t now_us)
{
    struct mesh_link *link = lane->link;
    const struct mesh_link_limits *limits = &link->limits;

    uv_mutex_lock(&link->lock);
    bool connected = lane->pipe != 0;
    bool attached = lane->attached;
    bool broken = lane->broken;
    bool greeted = lane->greeted;
    bool sending = lane->sending;
    bool quiet = greeted && !sending && lane->count == 0;
    uv_mutex_unlock(&link->lock);
    if (broken || (connected && !attached)) {
        return; /* news are on their way */
    }
    if (!attached) {
        if (sending) {
            nng_aio_cancel(lane->aio); /* meant for the last connection */
        } else if (now_us >= lane->dial_us) {
            dial(lane, now_us);
        }
        return;
    }
    if (!greeted) {
        if (!sending) {
            greet(lane);
        }
        return;
    }
    if (!lane->echoed &&
        now_us - lane->since_us > (uint64_t)limits->silent_ms * 1000) {
        lane_break(lane, limits->redial_ms);
    } else if (quiet &&
               now_us - lane->spoke_us >= (uint64_t)limits->idle_ms * 1000) {
        lane_say(lane, FRAME_IDLE, (struct slice){NULL, 0});
    }
}
