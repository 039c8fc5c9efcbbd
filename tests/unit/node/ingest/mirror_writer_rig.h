/*
 * For tests of the mirror writer: one over a fake mirror, and what is told it.
 */
#ifndef TESTS_UNIT_NODE_MIRROR_WRITER_RIG_H
#define TESTS_UNIT_NODE_MIRROR_WRITER_RIG_H

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "fake_mirror.h"
#include "node/ingest/mirror_writer.h"

#if defined(__clang__)
/* A test is the control thread. */
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

#define S UINT64_C(1000000)

static struct mirror *mirror;
static struct qsbr qsbr;
static struct publish published;
static struct mirror_writer *writer;

static void
setup(void)
{
    const struct mirror_writer_limits limits = {
        .accuracy = {.answers_min = 4,
                     .wrong_permille = 500,
                     .reread_ms = 10000,
                     .discount_permille = 200},
        .stale_permille = 500,
    };

    mirror = fake_mirror();
    mirror->view = &published;
    qsbr_init(&qsbr);
    cr_assert_eq(mirror_writer_new(&writer, &limits, mirror, &qsbr, &published),
                 0);
}

static void
sound(void)
{
    const char *reason;

    cr_assert(mirror_writer_check(writer, &reason), "%s", reason);
}

static void
teardown(void)
{
    sound();
    mirror_writer_free(writer);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        cr_assert_neq(mirror->slot[i].state, FAKE_OPEN);
    }
    qsbr_fini(&qsbr);
}

static const struct mirror_view *
view(void)
{
    (void)mirror_writer_work(writer, 100);
    sound();
    (void)qsbr_reclaim(&qsbr);
    return mirror_view_get(&published);
}

/* Fleet slot w, generation 1. */
static void
add(uint32_t worker, uint32_t ranks)
{
    cr_assert_eq(mirror_writer_worker_add(writer, worker, 1, ranks), 0);
}

static void
begin(uint32_t worker, uint32_t rank, uint64_t epoch)
{
    mirror_writer_reset(writer, worker, 1, rank, epoch);
    mirror_writer_state(writer, worker, 1, rank, KV_STREAM_LIVE);
}

/* A record with room for words. */
union parcel {
    struct event_record head;
    uint64_t room[sizeof(struct event_record) / 8 + 8];
};

static union parcel
record_of(uint64_t epoch, uint64_t seq, uint32_t count, const uint64_t *words)
{
    union parcel parcel = {.head = {.epoch = epoch,
                                    .seq = seq,
                                    .block_tokens = 16,
                                    .words_count = count}};

    cr_assert_leq(count, 8);
    memcpy(parcel.head.words, count > 0 ? words : parcel.room,
           count * sizeof *words);
    return parcel;
}

static int
deliver(uint32_t worker, uint32_t rank, union parcel *parcel)
{
    return mirror_writer_record(writer, worker, 1, rank, &parcel->head);
}

static union parcel
stores(uint64_t epoch, uint64_t seq, uint64_t key)
{
    const uint64_t words[] = {event_op(EVENT_STORE, TIER_DEVICE, 1), key};

    return record_of(epoch, seq, 2, words);
}

/* One block more. */
static void
store(uint32_t worker, uint32_t rank, uint64_t epoch, uint64_t seq,
      uint64_t key)
{
    union parcel parcel = stores(epoch, seq, key);

    cr_assert_eq(deliver(worker, rank, &parcel), 0);
}

static struct mirror_writer_status
status(uint32_t at)
{
    struct mirror_writer_status s;

    cr_assert(mirror_writer_status(writer, at, &s));
    return s;
}

static struct mirror_writer_stats
stats(void)
{
    struct mirror_writer_stats s;

    mirror_writer_stats(writer, &s);
    return s;
}

#endif
