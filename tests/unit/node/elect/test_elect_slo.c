/* Elections with an SLO: who is left out for being too late. */
#include <criterion/criterion.h>

#include "node/elect/elect.h"

static struct elect_config config;
static struct elect_state state;
static struct elect_input input;
static struct rng rng;
static uint32_t load[WORKERS_MAX];
static uint32_t queued[WORKERS_MAX];
static struct radix_match match;

static uint32_t slo_tokens[WORKERS_MAX];
static uint32_t slo_requests[WORKERS_MAX];
static const struct elect_slo slo = {.tokens = slo_tokens,
                                     .requests = slo_requests};

static void
set_up_slo(uint32_t workers, uint32_t tokens, uint32_t requests)
{
    config = ELECT_CONFIG_DEFAULT;
    rng_init(&rng, 7);
    input = (struct elect_input){.load = load,
                                 .queued = queued,
                                 .match = &match,
                                 .total_blocks = 2000,
                                 .unit_tokens = 1,
                                 .slo = &slo};
    for (uint32_t i = 0; i < workers; i++) {
        worker_set_add(&input.candidates, i);
        slo_tokens[i] = tokens;
        slo_requests[i] = requests;
    }
}

static void
holds(uint32_t worker, uint32_t blocks)
{
    worker_set_add(&match.workers, worker);
    match.depth[worker] = blocks;
}

static struct elect_choice
pick(void)
{
    struct elect_choice choice;

    elect_pick(&config, &state, &input, &rng, &choice);
    return choice;
}

Test(node_elect_slo, a_prefix_is_left_where_waiting_for_it_is_too_late)
{
    set_up_slo(4, 4000, UINT32_MAX);
    holds(1, 1000);
    queued[1] = 3000; /* with the 1,000 of the request just in time */
    cr_assert_eq(pick().worker, 1);
    cr_assert_eq(pick().late, 0);
    queued[1] = 3001;
    struct elect_choice choice = pick();
    cr_assert_neq(choice.worker, 1);
    cr_assert_eq(choice.late, 1);
}

/* Of a prompt of 8,000 that others compute in 8,000, half as much again may
 * come before the 7,000 that one has to compute. */
Test(node_elect_slo, without_one_a_prefix_is_left_where_another_is_far_sooner)
{
    set_up_slo(4, 1, 1);
    input.slo = NULL;
    input.total_blocks = 8000;
    holds(1, 1000);
    queued[1] = 5000;
    cr_assert_eq(pick().worker, 1);
    queued[1] = 5001;
    cr_assert_neq(pick().worker, 1);
    cr_assert_eq(pick().late, 0, "there is nothing to be late for");
    holds(1, 7700); /* computing it all again costs 48,000, this 24,000 */
    queued[1] = 22198;
    cr_assert_eq(pick().worker, 1);
}

/* Of one of 2,000 it is 3,072 that may come before the 1,000. */
Test(node_elect_slo, without_one_a_short_prompt_waits_for_what_one_step_takes)
{
    set_up_slo(4, 1, 1);
    input.slo = NULL;
    holds(1, 1000);
    queued[1] = 4072;
    cr_assert_eq(pick().worker, 1);
    queued[1] = 4073;
    cr_assert_neq(pick().worker, 1);
}

/* Computing it all again costs 12,000; waiting, and computing the rest, 6,000. */
Test(node_elect_slo, what_costs_more_than_twice_is_waited_for)
{
    set_up_slo(4, 4000, UINT32_MAX);
    holds(1, 1700);
    queued[1] = 4200;
    cr_assert_neq(pick().worker, 1);
    queued[1] = 4198;
    cr_assert_eq(pick().worker, 1);
    cr_assert_eq(pick().late, 0);
}

Test(node_elect_slo, where_all_are_late_the_least_cost_wins)
{
    set_up_slo(4, 1500, UINT32_MAX); /* less than the prompt */
    holds(1, 1900);
    queued[1] = 3000;
    struct elect_choice choice = pick();
    cr_assert_eq(choice.worker, 1);
    cr_assert_eq(choice.late, 0);
    queued[1] = 1000;
    cr_assert_eq(pick().late, 3);
    cr_assert_eq(pick().worker, 1);
}

Test(node_elect_slo,
     a_worker_with_as_many_requests_as_it_answers_in_time_is_left)
{
    set_up_slo(4, UINT32_MAX, 6);
    holds(1, 1000);
    load[1] = 5;
    cr_assert_eq(pick().worker, 1);
    load[1] = 6;
    cr_assert_neq(pick().worker, 1);
    slo_requests[1] = 7;
    cr_assert_eq(pick().worker, 1);
}
