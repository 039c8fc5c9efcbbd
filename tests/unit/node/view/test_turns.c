/* Whose workers are whose for a while. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/view/turns.h"

#define NODES   3U
#define WORKERS 8U

static struct fleet_models models;
static struct fleet_view view;
static struct fleet_board *board;
static struct turns turns[NODES];

static void
setup(void)
{
    size_t size = (sizeof(*board) + 63) / 64 * 64;

    board = aligned_alloc(64, size);
    cr_assert_not_null(board);
    memset(board, 0, size);
    view = (struct fleet_view){.version = 1, .models = &models};
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        worker_set_add(&view.present, slot);
        worker_set_add(&view.any_model, slot);
        view.identity[slot] = rng_mix(slot);
    }
}

static void
teardown(void)
{
    free(board);
}

TestSuite(turns, .init = setup, .fini = teardown);

static enum fleet_turn
turn_of(uint32_t number, uint32_t nodes, uint64_t wall_ms,
        struct worker_set *mine)
{
    struct turns_place place = {.number = number, .nodes = nodes};

    worker_set_clear(mine);
    turns_put(&turns[number], &place, &view, wall_ms, board);
    return fleet_board_turn(board, mine);
}

Test(turns, each_worker_is_one_nodes_and_all_have_all_in_time)
{
    uint32_t had[NODES][WORKERS] = {{0}};

    for (uint64_t period = 0; period < 9; period++) {
        struct worker_set all = {{0}};
        uint32_t count = 0;
        for (uint32_t i = 0; i < NODES; i++) {
            struct worker_set mine;
            cr_assert_eq(turn_of(i, NODES, period * TURNS_MS + 17 * i, &mine),
                         FLEET_TURN_HELD);
            cr_assert(worker_set_count(&mine) >= WORKERS / NODES);
            count += worker_set_count(&mine);
            all = worker_set_or(&all, &mine);
            WORKER_SET_EACH (slot, &mine) {
                had[i][slot]++;
            }
        }
        cr_assert_eq(count, WORKERS, "nobody's or two nodes'");
        cr_assert_eq(worker_set_count(&all), WORKERS);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        for (uint32_t slot = 0; slot < WORKERS; slot++) {
            cr_assert_eq(had[i][slot], 3);
        }
    }
}

Test(turns, slots_do_not_matter)
{
    struct worker_set mine;
    struct worker_set other;

    (void)turn_of(0, NODES, 0, &mine);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        view.identity[slot] = rng_mix(WORKERS - 1 - slot);
    }
    view.version++;
    (void)turn_of(0, NODES, 0, &other);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        cr_assert_eq(worker_set_has(&mine, slot),
                     worker_set_has(&other, WORKERS - 1 - slot));
    }
}

Test(turns, models_are_dealt_out_one_by_one)
{
    struct worker_set few = {{0}};
    struct worker_set mine;

    for (uint32_t slot = 0; slot < NODES; slot++) {
        worker_set_add(&few, slot);
        worker_set_remove(&view.any_model, slot);
    }
    struct fleet_model model = {.workers = few};
    models = (struct fleet_models){.count = 1, .model = &model};
    for (uint32_t i = 0; i < NODES; i++) {
        (void)turn_of(i, NODES, 0, &mine);
        mine = worker_set_and(&mine, &few);
        cr_assert_eq(worker_set_count(&mine), 1);
    }
    models = (struct fleet_models){.count = 0};
}

Test(turns, a_node_alone_takes_none)
{
    struct worker_set mine;

    cr_assert_eq(turn_of(0, 2, 0, &mine), FLEET_TURN_HELD);
    cr_assert_eq(turn_of(0, 1, 0, &mine), FLEET_NO_TURN);
    cr_assert_eq(turn_of(0, 2, 0, &mine), FLEET_TURN_HELD);
    cr_assert_eq(worker_set_count(&mine), WORKERS / 2);
}

Test(turns, who_takes_turns_has_moments)
{
    struct worker_set mine;

    (void)turn_of(1, NODES, 0, &mine);
    cr_assert(moment_counts(&board->moment));
    (void)turn_of(0, 1, 0, &mine);
    cr_assert_not(moment_counts(&board->moment));
}

Test(turns, new_prefixes_follow_while_nodes_get_different_ones)
{
    struct worker_set mine;

    for (uint32_t i = 0; i < TURNS_APART; i++) {
        cr_assert_eq(turn_of(0, 2, 0, &mine), FLEET_TURN_HELD);
        turns_heard(&turns[0], false);
    }
    cr_assert_eq(turn_of(0, 2, 0, &mine), FLEET_TURN_ALL);
    turns_heard(&turns[0], false);
    cr_assert_eq(turn_of(0, 2, 0, &mine), FLEET_TURN_ALL);
    turns_heard(&turns[0], true);
    cr_assert_eq(turn_of(0, 2, 0, &mine), FLEET_TURN_HELD);
}
