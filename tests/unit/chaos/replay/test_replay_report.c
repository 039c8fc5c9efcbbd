#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "chaos/replay/replay_report.h"

static const struct replay_row rows[] = {
    {.policy = REPLAY_KVASIR,
     .load_permille = 1000,
     .result = {.sent = 200,
                .finished = 200,
                .prompt_tokens = 10000,
                .cached_tokens = 8123,
                .promised_tokens = 8200,
                .output_tokens = 4000,
                .ttft_p50_us = 12345,
                .ttft_p99_us = 12345678,
                .whole_p50_us = 2345678,
                .whole_p99_us = 23456789,
                .itl_p50_us = 15000,
                .itl_p99_us = 20500,
                .within_slo = 150,
                .busy_us = 7654321,
                .took_us = 2000000,
                .modes = {150, 40, 10, 0},
                .imbalance_permille = 1234,
                .peak = 17}},
    {.policy = REPLAY_ROUND_ROBIN,
     .load_permille = 1000,
     .result = {.sent = 200, .modes = {0, 0, 0, 200}}},
    {.policy = REPLAY_KVASIR,
     .load_permille = 2500,
     .result = {.sent = 200, .refused = 3, .modes = {200, 0, 0, 0}}},
};

static const struct replay_report report = {
    .load = "b2b",
    .timing = "h100",
    .nodes = 3,
    .engines = 8,
    .kv_tokens = 1600,
    .seed = 5,
    .requests = 200,
    .sharing_permille = 850,
    .bound_share = 9165,
    .rows = rows,
    .rows_count = 3,
};

static struct buf out;

static void
setup(void)
{
    buf_init(&out, 1 << 20);
}

static void
teardown(void)
{
    buf_fini(&out);
}

TestSuite(chaos_replay_report, .init = setup, .fini = teardown);

static const char *
text(void)
{
    buf_add(&out, "", 1);
    cr_assert_not(out.failed);
    return out.ptr;
}

Test(chaos_replay_report, the_table_has_a_row_for_each_policy_and_load)
{
    replay_report_table(&report, &out);
    const char *table = text();
    cr_expect_not_null(
        strstr(table, "\nx1.00 kvasir             82.00  81.23       12.3"
                      "      12345       20.5     2345.6      23456  75.00"
                      "     2000  100.0       7   1.23    17   75  20   5\n"),
        "%s", table);
    cr_expect_not_null(strstr(table, "would find 91.65 % of their tokens"));
    cr_expect_not_null(strstr(table, "x1.00 round_robin"));
    cr_expect_not_null(strstr(table, "    -   -   -\n\nx2.50 kvasir "));
    cr_expect_not_null(strstr(table, "share 85.0 % of their blocks"));
    cr_expect_not_null(strstr(table, "\n3 requests were refused"));
}

Test(chaos_replay_report, what_crossed_has_a_table_of_its_own)
{
    struct replay_row row = rows[0];
    struct replay_report apart = report;

    row.result.inside = (struct replay_side){.finished = 150,
                                             .prompt_tokens = 6000,
                                             .cached_tokens = 1500,
                                             .ttft_p50_us = 1064,
                                             .ttft_p99_us = 2064};
    row.result.across = (struct replay_side){.finished = 50,
                                             .prompt_tokens = 4000,
                                             .cached_tokens = 3000,
                                             .ttft_p50_us = 51016,
                                             .ttft_p99_us = 51064};
    apart.rows = &row;
    apart.rows_count = 1;
    replay_report_table(&apart, &out);
    const char *table = text();
    cr_expect_not_null(
        strstr(table,
               "\nx1.00 kvasir                    75.00  25.00        1.0"
               "        2.0          25.00  75.00       51.0"
               "       51.0\n"),
        "%s", table);
}

Test(chaos_replay_report, json_has_the_same_numbers)
{
    json_error_t error;

    replay_report_json(&report, &out);
    json_t *json = json_loads(text(), 0, &error);
    cr_assert_not_null(json, "%s", error.text);
    json_t *row = json_array_get(json_object_get(json, "rows"), 0);
    cr_expect_str_eq(json_string_value(json_object_get(row, "policy")),
                     "kvasir");
    cr_expect_eq(json_integer_value(json_object_get(row, "cached_tokens")),
                 8123);
    cr_expect_float_eq(json_real_value(json_object_get(row, "itl_p99_ms")),
                       20.5, 1e-9);
    cr_expect_float_eq(json_real_value(json_object_get(json, "bound")), 0.916,
                       1e-9);
    cr_expect_float_eq(json_real_value(json_object_get(row, "ttft_p50_ms")),
                       12.345, 1e-9);
    cr_expect_eq(
        json_integer_value(json_object_get(row, "output_tokens_per_s")), 2000);
    cr_expect_eq(json_integer_value(json_object_get(
                     json_object_get(row, "modes"), "imbalanced")),
                 10);
    cr_expect_eq(json_array_size(json_object_get(json, "rows")), 3);
    json_decref(json);
}

static size_t
count_of(const char *where, const char *what)
{
    size_t count = 0;

    for (; (where = strstr(where, what)) != NULL; where++) {
        count++;
    }
    return count;
}

Test(chaos_replay_report, the_plot_has_a_line_per_policy_and_panel)
{
    replay_report_svg(&report, &out);
    const char *svg = text();
    cr_expect_eq(strncmp(svg, "<svg ", 5), 0);
    cr_expect_eq(count_of(svg, "<polyline "), 3 * 2);
    cr_expect_eq(count_of(svg, "<circle "), 3 * 3);
    cr_expect_not_null(strstr(svg, ">kvasir</text>"));
    cr_expect_null(strstr(svg, ">random</text>"));
    cr_expect_null(strstr(svg, "nan"));
    cr_expect_not_null(strstr(svg, "</svg>\n"));
}

/* The last of the legend, a box with a name behind it, is within the edge. */
Test(chaos_replay_report, the_plot_has_room_for_every_policy)
{
    struct replay_row all[REPLAY_POLICIES];
    struct replay_report full = report;
    double width = 0;
    double last = 0;

    for (unsigned p = 0; p < REPLAY_POLICIES; p++) {
        all[p] = rows[0];
        all[p].policy = (enum replay_policy)p;
    }
    full.rows = all;
    full.rows_count = REPLAY_POLICIES;
    replay_report_svg(&full, &out);
    const char *svg = text();
    cr_assert_eq(sscanf(strstr(svg, "width=\""), "width=\"%lf\"", &width), 1);
    for (const char *at = svg; (at = strstr(at, "<rect x=\"")) != NULL; at++) {
        double x = 0;
        cr_assert_eq(sscanf(at, "<rect x=\"%lf\"", &x), 1);
        last = x > last ? x : last;
    }
    cr_expect_gt(last, 0);
    cr_expect_leq(last + 92, width);
}
