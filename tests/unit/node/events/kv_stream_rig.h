/*
 * A stream, its clock, and what came out of it. Messages are texts
 * "PROCESS/SEQ", so that applied ones can be told apart.
 */
#ifndef TESTS_UNIT_NODE_KV_STREAM_RIG_H
#define TESTS_UNIT_NODE_KV_STREAM_RIG_H

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>

#include "node/events/kv_stream.h"

#define MS          UINT64_C(1000)
#define RETRY_MS    100U
#define SILENCE_MS  3000U
#define PROBE_MS    2000U
#define ROUNDS      5U
#define APPLIED_MAX 4096U

struct rig {
    struct kv_stream_config config;
    struct kv_counters counters;
    struct kv_stream *stream;
    uint64_t now_us;
    char applied[APPLIED_MAX][24]; /* since the last reset */
    uint32_t applied_count;
    uint64_t process;
    uint64_t ask;    /* as the last BEGIN had it */
    uint64_t proved; /* the last question that was answered with proof */
    bool whole;
    uint32_t resets;
    uint32_t gaps; /* since the last reset */
    const char *reason;
    bool asking; /* a replay runs, since asked_us from asked on */
    uint64_t asked;
    uint64_t asked_us;
    uint32_t asks;
    enum kv_stream_state state;
    bool damaged; /* say so at the next APPLY */
};

static struct rig rig;

static inline void
rig_take(const struct kv_out *out)
{
    switch (out->kind) {
    case KV_OUT_APPLY:
        cr_assert_eq(out->fingerprint, key_digest(out->payload));
        cr_assert_lt(rig.applied_count, APPLIED_MAX);
        (void)snprintf(rig.applied[rig.applied_count++], sizeof rig.applied[0],
                       "%.*s", (int)out->payload.len, out->payload.ptr);
        if (rig.damaged) {
            rig.damaged = false;
            kv_stream_reread(rig.stream, "damaged", 0, rig.now_us);
        }
        break;
    case KV_OUT_GAP:
        rig.gaps++;
        break;
    case KV_OUT_BEGIN:
        rig.process = out->process;
        rig.ask = out->ask;
        rig.whole = out->whole;
        rig.gaps = 0;
        rig.reason = out->reason;
        rig.resets++;
        rig.applied_count = 0;
        break;
    case KV_OUT_PROVED:
        rig.proved = out->ask;
        break;
    case KV_OUT_REPLAY:
        rig.asking = true;
        rig.asked = out->seq;
        rig.asked_us = rig.now_us;
        rig.asks++;
        break;
    case KV_OUT_HANGUP:
        rig.asking = false;
        break;
    case KV_OUT_STATE:
        rig.state = out->state;
        break;
    }
}

static inline void
rig_pull(void)
{
    struct kv_out out;
    const char *reason = "";

    for (uint32_t n = 0; kv_stream_next_out(rig.stream, &out); n++) {
        cr_assert_lt(n, 100000U);
        rig_take(&out);
    }
    cr_assert(kv_stream_check(rig.stream, &reason), "%s", reason);
    cr_assert_eq(rig.state, kv_stream_state(rig.stream));
}

static inline void
rig_start(bool has_replay)
{
    rig = (struct rig){
        .config = {.has_replay = has_replay,
                   .replay_timeout_ms = SILENCE_MS,
                   .replay_rounds = ROUNDS,
                   .probe_interval_ms = PROBE_MS,
                   .retry_ms = RETRY_MS,
                   .pending_bytes_max = 1 << 20},
        .now_us = 1000000,
        .reason = "",
    };
    cr_assert_eq(
        kv_stream_new(&rig.stream, &rig.config, &rig.counters, rig.now_us, 1),
        0);
}

static inline void
rig_stop(void)
{
    kv_stream_free(rig.stream);
}

/* Lets time pass, ticking at each deadline. */
static inline void
rig_wait(uint64_t us)
{
    uint64_t end = rig.now_us + us;

    for (uint32_t n = 0; kv_stream_deadline(rig.stream) <= end; n++) {
        cr_assert_lt(n, 100000U, "ticks without end");
        if (rig.now_us < kv_stream_deadline(rig.stream)) {
            rig.now_us = kv_stream_deadline(rig.stream);
        }
        kv_stream_tick(rig.stream, rig.now_us);
        rig_pull();
    }
    rig.now_us = end;
}

/* Until a replay is asked for. */
static inline void
rig_wait_ask(void)
{
    for (uint32_t n = 0; !rig.asking; n++) {
        cr_assert_lt(n, 1000U, "no replay is asked for");
        rig_wait(RETRY_MS * MS);
    }
}

static inline void
rig_connect(void)
{
    kv_stream_connected(rig.stream, rig.now_us);
    rig_pull();
}

static inline void
rig_disconnect(void)
{
    kv_stream_disconnected(rig.stream, rig.now_us);
    rig_pull();
}

static inline struct slice
rig_text(char *into, char process, uint64_t seq)
{
    int len = snprintf(into, 24, "%c/%" PRIu64, process, seq);

    return (struct slice){.ptr = into, .len = (size_t)len};
}

static inline void
rig_live(char process, uint64_t seq)
{
    char text[24];

    kv_stream_live(rig.stream, seq, rig_text(text, process, seq), rig.now_us);
    rig_pull();
}

static inline void
rig_live_run(char process, uint64_t first, uint64_t last)
{
    for (uint64_t seq = first; seq <= last; seq++) {
        rig_live(process, seq);
    }
}

/* One reply of a replay that is being asked for. */
static inline void
rig_reply(char process, uint64_t seq)
{
    char text[24];

    cr_assert(rig.asking);
    kv_stream_replayed(rig.stream, seq, rig_text(text, process, seq),
                       rig.now_us);
    rig_pull();
}

static inline void
rig_end(void)
{
    cr_assert(rig.asking);
    kv_stream_replay_end(rig.stream, rig.now_us);
    rig_pull();
}

/* A whole answer of a process that holds low..high. */
static inline void
rig_answer(char process, uint64_t low, uint64_t high)
{
    uint32_t asks = rig.asks;

    rig_wait_ask();
    asks = rig.asks;
    for (uint64_t seq = rig.asked > low ? rig.asked : low; seq <= high; seq++) {
        rig_reply(process, seq);
        if (rig.asks != asks || !rig.asking) {
            return; /* that told enough */
        }
    }
    rig_end();
}

static inline void
rig_answer_empty(void)
{
    rig_wait_ask();
    rig_end();
}

/* What was applied since the last reset is process/first..last. */
static inline void
rig_has(char process, uint64_t first, uint64_t last)
{
    char text[24];

    cr_assert_eq(rig.applied_count, last - first + 1, "%u applied",
                 rig.applied_count);
    for (uint32_t i = 0; i < rig.applied_count; i++) {
        (void)rig_text(text, process, first + i);
        cr_assert_str_eq(rig.applied[i], text);
    }
    cr_assert_eq(kv_stream_next_seq(rig.stream), last + 1);
}

/* Live and linked: process a, 0..last. */
static inline void
rig_settle(uint64_t last)
{
    rig_connect();
    rig_answer_empty();
    rig_live_run('a', 0, last);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    rig_has('a', 0, last);
}

static inline uint64_t
rig_count(const struct counter *counter)
{
    return counter_read(counter);
}

#endif
