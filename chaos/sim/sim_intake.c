/*
 * A node's readers of engines: the sockets that the intake has, simulated,
 * around the readings that it has, which are real.
 */
#include <stdlib.h>

#include "chaos/sim/sim_world_internal.h"
#include "index/base/role.h"

#define RETRY_MS    100U
#define GAP_US      UINT64_C(2000000) /* as the intake's thread */
#define REPLIES_MAX 24U               /* handed over at once */
#define HAND_BYTES  1024U             /* of names, copied at once */
#define HAND_STEPS  16U               /* blocks of them in the ledger */
#define UNABLE_MS   4000U
#define ABLE_MS     1000U

static struct sim_reader *
reader_at(struct sim_world *w, uint32_t who)
{
    CHECK(who / SIM_ENGINES_MAX < SIM_NODES_MAX);
    return &w->nodes[who / SIM_ENGINES_MAX].readers[who % SIM_ENGINES_MAX];
}

static uint64_t
way_us(struct sim_world *w)
{
    return 200 + rng_below(&w->rng, 800);
}

/* Messages */

static uint32_t
keep(struct sim_world *w, const struct sim_message *message)
{
    if (w->messages_free_count == 0) {
        uint32_t size = w->messages_size * 2 + 64;
        w->messages = realloc(w->messages, size * sizeof *w->messages);
        w->messages_free =
            realloc(w->messages_free, size * sizeof *w->messages_free);
        CHECK(w->messages != NULL && w->messages_free != NULL);
        for (uint32_t i = size; i-- > w->messages_size;) {
            w->messages_free[w->messages_free_count++] = i;
        }
        w->messages_size = size;
    }
    CHECK(w->messages_free_count <= w->messages_size);
    uint32_t slot = w->messages_free[--w->messages_free_count];
    w->messages[slot] = *message;
    return slot;
}

static struct sim_message
release(struct sim_world *w, uint32_t slot)
{
    CHECK(slot < w->messages_size && w->messages_free_count < w->messages_size);
    w->messages_free[w->messages_free_count++] = slot;
    return w->messages[slot];
}

/* Requests of a stream */

static void
ask(struct sim_world *w, uint32_t node, uint32_t engine, uint64_t seq)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];
    struct sim_message message = {.socket = ++r->replay, .seq = (uint32_t)seq};

    r->replaying = true;
    sim_add(w, w->time.now_us + way_us(w), SIM_EV_ASK,
            sim_reader_of(node, engine), keep(w, &message));
}

static void
arm(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];
    uint64_t due = kv_stream_deadline(r->decoder.stream);
    uint64_t now = sim_now(w, node);

    if (due == SIM_NEVER) {
        return;
    }
    uint64_t at = w->time.now_us + (due > now ? due - now : 0);
    if (at < r->armed_us) {
        r->armed_us = at;
        sim_add(w, at, SIM_EV_READER, sim_reader_of(node, engine),
                w->nodes[node].life);
    }
}

/* A reader takes a batch for lost that is not, if replies are. */
static void
note_out(struct sim_world *w, uint32_t node, uint32_t engine,
         const struct kv_out *out)
{
    uint32_t process = w->nodes[node].readers[engine].process;
    struct sim_process *p = &w->engines[engine].processes[process];

    if (out->kind == KV_OUT_BEGIN) {
        sim_trace(w, out->reason, sim_reader_of(node, engine), out->seq);
    } else if (out->kind == KV_OUT_GAP) {
        sim_saw(w, SIM_SAW_GAP, 1);
        p->gapped = true;
        p->lost = p->lost || sim_has(w, SIM_REPLY);
    }
}

static void
pump(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];
    struct kv_out out;

    CHECK(r->on && w->nodes[node].up);
    while (kv_stream_next_out(r->decoder.stream, &out)) {
        if (out.kind == KV_OUT_REPLAY) {
            ask(w, node, engine, out.seq);
        } else if (out.kind == KV_OUT_HANGUP) {
            r->replaying = false;
        } else {
            note_out(w, node, engine, &out);
            decoder_take(&r->decoder, &out, sim_now(w, node));
        }
    }
    arm(w, node, engine);
    sim_node_want(w, node);
}

/* The event socket */

static void
open_socket(struct sim_world *w, uint32_t node, uint32_t engine,
            uint64_t after_us)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];

    r->socket++;
    sim_add(w, w->time.now_us + after_us + way_us(w), SIM_EV_CONNECT,
            sim_reader_of(node, engine), r->socket);
}

static void
attach(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];

    CHECK(r->on && !r->connected);
    if (w->nodes[node].severed[engine]) {
        open_socket(w, node, engine, RETRY_MS * SIM_MS);
        return;
    }
    r->connected = true;
    r->process = w->engines[engine].processes_count - 1;
    r->live_us = w->time.now_us;
    kv_stream_connected(r->decoder.stream, sim_now(w, node));
    pump(w, node, engine);
}

static void
hang_up(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];

    if (r->connected) {
        r->connected = false;
        kv_stream_disconnected(r->decoder.stream, sim_now(w, node));
        pump(w, node, engine);
    }
    open_socket(w, node, engine, RETRY_MS * SIM_MS);
}

void
sim_intake_break(struct sim_world *w, uint32_t node, uint32_t engine,
                 uint64_t after_us)
{
    const struct sim_reader *r = &w->nodes[node].readers[engine];

    if (w->nodes[node].up && r->on && r->connected) {
        sim_add(w, w->time.now_us + after_us, SIM_EV_HANGUP,
                sim_reader_of(node, engine), r->socket);
    }
}

/* Live messages */

static void
send_live(struct sim_world *w, uint32_t node, uint32_t engine, uint32_t seq)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];
    struct sim_message message = {
        .socket = r->socket, .process = r->process, .seq = seq};
    uint64_t at = w->time.now_us + way_us(w);

    CHECK(r->on && r->connected);
    r->live_us = at > r->live_us ? at : r->live_us;
    sim_add(w, r->live_us, SIM_EV_LIVE, sim_reader_of(node, engine),
            keep(w, &message));
}

void
sim_intake_publish(struct sim_world *w, uint32_t engine, uint32_t seq)
{
    uint32_t living = w->engines[engine].processes_count - 1;

    for (uint32_t node = 0; node < w->nodes_count; node++) {
        const struct sim_reader *r = &w->nodes[node].readers[engine];
        bool hears = w->nodes[node].up && r->on && r->connected &&
                     r->process == living && !w->nodes[node].severed[engine];
        if (!hears) {
            continue;
        }
        if (!w->quiet && sim_chance(&w->chaos[SIM_DROP], w->drop_permille) &&
            sim_may_break(w, SIM_DROP)) {
            continue;
        }
        send_live(w, node, engine, seq);
        if (!w->quiet &&
            sim_chance(&w->chaos[SIM_REPEAT], w->repeat_permille) &&
            sim_may_break(w, SIM_REPEAT)) {
            send_live(w, node, engine, seq);
        }
    }
}

static struct slice
payload_of(const struct sim_world *w, uint32_t engine, uint32_t process,
           uint32_t seq)
{
    const struct sim_batch *batch =
        &w->engines[engine].processes[process].batches[seq];

    CHECK(seq < w->engines[engine].processes[process].count);
    return (struct slice){batch->bytes, batch->len};
}

static void
take_live(struct sim_world *w, uint32_t node, uint32_t engine, uint32_t slot)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];
    struct sim_message message = release(w, slot);

    if (r->on && r->connected && message.socket == r->socket) {
        kv_stream_live(r->decoder.stream, message.seq,
                       payload_of(w, engine, message.process, message.seq),
                       sim_now(w, node));
        pump(w, node, engine);
    }
}

/* Replays */

/* The engine answers: all at once, or not at all. */
static void
take_ask(struct sim_world *w, uint32_t node, uint32_t engine, uint32_t slot)
{
    const struct sim_engine *e = &w->engines[engine];
    struct sim_message message = release(w, slot);
    uint32_t process = e->processes_count - 1;
    uint32_t low = sim_engine_low(e, process);
    uint32_t high = e->processes[process].count;

    if (w->nodes[node].severed[engine] || !e->has_replay) {
        return;
    }
    sim_saw(w, SIM_SAW_REPLAYED, 1);
    if (low > message.seq) {
        sim_saw(w, SIM_SAW_REPLAY_ROLLED, 1);
    }
    message.process = process;
    message.seq = message.seq > low ? message.seq : low;
    message.until = message.seq > high ? message.seq : high;
    CHECK(message.until <= high || message.seq == message.until);
    message.lost = UINT32_MAX;
    message.end = true;
    if (!w->quiet && sim_chance(&w->chaos[SIM_REPLY], w->reply_permille) &&
        sim_may_break(w, SIM_REPLY)) {
        /* Never the first one. */
        message.lost = message.seq + 1 + sim_below(&w->chaos[SIM_REPLY], 20);
        message.end = sim_below(&w->chaos[SIM_REPLY], 2) == 0;
    }
    sim_add(w, w->time.now_us + way_us(w), SIM_EV_REPLY,
            sim_reader_of(node, engine), keep(w, &message));
}

static bool
is_waiting(const struct sim_reader *r, const struct sim_message *message)
{
    return r->on && r->replaying && r->replay == message->socket;
}

static void
take_reply(struct sim_world *w, uint32_t node, uint32_t engine, uint32_t slot)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];
    struct sim_message message = release(w, slot);
    uint64_t now = sim_now(w, node);

    for (uint32_t n = 0; message.seq < message.until && n < REPLIES_MAX &&
                         is_waiting(r, &message);
         n++, message.seq++) {
        struct slice payload =
            payload_of(w, engine, message.process, message.seq);
        if (payload.ptr != NULL && message.seq != message.lost) {
            kv_stream_replayed(r->decoder.stream, message.seq, payload, now);
            pump(w, node, engine);
        }
    }
    if (!is_waiting(r, &message)) {
        return;
    }
    if (message.seq < message.until) {
        sim_add(w, w->time.now_us + way_us(w), SIM_EV_REPLY,
                sim_reader_of(node, engine), keep(w, &message));
    } else if (message.end) {
        kv_stream_replay_end(r->decoder.stream, now);
        pump(w, node, engine);
    }
}

/* Beginning and ending */

/* A real intake waits for room. This one cannot, and must not lose an item:
 * its ring has room for all that readings hold. */
static void *
reserve(void *context, size_t size)
{
    void *room = ring_reserve(&((struct sim_node *)context)->items, size);

    CHECK(room != NULL);
    return room;
}

static void
commit(void *context)
{
    ring_commit(&((struct sim_node *)context)->items);
}

static void
note(void *context, enum decoder_note what, uint64_t seq)
{
    (void)context;
    (void)what;
    (void)seq;
}

static void
open_reading(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_reader *r = &n->readers[engine];
    const struct kv_stream_config config = {
        .has_replay = w->engines[engine].has_replay,
        .replay_timeout_ms = 500,
        .replay_rounds = 3,
        .probe_interval_ms = 2000,
        .retry_ms = 100,
        .pending_bytes_max = (size_t)1 << 20,
    };

    r->decoder = (struct decoder){
        .tools = &n->tools,
        .counters = &r->counters,
        .sink = {.context = n,
                 .reserve = reserve,
                 .commit = commit,
                 .note = note},
        .identity = w->engines[engine].stream.worker,
        .worker = engine,
        .generation = 1,
        .number = n->streams[engine].number,
    };
    CHECK(kv_stream_new(&r->decoder.stream, &config, &r->counters,
                        sim_now(w, node), rng_next(&w->draw)) == 0);
}

static void
open_source(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];

    CHECK(!r->on);
    w->nodes[node].streams[engine].number++;
    r->on = true;
    r->armed_us = SIM_NEVER;
    open_reading(w, node, engine);
    sim_snapshot_resume(w, node, engine, &r->decoder);
    open_socket(w, node, engine, 0);
    pump(w, node, engine);
}

static void
say_unable(struct sim_world *w, uint32_t node, uint32_t engine, bool unable)
{
    sim_trace(w, unable ? "unable" : "able", node, engine);
    sim_saw(w, SIM_SAW_UNABLE, unable);
    role_is_control();
    hub_unable(w->nodes[node].hub, w->engines[engine].stream.worker, unable,
               sim_now(w, node));
}

/* Does what its reach asks for. */
static void
settle(struct sim_world *w, uint32_t node, uint32_t engine)
{
    static const struct ingest_reach_config config = {.unable_ms = UNABLE_MS,
                                                      .able_ms = ABLE_MS};
    struct ingest_reach *reach = &w->nodes[node].streams[engine].reach;

    for (;;) {
        switch (ingest_reach_next(reach, &config, sim_now(w, node))) {
        case INGEST_REACH_OPEN:
            open_source(w, node, engine);
            ingest_reach_opened(reach, 0);
            break;
        case INGEST_REACH_CLOSE:
            sim_intake_stop(w, node, engine);
            ingest_reach_closed(reach, 0);
            break;
        case INGEST_REACH_SAY_UNABLE:
            say_unable(w, node, engine, true);
            break;
        case INGEST_REACH_SAY_ABLE:
            say_unable(w, node, engine, false);
            break;
        case INGEST_REACH_NOTHING:
            return;
        }
    }
}

/* The thread was stopped for long: whatever its sockets say may be of another
 * process by now. */
static void
see_the_time(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    uint64_t now = sim_now(w, node);

    if (now - n->turn_us > GAP_US && n->turn_us != 0) {
        for (uint32_t engine = 0; engine < w->engines_count; engine++) {
            if (n->readers[engine].on && n->readers[engine].connected) {
                hang_up(w, node, engine);
            }
        }
    }
    n->turn_us = now;
}

void
sim_intake_look(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_stream *f = &w->nodes[node].streams[engine];
    const struct sim_reader *r = &w->nodes[node].readers[engine];
    enum ingest_reach_seen seen = INGEST_REACH_NOT;

    see_the_time(w, node);
    if (f->reach.open &&
        kv_stream_state(r->decoder.stream) != KV_STREAM_CONNECTING) {
        seen = kv_stream_state_is_live(f->rank.read) || !f->reach.unable ||
                       !f->reach.takes
                   ? INGEST_REACH_REACHED
                   : INGEST_REACH_UNKNOWN;
    }
    ingest_reach_look(&f->reach, seen, sim_now(w, node));
    settle(w, node, engine);
}

void
sim_intake_read(struct sim_world *w, uint32_t node, uint32_t engine, bool on)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_stream *f = &n->streams[engine];
    bool took = f->reach.takes;

    role_is_control();
    if (f->reach.wanted == on) {
        return;
    }
    sim_trace(w, on ? "read" : "unread", node, engine);
    sim_saw(w, SIM_SAW_HANDED_OVER, !on);
    ingest_reach_want(&f->reach, on);
    if (took) {
        sim_snapshot_unread(w, node, engine);
        ingest_stream_end(n->ingest, &f->rank, sim_now(w, node));
    }
    settle(w, node, engine);
}

void
sim_intake_stop(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];

    if (r->on) {
        decoder_close(&r->decoder);
        kv_stream_free(r->decoder.stream);
        r->decoder.stream = NULL;
        r->on = false;
        r->connected = false;
        r->replaying = false;
        r->socket++;
    }
    CHECK(!r->on && !r->connected);
}

void
sim_intake_reread(struct sim_world *w, uint32_t node, uint32_t engine,
                  uint64_t ask_number, bool prove)
{
    if (w->nodes[node].streams[engine].reach.takes) {
        sim_trace(w, prove ? "prove" : "reread", sim_reader_of(node, engine),
                  ask_number);
        sim_add(w, w->time.now_us + way_us(w), SIM_EV_REREAD,
                sim_reader_of(node, engine), ask_number << 1 | prove);
    }
}

void
sim_intake_hand(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_node *n = &w->nodes[node];

    n->streams[engine].rank.hands =
        n->readers[engine].on && n->streams[engine].reach.takes;
}

/* The command comes before all that control sends later, so it is carried out
 * at once. */
static void
go_on(struct sim_world *w, uint32_t node, uint32_t engine,
      struct decoder_hand *hand)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];
    uint64_t count = decoder_hand_count(hand);

    while (decoder_hand_step(hand, w->nodes[node].tools.ledger, HAND_STEPS)) {
    }
    decoder_close(&r->decoder);
    kv_stream_free(r->decoder.stream);
    r->connected = false;
    r->replaying = false;
    r->replay++;
    r->armed_us = SIM_NEVER;
    open_reading(w, node, engine);
    if (decoder_adopt(&r->decoder, hand)) {
        sim_saw(w, SIM_SAW_HANDED, true);
        sim_trace(w, "hand", sim_reader_of(node, engine), count);
        decoder_tell_resume(&r->decoder);
    }
    open_socket(w, node, engine, 0);
    pump(w, node, engine);
}

bool
sim_intake_hand_work(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    struct ingest_rank *rank;

    role_is_control();
    if (!ingest_streams_hands(n->ingest, sim_now(w, node))) {
        return false;
    }
    struct decoder_hand *hand =
        ingest_streams_hand(n->ingest, HAND_BYTES, &rank, sim_now(w, node));
    if (hand != NULL && n->readers[rank->worker].on &&
        !n->readers[rank->worker].decoder.whole) {
        go_on(w, node, rank->worker, hand);
    }
    decoder_hand_free(hand);
    return true;
}

static void
take_due(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];

    r->armed_us = SIM_NEVER;
    if (kv_stream_deadline(r->decoder.stream) <= sim_now(w, node)) {
        kv_stream_tick(r->decoder.stream, sim_now(w, node));
    }
    pump(w, node, engine);
}

static void
take(struct sim_world *w, const struct virtual_event *event, uint32_t node,
     uint32_t engine)
{
    struct sim_reader *r = &w->nodes[node].readers[engine];

    switch ((int)event->kind) {
    case SIM_EV_CONNECT:
        if (r->on && r->socket == event->what && !r->connected) {
            attach(w, node, engine);
        }
        break;
    case SIM_EV_HANGUP:
        if (r->on && r->socket == event->what && r->connected) {
            hang_up(w, node, engine);
        }
        break;
    case SIM_EV_LIVE:
        take_live(w, node, engine, (uint32_t)event->what);
        break;
    case SIM_EV_REPLY:
        take_reply(w, node, engine, (uint32_t)event->what);
        break;
    case SIM_EV_READER:
        if (r->on && event->what == w->nodes[node].life) {
            take_due(w, node, engine);
        }
        break;
    default:
        if (r->on && (event->what & 1) != 0) {
            kv_stream_prove(r->decoder.stream, event->what >> 1,
                            sim_now(w, node));
            pump(w, node, engine);
        } else if (r->on) {
            decoder_reread(&r->decoder, event->what >> 1, sim_now(w, node));
            pump(w, node, engine);
        }
        break;
    }
}

static void
forget(struct sim_world *w, const struct virtual_event *event)
{
    if (event->kind == SIM_EV_LIVE || event->kind == SIM_EV_REPLY) {
        (void)release(w, (uint32_t)event->what);
    }
}

void
sim_intake_event(struct sim_world *w, const struct virtual_event *event)
{
    uint32_t node = event->who / SIM_ENGINES_MAX;
    uint32_t engine = event->who % SIM_ENGINES_MAX;

    if (event->kind == SIM_EV_ASK) {
        if (reader_at(w, event->who)->on) {
            take_ask(w, node, engine, (uint32_t)event->what);
        } else {
            (void)release(w, (uint32_t)event->what);
        }
        return;
    }
    if (!w->nodes[node].up) {
        forget(w, event);
        return;
    }
    if (!sim_runs(w, node)) { /* it waits in a socket */
        sim_add(w, w->nodes[node].paused_us + 1, (enum sim_event)event->kind,
                event->who, event->what);
        return;
    }
    see_the_time(w, node);
    take(w, event, node, engine);
}
