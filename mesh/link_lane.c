#include "mesh/link_inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Now and then a dial gets more time: a handshake on a busy machine may need
 * it, and a SYN is sent again meanwhile, after 1 s and 3 s. */
#define PATIENT_EVERY 3U
#define PATIENT_EXTRA 3U

#define HURRY_US UINT64_C(250000) /* for a dial to succeed, at least */

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

void
lane_on_attached(struct lane *lane)
{
    lane->attached = true;
    lane->link->changed = true;
}

void
lane_on_broken(struct lane *lane)
{
    lane->attached = false;
    lane->greeted = false;
    lane->broken = true;
    lane->link->changed = true;
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

bool
lane_on_sent(struct lane *lane, bool sent, nng_msg **next)
{
    *next = sent && lane->greeted ? pop(lane) : NULL;
    lane->sent_frames += sent;
    lane->sent_bytes += *next != NULL ? nng_msg_len(*next) : 0;
    lane->sending = *next != NULL;
    lane->broken = lane->broken || !sent;
    bool drained = lane->lagging && *next == NULL;
    lane->drained = lane->drained || drained;
    lane->link->changed = lane->link->changed || drained || !sent;
    return drained || !sent;
}

int
lane_open(struct lane *lane, struct peer *peer, enum mesh_lane kind)
{
    const struct mesh_link_limits *limits = &peer->link->limits;
    bool bulk = kind == MESH_BULK;

    *lane = (struct lane){
        .link = peer->link,
        .peer = peer,
        .kind = kind,
        .frames_max = bulk ? limits->bulk_frames : limits->ctl_frames,
        .bytes_max = bulk ? limits->bulk_bytes : SIZE_MAX,
        .sequence = peer->link->sequence_floor,
        .patience_us = lane_patience_us(limits),
    };
    lane->room = lane->frames_max + 1; /* and a hello */
    lane->queue = calloc(lane->room, sizeof lane->queue[0]);
    return lane->queue != NULL ? 0 : -ENOMEM;
}

void
lane_fini(struct lane *lane)
{
    CHECK(lane->wire == NULL && lane->count == 0);
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
        link_message_free(lane->link, msg);
        count++;
    }
    return count;
}

void
lane_close(struct lane *lane)
{
    if (lane->wire != NULL) {
        wire_retire(lane->wire);
        lane->wire = NULL;
    }
    uv_mutex_lock(&lane->link->lock);
    (void)drop_all(lane);
    uv_mutex_unlock(&lane->link->lock);
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
        link->changed = true;
    }
    uv_mutex_unlock(&link->lock);
    if (dropped > 0) {
        (void)uv_async_send(&link->async);
    }
    link->stats.frames_dropped += dropped;
    link->stats.sends_full += full;
    return !full;
}

/* Under the lock. A hello goes to the front, in place of an older one. */
static void
enqueue(struct lane *lane, nng_msg *msg, bool hello)
{
    uint32_t at = (lane->head + lane->count) % lane->room;

    if (hello && lane->count > 0 && lane->queue[lane->head].hello) {
        link_message_free(lane->link, pop(lane));
    }
    if (hello) {
        lane->head = (lane->head + lane->room - 1) % lane->room;
        at = lane->head;
    }
    CHECK(lane->count < lane->room);
    lane->queue[at] = (struct waiting){
        .msg = msg, .at_us = link_now_us(lane->link), .hello = hello};
    lane->count++;
    lane->bytes += nng_msg_len(msg);
}

/* To NNG when it is idle, else to the queue. */
static void
put(struct lane *lane, nng_msg *msg, bool hello)
{
    struct mesh_link *link = lane->link;

    uv_mutex_lock(&link->lock);
    bool start = lane->greeted && !lane->sending;
    if (start) {
        CHECK(lane->count == 0);
        lane->sending = true;
        lane->sent_bytes += nng_msg_len(msg);
    } else {
        enqueue(lane, msg, hello);
    }
    uv_mutex_unlock(&link->lock);
    if (start) {
        wire_send(lane->wire, msg);
    }
    lane->spoke_us = link_now_us(link);
}

/* NULL: out of memory. */
static nng_msg *
link_message_new(struct lane *lane, enum frame_type type, uint64_t sequence,
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
    uv_mutex_lock(&lane->link->lock);
    lane->link->messages++;
    uv_mutex_unlock(&lane->link->lock);
    return msg;
}

int
lane_send(struct lane *lane, struct slice body)
{
    if (!make_room(lane, FRAME_HEAD_SIZE + body.len)) {
        return MESH_LINK_E_FULL;
    }
    nng_msg *msg = link_message_new(lane, FRAME_DATA, lane->sequence + 1, body);
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
    bool hello = type == FRAME_HELLO;
    nng_msg *msg =
        link_message_new(lane, type, hello ? ++lane->link->hellos : 0, body);

    if (msg != NULL) {
        put(lane, msg, hello);
    }
}

/* A time around ms, so that nodes do not dial in step. */
static uint64_t
jitter_us(struct lane *lane, uint32_t ms)
{
    uint64_t us = (uint64_t)ms * 1000;

    return us - us / 4 + rng_below(&lane->link->rng, us / 2 + 1);
}

/* No connection, and none under way. */
static void
let_go(struct lane *lane)
{
    struct mesh_link *link = lane->link;
    uint32_t dropped = 0;

    if (lane->wire != NULL) {
        wire_retire(lane->wire); /* it tells nothing any more */
        lane->wire = NULL;
    }
    uv_mutex_lock(&link->lock);
    lane->attached = false;
    lane->greeted = false;
    lane->broken = false;
    lane->sending = false;
    lane->lagging = false;
    lane->drained = false;
    if (lane->kind == MESH_BULK) {
        dropped = drop_all(lane);
    }
    uv_mutex_unlock(&link->lock);
    link->stats.frames_dropped += dropped;
    lane->echoed = false;
    lane->proven = false;
    lane->nonce = 0;
}

static void
dial(struct lane *lane, uint64_t now_us)
{
    struct mesh_link *link = lane->link;
    const struct mesh_link_limits *limits = &link->limits;
    bool slow =
        !lane->peer->up && now_us - lane->peer->down_us >
                               (uint64_t)limits->redial_slow_after_ms * 1000;

    let_go(lane);
    lane->dialled_us = now_us;
    lane->dial_us = now_us + jitter_us(lane, slow ? limits->redial_slow_ms
                                                  : limits->redial_ms);
    if (++lane->tries % PATIENT_EVERY == 0) {
        lane->dial_us += PATIENT_EXTRA * ((uint64_t)limits->redial_ms * 1000);
    }
    if (link->retired_count >= link->inlets_max) {
        return; /* NNG is slow to close them */
    }
    lane->nonce = rng_next(&link->rng) | 1;
    link->stats.dials++;
    lane->wire = wire_open(lane, lane->peer->address);
    if (lane->wire == NULL) {
        let_go(lane);
    }
}

void
lane_break(struct lane *lane, uint32_t wait_ms)
{
    const struct mesh_link *link = lane->link;
    uint64_t now_us = link_now_us(link);
    uint64_t soonest_us =
        lane->dialled_us + (uint64_t)link->limits.redial_ms * 1000 / 4;

    if (lane->peer->closing) {
        return;
    }
    let_go(lane);
    lane->dial_us = now_us + jitter_us(lane, wait_ms);
    if (lane->dial_us < soonest_us) {
        lane->dial_us = soonest_us;
    }
    if (lane->dial_us <= now_us) {
        dial(lane, now_us);
    }
}

void
lane_hurry(struct lane *lane)
{
    uint64_t soonest_us = lane->dialled_us + HURRY_US;

    uv_mutex_lock(&lane->link->lock);
    bool attached = lane->attached;
    uv_mutex_unlock(&lane->link->lock);
    if (!attached && lane->dial_us > soonest_us) {
        lane->dial_us = soonest_us;
    }
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
        link_message_free(link, pop(lane));
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
        wire_send(lane->wire, hello);
    }
    lane->since_us = link_now_us(link);
    lane->tries = 0;
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

void
lane_tick(struct lane *lane, uint64_t now_us)
{
    struct mesh_link *link = lane->link;
    const struct mesh_link_limits *limits = &link->limits;

    uv_mutex_lock(&link->lock);
    bool attached = lane->attached;
    bool broken = lane->broken;
    bool greeted = lane->greeted;
    bool quiet = greeted && !lane->sending && lane->count == 0;
    uv_mutex_unlock(&link->lock);
    if (broken) {
        return; /* news are on their way */
    }
    if (!attached) {
        if (now_us >= lane->dial_us) {
            dial(lane, now_us);
        }
    } else if (!greeted) {
        greet(lane);
    } else if (!lane->echoed && now_us - lane->since_us > lane->patience_us) {
        /* The peer is busy, or threw this connection's hello away when it
         * dropped us: it is not to be waited for long, nor hurried. */
        lane->patience_us *= 2;
        if (lane->patience_us > (uint64_t)limits->silent_ms * 1000) {
            lane->patience_us = (uint64_t)limits->silent_ms * 1000;
        }
        lane_break(lane, 0);
    } else if (quiet &&
               now_us - lane->spoke_us >= (uint64_t)limits->idle_ms * 1000) {
        lane_say(lane, FRAME_IDLE, (struct slice){NULL, 0});
    }
}
