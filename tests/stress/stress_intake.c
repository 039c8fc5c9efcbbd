/*
 * The intake's thread reads one worker's events while control adds, rereads and
 * removes others at the same publisher: every batch of the first comes once and in
 * order, and those of the others come at all.
 *
 *   stress_intake [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "index/base/counter.h"
#include "index/base/rng.h"
#include "node/events/intake.h"
#include "tests/bench/stored_batch.h"

#define BATCHES 64U
#define OTHERS  8U /* workers that come and go */

/* ZeroMQ is not instrumented: how it hands messages from thread to thread is
 * not seen. Without a sanitizer nobody calls this. */
const char *__tsan_default_suppressions(void); /* NOLINT: the sanitizer's */

const char *
__tsan_default_suppressions(void) /* NOLINT: the sanitizer's name */
{
    return "called_from_lib:libzmq.so.5\n";
}

static struct stored_batch batches[BATCHES];
static void *zmq;
static void *pub;
static struct gauge ended;

struct control {
    struct intake *intake;
    uv_loop_t loop;
    uv_async_t wake;
    uint64_t next_seq;               /* of the first worker; 0: none yet */
    uint32_t generation[OTHERS + 1]; /* by slot; 0: not added */
    uint32_t records[OTHERS + 1];    /* of that generation */
    uint32_t asked[OTHERS + 1];      /* whether it was read anew */
    uint32_t rounds;
    uint64_t taken;
};

static void
publish(void *arg)
{
    unsigned char number[8];

    (void)arg;
    for (uint64_t seq = 0; gauge_read(&ended) == 0; seq++) {
        const struct stored_batch *batch = &batches[seq % BATCHES];
        for (int i = 0; i < 8; i++) {
            number[i] = (unsigned char)(seq >> (56 - 8 * i));
        }
        (void)zmq_send(pub, "", 0, ZMQ_SNDMORE);
        (void)zmq_send(pub, number, sizeof number, ZMQ_SNDMORE);
        (void)zmq_send(pub, batch->bytes, batch->len, 0);
        (void)zmq_poll(NULL, 0, seq % 16 == 0); /* in bursts */
    }
}

static void
take_record(struct control *c, const struct intake_item *item)
{
    const struct event_record *record = (const void *)(item + 1);

    if (item->generation != c->generation[item->worker]) {
        return; /* of one that was removed meanwhile */
    }
    c->records[item->worker]++;
    if (item->worker == 0) {
        CHECK(c->next_seq == 0 || record->seq == c->next_seq);
        c->next_seq = record->seq + 1;
    }
}

static void
take_all(struct control *c)
{
    const struct intake_item *item;
    size_t size;

    while ((item = ring_peek(intake_ring(c->intake), &size)) != NULL) {
        c->taken++;
        if (item->kind == INTAKE_RECORD) {
            take_record(c, item);
        }
        ring_consume(intake_ring(c->intake));
    }
}

/* One step in the life of the worker in that slot. */
static void
step(struct control *c, struct intake_worker *worker, uint32_t slot)
{
    uint32_t generation = c->generation[slot];

    if (generation == 0) {
        worker->slot = slot;
        worker->identity = slot + 1;
        worker->generation = c->rounds + 1;
        if (intake_add(c->intake, worker) == 0) {
            c->generation[slot] = worker->generation;
            c->records[slot] = 0;
            c->asked[slot] = 0;
        }
    } else if (slot != 0 && c->records[slot] > 0 && !c->asked[slot]) {
        c->asked[slot] = intake_reread(c->intake, slot, generation, 0,
                                       c->rounds, false) == 0;
    } else if (slot != 0 && c->asked[slot] &&
               intake_remove(c->intake, slot, generation) == 0) {
        c->generation[slot] = 0;
        c->rounds++;
    }
}

static void
on_wake(uv_async_t *wake)
{
    take_all(wake->data);
}

static void
run(struct control *c, struct intake_worker *worker, uint32_t rounds)
{
    while (c->rounds < rounds || c->records[0] < rounds) {
        for (uint32_t slot = 0; slot <= OTHERS; slot++) {
            step(c, worker, slot);
        }
        struct ledger_stats stats;
        intake_ledger_stats(c->intake, &stats);
        (void)intake_numbers(c->intake, 0, 0);
        (void)uv_run(&c->loop, UV_RUN_ONCE);
    }
}

static uint16_t
bind_publisher(void)
{
    char text[256];
    size_t len = sizeof text;
    int none = 0;

    pub = zmq_socket(zmq, ZMQ_PUB);
    CHECK(zmq_setsockopt(pub, ZMQ_SNDHWM, &none, sizeof none) == 0);
    CHECK(zmq_bind(pub, "tcp://127.0.0.1:*") == 0);
    CHECK(zmq_getsockopt(pub, ZMQ_LAST_ENDPOINT, text, &len) == 0);
    return (uint16_t)strtoul(strrchr(text, ':') + 1, NULL, 10);
}

int
main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 200;
    struct intake_worker worker = {.ranks = 1, .id = "engine"};
    struct control c = {.rounds = 0};
    struct config config;
    uv_thread_t thread;
    struct rng rng;

    rng_init(&rng, 1);
    for (uint32_t i = 0; i < BATCHES; i++) {
        stored_batch_fill(&batches[i], &rng);
    }
    zmq = zmq_ctx_new();
    (void)snprintf(worker.events.host, sizeof worker.events.host, "127.0.0.1");
    worker.events.port = bind_publisher();
    config_init(&config);
    CHECK(uv_loop_init(&c.loop) == 0 &&
          uv_async_init(&c.loop, &c.wake, on_wake) == 0);
    c.wake.data = &c;
    CHECK(intake_new(&c.intake, &config, &c.wake, 1) == 0);
    CHECK(intake_start(c.intake) == 0);
    CHECK(uv_thread_create(&thread, publish, NULL) == 0);
    run(&c, &worker, rounds);
    intake_free(c.intake);
    gauge_set(&ended, 1);
    CHECK(uv_thread_join(&thread) == 0);
    (void)zmq_close(pub);
    (void)zmq_ctx_term(zmq);
    uv_close((uv_handle_t *)&c.wake, NULL);
    (void)uv_run(&c.loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&c.loop) == 0);
    config_fini(&config);
    printf("stress_intake: %u rounds, %llu items\n", c.rounds,
           (unsigned long long)c.taken);
    return 0;
}
