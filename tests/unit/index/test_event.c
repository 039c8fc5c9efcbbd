/* The words of a record: joined, bounded, checked. */
#include <criterion/criterion.h>

#include "index/index.h"

static struct event_words
words_of(uint64_t *memory, uint32_t max)
{
    return (struct event_words){.words = memory, .max = max};
}

Test(event, one_op_holds_its_keys)
{
    uint64_t memory[8];
    struct event_words out = words_of(memory, 8);
    uint64_t *keys = event_words_add(&out, EVENT_STORE, TIER_HOST, 2);

    cr_assert_eq(keys, memory + 1);
    cr_assert_eq(out.count, 3);
    cr_assert_eq(event_op_kind(memory[0]), EVENT_STORE);
    cr_assert_eq(event_op_tier(memory[0]), TIER_HOST);
    cr_assert_eq(event_op_count(memory[0]), 2);
}

Test(event, equal_ops_in_a_row_are_joined)
{
    uint64_t memory[8];
    struct event_words out = words_of(memory, 8);

    (void)event_words_add(&out, EVENT_STORE, TIER_DEVICE, 2);
    cr_assert_eq(event_words_add(&out, EVENT_STORE, TIER_DEVICE, 1),
                 memory + 3);
    (void)event_words_add(&out, EVENT_STORE, TIER_HOST, 1);
    cr_assert_eq(event_op_count(memory[0]), 3);
    cr_assert_eq(event_op_tier(memory[4]), TIER_HOST);
    cr_assert_eq(out.count, 6);
}

Test(event, two_clears_stay_two)
{
    uint64_t memory[8];
    struct event_words out = words_of(memory, 8);

    (void)event_words_add(&out, EVENT_CLEAR, TIER_DEVICE, 0);
    (void)event_words_add(&out, EVENT_CLEAR, TIER_DEVICE, 0);
    cr_assert_eq(out.count, 2);
    cr_assert(event_check(memory, 2));
}

Test(event, what_does_not_fit_fails_for_good)
{
    uint64_t memory[4];
    struct event_words out = words_of(memory, 4);

    cr_assert_null(event_words_add(&out, EVENT_STORE, TIER_DEVICE, 4));
    cr_assert(out.failed);
    cr_assert_null(event_words_add(&out, EVENT_STORE, TIER_DEVICE, 1));
}

Test(event, check_refuses_what_is_not_an_op)
{
    uint64_t good[] = {event_op(EVENT_STORE, TIER_DISK, 2), 1, 2,
                       event_op(EVENT_CLEAR, TIER_DEVICE, 0)};
    uint64_t kind[] = {event_op(EVENT_KINDS, TIER_DEVICE, 1), 1};
    uint64_t tier[] = {event_op(EVENT_STORE, TIERS, 1), 1};
    uint64_t empty[] = {event_op(EVENT_STORE, TIER_DEVICE, 0)};
    uint64_t unused[] = {event_op(EVENT_CLEAR, TIER_DEVICE, 0) | 1 << 16};
    uint64_t full_clear[] = {event_op(EVENT_CLEAR, TIER_DEVICE, 1), 1};

    cr_assert(event_check(good, 4));
    cr_assert_not(event_check(good, 2), "an op longer than the record");
    cr_assert_not(event_check(kind, 2));
    cr_assert_not(event_check(tier, 2));
    cr_assert_not(event_check(empty, 1));
    cr_assert_not(event_check(unused, 1));
    cr_assert_not(event_check(full_clear, 2));
}
