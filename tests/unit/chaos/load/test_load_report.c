#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include "chaos/load/load_report_internal.h"

static const struct load_options options = {
    .conversations = 100, .turns = 20, .seed = 9};
static struct load_stats stats;
static struct buf out;

static void
play(enum load_outcome outcome, const char *worker, uint64_t first_us)
{
    struct load_end end = {
        .outcome = outcome,
        .worker = slice_of(worker),
        .has_first = first_us != 0,
        .first_us = first_us,
        .whole_us = first_us + 1000,
        .usage = {1000, 625, 8},
    };

    load_stats_send(&stats);
    load_stats_end(&stats, &end);
}

static void
setup(void)
{
    buf_init(&out, 65536);
    cr_assert_eq(load_stats_init(&stats, 2000), 0);
}

static void
teardown(void)
{
    buf_fini(&out);
    load_stats_fini(&stats);
}

TestSuite(chaos_load_report, .init = setup, .fini = teardown);

static struct load_report
report(void)
{
    return (struct load_report){.options = &options,
                                .stats = &stats,
                                .elapsed_us = 61234567,
                                .not_sent = 100};
}

static const char *
text(void)
{
    buf_add(&out, "", 1);
    cr_assert_not(out.failed);
    return out.ptr;
}

Test(chaos_load_report, the_table_says_it_all)
{
    struct load_report r = report();

    for (int i = 0; i < 1500; i++) {
        play(LOAD_ANSWERED, i % 3 ? "b" : "a", 12345);
    }
    play(LOAD_SEVERED, "a", 99000);
    play(LOAD_TIMEOUT, NULL, 0);
    load_report_table(&r, &out);
    cr_assert_str_eq(
        text(), "requests  1,502 sent, 1,500 answered, 2 failed (1 timeout, "
                "1 severed), 498 not sent\n"
                "tokens    1,500,000 prompt, 937,500 cached (62.5 %), 12,000 "
                "generated\n"
                "TTFT      p50 12.3 ms, p90 12.3 ms, p99 12.3 ms, max 99.0 ms\n"
                "whole     p50 13.3 ms, p90 13.3 ms, p99 13.3 ms, max 13.3 ms\n"
                "workers   a 501, b 1000\n"
                "time      61.2 s, 24.5 requests/s\n");
}

Test(chaos_load_report, nothing_at_all_is_a_table_too)
{
    struct load_report r = report();

    load_report_table(&r, &out);
    const char *table = text();
    cr_assert_not_null(strstr(table, "0 sent, 0 answered, 0 failed, 2,000 not "
                                     "sent\n"));
    cr_assert_not_null(strstr(table, "TTFT      none\n"));
    cr_assert_not_null(strstr(table, "workers   not told\n"));
}

Test(chaos_load_report, json_has_the_same_numbers)
{
    struct load_report r = report();

    play(LOAD_ANSWERED, "b", 12345);
    play(LOAD_SEVERED, "a\"", 99000);
    load_report_json(&r, &out);
    cr_assert_eq(out.ptr[out.len - 1], '\n');
    json_t *json = json_loadb(out.ptr, out.len, 0, NULL);
    cr_assert_not_null(json);
    json_t *part = json_object_get(json, "requests");
    cr_assert_eq(json_integer_value(json_object_get(part, "planned")), 2000);
    cr_assert_eq(json_integer_value(json_object_get(part, "sent")), 2);
    cr_assert_eq(json_integer_value(json_object_get(part, "answered")), 1);
    cr_assert_eq(json_integer_value(json_object_get(part, "failed")), 1);
    cr_assert_eq(json_integer_value(json_object_get(part, "not_sent")), 1998);
    part = json_object_get(json, "failures");
    cr_assert_eq(json_object_size(part), LOAD_OUTCOMES - 1);
    cr_assert_eq(json_integer_value(json_object_get(part, "severed")), 1);
    part = json_object_get(json, "ttft_ms");
    cr_assert_float_eq(json_real_value(json_object_get(part, "p50")), 12.345,
                       1e-9);
    part = json_object_get(json, "workers");
    cr_assert_eq(json_array_size(part), 2);
    part = json_array_get(part, 0);
    cr_assert_str_eq(json_string_value(json_object_get(part, "id")), "a\"");
    cr_assert_eq(json_integer_value(json_object_get(part, "failed")), 1);
    cr_assert_float_eq(json_real_value(json_object_get(json, "cached_ratio")),
                       0.625, 1e-9);
    json_decref(json);
}

Test(chaos_load_report, progress_counts_what_will_not_be_sent_as_over)
{
    struct load_report r = report();

    for (int i = 0; i < 899; i++) {
        play(LOAD_ANSWERED, "a", 1);
    }
    play(LOAD_SEVERED, "a", 1);
    load_report_progress(&r, true, &out);
    cr_assert_str_eq(text(), "[############............]  50 %  899 of 2,000 "
                             "answered, 1 failed, 62 % cached, 61 s");
    buf_clear(&out);
    load_report_progress(&r, false, &out);
    cr_assert_str_eq(text(), " 50 %  899 of 2,000 answered, 1 failed, 62 % "
                             "cached, 61 s");
}
