/* When snapshots are taken. */
#include "storage/take.h"

#include <criterion/criterion.h>
#include <pthread.h>

#include "index/index.h"
#include "storage/sim_disk.h"

#define S UINT64_C(1000000)

struct rig {
    struct qsbr qsbr;
    struct mirror *mirror;
    struct storage_io *io;
    struct storage_cut *cut;
    struct storage_disk *disk;
    struct storage_take take;
    uint32_t slot;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool rung;
};

static void
ring_bell(void *context)
{
    struct rig *rig = context;

    (void)pthread_mutex_lock(&rig->mutex);
    rig->rung = true;
    (void)pthread_cond_signal(&rig->cond);
    (void)pthread_mutex_unlock(&rig->mutex);
}

static void
wait_bell(struct rig *rig)
{
    (void)pthread_mutex_lock(&rig->mutex);
    while (!rig->rung) {
        (void)pthread_cond_wait(&rig->cond, &rig->mutex);
    }
    rig->rung = false;
    (void)pthread_mutex_unlock(&rig->mutex);
}

static void
rig_new(struct rig *rig)
{
    struct mirror_limits limits = {.bytes_max = (size_t)64 << 20};
    struct storage_limits storage = storage_limits_default();
    struct storage_take_config config = storage_take_config_default();

    *rig = (struct rig){.rung = false};
    (void)pthread_mutex_init(&rig->mutex, NULL);
    (void)pthread_cond_init(&rig->cond, NULL);
    qsbr_init(&rig->qsbr);
    cr_assert_eq(mirror_new(&rig->mirror, &limits, &rig->qsbr), 0);
    cr_assert_eq(mirror_open(rig->mirror, &rig->slot), 0);
    rig->io = sim_disk_new(1);
    struct storage_source source = {.mirror = rig->mirror};
    rig->cut = storage_cut_new(&source);
    cr_assert_eq(
        storage_disk_new(&rig->disk, storage_save_new(rig->io, &storage, 1),
                         storage.queue_bytes, ring_bell, rig),
        0);
    storage_take_init(&rig->take, &config, rig->cut, rig->disk, 0);
}

static void
rig_free(struct rig *rig)
{
    storage_cut_free(rig->cut);
    storage_disk_free(rig->disk);
    storage_io_free(rig->io);
    mirror_free(rig->mirror);
}

/* All that is to be done at this time; whether a snapshot was tried. */
static bool
tick(struct rig *rig, uint64_t now_us)
{
    struct storage_facts facts = {.streams_count = 0};
    struct storage_about about = {.cluster = "c", .node = "n"};
    const struct storage_take_status *status = storage_take_status(&rig->take);
    uint64_t before = status->taken + status->failed;

    for (;;) {
        switch (storage_take_tick(&rig->take, now_us)) {
        case STORAGE_TAKE_IDLE:
            cr_assert(!status->running);
            return status->taken + status->failed != before;
        case STORAGE_TAKE_FACTS:
            cr_assert(status->running);
            storage_take_facts(&rig->take, &facts, &about);
            break;
        case STORAGE_TAKE_WAITS:
            wait_bell(rig);
            break;
        case STORAGE_TAKE_BUSY:
        default:
            break;
        }
    }
}

static void
change(struct rig *rig, uint32_t blocks)
{
    for (uint32_t i = 0; i < blocks; i++) {
        uint64_t words[2] = {event_op(EVENT_STORE, TIER_DEVICE, 1),
                             i * UINT64_C(0x123456789ABCDEF)};
        cr_assert_eq(mirror_apply(rig->mirror, rig->slot, words, 2, 0), 0);
    }
}

Test(take, one_is_taken_at_each_interval_and_when_asked_for)
{
    struct rig rig;

    rig_new(&rig);
    cr_assert(!tick(&rig, 1 * S));
    cr_assert(tick(&rig, 60 * S));
    cr_assert(!tick(&rig, 119 * S));
    storage_take_ask(&rig.take);
    cr_assert_eq(storage_take_deadline(&rig.take), 0);
    cr_assert(tick(&rig, 119 * S));
    cr_assert(!tick(&rig, 178 * S));
    cr_assert(tick(&rig, 179 * S));
    cr_assert_eq(storage_take_status(&rig.take)->taken, 3);
    rig_free(&rig);
}

Test(take, much_that_changed_is_written_sooner)
{
    struct rig rig;

    rig_new(&rig);
    cr_assert(tick(&rig, 60 * S));
    change(&rig, 4);
    cr_assert(!tick(&rig, 66 * S));
    change(&rig, 2000);
    cr_assert(!tick(&rig, 64 * S)); /* not so soon */
    cr_assert(tick(&rig, 66 * S));
    rig_free(&rig);
}

Test(take, failures_are_tried_again_later_and_later)
{
    struct rig rig;
    uint64_t at = 60 * S;

    rig_new(&rig);
    sim_disk_limit(rig.io, 1);
    for (uint64_t wait = 10 * S; wait < 300 * S; wait *= 2) {
        cr_assert(tick(&rig, at));
        cr_assert_eq(storage_take_status(&rig.take)->outcome, STORAGE_E_FULL);
        change(&rig, 2000);
        cr_assert(!tick(&rig, at + wait - 1));
        at += wait;
    }
    sim_disk_limit(rig.io, 0);
    cr_assert(tick(&rig, at));
    cr_assert_eq(storage_take_status(&rig.take)->outcome, STORAGE_OK);
    cr_assert(!tick(&rig, at + 59 * S));
    rig_free(&rig);
}
