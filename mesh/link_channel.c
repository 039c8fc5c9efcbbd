/*
 * What is sent to a peer by one of its two channels: the queue, when to dial,
 * and hellos.
 */
#include "mesh/link_wire_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Every third dial gets more time: on a busy machine the handshake may need it,
 * and the kernel repeats a SYN only after 1 s and 3 s. */
#define PATIENT_EVERY 3U
#define PATIENT_EXTRA 3U

#define HURRY_US UINT64_C(250000) /* a dial gets at least this long */

void
channel_on_attached(struct channel *channel)
{
    channel->attached = true;
    link_wake(channel->link);
}

void
channel_on_lost(struct channel *channel)
{
    uint64_t extra_us =
        PATIENT_EXTRA * ((uint64_t)channel->link->limits.redial_ms * 1000);

    channel->wire = NULL;
    if (channel->attached) {
        channel->attached = false;
        channel->greeted = false;
        channel->broken = true;
        link_wake(channel->link);
    } else if (channel->tries % PATIENT_EVERY == 0) {
        /* The dial failed: it is not waited for longer than usual. */
        channel->dial_us -=
            extra_us < channel->dial_us ? extra_us : channel->dial_us;
    }
}

/* Takes the oldest frame, or NULL. */
static struct message *
pop(struct channel *channel)
{
    CHECK(channel->count <= channel->room && channel->head < channel->room);
    if (channel->count == 0) {
        return NULL;
    }
    struct message *msg = channel->queue[channel->head].msg;
    channel->head = (channel->head + 1) % channel->room;
    channel->count--;
    CHECK(channel->bytes >= msg->len);
    channel->bytes -= msg->len;
    return msg;
}

struct message *
channel_on_sent(struct channel *channel)
{
    struct message *next = channel->greeted ? pop(channel) : NULL;

    channel->sent_frames++;
    channel->sent_bytes += next != NULL ? next->len : 0;
    channel->sending = next != NULL;
    if (channel->lagging && next == NULL) {
        channel->drained = true;
        link_wake(channel->link);
    }
    return next;
}

int
channel_open(struct channel *channel, struct peer *peer, enum mesh_channel kind)
{
    const struct mesh_link_limits *limits = &peer->link->limits;
    bool bulk = kind == MESH_BULK;

    CHECK(kind < MESH_CHANNELS);
    *channel = (struct channel){
        .link = peer->link,
        .peer = peer,
        .kind = kind,
        .frames_max = bulk ? limits->bulk_frames : limits->ctl_frames,
        /* All workers go out at once: 1,024 of 4 KiB, and what else there is. */
        .bytes_max = bulk ? limits->queue_bytes : 2 * limits->queue_bytes,
        .sequence = peer->link->sequence_floor,
        .patience_us = channel_patience_us(limits),
    };
    channel->room = channel->frames_max + 1; /* and a hello */
    channel->queue = calloc(channel->room, sizeof channel->queue[0]);
    return channel->queue != NULL ? 0 : -ENOMEM;
}

void
channel_fini(struct channel *channel)
{
    CHECK(channel->wire == NULL && channel->count == 0);
    free(channel->queue);
    channel->queue = NULL;
}

/* Drops all waiting frames and returns how many there were. */
static uint32_t
drop_all(struct channel *channel)
{
    uint32_t count = 0;
    struct message *msg;

    while ((msg = pop(channel)) != NULL) {
        free(msg);
        count++;
    }
    CHECK(channel->count == 0 && channel->bytes == 0);
    return count;
}

void
channel_close(struct channel *channel)
{
    if (channel->wire != NULL) {
        wire_close(channel->wire);
        channel->wire = NULL;
    }
    (void)drop_all(channel);
}

/* Whether there is room for a frame of this size. If not, bulk is dropped. */
static bool
make_room(struct channel *channel, size_t size)
{
    struct mesh_link *link = channel->link;

    CHECK(size >= FRAME_HEAD_SIZE);
    bool full =
        channel->lagging || channel->count >= channel->frames_max ||
        (channel->count > 0 && channel->bytes + size > channel->bytes_max);
    if (full && channel->kind == MESH_BULK && !channel->lagging) {
        link->stats.frames_dropped += drop_all(channel);
        channel->lagging = true;
        channel->drained = !channel->sending;
        link_wake(link);
    }
    link->stats.sends_full += full;
    return !full;
}

/* Queues a frame. A hello goes to the front and replaces an older one. */
static void
enqueue(struct channel *channel, struct message *msg, bool hello)
{
    uint32_t at = (channel->head + channel->count) % channel->room;

    if (hello && channel->count > 0 && channel->queue[channel->head].hello) {
        free(pop(channel));
    }
    if (hello) {
        channel->head = (channel->head + channel->room - 1) % channel->room;
        at = channel->head;
    }
    CHECK(channel->count < channel->room);
    channel->queue[at] = (struct waiting){
        .msg = msg, .at_us = link_now_us(channel->link), .hello = hello};
    channel->count++;
    channel->bytes += msg->len;
}

/* Passes the frame to the connection if it is idle, and queues it otherwise. */
static void
put(struct channel *channel, struct message *msg, bool hello)
{
    if (channel->greeted && !channel->sending) {
        CHECK(channel->count == 0);
        channel->sending = true;
        channel->sent_bytes += msg->len;
        wire_send(channel->wire, msg);
    } else {
        enqueue(channel, msg, hello);
    }
    channel->spoke_us = link_now_us(channel->link);
}

/* NULL: out of memory. */
static struct message *
build(struct channel *channel, enum frame_type type, uint64_t sequence,
      struct slice body)
{
    const struct frame frame = {.major = FRAME_MAJOR_MIN,
                                .minor = FRAME_MINOR,
                                .type = (uint8_t)type,
                                .session = channel->link->session,
                                .sequence = sequence};
    size_t size = FRAME_HEAD_SIZE + body.len;
    struct message *msg;

    CHECK(body.ptr != NULL || body.len == 0);
    if ((msg = message_new(size)) == NULL) {
        return NULL;
    }
    uint8_t *bytes = msg->bytes;
    if (body.len > 0) {
        memcpy(bytes + FRAME_HEAD_SIZE, body.ptr, body.len);
    }
    frame_seal(&frame, bytes, size);
    return msg;
}

int
channel_send(struct channel *channel, struct slice body)
{
    if (!make_room(channel, FRAME_HEAD_SIZE + body.len)) {
        return MESH_LINK_E_FULL;
    }
    struct message *msg =
        build(channel, FRAME_DATA, channel->sequence + 1, body);
    if (msg == NULL) {
        return -ENOMEM;
    }
    channel->sequence++;
    put(channel, msg, false);
    return 0;
}

void
channel_say(struct channel *channel, enum frame_type type, struct slice body)
{
    bool hello = type == FRAME_HELLO;
    struct message *msg =
        build(channel, type, hello ? ++channel->link->hellos : 0, body);

    CHECK(type == FRAME_HELLO || type == FRAME_IDLE);
    if (msg != NULL) {
        put(channel, msg, hello);
    }
}

/* A random time around ms, so that nodes do not dial in step. */
static uint64_t
jitter_us(struct channel *channel, uint32_t ms)
{
    uint64_t us = (uint64_t)ms * 1000;

    return us - us / 4 + rng_below(&channel->link->rng, us / 2 + 1);
}

/* There is no connection, and no dial in progress. */
static void
let_go(struct channel *channel)
{
    struct mesh_link *link = channel->link;

    if (channel->wire != NULL) {
        wire_close(channel->wire); /* from now on it reports nothing */
        channel->wire = NULL;
    }
    channel->attached = false;
    channel->greeted = false;
    channel->broken = false;
    channel->sending = false;
    channel->lagging = false;
    channel->drained = false;
    if (channel->kind == MESH_BULK) {
        link->stats.frames_dropped += drop_all(channel);
    }
    channel->echoed = false;
    channel->proven = false;
    channel->nonce = 0;
}

static void
dial(struct channel *channel, uint64_t now_us)
{
    struct mesh_link *link = channel->link;
    const struct mesh_link_limits *limits = &link->limits;
    bool slow =
        !channel->peer->up && now_us - channel->peer->down_us >
                                  (uint64_t)limits->redial_slow_after_ms * 1000;

    let_go(channel);
    channel->dialled_us = now_us;
    channel->dial_us = now_us + jitter_us(channel, slow ? limits->redial_slow_ms
                                                        : limits->redial_ms);
    if (++channel->tries % PATIENT_EVERY == 0) {
        channel->dial_us +=
            PATIENT_EXTRA * ((uint64_t)limits->redial_ms * 1000);
    }
    channel->nonce = rng_next(&link->rng) | 1;
    link->stats.dials++;
    channel->wire = wire_dial(channel);
    if (channel->wire == NULL) {
        let_go(channel);
    }
}

void
channel_break(struct channel *channel, uint32_t wait_ms)
{
    const struct mesh_link *link = channel->link;
    uint64_t now_us = link_now_us(link);
    uint64_t soonest_us =
        channel->dialled_us + (uint64_t)link->limits.redial_ms * 1000 / 4;

    if (channel->peer->closing) {
        return;
    }
    let_go(channel);
    channel->dial_us = now_us + jitter_us(channel, wait_ms);
    if (channel->dial_us < soonest_us) {
        channel->dial_us = soonest_us;
    }
    if (channel->dial_us <= now_us) {
        dial(channel, now_us);
    }
}

void
channel_hurry(struct channel *channel)
{
    uint64_t soonest_us = channel->dialled_us + HURRY_US;

    if (!channel->attached && channel->dial_us > soonest_us) {
        channel->dial_us = soonest_us;
    }
}

bool
channel_is_greeted(struct channel *channel)
{
    return channel->greeted;
}

/* Drops hellos of the last connection (they are in front), and frames that
 * waited too long for this one. */
static void
drop_stale(struct channel *channel)
{
    struct mesh_link *link = channel->link;
    uint64_t stale_us = (uint64_t)link->limits.stale_ms * 1000;
    uint64_t now_us = link_now_us(link);

    while (channel->count > 0) {
        const struct waiting *oldest = &channel->queue[channel->head];
        if (!oldest->hello && now_us - oldest->at_us <= stale_us) {
            break;
        }
        link->stats.frames_stale += !oldest->hello;
        free(pop(channel));
    }
}

/* The connection exists: sends our hello, then the waiting frames. */
static void
greet(struct channel *channel)
{
    struct mesh_link *link = channel->link;

    drop_stale(channel);
    peer_say_hello(channel->peer,
                   channel->kind); /* to the front of the queue */
    struct message *hello =
        channel->attached && !channel->sending ? pop(channel) : NULL;
    if (hello != NULL) {
        channel->greeted = true;
        channel->sending = true;
        channel->sent_bytes += hello->len;
        wire_send(channel->wire, hello);
    }
    channel->since_us = link_now_us(link);
    channel->tries = 0;
}

const char *
channel_news(struct channel *channel)
{
    struct mesh_link *link = channel->link;

    if (channel->peer->closing) {
        return NULL;
    }
    if (channel->broken) {
        channel_break(channel, link->limits.redial_ms / 4);
        return "the connection broke";
    }
    if (channel->attached && !channel->greeted) {
        greet(channel);
    }
    if (channel->drained) {
        channel->drained = false;
        channel->lagging = false;
        link->sink.resumed(link->sink.context, channel->peer->address);
    }
    return NULL;
}

void
channel_tick(struct channel *channel, uint64_t now_us)
{
    struct mesh_link *link = channel->link;
    const struct mesh_link_limits *limits = &link->limits;

    bool quiet = channel->greeted && !channel->sending && channel->count == 0;

    if (channel->broken) {
        return; /* channel_news() is about to handle this */
    }
    if (!channel->attached) {
        if (now_us >= channel->dial_us) {
            dial(channel, now_us);
        }
    } else if (!channel->greeted) {
        greet(channel);
    } else if (!channel->echoed &&
               now_us - channel->since_us > channel->patience_us) {
        /* The peer is busy, or discarded this connection's hello when it
         * dropped us: it is neither waited for long nor hurried. */
        channel->patience_us *= 2;
        if (channel->patience_us > (uint64_t)limits->silent_ms * 1000) {
            channel->patience_us = (uint64_t)limits->silent_ms * 1000;
        }
        channel_break(channel, 0);
    } else if (quiet &&
               now_us - channel->spoke_us >= (uint64_t)limits->idle_ms * 1000) {
        channel_say(channel, FRAME_IDLE, (struct slice){NULL, 0});
    }
}
