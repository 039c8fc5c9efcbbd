/* What an engine's metrics become on the board. */
#include "fleet_rig.h"
#include "index/base/role.h"

TestSuite(node_fleet_metrics, .init = rig_start, .fini = rig_stop);

static char text[512];

static void
engine_says(unsigned running, unsigned waiting, double usage)
{
    rig.engine[0].metrics = 200;
    rig.engine[0].metrics_body = text;
    (void)snprintf(text, sizeof text,
                   "vllm:num_requests_running %u\n"
                   "vllm:num_requests_waiting %u\n"
                   "vllm:kv_cache_usage_perc %f\n",
                   running, waiting, usage);
}

Test(node_fleet_metrics, become_gauges)
{
    struct fleet_status status;

    engine_says(7, 3, 0.8126);
    uint32_t slot = rig_add(0);
    cr_assert_eq(gauge_read(&rig.board->running[slot]), 7);
    cr_assert_eq(gauge_read(&rig.board->waiting[slot]), 3);
    cr_assert_eq(gauge_read(&rig.board->kv_usage_permille[slot]), 813);
    cr_assert(fleet_status(rig.fleet, slot, &status));
    cr_assert(status.metrics.running.known);
    cr_assert_eq(status.metrics_at_us, rig.now_us);
    engine_says(0, 0, 7.5);
    rig_pass(RIG_S);
    cr_assert_eq(gauge_read(&rig.board->running[slot]), 0);
    cr_assert_eq(gauge_read(&rig.board->kv_usage_permille[slot]), 1000);
}

Test(node_fleet_metrics, load_of_others_counts_when_seen_twice)
{
    role_is_lane();
    struct fleet_lease lease = {0};

    engine_says(10, 5, 0);
    uint32_t slot = rig_add(0);
    cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 0);
    rig_pass(RIG_S);
    cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 15);
    cr_assert(fleet_lease_take(&lease, rig.board, rig_view(), slot));
    rig_pass(RIG_S);
    cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 14);
    engine_says(1, 0, 0);
    rig_pass(RIG_S);
    cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 0);
    engine_says(9, 0, 0); /* ours came or went during the scrape */
    rig_pass(RIG_S);
    cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 0);
    engine_says(1, 0, 0);
    rig_pass(2 * RIG_S);
    cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 0);
    fleet_lease_leave(&lease, rig.board);
}

Test(node_fleet_metrics, load_of_peers_is_not_counted_twice)
{
    uint32_t load[WORKERS_MAX];
    struct worker_set all;

    engine_says(10, 5, 0);
    uint32_t slot = rig_add(0);
    worker_set_clear(&all);
    worker_set_add(&all, slot);
    gauge_set(&rig.board->peers[slot], 12);
    rig_pass(2 * RIG_S);
    cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 3);
    fleet_board_loads(rig.board, &all, load, NULL);
    cr_assert_eq(load[slot], 15);
    gauge_set(&rig.board->peers[slot], 40); /* of a moment that is later */
    rig_pass(2 * RIG_S);
    cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 0);
    gauge_set(&rig.board->peers[slot], 0); /* the peer is gone */
    rig_pass(2 * RIG_S);
    cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 15);
}

Test(node_fleet_metrics, requests_that_ended_during_a_scrape_were_ours)
{
    role_is_lane();
    struct fleet_probed scrape = {.generation = 1,
                                  .probe = FLEET_PROBE_METRICS,
                                  .status = 200,
                                  .failure = "",
                                  .body = SLICE("vllm:num_requests_running 1")};
    uint32_t slot = rig_add(0);

    rig.engine[0].hangs = true;
    for (unsigned i = 0; i < 3; i++) {
        struct fleet_lease lease = {0};
        cr_assert(fleet_lease_take(&lease, rig.board, rig_view(), slot));
        rig_pass(RIG_S); /* the scrape is sent */
        fleet_lease_leave(&lease, rig.board);
        fleet_probed(rig.fleet, &scrape, rig.now_us);
        cr_assert_eq(gauge_read(&rig.board->running[slot]), 1);
        cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 0);
    }
}

Test(node_fleet_metrics, old_numbers_are_forgotten)
{
    engine_says(10, 5, 0.5);
    uint32_t slot = rig_add(0);

    rig_pass(RIG_S);
    rig.engine[0].metrics = 500;
    rig_pass(1800 * RIG_MS);
    cr_assert_eq(gauge_read(&rig.board->running[slot]), 10);
    rig_pass(2 * RIG_S);
    cr_assert_eq(gauge_read(&rig.board->running[slot]), 0);
    cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 0);
    cr_assert_eq(gauge_read(&rig.board->kv_usage_permille[slot]), 0);
    engine_says(2, 0, 0.25);
    rig_pass(2 * RIG_S);
    cr_assert_eq(gauge_read(&rig.board->running[slot]), 2);
    rig.engine[0].health = 0;
    rig_pass(2 * RIG_S);
    cr_assert_eq(gauge_read(&rig.board->running[slot]), 0);
}

Test(node_fleet_metrics, are_looked_for_in_the_other_place_too)
{
    rig.engine[0].metrics = 200;
    rig.engine[0].metrics_body = "trtllm_num_requests_running 4\n";
    rig.engine[1].metrics = 404;
    rig.engine[1].prometheus = 200;
    rig.engine[1].metrics_body = "trtllm_num_requests_running 5\n";
    uint32_t a = rig_add(0);
    uint32_t b = rig_add(1);

    rig_pass(3 * RIG_S);
    cr_assert_eq(gauge_read(&rig.board->running[a]), 4);
    cr_assert_eq(gauge_read(&rig.board->running[b]), 5);
    cr_assert_eq(rig_view()->worker[b]->kind, ENGINE_TRTLLM);
}

Test(node_fleet_metrics, llama_cpp_tells_of_its_slots_where_metrics_are_off)
{
    rig.engine[0].metrics = 501;
    rig.engine[0].slots = 200;
    rig.engine[0].models_body =
        "{\"data\":[{\"id\":\"m\",\"owned_by\":\"llamacpp\"}]}";
    rig.engine[0].metrics_body = "[{\"n_ctx\":4096,\"is_processing\":true},"
                                 "{\"n_ctx\":4096,\"is_processing\":false}]";
    rig.engine[1] = rig.engine[0];
    rig.engine[1].slots = 501;
    rig.engine[1].metrics = 200;
    rig.engine[1].metrics_body = "llamacpp:requests_processing 3\n";
    uint32_t a = rig_add(0);
    uint32_t b = rig_add(1);

    rig_pass(3 * RIG_S);
    cr_assert_eq(rig_view()->worker[a]->kind, ENGINE_LLAMACPP);
    cr_assert_eq(gauge_read(&rig.board->running[a]), 1);
    cr_assert_eq(rig_last(FLEET_CAPACITY_CHANGED)->number, 8192);
    cr_assert_eq(gauge_read(&rig.board->running[b]), 3);
}

Test(node_fleet_metrics, capacity_is_told_once_and_when_it_changes)
{
    rig.engine[0].metrics = 200;
    rig.engine[0].metrics_body = "vllm:cache_config_info{block_size=\"16\","
                                 "num_gpu_blocks=\"1000\"} 1\n";
    (void)rig_add(0);
    rig_pass(5 * RIG_S);
    cr_assert_eq(rig_count(FLEET_CAPACITY_CHANGED), 1);
    cr_assert_eq(rig_last(FLEET_CAPACITY_CHANGED)->number, 16000);
    rig.engine[0].metrics_body = "vllm:cache_config_info{block_size=\"16\","
                                 "num_gpu_blocks=\"500\"} 1\n";
    rig_pass(2 * RIG_S);
    cr_assert_eq(rig_last(FLEET_CAPACITY_CHANGED)->number, 8000);
    cr_assert_eq(rig_count(FLEET_CAPACITY_CHANGED), 2);
}

Test(node_fleet_metrics, a_capacity_that_is_no_number_is_not_told)
{
    rig.engine[0].metrics = 200;
    rig.engine[0].metrics_body =
        "trtllm_kv_cache_tokens_per_block{pool=\"a\"} 1e308\n"
        "trtllm_kv_cache_tokens_per_block{pool=\"b\"} 1e308\n"
        "trtllm_kv_cache_max_blocks 0\n";
    (void)rig_add(0);
    rig_pass(5 * RIG_S);
    cr_assert_eq(rig_count(FLEET_CAPACITY_CHANGED), 0);
}

Test(node_fleet_metrics, a_new_worker_starts_from_nothing)
{
    engine_says(10, 5, 0.5);
    uint32_t slot = rig_add(0);

    rig_pass(2 * RIG_S);
    fleet_remove(rig.fleet, slot, rig.now_us);
    rig_pump();
    fleet_swept(rig.fleet, slot);
    rig_pass(RIG_S);
    rig.engine[1].hangs = true;
    cr_assert_eq(rig_add(1), slot);
    cr_assert_eq(gauge_read(&rig.board->running[slot]), 0);
    cr_assert_eq(gauge_read(&rig.board->foreign[slot]), 0);
}

Test(node_fleet_metrics, an_idle_worker_is_scraped_half_as_often)
{
    uint32_t slot = rig_add(0);
    const uint32_t *scrapes = &rig.probes[0][FLEET_PROBE_METRICS];

    engine_says(1, 0, 0);
    rig_pass(3 * RIG_S);
    uint32_t before = *scrapes;
    rig_pass(20 * RIG_S);
    cr_assert_geq(*scrapes - before, 20);
    engine_says(0, 0, 0);
    rig_pass(3 * RIG_S);
    before = *scrapes;
    rig_pass(20 * RIG_S);
    cr_assert_leq(*scrapes - before, 11);
    cr_assert_geq(*scrapes - before, 9);
    /* Used again: at once, if the last one is long enough ago. */
    before = *scrapes;
    while (*scrapes == before) {
        rig_pass(100 * RIG_MS);
    }
    rig_pass(1200 * RIG_MS);
    cr_assert_eq(*scrapes, before + 1);
    gauge_set(&fleet_board(rig.fleet)->inflight[slot], 1);
    rig_pass(0);
    cr_assert_eq(*scrapes, before + 2);
    gauge_set(&fleet_board(rig.fleet)->inflight[slot], 0);
}

static uint32_t
limit_after(unsigned running, unsigned waiting)
{
    engine_says(running, waiting, 0);
    rig_pass(2 * RIG_S);
    return gauge_read(&rig.board->limit[0]);
}

Test(node_fleet_metrics, a_limit_is_learned_from_what_waits)
{
    fleet_limit(rig.fleet, 0, true);
    engine_says(40, 3, 0);
    cr_assert_eq(rig_add(0), 0);
    cr_assert_eq(limit_after(40, 16), 0); /* enough to be busy, and no more */
    cr_assert_eq(gauge_read(&rig.board->limited), FLEET_UNLIMITED);
    cr_assert_eq(limit_after(40, 200), 40 + 16);
    cr_assert_eq(gauge_read(&rig.board->limited), FLEET_LEARNED);
    cr_assert_eq(limit_after(40, 12), 56);
    cr_assert_geq(limit_after(56, 0), 56 + 14); /* it takes more */
    cr_assert_eq(limit_after(100, 90), 100 + 25);
    cr_assert_eq(limit_after(20, 0), 0);
    cr_assert_eq(gauge_read(&rig.board->limited), FLEET_UNLIMITED);
    cr_assert_eq(limit_after(0, 90), 0); /* it runs nothing: it is no engine's
                                            limit that keeps them */
}

Test(node_fleet_metrics, a_limit_that_is_set_is_not_learned)
{
    fleet_limit(rig.fleet, 8, true);
    engine_says(40, 200, 0);
    cr_assert_eq(rig_add(0), 0);
    cr_assert_eq(limit_after(40, 200), 8);
    cr_assert_eq(gauge_read(&rig.board->limited), FLEET_SET);
    fleet_limit(rig.fleet, 0, false);
    cr_assert_eq(limit_after(40, 200), 0);
    cr_assert_eq(gauge_read(&rig.board->limited), FLEET_UNLIMITED);
}
