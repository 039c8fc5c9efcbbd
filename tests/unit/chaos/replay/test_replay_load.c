#include <string.h>

#include "chaos/replay/replay_generate.h"
#include "tests/unit/chaos/replay/load_rig.h"

TestSuite(chaos_replay_load, .init = setup, .fini = teardown);

static uint32_t
add(uint64_t at_us, uint32_t after, uint64_t text, uint32_t tokens)
{
    struct replay_request request = {.at_us = at_us,
                                     .after = after,
                                     .output_tokens = 3,
                                     .answer = text + 1000};
    uint32_t index;

    cr_assert_eq(replay_load_run(&load, text, 0, tokens), 0);
    cr_assert_eq(replay_load_add(&load, &request, &index), 0);
    return index;
}

Test(chaos_replay_load, runs_of_one_text_are_the_same_tokens)
{
    struct replay_run whole = {.text = 5, .from = 0, .tokens = 10};
    struct replay_run rest = {.text = 5, .from = 4, .tokens = 6};
    struct replay_run other = {.text = 1 << 20, .from = 0, .tokens = 10};
    uint32_t a[10];
    uint32_t b[10];

    replay_run_tokens(&whole, a);
    replay_run_tokens(&rest, b);
    cr_assert_arr_eq(a + 4, b, 6 * sizeof(*a));
    replay_run_tokens(&other, b);
    cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
}

Test(chaos_replay_load, a_prompt_is_its_runs_one_after_another)
{
    struct replay_run second = {.text = 7, .from = 2, .tokens = 3};
    struct replay_request request = {.after = REPLAY_NONE, .output_tokens = 1};
    uint32_t tokens[8];
    uint32_t expected[3];

    cr_assert_eq(replay_load_run(&load, 5, 0, 5), 0);
    cr_assert_eq(replay_load_run(&load, 6, 0, 0), 0);
    cr_assert_eq(replay_load_run(&load, 7, 2, 3), 0);
    cr_assert_eq(replay_load_add(&load, &request, NULL), 0);
    cr_assert_eq(load.requests[0].prompt_tokens, 8);
    cr_assert_eq(load.requests[0].runs_count, 2);
    replay_load_tokens(&load, &load.requests[0], tokens);
    replay_run_tokens(&second, expected);
    cr_assert_arr_eq(tokens + 5, expected, sizeof(expected));
}

Test(chaos_replay_load, the_next_turn_carries_prompt_and_answer)
{
    uint32_t first = add(0, REPLAY_NONE, 1, 20);
    struct replay_request next = {.after = first, .output_tokens = 1};
    uint32_t tokens[28];
    uint32_t answer[3];
    struct replay_run run = {.text = 1001, .from = 0, .tokens = 3};

    cr_assert_eq(replay_load_history(&load, first), 0);
    cr_assert_eq(replay_load_run(&load, 2, 0, 5), 0);
    cr_assert_eq(replay_load_add(&load, &next, NULL), 0);
    cr_assert_eq(load.requests[1].prompt_tokens, 28);
    cr_assert_eq(load.requests[0].next, 1);
    replay_load_tokens(&load, &load.requests[1], tokens);
    replay_run_tokens(&run, answer);
    cr_assert_arr_eq(tokens + 20, answer, sizeof(answer));
}

Test(chaos_replay_load, what_cannot_be_is_dropped_and_named)
{
    struct replay_request request = {.after = REPLAY_NONE, .output_tokens = 1};
    uint32_t first = add(0, REPLAY_NONE, 1, 5);

    (void)add(0, first, 2, 5);
    cr_assert_eq(replay_load_add(&load, &request, NULL), REPLAY_E_EMPTY);
    cr_assert_eq(replay_load_run(&load, 3, 0, 7), 0);
    request.after = first;
    cr_assert_eq(replay_load_add(&load, &request, NULL), REPLAY_E_BAD_AFTER);
    cr_assert_eq(replay_load_run(&load, 3, 0, 7), 0);
    request.after = REPLAY_NONE;
    request.output_tokens = load.limits.output_tokens_max + 1;
    cr_assert_eq(replay_load_add(&load, &request, NULL), REPLAY_E_TOO_LONG);
    cr_assert_eq(load.count, 2);
    cr_assert_eq(load.runs_count, 2);
}

Test(chaos_replay_load, limits_are_outcomes)
{
    struct replay_limits limits = {.requests_max = 1,
                                   .runs_max = 2,
                                   .prompt_tokens_max = 100,
                                   .output_tokens_max = 100};
    struct replay_request request = {.after = REPLAY_NONE, .output_tokens = 1};

    replay_load_init(&load, &limits);
    (void)add(0, REPLAY_NONE, 1, 5);
    cr_assert_eq(replay_load_run(&load, 2, 0, 7), 0);
    cr_assert_eq(replay_load_run(&load, 2, 0, 7), REPLAY_E_FULL);
    cr_assert_eq(replay_load_add(&load, &request, NULL), REPLAY_E_FULL);
    cr_assert_eq(load.runs_count, 1);
}

Test(chaos_replay_load, sorting_keeps_the_order_of_one_moment)
{
    (void)add(20, REPLAY_NONE, 1, 5);
    (void)add(10, REPLAY_NONE, 2, 6);
    (void)add(10, REPLAY_NONE, 3, 7);
    replay_load_sort(&load);
    cr_assert_eq(load.requests[0].prompt_tokens, 6);
    cr_assert_eq(load.requests[1].prompt_tokens, 7);
    cr_assert_eq(load.requests[2].prompt_tokens, 5);
}

Test(chaos_replay_load, cutting_leaves_out_who_waits_for_one_left_out)
{
    uint32_t late = add(50, REPLAY_NONE, 1, 5);
    uint32_t early = add(10, REPLAY_NONE, 2, 6);
    uint32_t next;

    (void)add(1, late, 3, 7);
    next = add(1, early, 4, 8);
    (void)add(1, next, 5, 9);
    cr_assert_eq(replay_load_limit(&load, 20, 2), 0);
    cr_assert_eq(load.count, 2);
    cr_assert_eq(load.requests[0].prompt_tokens, 6);
    cr_assert_eq(load.requests[0].next, 1);
    cr_assert_eq(load.requests[1].prompt_tokens, 8);
    cr_assert_eq(load.requests[1].after, 0);
    cr_assert_eq(load.requests[1].next, REPLAY_NONE);
}

/* 4 full blocks of 10: the second prompt finds 2, the third none. */
Test(chaos_replay_load, sharing_counts_full_blocks_seen_before)
{
    struct replay_request request = {.after = REPLAY_NONE, .output_tokens = 1};

    (void)add(0, REPLAY_NONE, 1, 45);
    cr_assert_eq(replay_load_run(&load, 1, 0, 25), 0);
    cr_assert_eq(replay_load_run(&load, 1 << 20, 0, 20), 0);
    cr_assert_eq(replay_load_add(&load, &request, NULL), 0);
    (void)add(0, REPLAY_NONE, 1 << 21, 25);
    cr_assert_eq(sharing(10), 200);
    cr_assert_eq(replay_load_longest_prompt(&load), 45);
    cr_assert_eq(replay_load_longest(&load), 48);
}

/* Generated ones */

static void
must_be_alike(const struct replay_load *a, const struct replay_load *b)
{
    cr_assert_eq(a->count, b->count);
    cr_assert_eq(a->runs_count, b->runs_count);
    cr_assert_arr_eq(a->runs, b->runs, a->runs_count * sizeof(*a->runs));
    for (uint32_t i = 0; i < a->count; i++) {
        cr_assert_eq(a->requests[i].at_us, b->requests[i].at_us);
        cr_assert_eq(a->requests[i].output_tokens,
                     b->requests[i].output_tokens);
        cr_assert_eq(a->requests[i].answer, b->requests[i].answer);
        cr_assert_eq(a->requests[i].next, b->requests[i].next);
    }
}

Test(chaos_replay_load, one_seed_generates_one_load)
{
    struct replay_limits limits = REPLAY_LIMITS_DEFAULT;
    const struct replay_workload *w;

    for (uint32_t i = 0; (w = replay_workload_at(i)) != NULL; i++) {
        struct replay_load a;
        struct replay_load b;
        struct replay_load c;
        replay_load_init(&a, &limits);
        replay_load_init(&b, &limits);
        replay_load_init(&c, &limits);
        cr_assert_eq(replay_generate(w, 7, 200, &a), 0);
        cr_assert_eq(replay_generate(w, 7, 200, &b), 0);
        cr_assert_eq(replay_generate(w, 8, 200, &c), 0);
        must_be_alike(&a, &b);
        cr_assert_neq(memcmp(a.runs, c.runs, 100 * sizeof(*a.runs)), 0, "%s",
                      w->name);
        replay_load_fini(&a);
        replay_load_fini(&b);
        replay_load_fini(&c);
    }
}

/* 750 prompts: each group's first misses 7,200 tokens, its others 1,200, and
 * from the second round on all is known: 450 blocks and 75. */
Test(chaos_replay_load, shared_prefixes_share_what_they_say)
{
    const struct replay_workload *w = replay_workload_find("b2b");
    uint64_t blocks = UINT64_C(1500) * 450;
    uint64_t new_blocks = UINT64_C(150) * 375 + UINT64_C(750) * 75;

    cr_assert_eq(replay_generate(w, 1, 1500, &load), 0);
    cr_assert_eq(load.count, 1500);
    cr_assert_eq(sharing(16),
                 (uint32_t)((blocks - new_blocks) * 1000 / blocks));
    cr_assert_null(replay_workload_find("none"));
}

Test(chaos_replay_load, turns_of_a_conversation_follow_each_other)
{
    const struct replay_workload *w = replay_workload_find("chat");
    uint32_t later = 0;

    cr_assert_eq(replay_generate(w, 1, 500, &load), 0);
    for (uint32_t i = 0; i < load.count; i++) {
        const struct replay_request *r = &load.requests[i];
        if (r->after == REPLAY_NONE) {
            continue;
        }
        const struct replay_request *before = &load.requests[r->after];
        later++;
        cr_assert_eq(before->next, i);
        cr_assert_gt(r->prompt_tokens,
                     before->prompt_tokens + before->output_tokens);
        cr_assert_eq(r->family, before->family);
    }
    cr_assert_gt(later, load.count / 2);
}
