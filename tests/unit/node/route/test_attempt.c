/* What an attempt counts while it lasts, and what is told of it. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "index/base/role.h"
#include "node/route/attempt_internal.h"

#define SLOT 3U
#define RANK 5U

struct rig {
    struct fleet_board *board;
    struct gauge rank_inflight[WORKERS_MAX];
    struct attempt_counts counts;
    struct fleet_worker worker;
    struct fleet_view *view;
    struct route_scratch *scratch;
    struct route_choice choice;
};

static struct rig rig;

static void
open_rig(void)
{
    role_is_lane();
    rig.board = aligned_alloc(64, (sizeof *rig.board + 63) / 64 * 64);
    rig.view = calloc(1, sizeof *rig.view);
    rig.scratch = calloc(1, sizeof *rig.scratch);
    cr_assert(rig.board != NULL && rig.view != NULL && rig.scratch != NULL);
    memset(rig.board, 0, sizeof *rig.board);
    rig.worker = (struct fleet_worker){.slot = SLOT, .generation = 7};
    rig.view->worker[SLOT] = &rig.worker;
    rig.counts = (struct attempt_counts){.board = rig.board,
                                         .rank_inflight = rig.rank_inflight};
    rig.scratch->total = 100;
    rig.scratch->tokens.known = true;
    cr_assert(fleet_lease_take(&rig.choice.lease, rig.board, rig.view, SLOT));
    rig.choice.ranked = true;
    rig.choice.best.slot = RANK;
    rig.choice.elect.overlap = 40;
    attempt_begin(&rig.choice, route_unread_tokens(rig.scratch, &rig.choice),
                  &rig.counts);
}

static void
close_rig(void)
{
    free(rig.board);
    free(rig.view);
    free(rig.scratch);
}

TestSuite(attempt, .init = open_rig, .fini = close_rig);

Test(attempt, what_is_to_be_read_and_its_rank_are_counted_from_the_beginning)
{
    cr_assert_eq(gauge_read(&rig.board->inflight[SLOT]), 1);
    cr_assert_eq(gauge_read(&rig.board->queued_tokens[SLOT]), 60);
    cr_assert_eq(gauge_read(&rig.rank_inflight[RANK]), 1);
}

Test(attempt, one_that_ended_leaves_nothing_and_may_end_again)
{
    role_is_lane();
    attempt_end(&rig.choice, &rig.counts);
    attempt_end(&rig.choice, &rig.counts);
    cr_assert_eq(gauge_read(&rig.board->inflight[SLOT]), 0);
    cr_assert_eq(gauge_read(&rig.board->queued_tokens[SLOT]), 0);
    cr_assert_eq(gauge_read(&rig.rank_inflight[RANK]), 0);
}

Test(attempt, one_that_failed_is_not_tried_again_and_counts_against_its_worker)
{
    role_is_lane();
    struct worker_set tried;

    worker_set_clear(&tried);
    attempt_fail(&rig.choice, &rig.counts, &tried, true);
    cr_assert(worker_set_has(&tried, SLOT));
    cr_assert_eq(counter_read(&rig.board->counters[SLOT].failures), 1);
    cr_assert_eq(gauge_read(&rig.board->inflight[SLOT]), 0);
}

Test(attempt, a_fault_of_the_node_itself_is_not_the_workers)
{
    role_is_lane();
    struct worker_set tried;

    worker_set_clear(&tried);
    attempt_fail(&rig.choice, &rig.counts, &tried, false);
    cr_assert(worker_set_has(&tried, SLOT));
    cr_assert_eq(counter_read(&rig.board->counters[SLOT].failures), 0);
}

Test(attempt, blocks_of_tokens_that_are_held_are_not_told)
{
    uint64_t keys[4] = {11, 12, 13, 14};
    struct attempt_prefix prefixes[2];
    uint64_t room[16];
    struct fact_learn *fact = (void *)room;

    rig.scratch->tokens.prompt = (struct token_prompt){
        .tokens = 64,
        .groups_count = 1,
        .groups = {{.grain = 16, .count = 4, .keys = keys}}};
    rig.choice.placed = true;
    rig.choice.best.grain = 16;
    rig.choice.best.held = 3;
    cr_assert_eq(attempt_prefixes(&rig.choice, rig.scratch, false, prefixes),
                 2);
    cr_assert_eq(prefixes[0].kind, FACT_LEARN);
    cr_assert_eq(prefixes[0].count, 0);
    cr_assert_leq(attempt_prefix_size(&prefixes[1]), sizeof room);
    attempt_prefix_write(&prefixes[1], fact);
    cr_assert_eq(fact->kind, FACT_EXPECT);
    cr_assert_eq(fact->slot, RANK);
    cr_assert_eq(fact->owner, SLOT);
    cr_assert_eq(fact->generation, 7);
    cr_assert_eq(fact->count, 1);
    cr_assert_eq(fact->keys[0], 14);
}

Test(attempt, the_end_of_a_prompt_is_told_where_windows_are_kept)
{
    uint64_t keys[4] = {11, 12, 13, 14};
    struct attempt_prefix prefixes[2];
    uint64_t room[16];
    struct fact_learn *fact = (void *)room;

    rig.scratch->tokens.prompt = (struct token_prompt){
        .tokens = 64,
        .whole = true,
        .groups_count = 1,
        .groups = {{.grain = 16, .count = 4, .keys = keys}}};
    rig.choice.placed = true;
    rig.choice.best.grain = 16;
    rig.choice.best.slot = RANK;
    worker_set_add(&rig.scratch->tokens.limited, RANK);
    rig.scratch->tokens.stored[RANK] = 2;
    cr_assert_eq(attempt_prefixes(&rig.choice, rig.scratch, false, prefixes),
                 2);
    cr_assert_eq(attempt_prefix_size(&prefixes[1]),
                 sizeof *fact + 3 * sizeof *keys);
    cr_assert_leq(attempt_prefix_size(&prefixes[1]), sizeof room);
    attempt_prefix_write(&prefixes[1], fact);
    cr_assert_eq(fact->count, 3);
    cr_assert_eq(fact->from, 2);
    cr_assert_eq(fact->keys[1], 14);
    cr_assert_eq(fact->keys[2], key_in_window(13, 0), "14 is computed again");
}

/* What is told of the text of a request: how much of it need not be expected. */
static uint32_t
text_held(bool known, bool placed, uint32_t overlap)
{
    uint64_t keys[4] = {11, 12, 13, 14};
    struct attempt_prefix prefixes[2];
    uint64_t room[16];
    struct fact_learn *fact = (void *)room;

    rig.scratch->blocks.keys = keys;
    rig.scratch->blocks.count = 4;
    rig.scratch->tokens.known = known;
    rig.choice.placed = placed;
    rig.choice.elect.overlap = overlap;
    rig.scratch->tokens.prompt = (struct token_prompt){
        .groups_count = 1, .groups = {{.grain = 16, .count = 0}}};
    rig.choice.best.grain = 16;
    cr_assert_eq(attempt_prefixes(&rig.choice, rig.scratch, true, prefixes), 1);
    attempt_prefix_write(&prefixes[0], fact);
    cr_assert_eq(fact->count, 4);
    return fact->held;
}

Test(attempt, text_is_expected_beyond_what_the_worker_is_known_to_hold)
{
    cr_assert_eq(text_held(false, false, 3), 3);
    cr_assert_eq(text_held(false, false, 9), 4);
}

Test(attempt, an_overlap_of_tokens_is_none_of_text)
{
    cr_assert_eq(text_held(true, false, 3), 0);
}

Test(attempt, text_is_not_expected_where_tokens_are)
{
    cr_assert_eq(text_held(true, true, 3), 4);
}

Test(attempt, blocks_that_are_all_held_are_not_expected)
{
    uint64_t keys[1] = {11};
    struct attempt_prefix prefixes[2];

    rig.scratch->tokens.prompt = (struct token_prompt){
        .tokens = 16,
        .groups_count = 1,
        .groups = {{.grain = 16, .count = 1, .keys = keys}}};
    rig.choice.placed = true;
    rig.choice.best.grain = 16;
    rig.choice.best.held = 1;
    cr_assert_eq(attempt_prefixes(&rig.choice, rig.scratch, false, prefixes),
                 1);
}

Test(attempt, the_kept_keys_of_all_tokens_are_told_in_order)
{
    uint64_t keys[20];
    uint64_t room[3];
    struct attempt_prefix prefix;

    for (uint64_t i = 0; i < 20; i++) {
        keys[i] = 100 + i;
    }
    rig.scratch->tokens.order_keys = room;
    rig.scratch->tokens.depth_max = 20;
    rig.scratch->tokens.longest = 115;
    rig.scratch->tokens.prompt = (struct token_prompt){
        .tokens = 320,
        .groups_count = 1,
        .groups = {{.grain = 16, .count = 20, .keys = keys}}};
    rig.choice.best.grain = 16;
    rig.choice.best.held = 20;
    rig.choice.placed = false;
    cr_assert(!attempt_decided(&rig.choice, rig.scratch, &prefix));
    rig.choice.placed = true;
    cr_assert(attempt_decided(&rig.choice, rig.scratch, &prefix));
    cr_assert_eq(prefix.kind, FACT_DECIDED);
    cr_assert_eq(prefix.slot, RANK);
    cr_assert_eq(prefix.owner, SLOT);
    cr_assert_eq(prefix.ticket, 0);
    cr_assert_eq(prefix.count, 3);
    cr_assert_eq(prefix.keys[2], 115, "the longest that was held");
    cr_assert_eq(prefix.keys[0], 107);
    cr_assert_eq(prefix.keys[1], 115);
    rig.scratch->tokens.order_keys = NULL;
}
