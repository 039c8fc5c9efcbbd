/* Which models a name stands for, and what a request of it becomes. */
#include <criterion/criterion.h>

#include "index/base/rng.h"
#include "node/route/alias.h"

static struct config_alias
alias_of(uint32_t a, uint32_t b)
{
    return (struct config_alias){.name = "gpt",
                                 .targets_count = 3,
                                 .target = {{"a", a}, {"b", b}, {"c", 0}}};
}

static uint32_t
first(const struct config_alias *alias, uint64_t hash)
{
    uint8_t order[CONFIG_ALIAS_TARGETS_MAX];

    alias_order(alias, hash, order);
    return order[0];
}

Test(alias, the_others_follow_in_their_order_and_fall_backs_last)
{
    struct config_alias alias = alias_of(1, 1);
    uint8_t order[CONFIG_ALIAS_TARGETS_MAX];
    bool seen[2] = {false, false};

    for (uint64_t hash = 0; hash < 64; hash++) {
        alias_order(&alias, hash, order);
        cr_assert_lt(order[0], 2);
        cr_assert_eq(order[1], 1 - order[0]);
        cr_assert_eq(order[2], 2);
        seen[order[0]] = true;
    }
    cr_assert(seen[0] && seen[1]);
}

Test(alias, each_model_has_its_weight_of_conversations)
{
    struct config_alias alias = alias_of(95, 5);
    uint32_t count = 0;

    for (uint64_t hash = 0; hash < 100000; hash++) {
        count += first(&alias, hash) == 1;
    }
    cr_assert(count > 4700 && count < 5300, "%u", count);
}

Test(alias, more_weight_takes_conversations_and_gives_none_away)
{
    struct config_alias before = alias_of(95, 5);
    struct config_alias after = alias_of(80, 20);
    uint32_t moved = 0;

    for (uint64_t hash = 0; hash < 10000; hash++) {
        bool had = first(&before, hash) == 1;
        bool has = first(&after, hash) == 1;
        cr_assert(has || !had);
        moved += has && !had;
    }
    cr_assert(moved > 1300 && moved < 1700, "%u", moved);
}

Test(alias, the_largest_weights_are_shared_too)
{
    struct config_alias alias = {.targets_count = CONFIG_ALIAS_TARGETS_MAX};
    struct rng rng;

    rng_init(&rng, 1);
    for (uint32_t i = 0; i < CONFIG_ALIAS_TARGETS_MAX; i++) {
        alias.target[i].weight = CONFIG_ALIAS_WEIGHT_MAX;
    }
    for (uint32_t i = 0; i < 10000; i++) {
        cr_assert_lt(first(&alias, rng_next(&rng)), CONFIG_ALIAS_TARGETS_MAX);
    }
    (void)first(&alias, UINT64_MAX);
    (void)first(&alias, 0);
}

Test(alias, a_body_gets_the_models_name_and_keeps_the_rest)
{
    struct slice body = SLICE("{\"model\":\"gpt\",\"prompt\":\"gpt\"}");
    struct alias_edit edit = {.place = {.at = 10, .len = 3},
                              .model = SLICE("llama-70b")};
    char out[128];

    cr_assert_eq(alias_body_size(body, &edit), body.len + 6);
    struct slice got = alias_body(body, &edit, out);
    cr_assert(slice_equal(
        got, SLICE("{\"model\":\"llama-70b\",\"prompt\":\"gpt\"}")));
    edit.model = SLICE("m");
    got = alias_body(body, &edit, out);
    cr_assert(slice_equal(got, SLICE("{\"model\":\"m\",\"prompt\":\"gpt\"}")));
}

Test(alias, members_are_added_in_front)
{
    struct slice body = SLICE(" {\"model\":\"gpt\"}");
    struct alias_edit edit = {.place = {.at = 11, .len = 3},
                              .model = SLICE("m"),
                              .members = SLICE("\"a\":1,\"b\":{},")};
    char out[128];

    struct slice got = alias_body(body, &edit, out);
    cr_assert_eq(got.len, alias_body_size(body, &edit));
    cr_assert(slice_equal(got, SLICE(" {\"a\":1,\"b\":{},\"model\":\"m\"}")));
}

Test(alias, a_session_has_a_place_at_each_model)
{
    cr_assert_eq(alias_session(0, SLICE("a")), 0);
    cr_assert_neq(alias_session(7, SLICE("a")), alias_session(7, SLICE("b")));
    cr_assert_eq(alias_session(7, SLICE("a")), alias_session(7, SLICE("a")));
}
