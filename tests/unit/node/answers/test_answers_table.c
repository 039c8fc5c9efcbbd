/* Hits, flights, age, bounds and clearing, on time that is given. */
#include <criterion/criterion.h>
#include <string.h>

#include "node/answers/answers_table_internal.h"

#define PART ((size_t)64 << 10)
#define TTL  1000U

static struct answers_table table;
static struct answers_got got;

static void
open_rig(void)
{
    cr_assert_eq(answers_table_init(&table, PART, TTL), 0);
}

static void
close_rig(void)
{
    cr_assert(answers_table_check(&table));
    answers_table_fini(&table);
}

TestSuite(answers_table, .init = open_rig, .fini = close_rig);

static struct answers_key
key_of(uint64_t number)
{
    return (struct answers_key){.name = {number, number * 3},
                                .tenant = number / 100,
                                .model = number % 2};
}

static enum answers_found
ask(uint64_t number, uint32_t lane, uint64_t now_us)
{
    struct answers_key key = key_of(number);
    struct answers_asker asker = {.lane = lane, .leads = true};

    return answers_table_ask(&table, &key, &asker, now_us, &got);
}

static enum answers_found
look(uint64_t number, uint64_t now_us)
{
    struct answers_key key = key_of(number);
    struct answers_asker asker = {.lane = 0};

    return answers_table_ask(&table, &key, &asker, now_us, &got);
}

static struct answers_kept *
answer_of(size_t len, char fill)
{
    struct answers_kept *answer = answers_kept_new(len);

    cr_assert_not_null(answer);
    memset(answer->body, fill, len);
    return answer;
}

static void
keep(uint64_t number, size_t len, uint64_t now_us)
{
    cr_assert_eq(ask(number, 0, now_us), ANSWERS_LEADS);
    cr_assert_eq(
        answers_table_land(&table, got.flight, answer_of(len, 'x'), now_us), 0);
}

static bool
has(uint64_t number, uint64_t now_us)
{
    bool hit = look(number, now_us) == ANSWERS_HIT;

    if (hit) {
        answers_table_put((struct answers_kept *)(uintptr_t)got.answer);
    }
    return hit;
}

Test(answers_table, one_leads_and_others_follow_until_it_lands)
{
    cr_assert_eq(ask(1, 0, 5), ANSWERS_LEADS);
    struct answers_flight *flight = got.flight;
    cr_assert_eq(ask(1, 3, 5), ANSWERS_FLYING);
    cr_assert_eq(ask(1, 9, 5), ANSWERS_FLYING);
    cr_assert_eq(ask(2, 9, 5), ANSWERS_LEADS);
    struct answers_flight *other = got.flight;
    cr_assert_eq(answers_table_land(&table, flight, answer_of(4, 'a'), 7),
                 (1U << 3) | (1U << 9));
    cr_assert_eq(ask(1, 3, 8), ANSWERS_HIT);
    cr_assert_eq(got.answer->len, 4);
    cr_assert_eq(got.answer->since_us, 7);
    cr_assert_eq(memcmp(got.answer->body, "aaaa", 4), 0);
    answers_table_put((struct answers_kept *)(uintptr_t)got.answer);
    cr_assert_eq(answers_table_land(&table, other, NULL, 8), 0);
    cr_assert_eq(look(2, 8), ANSWERS_NONE);
}

Test(answers_table, an_answer_is_kept_for_its_time)
{
    keep(1, 10, 100);
    cr_assert(has(1, 100 + TTL - 1));
    cr_assert_not(has(1, 100 + TTL));
    cr_assert_eq(table.stats.expired, 1);
    keep(1, 10, 5000);
    cr_assert(has(1, 5000));
}

Test(answers_table, an_answer_that_another_node_got_has_its_age_already)
{
    const uint64_t ages[] = {TTL / 4, TTL, UINT64_MAX};

    for (uint64_t i = 0; i < 3; i++) {
        struct answers_kept *answer = answer_of(10, 'x');
        uint64_t left = ages[i] < TTL ? TTL - ages[i] : 0;
        answer->age_us = ages[i];
        cr_assert_eq(ask(i, 0, 100), ANSWERS_LEADS);
        cr_assert_eq(answers_table_land(&table, got.flight, answer, 100), 0);
        cr_assert_eq(has(i, 100 + left - (left != 0)), left != 0);
        cr_assert_not(has(i, 100 + left));
    }
}

Test(answers_table, the_least_recently_used_gives_way_to_bytes)
{
    for (uint64_t i = 0; i < 7; i++) {
        keep(i, 8000, 1);
    }
    cr_assert(has(0, 2)); /* used: 1 is the oldest now */
    for (uint64_t i = 7; i < 9; i++) {
        keep(i, 8000, 3);
    }
    cr_assert(has(0, 4));
    cr_assert_not(has(1, 4));
    cr_assert(table.stats.bytes <= PART);
    cr_assert(table.stats.evicted >= 1);
}

Test(answers_table, entries_have_a_bound_of_their_own)
{
    for (uint64_t i = 0; i < 100; i++) {
        keep(i, 0, 1);
    }
    cr_assert_eq(table.stats.entries, PART / ANSWERS_ENTRY_BYTES);
    cr_assert(has(99, 1));
    cr_assert_not(has(0, 1));
}

Test(answers_table, what_is_too_large_is_not_kept_and_its_followers_are_told)
{
    keep(1, 100, 1);
    cr_assert_eq(ask(2, 0, 1), ANSWERS_LEADS);
    struct answers_flight *flight = got.flight;
    cr_assert_eq(ask(2, 5, 1), ANSWERS_FLYING);
    cr_assert_eq(
        answers_table_land(&table, flight, answer_of(PART / 4, 'x'), 1),
        1U << 5);
    cr_assert_not(has(2, 1));
    cr_assert(has(1, 1));
    cr_assert_eq(table.stats.refused, 1);
}

Test(answers_table, an_answer_outlives_its_entry_while_it_is_used)
{
    struct answers_which all = {.tenants = false};

    keep(1, 6, 1);
    cr_assert_eq(look(1, 1), ANSWERS_HIT);
    const struct answers_kept *answer = got.answer;
    cr_assert_eq(answers_table_clear(&table, &all), 1);
    cr_assert_eq(memcmp(answer->body, "xxxxxx", 6), 0);
    answers_table_put((struct answers_kept *)(uintptr_t)answer);
}

Test(answers_table, tenants_and_models_are_apart_under_one_name)
{
    struct answers_key key = key_of(1);
    struct answers_asker asker = {.lane = 0};

    keep(1, 6, 1);
    key.tenant = 9;
    cr_assert_eq(answers_table_ask(&table, &key, &asker, 1, &got),
                 ANSWERS_NONE);
    key = key_of(1);
    key.model = 9;
    cr_assert_eq(answers_table_ask(&table, &key, &asker, 1, &got),
                 ANSWERS_NONE);
}

Test(answers_table, a_tenants_or_a_models_answers_are_cleared_alone)
{
    struct answers_which tenant = {.tenants = true, .tenant = 1};
    struct answers_which model = {.models = true, .model = 1};

    keep(2, 1, 1);
    keep(3, 1, 1);
    keep(102, 1, 1);
    keep(103, 1, 1);
    cr_assert_eq(answers_table_clear(&table, &tenant), 2);
    cr_assert(has(2, 1) && has(3, 1) && !has(102, 1) && !has(103, 1));
    cr_assert_eq(answers_table_clear(&table, &model), 1);
    cr_assert(has(2, 1) && !has(3, 1));
}

Test(answers_table, what_was_cleared_in_flight_is_not_kept)
{
    struct answers_which tenant = {.tenants = true, .tenant = 0};

    cr_assert_eq(ask(1, 0, 1), ANSWERS_LEADS);
    struct answers_flight *flight = got.flight;
    cr_assert_eq(ask(1, 2, 1), ANSWERS_FLYING);
    cr_assert_eq(answers_table_clear(&table, &tenant), 0);
    cr_assert_eq(ask(1, 3, 1), ANSWERS_NONE); /* who comes now does not wait */
    cr_assert_eq(answers_table_land(&table, flight, answer_of(1, 'x'), 1),
                 1U << 2);
    cr_assert_not(has(1, 1));
}

Test(answers_table, who_wants_it_anew_replaces_it)
{
    struct answers_key key = key_of(1);
    struct answers_asker asker = {.lane = 0, .leads = true, .anew = true};

    keep(1, 1, 1);
    cr_assert_eq(answers_table_ask(&table, &key, &asker, 1, &got),
                 ANSWERS_LEADS);
    struct answers_flight *flight = got.flight;
    cr_assert_eq(answers_table_ask(&table, &key, &asker, 1, &got),
                 ANSWERS_NONE);
    cr_assert_eq(answers_table_land(&table, flight, answer_of(2, 'n'), 1), 0);
    cr_assert_eq(look(1, 1), ANSWERS_HIT);
    cr_assert_eq(got.answer->len, 2);
    answers_table_put((struct answers_kept *)(uintptr_t)got.answer);
}
