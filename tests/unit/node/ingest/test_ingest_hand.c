/* Copies of names for sources that go on from them: who is handed one, and when. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "../../gossip/lab.h"
#include "index/base/rng.h"
#include "node/events/intake_internal.h"
#include "node/ingest/ingest_internal.h"
#include "tests/unit/node/events/reader_words.h"

static struct lab lab;
static struct gossip_config config;
static struct ingest *ingest;
static struct ingest_streams *streams;
static struct ingest_rank rank;

/* Node 0 reads batches that store one block each; node 1 knows the names, and its
 * own reading began in the middle. */
static void
setup(void)
{
    role_is_control();
    config = gossip_config_default();
    lab_begin(&lab, &config, 2);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 200; i++) {
        lab_read_named(&lab, 0, i, i, true);
    }
    lab_run(&lab, 500);
    gossip_local_begin(lab.nodes[1].g, lab_stream, 999, false, 0, lab.now_us);
    lab_pull(&lab);

    ingest = calloc(1, sizeof *ingest);
    cr_assert_not_null(ingest);
    ingest->stopped = true; /* no loop is woken */
    streams = &ingest->streams;
    streams->gossip = lab.nodes[1].g;
    rank = (struct ingest_rank){.stream = lab_stream, .hands = true};
    streams->workers[0] = (struct ingest_source){.ranks = 1, .rank = &rank};
}

static void
teardown(void)
{
    role_is_control();
    ingest_hand_forget(streams, &rank);
    intake_free(ingest->intake);
    free(ingest);
    lab_end(&lab);
}

TestSuite(ingest_hand, .init = setup, .fini = teardown);

/* How many copies come to an end, complete or lost, until nothing waits. The bench's
 * reader is no decoder, so its names make no hand. */
static uint32_t
ends(void)
{
    uint32_t count = 0;

    role_is_control();
    for (uint32_t i = 0; i < 10000 && ingest_streams_hands(streams, lab.now_us);
         i++) {
        struct ingest_rank *whose = NULL;
        struct decoder_hand *hand =
            ingest_streams_hand(streams, 1, &whose, lab.now_us);
        cr_assert_null(hand);
        cr_assert(whose == NULL || whose == &rank);
        count += whose != NULL;
    }
    cr_assert_not(ingest_streams_hands(streams, lab.now_us));
    return count;
}

/* A part of the names is copied, and there is more. */
static void
begin_copy(void)
{
    struct ingest_rank *whose = NULL;

    role_is_control();
    cr_assert_null(ingest_streams_hand(streams, 1, &whose, lab.now_us));
    cr_assert_null(whose);
    cr_assert(streams->handed == &rank);
    cr_assert_not(rank.hands);
}

/* The names that are being copied go: those of another process take their
 * place. */
static void
lose_names(void)
{
    begin_copy();
    lab_begin_reading(&lab, 0, 88, true);
    for (uint32_t i = 0; i < 30; i++) {
        lab_read_named(&lab, 0, i, i, true);
    }
    lab_run(&lab, 3000);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 88);
}

Test(ingest_hand, a_source_that_waits_gets_one_copy)
{
    cr_assert_eq(ends(), 1);
}

Test(ingest_hand, a_copy_that_was_lost_is_not_made_again_unasked)
{
    lose_names();
    cr_assert_eq(ends(), 1);
}

/* Gossip asks as soon as there are newer names: before it is seen here that the
 * copy of the old ones is lost. */
Test(ingest_hand, what_is_asked_for_after_a_copy_was_lost_is_copied)
{
    struct ingest_rank *whose = NULL;

    role_is_control();
    lose_names();
    rank.hands = true;
    cr_assert_null(ingest_streams_hand(streams, 1, &whose, lab.now_us));
    cr_assert(whose == &rank, "the old one is lost");
    begin_copy();
    cr_assert_eq(ends(), 1);
}

/* The copy that is under way has the newest names, too. */
Test(ingest_hand, what_is_asked_for_during_a_copy_needs_no_other_one)
{
    begin_copy();
    rank.hands = true;
    cr_assert_eq(ends(), 1);
}

/* ---- the way to the intake ---- */

static struct fleet_worker worker = {.generation = 1};

/* Batch 200 of node 0, which tells what a decoder would: its names make a hand. */
static void
read_as_decoder(void)
{
    uint64_t words[NAMES_READER_MAX];
    uint64_t room[sizeof(struct event_record) / 8 + NAMES_READER_MAX + 16] = {
        0};
    struct event_record *record = (struct event_record *)(void *)room;
    struct names_said said = {.last = 0};

    words_init(&said.words, NAMES_READER_MAX + 8);
    names_say_reader(&said, words, reader_words(77, words));
    record->seq = 200;
    record->names_count = EVENT_NAMED | (uint32_t)said.words.count;
    memcpy(record->words, said.words.word, said.words.count * sizeof *words);
    words_fini(&said.words);
    gossip_local_record(lab.nodes[0].g, lab_stream, record, rng_mix(207), true,
                        lab.now_us);
    lab_run(&lab, 500);
}

/* How many commands wait for the intake, which has none of them any more. */
static uint32_t
take_commands(enum intake_command_kind kind)
{
    const struct intake_command *command;
    uint32_t count = 0;
    size_t size;

    while ((command = ring_peek(&ingest->intake->commands, &size)) != NULL) {
        count += command->kind == kind;
        if (command->kind == INTAKE_HAND) {
            decoder_hand_free(command->hand);
        }
        ring_consume(&ingest->intake->commands);
    }
    return count;
}

static bool
work_until(bool handed)
{
    role_is_control();
    for (uint32_t i = 0; i < 10000; i++) {
        bool more = ingest_hand_work(ingest, lab.now_us);
        if (intake_is_handing(ingest->intake) == handed && !more) {
            return true;
        }
    }
    return false;
}

/* The queue to the intake has no place for it just now. */
Test(ingest_hand, what_the_intake_cannot_be_handed_is_copied_again)
{
    const struct intake_command other = {.kind = INTAKE_REMOVE, .slot = 9};
    struct config node_config;
    uv_async_t wake;

    role_is_control();
    read_as_decoder();
    config_init(&node_config);
    cr_assert_eq(intake_new(&ingest->intake, &node_config, &wake, 1), 0);
    ingest->workers[0].worker = &worker;
    while (intake_send_command(ingest->intake, &other) == 0) {
    }
    cr_assert(work_until(false), "it waits for another turn");
    cr_assert(ingest_streams_hands(streams, lab.now_us));
    lab_run(&lab, 2 * (uint64_t)config.judge_ms);
    cr_assert_gt(take_commands(INTAKE_REMOVE), 0);
    cr_assert(work_until(true));
    cr_assert_not(ingest_streams_hands(streams, lab.now_us));
    cr_assert_eq(take_commands(INTAKE_HAND), 1);
    config_fini(&node_config);
}
