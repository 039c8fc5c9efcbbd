#include <criterion/criterion.h>

#include "index/base/role.h"
#include "node/view/fleet_view.h"

static struct fleet_board board;
static struct fleet_view view;
static struct fleet_models models;
static const struct speed_slo any_time[WORKERS_MAX];
static const struct fleet_worker worker_3 = {.slot = 3, .generation = 5};

static void
one_trial_worker(void)
{
    view.models = &models;
    view.worker[3] = &worker_3;
    worker_set_add(&view.present, 3);
    worker_set_add(&view.trial, 3);
    publish_set(&board.view, &view);
}

Test(node_fleet_view, a_model_is_found_among_sorted_names)
{
    static const struct fleet_model list[] = {
        {.name = {.ptr = "a", .len = 1}, .workers = {{1}}},
        {.name = {.ptr = "ab", .len = 2}, .workers = {{2}}},
        {.name = {.ptr = "b", .len = 1}, .workers = {{4}}},
    };

    models = (struct fleet_models){.count = 3, .model = list};
    view.models = &models;
    view.present.word[0] = 0xff;
    view.any_model.word[0] = 0x80;
    cr_assert_eq(fleet_view_find_model(&view, SLICE("a")).word[0], 0x81);
    cr_assert_eq(fleet_view_find_model(&view, SLICE("ab")).word[0], 0x82);
    cr_assert_eq(fleet_view_find_model(&view, SLICE("b")).word[0], 0x84);
    cr_assert_eq(fleet_view_find_model(&view, SLICE("c")).word[0], 0x80);
    cr_assert_eq(fleet_view_find_model(&view, SLICE("")).word[0], 0xff);
    cr_assert_null(fleet_view_model(&view, SLICE("")));
}

Test(node_fleet_view, a_half_open_worker_takes_one_trial_at_a_time)
{
    role_is_lane();
    struct fleet_lease a = {0};
    struct fleet_lease b = {0};

    one_trial_worker();
    struct worker_set may = fleet_view_candidates(&view, &board);
    cr_assert(worker_set_has(&may, 3));
    cr_assert(fleet_lease_take(&a, &board, &view, 3));
    may = fleet_view_candidates(&view, &board);
    cr_assert_not(worker_set_has(&may, 3));
    cr_assert_not(fleet_lease_take(&b, &board, &view, 3));
    cr_assert_eq(gauge_read(&board.inflight[3]), 1);

    fleet_lease_answered(&a, &board); /* its stream goes on */
    cr_assert(fleet_lease_take(&b, &board, &view, 3));
    cr_assert_eq(gauge_read(&board.inflight[3]), 2);
    fleet_lease_answered(&a, &board); /* again: b keeps its trial */
    fleet_lease_leave(&a, &board);
    cr_assert_eq(gauge_read(&board.trial[3]), 1);
    fleet_lease_leave(&b, &board);
    fleet_lease_leave(&b, &board);
    cr_assert_eq(gauge_read(&board.trial[3]), 0);
    cr_assert_eq(gauge_read(&board.inflight[3]), 0);
}

Test(node_fleet_view, a_lease_remembers_whose_it_is)
{
    role_is_lane();
    struct fleet_lease lease = {0};

    one_trial_worker();
    worker_set_clear(&view.trial);
    cr_assert(fleet_lease_take(&lease, &board, fleet_view_get(&board), 3));
    cr_assert_eq(lease.slot, 3);
    cr_assert_eq(lease.generation, 5);
    cr_assert_not(lease.trial);
    fleet_lease_leave(&lease, &board);
}

Test(node_fleet_view, a_prompt_is_queued_until_the_answer_begins)
{
    role_is_lane();
    struct fleet_lease lease = {0};

    view.worker[1] = &worker_3;
    cr_assert(fleet_lease_take(&lease, &board, &view, 1));
    fleet_lease_queue(&lease, &board, 700);
    cr_assert_eq(gauge_read(&board.queued_tokens[1]), 700);
    cr_assert_eq(lease.front_tokens, 700);
    fleet_lease_answered(&lease, &board); /* a head, of a stream */
    cr_assert_eq(gauge_read(&board.queued_tokens[1]), 700);
    fleet_lease_began(&lease, &board);
    cr_assert_eq(gauge_read(&board.queued_tokens[1]), 0);
    fleet_lease_leave(&lease, &board);
    gauge_set(&board.peers_queued_tokens[1], 11);
    cr_assert(fleet_lease_take(&lease, &board, &view, 1));
    fleet_lease_queue(&lease, &board, UINT64_MAX);
    cr_assert_eq(lease.front_tokens, FLEET_QUEUED_MAX + 11);
    cr_assert_eq(gauge_read(&board.queued_tokens[1]), FLEET_QUEUED_MAX);
    fleet_lease_leave(&lease, &board); /* it never answered */
    cr_assert_eq(gauge_read(&board.queued_tokens[1]), 0);
}

Test(node_fleet_view, lanes_learn_who_is_slow)
{
    role_is_control();
    static struct speed speed;
    uint32_t slowness[WORKERS_MAX] = {0};
    struct worker_set set = {{7}};

    view.models = &models;
    view.present = set;
    view.any_model = set;
    fleet_board_speed(&board, &view, &speed, any_time);
    cr_assert_not(fleet_board_slowness(&board, &set, slowness));
    for (uint32_t i = 0; i < 3 * SPEED_COUNT_MAX; i++) {
        speed_add(&speed, i % 3, 1, 2000, i % 3 == 1 ? 600000 : 200000);
    }
    fleet_board_speed(&board, &view, &speed, any_time);
    worker_set_add(&set, 3); /* came since */
    cr_assert(fleet_board_slowness(&board, &set, slowness));
    cr_assert_eq(slowness[0], 1000);
    cr_assert_gt(slowness[1], 2000);
    cr_assert_eq(slowness[3], 1000);
}

Test(node_fleet_view, a_large_models_workers_are_not_slow_beside_a_small_ones)
{
    role_is_control();
    static struct speed speed;
    static const struct fleet_model list[] = {
        {.name = {.ptr = "large", .len = 5}, .workers = {{070}}},
        {.name = {.ptr = "small", .len = 5}, .workers = {{007}}},
    };
    uint32_t slowness[WORKERS_MAX] = {0};

    models = (struct fleet_models){.count = 2, .model = list};
    view.models = &models;
    view.present.word[0] = 077;
    for (uint32_t i = 0; i < 6 * SPEED_COUNT_MAX; i++) {
        uint32_t slot = i % 6;
        uint64_t us = slot >= 3 ? 800000 : 100000;
        speed_add(&speed, slot, 1, 2000, slot == 4 ? 3 * us : us);
    }
    fleet_board_speed(&board, &view, &speed, any_time);
    cr_assert(fleet_board_slowness(&board, &view.present, slowness));
    for (uint32_t slot = 0; slot < 6; slot++) {
        cr_assert(slot == 4 ? slowness[slot] > 2500 : slowness[slot] == 1000,
                  "%u", slowness[slot]);
    }
}

Test(node_fleet_view, lanes_learn_what_each_can_do_in_time)
{
    role_is_control();
    static struct speed speed;
    struct speed_slo slo[WORKERS_MAX] = {{0}};
    uint32_t tokens[WORKERS_MAX];
    uint32_t requests[WORKERS_MAX];
    struct worker_set set = {{7}};

    for (uint32_t i = 0; i < 3; i++) { /* the third has other times */
        slo[i].ttft_us = i < 2 ? 400000 : 200000;
        slo[i].itl_us = i < 2 ? 30000 : 10000;
    }
    view.models = &models;
    view.present = set;
    view.any_model = set;
    fleet_board_speed(&board, &view, &speed, any_time);
    cr_assert_not(fleet_board_slo(&board, &set, tokens, requests));
    for (uint32_t i = 0; i < 3 * SPEED_COUNT_MAX; i++) {
        speed_add(&speed, i % 3, 1, 2000, i % 3 == 1 ? 600000 : 200000);
        speed_add_step(&speed, i % 3, 1, 1 + i / 3 % 2 * 7, 20000);
    }
    fleet_board_speed(&board, &view, &speed, slo);
    cr_assert(fleet_board_slo(&board, &set, tokens, requests));
    cr_assert(tokens[0] > 3700 && tokens[0] < 4300, "%u", tokens[0]);
    cr_assert(tokens[1] < 2000, "%u", tokens[1]);
    cr_assert(tokens[2] > 1800 && tokens[2] < 2200, "%u", tokens[2]);
    cr_assert_eq(requests[0], SPEED_ANY);
    cr_assert_lt(requests[2], 4); /* its steps take 20 ms */
    set.word[0] = UINT64_MAX;     /* those that came since can do nothing yet */
    cr_assert(fleet_board_slo(&board, &set, tokens, requests));
    cr_assert_eq(tokens[3], 0);
    cr_assert_eq(requests[0], SPEED_ANY);
}

Test(node_fleet_view, kin_serve_a_model_in_common)
{
    static const struct fleet_model list[] = {
        {.name = {.ptr = "a", .len = 1}, .workers = {{06}}},
        {.name = {.ptr = "ad", .len = 2}, .workers = {{077}}, .adapter = true},
        {.name = {.ptr = "b", .len = 1}, .workers = {{014}}},
        {.name = {.ptr = "c", .len = 1}, .workers = {{040}}},
    };
    static struct worker_set kin[WORKERS_MAX];

    models = (struct fleet_models){.count = 4, .model = list};
    view.models = &models;
    view.present.word[0] = 0377;
    view.any_model.word[0] = 0300;
    worker_set_add(&kin[9], 9); /* of another time */
    fleet_view_kin(&view, kin);
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        uint64_t want = slot == 0   ? 001
                        : slot == 1 ? 016
                        : slot == 4 ? 020
                        : slot == 5 ? 040
                        : slot == 6 ? 0300
                                    : 0;
        cr_assert_eq(kin[slot].word[0], want, "slot %u", slot);
        cr_assert_eq(kin[slot].word[slot > 63], slot > 63 ? 0 : want);
    }
}

Test(node_fleet_view, load_is_ours_and_that_of_others)
{
    uint32_t load[WORKERS_MAX];
    uint16_t kv_usage[WORKERS_MAX];
    struct worker_set set = {{0}};

    worker_set_add(&set, 1);
    worker_set_add(&set, WORKERS_MAX - 1);
    gauge_add(&board.inflight[1], 3);
    gauge_set(&board.foreign[1], 4);
    gauge_set(&board.peers[1], 20);
    gauge_set(&board.kv_usage_permille[1], 500);
    gauge_add(&board.inflight[WORKERS_MAX - 1], 9);
    fleet_board_loads(&board, &set, load, kv_usage);
    cr_assert_eq(load[1], 27);
    cr_assert_eq(kv_usage[1], 500);
    cr_assert_eq(load[WORKERS_MAX - 1], 9);
    fleet_board_loads(&board, &set, load, NULL);
}

Test(node_fleet_view, sets_with_all_of_64_workers_are_read_like_others)
{
    uint32_t load[WORKERS_MAX];
    uint32_t queued[WORKERS_MAX];
    uint32_t slowness[WORKERS_MAX];
    uint16_t kv_usage[WORKERS_MAX];
    struct worker_set set = {{UINT64_MAX}};

    gauge_set(&board.uneven, 1);
    for (uint32_t slot = 0; slot < 64; slot++) {
        gauge_add(&board.inflight[slot], -7); /* for a moment: counts as none */
        gauge_set(&board.slowness_permille[slot], slot % 4 == 0 ? 0 : 3000);
        gauge_set(&board.kv_usage_permille[slot], (int32_t)slot + 3);
        gauge_set(&board.foreign[slot], (int32_t)slot + 1);
        gauge_set(&board.peers_queued_tokens[slot], (int32_t)slot + 2);
    }
    fleet_board_loads(&board, &set, load, kv_usage);
    fleet_board_queued(&board, &set, queued);
    cr_assert(fleet_board_slowness(&board, &set, slowness));
    for (uint32_t slot = 0; slot < 64; slot++) {
        cr_assert_eq(slowness[slot], slot % 4 == 0 ? 1000 : 3000);
        cr_assert_eq(kv_usage[slot], slot + 3);
        cr_assert_eq(load[slot], slot + 1);
        cr_assert_eq(queued[slot], slot + 2);
    }
}

Test(node_fleet_view, queues_are_ours_and_those_of_peers)
{
    uint32_t queued[WORKERS_MAX];
    struct worker_set set = {{0}};

    worker_set_add(&set, 1);
    gauge_set(&board.queued_tokens[1], 300);
    gauge_set(&board.peers_queued_tokens[1], 50);
    gauge_set(&board.queued_tokens[2], 9);
    fleet_board_queued(&board, &set, queued);
    cr_assert_eq(queued[1], 350);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        worker_set_add(&set, i);
    }
    fleet_board_queued(&board, &set, queued);
    cr_assert_eq(queued[1], 350);
    cr_assert_eq(queued[2], 9);
}

Test(node_fleet_view, engine_kinds_have_names)
{
    cr_assert_str_eq(engine_kind_name(ENGINE_VLLM), "vllm");
    cr_assert_str_eq(engine_kind_name(ENGINE_SGLANG), "sglang");
    cr_assert_str_eq(engine_kind_name(ENGINE_TRTLLM), "trtllm");
    cr_assert_str_eq(engine_kind_name(ENGINE_LLAMACPP), "llamacpp");
    cr_assert_str_eq(engine_kind_name(ENGINE_TGI), "tgi");
    cr_assert_str_eq(engine_kind_name(ENGINE_OTHER), "other");
}
