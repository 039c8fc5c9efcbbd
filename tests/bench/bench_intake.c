/*
 * What the intake's thread does in a second, from a ZeroMQ socket on loopback
 * to records in the ring: batches of one vLLM BlockStored with 8 blocks of 16
 * tokens, published as fast as the socket takes them, live and as a replay.
 * The publisher and the consumer have threads of their own.
 *
 * And how long a batch takes from the engine's send to being found by lookups:
 * 2,000 batches a second, applied to a mirror by the mirror writer, as they come and, as
 * control does it, through gossip; with the CPU time of the thread that does.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>
#include <zmq.h>

#include "gossip/gossip.h"
#include "index/base/rng.h"
#include "node/events/intake.h"
#include "node/ingest/mirror_writer.h"
#include "tests/bench/stored_batch.h"

#define BATCHES 40000U
#define PACED   10000U /* of them, in five seconds */
#define PER_MS  2U
#define BLOCKS  STORED_BATCH_BLOCKS

static struct stored_batch *batches;
static void *zmq;
static void *pub;
static void *router;
static uint32_t seen;
static uint64_t done_us;
static struct intake *intake;
static uint64_t sent_us[PACED];
static uint64_t visible_us[PACED];
static struct mirror_writer *writer; /* NULL: records are only counted */
static struct mirror *mirror;
static struct gossip
    *gossip;          /* NULL: records go to the mirror writer at once */
static double cpu_us; /* of the thread that applies */

static void *
bind_socket(int type, struct url *url)
{
    void *socket = zmq_socket(zmq, type);
    int none = 0;
    char text[256];
    size_t len = sizeof text;

    CHECK(zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none) == 0);
    CHECK(zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none) == 0);
    CHECK(zmq_bind(socket, "tcp://127.0.0.1:*") == 0);
    CHECK(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, text, &len) == 0);
    url->port = (uint16_t)strtoul(strrchr(text, ':') + 1, NULL, 10);
    return socket;
}

static void
send_batch(void *socket, uint64_t seq, const struct stored_batch *batch)
{
    unsigned char bytes[8];

    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(seq >> (56 - 8 * i));
    }
    (void)zmq_send(socket, "", 0, ZMQ_SNDMORE);
    (void)zmq_send(socket, bytes, sizeof bytes, ZMQ_SNDMORE);
    (void)zmq_send(socket, batch->bytes, batch->len, 0);
}

static void
publish(void *arg)
{
    char subscription[16];

    (void)arg;
    (void)zmq_recv(pub, subscription, sizeof subscription, 0);
    for (uint32_t seq = 0; seq < BATCHES; seq++) {
        send_batch(pub, seq, &batches[seq]);
    }
}

static void
on_pace(uv_timer_t *timer)
{
    uint32_t *seq = timer->data;

    for (uint32_t i = 0; i < PER_MS && *seq < PACED; i++, (*seq)++) {
        sent_us[*seq] = uv_hrtime() / 1000;
        send_batch(pub, *seq, &batches[*seq]);
    }
    if (*seq == PACED) {
        uv_close((uv_handle_t *)timer, NULL);
    }
}

static void
publish_paced(void *arg)
{
    char subscription[16];
    uv_loop_t loop;
    uv_timer_t timer;
    uint32_t seq = 0;

    (void)arg;
    (void)zmq_recv(pub, subscription, sizeof subscription, 0);
    CHECK(uv_loop_init(&loop) == 0 && uv_timer_init(&loop, &timer) == 0);
    timer.data = &seq;
    CHECK(uv_timer_start(&timer, on_pace, 0, 1) == 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
}

/* One request, then all there is. */
static void
repeat(void *arg)
{
    static const struct stored_batch none;
    char identity[256];
    char frame[16];

    (void)arg;
    int len = zmq_recv(router, identity, sizeof identity, 0);
    CHECK(len > 0);
    (void)zmq_recv(router, frame, sizeof frame, 0);
    (void)zmq_recv(router, frame, sizeof frame, 0);
    for (uint32_t seq = 0; seq <= BATCHES; seq++) {
        bool end = seq == BATCHES;
        (void)zmq_send(router, identity, (size_t)len, ZMQ_SNDMORE);
        send_batch(router, end ? UINT64_MAX : seq, end ? &none : &batches[seq]);
    }
}

static void ON_CONTROL
take_out(const struct gossip_out *out)
{
    uint32_t slot = mirror_writer_slot(writer, 0, 1, 0);

    if (out->kind == GOSSIP_RESET) {
        mirror_writer_reset(writer, 0, 1, 0, out->name);
    } else if (out->kind == GOSSIP_APPLY) {
        CHECK(mirror_writer_record(writer, 0, 1, 0, out->record) == 0);
        gossip_digest(gossip, out->stream, mirror_slot_blocks(mirror, slot),
                      mirror_slot_digest(mirror, slot));
        visible_us[out->record->seq >> 8] = uv_hrtime() / 1000;
    }
}

static void ON_CONTROL
apply_through(const struct intake_item *item)
{
    const struct event_stream stream = {.worker = 1};
    uint64_t now_us = uv_hrtime() / 1000;
    struct gossip_out out;

    if (item->kind == INTAKE_BEGIN) {
        gossip_local_begin(gossip, stream, item->process, item->whole,
                           item->ask, now_us);
    } else if (item->kind == INTAKE_RECORD) {
        gossip_local_record(gossip, stream, (const void *)(item + 1),
                            item->fingerprint, item->last, now_us);
    } else if (item->kind == INTAKE_STATE) {
        gossip_local_live(gossip, stream, true, now_us);
    }
    while (gossip_next_out(gossip, &out)) {
        take_out(&out);
    }
}

static void ON_CONTROL
apply(const struct intake_item *item)
{
    const struct event_record *record = (const void *)(item + 1);

    if (item->kind == INTAKE_BEGIN) {
        mirror_writer_reset(writer, 0, 1, 0, item->process);
    } else if (item->kind == INTAKE_STATE) {
        mirror_writer_state(writer, 0, 1, 0, (enum kv_stream_state)item->state);
    } else if (item->kind == INTAKE_RECORD) {
        CHECK(mirror_writer_record(writer, 0, 1, 0, record) == 0);
        visible_us[record->seq] = uv_hrtime() / 1000;
    }
}

static void
on_wake(uv_async_t *wake)
{
    const struct intake_item *item;
    size_t size;

    role_is_control();
    while ((item = ring_peek(intake_ring(intake), &size)) != NULL) {
        seen += item->kind == INTAKE_RECORD;
        if (writer != NULL && gossip != NULL) {
            apply_through(item);
        } else if (writer != NULL) {
            apply(item);
        }
        ring_consume(intake_ring(intake));
    }
    if (writer != NULL) {
        (void)mirror_writer_work(writer, 16384);
    }
    if (seen == (writer != NULL ? PACED : BATCHES)) {
        done_us = uv_hrtime() / 1000;
        uv_stop(wake->loop);
    }
}

static double
thread_us(void)
{
    struct timespec at;

    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at) == 0);
    return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

/* Seconds from the subscription to the last record. */
static double
run(void (*source)(void *), bool has_replay)
{
    struct intake_worker worker = {.identity = 1,
                                   .generation = 1,
                                   .ranks = 1,
                                   .events = {.host = "127.0.0.1"},
                                   .id = "engine"};
    struct url unused;
    struct config config;
    uv_loop_t loop;
    uv_async_t wake;
    uv_thread_t thread;

    pub = bind_socket(ZMQ_XPUB, &worker.events);
    router = bind_socket(ZMQ_ROUTER, has_replay ? &worker.replay : &unused);
    if (has_replay) {
        memcpy(worker.replay.host, worker.events.host,
               sizeof worker.replay.host);
    }
    seen = 0;
    config_init(&config);
    CHECK(uv_loop_init(&loop) == 0 &&
          uv_async_init(&loop, &wake, on_wake) == 0);
    CHECK(intake_new(&intake, &config, &wake, 1) == 0);
    CHECK(intake_start(intake) == 0);
    CHECK(uv_thread_create(&thread, source, NULL) == 0);
    uint64_t from_us = uv_hrtime() / 1000;
    CHECK(intake_add(intake, &worker) == 0);
    cpu_us = -thread_us();
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    cpu_us += thread_us();
    intake_free(intake);
    CHECK(uv_thread_join(&thread) == 0);
    (void)zmq_close(pub);
    (void)zmq_close(router);
    uv_close((uv_handle_t *)&wake, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
    config_fini(&config);
    return (double)(done_us - from_us) / 1e6;
}

static void
measure(const char *name, void (*source)(void *), bool has_replay)
{
    double s = run(source, has_replay);

    printf("%-8s %9.0f batches/s %10.0f blocks/s %6.0f MB/s\n", name,
           BATCHES / s, BATCHES * BLOCKS / s,
           (double)BATCHES * (double)batches[0].len / s / 1e6);
    (void)fflush(stdout);
}

static int
compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

static void
measure_visible(const char *name)
{
    struct mirror_writer_limits limits = {.stale_permille = 500};
    struct mirror_limits room = {.bytes_max = (size_t)256 << 20};
    struct publish view = {.value = NULL};
    struct qsbr qsbr;

    role_is_control();
    qsbr_init(&qsbr);
    CHECK(mirror_new(&mirror, &room, &qsbr) == 0);
    CHECK(mirror_writer_new(&writer, &limits, mirror, &qsbr, &view) == 0);
    CHECK(mirror_writer_worker_add(writer, 0, 1, 1) == 0);
    (void)run(publish_paced, false);
    for (uint32_t i = 0; i < PACED; i++) {
        visible_us[i] -= sent_us[i];
    }
    qsort(visible_us, PACED, sizeof *visible_us, compare);
    printf("%s p50 %" PRIu64 " us  p99 %" PRIu64 " us  max %" PRIu64
           " us after the send, %.1f us CPU a batch, at 2,000 batches/s\n",
           name, visible_us[PACED / 2], visible_us[PACED / 100 * 99],
           visible_us[PACED - 1], cpu_us / PACED);
    (void)fflush(stdout);
    mirror_writer_free(writer);
    writer = NULL;
    (void)qsbr_reclaim(&qsbr);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
}

static void
measure_through(void)
{
    const struct gossip_config config = gossip_config_default();

    CHECK(gossip_new(&gossip, &config, 1, uv_hrtime() / 1000, 1) == 0);
    CHECK(gossip_stream_add(gossip, (struct event_stream){.worker = 1},
                            uv_hrtime() / 1000) == 0);
    measure_visible("through gossip, visible");
    gossip_free(gossip);
    gossip = NULL;
}

int
main(void)
{
    struct rng rng;

    batches = calloc(BATCHES, sizeof *batches);
    CHECK(batches != NULL);
    rng_init(&rng, 1);
    for (uint32_t i = 0; i < BATCHES; i++) {
        stored_batch_fill(&batches[i], &rng);
    }
    zmq = zmq_ctx_new();
    for (int round = 0; round < 3; round++) {
        measure("live", publish, false);
        measure("replay", repeat, true);
        measure_visible("at once, visible       ");
        measure_through();
    }
    (void)zmq_ctx_term(zmq);
    free(batches);
    return 0;
}
