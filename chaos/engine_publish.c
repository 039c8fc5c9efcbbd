#include "chaos/engine_publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zmq.h>

#include "node/node.h"

#define SEQ_BYTES      8
#define SEQ_END        UINT64_MAX
#define REQUEST_FRAMES 3
#define IDENTITY_MAX   256 /* libzmq's are 5 bytes, at most 255 */

bool
engine_publish_wanted(const struct engine_options *options)
{
    return options->events != NULL || options->replay != NULL;
}

/* "0" or "tcp://ADDRESS:0". */
static bool
is_any_port(const char *text)
{
    const char *colon = text != NULL ? strrchr(text, ':') : NULL;

    return text != NULL && strcmp(colon != NULL ? colon + 1 : text, "0") == 0;
}

bool
engine_publish_any_port(const struct engine_options *options)
{
    return is_any_port(options->events) || is_any_port(options->replay);
}

static double
wall_clock(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What happened on a socket, as ZMQ_POLLIN and so on. Also lets the library
 * do what it has to: new subscribers count only after this. */
static int
socket_events(void *socket)
{
    int events = 0;
    size_t size = sizeof(events);

    return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size) == 0 ? events : 0;
}

static void
encode_seq(uint64_t seq, unsigned char bytes[SEQ_BYTES])
{
    for (int i = 0; i < SEQ_BYTES; i++) {
        bytes[i] = (unsigned char)(seq >> 8 * (SEQ_BYTES - 1 - i));
    }
}

static uint64_t
decode_seq(const unsigned char bytes[SEQ_BYTES])
{
    uint64_t seq = 0;

    for (int i = 0; i < SEQ_BYTES; i++) {
        seq = seq << 8 | bytes[i];
    }
    return seq;
}

/* Neither socket ever blocks: what a peer does not take is dropped, with all
 * of its frames. */
static void
send_frames(void *socket, const struct slice *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);
        if (zmq_send(socket, frames[i].ptr, frames[i].len, flags) < 0) {
            LOG_WARNING("event_not_sent", KV("why", zmq_strerror(zmq_errno())));
            return;
        }
    }
}

static void
send_live(struct engine_publisher *p, uint64_t seq, struct slice payload)
{
    unsigned char number[SEQ_BYTES];

    encode_seq(seq, number);
    struct slice frames[] = {
        slice_of(p->options->event_topic),
        {(const char *)number, sizeof(number)},
        payload,
    };
    send_frames(p->pub, frames, 3);
}

/* Sends live what was not sent yet, or loses it as ordered. */
static void
send_waiting(struct engine_publisher *p)
{
    struct slice payload;

    if (p->pub == NULL) {
        p->live_seq = p->log.next_seq;
        return;
    }
    (void)socket_events(p->pub);
    for (; p->live_seq < p->log.next_seq; p->live_seq++) {
        if (engine_events_log_find(&p->log, p->live_seq, &payload) &&
            !engine_faults_drop_event(p->faults)) {
            send_live(p, p->live_seq, payload);
        }
    }
}

/* [identity][] and [topic], if these engines send it, [seq][payload]. */
static void
send_replayed(struct engine_publisher *p, struct slice identity, uint64_t seq,
              struct slice payload)
{
    unsigned char number[SEQ_BYTES];
    struct slice frames[5] = {identity, SLICE("")};
    uint32_t count = 2;

    encode_seq(seq, number);
    if (p->options->replay_frames == 4) {
        frames[count++] =
            seq == SEQ_END ? SLICE("") : slice_of(p->options->event_topic);
    }
    frames[count++] = (struct slice){(const char *)number, sizeof(number)};
    frames[count++] = payload;
    send_frames(p->router, frames, count);
}

static void
replay(struct engine_publisher *p, struct slice identity, uint64_t from)
{
    struct engine_replay_fate fate = engine_faults_draw_replay(p->faults);
    struct slice payload;

    LOG_DEBUG("replay", KV("from", from), KV("first", p->log.first_seq),
              KV("next", p->log.next_seq));
    if (fate.mute) {
        return;
    }
    uint64_t seq = from > p->log.first_seq ? from : p->log.first_seq;
    for (; seq < p->log.next_seq; seq++) {
        bool hole = fate.hole_every != 0 &&
                    seq % fate.hole_every == fate.hole_every - 1;
        if (!hole && engine_events_log_find(&p->log, seq, &payload)) {
            send_replayed(p, identity, seq, payload);
        }
    }
    if (!fate.endless) {
        send_replayed(p, identity, SEQ_END, SLICE(""));
    }
}

/* One message of the ROUTER. */
struct asked {
    char identity[IDENTITY_MAX];
    size_t identity_len;
    unsigned char from[SEQ_BYTES];
    bool valid; /* has the shape of a request */
};

static void
keep_frame(struct asked *asked, uint32_t i, struct slice frame)
{
    if (i == 0) {
        asked->valid = frame.len <= sizeof(asked->identity);
        asked->identity_len = asked->valid ? frame.len : 0;
        memcpy(asked->identity, frame.ptr, asked->identity_len);
    } else if (i == 1) {
        asked->valid &= frame.len == 0;
    } else if (i == 2 && frame.len == SEQ_BYTES) {
        memcpy(asked->from, frame.ptr, SEQ_BYTES);
    } else {
        asked->valid = false;
    }
}

/* Takes the next message from the ROUTER. False: there is none. */
static bool
receive(void *router, struct asked *asked)
{
    zmq_msg_t frame;
    uint32_t count = 0;
    bool more = true;

    *asked = (struct asked){.valid = false};
    CHECK(zmq_msg_init(&frame) == 0);
    while (more && zmq_msg_recv(&frame, router, ZMQ_DONTWAIT) >= 0) {
        keep_frame(asked, count++,
                   (struct slice){zmq_msg_data(&frame), zmq_msg_size(&frame)});
        more = zmq_msg_more(&frame) != 0;
    }
    CHECK(zmq_msg_close(&frame) == 0);
    asked->valid &= count == REQUEST_FRAMES;
    return !more;
}

/* A ROUTER's descriptor tells of changes only: nothing may be left behind. */
static void
answer_replays(struct engine_publisher *p)
{
    struct asked asked;

    while ((socket_events(p->router) & ZMQ_POLLIN) != 0 &&
           receive(p->router, &asked)) {
        if (asked.valid) {
            replay(p, (struct slice){asked.identity, asked.identity_len},
                   decode_seq(asked.from));
        }
    }
}

static void
on_router(uv_poll_t *poll, int status, int events)
{
    struct engine_publisher *p = poll->data;

    (void)status;
    (void)events;
    if (p->faults->events_stalled == 0) {
        answer_replays(p);
    } else {
        (void)socket_events(p->router);
    }
}

static void
on_pub(uv_poll_t *poll, int status, int events)
{
    struct engine_publisher *p = poll->data;

    (void)status;
    (void)events;
    (void)socket_events(p->pub);
}

static void
publish(struct engine_publisher *p)
{
    buf_clear(&p->payload);
    engine_batch_seal(&p->batch, wall_clock(), &p->payload);
    if (p->payload.failed) {
        p->lost++;
        LOG_WARNING("event_batch_lost", KV("lost", p->lost));
        buf_clear(&p->payload);
    }
    (void)engine_events_log_push(&p->log, buf_slice(&p->payload));
    if (p->faults->events_stalled == 0) {
        send_waiting(p);
    }
}

void
engine_publisher_add(struct engine_publisher *publisher,
                     const struct engine_event *event,
                     const struct engine_events_owner *owner)
{
    if (publisher->faults->events == 0) {
        return;
    }
    if (!engine_batch_takes(&publisher->batch, event)) {
        publish(publisher);
    }
    engine_batch_add(&publisher->batch, event, owner);
}

void
engine_publisher_flush(struct engine_publisher *publisher)
{
    if (!engine_batch_is_empty(&publisher->batch)) {
        publish(publisher);
    }
}

void
engine_publisher_resume(struct engine_publisher *publisher)
{
    if (publisher->faults->events_stalled != 0) {
        return;
    }
    send_waiting(publisher);
    if (publisher->router != NULL) {
        answer_replays(publisher);
    }
}

/* SGLang says first of all that its cache is empty. */
static void
begin(struct engine_publisher *p)
{
    enum engine_events_encoding encoding = p->batch.format.encoding;

    if (encoding == ENGINE_EVENTS_SGLANG_MAP ||
        encoding == ENGINE_EVENTS_SGLANG_ARRAY) {
        engine_publisher_add(
            p, &(struct engine_event){.kind = ENGINE_EVENT_CLEARED}, NULL);
        engine_publisher_flush(p);
    }
}

void
engine_publisher_restart(struct engine_publisher *publisher)
{
    engine_batch_clear(&publisher->batch);
    engine_events_log_clear(&publisher->log);
    publisher->live_seq = 0;
    begin(publisher);
}

/* The endpoint of a rank: a URL as it is, a port with the host before it; a
 * port that is not 0 plus the rank. */
static bool
make_endpoint(const struct engine_options *o, const char *text, uint32_t rank,
              char out[ENGINE_PUBLISH_URL_MAX])
{
    const char *colon = strrchr(text, ':');
    const char *number = colon != NULL ? colon + 1 : text;
    bool v6 = strchr(o->host, ':') != NULL;
    char *end;
    unsigned long port = strtoul(number, &end, 10);
    char port_text[16] = "*";

    if (*number == '\0' || *end != '\0' || port > UINT16_MAX ||
        port + rank > UINT16_MAX) {
        return false;
    }
    if (port != 0) {
        (void)snprintf(port_text, sizeof(port_text), "%lu", port + rank);
    }
    int n = colon != NULL
                ? snprintf(out, ENGINE_PUBLISH_URL_MAX, "%.*s:%s",
                           (int)(colon - text), text, port_text)
                : snprintf(out, ENGINE_PUBLISH_URL_MAX, "tcp://%s%s%s:%s",
                           v6 ? "[" : "", o->host, v6 ? "]" : "", port_text);
    return n > 0 && n < ENGINE_PUBLISH_URL_MAX;
}

/* libzmq has numbers of its own beside errno's. */
static int
zmq_fault(void)
{
    int number = zmq_errno();

    return number > 0 && number < ZMQ_HAUSNUMERO ? -number : -EIO;
}

static int
bind_socket(struct engine_publisher *p, void *socket, const char *text,
            uint32_t rank, char url[ENGINE_PUBLISH_URL_MAX])
{
    char endpoint[ENGINE_PUBLISH_URL_MAX];
    static const int one = 1;
    size_t size = ENGINE_PUBLISH_URL_MAX;

    if (!make_endpoint(p->options, text, rank, endpoint)) {
        return -EINVAL;
    }
    /* Only where it is meant: it changes how IPv4 addresses are written. */
    if (strchr(endpoint, '[') != NULL &&
        zmq_setsockopt(socket, ZMQ_IPV6, &one, sizeof(one)) != 0) {
        return zmq_fault();
    }
    if (zmq_bind(socket, endpoint) != 0 ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, url, &size) != 0) {
        return zmq_fault();
    }
    return 0;
}

static int
open_socket(struct engine_publisher *p, int type, int hwm, void **socket)
{
    static const int zero = 0;

    *socket = zmq_socket(p->context, type);
    if (*socket == NULL ||
        zmq_setsockopt(*socket, ZMQ_LINGER, &zero, sizeof(zero)) != 0 ||
        zmq_setsockopt(*socket, ZMQ_SNDHWM, &hwm, sizeof(hwm)) != 0) {
        return zmq_fault();
    }
    return 0;
}

static int
open_all(struct engine_publisher *p, uint32_t rank, const char *events,
         const char *replay)
{
    int r = 0;

    p->context = zmq_ctx_new();
    if (p->context == NULL) {
        return zmq_fault();
    }
    if (events != NULL) {
        r = open_socket(p, ZMQ_PUB, ENGINE_PUBLISH_HWM, &p->pub);
        r = r != 0 ? r : bind_socket(p, p->pub, events, rank, p->events_url);
    }
    if (r == 0 && replay != NULL) {
        r = open_socket(p, ZMQ_ROUTER, (int)p->options->replay_hwm, &p->router);
        r = r != 0 ? r : bind_socket(p, p->router, replay, rank, p->replay_url);
    }
    return r;
}

int
engine_publisher_init(struct engine_publisher *publisher,
                      const struct engine_options *options,
                      struct engine_faults *faults, uint32_t rank,
                      const struct engine_publisher *base)
{
    struct engine_events_format format = {
        .encoding = (enum engine_events_encoding)options->event_encoding,
        .slots = (uint32_t)options->event_slots,
        .block_tokens = (uint32_t)options->block_size,
        .rank = rank,
        .hash_bytes = options->event_hashes != 0,
    };

    CHECK((rank == 0) == (base == NULL));
    *publisher =
        (struct engine_publisher){.options = options, .faults = faults};
    engine_batch_init(&publisher->batch, &format);
    buf_init(&publisher->payload, ENGINE_BATCH_BYTES_MAX);
    int r =
        engine_events_log_init(&publisher->log, (uint32_t)options->buffer_steps,
                               ENGINE_PUBLISH_LOG_BYTES_MAX);
    if (r == 0) {
        const char *events = base != NULL && options->events != NULL
                                 ? base->events_url
                                 : options->events;
        const char *replay = base != NULL && options->replay != NULL
                                 ? base->replay_url
                                 : options->replay;
        r = open_all(publisher, rank, events, replay);
    }
    if (r != 0) {
        engine_publisher_close(publisher);
        engine_publisher_fini(publisher);
        return r;
    }
    begin(publisher);
    return 0;
}

static int
watch(uv_loop_t *loop, void *socket, uv_poll_t *poll, uv_poll_cb callback,
      struct engine_publisher *p)
{
    int fd;
    size_t size = sizeof(fd);

    if (socket == NULL) {
        return 0;
    }
    if (zmq_getsockopt(socket, ZMQ_FD, &fd, &size) != 0) {
        return zmq_fault();
    }
    int r = uv_poll_init(loop, poll, fd);
    if (r != 0) {
        return r;
    }
    poll->data = p;
    r = uv_poll_start(poll, UV_READABLE, callback);
    /* What came before the watch has been told already. */
    callback(poll, 0, 0);
    return r;
}

int
engine_publisher_start(struct engine_publisher *publisher, uv_loop_t *loop)
{
    int r =
        watch(loop, publisher->pub, &publisher->pub_poll, on_pub, publisher);

    return r != 0 ? r
                  : watch(loop, publisher->router, &publisher->router_poll,
                          on_router, publisher);
}

static void
close_socket(void **socket, uv_poll_t *poll)
{
    if (poll->data != NULL && !uv_is_closing((uv_handle_t *)poll)) {
        uv_close((uv_handle_t *)poll, NULL);
    }
    if (*socket != NULL) {
        CHECK(zmq_close(*socket) == 0);
        *socket = NULL;
    }
}

void
engine_publisher_close(struct engine_publisher *publisher)
{
    close_socket(&publisher->pub, &publisher->pub_poll);
    close_socket(&publisher->router, &publisher->router_poll);
}

void
engine_publisher_fini(struct engine_publisher *publisher)
{
    CHECK(publisher->pub == NULL && publisher->router == NULL);
    if (publisher->context != NULL) {
        (void)zmq_ctx_term(publisher->context);
        publisher->context = NULL;
    }
    engine_batch_fini(&publisher->batch);
    engine_events_log_fini(&publisher->log);
    buf_fini(&publisher->payload);
}
