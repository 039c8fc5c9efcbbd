/* The bound by hand, and above what any replay finds. */
#include "index/base/rng.h"
#include "tests/unit/chaos/replay/load_rig.h"

#define BLOCK 16U

TestSuite(chaos_replay_bound, .init = setup, .fini = teardown);

/* A prompt of two blocks and one token, answered by one token. */
static void
ask(uint64_t text)
{
    struct replay_request request = {
        .after = REPLAY_NONE, .output_tokens = 1, .answer = rng_mix(text)};

    cr_assert_eq(replay_load_run(&load, text, 0, 2 * BLOCK + 1), 0);
    cr_assert_eq(replay_load_add(&load, &request, NULL), 0);
}

/* Blocks that are found, of a cache of so many. */
static uint32_t
found(uint64_t blocks)
{
    struct replay_bounds bounds;

    cr_assert_eq(replay_bound(&load, BLOCK, blocks, &bounds), 0);
    return (bounds.share * load.count * (2 * BLOCK + 1) + 5000 * BLOCK) /
           (10000 * BLOCK);
}

Test(chaos_replay_bound, without_room_nothing_is_found)
{
    ask(1);
    ask(1);
    cr_assert_eq(found(0), 0);
    cr_assert_eq(found(1), 1);
    cr_assert_eq(found(2), 2);
}

/* Least recently used finds nothing of A B C A B C in two prompts' memory;
 * who knows the future keeps A and B, or A and then C. */
Test(chaos_replay_bound, what_is_wanted_last_gives_way)
{
    for (uint64_t i = 0; i < 6; i++) {
        ask(i % 3);
    }
    cr_assert_eq(found(6), 6);
    cr_assert_eq(found(4), 4);
    cr_assert_eq(found(2), 2);
}

Test(chaos_replay_bound, what_never_comes_again_takes_no_room)
{
    ask(1);
    for (uint64_t i = 2; i < 50; i++) {
        ask(i);
    }
    ask(1);
    cr_assert_eq(found(2), 2);
}

/* The whole of a block is cached, but its last token is always computed. */
Test(chaos_replay_bound, the_last_token_is_never_found)
{
    struct replay_request request = {.after = REPLAY_NONE, .output_tokens = 1};
    struct replay_bounds bounds;

    for (int i = 0; i < 2; i++) {
        cr_assert_eq(replay_load_run(&load, 7, 0, BLOCK), 0);
        cr_assert_eq(replay_load_add(&load, &request, NULL), 0);
    }
    cr_assert_eq(replay_bound(&load, BLOCK, 100, &bounds), 0);
    cr_assert_eq(bounds.share, 0);
}

/* What an answer says, before or after, is no prompt's. */
Test(chaos_replay_bound, answers_share_nothing_with_prompts)
{
    struct replay_request request = {
        .after = REPLAY_NONE, .output_tokens = 2 * BLOCK + 1, .answer = 9};
    struct replay_bounds bounds;

    for (int i = 0; i < 4; i++) {
        cr_assert_eq(replay_load_run(&load, 7, 0, BLOCK), 0);
        if (i == 1 || i == 2) {
            cr_assert_eq(replay_load_run(&load, 9, 0, BLOCK), 0);
        }
        cr_assert_eq(replay_load_add(&load, &request, NULL), 0);
    }
    cr_assert_eq(replay_bound(&load, BLOCK, 100, &bounds), 0);
    cr_assert_eq(bounds.sharing_permille, 666); /* of six blocks four */
}
