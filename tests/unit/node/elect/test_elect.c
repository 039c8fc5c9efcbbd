#include <criterion/criterion.h>

#include "node/elect/elect.h"

/* One election to be arranged by a test. */
struct scene {
    struct elect_config config;
    struct elect_state state;
    struct elect_input input;
    struct rng rng;
    uint32_t load[WORKERS_MAX];
    uint32_t queued[WORKERS_MAX];
    uint16_t kv_usage[WORKERS_MAX];
    uint32_t slowness[WORKERS_MAX];
    uint64_t identity[WORKERS_MAX];
    struct radix_match match;
};

static struct scene scene;

/* Costs decide. */
static void
set_up_tokens(uint32_t workers, uint32_t total_tokens)
{
    struct scene *s = &scene;

    s->config = ELECT_CONFIG_DEFAULT;
    s->state = (struct elect_state){.last = WORKER_NONE};
    rng_init(&s->rng, 7);
    s->input = (struct elect_input){
        .load = s->load,
        .queued = s->queued,
        .kv_usage = s->kv_usage,
        .match = &s->match,
        .total_blocks = total_tokens,
        .unit_tokens = 1,
        .identity = s->identity,
    };
    for (uint32_t i = 0; i < workers; i++) {
        worker_set_add(&s->input.candidates, i);
        s->identity[i] = rng_mix(i);
    }
}

/* Shares of the prompt and numbers of requests do. */
static void
set_up(uint32_t workers, uint32_t total_blocks)
{
    set_up_tokens(workers, total_blocks);
    scene.config.recompute_weight = 0;
    scene.config.cache_threshold_permille = 300;
}

static void
holds(uint32_t worker, uint32_t blocks)
{
    worker_set_add(&scene.match.workers, worker);
    scene.match.depth[worker] = blocks;
    scene.match.best = blocks > scene.match.best ? blocks : scene.match.best;
}

static struct elect_choice
pick(void)
{
    struct elect_choice choice;

    elect_pick(&scene.config, &scene.state, &scene.input, &scene.rng, &choice);
    return choice;
}

/* Which workers are chosen at all, over many draws. */
static struct worker_set
ever_picked(void)
{
    struct worker_set seen = {{0}};

    for (int i = 0; i < 400; i++) {
        worker_set_add(&seen, pick().worker);
    }
    return seen;
}

Test(node_elect, no_candidate_is_no_worker)
{
    set_up(0, 10);
    for (unsigned p = ELECT_KVASIR; p < ELECT_POLICIES; p++) {
        scene.config.policy = (enum elect_policy)p;
        cr_assert_eq(pick().worker, WORKER_NONE);
    }
}

Test(node_elect, the_longest_prefix_wins_while_balanced)
{
    set_up(4, 20);
    holds(1, 10);
    holds(2, 12);
    scene.load[2] = 40;
    struct elect_choice choice = pick();
    cr_assert_eq(choice.worker, 2);
    cr_assert_eq(choice.mode, ELECT_AFFINITY);
    cr_assert_eq(choice.overlap, 12);
    cr_assert_not(choice.imbalanced);
}

Test(node_elect, a_share_at_the_threshold_is_not_above_it)
{
    set_up(3, 10);
    holds(1, 3); /* 3 / 10 = 0.3 exactly */
    scene.load[1] = 9;
    cr_assert_eq(pick().mode, ELECT_BALANCE);
    cr_assert_neq(pick().worker, 1);
    holds(1, 4);
    cr_assert_eq(pick().mode, ELECT_AFFINITY);
    cr_assert_eq(pick().worker, 1);
}

Test(node_elect, imbalance_needs_the_absolute_and_the_relative_excess)
{
    set_up(2, 10);
    holds(0, 10);
    scene.load[0] = 64; /* spread of 64 is not above 64 */
    cr_assert_not(pick().imbalanced);
    cr_assert_eq(pick().worker, 0);
    scene.load[0] = 65;
    cr_assert(pick().imbalanced);
    cr_assert_eq(pick().worker, 1);
    cr_assert_eq(pick().mode, ELECT_BALANCE);

    scene.load[1] = 200; /* 300 = 1.5 * 200: not above */
    scene.load[0] = 300;
    cr_assert_not(pick().imbalanced);
    scene.load[0] = 301;
    cr_assert(pick().imbalanced);
}

Test(node_elect, balance_keeps_what_affinity_it_can)
{
    set_up(4, 10);
    scene.load[0] = 200; /* the hot one, with everything */
    holds(0, 10);
    scene.load[1] = 0;
    scene.load[2] = 16; /* within the tolerance of 64 / 4 */
    holds(2, 5);
    scene.load[3] = 17; /* just outside it */
    holds(3, 9);
    struct elect_choice choice = pick();
    cr_assert(choice.imbalanced);
    cr_assert_eq(choice.worker, 2);
    cr_assert_eq(choice.overlap, 5);
}

Test(node_elect, tolerance_is_a_quarter_of_the_spread_that_counts)
{
    struct elect_config config = ELECT_CONFIG_DEFAULT;

    cr_assert_eq(elect_tolerance(&config, 0), 16);
    cr_assert_eq(elect_tolerance(&config, 128), 16);
    cr_assert_eq(elect_tolerance(&config, 1000), 125);
    config.balance_rel_permille = 1000;
    cr_assert_eq(elect_tolerance(&config, 1000), 16);
}

Test(node_elect, equal_overlap_goes_to_the_lower_load)
{
    set_up(2, 10);
    holds(0, 8);
    holds(1, 8);
    scene.load[0] = 3;
    scene.load[1] = 2;
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(pick().worker, 1);
    }
}

Test(node_elect, near_equal_overlap_gives_way_to_load)
{
    set_up(3, 64); /* 64 / 32: two blocks less are near */
    holds(0, 60);
    holds(1, 58);
    holds(2, 57);
    scene.load[0] = 9;
    scene.load[1] = 1;
    cr_assert_eq(pick().worker, 1);
    worker_set_remove(&scene.input.candidates, 1);
    cr_assert_eq(pick().worker, 0);
}

Test(node_elect, only_idle_workers_are_near_an_idle_one)
{
    set_up(8, 10);
    for (uint32_t i = 0; i < 8; i++) {
        scene.load[i] = i == 3 || i == 5 ? 0 : 1;
    }
    struct worker_set seen = ever_picked();
    cr_assert_eq(worker_set_count(&seen), 2);
    cr_assert(worker_set_has(&seen, 3) && worker_set_has(&seen, 5));
}

Test(node_elect, near_loads_share_and_far_ones_do_not)
{
    set_up(4, 10);
    scene.load[0] = 8;
    scene.load[1] = 10; /* 8 + 1 + 8/8 */
    scene.load[2] = 11;
    scene.load[3] = 8;
    struct worker_set seen = ever_picked();
    cr_assert(worker_set_has(&seen, 0) && worker_set_has(&seen, 3));
    cr_assert_not(worker_set_has(&seen, 2));
}

Test(node_elect, nodes_with_the_same_view_do_not_herd)
{
    uint32_t sent[8] = {0};
    struct rng node[3];

    set_up(8, 10);
    for (uint64_t n = 0; n < 3; n++) {
        rng_init(&node[n], n);
    }
    /* None sees the load that the others add: as between two gossips. */
    for (int round = 0; round < 100; round++) {
        for (unsigned n = 0; n < 3; n++) {
            struct elect_choice choice;
            elect_pick(&scene.config, &scene.state, &scene.input, &node[n],
                       &choice);
            sent[choice.worker]++;
        }
    }
    for (unsigned i = 0; i < 8; i++) { /* 37.5 expected each */
        cr_assert(sent[i] > 15 && sent[i] < 75, "worker %u got %u", i, sent[i]);
    }
}

Test(node_elect, holders_of_the_same_prefix_share_its_requests)
{
    set_up(8, 40);
    holds(2, 30);
    holds(4, 30);
    holds(6, 30);
    struct worker_set seen = ever_picked();
    cr_assert_eq(worker_set_count(&seen), 3);
}

Test(node_elect, retries_follow_the_rank)
{
    const uint32_t expected[] = {3, 1, 0};

    set_up(4, 10);
    holds(0, 5);
    holds(1, 7);
    holds(3, 9);
    for (int i = 0; i < 3; i++) {
        struct elect_choice choice = pick();
        cr_assert_eq(choice.worker, expected[i]);
        worker_set_remove(&scene.input.candidates, choice.worker);
    }
    cr_assert_eq(pick().worker, 2);
    worker_set_remove(&scene.input.candidates, 2);
    cr_assert_eq(pick().worker, WORKER_NONE);
}

Test(node_elect, a_holder_that_is_no_candidate_is_not_chosen)
{
    set_up(2, 10);
    holds(5, 10);
    scene.match.workers.word[WORKER_WORDS - 1] |= UINT64_C(1) << 63;
    scene.match.depth[WORKERS_MAX - 1] = 10;
    cr_assert_lt(pick().worker, 2);
    cr_assert_eq(pick().overlap, 0);
}

Test(node_elect, kv_pressure_sends_elsewhere_while_there_is_elsewhere)
{
    set_up(2, 10);
    holds(0, 10);
    scene.kv_usage[0] = 1000;
    cr_assert_eq(pick().worker, 0, "by default it may be full");
    scene.config.kv_pressure_max_permille = 980;
    scene.kv_usage[0] = 980;
    cr_assert_eq(pick().worker, 0);
    scene.kv_usage[0] = 981;
    cr_assert_eq(pick().worker, 1);
    scene.kv_usage[1] = 1000;
    cr_assert_eq(pick().worker, 0);
    scene.kv_usage[1] = 0;
    scene.config.kv_pressure_max_permille = 0;
    cr_assert_eq(pick().worker, 0);
}

/* 2,000 tokens wait where the 600 are held: less than 6 x 600, more than 2 x 600,
 * and 2 is 1 + 5 / (1 + 8 / 2). */
Test(node_elect, what_many_ask_for_is_copied_sooner)
{
    set_up_tokens(2, 600);
    holds(0, 600);
    scene.queued[0] = 1700;
    cr_assert_eq(pick().worker, 0);
    scene.input.heat_milli = 8000;
    cr_assert_eq(pick().worker, 1);
    scene.queued[0] = 800;
    cr_assert_eq(pick().worker, 0);
}

Test(node_elect, works_without_match_and_kv)
{
    set_up(3, 0);
    scene.input.match = NULL;
    scene.input.kv_usage = NULL;
    struct worker_set seen = ever_picked();
    cr_assert_eq(worker_set_count(&seen), 3);
    scene.load[1] = 500;
    cr_assert(pick().imbalanced);
}

Test(node_elect, the_shorter_queue_takes_a_prompt_that_nobody_holds)
{
    set_up_tokens(3, 1000);
    scene.queued[0] = 120000; /* one request, a book */
    scene.load[0] = 1;
    scene.load[1] = 3; /* three short ones */
    scene.load[2] = 4;
    cr_assert_eq(pick().worker, 1);
    cr_assert_eq(pick().mode, ELECT_BALANCE);
    cr_assert_str_eq(pick().reason, "no prefix known: least cost");
}

Test(node_elect, a_prefix_is_waited_for_some_times_as_long_as_it_saves)
{
    set_up_tokens(2, 10000);
    holds(0, 8000);
    scene.queued[0] = 17999; /* with the rest's 12,000 half of 60,000 */
    struct elect_choice choice = pick();
    cr_assert_eq(choice.worker, 0);
    cr_assert_eq(choice.mode, ELECT_AFFINITY);
    cr_assert_str_eq(choice.reason, "longest prefix");
    scene.queued[0] = 18000;
    choice = pick();
    cr_assert_eq(choice.worker, 1);
    cr_assert_eq(choice.mode, ELECT_BALANCE);
    cr_assert_str_eq(choice.reason, "prefix too late: least cost");
    scene.config.recompute_weight = 10;
    cr_assert_eq(pick().worker, 0);
}

Test(node_elect, a_text_prompt_is_weighed_in_tokens_too)
{
    set_up_tokens(2, 300);
    scene.input.unit_tokens = 32;
    holds(0, 150);
    scene.queued[0] = 9600; /* and 4,800, to the other's 9,600 */
    cr_assert_eq(pick().worker, 0);
    scene.queued[0] = 9601;
    cr_assert_eq(pick().worker, 1);
}

Test(node_elect, requests_in_flight_count_as_tokens)
{
    set_up_tokens(2, 10000);
    holds(0, 5000); /* so 10,000, as 39.06 requests, may come before */
    scene.load[0] = 39;
    cr_assert_eq(pick().worker, 0);
    scene.load[0] = 40;
    cr_assert_eq(pick().worker, 1);
}

Test(node_elect, an_overlap_at_the_threshold_counts_as_none)
{
    set_up_tokens(3, 10000);
    holds(1, 500); /* 0.05 */
    scene.load[1] = 2;
    cr_assert_neq(pick().worker, 1);
    cr_assert_str_eq(pick().reason, "prefix too short: least cost");
    holds(1, 501);
    cr_assert_eq(pick().worker, 1);
}

Test(node_elect, a_shorter_prefix_without_a_queue_is_balance)
{
    set_up_tokens(3, 10000);
    holds(0, 9000);
    holds(1, 8000);
    scene.queued[0] = 50000;
    cr_assert_eq(pick().worker, 1);
    cr_assert_eq(pick().mode, ELECT_BALANCE);
    cr_assert_eq(pick().overlap, 8000);
}

Test(node_elect, imbalance_of_requests_comes_before_costs)
{
    set_up_tokens(3, 100000);
    holds(0, 100000);
    scene.load[0] = 65;
    holds(1, 50000);
    struct elect_choice choice = pick();
    cr_assert(choice.imbalanced);
    cr_assert_eq(choice.worker, 1);
    cr_assert_eq(choice.mode, ELECT_BALANCE);
}

Test(node_elect, unseen_requests_spread_over_those_alike)
{
    set_up_tokens(8, 1000);
    for (uint32_t i = 0; i < 4; i++) {
        holds(i, 1000);
        scene.load[i] = i;
    }
    cr_assert_eq(ever_picked().word[0], 1);
    scene.input.unseen = 20;
    cr_assert_eq(ever_picked().word[0], 7); /* the worst of two never wins */
}

Test(node_elect, without_queues_known_requests_decide)
{
    set_up_tokens(3, 0);
    scene.input.queued = NULL;
    scene.input.match = NULL;
    scene.load[0] = 2;
    scene.load[1] = 1;
    scene.load[2] = 3;
    cr_assert_eq(pick().worker, 1);
}

Test(node_elect, extreme_costs_do_not_overflow)
{
    set_up_tokens(2, UINT32_MAX);
    scene.input.unit_tokens = 1024;
    scene.config.balance_abs = UINT32_MAX;
    scene.config.balance_rel_permille = UINT32_MAX;
    holds(0, UINT32_MAX);
    for (uint32_t i = 0; i < 2; i++) {
        scene.load[i] = UINT32_MAX;
        scene.queued[i] = UINT32_MAX;
    }
    scene.input.unseen = UINT32_MAX;
    cr_assert_eq(pick().worker, 0);
    scene.load[1] = 0;
    scene.queued[1] = 0;
    cr_assert_eq(pick().worker, 1);
}

Test(node_elect, round_robin_visits_in_turn_whoever_is_there)
{
    set_up(4, 10);
    scene.config.policy = ELECT_ROUND_ROBIN;
    for (uint32_t i = 0; i < 10; i++) {
        cr_assert_eq(pick().worker, i % 4);
    }
    worker_set_remove(&scene.input.candidates, 2);
    cr_assert_eq(pick().worker, 3);
    cr_assert_eq(pick().worker, 0);
    cr_assert_eq(pick().mode, ELECT_POLICY);
}

Test(node_elect, least_load_is_strict_with_ties_at_random)
{
    set_up(4, 10);
    scene.config.policy = ELECT_LEAST_LOAD;
    holds(1, 10);
    scene.load[0] = 3;
    scene.load[1] = 3;
    scene.load[2] = 2;
    scene.load[3] = 2;
    struct worker_set seen = ever_picked();
    cr_assert_eq(seen.word[0], 0xc);
}

Test(node_elect, random_and_power_of_two_reach_everyone_but_the_worst)
{
    set_up(5, 10);
    scene.load[4] = 100;
    scene.config.policy = ELECT_RANDOM;
    cr_assert_eq(ever_picked().word[0], 0x1f);
    scene.config.policy = ELECT_POWER_OF_TWO;
    cr_assert_eq(ever_picked().word[0], 0xf);
}

Test(node_elect, hashes_move_only_the_prefixes_of_a_lost_worker)
{
    static const enum elect_policy policies[] = {
        ELECT_RENDEZVOUS, ELECT_PREFIX_HASH, ELECT_CONSISTENT_HASHING};

    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        uint32_t moved = 0;
        set_up(8, 10);
        scene.config.policy = policies[p];
        for (uint64_t key = 0; key < 2000; key++) {
            scene.input.prefix_key = rng_mix(key);
            worker_set_add(&scene.input.candidates, 3);
            uint32_t before = pick().worker;
            worker_set_remove(&scene.input.candidates, 3);
            uint32_t after = pick().worker;
            cr_assert(before == 3 || before == after);
            moved += before == 3;
        }
        cr_assert(moved > 180 && moved < 330, "an eighth, not %u", moved);
    }
}

/* Places that are neighbours have the same next one, but for a few. */
Test(node_elect, a_ring_has_the_places_it_is_said_to_have)
{
    const uint32_t steps = 300000;
    uint32_t last = WORKER_NONE;
    uint32_t changes = 0;

    set_up(2, 10);
    scene.config.policy = ELECT_CONSISTENT_HASHING;
    for (uint64_t i = 0; i < steps; i++) {
        scene.input.prefix_key = UINT64_MAX / steps * i;
        uint32_t worker = pick().worker;
        changes += last != WORKER_NONE && worker != last;
        last = worker;
    }
    /* In half of the arcs the first place is of another worker than the last
     * before it, and the second always is of another than the first. */
    cr_assert(changes > 180 && changes < 270, "%u", changes);
}

Test(node_elect, a_new_prefix_goes_where_all_nodes_would_send_it)
{
    uint32_t sent[8] = {0};
    struct rng other;

    set_up_tokens(8, 1000);
    rng_init(&other, 1234);
    for (uint64_t key = 1; key <= 2000; key++) {
        struct elect_choice choice;
        scene.input.prefix_key = rng_mix(key);
        elect_pick(&scene.config, &scene.state, &scene.input, &other, &choice);
        cr_assert_eq(pick().worker, choice.worker);
        cr_assert_eq(choice.hashed, ELECT_HASH_FIRST);
        cr_assert_eq(choice.mode, ELECT_BALANCE);
        sent[choice.worker]++;
    }
    for (unsigned i = 0; i < 8; i++) {
        cr_assert(sent[i] > 180 && sent[i] < 330, "%u got %u", i, sent[i]);
    }
    holds(5, 1000); /* somebody holds it: no hash */
    cr_assert_eq(pick().worker, 5);
    cr_assert_eq(pick().hashed, ELECT_NOT_HASHED);
}

static struct worker_set
workers_of(uint32_t a, uint32_t b)
{
    struct worker_set set = {{0}};

    worker_set_add(&set, a);
    worker_set_add(&set, b);
    return set;
}

/* Whether a prefix goes to nobody of the set: one of 100 keys, which is then the
 * input's. */
static bool
some_key_avoids(const struct worker_set *set)
{
    for (uint64_t key = 1; key <= 100; key++) {
        scene.input.prefix_key = key;
        if (!worker_set_has(set, pick().worker)) {
            return true;
        }
    }
    return false;
}

Test(node_elect, near_equals_are_taken_in_turn)
{
    struct worker_set turn = workers_of(2, 5);

    set_up_tokens(8, 1000);
    holds(1, 900);
    holds(2, 900);
    holds(3, 900);
    struct worker_set seen = ever_picked();
    cr_assert_eq(worker_set_count(&seen), 3);
    scene.input.turn = &turn;
    seen = ever_picked();
    cr_assert_eq(worker_set_count(&seen), 1);
    cr_assert(worker_set_has(&seen, 2), "5 holds nothing");
    scene.queued[2] = 1000;
    cr_assert_neq(pick().worker, 2, "a turn outweighs no cost");
    scene.queued[2] = 0;
    scene.input.hashed = true; /* a session's is one on all nodes */
    cr_assert(some_key_avoids(&turn));
}

Test(node_elect, new_prefixes_are_taken_in_turn_where_nodes_get_others)
{
    struct worker_set turn = workers_of(2, 5);

    set_up_tokens(8, 1000);
    scene.input.turn = &turn;
    cr_assert(some_key_avoids(&turn));
    cr_assert_eq(pick().hashed, ELECT_HASH_FIRST, "all nodes would send it");
    scene.input.turn_new = true;
    for (uint64_t key = 1; key < 100; key++) {
        scene.input.prefix_key = rng_mix(key);
        cr_assert(worker_set_has(&turn, pick().worker));
    }
}

/* Loads of 9 and 13 are near-equals, as 10,000 tokens to compute cost 60,000. Of
 * 40 and of 41 requests with this one, 5/4 of the mean are 12.5 and 12.8. */
Test(node_elect, a_new_prefix_passes_over_who_has_too_much)
{
    set_up_tokens(4, 10000);
    for (uint32_t i = 0; i < 4; i++) {
        scene.load[i] = 9;
    }
    uint32_t most = WORKER_NONE;
    for (uint64_t key = 1; most != 3; key++) {
        scene.input.prefix_key = rng_mix(key);
        most = pick().worker;
    }
    scene.load[3] = 12;
    struct elect_choice choice = pick();
    cr_assert_eq(choice.worker, 3);
    cr_assert_eq(choice.hashed, ELECT_HASH_FIRST);
    scene.load[3] = 13;
    choice = pick();
    cr_assert_neq(choice.worker, 3);
    cr_assert_eq(choice.hashed, ELECT_HASH_OVERFLOW);
    scene.queued[0] = 20000; /* dearer: no near-equals */
    scene.queued[1] = 20000;
    scene.queued[2] = 900;
    cr_assert_eq(pick().worker, 2, "3 is near, and has too much");
    scene.queued[2] = 20000;
    cr_assert_eq(pick().worker, 3);
    cr_assert_eq(pick().hashed, ELECT_NOT_HASHED, "it alone is left");
}

Test(node_elect, cache_aware_has_two_thresholds)
{
    set_up_tokens(3, 10);
    scene.config.policy = ELECT_CACHE_AWARE;
    holds(0, 10);
    holds(1, 3);
    scene.load[0] = 64;
    scene.load[2] = 1;
    struct elect_choice choice = pick();
    cr_assert_eq(choice.worker, 0);
    cr_assert_eq(choice.mode, ELECT_AFFINITY);
    scene.load[0] = 65;
    choice = pick();
    cr_assert(choice.imbalanced);
    cr_assert_eq(choice.worker, 1);
    cr_assert_eq(choice.mode, ELECT_BALANCE);
    worker_set_remove(&scene.input.candidates, 0);
    scene.load[1] = 2; /* 3 of 10 are not more than 0.3 */
    cr_assert_eq(pick().worker, 2);
    holds(1, 4);
    cr_assert_eq(pick().worker, 1);
}

Test(node_elect, composite_adds_overlap_idleness_and_success)
{
    static uint16_t success[WORKERS_MAX] = {1000, 1000, 500};

    set_up_tokens(3, 100);
    scene.config.policy = ELECT_COMPOSITE;
    scene.input.success = success;
    holds(0, 40); /* .24 + .3 * (1 - 8/10) + .1 = .40 */
    scene.load[0] = 8;
    scene.load[1] = 10; /* .1 */
    scene.load[2] = 5;  /* .15 + .05 = .2 */
    struct elect_choice choice = pick();
    cr_assert_eq(choice.worker, 0);
    cr_assert_eq(choice.cost, 600000);
    holds(0, 20); /* .28: no sum is above .3, so the least load */
    choice = pick();
    cr_assert_eq(choice.worker, 2);
    cr_assert_str_eq(choice.reason,
                     "composite: no score above 0.3, least load");
    scene.load[2] = 1; /* .27 + .05 */
    cr_assert_eq(pick().worker, 2);
    cr_assert_eq(pick().cost, 680000);
}

Test(node_elect, dynamo_counts_what_is_computed_and_what_runs)
{
    uint32_t sent[3] = {0};

    set_up_tokens(3, 1000);
    scene.config.policy = ELECT_DYNAMO;
    holds(0, 900);
    scene.load[0] = 1;      /* 100 + 1000 */
    scene.queued[1] = 200;  /* 1000 + 200 */
    scene.queued[2] = 2100; /* 3100 */
    cr_assert_eq(pick().worker, 0);
    cr_assert_eq(pick().cost, 1100);
    scene.queued[0] = 101;
    cr_assert_eq(pick().worker, 1);
    scene.queued[0] = 0;
    scene.config.temperature_permille = 1000;
    for (int i = 0; i < 4000; i++) {
        sent[pick().worker]++;
    }
    /* exp(-cost / 2000): weights 1, 0.951, 0.368 */
    cr_assert(sent[0] > 1580 && sent[0] < 1880, "%u", sent[0]);
    cr_assert(sent[1] > 1490 && sent[1] < 1790, "%u", sent[1]);
    cr_assert(sent[2] > 530 && sent[2] < 740, "%u", sent[2]);
}

/* Four workers, ever more requests of one prefix: none has more than 5/4 of the
 * mean, rounded up, and each goes as high in the order of hashes as it can. */
Test(node_elect, prefix_hash_fills_its_worker_up_to_a_bound)
{
    struct elect_choice choice;

    set_up(4, 10);
    scene.config.policy = ELECT_PREFIX_HASH;
    scene.input.prefix_key = 12345;
    cr_assert_eq(pick().hashed, ELECT_HASH_FIRST);
    uint32_t first = pick().worker;
    scene.config.policy = ELECT_RENDEZVOUS;
    cr_assert_eq(pick().worker, first);
    scene.config.policy = ELECT_PREFIX_HASH;
    for (uint32_t sent = 0; sent < 400; sent++) {
        uint32_t most = (5 * (sent + 1) + 15) / 16;
        choice = pick();
        cr_assert_eq(choice.mode, ELECT_POLICY);
        cr_assert_eq(choice.worker == first, scene.load[first] < most);
        cr_assert_str_eq(choice.reason,
                         choice.worker == first
                             ? "prefix_hash"
                             : "prefix_hash: its worker has too many requests");
        cr_assert_eq(choice.hashed, choice.worker == first
                                        ? ELECT_HASH_FIRST
                                        : ELECT_HASH_OVERFLOW);
        scene.load[choice.worker]++;
        cr_assert_leq(scene.load[choice.worker], most);
    }
    cr_assert_eq(scene.load[first], 125);
}

Test(node_elect, extreme_loads_do_not_overflow)
{
    set_up(2, UINT32_MAX);
    holds(0, UINT32_MAX);
    scene.load[0] = UINT32_MAX;
    scene.load[1] = UINT32_MAX - 1;
    cr_assert_eq(pick().worker, 0);
    scene.load[1] = 0;
    cr_assert_eq(pick().worker, 1);
    scene.config.balance_abs = UINT32_MAX;
    scene.config.balance_rel_permille = UINT32_MAX;
    cr_assert_eq(pick().worker, 0);
    scene.load[1] = UINT32_MAX;
    scene.config.policy = ELECT_PREFIX_HASH;
    cr_assert(pick().worker < 2);
}

Test(node_elect, policies_and_modes_have_names)
{
    for (unsigned p = ELECT_KVASIR; p < ELECT_POLICIES; p++) {
        cr_assert_not_null(elect_policy_name((enum elect_policy)p));
    }
    cr_assert_str_eq(elect_mode_name(ELECT_AFFINITY), "affinity");
    cr_assert_str_eq(elect_mode_name(ELECT_BALANCE), "balance");
    cr_assert_str_eq(elect_mode_name(ELECT_POLICY), "policy");
}

/* One of four takes three times as long: of prompts that nobody holds it gets
 * one in ten, so that all wait alike. */
Test(node_elect, one_three_times_slower_gets_its_share)
{
    uint32_t sent[4] = {0};

    set_up_tokens(4, 2000);
    scene.input.slowness = scene.slowness;
    for (uint32_t i = 0; i < 4; i++) {
        scene.slowness[i] = i == 2 ? 3000 : 1000;
    }
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t worker = pick().worker;
        sent[worker]++;
        scene.queued[worker] += 2000;
    }
    cr_assert(sent[2] > 85 && sent[2] < 115, "%u", sent[2]);
    cr_assert(sent[0] > 280 && sent[0] < 320, "%u", sent[0]);
}

/* What it holds of the prompt is worth more than its time. */
Test(node_elect, a_slow_one_keeps_its_prefixes)
{
    set_up_tokens(4, 2000);
    scene.input.slowness = scene.slowness;
    for (uint32_t i = 0; i < 4; i++) {
        scene.slowness[i] = i == 2 ? 3000 : 1000;
    }
    holds(2, 1900);
    cr_assert_eq(pick().worker, 2);
    scene.queued[2] = 1700; /* 5,100 of the others' */
    cr_assert_eq(pick().worker, 2);
    scene.queued[2] = 4000; /* computing it again costs 12,000 */
    cr_assert_neq(pick().worker, 2);
}
