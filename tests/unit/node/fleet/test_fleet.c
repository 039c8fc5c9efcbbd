/* The table: who is there, slots and their reuse, draining, views. */
#include "fleet_rig.h"
#include "index/base/role.h"

TestSuite(node_fleet, .init = rig_start, .fini = rig_stop);

static int
add(unsigned engine, const char *id)
{
    struct config_worker worker = rig_config(engine);

    (void)snprintf(worker.id, sizeof worker.id, "%s", id);
    return fleet_add(rig.fleet, &worker, rig.now_us, NULL);
}

Test(node_fleet, begins_with_an_empty_view)
{
    cr_assert_not_null(rig_view());
    cr_assert_eq(rig_view()->version, 1);
    cr_assert(worker_set_empty(&rig_view()->present));
    cr_assert_eq(rig_view()->models->count, 0);
    cr_assert_eq(fleet_deadline(rig.fleet), UINT64_MAX);
}

Test(node_fleet, a_worker_is_described_in_the_view)
{
    struct config_worker config = rig_config(1);
    uint32_t slot;

    (void)snprintf(config.url.path, sizeof config.url.path, "/base");
    (void)snprintf(config.pool, sizeof config.pool, "short");
    (void)snprintf(config.api_key, sizeof config.api_key, "secret");
    cr_assert_eq(fleet_add(rig.fleet, &config, rig.now_us, &slot), 0);
    rig_pump();
    const struct fleet_worker *worker = rig_view()->worker[slot];
    cr_assert_str_eq(worker->id, "127.0.0.1:8001");
    cr_assert_str_eq(worker->url, "http://127.0.0.1:8001/base");
    cr_assert_str_eq(worker->host_header, "127.0.0.1:8001");
    cr_assert_str_eq(worker->base_path, "/base");
    cr_assert_str_eq(worker->pool, "short");
    cr_assert_str_eq(worker->api_key, "secret");
    cr_assert_eq(worker->slot, slot);
    cr_assert_eq(worker->generation, 1);
    cr_assert_eq(worker->address_len, sizeof(struct sockaddr_in));
    cr_assert_neq(worker->identity, 0);
    cr_assert_eq(rig_view()->identity[slot], worker->identity);
    cr_assert(rig_eligible(slot));
    cr_assert_eq(rig.note[0].event, FLEET_ADDED);
    cr_assert_eq(fleet_find(rig.fleet, SLICE("127.0.0.1:8001")), slot);
    cr_assert_eq(fleet_find(rig.fleet, SLICE("nobody")), WORKER_NONE);
    cr_assert(rig_ends_with(rig.last_target, "/metrics"));
    cr_assert_eq(strncmp(rig.last_target, "/base/", 6), 0);
}

Test(node_fleet, ids_and_urls_are_unique_among_the_present)
{
    cr_assert_eq(add(0, "a"), 0);
    cr_assert_eq(add(1, "a"), FLEET_E_DUPLICATE_ID);
    cr_assert_eq(add(0, "b"), FLEET_E_DUPLICATE_URL);
    cr_assert_eq(add(1, "b"), 0);
    fleet_remove(rig.fleet, 0, rig.now_us);
    cr_assert_eq(add(0, "a"), 0);
    rig_pump();
}

Test(node_fleet, is_bounded)
{
    struct config_worker worker = rig_config(0);

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        (void)snprintf(worker.id, sizeof worker.id, "w%u", i);
        (void)snprintf(worker.url.path, sizeof worker.url.path, "/%u", i);
        cr_assert_eq(fleet_add(rig.fleet, &worker, rig.now_us, NULL), 0);
    }
    (void)snprintf(worker.id, sizeof worker.id, "one more");
    (void)snprintf(worker.url.path, sizeof worker.url.path, "/more");
    cr_assert_eq(fleet_add(rig.fleet, &worker, rig.now_us, NULL), FLEET_E_FULL);
}

Test(node_fleet, removal_is_at_once_for_new_requests)
{
    uint32_t slot = rig_add(0);
    uint64_t version = rig_view()->version;

    fleet_remove(rig.fleet, slot, rig.now_us);
    rig_pump();
    cr_assert_gt(rig_view()->version, version);
    cr_assert_not(worker_set_has(&rig_view()->present, slot));
    cr_assert_null(rig_view()->worker[slot]);
    cr_assert_eq(rig_count(FLEET_REMOVED), 1);
    cr_assert_eq(rig_view()->models->count, 0);
}

/* Adds another worker: does it get the slot? */
static bool
is_reused(uint32_t slot)
{
    static unsigned next = 1;

    rig_pass(RIG_S);
    uint32_t got = rig_add(next++);
    return got == slot;
}

Test(node_fleet, a_slot_is_not_reused_before_it_is_swept)
{
    uint32_t slot = rig_add(0);

    fleet_remove(rig.fleet, slot, rig.now_us);
    struct worker_set unswept = fleet_unswept(rig.fleet);
    cr_assert(worker_set_has(&unswept, slot));
    cr_assert_not(is_reused(slot));
    fleet_swept(rig.fleet, slot);
    unswept = fleet_unswept(rig.fleet);
    cr_assert(worker_set_empty(&unswept));
    cr_assert(is_reused(slot));
    cr_assert_eq(rig_view()->worker[slot]->generation, 2);
}

Test(node_fleet, who_is_replaced_is_removed_first_wherever_the_other_one_is)
{
    uint32_t first = rig_add(0);
    uint32_t slot = rig_add(1);

    fleet_remove(rig.fleet, first, rig.now_us);
    fleet_swept(rig.fleet, first);
    rig_pass(RIG_S);
    fleet_remove(rig.fleet, slot, rig.now_us);
    size_t before = rig.notes;
    cr_assert_eq(rig_add(1), first);
    cr_assert_geq(rig.notes, before + 2);
    cr_assert_eq(rig.note[before].event, FLEET_REMOVED);
    cr_assert_eq(rig.note[before].slot, slot);
    cr_assert_eq(rig.note[before + 1].event, FLEET_ADDED);
    cr_assert_eq(rig.note[before + 1].slot, first);
}

Test(node_fleet, a_slot_is_not_reused_while_requests_run_there)
{
    role_is_lane();
    uint32_t slot = rig_add(0);
    struct fleet_lease lease = {0};

    cr_assert(fleet_lease_take(&lease, rig.board, rig_view(), slot));
    fleet_remove(rig.fleet, slot, rig.now_us);
    rig_pump();
    fleet_swept(rig.fleet, slot);
    cr_assert_not(is_reused(slot));
    fleet_lease_leave(&lease, rig.board);
    cr_assert(is_reused(slot));
}

Test(node_fleet, a_slot_is_not_reused_while_a_reader_may_hold_its_worker)
{
    uint32_t slot = rig_add(0);
    struct qsbr_reader *reader = qsbr_register(&rig.qsbr);

    qsbr_online(&rig.qsbr, reader);
    const struct fleet_worker *held = rig_view()->worker[slot];
    fleet_remove(rig.fleet, slot, rig.now_us);
    rig_pump();
    fleet_swept(rig.fleet, slot);
    cr_assert_not(is_reused(slot));
    cr_assert_str_eq(held->id, "127.0.0.1:8000"); /* not freed: ASan */
    qsbr_offline(reader);
    cr_assert(is_reused(slot));
}

Test(node_fleet, what_names_a_former_worker_of_a_slot_is_ignored)
{
    uint32_t slot = rig_add(0);

    fleet_remove(rig.fleet, slot, rig.now_us);
    rig_pump();
    fleet_swept(rig.fleet, slot);
    rig_pass(RIG_S);
    cr_assert_eq(rig_add(1), slot);
    for (unsigned i = 0; i < 10; i++) {
        fleet_report(rig.fleet, slot, 1, FLEET_TIMED_OUT, rig.now_us);
    }
    struct fleet_probed late = {
        .slot = slot, .generation = 1, .failure = "timeout"};
    fleet_probed(rig.fleet, &late, rig.now_us);
    fleet_resolved(rig.fleet, slot, 1, NULL, 0, rig.now_us);
    rig_pump();
    cr_assert(rig_eligible(slot));
}

Test(node_fleet, a_report_stirs_only_where_it_leaves_work)
{
    uint32_t slot = rig_add(0);

    rig_pass(RIG_S);
    cr_assert_not(fleet_is_stirred(rig.fleet));
    fleet_report(rig.fleet, slot, 1, FLEET_ANSWERED, rig.now_us);
    cr_assert_not(fleet_is_stirred(rig.fleet));
    for (unsigned i = 0; i < 2; i++) {
        fleet_report(rig.fleet, slot, 1, FLEET_ANSWERED_5XX, rig.now_us);
        cr_assert(fleet_is_stirred(rig.fleet)); /* a probe, soon */
        fleet_tick(rig.fleet, rig.now_us);
        cr_assert_not(fleet_is_stirred(rig.fleet));
    }
    for (unsigned i = 0; i < 20; i++) {
        fleet_report(rig.fleet, slot, 1, FLEET_TIMED_OUT, rig.now_us);
    }
    cr_assert(fleet_is_stirred(rig.fleet)); /* the circuit is open */
}

Test(node_fleet, draining_lets_requests_finish)
{
    role_is_lane();
    uint32_t slot = rig_add(0);
    struct fleet_lease lease = {0};

    cr_assert(fleet_lease_take(&lease, rig.board, rig_view(), slot));
    fleet_drain(rig.fleet, slot, rig.now_us);
    rig_pump();
    cr_assert_not(rig_eligible(slot));
    cr_assert(worker_set_has(&rig_view()->draining, slot));
    rig_pass(10 * RIG_S);
    cr_assert_eq(rig_count(FLEET_DRAINED), 0);
    fleet_lease_leave(&lease, rig.board);
    rig_pass(RIG_S);
    cr_assert_eq(rig_count(FLEET_DRAINED), 1);
    rig_pass(10 * RIG_S);
    cr_assert_eq(rig_count(FLEET_DRAINED), 1);
    cr_assert(worker_set_has(&rig_view()->present, slot));
    cr_assert(worker_set_has(&rig_view()->healthy, slot));
}

Test(node_fleet, a_worker_that_does_not_drain_any_more_is_like_any_other)
{
    uint32_t slot = rig_add(0);

    fleet_drain(rig.fleet, slot, rig.now_us);
    fleet_drain(rig.fleet, slot, rig.now_us);
    rig_pass(RIG_S);
    cr_assert_eq(rig_count(FLEET_DRAINING), 1);
    cr_assert_eq(rig_count(FLEET_DRAINED), 1);
    fleet_undrain(rig.fleet, slot, rig.now_us);
    fleet_undrain(rig.fleet, slot, rig.now_us);
    rig_pump();
    cr_assert_eq(rig_count(FLEET_UNDRAINED), 1);
    cr_assert(rig_eligible(slot));
    fleet_drain(rig.fleet, slot, rig.now_us);
    rig_pass(RIG_S);
    cr_assert_not(rig_eligible(slot));
    cr_assert_eq(rig_count(FLEET_DRAINED), 2);
}

Test(node_fleet, nobody_is_drained_while_a_lane_may_still_send)
{
    uint32_t slot = rig_add(0);
    struct qsbr_reader *reader = qsbr_register(&rig.qsbr);

    qsbr_online(&rig.qsbr, reader);
    const struct fleet_view *old = rig_view();
    fleet_drain(rig.fleet, slot, rig.now_us);
    rig_pass(RIG_S);
    cr_assert(worker_set_has(&old->eligible, slot));
    cr_assert_eq(rig_count(FLEET_DRAINED), 0);
    qsbr_offline(reader);
    rig_pass(RIG_S);
    cr_assert_eq(rig_count(FLEET_DRAINED), 1);
}

Test(node_fleet, nothing_changes_when_nothing_happens)
{
    (void)rig_add(0);
    rig_pass(RIG_S);
    uint64_t version = rig_view()->version;
    const struct fleet_worker *worker = rig_view()->worker[0];

    rig_pass(100 * RIG_S);
    cr_assert_eq(rig_view()->version, version);
    cr_assert_eq(rig_view()->worker[0], worker);
    cr_assert_gt(rig.probes[0][FLEET_PROBE_HEALTH], 49);
}

Test(node_fleet, views_share_what_did_not_change)
{
    (void)rig_add(0);
    rig_pass(RIG_S);
    const struct fleet_worker *worker = rig_view()->worker[0];
    const struct fleet_models *models = rig_view()->models;
    uint64_t version = rig_view()->version;

    rig_report(0, FLEET_SEVERED);
    cr_assert_eq(rig_view()->version, version + 1);
    cr_assert_eq(rig_view()->worker[0], worker);
    cr_assert_eq(rig_view()->models, models);
}

Test(node_fleet, status_names_the_state)
{
    struct fleet_status status;
    uint32_t slot = rig_add(0);

    cr_assert(fleet_status(rig.fleet, slot, &status));
    cr_assert_str_eq(status.state, "healthy");
    cr_assert(status.models_known);
    cr_assert_eq(status.models->count, 1);
    for (unsigned i = 0; i < 5; i++) {
        rig_report(slot, FLEET_ANSWERED_5XX);
    }
    cr_assert(fleet_status(rig.fleet, slot, &status));
    cr_assert_str_eq(status.state, "circuit_open");
    rig_pass(5 * RIG_S);
    cr_assert(fleet_status(rig.fleet, slot, &status));
    cr_assert_str_eq(status.state, "circuit_half_open");
    rig.engine[0].health = 0;
    rig_pass(2 * RIG_S);
    cr_assert(fleet_status(rig.fleet, slot, &status));
    cr_assert_str_eq(status.state, "unhealthy");
    cr_assert_str_eq(status.reason, "connect");
    cr_assert_gt(status.probes_failed, 0);
    fleet_drain(rig.fleet, slot, rig.now_us);
    rig_pump();
    cr_assert(fleet_status(rig.fleet, slot, &status));
    cr_assert_str_eq(status.state, "draining");
    rig_pass(RIG_S);
    cr_assert(fleet_status(rig.fleet, slot, &status));
    cr_assert_str_eq(status.state, "drained");
    fleet_remove(rig.fleet, slot, rig.now_us);
    cr_assert_not(fleet_status(rig.fleet, slot, &status));
    rig.engine[1].hangs = true;
    slot = rig_add(1);
    cr_assert(fleet_status(rig.fleet, slot, &status));
    cr_assert_str_eq(status.state, "new");
}

Test(node_fleet, events_have_names)
{
    for (unsigned i = 0; i < FLEET_EVENTS; i++) {
        cr_assert_not_null(fleet_event_name((enum fleet_event)i));
    }
}

Test(node_fleet, a_worker_takes_what_its_longest_model_takes)
{
    rig.engine[0].models_body = "{\"data\":[{\"id\":\"m\"}]}";
    rig.engine[1].models_body =
        "{\"data\":[{\"id\":\"m\",\"max_model_len\":4096},"
        "{\"id\":\"n\",\"max_model_len\":8192}]}";
    rig.engine[2].models_body =
        "{\"data\":[{\"id\":\"m\",\"max_model_len\":null},"
        "{\"id\":\"n\",\"max_model_len\":1.5e3},"
        "{\"id\":\"o\",\"max_model_len\":99999999999999999999}]}";
    uint32_t silent = rig_add(0);
    cr_assert_not(rig_view()->tells_len);
    uint32_t told = rig_add(1);
    cr_assert_eq(rig_view()->same_len, 0);
    uint32_t bad = rig_add(2);

    cr_assert(rig_view()->tells_len);
    cr_assert_eq(rig_view()->max_len[silent], 0);
    cr_assert_eq(rig_view()->max_len[told], 8192);
    cr_assert_eq(rig_view()->max_len[bad], 0);
}

Test(node_fleet, workers_of_one_length_are_known_to_be)
{
    for (uint32_t i = 0; i < 2; i++) {
        rig.engine[i].models_body =
            "{\"data\":[{\"id\":\"m\",\"max_model_len\":4096}]}";
    }
    (void)rig_add(0);
    cr_assert_eq(rig_view()->same_len, 4096);
    (void)rig_add(1);
    cr_assert_eq(rig_view()->same_len, 4096);
    (void)rig_add(2);
    cr_assert_eq(rig_view()->same_len, 0);
}

static uint32_t
round_to(uint32_t slot)
{
    uint32_t round_us[WORKERS_MAX] = {0};

    fleet_rounds(rig.fleet, round_us);
    return round_us[slot];
}

Test(node_fleet, the_shortest_check_lately_is_the_round_trip)
{
    rig.engine[0].check_us = 9000;
    rig.engine[1].health = 503;
    uint32_t slot = rig_add(0);
    uint32_t bad = rig_add(1);

    cr_assert_eq(round_to(slot), 9000);
    rig.engine[0].check_us = 700;
    rig_pass(3 * RIG_S);
    rig.engine[0].check_us = 20000;
    rig_pass(10 * RIG_S);
    cr_assert_eq(round_to(slot), 700);
    rig_pass(200 * RIG_S); /* the way is another one now */
    cr_assert_eq(round_to(slot), 20000);
    cr_assert_eq(round_to(bad), 0, "only good ones count");
}
