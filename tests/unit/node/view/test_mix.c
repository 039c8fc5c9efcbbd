#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "index/base/buf.h"
#include "index/base/rng.h"
#include "node/view/mix.h"

#define START UINT64_C(1700000000000)

static struct mix *mix;

static void
setup(void)
{
    mix = mix_new(START);
    cr_assert_not_null(mix);
}

static void
teardown(void)
{
    mix_free(mix);
}

TestSuite(node_mix, .init = setup, .fini = teardown);

static void
take(const char *model, const char *tenant, uint64_t at_ms, uint32_t prompt,
     uint32_t answer)
{
    struct fact_decision fact = {.kind = FACT_DECISION,
                                 .status = 200,
                                 .wall_ms = at_ms,
                                 .prompt_tokens = prompt,
                                 .budget_tokens = prompt,
                                 .completion_tokens = answer};

    (void)snprintf(fact.model, sizeof(fact.model), "%s", model);
    mix_take(mix, &fact, tenant);
}

static const struct mix_row *
find(const char *model, const char *tenant)
{
    for (uint32_t i = 0; i <= MIX_ROWS_MAX; i++) {
        const struct mix_row *row = &mix->row[i];
        if (row->used && strcmp(row->model, model) == 0 &&
            strcmp(row->tenant, tenant) == 0) {
            return row;
        }
    }
    return NULL;
}

static uint32_t
cells_of(const struct mix_row *row)
{
    uint32_t cells = 0;

    for (uint32_t i = 0; i < MIX_CELLS; i++) {
        cells += row->cell[i].requests > 0;
    }
    return cells;
}

Test(node_mix, a_row_keeps_tokens_exactly_and_lengths_by_class)
{
    take("m", "a", START, 1000, 10);
    take("m", "a", START, 1010, 11);
    take("m", "a", START, 1500, 10); /* half a doubling more */
    take("m", "b", START, 1000, 10);
    const struct mix_row *row = find("m", "a");

    cr_assert_not_null(row);
    cr_expect_eq(mix_sum(row).requests, 3);
    cr_expect_eq(mix_sum(row).prompt, 3510);
    cr_expect_eq(mix_sum(row).answer, 31);
    cr_expect_eq(cells_of(row), 2);
    cr_expect_eq(mix_longest(row), 1510);
    cr_expect_eq(mix_sum(find("m", "b")).requests, 1);
}

Test(node_mix, any_length_has_a_class)
{
    for (uint32_t bit = 0; bit < 32; bit++) {
        take("m", "a", START, UINT32_C(1) << bit, UINT32_MAX >> bit);
    }
    take("m", "a", START, UINT32_MAX, 0);
    cr_expect_eq(mix_sum(find("m", "a")).requests, 33);
    cr_expect_eq(mix_longest(find("m", "a")), MIX_TOKENS_MAX + 255);
}

Test(node_mix, what_has_no_length_still_came)
{
    struct fact_decision refused = {.kind = FACT_DECISION, .status = 503};
    struct fact_decision resumed = {.kind = FACT_DECISION,
                                    .status = 200,
                                    .wall_ms = START,
                                    .resumed = 1,
                                    .prompt_tokens = 5};

    mix_take(mix, &refused, "a");
    cr_expect_null(find("", "a"));
    mix_take(mix, &resumed, "a");
    take("", "a", START, 0, 0);
    const struct mix_row *row = find("", "a");
    cr_assert_not_null(row);
    cr_expect_eq(row->requests, 2);
    cr_expect_eq(mix_sum(row).requests, 0);
    cr_expect_eq(mix_hour(mix, row, 0), 2);
}

Test(node_mix, cached_tokens_are_those_that_engines_told)
{
    struct fact_decision fact = {.kind = FACT_DECISION,
                                 .status = 200,
                                 .wall_ms = START,
                                 .prompt_tokens = 100,
                                 .cached_tokens = 500,
                                 .cached_known = true};

    mix_take(mix, &fact, "a");
    fact.cached_known = false;
    mix_take(mix, &fact, "a");
    cr_expect_eq(find("", "a")->cached, 100);
    cr_expect_eq(find("", "a")->judged, 100);
}

static double
requests_of(const struct pool_budgets *budgets)
{
    double sum = 0;

    for (uint32_t i = 0; i < POOL_BUDGETS; i++) {
        sum += budgets->requests[i];
    }
    return sum;
}

Test(node_mix, budgets_are_a_models_of_all_its_tenants_and_fade)
{
    struct fact_decision fact = {.kind = FACT_DECISION,
                                 .status = 200,
                                 .wall_ms = START,
                                 .prompt_tokens = 1000,
                                 .cached_tokens = 900,
                                 .cached_known = true,
                                 .budget_tokens = 8192,
                                 .completion_tokens = 10,
                                 .model = "m"};

    mix_take(mix, &fact, "a");
    fact.cached_known = false;
    mix_take(mix, &fact, "b");
    fact.budget_tokens = 0; /* not known */
    mix_take(mix, &fact, "b");
    take("m2", "a", START, 500, 10);
    struct pool_budgets budgets = mix_budgets(mix, SLICE("m"));
    cr_expect_eq(requests_of(&budgets), 2);
    cr_expect_eq(budgets.requests[52], 2);
    cr_expect_eq(budgets.work[52], 1100 + 20 * POOL_ANSWER_TOKENS);
    mix_pass(mix, START + MIX_HALF_MS);
    budgets = mix_budgets(mix, SLICE("m"));
    cr_expect_float_eq(requests_of(&budgets), 1, 1e-9);
    budgets = mix_budgets(mix, SLICE(""));
    cr_expect_eq(requests_of(&budgets), 0);
    budgets = mix_budgets(mix, SLICE("m3"));
    cr_expect_eq(requests_of(&budgets), 0);
}

/* A steady stream has its rate, whatever time has passed. */
Test(node_mix, counts_by_time_are_a_rate_however_they_fade)
{
    for (uint64_t minute = 0; minute < 14 * 24 * 60; minute++) {
        take("m", "a", START + minute * 60000, 100, 10);
        double span_s = mix_span_s(mix);
        if (minute > 60) {
            cr_assert_float_eq(find("m", "a")->requests / span_s, 1 / 60.0,
                               0.02 / 60, "minute %lu", (unsigned long)minute);
        }
    }
    /* Of two weeks, what a half-life of two days leaves. */
    double whole_s = (double)MIX_HALF_MS / 1000 / log(2);
    cr_expect_float_eq(mix_span_s(mix), whole_s * (1 - exp2(-7)), 2000);
    cr_expect_eq(mix_hour(mix, find("m", "a"), 1), 60);
    cr_expect_eq(mix_hour(mix, find("m", "a"), MIX_HOURS - 1), 60);
}

Test(node_mix, half_is_left_after_two_days_of_silence)
{
    take("m", "a", START, 100, 10);
    take("m", "a", START, 100, 10);
    mix_pass(mix, START + MIX_HALF_MS);
    cr_expect_float_eq(mix_sum(find("m", "a")).requests, 1, 1e-9);
    cr_expect_float_eq(mix_sum(find("m", "a")).prompt, 100, 1e-9);
    cr_expect_eq(mix_hour(mix, find("m", "a"), 48), 2);
    mix_pass(mix, START + 3 * MIX_HALF_MS);
    cr_expect_null(find("m", "a")); /* it has joined the others */
    cr_expect_float_eq(find("", "")->requests, 0.25, 1e-9);
}

Test(node_mix, too_many_pairs_are_one_row_and_a_busy_one_finds_a_place)
{
    char name[16];

    for (uint32_t i = 0; i < MIX_ROWS_MAX + 3; i++) {
        (void)snprintf(name, sizeof(name), "t%u", i);
        for (uint32_t n = 0; n < (i == 5 ? 1 : 10); n++) {
            take("m", name, START, 100, 10);
        }
    }
    cr_expect_eq(mix->beyond, 30);
    cr_expect_eq(find("", "")->requests, 30);
    mix_pass(mix, START + MIX_HOUR_MS);
    cr_expect_null(find("m", "t5")); /* the least */
    take("m", "new", START + MIX_HOUR_MS, 100, 10);
    cr_expect_not_null(find("m", "new"));
    double all = 0;
    for (uint32_t i = 0; i <= MIX_ROWS_MAX; i++) {
        all += mix->row[i].requests;
    }
    cr_expect_float_eq(all, ((MIX_ROWS_MAX + 2) * 10 + 1) * exp2(-1 / 48.0) + 1,
                       1e-6);
}

Test(node_mix, a_wrong_clock_costs_no_more_than_what_is_kept)
{
    take("m", "a", START, 100, 10);
    take("m", "a", START - 3600000, 100, 10); /* an hour back: stands still */
    cr_expect_eq(mix_hour(mix, find("m", "a"), 0), 2);
    take("m", "a", START - 48 * MIX_HOUR_MS, 100, 10);
    cr_expect_eq(mix_hour(mix, find("m", "a"), 0), 1);
    cr_expect_eq(mix_sum(find("m", "a")).requests, 3);
    take("m", "a", UINT64_MAX, 100, 10);
    take("m", "a", 0, 100, 10);
    cr_expect(mix_span_s(mix) >= 0);
    cr_expect_eq(mix_hour(mix, find("m", "a"), 0), 1);
}

static struct buf bytes;

static void
save(void)
{
    buf_init(&bytes, (size_t)4 << 20);
    mix_save(mix, &bytes);
    cr_assert_not(bytes.failed);
}

Test(node_mix, it_comes_back_as_it_was_but_for_the_time_between)
{
    take("m", "a", START, 100, 10);
    take("m", "a", START + 60000, 100000, 999);
    take("", "b", START + 60000, 7, 1);
    save();
    struct mix *again = mix_new(0);
    cr_assert(mix_load(again, buf_slice(&bytes), START + 120000));
    cr_expect_float_eq(mix_span_s(again), 60, 0.002);
    for (uint32_t i = 0; i < 2; i++) {
        const struct mix_row *was = &mix->row[i];
        const struct mix_row *is = &again->row[i];
        cr_expect_str_eq(is->model, was->model);
        cr_expect_str_eq(is->tenant, was->tenant);
        cr_expect_float_eq(is->requests, was->requests, 0.001);
        cr_expect_arr_eq(is->hour, was->hour, sizeof(is->hour));
        cr_expect_eq(mix_longest(is), mix_longest(was));
        for (uint32_t c = 0; c < MIX_CELLS; c++) {
            cr_assert_float_eq(is->cell[c].requests, was->cell[c].requests,
                               0.001);
            cr_assert_float_eq(is->cell[c].prompt, was->cell[c].prompt, 0.001);
            cr_assert_float_eq(is->cell[c].answer, was->cell[c].answer, 0.001);
        }
        for (uint32_t c = 0; c < POOL_BUDGETS; c++) {
            cr_assert_float_eq(is->budgets.requests[c],
                               was->budgets.requests[c], 0.001);
            cr_assert_float_eq(is->budgets.work[c], was->budgets.work[c],
                               0.001);
        }
    }
    cr_assert(mix_load(again, buf_slice(&bytes), START + 60000 + MIX_HALF_MS));
    cr_expect_float_eq(again->row[0].requests, 1, 0.01);
    cr_expect_float_eq(mix_span_s(again), 30, 0.1);
    mix_free(again);
    buf_fini(&bytes);
}

Test(node_mix, a_full_one_fits_into_what_a_snapshot_takes)
{
    char name[FACT_MODEL_MAX];

    for (uint32_t row = 0; row <= MIX_ROWS_MAX; row++) {
        (void)snprintf(name, sizeof(name), "%062u", row);
        for (uint32_t p = 0; p < 24; p++) {
            for (uint32_t a = 0; a < 20; a++) {
                take(name, name, START, (UINT32_C(1) << p) * 3 / 2 + (p == 0),
                     (UINT32_C(1) << a));
                take(name, name, START, UINT32_C(1) << p, (3U << a) / 2);
            }
        }
    }
    for (uint32_t row = 0; row <= MIX_ROWS_MAX; row++) {
        for (uint32_t i = 0; i < POOL_BUDGETS; i++) {
            mix->row[row].budgets.requests[i] += 1;
        }
    }
    save();
    cr_expect_lt(bytes.len, (size_t)2 << 20);
    struct mix *again = mix_new(0);
    cr_expect(mix_load(again, buf_slice(&bytes), START));
    cr_expect_float_eq(again->row[MIX_ROWS_MAX].requests,
                       mix->row[MIX_ROWS_MAX].requests, 0.001);
    mix_free(again);
    buf_fini(&bytes);
}

/* Digests of a file keep such bytes away; nothing else may depend on that. */
Test(node_mix, other_bytes_leave_it_empty_or_within_its_bounds)
{
    struct rng rng;
    uint32_t refused = 0;

    rng_init(&rng, 19);
    take("m", "a", START, 100, 10);
    take("n", "b", START, 5000, 10);
    save();
    struct mix *again = mix_new(0);
    cr_expect_not(mix_load(again, (struct slice){NULL, 0}, START));
    for (uint32_t i = 0; i < 4000; i++) {
        struct slice part = buf_slice(&bytes);
        size_t at = rng_below(&rng, bytes.len);
        char was = bytes.ptr[at];
        bytes.ptr[at] = (char)(uint8_t)rng_next(&rng);
        if (i % 4 == 0) {
            part.len = at;
        }
        if (!mix_load(again, part, START)) {
            refused++;
            cr_assert_not(again->row[0].used);
        }
        cr_assert(mix_span_s(again) >= 0);
        bytes.ptr[at] = was;
    }
    cr_expect_gt(refused, 100);
    mix_free(again);
    buf_fini(&bytes);
}
