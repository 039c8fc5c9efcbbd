/* The two halves of a snapshot, turn by turn. */
#include "storage/twin.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>

#include "index/index.h"
#include "storage/find.h"
#include "storage/restore.h"
#include "storage/sim_disk.h"
#include "storage/take.h"

#define S UINT64_C(1000000)

struct rig {
    struct qsbr qsbr;
    struct mirror *mirror;
    struct ledger *ledger;
    struct storage_io *io;
    struct storage_cut *cut;
    struct storage_disk *disk;
    struct storage_twin *twin;
    struct storage_take take;
    struct storage_stream stream;
    uint64_t seq; /* of the ledger */
    uint64_t now_us;
    uint64_t cut_told;   /* number of the cut that the ledger ended */
    uint64_t ledger_seq; /* ... where it was then */
    uint32_t ledger_wakes;
    uint32_t control_wakes;
};

static struct rig rig;

static void
wake_ledger(void *context)
{
    (void)context;
    rig.ledger_wakes++;
}

static void
wake_control(void *context)
{
    (void)context;
    rig.control_wakes++;
}

static void
setup(void)
{
    struct mirror_limits limits = {.bytes_max = (size_t)64 << 20};
    struct ledger_limits ledger_limits = {.bytes_max = (size_t)64 << 20};
    struct storage_limits storage = storage_limits_default();
    struct storage_take_config config = storage_take_config_default();
    struct storage_twin_calls calls = {.wake_ledger = wake_ledger,
                                       .wake_control = wake_control};

    rig = (struct rig){.now_us = S};
    qsbr_init(&rig.qsbr);
    cr_assert_eq(mirror_new(&rig.mirror, &limits, &rig.qsbr), 0);
    cr_assert_eq(ledger_new(&rig.ledger, &ledger_limits), 0);
    cr_assert_eq(mirror_open(rig.mirror, &rig.stream.slot), 0);
    cr_assert_eq(ledger_open(rig.ledger, &rig.stream.ledger), 0);
    rig.stream.name.worker = 5;
    rig.io = sim_disk_new(1);
    struct storage_source source = {.mirror = rig.mirror};
    rig.cut = storage_cut_new(&source);
    rig.twin = storage_twin_new(rig.ledger, &calls);
    cr_assert(rig.io != NULL && rig.cut != NULL && rig.twin != NULL);
    cr_assert_eq(
        storage_disk_new(&rig.disk, storage_save_new(rig.io, &storage, 1),
                         storage.queue_bytes, NULL, NULL),
        0);
    storage_take_init(&rig.take, &config, rig.cut, rig.disk, rig.now_us);
    storage_take_with(&rig.take, rig.twin);
}

static void
teardown(void)
{
    storage_take_stop(&rig.take);
    storage_twin_free(rig.twin);
    storage_cut_free(rig.cut);
    storage_disk_free(rig.disk);
    storage_io_free(rig.io);
    ledger_free(rig.ledger);
    mirror_free(rig.mirror);
}

TestSuite(storage_twin, .init = setup, .fini = teardown);

/* A batch of one block: into the ledger, and what it tells into the mirror. */
static void
read_batch(bool applied)
{
    uint64_t words[4];
    uint64_t hash = ++rig.seq;
    uint32_t token = (uint32_t)rig.seq;
    struct event_words out = {.words = words, .max = 4};
    struct ledger_run run = {.hashes = &hash,
                             .count = 1,
                             .block_tokens = 1,
                             .tokens = &token,
                             .root = 9,
                             .has_parent = rig.seq > 1,
                             .parent = rig.seq - 1};
    struct ledger_done done;

    cr_assert_eq(ledger_store(rig.ledger, rig.stream.ledger, &run, &out, &done),
                 0);
    if (applied) {
        cr_assert_eq(
            mirror_apply(rig.mirror, rig.stream.slot, words, out.count, 0), 0);
        rig.stream.pos = rig.seq;
    }
}

/* What the ledger's thread does in one turn. */
static enum storage_twin_step
ledger_turn(void)
{
    uint64_t number = 0;
    enum storage_twin_step step =
        storage_twin_turn(rig.twin, (size_t)1 << 20, &number);

    if (step == STORAGE_TWIN_ENDED) {
        rig.cut_told = number;
        rig.ledger_seq = rig.seq;
    }
    return step;
}

static enum storage_take_step
control_turn(void)
{
    return storage_take_tick(&rig.take, rig.now_us);
}

static void
give_facts(bool with_ledger)
{
    char position = (char)rig.ledger_seq;
    struct storage_about about = {.cluster = "c", .node = "n"};
    struct storage_stream stream = rig.stream;
    struct storage_facts facts = {.streams = &stream, .streams_count = 1};

    if (with_ledger) {
        stream.reading = (struct slice){.ptr = &position, .len = 1};
        stream.ledger_blocks = rig.ledger_seq;
    } else {
        stream.ledger = STORAGE_NONE;
    }
    storage_take_facts(&rig.take, &facts, &about);
}

/* Until the disk said how it went; the ledger's thread turns along. */
static void
wait_result(void)
{
    uint64_t over = rig.take.status.taken + rig.take.status.failed;

    for (uint32_t n = 0; rig.take.status.taken + rig.take.status.failed == over;
         n++) {
        cr_assert_lt(n, 10000U);
        (void)ledger_turn();
        if (control_turn() == STORAGE_TAKE_FACTS) {
            give_facts(storage_take_number(&rig.take) != 0);
        }
        if (rig.cut_told != 0) {
            storage_take_told(&rig.take, rig.cut_told);
        }
        (void)poll(NULL, 0, 1);
    }
}

/* What a start would have. */
struct back {
    struct qsbr qsbr;
    struct mirror *mirror;
    struct ledger *ledger;
    struct storage_stream stream;
    uint64_t position;
};

static void
restore(struct back *b, enum storage_outcome expected)
{
    struct mirror_limits limits = {.bytes_max = (size_t)64 << 20};
    struct ledger_limits ledger_limits = {.bytes_max = (size_t)64 << 20};
    struct storage_limits storage = storage_limits_default();
    struct storage_stream *streams;
    struct storage_find find;
    struct storage_load load;
    struct storage_report report;
    uint32_t count;

    *b = (struct back){.position = 0};
    storage_disk_free(rig.disk);
    rig.disk = NULL;
    qsbr_init(&b->qsbr);
    cr_assert_eq(mirror_new(&b->mirror, &limits, &b->qsbr), 0);
    cr_assert_eq(ledger_new(&b->ledger, &ledger_limits), 0);
    cr_assert_eq(storage_find(rig.io, "c", &storage, 0, &find), STORAGE_OK);
    cr_assert(find.found);
    cr_assert_eq(
        storage_load_open(&load, rig.io, find.chosen.file, "c", &report),
        STORAGE_OK);
    cr_assert_eq(storage_restore_streams(&load, &streams, &count), STORAGE_OK);
    cr_assert_eq(count, 1);
    b->stream = streams[0];
    b->position =
        b->stream.reading.len == 1 ? (uint64_t)b->stream.reading.ptr[0] : 0;
    cr_assert_eq(
        storage_restore_index(&load, b->mirror, b->ledger, streams, count),
        expected);
    free(streams);
    storage_load_close(&load);
}

static void
back_free(struct back *b)
{
    mirror_free(b->mirror);
    ledger_free(b->ledger);
}

Test(storage_twin, the_ledger_comes_back_as_it_was_when_its_cut_ended)
{
    struct back b;
    const char *reason;

    for (int i = 0; i < 20; i++) {
        read_batch(true);
    }
    storage_take_ask(&rig.take);
    cr_assert_eq(control_turn(), STORAGE_TAKE_WAITS, "for the ledger's walk");
    cr_assert_gt(rig.ledger_wakes, 0U);
    cr_assert_eq(ledger_turn(), STORAGE_TWIN_NOTHING);
    cr_assert_gt(rig.control_wakes, 0U, "it is walked");
    read_batch(true); /* meanwhile */
    cr_assert_eq(control_turn(), STORAGE_TAKE_WAITS);
    read_batch(false);
    cr_assert_eq(ledger_turn(), STORAGE_TWIN_ENDED);
    cr_assert_eq(rig.ledger_seq, 22);
    read_batch(true); /* the mirror applied that and, below, the one before */
    cr_assert_eq(control_turn(), STORAGE_TAKE_WAITS, "until that is applied");
    uint64_t late[2] = {event_op(EVENT_STORE, TIER_DEVICE, 1), 4711};
    cr_assert_eq(mirror_apply(rig.mirror, rig.stream.slot, late, 2, 0), 0);
    storage_take_told(&rig.take, rig.cut_told);
    cr_assert_eq(control_turn(), STORAGE_TAKE_FACTS);
    give_facts(true);
    cr_assert_eq(control_turn(), STORAGE_TAKE_WAITS, "for its last parts");
    wait_result();
    cr_assert_eq(rig.take.status.outcome, STORAGE_OK);
    restore(&b, STORAGE_OK);
    cr_assert_eq(b.position, 22);
    cr_assert_eq(ledger_blocks(b.ledger, b.stream.ledger), 22);
    cr_assert_eq(b.stream.pos, 23);
    cr_assert_eq(mirror_slot_blocks(b.mirror, b.stream.slot), 23);
    cr_assert(ledger_check(b.ledger, &reason), "%s", reason);
    back_free(&b);
}

Test(storage_twin, what_was_told_of_an_earlier_snapshot_does_not_count)
{
    storage_take_ask(&rig.take);
    (void)control_turn();
    storage_take_told(&rig.take, 0);
    storage_take_told(&rig.take, 7);
    cr_assert_eq(storage_take_number(&rig.take), 0);
    wait_result();
    uint64_t first = rig.cut_told;
    rig.cut_told = 0;
    storage_take_ask(&rig.take);
    (void)control_turn();
    storage_take_told(&rig.take, first);
    cr_assert_eq(storage_take_number(&rig.take), 0);
    wait_result();
    cr_assert_neq(rig.cut_told, first);
}

Test(storage_twin, the_next_one_writes_what_changed_alone)
{
    for (int i = 0; i < 10; i++) {
        read_batch(true);
    }
    storage_take_ask(&rig.take);
    wait_result();
    uint32_t whole = rig.take.status.saved.parts_written;
    rig.cut_told = 0;
    storage_take_ask(&rig.take);
    wait_result();
    cr_assert_eq(rig.take.status.taken, 2);
    cr_assert_lt(rig.take.status.saved.parts_written, whole);
    struct back b;
    restore(&b, STORAGE_OK);
    cr_assert_eq(ledger_blocks(b.ledger, b.stream.ledger), 10);
    back_free(&b);
}

Test(storage_twin, one_that_is_given_up_touches_the_disk_no_more)
{
    read_batch(true);
    storage_take_ask(&rig.take);
    (void)control_turn();
    storage_take_stop(&rig.take);
    storage_disk_free(rig.disk);
    rig.disk = NULL;
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(ledger_turn(), STORAGE_TWIN_NOTHING);
    }
}

Test(storage_twin, after_a_failure_all_parts_are_given_again)
{
    struct back b;

    for (int i = 0; i < 10; i++) {
        read_batch(true);
    }
    sim_disk_limit(rig.io, 1);
    storage_take_ask(&rig.take);
    wait_result();
    cr_assert_eq(rig.take.status.outcome, STORAGE_E_FULL);
    sim_disk_limit(rig.io, 0);
    rig.cut_told = 0;
    read_batch(true);
    storage_take_ask(&rig.take);
    wait_result();
    cr_assert_eq(rig.take.status.outcome, STORAGE_OK);
    restore(&b, STORAGE_OK);
    cr_assert_eq(ledger_blocks(b.ledger, b.stream.ledger), 11);
    back_free(&b);
}

Test(storage_twin, a_thread_that_is_gone_costs_the_ledger_and_no_snapshot)
{
    struct back b;

    read_batch(true);
    storage_twin_leave(rig.twin);
    storage_take_ask(&rig.take);
    cr_assert_eq(control_turn(), STORAGE_TAKE_FACTS);
    cr_assert_eq(storage_take_number(&rig.take), 0);
    give_facts(false);
    for (uint32_t n = 0; rig.take.status.taken == 0; n++) {
        cr_assert_lt(n, 10000U);
        (void)control_turn();
        (void)poll(NULL, 0, 1);
    }
    restore(&b, STORAGE_OK);
    cr_assert_eq(b.stream.ledger, STORAGE_NONE);
    cr_assert_eq(mirror_slot_blocks(b.mirror, b.stream.slot), 1);
    back_free(&b);
}

Test(storage_twin, a_thread_that_goes_in_the_midst_fails_the_snapshot)
{
    read_batch(true);
    storage_take_ask(&rig.take);
    (void)control_turn();
    (void)ledger_turn();
    (void)control_turn();
    cr_assert_eq(ledger_turn(), STORAGE_TWIN_ENDED);
    storage_take_told(&rig.take, rig.cut_told);
    cr_assert_eq(control_turn(), STORAGE_TAKE_FACTS);
    give_facts(true);
    storage_twin_leave(rig.twin); /* its last parts are missing */
    for (uint32_t n = 0; rig.take.status.failed == 0; n++) {
        cr_assert_lt(n, 10000U);
        (void)control_turn();
        (void)poll(NULL, 0, 1);
    }
    cr_assert_eq(rig.take.status.taken, 0);
}
