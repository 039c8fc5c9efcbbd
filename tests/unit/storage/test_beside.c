/* Mirror and ledger of a snapshot, filled with and without a thread. */
#include "storage/beside.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "storage/cut.h"
#include "storage/find.h"
#include "storage/sim_disk.h"

#define BYTES  ((size_t)64 << 20)
#define BLOCKS 3U

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier) */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *context);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static bool no_thread;
static uint32_t threads;

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*run)(void *), void *context)
{
    if (no_thread) {
        return EAGAIN;
    }
    threads++;
    return __real_pthread_create(thread, attr, run, context);
}

struct side {
    struct qsbr qsbr;
    struct mirror *mirror;
    struct ledger *ledger;
};

static void
side_new(struct side *s)
{
    struct mirror_limits mirror = {.bytes_max = BYTES};
    struct ledger_limits ledger = {.bytes_max = BYTES};

    qsbr_init(&s->qsbr);
    cr_assert_eq(mirror_new(&s->mirror, &mirror, &s->qsbr), 0);
    cr_assert_eq(ledger_new(&s->ledger, &ledger), 0);
}

static void
side_free(struct side *s)
{
    mirror_free(s->mirror);
    ledger_free(s->ledger);
}

static void
fill(struct side *s, struct storage_stream *stream)
{
    uint64_t words[8];
    uint64_t hashes[BLOCKS] = {1, 2, 3};
    uint32_t tokens[BLOCKS] = {4, 5, 6};
    struct event_words out = {.words = words, .max = 8};
    struct ledger_run run = {.root = 1,
                             .hashes = hashes,
                             .count = BLOCKS,
                             .block_tokens = 1,
                             .tokens = tokens};
    struct ledger_done done;

    cr_assert_eq(mirror_open(s->mirror, &stream->slot), 0);
    cr_assert_eq(ledger_open(s->ledger, &stream->ledger), 0);
    cr_assert_eq(ledger_store(s->ledger, stream->ledger, &run, &out, &done), 0);
    cr_assert_eq(mirror_apply(s->mirror, stream->slot, words, out.count, 0), 0);
    stream->ledger_blocks = BLOCKS;
}

/* A snapshot of one stream on a new disk. */
static struct storage_io *
saved(void)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_limits limits = storage_limits_default();
    struct storage_save *save = storage_save_new(io, &limits, 1);
    struct storage_stream stream = {.name = {.worker = 9}};
    struct storage_facts facts = {.streams = &stream, .streams_count = 1};
    struct storage_about about = {.cluster = "c", .node = "n"};
    struct storage_part part;
    enum storage_step step;
    struct side side;

    side_new(&side);
    fill(&side, &stream);
    struct storage_source source = {.mirror = side.mirror,
                                    .ledger = side.ledger};
    struct storage_cut *cut = storage_cut_new(&source);
    storage_save_begin(save);
    storage_cut_begin(cut, true);
    while ((step = storage_cut_next(cut, &part)) != STORAGE_STEP_DONE) {
        if (step == STORAGE_STEP_WALKED) {
            storage_cut_end(cut, &facts, &about);
        } else if (step != STORAGE_STEP_MORE) {
            cr_assert_eq(step, STORAGE_STEP_PART);
            storage_save_part(save, part.kind, part.number,
                              (struct slice){part.bytes, part.len});
            free(part.bytes);
        }
    }
    cr_assert_eq(storage_save_commit(save, &about), STORAGE_OK);
    storage_cut_done(cut, true);
    storage_cut_free(cut);
    storage_save_free(save);
    side_free(&side);
    return io;
}

/* A disk whose process dies when it was asked for the ledger's parts, and is
 * another one after the file was opened again. */
struct mortal {
    struct storage_io io;
    struct storage_io_ops ops;
    struct storage_io *inner;
    bool dead;
};

static enum storage_outcome mortal_says; /* of these parts; 0: it lives */

static struct mortal *
mortal_of(struct storage_io *io)
{
    return (struct mortal *)(void *)io;
}

static enum storage_outcome
mortal_open(struct storage_io *io, const char *name)
{
    struct mortal *m = mortal_of(io);

    m->dead = false;
    return m->inner->ops->open(m->inner, name);
}

static void
mortal_close(struct storage_io *io)
{
    struct mortal *m = mortal_of(io);

    m->inner->ops->close(m->inner);
}

static enum storage_outcome
mortal_get(struct storage_io *io, uint64_t key, struct slice *bytes)
{
    struct mortal *m = mortal_of(io);

    if (m->dead) {
        return STORAGE_E_KEEPER;
    }
    m->dead =
        mortal_says != STORAGE_OK && storage_key_kind(key) == STORAGE_LEDGER;
    return m->dead ? mortal_says : m->inner->ops->get(m->inner, key, bytes);
}

static uint64_t
mortal_size(struct storage_io *io)
{
    struct mortal *m = mortal_of(io);

    return m->inner->ops->size(m->inner);
}

/* A restore in which the snapshot's stream has so many blocks more than were
 * saved, in the mirror and in the ledger. */
static struct storage_beside
restore(struct side *side, uint64_t mirror_more, uint64_t ledger_more)
{
    struct storage_io *io = saved();
    struct mortal mortal = {.ops = {.open = mortal_open,
                                    .close = mortal_close,
                                    .get = mortal_get,
                                    .size = mortal_size},
                            .inner = io};
    struct storage_limits limits = storage_limits_default();
    struct storage_find find;
    struct storage_load load;
    struct storage_report report;
    struct storage_stream *streams;
    uint32_t count;

    side_new(side);
    mortal.io.ops = &mortal.ops;
    cr_assert_eq(storage_find(io, "c", &limits, 0, &find), STORAGE_OK);
    cr_assert_eq(
        storage_load_open(&load, &mortal.io, find.chosen.file, "c", &report),
        STORAGE_OK);
    cr_assert_eq(storage_restore_streams(&load, &streams, &count), STORAGE_OK);
    cr_assert_eq(count, 1);
    streams[0].blocks += mirror_more;
    streams[0].ledger_blocks += ledger_more;
    struct storage_beside rc = storage_restore_beside(
        &load, side->mirror, side->ledger, streams, count);
    if (rc.mirror == STORAGE_OK) {
        cr_assert_eq(mirror_slot_blocks(side->mirror, streams[0].slot), BLOCKS);
    }
    if (rc.ledger == STORAGE_OK) {
        cr_assert_eq(ledger_blocks(side->ledger, streams[0].ledger), BLOCKS);
    }
    free(streams);
    storage_load_close(&load);
    storage_io_free(io);
    return rc;
}

static void
expect(uint64_t mirror_more, uint64_t ledger_more)
{
    struct side side;
    struct storage_beside rc = restore(&side, mirror_more, ledger_more);

    cr_assert_eq(rc.mirror, mirror_more ? STORAGE_E_CORRUPT : STORAGE_OK);
    cr_assert_eq(rc.ledger, ledger_more ? STORAGE_E_CORRUPT : STORAGE_OK);
    side_free(&side);
}

Test(beside, a_thread_ends_the_ledger)
{
    expect(0, 0);
    cr_assert_eq(threads, 1);
}

Test(beside, without_a_thread_the_ledger_comes_back_as_well)
{
    no_thread = true;
    expect(0, 0);
    expect(0, 1);
    expect(1, 0);
}

Test(beside, one_that_cannot_be_filled_does_not_cost_the_other)
{
    expect(0, 1);
    expect(1, 0);
    expect(1, 1);
    cr_assert_eq(threads, 3);
}

static void
expect_death(enum storage_outcome says)
{
    struct side side;

    mortal_says = says;
    struct storage_beside rc = restore(&side, 0, 0);
    cr_assert_eq(rc.mirror, STORAGE_OK);
    cr_assert_eq(rc.ledger, says);
    side_free(&side);
}

Test(beside, a_disk_that_dies_of_the_ledger_does_not_cost_the_mirror)
{
    expect_death(STORAGE_E_KEEPER);
}

Test(beside, a_disk_that_dies_after_a_bad_ledger_does_not_cost_the_mirror)
{
    expect_death(STORAGE_E_CORRUPT);
}

Test(beside, a_mirror_may_be_filled_alone)
{
    struct side side;

    side_new(&side);
    struct storage_io *io = saved();
    struct storage_load load = {.io = io};
    struct storage_beside rc =
        storage_restore_beside(&load, side.mirror, NULL, NULL, 0);
    cr_assert_eq(rc.mirror, STORAGE_OK);
    cr_assert_eq(rc.ledger, STORAGE_OK);
    cr_assert_eq(threads, 0);
    storage_io_free(io);
    side_free(&side);
}
