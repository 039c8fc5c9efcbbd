/*
 * Control takes snapshot after snapshot of a mirror that goes on changing, the
 * disk thread writes them to a disk that fails now and then; the last that was
 * committed is found whole.
 *
 *   stress_storage [SNAPSHOTS [SEED]]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/qsbr.h"
#include "index/base/rng.h"
#include "index/index.h"
#include "storage/storage.h"

#define KEYS 20000U

/* What the disk thread tells control. */
struct bell {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool rung;
};

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

struct control {
    struct qsbr qsbr;
    struct mirror *mirror;
    struct storage_stream stream;
    struct rng rng;
    struct storage_take take;
    uint64_t now_us;
};

static void
change(struct control *c)
{
    uint64_t words[2] = {
        event_op(rng_below(&c->rng, 2) == 0 ? EVENT_STORE : EVENT_REMOVE,
                 TIER_DEVICE, 1),
        rng_mix(rng_below(&c->rng, KEYS))};

    CHECK(mirror_apply(c->mirror, c->stream.slot, words, 2, 0) == 0);
    c->stream.pos++;
}

/* Until so many were committed. */
static void
run(struct control *c, struct bell *bell, uint64_t snapshots)
{
    struct storage_about about = {.cluster = "c", .node = "n"};
    struct storage_facts facts = {.streams = &c->stream, .streams_count = 1};

    while (storage_take_status(&c->take)->taken < snapshots) {
        for (uint32_t i = 0; i < 50; i++) {
            change(c);
        }
        switch (storage_take_tick(&c->take, c->now_us += 1000)) {
        case STORAGE_TAKE_FACTS:
            storage_take_facts(&c->take, &facts, &about);
            break;
        case STORAGE_TAKE_WAITS:
            wait_bell(bell);
            break;
        case STORAGE_TAKE_IDLE:
            storage_take_ask(&c->take);
            break;
        case STORAGE_TAKE_BUSY:
        default:
            break;
        }
    }
}

static void
look(struct storage_io *io)
{
    static struct control back;
    struct mirror_limits limits = {.bytes_max = (size_t)64 << 20};
    struct storage_limits storage = storage_limits_default();
    struct storage_find find;
    struct storage_load load;
    struct storage_report report;
    struct storage_stream *streams;
    uint32_t count;

    qsbr_init(&back.qsbr);
    CHECK(mirror_new(&back.mirror, &limits, &back.qsbr) == 0);
    CHECK(storage_find(io, "c", &storage, 0, &find) == STORAGE_OK);
    CHECK(find.found && find.refusals == 0);
    CHECK(storage_load_open(&load, io, find.chosen.file, "c", &report) ==
          STORAGE_OK);
    CHECK(storage_restore_streams(&load, &streams, &count) == STORAGE_OK);
    CHECK(storage_restore_index(&load, back.mirror, NULL, streams, count) ==
          STORAGE_OK);
    free(streams);
    storage_load_close(&load);
    mirror_free(back.mirror);
}

int
main(int argc, char **argv)
{
    uint64_t snapshots = argc > 1 ? strtoull(argv[1], NULL, 10) : 60;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static struct control c;
    struct bell bell = {.rung = false};
    struct mirror_limits limits = {.bytes_max = (size_t)64 << 20};
    struct storage_limits storage = storage_limits_default();
    struct storage_take_config config = storage_take_config_default();
    struct storage_disk *disk;

    (void)pthread_mutex_init(&bell.mutex, NULL);
    (void)pthread_cond_init(&bell.cond, NULL);
    storage.txn_bytes = 20000;
    storage.queue_bytes = 30000;
    config.turn_bytes = 8000;
    rng_init(&c.rng, seed);
    qsbr_init(&c.qsbr);
    CHECK(mirror_new(&c.mirror, &limits, &c.qsbr) == 0);
    CHECK(mirror_open(c.mirror, &c.stream.slot) == 0);
    c.stream.ledger = STORAGE_NONE;
    struct storage_io *io = sim_disk_new(seed);
    struct storage_source source = {.mirror = c.mirror};
    struct storage_cut *cut = storage_cut_new(&source);
    CHECK(io != NULL && cut != NULL);
    /* Full in the midst of an early one. */
    sim_disk_fail(io, 300 + rng_below(&c.rng, 1500), STORAGE_E_FULL);
    struct storage_save *save = storage_save_new(io, &storage, 1);
    CHECK(save != NULL);
    CHECK(storage_disk_new(&disk, save, storage.queue_bytes, ring_bell,
                           &bell) == 0);
    storage_take_init(&c.take, &config, cut, disk, 0);
    run(&c, &bell, snapshots);
    CHECK(storage_take_status(&c.take)->failed == 1);
    storage_cut_free(cut);
    storage_disk_free(disk);
    look(io);
    printf("stress_storage: %llu snapshots, one failed, the last is whole\n",
           (unsigned long long)snapshots);
    storage_io_free(io);
    mirror_free(c.mirror);
    return 0;
}
