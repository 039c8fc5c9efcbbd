#include <criterion/criterion.h>
#include <string.h>

#include "node/elect/elect.h"
#include "node/view/island.h"

static struct fleet_view view;
static struct fleet_worker workers[8];
static struct fleet_board board;
static struct speed speed;
static struct config_island island;
static struct island_cost cost[WORKERS_MAX];
static uint32_t round_us[WORKERS_MAX];
static uint32_t aside[WORKERS_MAX];
static const struct fleet_models no_models;

static void
place(const char *own, const char *const *labels, uint32_t count)
{
    cr_assert_leq(count, 8);
    view.models = &no_models;
    (void)strncpy(island.name, own, sizeof(island.name) - 1);
    for (uint32_t i = 0; i < count; i++) {
        (void)strncpy(workers[i].island, labels[i],
                      sizeof(workers[i].island) - 1);
        workers[i].slot = i;
        view.worker[i] = &workers[i];
        worker_set_add(&view.present, i);
        worker_set_add(&view.any_model, i);
    }
}

static void
add_link(const char *from, const char *to, uint32_t ms)
{
    struct config_link *link = &island.links.link[island.links.count++];

    (void)strncpy(link->from, from, sizeof(link->from) - 1);
    (void)strncpy(link->to, to, sizeof(link->to) - 1);
    link->ms = ms;
}

static bool
tell(void)
{
    bool any = island_costs(&island, &view, round_us, cost);

    role_is_control();
    island_tell(&board, &view, &speed, cost, any);
    return any;
}

Test(node_island, a_prefix_is_of_whole_parts)
{
    cr_expect(island_within(SLICE("eu"), SLICE("eu")));
    cr_expect(island_within(SLICE("eu/fra/a"), SLICE("eu")));
    cr_expect(island_within(SLICE("eu/fra/a"), SLICE("eu/fra")));
    cr_expect_not(island_within(SLICE("europe"), SLICE("eu")));
    cr_expect_not(island_within(SLICE("eu"), SLICE("eu/fra")));
    cr_expect_not(island_within(SLICE(""), SLICE("eu")));
    cr_expect_not(island_within(SLICE("eu"), SLICE("")));
    cr_expect(island_in_any(SLICE("us/east"), SLICE("eu us/east")));
    cr_expect_not(island_in_any(SLICE("us/west"), SLICE("eu us/east")));
    cr_expect_not(island_in_any(SLICE(""), SLICE("eu us/east")));
}

Test(node_island, the_row_with_the_longest_names_counts_both_ways_round)
{
    add_link("eu", "us", 80);
    add_link("us/east", "eu", 60);
    add_link("eu", "eu", 5);
    cr_expect_eq(
        island_link_us(&island.links, SLICE("eu/fra"), SLICE("us/west")),
        80000);
    cr_expect_eq(
        island_link_us(&island.links, SLICE("eu/fra"), SLICE("us/east")),
        60000);
    cr_expect_eq(island_link_us(&island.links, SLICE("us/east/b"), SLICE("eu")),
                 60000);
    cr_expect_eq(
        island_link_us(&island.links, SLICE("eu/fra"), SLICE("eu/dub")), 5000);
    cr_expect_eq(island_link_us(&island.links, SLICE("eu"), SLICE("ap")),
                 UINT32_MAX);
}

Test(node_island, what_no_row_names_costs_what_is_measured)
{
    place("eu/a",
          (const char *[]){"eu/a", "eu/a", "eu/b", "us", "us", "", "eu"}, 7);
    add_link("eu", "ap", 200);
    memcpy(round_us, (uint32_t[]){900, 700, 1700, 90000, 80700, 50000, 3000},
           7 * sizeof(uint32_t));
    cr_assert(island_costs(&island, &view, round_us, cost));
    cr_expect_eq(cost[0].link_us, 0);
    cr_expect_eq(cost[1].link_us, 0);
    cr_expect_eq(cost[2].link_us, 1000);
    cr_expect_eq(cost[3].link_us, 80000, "of an island's shortest");
    cr_expect_eq(cost[4].link_us, 80000);
    cr_expect_eq(cost[5].link_us, 0, "without a label");
    cr_expect_eq(cost[6].link_us, 0, "around the node's own");
}

Test(node_island, a_row_stands_for_what_is_measured_but_not_for_the_time)
{
    place("eu", (const char *[]){"eu", "us", "ap"}, 3);
    add_link("eu", "us", 300);
    memcpy(round_us, (uint32_t[]){1000, 81000, 0}, 3 * sizeof(uint32_t));
    cr_assert(island_costs(&island, &view, round_us, cost));
    cr_expect_eq(cost[1].link_us, 300000);
    cr_expect_eq(cost[1].away_us, 80000);
    cr_expect_eq(cost[2].link_us, 0, "nothing is measured yet");
}

Test(node_island, bytes_cost_what_an_engine_does_in_some_time)
{
    place("eu", (const char *[]){"eu", "us", "ap"}, 3);
    add_link("eu", "us", 100);
    island.links.link[0].price_milli = 20;
    add_link("eu", "ap", 0);
    island.links.link[1].measured = true;
    island.links.link[1].price_milli = 90;
    memcpy(round_us, (uint32_t[]){1000, 81000, 201000}, 3 * sizeof(uint32_t));
    cr_assert(island_costs(&island, &view, round_us, cost));
    cr_expect_eq(cost[2].link_us, 200000, "as measured");
    cr_assert(island_pay(&island, &view, 250000, 2500, cost));
    cr_expect_eq(cost[0].paid_us, 0);
    cr_expect_eq(cost[1].paid_us, 7200); /* 5 millionths, of 2.5 an hour */
    cr_expect_eq(cost[2].paid_us, 32400);
    role_is_control();
    island_tell(&board, &view, &speed, cost, true);
    cr_expect_eq(gauge_read(&board.link_us[1]), 100000);
    cr_expect_eq(gauge_read(&board.link_tokens[1]), 857); /* .1072 s at 8,000 */
    cr_expect_not(island_pay(&island, &view, 0, 2500, cost));
    cr_expect_not(island_pay(&island, &view, 250000, 0, cost));
}

Test(node_island, without_a_name_of_its_own_a_node_has_no_near_and_far)
{
    place("", (const char *[]){"eu", "us"}, 2);
    memcpy(round_us, (uint32_t[]){1000, 81000}, 2 * sizeof(uint32_t));
    cr_expect_not(tell());
    cr_expect_not(island_aside(&board, &view.present, NULL, aside));
}

Test(node_island, a_time_counts_as_the_tokens_that_take_it)
{
    place("eu", (const char *[]){"eu", "us"}, 2);
    add_link("eu", "us", 100);
    cr_assert(tell());
    cr_expect_eq(gauge_read(&board.link_tokens[0]), 0);
    cr_expect_eq(gauge_read(&board.link_tokens[1]), ISLAND_RATE / 10);
    for (uint32_t i = 0; i < SPEED_FLOOR; i++) { /* 20,000 tokens a second */
        speed_add(&speed, 0, 0, 10000, 500000);
    }
    cr_assert(tell());
    uint32_t tokens = gauge_read(&board.link_tokens[1]);
    cr_expect(tokens > 1900 && tokens < 2100, "%u", tokens);
    island.links.count = 0;
    cr_expect(tell()); /* it is elsewhere all the same */
    cr_expect_eq(gauge_read(&board.link_tokens[1]), 0);
    cr_expect_eq(gauge_read(&board.crosses[0]), 0);
    cr_expect_eq(gauge_read(&board.crosses[1]), 1);
    cr_expect_not(island_aside(&board, &view.present, NULL, aside));
}

Test(node_island, candidates_cost_what_they_are_farther_than_the_nearest)
{
    const uint32_t pools[] = {7, 0, 0};
    struct worker_set away;

    place("eu", (const char *[]){"eu", "us", "ap"}, 3);
    add_link("eu", "us", 100);
    add_link("eu", "ap", 200);
    cr_assert(tell());
    cr_assert(island_aside(&board, &view.present, pools, aside));
    cr_expect_eq(aside[0], 7);
    cr_expect_eq(aside[1], ISLAND_RATE / 10);
    cr_expect_eq(aside[2], ISLAND_RATE / 5);
    away = view.present;
    worker_set_remove(&away, 0);
    cr_assert(island_aside(&board, &away, NULL, aside));
    cr_expect_eq(aside[1], 0);
    cr_expect_eq(aside[2], ISLAND_RATE / 10);
    worker_set_remove(&away, 1);
    cr_expect_not(island_aside(&board, &away, NULL, aside),
                  "one island is no farther than itself");
}

/* The slot that a prompt of 4,000 tokens goes to, of which worker 0 holds so
 * many, with so many requests at it and none elsewhere. */
static uint32_t
elected(uint32_t held, uint32_t load_here)
{
    static struct radix_match match;
    uint32_t load[WORKERS_MAX] = {load_here};
    struct elect_config config = ELECT_CONFIG_DEFAULT;
    struct elect_state state = {.last = WORKER_NONE};
    struct elect_choice choice;
    struct rng rng;
    struct elect_input input = {
        .candidates = view.present,
        .load = load,
        .match = &match,
        .total_blocks = 4000,
        .unit_tokens = 1,
    };

    rng_init(&rng, 1);
    worker_set_clear(&match.workers);
    if (held != 0) {
        worker_set_add(&match.workers, 0);
        match.depth[0] = held;
        match.best = held;
    }
    if (island_aside(&board, &input.candidates, NULL, aside)) {
        input.aside = aside;
    }
    elect_pick(&config, &state, &input, &rng, &choice);
    return choice.worker;
}

Test(node_island, a_new_conversation_leaves_before_one_with_a_prefix_here)
{
    /* 100 ms are 800 tokens, and a request in flight counts 256. */
    place("eu", (const char *[]){"eu", "us"}, 2);
    add_link("eu", "us", 100);
    cr_assert(tell());
    cr_expect_eq(elected(0, 3), 0);
    cr_expect_eq(elected(0, 10), 1);
    cr_expect_eq(elected(3900, 10), 0);
    cr_expect_eq(elected(3900, 25), 0);
    cr_expect_eq(elected(3900, 80), 1);  /* far sooner over there */
    worker_set_remove(&view.present, 0); /* its island is gone */
    cr_expect_eq(elected(0, 0), 1);
}
