/* What the intake is given of a snapshot before it starts, and who gets it. */
#include <criterion/criterion.h>

#include "node/events/intake_internal.h"

#define IDENTITY UINT64_C(0x1234)

static struct config config;
static struct intake *intake;
static struct buf image; /* of a reading that has applied batches 3 to 9 */
static uint32_t ledger_stream;

static void
put_image(void)
{
    const struct kv_stream_config stream = {.has_replay = true,
                                            .replay_timeout_ms = 1000,
                                            .replay_rounds = 5,
                                            .probe_interval_ms = 1000,
                                            .retry_ms = 100,
                                            .pending_bytes_max = 1 << 20};
    struct kv_stream_image was = {
        .process = 7, .first_seq = 3, .next_seq = 10, .fingerprints_count = 1};
    struct kv_counters counters = {.batches = {0}};
    struct decoder reading = {.gap = true};

    buf_init(&image, DECODER_BYTES_MAX);
    cr_assert_eq(kv_stream_new(&reading.stream, &stream, &counters, 1, 1), 0);
    cr_assert(kv_stream_resume(reading.stream, &was));
    cr_assert(decoder_image(&reading, &image));
    kv_stream_free(reading.stream);
}

static void
setup(void)
{
    struct event_stream name = {.worker = IDENTITY, .rank = 1};

    config_init(&config);
    put_image();
    cr_assert_eq(intake_new(&intake, &config, NULL, 1), 0);
    cr_assert_eq(ledger_open(intake_ledger(intake), &ledger_stream), 0);
    cr_assert(intake_load(intake, name, ledger_stream, buf_slice(&image)));
}

static void
teardown(void)
{
    intake_free(intake);
    buf_fini(&image);
    config_fini(&config);
}

TestSuite(node_intake_load, .init = setup, .fini = teardown);

static struct intake_source *
add(uint64_t identity, uint32_t slot, bool has_replay)
{
    struct intake_worker worker = {.slot = slot,
                                   .generation = 1,
                                   .identity = identity,
                                   .ranks = 2,
                                   .events = {.host = "127.0.0.1", .port = 9}};

    if (has_replay) {
        worker.replay = worker.events;
    }
    cr_assert_eq(intake_add(intake, &worker), 0);
    return intake->by_slot[slot];
}

/* The kind of what is told next, which is taken. */
static uint32_t
told(struct intake_item *item)
{
    size_t size;
    const struct intake_item *next = ring_peek(&intake->items, &size);

    cr_assert_not_null(next);
    *item = *next;
    ring_consume(&intake->items);
    return item->kind;
}

Test(node_intake_load, the_rank_it_is_of_goes_on_and_no_other)
{
    struct intake_source *stranger = add(IDENTITY + 1, 0, true);
    struct intake_source *source = add(IDENTITY, 1, true);
    struct intake_item item;

    cr_assert(!stranger->ranks[0].resumes && !stranger->ranks[1].resumes);
    cr_assert(!source->ranks[0].resumes && source->ranks[1].resumes);
    cr_assert_eq(intake->loaded_count, 0U);
    struct decoder *decoder = &source->ranks[1].decoder;
    cr_assert(decoder->has_ledger);
    cr_assert_eq(decoder->ledger_stream, ledger_stream);
    cr_assert_eq(kv_stream_next_seq(decoder->stream), 10);
    decoder_tell_resume(decoder);
    cr_assert_eq(told(&item), INTAKE_RESUME);
    cr_assert(item.seq == 9 && item.process == 7 && item.rank == 1);
    cr_assert_eq(told(&item), INTAKE_GAP, "which no record followed yet");
}

Test(node_intake_load, it_is_there_once)
{
    (void)add(IDENTITY, 1, true);
    struct intake_source *again = add(IDENTITY, 2, true);

    cr_assert(!again->ranks[1].resumes && !again->ranks[1].decoder.has_ledger);
}

Test(node_intake_load, without_a_replay_the_rank_begins_anew)
{
    struct intake_source *source = add(IDENTITY, 1, false);

    cr_assert_not(source->ranks[1].resumes);
    cr_assert(source->ranks[1].decoder.has_ledger, "to be closed");
}

Test(node_intake_load, what_nobody_came_for_is_given_back)
{
    const struct intake_command *command;
    size_t size;

    cr_assert(intake_forget_loaded(intake));
    command = ring_peek(&intake->commands, &size);
    cr_assert_not_null(command);
    cr_assert_eq(command->kind, INTAKE_FORGET);
    cr_assert_eq(command->ledger_stream, ledger_stream);
    struct intake_source *late = add(IDENTITY, 1, true);
    cr_assert(!late->ranks[1].resumes && !late->ranks[1].decoder.has_ledger);
}

Test(node_intake_load, a_ledger_that_failed_is_gone_with_its_readings)
{
    struct ledger_stats stats;

    cr_assert_eq(intake_ledger_renew(intake), 0);
    ledger_stats(intake_ledger(intake), &stats);
    cr_assert_eq(stats.open, 0U);
    struct intake_source *source = add(IDENTITY, 1, true);
    cr_assert_not(source->ranks[1].resumes);
}

Test(node_intake_load, there_is_a_bound_on_it)
{
    struct event_stream name = {.worker = 99};

    for (uint32_t i = 1; i < WORKERS_MAX; i++) {
        name.rank = i;
        cr_assert(intake_load(intake, name, i, buf_slice(&image)));
    }
    cr_assert_not(intake_load(intake, name, 0, buf_slice(&image)));
}
