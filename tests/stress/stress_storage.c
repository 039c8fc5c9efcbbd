/*
 * A thread reads batches into a ledger and tells of them through a ring, control
 * applies them to a mirror and takes snapshot after snapshot of both, the disk
 * thread writes them to a disk that fails now and then. The last that was
 * committed is found whole: the ledger as it was after one batch, which is not
 * ahead of the mirror.
 *
 *   stress_storage [SNAPSHOTS [SEED]]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/counter.h"
#include "index/base/qsbr.h"
#include "index/base/ring.h"
#include "index/base/rng.h"
#include "index/index.h"
#include "storage/storage.h"

#define ROOTS       64U
#define BLOCKS      8U /* of a batch */
#define BYTES_MAX   ((size_t)64 << 20)
#define RING_BYTES  ((size_t)64 << 10)
#define TURN_BYTES  ((size_t)8000)
#define BATCHES_MAX 4U /* of a turn */

/* Whoever has something for a thread rings. */
struct bell {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool rung;
};

static void
bell_init(struct bell *bell)
{
    (void)pthread_mutex_init(&bell->mutex, NULL);
    (void)pthread_cond_init(&bell->cond, NULL);
}

static void
ring_bell(void *context)
{
    struct bell *bell = context;

    (void)pthread_mutex_lock(&bell->mutex);
    bell->rung = true;
    (void)pthread_cond_signal(&bell->cond);
    (void)pthread_mutex_unlock(&bell->mutex);
}

static void
wait_bell(struct bell *bell)
{
    (void)pthread_mutex_lock(&bell->mutex);
    while (!bell->rung) {
        (void)pthread_cond_wait(&bell->cond, &bell->mutex);
    }
    bell->rung = false;
    (void)pthread_mutex_unlock(&bell->mutex);
}

/* What the ledger's thread says, in order. */
struct item {
    uint64_t cut;    /* 0: a batch; else the number of a cut that ended */
    uint64_t seq;    /* of the batch, or of the last one */
    uint64_t blocks; /* that the ledger held then */
    uint32_t holes;
    uint32_t count;
    uint64_t words[BLOCKS + 2];
};

struct rig {
    struct ring items;
    struct bell ledger_bell;
    struct bell control_bell;
    struct gauge ending;
    struct storage_twin *twin;

    /* The ledger's thread's. */
    struct ledger *ledger;
    uint32_t ledger_stream;
    struct rng ledger_rng;
    uint64_t seq;

    /* Control's. */
    struct qsbr qsbr;
    struct mirror *mirror;
    struct storage_stream stream;
    struct storage_take take;
    uint64_t now_us;
    uint64_t position; /* of the ledger, as its last cut had it */
};

/* ---- the ledger's thread ---- */

static struct item *
reserve(struct rig *r)
{
    struct item *item = ring_reserve(&r->items, sizeof *item);

    while (item == NULL && gauge_read(&r->ending) == 0) {
        ring_bell(&r->control_bell);
        wait_bell(&r->ledger_bell);
        item = ring_reserve(&r->items, sizeof *item);
    }
    return item;
}

static void
read_batch(struct rig *r, struct item *item)
{
    uint64_t root = rng_below(&r->ledger_rng, ROOTS);
    uint64_t hashes[BLOCKS];
    uint32_t tokens[BLOCKS];
    struct event_words out = {.words = item->words, .max = BLOCKS + 2};
    struct ledger_run run = {.hashes = hashes,
                             .tokens = tokens,
                             .block_tokens = 1,
                             .root = root,
                             .count = BLOCKS};
    struct ledger_done done;

    for (uint32_t i = 0; i < BLOCKS; i++) {
        hashes[i] = rng_mix(root * BLOCKS + i);
        tokens[i] = i;
    }
    if (rng_below(&r->ledger_rng, 2) == 0) {
        CHECK(ledger_store(r->ledger, r->ledger_stream, &run, &out, &done) ==
              0);
    } else {
        ledger_remove(r->ledger, r->ledger_stream, hashes, BLOCKS, NULL,
                      TIER_DEVICE, &out, &done);
    }
    item->cut = 0;
    item->seq = ++r->seq;
    item->count = out.count;
    item->holes = ledger_holes(r->ledger, r->ledger_stream);
}

static void
ledger_turn(struct rig *r)
{
    uint64_t cut;

    if (storage_twin_turn(r->twin, TURN_BYTES, &cut) == STORAGE_TWIN_ENDED) {
        uint64_t blocks = ledger_blocks(r->ledger, r->ledger_stream);
        struct item *item = reserve(r);
        if (item != NULL) {
            *item = (struct item){.cut = cut, .seq = r->seq, .blocks = blocks};
            ring_commit(&r->items);
        }
    }
    for (uint32_t i = 0; i < BATCHES_MAX; i++) {
        struct item *item = reserve(r);
        if (item == NULL) {
            return;
        }
        read_batch(r, item);
        ring_commit(&r->items);
    }
    ring_bell(&r->control_bell);
}

static void *
ledger_thread(void *context)
{
    struct rig *r = context;

    while (gauge_read(&r->ending) == 0) {
        ledger_turn(r);
    }
    storage_twin_leave(r->twin);
    return NULL;
}

/* ---- control ---- */

static void
take_items(struct rig *r)
{
    const struct item *item;
    size_t size;

    while ((item = ring_peek(&r->items, &size)) != NULL) {
        if (item->cut != 0) {
            r->position = item->seq;
            r->stream.ledger_blocks = item->blocks;
            storage_take_told(&r->take, item->cut);
        } else {
            CHECK(mirror_apply(r->mirror, r->stream.slot, item->words,
                               item->count, item->holes) == 0);
            r->stream.pos = item->seq;
            r->stream.holes = item->holes;
        }
        ring_consume(&r->items);
    }
    ring_bell(&r->ledger_bell);
}

static void
give_facts(struct rig *r)
{
    struct storage_about about = {.cluster = "c", .node = "n"};
    struct storage_facts facts = {.streams = &r->stream, .streams_count = 1};

    CHECK(storage_take_number(&r->take) != 0 && r->position <= r->stream.pos);
    r->stream.ledger = r->ledger_stream;
    r->stream.reading = (struct slice){.ptr = (const char *)&r->position,
                                       .len = sizeof r->position};
    storage_take_facts(&r->take, &facts, &about);
}

/* Until so many were committed. */
static void
run(struct rig *r, uint64_t snapshots)
{
    while (storage_take_status(&r->take)->taken < snapshots) {
        take_items(r);
        switch (storage_take_tick(&r->take, r->now_us += 1000)) {
        case STORAGE_TAKE_FACTS:
            give_facts(r);
            break;
        case STORAGE_TAKE_WAITS:
            wait_bell(&r->control_bell);
            break;
        case STORAGE_TAKE_IDLE:
            storage_take_ask(&r->take);
            break;
        case STORAGE_TAKE_BUSY:
        default:
            break;
        }
    }
}

/* ---- what is there afterwards ---- */

static void
look(struct storage_io *io)
{
    static struct rig back;
    struct mirror_limits limits = {.bytes_max = BYTES_MAX};
    struct ledger_limits ledger_limits = {.bytes_max = BYTES_MAX};
    struct storage_limits storage = storage_limits_default();
    struct storage_find find;
    struct storage_load load;
    struct storage_report report;
    struct storage_stream *streams;
    uint32_t count;
    uint64_t position;
    const char *reason;

    qsbr_init(&back.qsbr);
    CHECK(mirror_new(&back.mirror, &limits, &back.qsbr) == 0);
    CHECK(ledger_new(&back.ledger, &ledger_limits) == 0);
    CHECK(storage_find(io, "c", &storage, 0, &find) == STORAGE_OK);
    CHECK(find.found && find.refusals == 0);
    CHECK(storage_load_open(&load, io, find.chosen.file, "c", &report) ==
          STORAGE_OK);
    CHECK(storage_restore_streams(&load, &streams, &count) == STORAGE_OK);
    struct storage_beside rc =
        storage_restore_beside(&load, back.mirror, back.ledger, streams, count);
    CHECK(rc.mirror == STORAGE_OK && rc.ledger == STORAGE_OK);
    CHECK(count == 1 && streams[0].reading.len == sizeof position);
    memcpy(&position, streams[0].reading.ptr, sizeof position);
    CHECK(position <= streams[0].pos);
    CHECK(ledger_check(back.ledger, &reason));
    free(streams);
    storage_load_close(&load);
    mirror_free(back.mirror);
    ledger_free(back.ledger);
}

static void
rig_init(struct rig *r, uint64_t seed)
{
    struct mirror_limits limits = {.bytes_max = BYTES_MAX};
    struct ledger_limits ledger_limits = {.bytes_max = BYTES_MAX};
    struct storage_twin_calls calls = {.wake_ledger = ring_bell,
                                       .ledger_context = &r->ledger_bell,
                                       .wake_control = ring_bell,
                                       .control_context = &r->control_bell};

    bell_init(&r->ledger_bell);
    bell_init(&r->control_bell);
    CHECK(ring_init(&r->items, RING_BYTES) == 0);
    rng_init(&r->ledger_rng, seed);
    qsbr_init(&r->qsbr);
    CHECK(mirror_new(&r->mirror, &limits, &r->qsbr) == 0);
    CHECK(mirror_open(r->mirror, &r->stream.slot) == 0);
    CHECK(ledger_new(&r->ledger, &ledger_limits) == 0);
    CHECK(ledger_open(r->ledger, &r->ledger_stream) == 0);
    r->twin = storage_twin_new(r->ledger, &calls);
    CHECK(r->twin != NULL);
}

int
main(int argc, char **argv)
{
    uint64_t snapshots = argc > 1 ? strtoull(argv[1], NULL, 10) : 60;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static struct rig r;
    struct storage_limits storage = storage_limits_default();
    struct storage_take_config config = storage_take_config_default();
    struct storage_disk *disk;
    pthread_t thread;

    storage.txn_bytes = 20000;
    storage.queue_bytes = 30000;
    config.turn_bytes = TURN_BYTES;
    rig_init(&r, seed);
    struct storage_io *io = sim_disk_new(seed);
    struct storage_source source = {.mirror = r.mirror};
    struct storage_cut *cut = storage_cut_new(&source);
    CHECK(io != NULL && cut != NULL);
    /* Full in the midst of an early one. */
    sim_disk_fail(io, 300 + rng_mix(seed) % 1500, STORAGE_E_FULL);
    struct storage_save *save = storage_save_new(io, &storage, 1);
    CHECK(save != NULL);
    CHECK(storage_disk_new(&disk, save, storage.queue_bytes, ring_bell,
                           &r.control_bell) == 0);
    storage_take_init(&r.take, &config, cut, disk, 0);
    storage_take_with(&r.take, r.twin);
    CHECK(pthread_create(&thread, NULL, ledger_thread, &r) == 0);
    run(&r, snapshots);
    CHECK(storage_take_status(&r.take)->failed == 1);
    /* Another one is given up in its midst. */
    storage_take_ask(&r.take);
    CHECK(storage_take_tick(&r.take, r.now_us += 1000) != STORAGE_TAKE_FACTS);
    storage_take_stop(&r.take);
    storage_disk_free(disk);
    gauge_set(&r.ending, 1);
    ring_bell(&r.ledger_bell);
    CHECK(pthread_join(thread, NULL) == 0);
    storage_twin_free(r.twin);
    storage_cut_free(cut);
    look(io);
    printf("stress_storage: %llu snapshots of %llu batches, one failed, the "
           "last is whole\n",
           (unsigned long long)snapshots, (unsigned long long)r.seq);
    storage_io_free(io);
    mirror_free(r.mirror);
    ledger_free(r.ledger);
    ring_fini(&r.items);
    return 0;
}
