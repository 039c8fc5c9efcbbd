#include <criterion/criterion.h>

#include "index/base/role.h"
#include "node/edge/lane_memory_internal.h"

Test(node_lane_memory, gives_the_same_buffer_again)
{
    role_is_lane();
    struct counter held = {0};
    struct quota_bucket somebody = {0};
    struct lane_memory memory;
    size_t got;

    lane_memory_init(&memory, &held, 1 << 20);
    char *first = lane_memory_take(&memory, &somebody, 5000, &got);
    cr_assert_not_null(first);
    cr_assert_eq(got, 8192);
    cr_assert_eq(counter_read(&held), 8192);
    lane_memory_give(&memory, &somebody, first, got);
    cr_assert_eq(counter_read(&held), 0);
    cr_assert_eq(lane_memory_take(&memory, &somebody, 8192, &got), first);
    lane_memory_give(&memory, &somebody, first, got);
    lane_memory_fini(&memory);
}

Test(node_lane_memory, the_bound_holds_over_all_lanes)
{
    role_is_lane();
    struct counter held = {0};
    struct quota_bucket somebody = {0};
    struct lane_memory one;
    struct lane_memory other;
    size_t got;

    lane_memory_init(&one, &held, 8192);
    lane_memory_init(&other, &held, 8192);
    one.owner_min_bytes = other.owner_min_bytes = 8192;
    char *a = lane_memory_take(&one, &somebody, 1, &got);
    char *b = lane_memory_take(&other, &somebody, 1, &got);
    cr_assert_not_null(a);
    cr_assert_not_null(b);
    cr_assert_null(lane_memory_take(&one, &somebody, 1, &got));
    lane_memory_give(&other, &somebody, b, 4096);
    cr_assert_null(lane_memory_take(&one, &somebody, 4097, &got));
    char *c = lane_memory_take(&one, &somebody, 4096, &got);
    cr_assert_not_null(c);
    lane_memory_give(&one, &somebody, a, 4096);
    lane_memory_give(&one, &somebody, c, 4096);
    lane_memory_fini(&one);
    lane_memory_fini(&other);
}

Test(node_lane_memory, who_holds_as_much_as_is_free_gets_no_more_but_others_do)
{
    role_is_lane();
    struct counter held = {0};
    struct quota_bucket greedy = {0};
    struct quota_bucket modest = {0};
    struct lane_memory memory;
    char *taken[3];
    size_t got;

    lane_memory_init(&memory, &held, 16384);
    taken[0] = lane_memory_take(&memory, &greedy, 4096, &got);
    taken[1] = lane_memory_take(&memory, &greedy, 4096, &got);
    cr_assert_not_null(taken[1]);
    cr_assert_null(lane_memory_take(&memory, &greedy, 4096, &got));
    cr_assert(memory.over_share);
    taken[2] = lane_memory_take(&memory, &modest, 4096, &got);
    cr_assert_not_null(taken[2]);
    lane_memory_give(&memory, &greedy, taken[0], 4096);
    lane_memory_give(&memory, &greedy, taken[1], 4096);
    lane_memory_give(&memory, &modest, taken[2], 4096);
    cr_assert_eq(counter_read(&held), 0);
    cr_assert_eq(counter_read(&greedy.bytes), 0);
    lane_memory_fini(&memory);
}

Test(node_lane_memory, answers_get_an_eighth_more_than_all_else)
{
    role_is_lane();
    struct counter held = {0};
    struct quota_bucket somebody = {0};
    struct quota_bucket other = {0};
    struct lane_memory memory;
    size_t got;

    lane_memory_init(&memory, &held, 32768);
    memory.owner_min_bytes = 32768;
    char *request = lane_memory_take(&memory, &somebody, 32768, &got);
    cr_assert_not_null(request);
    cr_assert_null(lane_memory_take(&memory, &other, 1, &got));
    cr_assert_null(lane_memory_take_out(&memory, &other, 4097, &got));
    char *answer = lane_memory_take_out(&memory, &other, 4096, &got);
    cr_assert_not_null(answer);
    cr_assert_eq(counter_read(&held), 36864);
    cr_assert_null(lane_memory_take_out(&memory, &other, 1, &got));
    lane_memory_give(&memory, &somebody, request, 32768);
    lane_memory_give(&memory, &other, answer, 4096);
    cr_assert_eq(counter_read(&held), 0);
    lane_memory_fini(&memory);
}

Test(node_lane_memory, what_has_no_owner_is_not_charged)
{
    role_is_lane();
    struct counter held = {0};
    struct lane_memory memory;
    size_t got;

    lane_memory_init(&memory, &held, 0);
    char *first = lane_memory_take(&memory, NULL, 16384, &got);
    cr_assert_not_null(first);
    cr_assert_eq(counter_read(&held), 0);
    lane_memory_give(&memory, NULL, first, got);
    lane_memory_fini(&memory);
}
