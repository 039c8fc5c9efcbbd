/* Records of a snapshot: their bytes, and what is read of them. */
#include <criterion/criterion.h>

#include "storage/record.h"

static struct buf bytes;

static void
setup(void)
{
    buf_init(&bytes, 1 << 16);
}

static void
teardown(void)
{
    buf_fini(&bytes);
}

TestSuite(storage_record, .init = setup, .fini = teardown);

static const char text[700] = "longer than a length of one byte could say";

static struct storage_stream
stream_of(bool complete)
{
    return (struct storage_stream){
        .name = {.worker = UINT64_C(0x1122334455667788), .rank = 3},
        .slot = 5,
        .ledger = 6,
        .epoch_no = 7,
        .epoch_id = 8,
        .epoch_name = 9,
        .pos = UINT64_MAX - 1,
        .holes = EVENT_HOLES_UNKNOWN,
        .block_tokens = 16,
        .complete = complete,
        .reading = {text, sizeof text},
        .blocks = 10,
        .digest = 11,
        .ledger_blocks = 12,
    };
}

static void
same_stream(const struct storage_stream *a, const struct storage_stream *b)
{
    cr_assert(a->name.worker == b->name.worker && a->name.rank == b->name.rank);
    cr_assert(a->slot == b->slot && a->ledger == b->ledger);
    cr_assert(a->epoch_no == b->epoch_no && a->epoch_id == b->epoch_id);
    cr_assert(a->epoch_name == b->epoch_name && a->pos == b->pos);
    cr_assert(a->holes == b->holes && a->block_tokens == b->block_tokens);
    cr_assert_eq(a->complete, b->complete);
    cr_assert(slice_equal(a->reading, b->reading));
    cr_assert(a->blocks == b->blocks && a->digest == b->digest);
    cr_assert_eq(a->ledger_blocks, b->ledger_blocks);
}

Test(storage_record, streams_come_back_one_by_one_as_they_were)
{
    struct storage_stream sent[] = {stream_of(true), stream_of(false)};
    struct storage_stream got;

    storage_put_stream(&bytes, &sent[0]);
    storage_put_stream(&bytes, &sent[1]);
    struct storage_records in = storage_records(buf_slice(&bytes));
    for (unsigned i = 0; i < 2; i++) {
        cr_assert(storage_get_stream(&in, &got));
        same_stream(&got, &sent[i]);
    }
    cr_assert_not(storage_get_stream(&in, &got));
    cr_assert_not(in.failed);
}

Test(storage_record, workers_and_members_come_back_as_they_were)
{
    struct storage_worker worker = {.id = SLICE("w1"),
                                    .version = 4,
                                    .removed = true,
                                    .spec = {text, sizeof text},
                                    .age_ms = 77};
    struct storage_member member = {.name = SLICE("n1"),
                                    .address = SLICE("10.0.0.1:7946")};
    struct storage_worker one;
    struct storage_member other;

    storage_put_worker(&bytes, &worker);
    struct storage_records in = storage_records(buf_slice(&bytes));
    cr_assert(storage_get_worker(&in, &one));
    cr_assert(slice_equal(one.id, worker.id) && one.version == 4);
    cr_assert(one.removed && !one.draining && one.age_ms == 77);
    cr_assert(slice_equal(one.spec, worker.spec));
    buf_clear(&bytes);
    storage_put_member(&bytes, &member);
    in = storage_records(buf_slice(&bytes));
    cr_assert(storage_get_member(&in, &other));
    cr_assert(slice_equal(other.name, member.name));
    cr_assert(slice_equal(other.address, member.address));
}

Test(storage_record, begins_with_its_length_lowest_byte_first)
{
    struct storage_member member = {.name = {text, 600}};

    storage_put_member(&bytes, &member);
    cr_assert_eq(bytes.len, 4U + 4 + 600 + 4);
    cr_assert_arr_eq(bytes.ptr, "\x60\x02\0\0\x58\x02\0\0", 8);
}

Test(storage_record, that_is_broken_off_anywhere_is_refused)
{
    struct storage_stream stream = stream_of(true);
    struct storage_stream got;

    storage_put_stream(&bytes, &stream);
    for (size_t len = 1; len < bytes.len; len++) {
        struct storage_records in =
            storage_records((struct slice){bytes.ptr, len});
        cr_assert_not(storage_get_stream(&in, &got));
        cr_assert(in.failed);
    }
}

Test(storage_record, fields_of_a_later_version_are_passed_over)
{
    struct storage_member member = {.name = SLICE("n1"), .address = SLICE("a")};
    struct storage_member got;

    storage_put_member(&bytes, &member);
    buf_add(&bytes, "later", 5);
    bytes.ptr[0] = (char)(bytes.ptr[0] + 5);
    storage_put_member(&bytes, &member);
    struct storage_records in = storage_records(buf_slice(&bytes));
    for (unsigned i = 0; i < 2; i++) {
        cr_assert(storage_get_member(&in, &got));
        cr_assert(slice_equal(got.name, member.name));
        cr_assert(slice_equal(got.address, member.address));
    }
}
