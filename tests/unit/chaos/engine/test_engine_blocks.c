#include <criterion/criterion.h>

#include "chaos/engine/engine_blocks_internal.h"

static void
must_hold(const struct engine_blocks *pool)
{
    const char *reason;

    cr_assert(engine_blocks_check(pool, &reason), "%s", reason);
}

/* Takes count slots and names them first_key, first_key + 1, ... */
static void
fill(struct engine_blocks *pool, uint64_t first_key, uint32_t count,
     uint32_t *slots)
{
    uint64_t evicted;

    for (uint32_t i = 0; i < count; i++) {
        (void)engine_blocks_take(pool, &slots[i], &evicted);
        engine_blocks_name(pool, slots[i], first_key + i);
    }
}

static uint32_t
matched(const struct engine_blocks *pool, uint64_t first_key, uint32_t count)
{
    uint64_t keys[16];
    uint32_t free_count;

    for (uint32_t i = 0; i < count; i++) {
        keys[i] = first_key + i;
    }
    return engine_blocks_match(pool, keys, count, &free_count);
}

Test(chaos_engine_blocks, a_released_block_can_still_be_hit)
{
    struct engine_blocks pool;
    uint32_t slots[4];
    uint64_t keys[4] = {100, 101, 102, 103};
    uint32_t free_count;

    cr_assert_eq(engine_blocks_init(&pool, 8), 0);
    fill(&pool, 100, 4, slots);
    cr_assert_eq(engine_blocks_match(&pool, keys, 4, &free_count), 4);
    cr_assert_eq(free_count, 0);
    engine_blocks_release(&pool, slots, 4);
    cr_assert_eq(engine_blocks_match(&pool, keys, 4, &free_count), 4);
    cr_assert_eq(free_count, 4);
    cr_assert_eq(pool.free_count, 8);
    must_hold(&pool);
    engine_blocks_fini(&pool);
}

Test(chaos_engine_blocks, the_tail_of_a_chain_is_evicted_before_its_head)
{
    struct engine_blocks pool;
    uint32_t slots[4];
    uint32_t slot;
    uint64_t evicted;

    cr_assert_eq(engine_blocks_init(&pool, 4), 0);
    fill(&pool, 100, 4, slots);
    engine_blocks_release(&pool, slots, 4);
    cr_assert(engine_blocks_take(&pool, &slot, &evicted));
    cr_assert_eq(evicted, 103);
    cr_assert(engine_blocks_take(&pool, &slot, &evicted));
    cr_assert_eq(evicted, 102);
    cr_assert_eq(matched(&pool, 100, 4), 2);
    must_hold(&pool);
    engine_blocks_fini(&pool);
}

Test(chaos_engine_blocks, a_prefix_used_again_outlives_one_that_was_not)
{
    struct engine_blocks pool;
    uint32_t old[2];
    uint32_t young[2];
    uint64_t keys[2] = {100, 101};
    uint32_t slot;
    uint64_t evicted;

    cr_assert_eq(engine_blocks_init(&pool, 4), 0);
    fill(&pool, 100, 2, old);
    engine_blocks_release(&pool, old, 2);
    fill(&pool, 200, 2, young);
    engine_blocks_release(&pool, young, 2);
    engine_blocks_hold(&pool, keys, 2, old);
    engine_blocks_release(&pool, old, 2);
    cr_assert(engine_blocks_take(&pool, &slot, &evicted));
    cr_assert_eq(evicted, 201);
    cr_assert(engine_blocks_take(&pool, &slot, &evicted));
    cr_assert_eq(evicted, 200);
    engine_blocks_fini(&pool);
}

Test(chaos_engine_blocks, blocks_without_a_key_are_reused_first)
{
    struct engine_blocks pool;
    uint32_t slots[2];
    uint32_t partial;
    uint32_t slot;
    uint64_t evicted;

    cr_assert_eq(engine_blocks_init(&pool, 3), 0);
    fill(&pool, 100, 2, slots);
    cr_assert(!engine_blocks_take(&pool, &partial, &evicted));
    engine_blocks_release(&pool, slots, 2);
    engine_blocks_release(&pool, &partial, 1);
    cr_assert(!engine_blocks_take(&pool, &slot, &evicted));
    cr_assert_eq(slot, partial);
    engine_blocks_fini(&pool);
}

Test(chaos_engine_blocks, equal_blocks_are_kept_twice_and_the_oldest_is_hit)
{
    struct engine_blocks pool;
    uint32_t twins[3];
    uint64_t key = 7;
    uint64_t evicted;
    uint32_t slot;

    cr_assert_eq(engine_blocks_init(&pool, 3), 0);
    for (int i = 0; i < 3; i++) {
        (void)engine_blocks_take(&pool, &twins[i], &evicted);
        engine_blocks_name(&pool, twins[i], key);
    }
    cr_assert_eq(pool.cached_count, 3);
    engine_blocks_release(&pool, twins, 3);
    engine_blocks_hold(&pool, &key, 1, &slot);
    cr_assert_eq(slot, twins[0]);
    must_hold(&pool);
    engine_blocks_release(&pool, &slot, 1);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(matched(&pool, 7, 1), 1);
        cr_assert(engine_blocks_take(&pool, &slot, &evicted));
        cr_assert_eq(evicted, 7);
        must_hold(&pool);
    }
    cr_assert_eq(matched(&pool, 7, 1), 0);
    engine_blocks_fini(&pool);
}

Test(chaos_engine_blocks, a_hole_ends_the_match)
{
    struct engine_blocks pool;
    uint32_t slots[3];
    uint64_t keys[5] = {100, 101, 150, 102, 103};
    uint32_t free_count;

    cr_assert_eq(engine_blocks_init(&pool, 8), 0);
    fill(&pool, 100, 3, slots);
    cr_assert_eq(engine_blocks_match(&pool, keys, 5, &free_count), 2);
    engine_blocks_fini(&pool);
}

Test(chaos_engine_blocks, clearing_needs_every_block_free)
{
    struct engine_blocks pool;
    uint32_t slots[2];

    cr_assert_eq(engine_blocks_init(&pool, 4), 0);
    fill(&pool, 100, 2, slots);
    cr_assert(!engine_blocks_clear(&pool));
    cr_assert_eq(matched(&pool, 100, 2), 2);
    engine_blocks_release(&pool, slots, 2);
    cr_assert(engine_blocks_clear(&pool));
    cr_assert_eq(matched(&pool, 100, 2), 0);
    must_hold(&pool);
    engine_blocks_fini(&pool);
}
