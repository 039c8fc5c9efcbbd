/*
 * A stream that follows a publisher which loses, repeats and restarts. At
 * every step what was applied is of one process, in order, and all of it from
 * seq 0 on whenever the stream says that it is live. When the world calms down
 * the stream has exactly what the publisher has, or says that it is partial.
 *
 *   property_kv_stream SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/events/kv_stream.h"

#define STEPS       400
#define PROCESSES   256
#define IN_FLIGHT   4096U
#define MS          UINT64_C(1000)
#define PROBE_MS    2000U
#define QUIET_US    (600000 * MS)
#define REPLIES_MAX 8192U

/* A batch's payload: which process, which seq. */
struct batch {
    uint64_t process;
    uint64_t seq;
};

struct process {
    uint64_t next_seq;
    uint64_t low;  /* the oldest that its replay still has */
    uint64_t hole; /* never published; UINT64_MAX: none */
};

/* What a seed draws: how bad its world is. */
struct weather {
    bool has_replay;
    bool
        proxy; /* a restart does not break the connection, nothing is lost: else seq 0 of the next process might be */
    bool rolls;          /* the replay forgets */
    bool holes;          /* the publisher skips a seq */
    uint32_t live_loss;  /* percent */
    uint32_t live_copy;  /* percent */
    uint32_t reply_loss; /* percent, never the first */
    uint32_t end_loss;   /* percent */
    uint32_t silence;    /* percent of requests that nobody answers */
    uint32_t restart;    /* per 1000 steps */
    uint32_t break_off;  /* per 1000 steps */
    uint32_t reread;     /* per 1000 steps */
};

struct world {
    struct rng rng;
    struct weather weather;
    uint64_t now_us;
    struct kv_stream *stream;
    struct kv_counters counters;
    struct process process[PROCESSES];
    uint32_t current; /* process */
    bool connected;
    struct batch live[IN_FLIGHT]; /* on its way by the connection */
    uint32_t live_count;
    bool asked; /* and not served yet */
    uint64_t asked_from;
    struct batch reply[REPLIES_MAX]; /* on its way by the replay */
    uint32_t reply_count;
    bool end;       /* after the replies */
    bool ended;     /* the last request was answered to its end */
    bool torn;      /* some reply was lost */
    uint64_t epoch; /* as the process is named */
    uint64_t ask;   /* the last question */
    uint64_t ask_answered;
    uint32_t ask_process; /* that ran when the last question was asked */
    bool whole;           /* as the epoch began */
    bool gap;             /* told since the last APPLY */
    bool gapped;          /* told in this epoch */

    bool any; /* something was applied in the epoch */
    bool from_0;
    bool contiguous;
    struct batch last;
};

static struct world world;
static uint64_t seed;
static unsigned step;
static struct kv_counters total;

#define REQUIRE(condition)                                                   \
    do {                                                                     \
        if (!(condition)) {                                                  \
            printf("property_kv_stream: %s (line %d), seed %llu, step %u\n", \
                   #condition, __LINE__, (unsigned long long)seed, step);    \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

static uint32_t
below(uint32_t bound)
{
    return (uint32_t)rng_below(&world.rng, bound);
}

static bool
chance(uint32_t percent)
{
    return below(100) < percent;
}

static struct process *
current(void)
{
    return &world.process[world.current];
}

static struct slice
payload_of(const struct batch *batch)
{
    return (struct slice){.ptr = (const char *)batch, .len = sizeof *batch};
}

/* What comes out */

static void
take_apply(const struct kv_out *out)
{
    struct batch batch;

    REQUIRE(out->payload.len == sizeof batch);
    memcpy(&batch, out->payload.ptr, sizeof batch);
    REQUIRE(out->seq == batch.seq &&
            out->fingerprint == key_digest(out->payload));
    if (!world.any) {
        world.from_0 = batch.seq == 0;
        REQUIRE(world.from_0 == world.whole);
        REQUIRE(!world.whole || world.epoch == out->fingerprint);
        world.contiguous = true;
    } else {
        REQUIRE(batch.process == world.last.process);
        REQUIRE(batch.seq > world.last.seq);
        REQUIRE(world.gap == (batch.seq != world.last.seq + 1));
        world.contiguous = world.contiguous && batch.seq == world.last.seq + 1;
    }
    world.gap = false;
    world.any = true;
    world.last = batch;
}

static void
pull(void)
{
    struct kv_out out;
    const char *reason = "";

    while (kv_stream_next_out(world.stream, &out)) {
        switch (out.kind) {
        case KV_OUT_APPLY:
            take_apply(&out);
            break;
        case KV_OUT_GAP:
            world.gap = true;
            world.gapped = true;
            break;
        case KV_OUT_BEGIN:
            REQUIRE(out.ask >= world.ask_answered && out.ask <= world.ask);
            world.ask_answered = out.ask;
            world.epoch = out.process;
            world.whole = out.whole;
            world.gap = false;
            world.gapped = false;
            world.any = false;
            break;
        case KV_OUT_REPLAY:
            REQUIRE(world.connected && world.weather.has_replay);
            world.asked = true;
            world.asked_from = out.seq;
            world.reply_count = 0;
            world.end = false;
            world.ended = false;
            break;
        case KV_OUT_HANGUP:
            world.asked = false;
            world.reply_count = 0;
            world.end = false;
            break;
        case KV_OUT_PROVED:
            /* Of a process that lived after the question, or by the one
             * connection that there is, if no replay comes to its end. */
            REQUIRE(world.any && out.ask == world.ask);
            REQUIRE(!world.ended || world.last.process >= world.ask_process);
            world.ask_answered = out.ask;
            break;
        case KV_OUT_STATE:
            break;
        }
    }
    if (!kv_stream_check(world.stream, &reason)) {
        printf("property_kv_stream: %s, seed %llu, step %u\n", reason,
               (unsigned long long)seed, step);
        exit(1);
    }
    REQUIRE(kv_stream_state(world.stream) != KV_STREAM_LIVE || !world.any ||
            (world.from_0 && world.contiguous));
}

/* The publisher */

static void
send_live(const struct batch *batch)
{
    bool lost = !world.weather.proxy && chance(world.weather.live_loss);

    if (!world.connected || lost || world.live_count + 2 > IN_FLIGHT) {
        REQUIRE(!world.weather.proxy || world.live_count + 2 <= IN_FLIGHT);
        return;
    }
    world.live[world.live_count++] = *batch;
    if (chance(world.weather.live_copy)) {
        world.live[world.live_count++] = *batch;
    }
}

static void
publish(void)
{
    struct process *process = current();
    struct batch batch = {.process = world.current, .seq = process->next_seq++};

    if (world.weather.rolls && process->next_seq > process->low + 64) {
        process->low = process->next_seq - 64;
    }
    if (world.weather.holes && process->hole == UINT64_MAX && chance(5)) {
        process->hole = batch.seq;
        return;
    }
    send_live(&batch);
}

static void
break_off(void)
{
    if (world.connected) {
        world.connected = false;
        world.live_count = 0;
        kv_stream_disconnected(world.stream, world.now_us);
        pull();
    }
}

static void
restart(void)
{
    if (world.current + 1 == PROCESSES) {
        return;
    }
    world.current++;
    *current() = (struct process){.hole = UINT64_MAX};
    if (world.weather.proxy) {
        return;
    }
    /* Answers of the old process may still be on their way. */
    if (chance(50)) {
        break_off();
    }
    for (uint32_t n = below(80); chance(50) && n > 0; n--) {
        publish();
    }
    break_off();
}

static void
serve(void)
{
    const struct process *process = current();
    uint64_t from = world.asked_from;
    bool first = true;

    if (!world.asked) {
        return;
    }
    world.asked = false;
    if (chance(world.weather.silence)) {
        return;
    }
    for (uint64_t seq = from > process->low ? from : process->low;
         seq < process->next_seq && world.reply_count < REPLIES_MAX; seq++) {
        if (seq == process->hole) {
            continue;
        }
        if (!first && chance(world.weather.reply_loss)) {
            world.torn = true;
            continue;
        }
        first = false;
        world.reply[world.reply_count++] =
            (struct batch){.process = world.current, .seq = seq};
    }
    world.end = !chance(world.weather.end_loss);
}

/* What arrives */

static void
deliver_live(void)
{
    if (world.live_count == 0) {
        return;
    }
    struct batch batch = world.live[0];
    memmove(world.live, world.live + 1,
            --world.live_count * sizeof world.live[0]);
    kv_stream_live(world.stream, batch.seq, payload_of(&batch), world.now_us);
    pull();
}

static void
deliver_reply(void)
{
    if (world.reply_count > 0) {
        struct batch batch = world.reply[0];
        memmove(world.reply, world.reply + 1,
                --world.reply_count * sizeof world.reply[0]);
        kv_stream_replayed(world.stream, batch.seq, payload_of(&batch),
                           world.now_us);
        pull();
    } else if (world.end) {
        world.end = false;
        world.ended = true;
        kv_stream_replay_end(world.stream, world.now_us);
        pull();
    }
}

static void
connect_anew(void)
{
    if (!world.connected) {
        world.connected = true;
        kv_stream_connected(world.stream, world.now_us);
        pull();
    }
}

static void
pass(uint64_t us)
{
    uint64_t end = world.now_us + us;

    while (kv_stream_deadline(world.stream) <= end) {
        uint64_t due = kv_stream_deadline(world.stream);
        world.now_us = due > world.now_us ? due : world.now_us;
        kv_stream_tick(world.stream, world.now_us);
        pull();
        REQUIRE(kv_stream_deadline(world.stream) > world.now_us);
    }
    world.now_us = end;
}

/* A seed */

static void
draw_weather(void)
{
    struct weather *w = &world.weather;

    w->has_replay = chance(80);
    w->proxy = chance(20);
    w->rolls = chance(30);
    w->holes = !w->proxy && chance(30);
    w->live_loss = chance(70) ? below(40) : 0;
    w->live_copy = chance(30) ? below(30) : 0;
    w->reply_loss = chance(50) ? below(50) : 0;
    w->end_loss = chance(50) ? below(60) : 0;
    w->silence = chance(30) ? below(100) : 0;
    w->restart = chance(70) ? below(60) : 0;
    w->break_off = chance(50) ? below(60) : 0;
    w->reread = chance(30) ? below(40) : 0;
}

static void
act(void)
{
    const struct weather *w = &world.weather;

    if (below(1000) < w->restart) {
        restart();
    }
    if (!w->proxy && below(1000) < w->break_off) {
        break_off();
    }
    if (below(1000) < w->reread) {
        world.ask += chance(50);
        world.ask_process = world.current;
        kv_stream_reread(world.stream, "wrong", world.ask, world.now_us);
        pull();
    }
    if (below(1000) < w->reread) {
        world.ask_process = world.current;
        kv_stream_prove(world.stream, ++world.ask, world.now_us);
        pull();
    }
    switch (below(6)) {
    case 0:
        for (uint32_t n = below(20); n > 0; n--) {
            publish();
        }
        break;
    case 1:
        for (uint32_t n = below(20); n > 0; n--) {
            deliver_live();
        }
        break;
    case 2:
        serve();
        break;
    case 3:
        for (uint32_t n = below(30); n > 0; n--) {
            deliver_reply();
        }
        break;
    case 4:
        connect_anew();
        break;
    default:
        pass(below(chance(10) ? 10000 : 300) * MS);
        break;
    }
}

static void
calm(void)
{
    uint64_t end = world.now_us + QUIET_US;

    world.weather.live_loss = 0;
    world.weather.reply_loss = 0;
    world.weather.end_loss = 0;
    world.weather.silence = 0;
    while (world.now_us < end) {
        connect_anew();
        while (world.live_count > 0) {
            deliver_live();
        }
        serve();
        while (world.reply_count > 0 || world.end) {
            deliver_reply();
        }
        pass(200 * MS);
    }
}

static void
judge(void)
{
    enum kv_stream_state state = kv_stream_state(world.stream);
    const struct process *process = current();
    /* What three answers in a row lack counts as lost, even if the engine has
     * it yet. */
    bool spared = world.weather.has_replay && !world.weather.rolls &&
                  !world.weather.holes && !(world.torn && world.gapped);

    REQUIRE(state == KV_STREAM_LIVE || state == KV_STREAM_PARTIAL);
    REQUIRE(!spared || state == KV_STREAM_LIVE);
    REQUIRE(world.ask_answered == world.ask);
    if (process->next_seq == 0 || !world.any) {
        REQUIRE(process->next_seq == 0 && !world.any);
        return;
    }
    REQUIRE(world.last.process == world.current);
    REQUIRE(world.last.seq == process->next_seq - 1);
    REQUIRE(kv_stream_next_seq(world.stream) == process->next_seq);
}

static void
run(void)
{
    world = (struct world){.now_us = 1000000};
    rng_init(&world.rng, seed);
    draw_weather();
    current()->hole = UINT64_MAX;
    const struct kv_stream_config config = {
        .has_replay = world.weather.has_replay,
        .replay_timeout_ms = 3000,
        .replay_rounds = 5,
        .probe_interval_ms = PROBE_MS,
        .retry_ms = 100,
        .pending_bytes_max = chance(30) ? 600 : 1 << 20,
    };
    REQUIRE(kv_stream_new(&world.stream, &config, &world.counters, world.now_us,
                          seed) == 0);
    connect_anew();
    for (step = 0; step < STEPS; step++) {
        act();
    }
    calm();
    /* Without a replay only the next batch shows a lost tail; and a batch is
     * not the publisher's last one if it was never sent. */
    current()->hole =
        current()->hole == UINT64_MAX ? UINT64_MAX - 1 : current()->hole;
    publish();
    calm();
    judge();
    kv_stream_free(world.stream);
}

#define SUM(name, help) \
    counter_bump(&total.name, counter_read(&world.counters.name));

/* What never happened was never tested. */
static void
require_all(void)
{
    const struct {
        const char *name;
        const struct counter *counter;
    } seen[] = {
        {"gaps", &total.gaps},
        {"restarts", &total.restarts},
        {"replays", &total.replays},
        {"replay_incomplete", &total.replay_incomplete},
        {"rereads", &total.rereads},
        {"pending_dropped", &total.pending_dropped},
        {"disconnects", &total.disconnects},
    };

    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        printf(" %s=%llu", seen[i].name,
               (unsigned long long)counter_read(seen[i].counter));
        if (counter_read(seen[i].counter) == 0) {
            printf(" (never)\n");
            exit(1);
        }
    }
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (seed = first; seed < first + seeds; seed++) {
        run();
        KV_COUNTERS(SUM)
    }
    printf("property_kv_stream: %llu seeds:", (unsigned long long)seeds);
    if (seeds >= 100) {
        require_all();
    }
    printf("\n");
    return 0;
}
