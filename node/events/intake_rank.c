/* One rank's sockets: connected, read within budgets, closed, reopened. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <zmq.h>

#include "node/base/log.h"
#include "node/events/intake_internal.h"

#define RECONNECT_MS     100
#define RECONNECT_MAX_MS 5000
#define FRAME_FACTOR \
    8 /* times payload_bytes_max: beyond that ZeroMQ hangs
                               up, so that nobody makes it take any length */

/* A message's frames; further ones are dropped. */
struct frames {
    zmq_msg_t part[INTAKE_FRAMES_MAX];
    uint32_t count;
    bool more; /* there were further ones */
};

static void
frames_close(struct frames *frames)
{
    for (uint32_t i = 0; i < frames->count; i++) {
        (void)zmq_msg_close(&frames->part[i]);
    }
    frames->count = 0;
}

/* False: there is none. */
static bool
frames_receive(struct frames *frames, void *socket)
{
    bool more = true;

    frames->count = 0;
    frames->more = false;
    while (more) {
        zmq_msg_t part;
        (void)zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(&part);
            frames_close(frames);
            return false;
        }
        more = zmq_msg_more(&part) != 0;
        if (frames->count < INTAKE_FRAMES_MAX) {
            (void)zmq_msg_init(&frames->part[frames->count]);
            (void)zmq_msg_move(&frames->part[frames->count++], &part);
        } else {
            frames->more = true;
        }
        (void)zmq_msg_close(&part);
    }
    return true;
}

static struct slice
frame(struct frames *frames, uint32_t at)
{
    return (struct slice){.ptr = zmq_msg_data(&frames->part[at]),
                          .len = zmq_msg_size(&frames->part[at])};
}

static bool
read_seq(struct slice bytes, uint64_t *seq)
{
    if (bytes.len != sizeof *seq) {
        return false;
    }
    *seq = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        *seq = *seq << 8 | (unsigned char)bytes.ptr[i];
    }
    return true;
}

/* Sockets */

static void
set_number(void *socket, int option, int value)
{
    CHECK(zmq_setsockopt(socket, option, &value, sizeof value) == 0);
}

static const struct url *
url_of(const struct intake_rank *rank, enum intake_place place)
{
    const struct intake_worker *worker = &rank->source->worker;

    return place == INTAKE_EVENTS ? &worker->events : &worker->replay;
}

const char *
intake_rank_address(const struct intake_rank *rank, enum intake_place place)
{
    const struct url *url = url_of(rank, place);

    return url_is_address(url) ? url->host : rank->source->moved[place];
}

/* "tcp://address:port" of the rank; false: there is no such address or port. */
static bool
endpoint(const struct intake_rank *rank, enum intake_place place,
         char out[URL_TEXT_MAX])
{
    const char *address = intake_rank_address(rank, place);
    uint32_t port = url_of(rank, place)->port;
    bool v6 = strchr(address, ':') != NULL;

    if (address[0] == '\0' || rank->decoder.rank > UINT16_MAX - port) {
        return false;
    }
    (void)snprintf(out, URL_TEXT_MAX, "tcp://%s%s%s:%u", v6 ? "[" : "", address,
                   v6 ? "]" : "", port + rank->decoder.rank);
    return true;
}

static void *
open_socket(struct intake_rank *rank, int type)
{
    const struct config_events *events = &rank->intake->events;
    int64_t frame_max = (int64_t)events->payload_bytes_max * FRAME_FACTOR;
    void *socket = zmq_socket(rank->intake->zmq, type);

    if (socket == NULL) {
        return NULL;
    }
    set_number(socket, ZMQ_LINGER, 0);
    set_number(socket, ZMQ_IPV6, 1);
    set_number(socket, ZMQ_RCVHWM, (int)events->hwm);
    set_number(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    set_number(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
    set_number(socket, ZMQ_TCP_KEEPALIVE, 1);
    set_number(socket, ZMQ_TCP_KEEPALIVE_IDLE, INTAKE_KEEPALIVE_S);
    set_number(socket, ZMQ_TCP_KEEPALIVE_INTVL, INTAKE_KEEPALIVE_S / 2);
    set_number(socket, ZMQ_TCP_KEEPALIVE_CNT, 3);
    CHECK(zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_max,
                         sizeof frame_max) == 0);
    if (type == ZMQ_SUB) {
        const char *topic = rank->source->worker.topic;
        CHECK(zmq_setsockopt(socket, ZMQ_SUBSCRIBE, topic, strlen(topic)) == 0);
    }
    return socket;
}

static bool
connect_socket(const struct intake_rank *rank, void *socket,
               enum intake_place place)
{
    char text[URL_TEXT_MAX];

    return endpoint(rank, place, text) && zmq_connect(socket, text) == 0;
}

/* The other end of the socket's reports, or NULL. */
static void *
open_monitor(struct intake_rank *rank)
{
    char name[64];
    void *monitor = zmq_socket(rank->intake->zmq, ZMQ_PAIR);

    if (monitor == NULL) {
        return NULL;
    }
    (void)snprintf(name, sizeof name, "inproc://events-%p", rank->sub.socket);
    set_number(monitor, ZMQ_LINGER, 0);
    if (zmq_socket_monitor(
            rank->sub.socket, name,
            ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) != 0 ||
        zmq_connect(monitor, name) != 0) {
        (void)zmq_close(monitor);
        return NULL;
    }
    return monitor;
}

static void
log_rank(struct intake_rank *rank, const char *what, int error)
{
    LOG_WARNING("events_socket", KV("worker", rank->source->worker.id),
                KV("rank", rank->decoder.rank), KV("what", what),
                KV("error", zmq_strerror(error)),
                KV("hint", "it is tried again; kvasir doctor tries the "
                           "worker's events and replay"));
}

/* Its descriptor is watched, for as long as it is open. False: it was closed,
 * or there is none. */
static bool
watch(struct intake_rank *rank, struct intake_watch *watch, void *socket,
      void (*read)(struct intake_rank *rank))
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
    int fd = -1;
    size_t size = sizeof fd;

    CHECK(watch->socket == NULL);
    if (socket == NULL) {
        return false;
    }
    CHECK(zmq_getsockopt(socket, ZMQ_FD, &fd, &size) == 0);
    if (epoll_ctl(rank->intake->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        (void)zmq_close(socket);
        return false;
    }
    *watch =
        (struct intake_watch){.socket = socket, .rank = rank, .read = read};
    return true;
}

static void
close_watched(struct intake_watch *watch)
{
    int fd = -1;
    size_t size = sizeof fd;

    if (watch->socket != NULL) {
        CHECK(zmq_getsockopt(watch->socket, ZMQ_FD, &fd, &size) == 0);
        (void)epoll_ctl(watch->rank->intake->epoll, EPOLL_CTL_DEL, fd, NULL);
        (void)zmq_close(watch->socket);
        watch->socket = NULL;
    }
}

static void
close_live(struct intake_rank *rank)
{
    intake_nats_close(rank);
    if (rank->sub.socket != NULL) {
        (void)zmq_socket_monitor(rank->sub.socket, NULL, 0);
    }
    close_watched(&rank->sub);
    close_watched(&rank->monitor);
}

static void
close_replay(struct intake_rank *rank)
{
    intake_nats_hang_up(rank);
    close_watched(&rank->dealer);
    rank->asked = false;
}

/*
 * Opens a socket for one connection: ZeroMQ would reconnect by itself and
 * continue as if nothing had happened, with another process at the other end.
 */
void
intake_rank_open(struct intake_rank *rank)
{
    CHECK(rank->sub.socket == NULL && rank->monitor.socket == NULL);
    rank->opened_us = rank->intake->now_us;
    if (intake_rank_address(rank, INTAKE_EVENTS)[0] == '\0') {
        return; /* until it moves */
    }
    rank->look = true;
    if (rank->nats != NULL) {
        intake_nats_open(rank);
        return;
    }
    if (!watch(rank, &rank->sub, open_socket(rank, ZMQ_SUB),
               intake_rank_read_live) ||
        !watch(rank, &rank->monitor, open_monitor(rank),
               intake_rank_read_monitor) ||
        !connect_socket(rank, rank->sub.socket, INTAKE_EVENTS)) {
        log_rank(rank, "connect", zmq_errno());
        close_live(rank);
    }
}

void
intake_rank_close(struct intake_rank *rank)
{
    close_live(rank);
    close_replay(rank);
}

/* Replays */

static bool
open_replay(struct intake_rank *rank)
{
    return watch(rank, &rank->dealer, open_socket(rank, ZMQ_DEALER),
                 intake_rank_read_replay) &&
           connect_socket(rank, rank->dealer.socket, INTAKE_REPLAY);
}

/* An idle engine is asked every few seconds. So the connection is kept after an
 * answer that was read to its end, when nothing more can come by it. */
static void
ask_replay(struct intake_rank *rank, uint64_t from)
{
    unsigned char seq[8];

    if (rank->asked) {
        close_replay(rank);
    }
    if (intake_rank_address(rank, INTAKE_REPLAY)[0] == '\0') {
        return; /* as if there were no answer */
    }
    if (rank->nats != NULL) {
        rank->asked = true;
        intake_nats_ask(rank, from);
        return;
    }
    for (int i = 0; i < 8; i++) {
        seq[i] = (unsigned char)(from >> (56 - 8 * i));
    }
    if ((rank->dealer.socket == NULL && !open_replay(rank)) ||
        zmq_send(rank->dealer.socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
        zmq_send(rank->dealer.socket, seq, sizeof seq, ZMQ_DONTWAIT) < 0) {
        log_rank(rank, "replay", zmq_errno());
        close_replay(rank);
        return;
    }
    rank->asked = true;
    rank->look = true;
}

/* Carries out what the stream requests. Borrowed messages stay until then. */
static void
pump(struct intake_rank *rank)
{
    struct kv_out out;

    while (kv_stream_next_out(rank->decoder.stream, &out)) {
        if (out.kind == KV_OUT_REPLAY) {
            ask_replay(rank, out.seq);
        } else if (out.kind == KV_OUT_HANGUP) {
            if (rank->asked) {
                close_replay(rank);
            }
        } else {
            intake_emit(rank, &out);
        }
    }
    counter_set(&rank->numbers.next_seq,
                kv_stream_next_seq(rank->decoder.stream));
}

/* The connection */

static void
lose(struct intake_rank *rank)
{
    close_replay(rank); /* it led to the same process */
    if (rank->connected) {
        rank->connected = false;
        kv_stream_disconnected(rank->decoder.stream, rank->intake->now_us);
        pump(rank);
    }
}

void
intake_rank_lost(struct intake_rank *rank)
{
    close_live(rank);
    lose(rank);
}

void
intake_rank_came(struct intake_rank *rank)
{
    rank->connected = true;
    kv_stream_connected(rank->decoder.stream, rank->intake->now_us);
    pump(rank);
}

void
intake_rank_renewed(struct intake_rank *rank)
{
    lose(rank);
    intake_rank_came(rank);
}

void
intake_rank_suspend(struct intake_rank *rank)
{
    intake_rank_lost(rank);
}

void
intake_rank_read_monitor(struct intake_rank *rank)
{
    struct frames frames;

    while (rank->monitor.socket != NULL &&
           frames_receive(&frames, rank->monitor.socket)) {
        uint16_t event = 0;
        if (frames.count > 0 && frame(&frames, 0).len >= sizeof event) {
            memcpy(&event, frame(&frames, 0).ptr, sizeof event);
        }
        frames_close(&frames);
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED && !rank->connected) {
            intake_rank_came(rank);
        } else if (event == ZMQ_EVENT_DISCONNECTED && rank->connected) {
            intake_rank_lost(rank); /* closes the monitor, too */
        }
    }
}

/* Messages */

static bool
topic_fits(const struct intake_rank *rank, struct slice topic)
{
    const char *wanted = rank->source->worker.topic;

    return wanted[0] == '\0' || slice_equal(topic, slice_of(wanted));
}

static void
note_length(struct intake_rank *rank, struct slice payload)
{
    if (payload.len > rank->intake->events.payload_bytes_max) {
        counter_bump(&rank->numbers.kv.bad_frames, 1);
        LOG_WARNING("events_payload_too_long",
                    KV("worker", rank->source->worker.id),
                    KV("rank", rank->decoder.rank), KV("bytes", payload.len),
                    KV("hint", "raise events.payload_bytes_max; what it says "
                               "is missing until the engine clears its cache"));
    }
}

void
intake_rank_live(struct intake_rank *rank, uint64_t seq, struct slice payload)
{
    note_length(rank, payload);
    counter_set(&rank->numbers.last_message_us, rank->intake->now_us);
    kv_stream_live(rank->decoder.stream, seq, payload, rank->intake->now_us);
    pump(rank);
}

static void
take_live(struct intake_rank *rank, struct frames *frames)
{
    struct kv_counters *counters = &rank->numbers.kv;
    uint64_t seq = 0;

    if (frames->count < 3 || !read_seq(frame(frames, 1), &seq)) {
        counter_bump(&counters->bad_frames, 1);
    } else if (!topic_fits(rank, frame(frames, 0))) {
        counter_bump(&counters->other_topic, 1);
    } else {
        intake_rank_live(rank, seq, frame(frames, 2));
    }
}

/*
 * The monitor is read after each message and before the message is used: if the
 * message came through a later connection, the report was there before it.
 */
void
intake_rank_read_live(struct intake_rank *rank)
{
    struct frames frames;
    uint32_t n;

    for (n = 0; n < INTAKE_LIVE_BUDGET && rank->sub.socket != NULL &&
                frames_receive(&frames, rank->sub.socket);
         n++) {
        const void *sub = rank->sub.socket;
        intake_rank_read_monitor(rank);
        if (rank->sub.socket == sub && rank->connected) {
            take_live(rank, &frames);
        }
        frames_close(&frames);
    }
    rank->look = rank->look || n == INTAKE_LIVE_BUDGET;
}

void
intake_rank_replayed(struct intake_rank *rank, uint64_t seq,
                     struct slice payload)
{
    note_length(rank, payload);
    kv_stream_replayed(rank->decoder.stream, seq, payload,
                       rank->intake->now_us);
    pump(rank);
}

void
intake_rank_replay_end(struct intake_rank *rank)
{
    rank->asked = false;
    kv_stream_replay_end(rank->decoder.stream, rank->intake->now_us);
    pump(rank);
}

/* ["", seq, payload], or ["", topic, seq, payload] since vLLM 0.26 and in
 * TensorRT-LLM; the end marker has all ones for its seq. */
static void
take_reply(struct intake_rank *rank, struct frames *frames)
{
    struct kv_counters *counters = &rank->numbers.kv;
    uint32_t at = frames->count == 4 ? 2 : 1;
    uint64_t seq = 0;

    if (frames->count < 3 || frames->more ||
        !read_seq(frame(frames, at), &seq)) {
        counter_bump(&counters->bad_frames, 1);
        return;
    }
    if (seq == UINT64_MAX) {
        intake_rank_replay_end(rank);
    } else if (at == 2 && !topic_fits(rank, frame(frames, 1))) {
        counter_bump(&counters->other_topic, 1);
    } else {
        intake_rank_replayed(rank, seq, frame(frames, at + 1));
    }
}

void
intake_rank_read_replay(struct intake_rank *rank)
{
    const void *dealer = rank->dealer.socket;
    struct frames frames;
    uint32_t n;

    for (n = 0; n < INTAKE_REPLAY_BUDGET && rank->dealer.socket != NULL &&
                rank->dealer.socket == dealer &&
                frames_receive(&frames, rank->dealer.socket);
         n++) {
        if (rank->asked) {
            counter_set(&rank->numbers.last_reply_us, rank->intake->now_us);
            take_reply(rank, &frames);
        } else { /* nobody asked: it would pass for the next answer */
            close_replay(rank);
        }
        frames_close(&frames);
    }
    rank->look = rank->look || n == INTAKE_REPLAY_BUDGET;
}

void
intake_rank_look(struct intake_rank *rank)
{
    if (rank->look) {
        rank->look = false;
        intake_rank_read_monitor(rank);
        intake_rank_read_replay(rank);
        intake_rank_read_live(rank);
        intake_nats_look(rank);
    }
}

/* Time */

/* When it is opened, or given up to be opened again; UINT64_MAX: it stands. */
static uint64_t
opens_us(const struct intake_rank *rank)
{
    if (rank->nats != NULL) {
        return intake_nats_deadline(rank);
    }
    return rank->sub.socket == NULL ? rank->opened_us + INTAKE_REOPEN_US
                                    : UINT64_MAX;
}

uint64_t
intake_rank_deadline(const struct intake_rank *rank)
{
    uint64_t due_us = intake_rank_address(rank, INTAKE_EVENTS)[0] != '\0'
                          ? opens_us(rank)
                          : UINT64_MAX;

    return due_us != UINT64_MAX ? due_us
                                : kv_stream_deadline(rank->decoder.stream);
}

void
intake_rank_turn(struct intake_rank *rank)
{
    uint64_t now_us = rank->intake->now_us;

    if (rank->nats != NULL) {
        intake_nats_turn(rank);
    } else if (rank->sub.socket == NULL &&
               now_us >= rank->opened_us + INTAKE_REOPEN_US) {
        intake_rank_open(rank);
    }
    if (now_us >= kv_stream_deadline(rank->decoder.stream)) {
        kv_stream_tick(rank->decoder.stream, now_us);
        pump(rank);
    }
}

/* A connection that stands proves its address right, whatever the name says. */
void
intake_rank_moved(struct intake_rank *rank, enum intake_place place)
{
    if (place == INTAKE_REPLAY) {
        close_replay(rank); /* the next question goes there */
    } else if (!rank->connected) {
        close_live(rank);
        intake_rank_open(rank);
    }
}

void
intake_rank_reread(struct intake_rank *rank, uint64_t ask, bool prove)
{
    if (prove) {
        kv_stream_prove(rank->decoder.stream, ask, rank->intake->now_us);
    } else {
        decoder_reread(&rank->decoder, ask, rank->intake->now_us);
    }
    pump(rank);
}
