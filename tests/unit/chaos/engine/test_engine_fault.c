#include <criterion/criterion.h>

#include "chaos/engine/engine_fault_internal.h"

static struct engine_faults faults;
static struct engine_fault_orders orders;

static int
order(const char *object)
{
    const char *why = NULL;
    int r = engine_faults_order(&faults, slice_of(object), &orders, &why);

    cr_assert_eq(r != 0, why != NULL);
    return r;
}

static bool
is_served(struct engine_fate fate)
{
    return !fate.hang && fate.fail_status == 0 &&
           fate.die_after_tokens == ENGINE_FAULT_NEVER;
}

Test(chaos_engine_fault, serves_until_told_otherwise)
{
    engine_faults_init(&faults);
    cr_assert_eq(faults.health_status, 200);
    cr_assert(is_served(engine_faults_draw(&faults, false)));
    cr_assert_eq(order("{}"), 0);
    cr_assert(is_served(engine_faults_draw(&faults, false)));
}

Test(chaos_engine_fault, counts_run_out_in_order)
{
    engine_faults_init(&faults);
    cr_assert_eq(order("{\"hang_count\":1,\"fail_status\":503,\"fail_count\":1,"
                       "\"die_after_tokens\":4,\"die_count\":1}"),
                 0);
    cr_assert(engine_faults_draw(&faults, false).hang);
    cr_assert_eq(engine_faults_draw(&faults, false).fail_status, 503);
    cr_assert_eq(engine_faults_draw(&faults, false).die_after_tokens, 4);
    cr_assert(is_served(engine_faults_draw(&faults, false)));
}

Test(chaos_engine_fault, the_greatest_count_never_runs_out)
{
    engine_faults_init(&faults);
    cr_assert_eq(order("{\"fail_count\":4294967295}"), 0);
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(engine_faults_draw(&faults, false).fail_status, 500);
    }
    cr_assert_eq(order("{\"fail_count\":0}"), 0);
    cr_assert(is_served(engine_faults_draw(&faults, false)));
}

Test(chaos_engine_fault, only_marked_requests_fail_by_order)
{
    engine_faults_init(&faults);
    cr_assert_eq(order("{\"marked\":1,\"fail_count\":1}"), 0);
    cr_assert(is_served(engine_faults_draw(&faults, false)));
    cr_assert_eq(engine_faults_draw(&faults, true).fail_status, 500);
    cr_assert(is_served(engine_faults_draw(&faults, true)));
}

Test(chaos_engine_fault, one_bad_order_spoils_all)
{
    engine_faults_init(&faults);
    cr_assert_eq(order("{\"fail_count\":9,\"health\":99}"), ENGINE_FAULT_E_BAD);
    cr_assert_eq(order("{\"fail_count\":9,\"fail_status\":200}"),
                 ENGINE_FAULT_E_BAD);
    cr_assert_eq(order("{\"fail_count\":-1}"), ENGINE_FAULT_E_BAD);
    cr_assert_eq(order("{\"exit\":256}"), ENGINE_FAULT_E_BAD);
    cr_assert(is_served(engine_faults_draw(&faults, false)));
}

Test(chaos_engine_fault, orders_for_the_process_are_handed_out)
{
    engine_faults_init(&faults);
    cr_assert_eq(order("{\"stall_ms\":20,\"speed_percent\":50}"), 0);
    cr_assert_eq(orders.stall_ms, 20);
    cr_assert_eq(orders.speed_percent, 50);
    cr_assert_not(orders.has_exit);
    cr_assert_eq(order("{\"exit\":0}"), 0);
    cr_assert(orders.has_exit);
    cr_assert_eq(orders.stall_ms, 0);
}

Test(chaos_engine_fault, live_events_are_lost_by_count)
{
    engine_faults_init(&faults);
    cr_assert_eq(faults.events, 1);
    cr_assert_not(engine_faults_drop_event(&faults));
    cr_assert_eq(order("{\"event_drop_count\":2}"), 0);
    cr_assert(engine_faults_drop_event(&faults));
    cr_assert(engine_faults_drop_event(&faults));
    cr_assert_not(engine_faults_drop_event(&faults));
}

Test(chaos_engine_fault, a_replay_uses_up_one_of_each_count)
{
    engine_faults_init(&faults);
    cr_assert_eq(order("{\"replay_hole_every\":7,\"replay_hole_count\":1,"
                       "\"replay_noend_count\":2,\"replay_mute_count\":3}"),
                 0);
    struct engine_replay_fate fate = engine_faults_draw_replay(&faults);
    cr_assert(fate.mute && fate.endless);
    cr_assert_eq(fate.hole_every, 7);
    fate = engine_faults_draw_replay(&faults);
    cr_assert(fate.mute && fate.endless);
    cr_assert_eq(fate.hole_every, 0);
    fate = engine_faults_draw_replay(&faults);
    cr_assert(fate.mute && !fate.endless);
    fate = engine_faults_draw_replay(&faults);
    cr_assert_not(fate.mute);
}

Test(chaos_engine_fault, a_stall_with_an_end_begins_at_once)
{
    engine_faults_init(&faults);
    cr_assert_eq(order("{\"events_stall_ms\":5,\"restart\":1}"), 0);
    cr_assert_eq(orders.events_stall_ms, 5);
    cr_assert_eq(orders.restart, 1);
    cr_assert_eq(faults.events_stalled, 1);
    cr_assert_eq(order("{\"events\":2}"), ENGINE_FAULT_E_BAD);
    cr_assert_eq(order("{\"replay_hole_every\":0}"), ENGINE_FAULT_E_BAD);
    cr_assert_eq(faults.events, 1);
}

Test(chaos_engine_fault, shows_itself_as_the_order_that_made_it)
{
    struct buf out;
    struct engine_faults again;

    engine_faults_init(&faults);
    cr_assert_eq(order("{\"health\":500,\"hang_count\":3,\"die_count\":2}"), 0);
    buf_init(&out, 1000);
    engine_faults_show(&faults, &out);
    again = faults;
    engine_faults_init(&faults);
    buf_add(&out, "", 1);
    cr_assert_eq(order(out.ptr), 0);
    cr_assert_eq(faults.health_status, again.health_status);
    cr_assert_eq(faults.hang_count, again.hang_count);
    cr_assert_eq(faults.die_count, again.die_count);
    buf_fini(&out);
}
