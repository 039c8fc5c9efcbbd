#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "chaos/plan/plan_paper.h"

static struct plan_paper paper;

/* The paper's column of a table, beside what the reconstruction gives. */
static void
expect_table(const char *table, const double *values, uint32_t count,
             double within)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < paper.count; i++) {
        const struct plan_paper_row *row = &paper.rows[i];
        if (strcmp(row->table, table) == 0) {
            cr_assert_lt(at, count);
            cr_expect_float_eq(row->reconstructed, values[at], within,
                               "%s: %s: %g", table, row->what,
                               row->reconstructed);
            at++;
        }
    }
    cr_expect_eq(at, count);
}

Test(chaos_plan_paper, reconstructed_mixes_give_the_papers_tables)
{
    static const double rates[] = {3.0, 13.5, 0.4, 4.1, 6.8, 0.09};
    static const double engines[] = {361, 72,  229, 301, 16.62, 1.16,
                                     265, 155, 8,   163, 38.49, 1.97};
    static const double figure[] = {9.1,  10.8, 13.9, 16.6, 19.1, 20.5,
                                    31.3, 37.4, 37.4, 38.5, 34.3, 23.8};

    cr_assert_eq(plan_paper_make(0, 42, &paper), 0);
    expect_table("Table 1", rates, 6, 0.09);
    expect_table("Table 2", engines, 12, 0.02);
    expect_table("Figure 6", figure, 12, 0.06);
}

Test(chaos_plan_paper, its_estimate_keeps_some_of_its_start)
{
    /* Then what is mis-routed: the paper has 0.3, 0.2, 0.8 and 0.4 %. */
    static const double biased[] = {4.443, 3.557, 2.163, 3.825,
                                    0.19,  0.11,  0.82,  0.06};
    static const double always[] = {0.70, 0.41, 2.76, 0.16, 1.01};
    static const double unbiased[] = {4.48, 3.52, 2.01, 3.81, 0, 0, 0, 0};
    static const double money[] = {23.5, 47, 676, 338, 50.6, 35.2, 30.5};

    cr_assert_eq(plan_paper_make(0, 42, &paper), 0);
    expect_table("Table 4", biased, 8, 0.01);
    expect_table("unbiased", unbiased, 8, 1e-9);
    expect_table("always 4", always, 5, 0.01);
    expect_table("Table 5", money, 7, 0.08);
}

Test(chaos_plan_paper, measured_lengths_save_as_the_facts_say)
{
    static const double measured[] = {210, 126, 1, 127, 637, 354, 48, 402};
    uint32_t at = 0;

    cr_assert_eq(plan_paper_make(0, 42, &paper), 0);
    for (uint32_t i = 0; i < paper.count; i++) {
        if (strcmp(paper.rows[i].table, "Table 2") == 0 &&
            paper.rows[i].digits == 0) {
            cr_assert_lt(at, 8);
            cr_expect_eq(paper.rows[i].measured, measured[at++]);
        }
    }
    cr_expect_eq(at, 8);
}

Test(chaos_plan_paper, a_short_play_fills_table_3)
{
    struct buf out;
    uint32_t played = 0;

    cr_assert_eq(plan_paper_make(50, 42, &paper), 0);
    for (uint32_t i = 0; i < paper.count; i++) {
        if (strcmp(paper.rows[i].table, "Table 3") == 0) {
            played++;
            cr_expect_gt(paper.rows[i].reconstructed, 0);
            cr_expect_gt(paper.rows[i].measured, 0);
        }
    }
    cr_expect_eq(played, 26);
    buf_init(&out, 1 << 20);
    plan_paper_json(&paper, &out);
    cr_assert_not(out.failed);
    json_t *root = json_loadb(out.ptr, out.len, 0, NULL);
    cr_assert_not_null(root);
    cr_expect_eq(json_array_size(json_object_get(root, "rows")), paper.count);
    json_decref(root);
    buf_fini(&out);
}
