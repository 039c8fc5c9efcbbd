/* What control makes of a request's text: expected until the answer begins. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "node/control/fact_sink.h"

#define SLOT   4U
#define OTHER  5U
#define BLOCKS 8U
#define ROOT   UINT64_C(77)

static struct fleet_board *board;
static struct fleet_view view = {.version = 1};
static struct fleet_worker workers[2] = {
    {.slot = SLOT, .generation = 3, .identity = 50},
    {.slot = OTHER, .generation = 3, .identity = 51}};
static struct qsbr qsbr;
static struct radix *belief;
static struct mirror *mirror; /* of no stream */
static struct mirror_view mirrors;
static struct publish mirrors_published;
static struct gauge ranks[WORKERS_MAX];
static struct expectations *expected;
static struct hints hints;
static struct unproven unproven;
static struct fact_sink sink;
static uint64_t keys[BLOCKS];

static void
setup(void)
{
    struct radix_limits radix = {
        .bytes_max = (size_t)16 << 20, .namespaces_max = 8, .depth_max = 1024};
    struct expectations_limits limits = {.bytes_max = (size_t)16 << 20,
                                         .ttl_ms = 1000};
    struct hints_world world;

    qsbr_init(&qsbr);
    cr_assert_eq(radix_new(&belief, &radix, &qsbr), 0);
    cr_assert_eq(
        mirror_new(&mirror,
                   &(struct mirror_limits){.bytes_max = (size_t)16 << 20},
                   &qsbr),
        0);
    cr_assert_eq(expectations_new(&expected, &limits, &qsbr), 0);
    board = aligned_alloc(64, (sizeof *board + 63) / 64 * 64);
    cr_assert_not_null(board);
    memset(board, 0, sizeof *board);
    for (uint32_t i = 0; i < 2; i++) {
        view.worker[workers[i].slot] = &workers[i];
        worker_set_add(&view.present, workers[i].slot);
        cr_assert_eq(radix_worker_add(belief, workers[i].slot, 1000, RADIX_LRU),
                     0);
    }
    publish_set(&board->view, &view);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        keys[i] = key_next(ROOT, &i, sizeof i);
    }
    publish_set(&mirrors_published, &mirrors);
    world = (struct hints_world){.board = board,
                                 .belief = belief,
                                 .mirror = mirror,
                                 .mirror_view = &mirrors_published,
                                 .rank_inflight = ranks,
                                 .rank_peers = ranks};
    hints_init(&hints, &world);
    unproven_init(&unproven, 1 << 20);
    sink = (struct fact_sink){.fleet = (struct fleet *)board, /* not used */
                              .board = board,
                              .belief = belief,
                              .expected = expected,
                              .hints = &hints,
                              .unproven = &unproven};
}

static void
teardown(void)
{
    unproven_fini(&unproven);
    expectations_free(expected);
    mirror_free(mirror);
    radix_free(belief);
    free(board);
}

TestSuite(node_fact_sink, .init = setup, .fini = teardown);

/* `count` blocks of the prompt go to a worker that holds `held` of them. */
static void
sent(uint32_t slot, uint64_t ticket, uint32_t count, uint32_t held)
{
    role_is_control();
    struct fact_learn *fact = malloc(sizeof *fact + sizeof keys);

    cr_assert_not_null(fact);
    *fact = (struct fact_learn){.kind = FACT_LEARN,
                                .slot = slot,
                                .generation = 3,
                                .count = count,
                                .held = held,
                                .root = ROOT,
                                .ticket = ticket};
    memcpy(fact->keys, keys, sizeof keys);
    cr_assert_eq(fact_sink_take(&sink, fact, 1000), 0);
    free(fact);
}

static void
settled(uint64_t ticket, bool learned)
{
    role_is_control();
    struct fact_settled fact = {
        .kind = FACT_SETTLED, .learned = learned, .ticket = ticket};

    cr_assert_eq(fact_sink_take(&sink, &fact, 2000), 0);
}

static uint32_t
expected_of(uint32_t slot)
{
    role_is_control();
    return expectations_depth(expected, NULL, slot, keys, BLOCKS);
}

static uint64_t
added(void)
{
    struct expectations_stats stats;

    expectations_stats(expected, &stats);
    return stats.added;
}

static uint32_t
believed_of(uint32_t slot)
{
    struct radix_match match;

    radix_match(belief, ROOT, keys, BLOCKS, &match);
    return worker_set_has(&match.workers, slot) ? match.depth[slot] : 0;
}

Test(node_fact_sink, text_is_expected_until_its_answer_begins)
{
    sent(SLOT, 1, BLOCKS, 0);
    cr_assert_eq(expected_of(SLOT), BLOCKS);
    cr_assert_eq(expected_of(OTHER), 0);
    cr_assert_eq(believed_of(SLOT), 0);
    settled(1, true);
    cr_assert_eq(expected_of(SLOT), 0);
    cr_assert_eq(believed_of(SLOT), BLOCKS);
    cr_assert_not(expectations_any(expected));
}

Test(node_fact_sink, text_of_a_failed_attempt_is_taken_back)
{
    sent(SLOT, 1, BLOCKS, 0);
    settled(1, false);
    cr_assert_eq(expected_of(SLOT), 0);
    cr_assert_eq(believed_of(SLOT), 0);
    cr_assert_not(expectations_any(expected));
}

Test(node_fact_sink, a_failure_at_one_worker_leaves_the_other_s)
{
    sent(SLOT, 1, BLOCKS, 0);
    sent(OTHER, 2, BLOCKS, 0);
    settled(1, false);
    cr_assert_eq(expected_of(SLOT), 0);
    cr_assert_eq(expected_of(OTHER), BLOCKS);
}

Test(node_fact_sink, an_attempt_takes_back_its_own_blocks_only)
{
    sent(SLOT, 1, 3, 0);
    sent(SLOT, 2, BLOCKS, 0); /* five blocks more */
    settled(2, false);
    cr_assert_eq(expected_of(SLOT), 3);
    settled(1, false);
    cr_assert_eq(expected_of(SLOT), 0);
}

Test(node_fact_sink, what_the_worker_holds_is_not_expected)
{
    sent(SLOT, 1, BLOCKS, 0);
    settled(1, true);
    sent(SLOT, 2, BLOCKS, BLOCKS);
    cr_assert_not(expectations_any(expected));
    settled(2, false);
    cr_assert_eq(believed_of(SLOT), BLOCKS);
}

Test(node_fact_sink, nothing_is_expected_of_a_worker_that_went)
{
    role_is_control();
    sent(SLOT, 1, BLOCKS, 0);
    view.worker[SLOT] = NULL;
    worker_set_remove(&view.present, SLOT);
    expectations_gone(expected, SLOT);
    cr_assert_not(expectations_any(expected));
    settled(1, true);
    cr_assert_eq(believed_of(SLOT), 0);
    sent(SLOT, 2, BLOCKS, 0);
    cr_assert_not(expectations_any(expected));
}

Test(node_fact_sink, what_is_settled_in_its_batch_was_never_expected)
{
    role_is_control();
    sink.gathers = true;
    sent(SLOT, 1, 3, 0);
    sent(SLOT, 2, BLOCKS, 0);
    sent(OTHER, 3, BLOCKS, 0);
    settled(1, true);
    settled(3, false);
    fact_sink_expect(&sink, 1000);
    cr_assert_eq(believed_of(SLOT), 3);
    cr_assert_eq(expected_of(SLOT), BLOCKS);
    cr_assert_eq(expected_of(OTHER), 0);
    cr_assert_eq(added(), BLOCKS); /* of 2 */
    fact_sink_expect(&sink, 1000);
    cr_assert_eq(added(), BLOCKS);
    settled(2, false);
    cr_assert_not(expectations_any(expected));
}

Test(node_fact_sink, a_batch_is_expected_in_the_order_in_which_it_was_sent)
{
    role_is_control();
    sink.gathers = true;
    sent(SLOT, 1, 3, 0);
    sent(SLOT, 2, BLOCKS, 0); /* five blocks more */
    cr_assert_not(expectations_any(expected));
    fact_sink_expect(&sink, 1000);
    settled(2, false);
    cr_assert_eq(expected_of(SLOT), 3);
    settled(1, false);
    cr_assert_not(expectations_any(expected));
}

Test(node_fact_sink, a_batch_expects_nothing_of_a_worker_that_went)
{
    role_is_control();
    sink.gathers = true;
    sent(SLOT, 1, BLOCKS, 0);
    view.worker[SLOT] = NULL;
    worker_set_remove(&view.present, SLOT);
    fact_sink_expect(&sink, 1000);
    cr_assert_not(expectations_any(expected));
    settled(1, true);
    cr_assert_eq(believed_of(SLOT), 0);
}

Test(node_fact_sink, what_nobody_settles_is_given_up)
{
    role_is_control();
    sent(SLOT, 1, BLOCKS, 0);
    (void)expectations_work(expected, 100, 1000 + 999999);
    cr_assert_eq(expected_of(SLOT), BLOCKS);
    (void)expectations_work(expected, 100, 1000 + 1000000);
    cr_assert_eq(expected_of(SLOT), 0);
    settled(1, false); /* as late as it may be */
    cr_assert_not(expectations_any(expected));
}
