#include <criterion/criterion.h>

#include "index/base/role.h"
#include "node/edge/lane_memory_internal.h"

Test(node_lane_memory, gives_the_same_buffer_again)
{
    role_is_lane();
    struct counter held = {0};
    struct lane_memory memory;
    size_t got;

    lane_memory_init(&memory, &held, 1 << 20);
    char *first = lane_memory_take(&memory, 5000, &got);
    cr_assert_not_null(first);
    cr_assert_eq(got, 8192);
    cr_assert_eq(counter_read(&held), 8192);
    lane_memory_give(&memory, first, got);
    cr_assert_eq(counter_read(&held), 0);
    cr_assert_eq(lane_memory_take(&memory, 8192, &got), first);
    lane_memory_give(&memory, first, got);
    lane_memory_fini(&memory);
}

Test(node_lane_memory, the_bound_holds_over_all_lanes)
{
    role_is_lane();
    struct counter held = {0};
    struct lane_memory one;
    struct lane_memory other;
    size_t got;

    lane_memory_init(&one, &held, 8192);
    lane_memory_init(&other, &held, 8192);
    char *a = lane_memory_take(&one, 1, &got);
    char *b = lane_memory_take(&other, 1, &got);
    cr_assert_not_null(a);
    cr_assert_not_null(b);
    cr_assert_null(lane_memory_take(&one, 1, &got));
    lane_memory_give(&other, b, 4096);
    cr_assert_null(lane_memory_take(&one, 4097, &got));
    char *c = lane_memory_take(&one, 4096, &got);
    cr_assert_not_null(c);
    lane_memory_give(&one, a, 4096);
    lane_memory_give(&one, c, 4096);
    lane_memory_fini(&one);
    lane_memory_fini(&other);
}
