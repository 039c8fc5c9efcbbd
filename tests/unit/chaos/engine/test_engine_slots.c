#include <criterion/criterion.h>

#include "chaos/engine/engine_slots_internal.h"

static struct engine_slots slots;

/* A request of ids that begin at `first`; how many were cached. */
static uint32_t
run(uint32_t first, uint32_t len)
{
    uint32_t prompt[100];
    uint32_t cached;

    for (uint32_t i = 0; i < len; i++) {
        prompt[i] = first + i;
    }
    uint32_t slot = engine_slots_find(&slots, prompt, len, &cached);
    engine_slots_take(&slots, slot);
    engine_slots_release(&slots, slot, prompt, len);
    return cached;
}

Test(chaos_engine_slots, a_prompt_finds_what_it_has_in_common_token_by_token)
{
    cr_assert_eq(engine_slots_init(&slots, 2), 0);
    cr_assert_eq(run(1, 50), 0);
    cr_assert_eq(run(1, 50), 49);
    cr_assert_eq(run(1, 77), 50);
    cr_assert_eq(run(1, 20), 19);
    cr_assert_eq(run(1, 77), 20); /* the slot had no more */
    engine_slots_fini(&slots);
}

Test(chaos_engine_slots, one_more_conversation_than_slots_pushes_the_oldest_out)
{
    cr_assert_eq(engine_slots_init(&slots, 2), 0);
    cr_assert_eq(run(1000, 50), 0);
    cr_assert_eq(run(2000, 50), 0);
    cr_assert_eq(run(1000, 60), 50);
    cr_assert_eq(run(3000, 50), 0);
    cr_assert_eq(run(1000, 70), 60);
    cr_assert_eq(run(2000, 60), 0);
    engine_slots_fini(&slots);
}

Test(chaos_engine_slots, a_tenth_in_common_is_needed_to_prefer_a_slot)
{
    uint32_t prompt[100];
    uint32_t cached;

    cr_assert_eq(engine_slots_init(&slots, 2), 0);
    cr_assert_eq(run(1000, 50), 0);
    for (uint32_t i = 0; i < 100; i++) {
        prompt[i] = i < 10 ? 1000 + i : 5000 + i;
    }
    cr_assert_eq(engine_slots_find(&slots, prompt, 100, &cached), 1);
    cr_assert_eq(cached, 0);
    cr_assert_eq(engine_slots_find(&slots, prompt, 90, &cached), 0);
    cr_assert_eq(cached, 10);
    engine_slots_fini(&slots);
}

Test(chaos_engine_slots, a_busy_slot_is_nobodys)
{
    uint32_t prompt[] = {1, 2, 3};
    uint32_t cached;

    cr_assert_eq(engine_slots_init(&slots, 2), 0);
    cr_assert_eq(run(1, 50), 0);
    engine_slots_take(&slots, 0);
    cr_assert_eq(engine_slots_find(&slots, prompt, 3, &cached), 1);
    cr_assert_eq(cached, 0);
    engine_slots_release(&slots, 0, prompt, 0);
    engine_slots_fini(&slots);
}
