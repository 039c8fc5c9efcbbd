/* Health, models, addresses, the circuit breaker: each transition. */
#include "fleet_rig.h"
#include "index/base/role.h"

TestSuite(node_fleet_probe, .init = rig_start, .fini = rig_stop);

Test(node_fleet_probe, a_new_worker_waits_for_its_first_good_probe)
{
    rig.engine[0].health = 0;
    uint32_t slot = rig_add(0);

    cr_assert(worker_set_has(&rig_view()->present, slot));
    cr_assert_not(rig_eligible(slot));
    cr_assert_eq(rig_count(FLEET_DOWN), 1);
    cr_assert_str_eq(rig_last(FLEET_DOWN)->reason, "connect");
    rig_pass(20 * RIG_S);
    cr_assert_eq(rig_count(FLEET_DOWN), 1);
    rig.engine[0].health = 200;
    rig_pass(2 * RIG_S);
    cr_assert(rig_eligible(slot));
}

static bool
is_unchecked(uint32_t slot)
{
    struct worker_set set = fleet_unchecked(rig.fleet);

    return worker_set_has(&set, slot);
}

Test(node_fleet_probe, a_worker_is_unchecked_until_it_is_ready_or_found_wanting)
{
    struct fleet_out out;
    struct config_worker config = rig_config(0);
    struct fleet_probed result = {
        .generation = 1, .status = 200, .failure = ""};

    cr_assert_eq(fleet_add(rig.fleet, &config, rig.now_us, NULL), 0);
    cr_assert(is_unchecked(0));
    while (fleet_next_out(rig.fleet, &out)) {
    }
    fleet_probed(rig.fleet, &result, rig.now_us);
    cr_assert(is_unchecked(0), "it may serve any model, or none that is asked");
    while (fleet_next_out(rig.fleet, &out)) {
    }
    result.probe = FLEET_PROBE_MODELS;
    result.body = SLICE("{\"data\":[{\"id\":\"m\"}]}");
    fleet_probed(rig.fleet, &result, rig.now_us);
    cr_assert_not(is_unchecked(0));
    rig.engine[1].health = 0;
    uint32_t bad = rig_add(1);
    cr_assert_not(is_unchecked(bad));
    fleet_remove(rig.fleet, bad, rig.now_us);
    cr_assert_not(is_unchecked(bad));
}

static bool
is_doubted(uint32_t slot)
{
    return worker_set_has(&rig_view()->suspect, slot);
}

Test(node_fleet_probe, who_is_down_for_a_timeout_alone_is_doubted)
{
    uint32_t slot = rig_add(0);

    cr_assert_not(is_doubted(slot));
    rig.engine[0].silent = true;
    rig_pass(3 * RIG_S);
    cr_assert_not(rig_eligible(slot));
    cr_assert(is_doubted(slot));
    rig.engine[0].silent = false;
    rig.engine[0].health = 0; /* refused: nobody is there */
    rig_pass(3 * RIG_S);
    cr_assert_not(is_doubted(slot));
    rig.engine[0].silent = true;
    rig_pass(3 * RIG_S);
    cr_assert(is_doubted(slot));
    for (unsigned i = 0; i < rig.config.breaker.failures; i++) {
        rig_report(slot, FLEET_CONNECT_FAILED);
    }
    cr_assert_not(is_doubted(slot));
    rig.engine[0].silent = false;
    rig.engine[0].health = 200;
    rig_pass(3 * RIG_S);
    cr_assert(rig_eligible(slot));
    cr_assert_not(is_doubted(slot));
}

Test(node_fleet_probe, who_never_answered_is_not_doubted)
{
    rig.engine[0].silent = true;
    uint32_t slot = rig_add(0);

    rig_pass(3 * RIG_S);
    cr_assert_not(is_doubted(slot));
}

Test(node_fleet_probe, a_new_worker_waits_until_it_was_asked_for_its_models)
{
    struct fleet_out out;
    struct config_worker config = rig_config(0);
    struct fleet_probed ok = {.generation = 1, .status = 200, .failure = ""};
    struct fleet_status status;

    cr_assert_eq(fleet_add(rig.fleet, &config, rig.now_us, NULL), 0);
    while (fleet_next_out(rig.fleet, &out)) {
        if (out.kind == FLEET_OUT_VIEW) {
            cr_assert_eq(fleet_publish(rig.fleet), 0);
        }
    }
    fleet_probed(rig.fleet, &ok, rig.now_us);
    cr_assert_eq(fleet_publish(rig.fleet), 0);
    cr_assert(worker_set_has(&rig_view()->healthy, 0));
    cr_assert_not(rig_eligible(0));
    cr_assert(fleet_status(rig.fleet, 0, &status));
    cr_assert_str_eq(status.state, "new");
    while (fleet_next_out(rig.fleet, &out)) {
    }
    ok.probe = FLEET_PROBE_MODELS;
    ok.body = SLICE("{\"data\":[{\"id\":\"m\"}]}");
    fleet_probed(rig.fleet, &ok, rig.now_us);
    cr_assert_eq(fleet_publish(rig.fleet), 0);
    cr_assert(rig_eligible(0));
    cr_assert(fleet_status(rig.fleet, 0, &status));
    cr_assert_str_eq(status.state, "healthy");
}

Test(node_fleet_probe, down_in_one_interval_and_back_in_one)
{
    uint32_t slot = rig_add(0);

    for (unsigned round = 0; round < 20; round++) {
        rig_pass(round * 317 * RIG_MS);
        cr_assert(rig_eligible(slot));
        rig.engine[0].health = 0;
        rig_pass(2 * RIG_S);
        cr_assert_not(rig_eligible(slot));
        rig.engine[0].health = 200;
        rig_pass(2 * RIG_S);
        cr_assert(rig_eligible(slot));
    }
    cr_assert_eq(rig_count(FLEET_DOWN), 20);
    cr_assert_eq(rig_count(FLEET_UP), 21);
}

Test(node_fleet_probe, silence_is_asked_about_again_before_it_counts)
{
    uint32_t slot = rig_add(0);

    rig_pass(3 * RIG_S);
    uint32_t before = rig.probes[0][FLEET_PROBE_HEALTH];
    rig.engine[0].silent = true;
    rig_pass(2 * RIG_S);
    cr_assert_eq(rig.probes[0][FLEET_PROBE_HEALTH] - before, 3);
    cr_assert_not(rig_eligible(slot));
    cr_assert_str_eq(rig_last(FLEET_DOWN)->reason, "timeout");
}

Test(node_fleet_probe, one_late_check_takes_nobody_out)
{
    uint32_t slot = rig_add(0);

    rig_pass(3 * RIG_S);
    for (unsigned i = 0; i < 20; i++) {
        uint32_t before = rig.probes[0][FLEET_PROBE_HEALTH];
        rig.engine[0].silent_checks = 2;
        rig_pass(4 * RIG_S);
        cr_assert_geq(rig.probes[0][FLEET_PROBE_HEALTH] - before, 4);
        cr_assert(rig_eligible(slot));
    }
    cr_assert_eq(rig_count(FLEET_DOWN), 0);
}

/* Bytes of an answer come from the worker while its checks run. */
static void
hear(uint32_t slot)
{
    fleet_board_heard(rig.board, slot, rig.now_us + RIG_S);
}

Test(node_fleet_probe, whose_answers_flow_is_not_silent)
{
    uint32_t slot = rig_add(0);

    rig_pass(3 * RIG_S);
    rig.engine[0].silent = true;
    for (unsigned i = 0; i < 600; i++) {
        hear(slot);
        rig_pass(RIG_S / 10);
        cr_assert(rig_eligible(slot));
    }
    rig_pass(4 * RIG_S);
    cr_assert_not(rig_eligible(slot), "they have ended");
    hear(slot);
    rig_pass(4 * RIG_S);
    cr_assert_not(rig_eligible(slot), "good checks bring it back");
    rig.engine[0].silent = false;
    rig_pass(2 * RIG_S);
    cr_assert(rig_eligible(slot));
}

Test(node_fleet_probe, answers_of_others_do_not_outweigh_its_own_word)
{
    uint32_t slot = rig_add(0);

    rig_pass(3 * RIG_S);
    rig.engine[0].health = 503;
    hear(slot);
    rig_pass(2 * RIG_S);
    cr_assert_not(rig_eligible(slot));
}

Test(node_fleet_probe, an_answer_of_500_brings_the_next_check_forward)
{
    uint32_t slot = rig_add(0);
    (void)rig_add(1);

    rig_pass(3 * RIG_S);
    rig.engine[0].health = 503; /* its core is dead, its server not yet */
    uint64_t begin = rig.now_us;
    rig_report(slot, FLEET_ANSWERED_5XX);
    rig_pass(200 * RIG_MS);
    cr_assert_not(rig_eligible(slot));
    cr_assert_leq(rig_last(FLEET_DOWN)->at_us - begin, 200 * RIG_MS);
}

Test(node_fleet_probe, more_than_one_success_can_be_asked_for)
{
    rig.config.health.successes = 2;
    rig_stop();
    cr_assert_eq(fleet_new(&rig.fleet, &rig.config, &rig.qsbr), 0);
    rig.board = fleet_board(rig.fleet);
    uint32_t slot = rig_add(0);
    cr_assert_not(rig_eligible(slot));
    rig_pass(2 * RIG_S);
    cr_assert(rig_eligible(slot));
    rig.engine[0].health = 503;
    rig_pass(2 * RIG_S + 1);
    cr_assert_not(rig_eligible(slot), "it says so itself");
    cr_assert_str_eq(rig_last(FLEET_DOWN)->reason, "health status");
    cr_assert_neq(rig_last(FLEET_DOWN)->number, 0);
}

Test(node_fleet_probe, intervals_are_jittered_by_seed_and_never_longer)
{
    uint64_t first[2][32];

    for (unsigned run = 0; run < 2; run++) {
        uint64_t last = rig.now_us;
        (void)rig_add(0);
        for (unsigned i = 0; i < 32; i++) {
            uint32_t before = rig.probes[0][FLEET_PROBE_HEALTH];
            while (rig.probes[0][FLEET_PROBE_HEALTH] == before) {
                rig_pass(10 * RIG_MS);
            }
            uint64_t gap = rig.health_at_us[0] - last;
            cr_assert(gap <= 2 * RIG_S && gap >= 1800 * RIG_MS);
            first[run][i] = gap;
            last = rig.health_at_us[0];
        }
        rig_stop();
        memset(&rig, 0, sizeof rig);
        rig_start();
    }
    cr_assert_eq(memcmp(first[0], first[1], sizeof first[0]), 0);
    cr_assert_neq(first[0][0], first[0][1]);
}

Test(node_fleet_probe, one_probe_of_a_worker_is_in_flight_and_health_goes_first)
{
    rig.engine[0].hangs = true;
    (void)rig_add(0);
    rig_pass(60 * RIG_S);
    cr_assert_eq(rig.probes[0][FLEET_PROBE_HEALTH], 1);
    cr_assert_eq(rig.probes[0][FLEET_PROBE_MODELS], 0);
    cr_assert_eq(rig.probes[0][FLEET_PROBE_METRICS], 0);
}

Test(node_fleet_probe, a_server_without_the_health_path_is_asked_for_its_models)
{
    rig.engine[0].health = 404;
    uint32_t slot = rig_add(0);

    cr_assert(rig_eligible(slot));
    cr_assert_eq(rig_count(FLEET_DOWN), 0);
    rig.engine[0].models = 401; /* guarded, but alive */
    rig_pass(4 * RIG_S);
    cr_assert(rig_eligible(slot));
    rig.engine[0].models = 404;
    rig_pass(4 * RIG_S);
    cr_assert_not(rig_eligible(slot));
    rig.engine[0].health = 200; /* it learned the path */
    rig_pass(4 * RIG_S);
    cr_assert(rig_eligible(slot));
}

Test(node_fleet_probe, sglang_is_asked_for_its_models_and_not_to_generate)
{
    rig.engine[0].health = 503; /* too late, say */
    rig.engine[0].models_body =
        "{\"data\":[{\"id\":\"m\",\"owned_by\":\"sglang\"}]}";
    uint32_t slot = rig_add(0);

    rig_pass(3 * RIG_S);
    cr_assert(rig_eligible(slot));
    rig.engine[0].models = 503;
    rig_pass(3 * RIG_S);
    cr_assert_not(rig_eligible(slot));
}

Test(node_fleet_probe, a_path_that_was_chosen_is_asked_whatever_the_engine_is)
{
    (void)snprintf(rig.config.health.path, sizeof rig.config.health.path,
                   "/ready");
    fleet_free(rig.fleet);
    cr_assert_eq(fleet_new(&rig.fleet, &rig.config, &rig.qsbr), 0);
    rig.board = fleet_board(rig.fleet);
    rig.engine[0].health = 503;
    rig.engine[0].models_body =
        "{\"data\":[{\"id\":\"m\",\"owned_by\":\"sglang\"}]}";
    uint32_t slot = rig_add(0);
    rig_pass(3 * RIG_S);
    cr_assert_not(rig_eligible(slot));
}

Test(node_fleet_probe, a_guarded_health_path_is_not_good)
{
    rig.engine[0].health = 401;
    cr_assert_not(rig_eligible(rig_add(0)));
}

static bool
serves(uint32_t slot, struct slice model)
{
    struct worker_set set = fleet_view_find_model(rig_view(), model);

    return worker_set_has(&set, slot);
}

Test(node_fleet_probe, models_are_who_lists_them_and_who_lists_none)
{
    rig.engine[1].models_body = "{\"data\":[{\"id\":\"other\"},{\"id\":\"m\"},"
                                "{\"id\":\"adapter\"}]}";
    rig.engine[2].models = 404;
    uint32_t a = rig_add(0);
    uint32_t b = rig_add(1);
    uint32_t c = rig_add(2);

    cr_assert_eq(rig_view()->models->count, 3);
    cr_assert(serves(a, SLICE("m")) && serves(b, SLICE("m")));
    cr_assert_not(serves(a, SLICE("adapter")));
    cr_assert(serves(b, SLICE("adapter")));
    cr_assert(serves(c, SLICE("m")) && serves(c, SLICE("anything")));
    cr_assert(worker_set_has(&rig_view()->any_model, c));
    cr_assert(rig_eligible(c));
    cr_assert_eq(rig_count(FLEET_MODELS_CHANGED), 2);
}

Test(node_fleet_probe, an_adapter_is_one_when_all_who_list_it_say_so)
{
    rig.engine[0].models_body = "{\"data\":[{\"id\":\"m\"},"
                                "{\"id\":\"n\",\"parent\":\"m\"},"
                                "{\"id\":\"o\",\"parent\":\"m\"}]}";
    rig.engine[1].models_body = "{\"data\":[{\"id\":\"m\"},{\"id\":\"n\"},"
                                "{\"id\":\"o\",\"parent\":\"m\"}]}";
    (void)rig_add(0);
    const struct fleet_models *models = rig_view()->models;
    cr_assert_eq(models->count, 3);
    cr_assert(!models->model[0].adapter && models->model[1].adapter);
    (void)rig_add(1);
    models = rig_view()->models;
    cr_assert_eq(models->count, 3);
    cr_assert(!models->model[0].adapter && !models->model[1].adapter);
    cr_assert(models->model[2].adapter);
}

#define ADAPTER(owner)                         \
    "{\"data\":[{\"id\":\"b\"},{\"id\":\"a\"," \
    "\"parent\":\"b\",\"owned_by\":\"" owner "\"}]}"

Test(node_fleet_probe,
     a_name_is_an_adapters_if_one_of_those_who_list_it_says_so)
{
    rig.engine[0].models_body = ADAPTER("sglang");
    rig.engine[1].models_body = ADAPTER("vllm");
    (void)rig_add(0);
    cr_assert_eq(fleet_view_adapter(rig_view(), SLICE("a")).len, 0);
    cr_assert(
        slice_equal(fleet_view_adapter(rig_view(), SLICE("b:a")), SLICE("a")));
    (void)rig_add(1);
    cr_assert(
        slice_equal(fleet_view_adapter(rig_view(), SLICE("a")), SLICE("a")));
}

Test(node_fleet_probe, a_changed_list_is_seen_and_a_lost_one_is_kept)
{
    uint32_t slot = rig_add(0);

    rig.engine[0].models_body = "{\"data\":[{\"id\":\"new\"}]}";
    rig_pass(30 * RIG_S);
    cr_assert(serves(slot, SLICE("new")));
    cr_assert_not(serves(slot, SLICE("m")));
    rig.engine[0].models = 500;
    rig_pass(60 * RIG_S);
    cr_assert(serves(slot, SLICE("new")));
    cr_assert_not(serves(slot, SLICE("m")));
    cr_assert_eq(rig_count(FLEET_MODELS_CHANGED), 2);
}

Test(node_fleet_probe, a_worker_that_came_back_is_asked_again)
{
    uint32_t slot = rig_add(0);

    rig.engine[0].health = 0;
    rig_pass(2 * RIG_S);
    rig.engine[0].health = 200;
    rig.engine[0].models_body = "{\"data\":[{\"id\":\"new\"}]}";
    rig_pass(2 * RIG_S);
    cr_assert(serves(slot, SLICE("new")));
}

Test(node_fleet_probe, kinds_are_recognised)
{
    rig.engine[1].models_body =
        "{\"data\":[{\"id\":\"m\",\"owned_by\":\"sglang\"}]}";
    rig.engine[2].models_body = "{\"data\":[{\"id\":\"m\"}]}";
    rig.engine[2].metrics = 200;
    rig.engine[2].metrics_body = "vllm:num_requests_running 1\n";
    rig.engine[3].models_body = "{\"data\":[{\"id\":\"m\"}]}";
    for (unsigned i = 0; i < 4; i++) {
        (void)rig_add(i);
    }
    cr_assert_eq(rig_view()->worker[0]->kind, ENGINE_VLLM);
    cr_assert_eq(rig_view()->worker[1]->kind, ENGINE_SGLANG);
    cr_assert_eq(rig_view()->worker[2]->kind, ENGINE_VLLM);
    cr_assert_eq(rig_view()->worker[3]->kind, ENGINE_OTHER);
    cr_assert_eq(rig_count(FLEET_RECOGNISED), 3);
}

static uint32_t
add_named(void)
{
    struct config_worker config = rig_config(0);
    uint32_t slot;

    (void)snprintf(config.url.host, sizeof config.url.host, "engine.local");
    cr_assert_eq(fleet_add(rig.fleet, &config, rig.now_us, &slot), 0);
    rig_pump();
    return slot;
}

Test(node_fleet_probe, a_name_is_resolved_before_anything_else)
{
    rig.address[0] = 0x7f000001;
    uint32_t slot = add_named();

    cr_assert(rig_eligible(slot));
    const struct fleet_worker *worker = rig_view()->worker[slot];
    cr_assert_eq(worker->address_len, sizeof(struct sockaddr_in));
    cr_assert_str_eq(worker->host_header, "engine.local:8000");
    cr_assert_eq(rig_count(FLEET_ADDRESS_CHANGED), 0);
}

Test(node_fleet_probe, a_name_without_an_address_is_unhealthy_until_it_has_one)
{
    struct fleet_status status;
    uint32_t slot = add_named();

    cr_assert_not(rig_eligible(slot));
    cr_assert_eq(rig.probes[0][FLEET_PROBE_HEALTH], 0);
    cr_assert_str_eq(rig_last(FLEET_DOWN)->reason, "name not resolved");
    cr_assert(fleet_status(rig.fleet, slot, &status));
    cr_assert_str_eq(status.state, "unhealthy");
    rig_pass(10 * RIG_S);
    cr_assert_eq(rig_count(FLEET_DOWN), 1);
    rig.address[0] = 0x7f000001;
    rig_pass(2 * RIG_S);
    cr_assert(rig_eligible(slot));
}

Test(node_fleet_probe, a_name_with_a_denied_address_is_unhealthy)
{
    rig.address[0] = 0xA9FEA9FE;
    uint32_t slot = add_named();

    cr_assert_not(rig_eligible(slot));
    cr_assert_eq(rig.probes[0][FLEET_PROBE_HEALTH], 0);
    cr_assert_str_eq(rig_last(FLEET_DOWN)->reason,
                     "address denied by workers.deny");
    rig.address[1] = 0x7f000001; /* of two, the other one is taken */
    rig_pass(2 * RIG_S);
    cr_assert(rig_eligible(slot));
}

Test(node_fleet_probe, a_denied_address_is_added_by_nobody)
{
    struct config_worker worker = rig_config(0);

    (void)strcpy(worker.url.host, "169.254.169.254");
    cr_assert_eq(fleet_add(rig.fleet, &worker, rig.now_us, NULL),
                 FLEET_E_DENIED);
    (void)strcpy(worker.url.host, "::ffff:169.254.169.254");
    cr_assert_eq(fleet_add(rig.fleet, &worker, rig.now_us, NULL),
                 FLEET_E_DENIED);
    (void)strcpy(worker.url.host, "10.0.0.1");
    (void)strcpy(worker.events.host, "169.254.1.1");
    cr_assert_eq(fleet_add(rig.fleet, &worker, rig.now_us, NULL),
                 FLEET_E_DENIED);
    worker.events.host[0] = '\0';
    cr_assert_eq(fleet_add(rig.fleet, &worker, rig.now_us, NULL), 0);
}

Test(node_fleet_probe, a_moved_worker_is_found_and_keeps_its_slot)
{
    rig.address[0] = 0x7f000001;
    uint32_t slot = add_named();

    rig.address[0] = 0x7f000002;
    rig.engine[0].health = 0;
    rig_pass(2 * RIG_S);
    cr_assert_eq(rig_count(FLEET_ADDRESS_CHANGED), 1);
    const struct sockaddr_in *in =
        (const void *)&rig_view()->worker[slot]->address;
    cr_assert_eq(in->sin_addr.s_addr, htonl(0x7f000002));
    cr_assert_eq(rig_view()->worker[slot]->generation, 1);
    rig.address[0] = 0; /* the last address still does */
    rig.engine[0].health = 200;
    rig_pass(60 * RIG_S);
    cr_assert(rig_eligible(slot));
}

Test(node_fleet_probe, every_address_is_tried_before_a_worker_is_called_down)
{
    rig.address[0] = rig.dead = 0x7f000001;
    rig.address[1] = 0x7f000002;
    uint32_t slot = add_named();

    cr_assert(rig_eligible(slot));
    cr_assert_eq(rig_count(FLEET_DOWN), 0);
    const struct sockaddr_in *in =
        (const void *)&rig_view()->worker[slot]->address;
    cr_assert_eq(in->sin_addr.s_addr, htonl(0x7f000002));
    rig_pass(100 * RIG_S); /* and the one that answers is kept */
    cr_assert_eq(rig_count(FLEET_ADDRESS_CHANGED), 1);
    cr_assert_eq(rig_count(FLEET_DOWN), 0);
}

Test(node_fleet_probe, dead_addresses_are_tried_in_turn_without_a_storm)
{
    rig.address[0] = 0x7f000001;
    rig.address[1] = 0x7f000002;
    rig.engine[0].health = 0;
    uint32_t slot = add_named();

    cr_assert_eq(rig_count(FLEET_DOWN), 1);
    cr_assert_eq(rig.probes[0][FLEET_PROBE_HEALTH], 2);
    rig_pass(20 * RIG_S);
    cr_assert_leq(rig.probes[0][FLEET_PROBE_HEALTH], 2 + 12);
    cr_assert_leq(rig.lookups, 4 + 12);
    cr_assert_eq(rig_count(FLEET_DOWN), 1);
    rig.engine[0].health = 200;
    rig.dead = 0x7f000001;
    rig_pass(4 * RIG_S);
    cr_assert(rig_eligible(slot));
}

Test(node_fleet_probe, failures_of_requests_open_the_circuit)
{
    static const enum fleet_result failing[] = {
        FLEET_CONNECT_FAILED, FLEET_TIMED_OUT, FLEET_SEVERED,
        FLEET_ANSWERED_5XX, FLEET_ANSWERED_5XX};
    uint32_t slot = rig_add(0);

    for (unsigned i = 0; i < 4; i++) {
        rig_report(slot, failing[i]);
        cr_assert(rig_eligible(slot));
        cr_assert(worker_set_has(&rig_view()->watched, slot));
    }
    rig_report(slot, FLEET_ANSWERED);
    cr_assert_not(worker_set_has(&rig_view()->watched, slot));
    for (unsigned i = 0; i < 5; i++) {
        cr_assert(rig_eligible(slot));
        rig_report(slot, failing[i]);
    }
    cr_assert_not(rig_eligible(slot));
    cr_assert(worker_set_has(&rig_view()->open, slot));
    cr_assert(worker_set_has(&rig_view()->healthy, slot));
    cr_assert_eq(rig_last(FLEET_CIRCUIT_OPEN)->number, 5000);
}

static uint32_t
half_open_worker(void)
{
    uint32_t slot = rig_add(0);

    for (unsigned i = 0; i < 5; i++) {
        rig_report(slot, FLEET_ANSWERED_5XX);
    }
    rig_pass(5 * RIG_S - 1);
    cr_assert(worker_set_has(&rig_view()->open, slot));
    rig_pass(1);
    cr_assert(worker_set_has(&rig_view()->trial, slot));
    cr_assert_not(rig_eligible(slot));
    return slot;
}

/* So many requests went there, and so many of them failed, in the window that
 * failures are compared over. */
static void
note_requests(uint32_t slot, uint32_t sent, uint32_t failed)
{
    counter_add(&rig.board->counters[slot].requests, sent);
    counter_add(&rig.board->counters[slot].failures, failed);
}

static void
fail_in_a_row(uint32_t slot, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        rig_report(slot, FLEET_SEVERED);
    }
}

Test(node_fleet_probe, what_fails_everywhere_opens_no_circuit)
{
    uint32_t slots[4];

    for (unsigned i = 0; i < 4; i++) {
        slots[i] = rig_add(i);
        note_requests(slots[i], 40, 30);
    }
    for (unsigned i = 0; i < 4; i++) {
        fail_in_a_row(slots[i], 50);
        cr_assert(rig_eligible(slots[i]));
    }
    note_requests(slots[1], 200, 0); /* but this one is well */
    fail_in_a_row(slots[0], 1);
    cr_assert_not(rig_eligible(slots[0]));
}

Test(node_fleet_probe, at_most_half_of_the_circuits_are_open)
{
    unsigned open = 0;
    uint32_t slots[5];

    for (unsigned i = 0; i < 5; i++) {
        slots[i] = rig_add(i);
    }
    for (unsigned i = 0; i < 5; i++) {
        note_requests(slots[4], 100, 0);
        note_requests(slots[i], 10, 10);
        fail_in_a_row(slots[i], 20);
        open += worker_set_has(&rig_view()->ejected, slots[i]);
    }
    cr_assert_eq(open, 2);
}

Test(node_fleet_probe, one_failure_is_enough_where_a_peer_opened_its_circuit)
{
    uint32_t slot = rig_add(0);

    gauge_set(&rig.board->peers_open[slot], 1);
    cr_assert(rig_eligible(slot)); /* a peer's word alone is not */
    rig_report(slot, FLEET_CONNECT_FAILED);
    cr_assert_not(rig_eligible(slot));
}

Test(node_fleet_probe, old_failures_are_not_compared)
{
    uint32_t bad = rig_add(0);
    uint32_t good = rig_add(1);

    note_requests(bad, 1000, 0);
    note_requests(good, 1000, 1000);
    rig_pass(30 * RIG_S);
    note_requests(bad, 10, 10);
    note_requests(good, 10, 0);
    fail_in_a_row(bad, 5);
    cr_assert_not(rig_eligible(bad));
}

Test(node_fleet_probe, trials_close_the_circuit)
{
    role_is_lane();
    uint32_t slot = half_open_worker();

    for (unsigned i = 0; i < 2; i++) {
        struct fleet_lease lease = {0};
        struct fleet_lease other = {0};
        cr_assert(fleet_lease_take(&lease, rig.board, rig_view(), slot));
        cr_assert_not(fleet_lease_take(&other, rig.board, rig_view(), slot));
        fleet_lease_leave(&lease, rig.board);
        rig_report(slot, FLEET_ANSWERED);
    }
    cr_assert(rig_eligible(slot));
    cr_assert_not(worker_set_has(&rig_view()->trial, slot));
    cr_assert_eq(rig_count(FLEET_CIRCUIT_CLOSED), 1);
}

Test(node_fleet_probe, a_failed_trial_opens_the_circuit_for_longer)
{
    uint32_t slot = half_open_worker();

    rig_report(slot, FLEET_TIMED_OUT);
    cr_assert(worker_set_has(&rig_view()->open, slot));
    cr_assert_eq(rig_last(FLEET_CIRCUIT_OPEN)->number, 10000);
    rig_pass(9 * RIG_S);
    cr_assert(worker_set_has(&rig_view()->open, slot));
    rig_pass(RIG_S);
    cr_assert(worker_set_has(&rig_view()->trial, slot));
}

Test(node_fleet_probe, a_restarted_engine_is_back_within_an_interval)
{
    uint32_t slot = rig_add(0);

    rig.engine[0].health = 0;
    for (unsigned i = 0; i < 5; i++) {
        rig_report(slot, FLEET_CONNECT_FAILED);
    }
    rig_pass(2 * RIG_S);
    cr_assert(worker_set_has(&rig_view()->open, slot));
    cr_assert_not(worker_set_has(&rig_view()->healthy, slot));
    rig.engine[0].health = 200;
    rig_pass(2 * RIG_S);
    cr_assert(rig_eligible(slot));
}

Test(node_fleet_probe, a_connect_failure_brings_the_next_probe_forward)
{
    uint32_t slot = rig_add(0);

    rig_pass(1000 * RIG_MS);
    rig.engine[0].health = 0;
    rig_report(slot, FLEET_CONNECT_FAILED);
    cr_assert_not(rig_eligible(slot));
    uint32_t probes = rig.probes[0][FLEET_PROBE_HEALTH];
    for (unsigned i = 0; i < 100; i++) { /* but not to a storm */
        rig_report(slot, FLEET_CONNECT_FAILED);
    }
    cr_assert_eq(rig.probes[0][FLEET_PROBE_HEALTH], probes);
    rig_pass(200 * RIG_MS);
    cr_assert_eq(rig.probes[0][FLEET_PROBE_HEALTH], probes + 1);
}

Test(node_fleet_probe, a_good_worker_is_asked_for_a_connection_each_fourth_time)
{
    (void)rig_add(0);
    uint32_t fresh = rig.fresh[0];
    uint32_t before = rig.probes[0][FLEET_PROBE_HEALTH];

    rig_pass(100 * RIG_S);
    uint32_t checks = rig.probes[0][FLEET_PROBE_HEALTH] - before;
    cr_assert_geq(checks, 48);
    fresh = rig.fresh[0] - fresh;
    cr_assert(fresh * 4 <= checks + 4 && fresh * 4 + 4 >= checks, "%u of %u",
              fresh, checks);
}

Test(node_fleet_probe, one_in_doubt_is_asked_for_a_connection_each_time)
{
    (void)rig_add(0);
    rig_pass(3 * RIG_S);
    rig.engine[0].health = 0;
    rig_pass(3 * RIG_S);
    uint32_t fresh = rig.fresh[0];
    uint32_t before = rig.probes[0][FLEET_PROBE_HEALTH];
    rig_pass(20 * RIG_S);
    cr_assert_gt(rig.probes[0][FLEET_PROBE_HEALTH], before);
    cr_assert_eq(rig.fresh[0] - fresh,
                 rig.probes[0][FLEET_PROBE_HEALTH] - before);
}

Test(node_fleet_probe, checks_of_several_workers_fall_together)
{
    uint32_t moments = 0;
    uint32_t before = 0;
    uint32_t after = 0;

    for (unsigned i = 0; i < RIG_ENGINES; i++) {
        (void)rig_add(i);
        rig_pass(37 * RIG_MS);
    }
    rig_pass(10 * RIG_S);
    for (unsigned i = 0; i < RIG_ENGINES; i++) {
        before += rig.probes[i][FLEET_PROBE_HEALTH];
    }
    for (uint64_t end = rig.now_us + 100 * RIG_S; rig.now_us < end;) {
        uint64_t at = fleet_deadline(rig.fleet);
        moments += at % (25 * RIG_MS) != 0;
        rig_pass(at - rig.now_us);
    }
    for (unsigned i = 0; i < RIG_ENGINES; i++) {
        after += rig.probes[i][FLEET_PROBE_HEALTH];
    }
    cr_assert_gt(after - before, 49 * RIG_ENGINES);
    cr_assert_eq(moments, 0, "%u beside the grid", moments);
}
