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

Test(cut, workers_members_belief_and_what_was_learned_come_back)
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
                                  .belief_workers = identities,
                                  .learned = SLICE("lengths")};
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
    cr_assert_eq(storage_restore_part(&load, STORAGE_LEARNED, &bytes),
                 STORAGE_OK);
    cr_assert(slice_equal(bytes, SLICE("lengths")));

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

/* Two tables of names, as their owner has them, and where it says what it does. */
struct namer {
    struct names table[2];
    bool known[2];
    struct names_room room;
    struct words *journal;
};

static struct event_stream
named(uint32_t at)
{
    return (struct event_stream){.worker = 70 + at};
}

static bool
namer_table(void *context, uint32_t at, struct event_stream *stream,
            const struct names **table)
{
    struct namer *n = context;

    if (at >= 2) {
        return false;
    }
    *stream = named(at);
    *table = n->known[at] ? &n->table[at] : NULL;
    return true;
}

static void
namer_watch(void *context, struct words *journal)
{
    ((struct namer *)context)->journal = journal;
}

/* Block `name` is held behind the one before it, and `left` is not any more. */
static void
name_one(struct namer *n, uint32_t at, uint64_t name, uint64_t left)
{
    uint64_t reader = 5;
    struct names_said said = {.last = 0};
    struct names_block block = {.name = name,
                                .key = name * 3,
                                .parent = name * 3 - 3,
                                .has_parent = name > 1};

    words_init(&said.words, 100);
    names_say_reader(&said, &reader, 1);
    names_say_enter(&said, &block);
    if (name % 7 == 0) {
        names_say_copies(&said, name, 3);
    }
    if (left != 0) {
        names_say_leave(&said, left);
    }
    cr_assert_eq(
        names_apply(&n->table[at], &n->room, said.words.word, said.words.count),
        0);
    names_copy_put(n->journal, &(struct names_copy){.stream = named(at),
                                                    .words = said.words.word,
                                                    .count = said.words.count});
    words_fini(&said.words);
}

static void
lose_names(struct namer *n, uint32_t at, enum names_copy_kind kind)
{
    names_clear(&n->table[at], &n->room);
    n->known[at] = kind != NAMES_COPY_LOST;
    names_copy_put(n->journal,
                   &(struct names_copy){.kind = kind, .stream = named(at)});
}

/* Cuts and saves; between two pages, table 0 changes, and with table 1 happens
 * `kind`. The streams that were saved, and the tables that come back. */
static void
round_trip(struct namer *n, enum names_copy_kind kind, uint64_t wrong,
           struct storage_stream streams[2], struct names_copied back[2],
           struct names_room *room, uint32_t *refused)
{
    struct side a;
    struct storage_io *io = sim_disk_new(1);
    struct storage_limits limits = storage_limits_default();
    struct storage_save *save = storage_save_new(io, &limits, 1);
    struct storage_about about = {.cluster = "c", .node = "n"};
    struct storage_facts facts = {.streams = streams, .streams_count = 2};
    struct storage_part part;
    struct storage_load load;
    enum storage_step step;
    uint32_t pages = 0;

    side_new(&a);
    struct storage_source source = {.mirror = a.mirror,
                                    .names = {n, namer_table, namer_watch}};
    struct storage_cut *cut = storage_cut_new(&source);
    storage_save_begin(save);
    storage_cut_begin(cut, true);
    while ((step = storage_cut_next(cut, &part)) != STORAGE_STEP_DONE) {
        cr_assert_neq(step, STORAGE_STEP_FAILED);
        if (step == STORAGE_STEP_PART && part.kind == STORAGE_NAMES) {
            name_one(n, 0, 20000 + pages, 1 + 37 * pages);
            pages++;
        }
        if (step == STORAGE_STEP_WALKED) {
            if (kind != NAMES_COPY_KINDS) {
                lose_names(n, 1, kind);
            }
            if (n->known[1]) {
                name_one(n, 1, 40000, 0);
            }
            for (uint32_t i = 0; i < 2; i++) {
                streams[i] = (struct storage_stream){
                    .name = named(i),
                    .slot = STORAGE_NONE,
                    .ledger = STORAGE_NONE,
                    .named = n->known[i],
                    .names_print = 11 + i,
                    .names_count = n->table[i].count + (i == 0 ? wrong : 0),
                    .names_digest = n->table[i].digest};
            }
            storage_cut_end(cut, &facts, &about);
        } else if (step == STORAGE_STEP_PART) {
            storage_save_part(save, part.kind, part.number,
                              (struct slice){part.bytes, part.len});
            free(part.bytes);
        }
    }
    cr_assert_geq(pages, 3);
    cr_assert_null(n->journal, "nobody copies any more");
    cr_assert_eq(storage_save_commit(save, &about), STORAGE_OK);
    storage_cut_done(cut, true);
    storage_cut_free(cut);
    storage_save_free(save);
    open_newest(io, &load);
    struct storage_stream *got;
    uint32_t count;
    cr_assert_eq(storage_restore_streams(&load, &got, &count), STORAGE_OK);
    cr_assert_eq(count, 2);
    cr_assert_eq(got[0].names_print, 11);
    cr_assert_eq(storage_restore_names(&load, got, count, back, room, refused),
                 STORAGE_OK);
    free(got);
    storage_load_close(&load);
    side_free(&a);
    storage_io_free(io);
}

static void
check_names(enum names_copy_kind kind, uint64_t wrong)
{
    struct namer n = {.known = {true, true},
                      .room = {.bytes_max = SIZE_MAX / 2}};
    struct names_room room = {.bytes_max = SIZE_MAX / 2};
    struct names_copied back[2] = {{.any = false}};
    struct storage_stream streams[2];
    uint32_t refused;
    const char *reason = "";

    for (uint64_t name = 1; name <= 5000; name++) {
        name_one(&n, 0, name, 0);
        name_one(&n, 1, name, 0);
    }
    round_trip(&n, kind, wrong, streams, back, &room, &refused);
    cr_assert_eq(refused, wrong);
    for (uint32_t i = 0; i < 2; i++) {
        const struct names *table = &back[i].table;
        bool there = n.known[i] && (i == 1 || wrong == 0);
        cr_assert(names_check(table, &reason), "%s", reason);
        cr_assert_eq(table->count, there ? n.table[i].count : 0);
        cr_assert_eq(table->digest, there ? n.table[i].digest : 0);
        cr_assert_eq(table->reader_count, there ? 1 : 0);
        names_clear(&back[i].table, &room);
        names_clear(&n.table[i], &n.room);
    }
    cr_assert_eq(room.bytes, 0);
}

Test(cut, names_come_back_as_they_were_at_the_end)
{
    check_names(NAMES_COPY_KINDS, 0);
}

Test(cut, names_that_begin_anew_amid_a_cut_come_back)
{
    check_names(NAMES_COPY_BEGIN, 0);
    check_names(NAMES_COPY_CLEAR, 0);
}

Test(cut, names_that_are_lost_amid_a_cut_do_not_come_back)
{
    check_names(NAMES_COPY_LOST, 0);
}

Test(cut, names_that_are_not_as_they_were_are_refused)
{
    check_names(NAMES_COPY_KINDS, 1);
}
