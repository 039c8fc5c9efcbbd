/* What a snapshot has of workers and readings, and what a start makes of it. */
#include "node/ingest/snapshot_state.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "gossip/roster.h"
#include "index/base/rng.h"

#define HOUR_MS  UINT64_C(3600000)
#define START_US UINT64_C(1000000)

static uint64_t now_us;
static struct roster *roster;

static void
new_roster(void)
{
    struct roster_config config = roster_config_default();

    cr_assert_eq(config.tombstone_ms, 24 * HOUR_MS);
    now_us = START_US;
    cr_assert_eq(roster_new(&roster, &config, now_us, 1), 0);
}

static void
pull(void)
{
    struct roster_out out;

    while (roster_next_out(roster, &out)) {
    }
}

static void
pass(uint64_t ms)
{
    pull();
    now_us += ms * 1000;
    roster_tick(roster, now_us);
    pull();
}

static bool
is_buried(const char *id)
{
    struct roster_entry entry;

    return roster_find(roster, id, &entry) && entry.removed;
}

/* Saves the roster, so long passes, and another process has it. */
static void
restart(uint64_t passed_ms)
{
    struct storage_worker *workers = NULL;
    struct storage_worker worker;
    uint32_t count = 0;
    struct buf bytes;

    buf_init(&bytes, 1 << 16);
    cr_assert(snapshot_workers(roster, &workers, &count));
    for (uint32_t i = 0; i < count; i++) {
        storage_put_worker(&bytes, &workers[i]);
    }
    free(workers);
    roster_free(roster);
    new_roster();
    struct storage_records in = storage_records(buf_slice(&bytes));
    while (storage_get_worker(&in, &worker)) {
        char id[ROSTER_ID_MAX];
        struct roster_entry entry;
        if (snapshot_worker_entry(&worker, passed_ms, id, &entry)) {
            cr_assert_eq(roster_load(roster, &entry, now_us), 0);
        }
    }
    cr_assert_not(in.failed);
    buf_fini(&bytes);
}

static void
setup(void)
{
    new_roster();
    cr_assert_eq(roster_put(roster, "gone", SLICE("http://a:1"), now_us), 0);
    cr_assert_eq(roster_put(roster, "here", SLICE("http://a:2"), now_us), 0);
    cr_assert_eq(roster_remove(roster, "gone", now_us), 0);
    pass(0);
}

static void
teardown(void)
{
    roster_free(roster);
}

TestSuite(node_snapshot_state, .init = setup, .fini = teardown);

Test(node_snapshot_state, a_tombstone_survives_a_restart)
{
    struct roster_entry entry;

    pass(HOUR_MS);
    restart(HOUR_MS);
    cr_assert(is_buried("gone"));
    cr_assert(roster_find(roster, "gone", &entry));
    cr_assert_eq(entry.age_ms, 2 * HOUR_MS);
    cr_assert(roster_find(roster, "here", &entry) && !entry.removed);
}

Test(node_snapshot_state, a_tombstone_does_not_live_for_ever_by_restarts)
{
    for (int i = 0; i < 7; i++) {
        cr_assert(is_buried("gone"), "after %d", i);
        pass(2 * HOUR_MS);
        restart(HOUR_MS);
    }
    pass(2 * HOUR_MS);
    cr_assert(is_buried("gone"), "23 hours old");
    pass(HOUR_MS + 60000);
    cr_assert_not(is_buried("gone"));
}

Test(node_snapshot_state, a_tombstone_ends_while_nobody_runs)
{
    restart(1000 * HOUR_MS);
    pass(60000);
    cr_assert_not(is_buried("gone"));
    restart(UINT64_MAX); /* a clock that jumped */
    cr_assert_not(is_buried("gone"));
}

/* Of a file of before there were ages. */
Test(node_snapshot_state, a_record_without_an_age_is_one_of_now)
{
    struct storage_worker gone = {
        .id = SLICE("old"), .version = 7, .removed = true, .age_ms = 99};
    struct storage_worker got;
    struct buf bytes;

    buf_init(&bytes, 1 << 16);
    storage_put_worker(&bytes, &gone);
    bytes.len -= sizeof(uint32_t);
    bytes.ptr[0] = (char)(bytes.ptr[0] - (char)sizeof(uint32_t));
    struct storage_records in = storage_records(buf_slice(&bytes));
    cr_assert(storage_get_worker(&in, &got));
    cr_assert(got.removed && got.version == 7 && got.age_ms == 0);
    cr_assert_eq(in.left, 0U);
    buf_fini(&bytes);
}

/* Workers are put, removed, and put again, time passes, processes come and go:
 * a removal is remembered for a day, whoever ran meanwhile. */
Test(node_snapshot_state, a_removal_is_remembered_for_a_day_through_restarts)
{
    static const char *const ids[] = {"a", "b", "c", "d"};
    uint64_t removed_ms[4]; /* when; 0: it is there */
    uint64_t ms = 1;
    struct rng rng;

    rng_init(&rng, 3);
    for (unsigned i = 0; i < 4; i++) {
        removed_ms[i] = 0;
        cr_assert_eq(roster_put(roster, ids[i], SLICE("http://a:1"), now_us),
                     0);
    }
    for (unsigned step = 0; step < 2000; step++) {
        unsigned i = (unsigned)rng_below(&rng, 4);
        uint64_t later_ms = rng_below(&rng, 4 * HOUR_MS);
        bool restarts = rng_below(&rng, 2) == 0;
        if (removed_ms[i] == 0) {
            removed_ms[i] = ms;
            cr_assert_eq(roster_remove(roster, ids[i], now_us), 0);
        } else if (rng_below(&rng, 12) == 0) {
            removed_ms[i] = 0;
            cr_assert_eq(
                roster_put(roster, ids[i], SLICE("http://a:2"), now_us), 0);
        }
        pull();
        (restarts ? restart : pass)(later_ms);
        pass(0);
        ms += later_ms;
        for (unsigned j = 0; j < 4; j++) {
            uint64_t age_ms = ms - removed_ms[j];
            struct roster_entry entry;
            if (removed_ms[j] == 0 && !roster_find(roster, ids[j], &entry)) {
                /* One that only the configuration knew. */
                cr_assert_eq(
                    roster_put(roster, ids[j], SLICE("http://a:1"), now_us), 0);
            }
            if (age_ms < 23 * HOUR_MS || age_ms > 25 * HOUR_MS) {
                cr_assert_eq(is_buried(ids[j]),
                             removed_ms[j] != 0 && age_ms < 24 * HOUR_MS,
                             "step %u", step);
            }
        }
    }
}

/* ---- streams ---- */

Test(node_snapshot_state, what_is_known_of_an_epoch_comes_back)
{
    for (unsigned i = 0; i < 4; i++) {
        struct storage_stream put = {.epoch_no = 3,
                                     .epoch_id = 77,
                                     .pos = gossip_pos_after(9),
                                     .complete = (i & 1) != 0,
                                     .partial = (i & 2) != 0};
        struct storage_stream got;
        struct buf bytes;

        buf_init(&bytes, 1 << 12);
        storage_put_stream(&bytes, &put);
        struct storage_records in = storage_records(buf_slice(&bytes));
        cr_assert(storage_get_stream(&in, &got));
        cr_assert_eq(got.complete, put.complete);
        cr_assert_eq(got.partial, put.partial);
        cr_assert_eq(got.pos, put.pos);
        buf_fini(&bytes);
    }
}

/* ---- readings ---- */

/* A reading that has applied batches 3 to 9. */
static void
put_reading(struct buf *out)
{
    const struct kv_stream_config config = {.has_replay = true,
                                            .replay_timeout_ms = 1000,
                                            .replay_rounds = 5,
                                            .probe_interval_ms = 1000,
                                            .retry_ms = 100,
                                            .pending_bytes_max = 1 << 20};
    struct kv_stream_image image = {
        .process = 7, .first_seq = 3, .next_seq = 10, .fingerprints_count = 1};
    struct kv_counters counters = {.batches = {0}};
    struct decoder reading = {.rank = 0};

    buf_init(out, DECODER_BYTES_MAX);
    cr_assert_eq(kv_stream_new(&reading.stream, &config, &counters, 1, 1), 0);
    cr_assert(kv_stream_resume(reading.stream, &image));
    cr_assert(decoder_image(&reading, out));
    kv_stream_free(reading.stream);
}

Test(node_snapshot_state, a_ledger_ahead_of_the_mirror_is_not_gone_on_with)
{
    struct buf bytes;

    put_reading(&bytes);
    struct storage_stream stream = {
        .ledger = 4, .reading = buf_slice(&bytes), .pos = gossip_pos_after(9)};
    cr_assert(snapshot_stream_resumes(&stream));
    stream.pos = gossip_pos_after(20);
    cr_assert(snapshot_stream_resumes(&stream));
    stream.pos = gossip_pos_after(9) - 1; /* in the midst of that batch */
    cr_assert_not(snapshot_stream_resumes(&stream));
    buf_fini(&bytes);
}

Test(node_snapshot_state, without_a_ledger_or_a_known_image_nothing_goes_on)
{
    struct buf bytes;

    put_reading(&bytes);
    struct storage_stream stream = {.ledger = STORAGE_NONE,
                                    .reading = buf_slice(&bytes),
                                    .pos = gossip_pos_after(9)};
    cr_assert_not(snapshot_stream_resumes(&stream));
    stream.ledger = LEDGER_STREAMS_MAX;
    cr_assert_not(snapshot_stream_resumes(&stream));
    stream.ledger = 0;
    stream.reading.len = 0; /* as in files of before */
    cr_assert_not(snapshot_stream_resumes(&stream));
    buf_fini(&bytes);
}
