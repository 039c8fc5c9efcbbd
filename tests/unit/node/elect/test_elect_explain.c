#include <criterion/criterion.h>

#include "node/elect/elect.h"

static uint32_t load[WORKERS_MAX];
static uint16_t kv_usage[WORKERS_MAX];
static struct radix_match match;
static struct elect_standing standing;
static struct elect_row rows[WORKERS_MAX];

static struct elect_input
everyone_up(uint32_t workers)
{
    struct elect_input input = {
        .load = load,
        .kv_usage = kv_usage,
        .match = &match,
        .total_blocks = 10,
        .unit_tokens = 32,
    };

    for (uint32_t i = 0; i < workers; i++) {
        worker_set_add(&input.candidates, i);
    }
    standing.present = input.candidates;
    standing.healthy = input.candidates;
    standing.serves = input.candidates;
    return input;
}

static size_t
explain(const struct elect_config *config, const struct elect_input *input)
{
    struct elect_state state = {.last = WORKER_NONE};
    struct elect_choice choice;
    struct rng rng;

    rng_init(&rng, 1);
    elect_pick(config, &state, input, &rng, &choice);
    return elect_explain(config, input, &standing, &choice, rows);
}

static void
holds(uint32_t worker, uint32_t blocks)
{
    worker_set_add(&match.workers, worker);
    match.depth[worker] = blocks;
}

static const char *
verdict_of(uint32_t worker, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].worker == worker) {
            return rows[i].verdict;
        }
    }
    return "no row";
}

Test(node_elect_explain, costs_are_told)
{
    struct elect_config config = ELECT_CONFIG_DEFAULT;
    struct elect_input input = everyone_up(3);

    holds(1, 9);
    load[2] = 3;
    worker_set_remove(&input.candidates, 2);
    size_t count = explain(&config, &input);
    cr_assert_str_eq(verdict_of(0, count), "higher cost");
    cr_assert_str_eq(verdict_of(1, count), "chosen");
    cr_assert_eq(rows[0].cost, 1 * 32 * 6);
    cr_assert_eq(rows[1].cost, 10 * 32 * 6);
    cr_assert_eq(rows[2].worker, 2);
    cr_assert_eq(rows[2].cost, 0); /* no candidate */
}

Test(node_elect_explain, who_waits_for_another_nodes_turn_is_told)
{
    struct elect_config config = ELECT_CONFIG_DEFAULT;
    struct elect_input input = everyone_up(4);
    struct worker_set turn = {{0}};

    worker_set_add(&turn, 1);
    input.turn = &turn;
    holds(1, 9);
    holds(2, 9);
    holds(3, 5);
    size_t count = explain(&config, &input);
    cr_assert_str_eq(verdict_of(1, count), "chosen");
    cr_assert_str_eq(verdict_of(2, count), "near-equal, another node's turn");
    cr_assert_str_eq(verdict_of(3, count), "higher cost");
}

/* Cold and hot prefixes, held prefixes too short to count. */
Test(node_elect_explain, a_cost_is_the_sum_of_its_columns)
{
    struct elect_config config = ELECT_CONFIG_DEFAULT;
    struct elect_input input = everyone_up(WORKERS_MAX);
    uint32_t queued[WORKERS_MAX] = {0};
    uint32_t slowness[WORKERS_MAX] = {0};
    uint32_t aside[WORKERS_MAX] = {0};
    struct rng rng;

    rng_init(&rng, 7);
    input.queued = queued;
    input.total_blocks = 100;
    for (uint32_t turn = 0; turn < 20; turn++) {
        input.heat_milli = (uint32_t)rng_below(&rng, 20000);
        for (uint32_t i = 0; i < WORKERS_MAX; i++) {
            load[i] = (uint32_t)rng_below(&rng, 40);
            queued[i] = (uint32_t)rng_below(&rng, 5000);
            slowness[i] = 500 + (uint32_t)rng_below(&rng, 4000);
            aside[i] = (uint32_t)rng_below(&rng, 2) * 4096;
            holds(i, (uint32_t)rng_below(&rng, 120));
        }
        input.aside = turn % 5 == 0 ? aside : NULL;
        input.slowness = turn % 2 == 0 ? slowness : NULL;
        config.policy = turn % 3 == 0 ? ELECT_DYNAMO : ELECT_KVASIR;
        size_t count = explain(&config, &input);
        cr_assert_eq(count, WORKERS_MAX);
        for (size_t i = 0; i < count; i++) {
            uint32_t at = rows[i].worker;
            cr_assert_eq(rows[i].load, load[at]);
            const struct elect_weights *weights = &rows[i].weights;
            uint64_t sum = (uint64_t)rows[i].unread * weights->unread +
                           (uint64_t)queued[at] * weights->queued +
                           load[at] * weights->load;
            cr_assert_eq(rows[i].cost, sum / 1000 + rows[i].aside);
            cr_assert_eq(rows[i].aside,
                         config.policy == ELECT_KVASIR && input.aside != NULL
                             ? aside[at]
                             : 0);
        }
    }
}

Test(node_elect_explain, who_would_be_too_late_is_told)
{
    static uint32_t queued[WORKERS_MAX];
    static uint32_t tokens[WORKERS_MAX] = {300, 300, 300};
    static uint32_t requests[WORKERS_MAX] = {9, 9, 2};
    const struct elect_slo slo = {.tokens = tokens, .requests = requests};
    struct elect_config config = ELECT_CONFIG_DEFAULT;
    struct elect_input input = everyone_up(3);

    input.queued = queued;
    input.slo = &slo;
    input.total_blocks = 9;
    input.unit_tokens = 32;
    holds(0, 5);
    queued[0] = 200; /* and 128 to compute */
    load[2] = 2;
    size_t count = explain(&config, &input);
    cr_assert_str_eq(verdict_of(0, count), "too late");
    cr_assert_str_eq(verdict_of(1, count), "chosen");
    cr_assert_str_eq(verdict_of(2, count), "too late");
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(rows[i].filter != NULL, rows[i].worker != 1);
    }
}

Test(node_elect_explain, every_reason_has_its_verdict)
{
    struct elect_config config = ELECT_CONFIG_DEFAULT;
    struct elect_input input = everyone_up(8);

    config.recompute_weight = 0;
    config.kv_pressure_max_permille = 980;
    holds(0, 9);
    holds(1, 5);
    holds(2, 10);
    kv_usage[2] = 990;
    for (uint32_t i = 3; i < 8; i++) {
        worker_set_remove(&input.candidates, i);
    }
    worker_set_remove(&standing.healthy, 3);
    worker_set_add(&standing.draining, 4);
    worker_set_add(&standing.open, 5);
    worker_set_remove(&standing.serves, 6);

    size_t count = explain(&config, &input);
    cr_assert_eq(count, 8);
    cr_assert_eq(rows[0].worker, 0);
    cr_assert_eq(rows[0].overlap, 9);
    cr_assert_str_eq(verdict_of(0, count), "chosen");
    cr_assert_str_eq(verdict_of(1, count), "less overlap");
    cr_assert_str_eq(verdict_of(2, count), "kv pressure");
    cr_assert_str_eq(verdict_of(3, count), "unhealthy");
    cr_assert_str_eq(verdict_of(4, count), "draining");
    cr_assert_str_eq(verdict_of(5, count), "circuit open");
    cr_assert_str_eq(verdict_of(6, count), "wrong model");
    cr_assert_str_eq(verdict_of(7, count), "not available now");
    for (size_t i = 0; i < count; i++) {
        bool passed = rows[i].worker < 2; /* compared by overlap */
        cr_assert_eq(rows[i].filter == NULL, passed);
        cr_assert(passed || rows[i].filter == rows[i].verdict);
        cr_assert_eq(rows[i].unread, 0); /* costs do not decide */
    }
    cr_assert_eq(rows[0].weights.queued, 0);
}

Test(node_elect_explain, load_decides_and_says_so)
{
    struct elect_config config = ELECT_CONFIG_DEFAULT;
    struct elect_input input = everyone_up(3);

    load[0] = 100;
    holds(0, 10);
    load[1] = 20;
    size_t count = explain(&config, &input);
    cr_assert_eq(rows[0].worker, 2);
    cr_assert_str_eq(verdict_of(0, count), "more load");
    cr_assert_str_eq(verdict_of(1, count), "more load");
    cr_assert_null(rows[0].filter);
    cr_assert_str_eq(rows[1].filter, "more load");
    cr_assert_gt(rows[1].cost, 0); /* shown all the same */
}

Test(node_elect_explain, rows_are_ordered_by_candidacy_overlap_load_slot)
{
    struct elect_config config = ELECT_CONFIG_DEFAULT;
    struct elect_input input = everyone_up(7);
    const uint32_t order[] = {4, 2, 0, 5, 3, 1, 6};

    worker_set_remove(&input.candidates, 1);
    worker_set_remove(&input.candidates, 6);
    holds(4, 8);
    holds(2, 6);
    load[3] = 7;
    load[5] = 2;
    holds(1, 3);
    size_t count = explain(&config, &input);
    cr_assert_eq(count, 7);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(rows[i].worker, order[i], "row %zu is %u", i,
                     rows[i].worker);
    }
}

Test(node_elect_explain, other_policies_have_their_words)
{
    struct elect_config config = ELECT_CONFIG_DEFAULT;
    struct elect_input input = everyone_up(2);
    static const uint64_t identity[WORKERS_MAX] = {1, 2};

    input.identity = identity;
    config.policy = ELECT_ROUND_ROBIN;
    cr_assert_eq(explain(&config, &input), 2);
    cr_assert_str_eq(rows[1].verdict, "not its turn");
    config.policy = ELECT_RENDEZVOUS;
    cr_assert_eq(explain(&config, &input), 2);
    cr_assert_str_eq(rows[1].verdict, "lower hash");
    config.policy = ELECT_PREFIX_HASH;
    cr_assert_eq(explain(&config, &input), 2);
    cr_assert_str_eq(rows[1].verdict, "lower hash");
    config.policy = ELECT_CONSISTENT_HASHING;
    cr_assert_eq(explain(&config, &input), 2);
    cr_assert_str_eq(rows[1].verdict, "later on the ring");
    config.policy = ELECT_RANDOM;
    cr_assert_eq(explain(&config, &input), 2);
    cr_assert_str_eq(rows[1].verdict, "not drawn");
    config.policy = ELECT_LEAST_LOAD;
    load[0] = 1;
    cr_assert_eq(explain(&config, &input), 2);
    cr_assert_str_eq(rows[1].verdict, "more load");
}

Test(node_elect_explain, who_is_out_before_costs_are_made_has_none)
{
    struct elect_config config = ELECT_CONFIG_DEFAULT;
    struct elect_input input = everyone_up(3);

    config.kv_pressure_max_permille = 900;
    kv_usage[2] = 1000;
    for (size_t i = 0; i < 2; i++) {
        config.policy = i == 0 ? ELECT_COMPOSITE : ELECT_DYNAMO;
        cr_assert_eq(explain(&config, &input), 3);
        cr_assert_str_eq(verdict_of(2, 3), "kv pressure");
        cr_assert_eq(rows[2].worker, 2);
        cr_assert_eq(rows[2].cost, 0);
        cr_assert_gt(rows[0].cost, 0);
    }
}

Test(node_elect_explain, nobody_chosen_is_explained_too)
{
    struct elect_config config = ELECT_CONFIG_DEFAULT;
    struct elect_input input = everyone_up(2);

    worker_set_clear(&input.candidates);
    worker_set_clear(&standing.healthy);
    cr_assert_eq(explain(&config, &input), 2);
    cr_assert_eq(rows[0].worker, 0);
    cr_assert_str_eq(rows[0].verdict, "unhealthy");
}
