/* Kept batches, sent again to readers that missed some. */
#include "chaos/engine/engine_replay_internal.h"

#include <zmq.h>

#include "node/node.h"

#define SEQ_END        UINT64_MAX
#define REQUEST_FRAMES 3
#define CHUNK_EVERY_MS 1

/* [identity][] and [topic], if these engines send it, [seq][payload]. */
static void
send_one(struct engine_replay *replay, uint64_t seq, struct slice payload)
{
    const struct engine_replay_job *job = &replay->job;
    unsigned char number[ENGINE_SEQ_BYTES];
    struct slice frames[5] = {{job->identity, job->identity_len}, SLICE("")};
    uint32_t count = 2;

    engine_seq_encode(seq, number);
    if (replay->options->replay_frames == 4) {
        frames[count++] =
            seq == SEQ_END ? SLICE("") : slice_of(replay->options->event_topic);
    }
    frames[count++] = (struct slice){(const char *)number, sizeof(number)};
    frames[count++] = payload;
    engine_socket_send(&replay->socket, frames, count);
}

/* One request as it arrives, frame by frame. */
struct asked {
    struct engine_replay_job *job;
    uint32_t frames;
    bool valid;
};

static void
take_frame(struct asked *asked, struct slice frame)
{
    struct engine_replay_job *job = asked->job;

    switch (asked->frames++) {
    case 0:
        asked->valid = frame.len <= sizeof(job->identity);
        job->identity_len = asked->valid ? frame.len : 0;
        memcpy(job->identity, frame.ptr, job->identity_len);
        break;
    case 1:
        asked->valid &= frame.len == 0;
        break;
    case 2:
        asked->valid &= frame.len == ENGINE_SEQ_BYTES;
        if (asked->valid) {
            job->next_seq = engine_seq_decode((const unsigned char *)frame.ptr);
        }
        break;
    default:
        asked->valid = false;
        break;
    }
}

/* Takes the next message from the socket. True: it is a request, and the job
 * now. */
static bool
receive(struct engine_replay *replay)
{
    struct asked asked = {.job = &replay->job};
    zmq_msg_t frame;
    bool more = true;

    CHECK(zmq_msg_init(&frame) == 0);
    while (more &&
           zmq_msg_recv(&frame, replay->socket.zmq, ZMQ_DONTWAIT) >= 0) {
        take_frame(&asked,
                   (struct slice){zmq_msg_data(&frame), zmq_msg_size(&frame)});
        more = zmq_msg_more(&frame) != 0;
    }
    CHECK(zmq_msg_close(&frame) == 0);
    return asked.valid && asked.frames == REQUEST_FRAMES;
}

static void
begin_job(struct engine_replay *replay)
{
    struct engine_replay_job *job = &replay->job;
    const struct engine_events_log *log = replay->log;

    LOG_DEBUG("replay", KV("from", job->next_seq), KV("first", log->first_seq),
              KV("next", log->next_seq));
    job->fate = engine_faults_draw_replay(replay->faults);
    job->end_seq = log->next_seq;
    if (job->next_seq < log->first_seq) {
        job->next_seq = log->first_seq;
    }
    job->first_seq = job->next_seq;
    replay->busy = !job->fate.mute;
}

/* Sends the next chunk, and the end marker after the last one. */
static void
work(struct engine_replay *replay)
{
    struct engine_replay_job *job = &replay->job;
    struct slice payload;

    for (uint32_t i = 0;
         i < ENGINE_REPLAY_CHUNK && job->next_seq < job->end_seq; i++) {
        uint64_t seq = job->next_seq++;
        uint32_t every = job->fate.hole_every;
        bool hole =
            every != 0 && seq % every == every - 1 && seq != job->first_seq;
        if (!hole && engine_events_log_find(replay->log, seq, &payload)) {
            send_one(replay, seq, payload);
        }
    }
    if (job->next_seq >= job->end_seq) {
        if (!job->fate.endless) {
            send_one(replay, SEQ_END, SLICE(""));
        }
        replay->busy = false;
    }
}

static void on_timer(uv_timer_t *timer);

/* Answers requests until one takes longer, or there is none. */
static void
go_on(struct engine_replay *replay)
{
    while (!replay->busy &&
           (engine_socket_events(&replay->socket) & ZMQ_POLLIN) != 0) {
        if (receive(replay)) {
            begin_job(replay);
        }
        if (replay->busy) {
            work(replay);
        }
    }
    if (replay->busy && !uv_is_active((uv_handle_t *)&replay->timer)) {
        CHECK(uv_timer_start(&replay->timer, on_timer, CHUNK_EVERY_MS,
                             CHUNK_EVERY_MS) == 0);
    }
}

static void
on_timer(uv_timer_t *timer)
{
    struct engine_replay *replay = timer->data;

    if (replay->busy && replay->faults->events_stalled == 0) {
        work(replay);
    }
    if (!replay->busy || replay->faults->events_stalled != 0) {
        (void)uv_timer_stop(timer);
        engine_replay_resume(replay);
    }
}

static void
on_socket(void *context)
{
    struct engine_replay *replay = context;

    (void)engine_socket_events(&replay->socket);
    engine_replay_resume(replay);
}

int
engine_replay_open(struct engine_replay *replay, void *zmq_context,
                   const char *endpoint, const struct engine_options *options,
                   struct engine_faults *faults, struct engine_events_log *log)
{
    *replay = (struct engine_replay){
        .options = options, .faults = faults, .log = log};
    return engine_socket_open(&replay->socket, zmq_context, ZMQ_ROUTER,
                              (int)options->replay_hwm, endpoint);
}

int
engine_replay_start(struct engine_replay *replay, uv_loop_t *loop)
{
    if (replay->socket.zmq == NULL) {
        return 0;
    }
    CHECK(uv_timer_init(loop, &replay->timer) == 0);
    replay->timer.data = replay;
    return engine_socket_watch(&replay->socket, loop, on_socket, replay);
}

void
engine_replay_resume(struct engine_replay *replay)
{
    if (replay->socket.zmq != NULL && replay->faults->events_stalled == 0) {
        go_on(replay);
    }
}

void
engine_replay_restart(struct engine_replay *replay)
{
    replay->busy = false;
}

void
engine_replay_close(struct engine_replay *replay)
{
    if (replay->timer.data != NULL &&
        !uv_is_closing((uv_handle_t *)&replay->timer)) {
        uv_close((uv_handle_t *)&replay->timer, NULL);
    }
    engine_socket_close(&replay->socket);
}
