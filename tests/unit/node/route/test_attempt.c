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
    attempt_begin(&rig.choice, rig.scratch, &rig.counts);
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
        .groups = {{.block_tokens = 16, .count = 4, .keys = keys}}};
    rig.choice.placed = true;
    rig.choice.best.block_tokens = 16;
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

Test(attempt, blocks_that_are_all_held_are_not_expected)
{
    uint64_t keys[1] = {11};
    struct attempt_prefix prefixes[2];

    rig.scratch->tokens.prompt = (struct token_prompt){
        .tokens = 16,
        .groups_count = 1,
        .groups = {{.block_tokens = 16, .count = 1, .keys = keys}}};
    rig.choice.placed = true;
    rig.choice.best.block_tokens = 16;
    rig.choice.best.held = 1;
    cr_assert_eq(attempt_prefixes(&rig.choice, rig.scratch, false, prefixes),
                 1);
}
