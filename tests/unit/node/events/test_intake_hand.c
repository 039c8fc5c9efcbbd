/* A rank that goes on from names, piece by piece. */
#include <criterion/criterion.h>

#include "index/base/rng.h"
#include "node/events/intake_internal.h"
#include "tests/unit/node/events/reader_words.h"

#define NAMES 20000U

static struct config config;
static struct intake *intake;
static struct intake_source *source;
static uv_async_t wake;

static void
setup(void)
{
    struct intake_worker worker = {.generation = 1,
                                   .identity = 0x1234,
                                   .ranks = 2,
                                   .events = {.host = "127.0.0.1", .port = 9},
                                   .replay = {.host = "127.0.0.1", .port = 9}};

    config_init(&config);
    cr_assert_eq(intake_new(&intake, &config, &wake, 1), 0);
    cr_assert_eq(intake_add(intake, &worker), 0);
    source = intake->by_slot[0];
}

static void
teardown(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        intake_rank_close(&source->ranks[i]);
    }
    intake_free(intake);
    config_fini(&config);
}

TestSuite(node_intake_hand, .init = setup, .fini = teardown);

static struct decoder_hand *
make_hand(uint32_t count)
{
    struct names table = {.count = 0};
    struct names_room room = {.bytes_max = SIZE_MAX};
    struct names_twin twin;

    for (uint32_t i = 0; i < count; i++) {
        struct names_block block = {.name = rng_mix(i + 1),
                                    .key = rng_mix(~(uint64_t)i),
                                    .parent = rng_mix(~(uint64_t)(i - 1)),
                                    .copies = NAMES_PLAIN,
                                    .has_parent = i % 512 != 0};
        cr_assert_eq(names_fill(&table, &room, &block), 0);
    }
    table.reader_known = true;
    table.reader_count = reader_words(7, table.reader);
    names_twin_init(&twin);
    cr_assert(names_twin_copy(&twin, &table, SIZE_MAX));
    names_clear(&table, &room);
    struct decoder_hand *hand = decoder_hand_new(&twin, 9, 77);
    cr_assert_not_null(hand);
    return hand;
}

/* By control. */
static void
hand_out(uint32_t rank, uint32_t count)
{
    const struct intake_command *command;
    size_t size;

    while (ring_peek(&intake->commands, &size) != NULL) {
        ring_consume(&intake->commands); /* that of the source */
    }
    cr_assert_eq(intake_hand(intake, 0, 1, rank, make_hand(count)), 0);
    cr_assert(intake_is_handing(intake));
    command = ring_peek(&intake->commands, &size);
    struct decoder_hand *hand = command->hand;
    ring_consume(&intake->commands);
    intake->sources = source;
    intake_hand_take(intake, &source->ranks[rank], hand);
}

/* The kind of what was told, or INTAKE_CUT: nothing. */
static uint32_t
told(struct intake_item *item)
{
    size_t size;
    const struct intake_item *next = ring_peek(&intake->items, &size);

    if (next == NULL) {
        return INTAKE_CUT;
    }
    *item = *next;
    ring_consume(&intake->items);
    return item->kind;
}

Test(node_intake_hand, a_rank_goes_on_in_bounded_pieces)
{
    struct intake_rank *rank = &source->ranks[1];
    const struct kv_stream *before = rank->decoder.stream;
    struct intake_item item;
    uint32_t turns = 0;

    hand_out(1, NAMES);
    while (intake_hand_turn(intake) && intake_is_handing(intake)) {
        cr_assert_eq(rank->decoder.stream, before, "it reads on meanwhile");
        cr_assert_eq(told(&item), INTAKE_CUT);
        turns++;
    }
    cr_assert_gt(turns, NAMES / 512, "no turn does it all");
    cr_assert_not(intake_is_handing(intake));
    cr_assert_eq(told(&item), INTAKE_RESUME);
    cr_assert(item.seq == 9 && item.process == 7 && item.whole);
    cr_assert_eq(item.rank, 1);
    cr_assert_eq(
        ledger_blocks(intake->tools.ledger, rank->decoder.ledger_stream),
        NAMES);
}

Test(node_intake_hand, a_reading_that_found_its_beginning_keeps_it)
{
    struct intake_rank *rank = &source->ranks[0];
    const struct kv_stream *before = rank->decoder.stream;
    struct intake_item item;

    hand_out(0, NAMES);
    for (int i = 0; i < 60; i++) {
        cr_assert(intake_hand_turn(intake));
    }
    rank->decoder.whole = true;
    cr_assert_not(intake_hand_turn(intake));
    cr_assert_not(intake_is_handing(intake));
    cr_assert_eq(rank->decoder.stream, before);
    cr_assert_eq(told(&item), INTAKE_CUT);
    while (ledger_work(intake->tools.ledger, 4096)) {
    }
    struct ledger_stats stats;
    ledger_stats(intake->tools.ledger, &stats);
    cr_assert_eq(stats.blocks, 0, "what was filled is given back");
}

Test(node_intake_hand, a_rank_that_is_gone_goes_on_from_nothing)
{
    struct intake_item item;

    hand_out(0, 100);
    cr_assert(intake_hand_turn(intake));
    intake_hand_drop(&source->ranks[1]);
    cr_assert(intake_is_handing(intake));
    intake_hand_drop(&source->ranks[0]);
    cr_assert_not(intake_is_handing(intake));
    cr_assert_not(intake_hand_turn(intake));
    cr_assert_eq(told(&item), INTAKE_CUT);
}

Test(node_intake_hand, with_all_streams_in_use_it_takes_the_place_of_its_own)
{
    struct intake_rank *rank = &source->ranks[0];
    struct ledger *ledger = intake->tools.ledger;
    uint32_t stream;

    cr_assert_eq(ledger_open(ledger, &rank->decoder.ledger_stream), 0);
    rank->decoder.has_ledger = true;
    while (ledger_open(ledger, &stream) == 0) {
    }
    hand_out(0, 1000);
    while (intake_hand_turn(intake)) {
    }
    cr_assert(rank->decoder.has_ledger);
    cr_assert_eq(ledger_blocks(ledger, rank->decoder.ledger_stream), 1000);
}
