/* What goes in at one end of a snapshot comes out at the other. */
#include "storage/cut.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "index/index.h"
#include "storage/find.h"
#include "storage/restore.h"
#include "storage/sim_disk.h"

#define BYTES ((size_t)64 << 20)

struct side {
    struct qsbr qsbr;
    struct mirror *mirror;
    struct ledger *ledger;
    struct radix *radix;
};

static void
side_new(struct side *s)
{
    struct mirror_limits mirror = {.bytes_max = BYTES};
    struct ledger_limits ledger = {.bytes_max = BYTES};
    struct radix_limits radix = {
        .bytes_max = BYTES, .namespaces_max = 8, .depth_max = 1024};

    qsbr_init(&s->qsbr);
    cr_assert_eq(mirror_new(&s->mirror, &mirror, &s->qsbr), 0);
    cr_assert_eq(ledger_new(&s->ledger, &ledger), 0);
    cr_assert_eq(radix_new(&s->radix, &radix, &s->qsbr), 0);
}

static void
side_free(struct side *s)
{
    mirror_free(s->mirror);
    ledger_free(s->ledger);
    radix_free(s->radix);
}

static enum storage_outcome
take(struct storage_save *save, struct storage_cut *cut,
     const struct storage_facts *facts)
{
    struct storage_about about = {.cluster = "c", .node = "n"};
    struct storage_part part;
    enum storage_step step;

    storage_save_begin(save);
    storage_cut_begin(cut, storage_save_whole(save));
    while ((step = storage_cut_next(cut, &part)) != STORAGE_STEP_DONE) {
        cr_assert_neq(step, STORAGE_STEP_FAILED);
        if (step == STORAGE_STEP_WALKED) {
            storage_cut_end(cut, facts, &about);
            continue;
        }
        if (step == STORAGE_STEP_MORE) {
            continue;
        }
        storage_save_part(save, part.kind, part.number,
                          (struct slice){part.bytes, part.len});
        free(part.bytes);
    }
    enum storage_outcome rc = storage_save_commit(save, &about);
    storage_cut_done(cut, rc == STORAGE_OK);
    return rc;
}

static void
open_newest(struct storage_io *io, struct storage_load *load)
{
    struct storage_limits limits = storage_limits_default();
    struct storage_find find;
    struct storage_report report;

    cr_assert_eq(storage_find(io, "c", &limits, 0, &find), STORAGE_OK);
    cr_assert(find.found, "%s", find.refused.reason);
    cr_assert_eq(storage_load_open(load, io, find.chosen.file, "c", &report),
                 STORAGE_OK);
}

static uint32_t
slot_of(void *context, uint64_t identity)
{
    (void)context;
    return identity == 900 ? 4 : WORKER_NONE;
}

Test(cut, workers_members_and_belief_come_back)
{
    struct side a;
    struct side b;
    struct storage_io *io = sim_disk_new(1);
    struct storage_limits limits = storage_limits_default();
    struct storage_save *save = storage_save_new(io, &limits, 1);
    struct storage_worker worker = {.id = SLICE("gpu-1"),
                                    .version = 7,
                                    .draining = true,
                                    .spec = SLICE("http://gpu-1")};
    struct storage_member member = {SLICE("b"), SLICE("10.0.0.2:7946")};
    uint64_t identities[WORKERS_MAX] = {[2] = 900, [3] = 901};
    uint64_t keys[3] = {11, 12, 13};
    struct storage_facts facts = {.workers = &worker,
                                  .workers_count = 1,
                                  .members = &member,
                                  .members_count = 1,
                                  .belief_workers = identities};
    static struct radix_match match;
    struct storage_load load;
    struct slice bytes;

    side_new(&a);
    side_new(&b);
    cr_assert_eq(radix_worker_add(a.radix, 2, 100, RADIX_LRU), 0);
    cr_assert_eq(radix_worker_add(a.radix, 3, 100, RADIX_LRU), 0);
    cr_assert_eq(radix_insert(a.radix, 5, keys, 3, 2, 0, 1), 0);
    cr_assert_eq(radix_insert(a.radix, 5, keys, 2, 3, 0, 2), 0);
    struct storage_source source = {a.mirror, a.ledger, a.radix};
    struct storage_cut *cut = storage_cut_new(&source);
    cr_assert_eq(take(save, cut, &facts), STORAGE_OK);
    storage_cut_free(cut);
    storage_save_free(save);

    open_newest(io, &load);
    cr_assert_eq(storage_restore_part(&load, STORAGE_ROSTER, &bytes),
                 STORAGE_OK);
    struct storage_records in = storage_records(bytes);
    struct storage_worker got;
    cr_assert(storage_get_worker(&in, &got));
    cr_assert(slice_equal(got.id, worker.id));
    cr_assert(slice_equal(got.spec, worker.spec));
    cr_assert(got.version == 7 && got.draining && !got.removed);
    cr_assert(!storage_get_worker(&in, &got) && !in.failed);
    cr_assert_eq(storage_restore_part(&load, STORAGE_MEMBERS, &bytes),
                 STORAGE_OK);
    in = storage_records(bytes);
    struct storage_member who;
    cr_assert(storage_get_member(&in, &who));
    cr_assert(slice_equal(who.address, member.address));

    cr_assert_eq(radix_worker_add(b.radix, 4, 100, RADIX_LRU), 0);
    cr_assert_eq(storage_restore_belief(&load, b.radix, slot_of, NULL, 9),
                 STORAGE_OK);
    radix_match(b.radix, 5, keys, 3, &match);
    cr_assert_eq(match.best, 3);
    cr_assert(worker_set_has(&match.workers, 4));
    cr_assert_eq(worker_set_count(&match.workers), 1); /* 901 is gone */
    storage_load_close(&load);
    side_free(&a);
    side_free(&b);
    storage_io_free(io);
}

Test(cut, nothing_at_all_comes_back_too)
{
    struct side a;
    struct storage_io *io = sim_disk_new(1);
    struct storage_limits limits = storage_limits_default();
    struct storage_save *save = storage_save_new(io, &limits, 1);
    struct storage_facts facts = {.streams_count = 0};
    struct storage_load load;
    struct storage_stream *streams;
    uint32_t count;

    side_new(&a);
    struct storage_source source = {a.mirror, a.ledger, a.radix};
    struct storage_cut *cut = storage_cut_new(&source);
    cr_assert_eq(take(save, cut, &facts), STORAGE_OK);
    storage_cut_free(cut);
    storage_save_free(save);
    open_newest(io, &load);
    cr_assert_eq(storage_restore_streams(&load, &streams, &count), STORAGE_OK);
    cr_assert_eq(count, 0);
    cr_assert_eq(
        storage_restore_index(&load, a.mirror, a.ledger, streams, count),
        STORAGE_OK);
    cr_assert_eq(storage_restore_belief(&load, a.radix, slot_of, NULL, 9),
                 STORAGE_OK);
    free(streams);
    storage_load_close(&load);
    side_free(&a);
    storage_io_free(io);
}

/* As the intake's thread and control do it. */
Test(cut, mirror_and_ledger_may_be_cut_and_restored_apart)
{
    struct side a;
    struct side b;
    struct storage_io *io = sim_disk_new(1);
    struct storage_limits limits = storage_limits_default();
    struct storage_save *save = storage_save_new(io, &limits, 1);
    struct storage_stream stream = {.name = {.worker = 9}, .pos = 256};
    struct storage_facts facts = {.streams = &stream, .streams_count = 1};
    struct storage_about about = {.cluster = "c", .node = "n"};
    uint64_t words[8];
    struct event_words out = {.words = words, .max = 8};
    uint64_t hashes[3] = {1, 2, 3};
    uint32_t tokens[3] = {4, 5, 6};
    struct ledger_run run = {.root = 1,
                             .hashes = hashes,
                             .count = 3,
                             .block_tokens = 1,
                             .tokens = tokens};
    struct ledger_done done;
    struct storage_part part;
    struct storage_load load;
    enum storage_step step;

    side_new(&a);
    side_new(&b);
    cr_assert_eq(mirror_open(a.mirror, &stream.slot), 0);
    cr_assert_eq(ledger_open(a.ledger, &stream.ledger), 0);
    cr_assert_eq(ledger_store(a.ledger, stream.ledger, &run, &out, &done), 0);
    cr_assert_eq(mirror_apply(a.mirror, stream.slot, words, out.count, 0), 0);
    stream.ledger_blocks = ledger_blocks(a.ledger, stream.ledger);
    struct storage_source sources[2] = {{.ledger = a.ledger},
                                        {.mirror = a.mirror}};
    storage_save_begin(save);
    for (uint32_t i = 0; i < 2; i++) {
        struct storage_cut *cut = storage_cut_new(&sources[i]);
        storage_cut_begin(cut, true);
        while ((step = storage_cut_next(cut, &part)) != STORAGE_STEP_DONE) {
            if (step == STORAGE_STEP_WALKED) {
                storage_cut_end(cut, i == 0 ? NULL : &facts, &about);
                continue;
            }
            if (step == STORAGE_STEP_MORE) {
                continue;
            }
            storage_save_part(save, part.kind, part.number,
                              (struct slice){part.bytes, part.len});
            free(part.bytes);
        }
        storage_cut_done(cut, true);
        storage_cut_free(cut);
    }
    cr_assert_eq(storage_save_commit(save, &about), STORAGE_OK);
    storage_save_free(save);

    struct storage_stream *streams;
    uint32_t count;
    open_newest(io, &load);
    cr_assert_eq(load.root.blocks, 3);
    cr_assert_eq(storage_restore_streams(&load, &streams, &count), STORAGE_OK);
    cr_assert_eq(count, 1);
    cr_assert_eq(storage_restore_index(&load, NULL, b.ledger, streams, count),
                 STORAGE_OK);
    cr_assert_eq(storage_restore_index(&load, b.mirror, NULL, streams, count),
                 STORAGE_OK);
    cr_assert_eq(ledger_blocks(b.ledger, streams[0].ledger), 3);
    cr_assert_eq(mirror_slot_digest(b.mirror, streams[0].slot),
                 mirror_slot_digest(a.mirror, stream.slot));
    cr_assert_eq(streams[0].pos, 256);
    free(streams);
    storage_load_close(&load);
    side_free(&a);
    side_free(&b);
    storage_io_free(io);
}

Test(cut, a_stream_that_is_not_as_its_digest_says_is_refused)
{
    struct side a;
    struct side b;
    struct storage_io *io = sim_disk_new(1);
    struct storage_limits limits = storage_limits_default();
    struct storage_save *save = storage_save_new(io, &limits, 1);
    struct storage_stream stream = {.name = {.worker = 9},
                                    .ledger = STORAGE_NONE};
    struct storage_facts facts = {.streams = &stream, .streams_count = 1};
    uint64_t words[2] = {event_op(EVENT_STORE, TIER_DEVICE, 1), 77};
    struct storage_load load;

    side_new(&a);
    side_new(&b);
    cr_assert_eq(mirror_open(a.mirror, &stream.slot), 0);
    cr_assert_eq(mirror_apply(a.mirror, stream.slot, words, 2, 0), 0);
    struct storage_source source = {.mirror = a.mirror};
    struct storage_cut *cut = storage_cut_new(&source);
    cr_assert_eq(take(save, cut, &facts), STORAGE_OK);
    storage_cut_free(cut);
    storage_save_free(save);

    struct storage_stream *streams;
    uint32_t count;
    open_newest(io, &load);
    cr_assert_eq(storage_restore_streams(&load, &streams, &count), STORAGE_OK);
    streams[0].digest ^= 1;
    cr_assert_eq(storage_restore_index(&load, b.mirror, NULL, streams, count),
                 STORAGE_E_CORRUPT);
    streams[0].digest ^= 1;
    while (mirror_work(b.mirror, 1 << 20)) {
    }
    (void)qsbr_reclaim(&b.qsbr);
    (void)mirror_work(b.mirror, 1 << 20);
    cr_assert_eq(storage_restore_index(&load, b.mirror, NULL, streams, count),
                 STORAGE_OK);
    free(streams);
    storage_load_close(&load);
    side_free(&a);
    side_free(&b);
    storage_io_free(io);
}
