/* Live batches of cache events over a ZeroMQ PUB socket. */
#include "chaos/engine/engine_publish_internal.h"

#include <errno.h>
#include <time.h>
#include <zmq.h>

#include "node/node.h"

bool
engine_publish_wanted(const struct engine_options *options)
{
    return options->events != NULL || options->replay != NULL;
}

bool
engine_publish_any_port(const struct engine_options *options)
{
    return engine_socket_any_port(options->events) ||
           engine_socket_any_port(options->replay);
}

static double
wall_clock(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void
send_live(struct engine_publisher *p, uint64_t seq, struct slice payload)
{
    unsigned char number[ENGINE_SEQ_BYTES];

    engine_seq_encode(seq, number);
    struct slice frames[] = {
        slice_of(p->options->event_topic),
        {(const char *)number, sizeof(number)},
        payload,
    };
    engine_socket_send(&p->pub, frames, 3);
}

/* Sends what was not sent live yet, or loses it as ordered. */
static void
send_waiting(struct engine_publisher *p)
{
    struct slice payload;

    if (p->pub.zmq == NULL) {
        p->live_seq = p->log.next_seq;
        return;
    }
    (void)engine_socket_events(&p->pub);
    for (; p->live_seq < p->log.next_seq; p->live_seq++) {
        if (engine_events_log_find(&p->log, p->live_seq, &payload) &&
            !engine_faults_drop_event(p->faults)) {
            send_live(p, p->live_seq, payload);
        }
    }
}

/* Lets new subscribers count before the next message. */
static void
on_pub(void *context)
{
    struct engine_publisher *p = context;

    (void)engine_socket_events(&p->pub);
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
    engine_replay_resume(&publisher->replay);
}

/* SGLang begins by saying that its cache is empty. */
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
    engine_replay_restart(&publisher->replay);
    publisher->live_seq = 0;
    begin(publisher);
}

static int
open_all(struct engine_publisher *p, uint32_t rank, uint32_t any)
{
    const struct engine_options *o = p->options;
    uint32_t any_replay = any != 0 ? any + (uint32_t)o->ranks : 0;
    char endpoint[ENGINE_URL_MAX];
    int r = 0;

    p->context = zmq_ctx_new();
    if (p->context == NULL) {
        return engine_socket_fault();
    }
    if (o->events != NULL) {
        if (!engine_socket_endpoint(o->events, o->host, any, rank, endpoint)) {
            return -EINVAL;
        }
        r = engine_socket_open(&p->pub, p->context, ZMQ_PUB, ENGINE_PUBLISH_HWM,
                               endpoint);
    }
    if (r == 0 && o->replay != NULL) {
        if (!engine_socket_endpoint(o->replay, o->host, any_replay, rank,
                                    endpoint)) {
            return -EINVAL;
        }
        r = engine_replay_open(&p->replay, p->context, endpoint, o, p->faults,
                               &p->log);
    }
    return r;
}

int
engine_publisher_init(struct engine_publisher *publisher,
                      const struct engine_options *options,
                      struct engine_faults *faults, uint32_t rank, uint32_t any)
{
    struct engine_events_format format = {
        .encoding = (enum engine_events_encoding)options->event_encoding,
        .slots = (uint32_t)options->event_slots,
        .block_tokens = (uint32_t)options->block_size,
        .rank = rank,
        .hash_bytes = options->event_hashes != 0,
        .windows = (uint32_t)options->window_groups,
        .window_tokens = (uint32_t)options->window,
        .ahead = (uint32_t)options->lookahead,
    };

    *publisher =
        (struct engine_publisher){.options = options, .faults = faults};
    engine_batch_init(&publisher->batch, &format);
    buf_init(&publisher->payload, ENGINE_BATCH_BYTES_MAX);
    int r =
        engine_events_log_init(&publisher->log, (uint32_t)options->buffer_steps,
                               ENGINE_PUBLISH_LOG_BYTES_MAX);
    r = r != 0 ? r : open_all(publisher, rank, any);
    if (r != 0) {
        engine_publisher_close(publisher);
        engine_publisher_fini(publisher);
        return r;
    }
    begin(publisher);
    return 0;
}

int
engine_publisher_start(struct engine_publisher *publisher, uv_loop_t *loop)
{
    int r = engine_socket_watch(&publisher->pub, loop, on_pub, publisher);

    return r != 0 ? r : engine_replay_start(&publisher->replay, loop);
}

void
engine_publisher_close(struct engine_publisher *publisher)
{
    engine_socket_close(&publisher->pub);
    engine_replay_close(&publisher->replay);
}

void
engine_publisher_fini(struct engine_publisher *publisher)
{
    CHECK(publisher->pub.zmq == NULL && publisher->replay.socket.zmq == NULL);
    if (publisher->context != NULL) {
        (void)zmq_ctx_term(publisher->context);
        publisher->context = NULL;
    }
    engine_batch_fini(&publisher->batch);
    engine_events_log_fini(&publisher->log);
    buf_fini(&publisher->payload);
}
