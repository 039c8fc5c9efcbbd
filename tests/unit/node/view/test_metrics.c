#include <criterion/criterion.h>
#include <string.h>

#include "node/view/metrics.h"

static struct metrics_lane lane;
static struct metrics_lane total;

/* The page of all lanes: lane, twice. */
static const char *
page(void)
{
    static struct buf out;

    memset(&total, 0, sizeof total);
    metrics_merge(&total, &lane);
    metrics_merge(&total, &lane);
    buf_fini(&out);
    buf_init(&out, 1 << 20);
    metrics_print(&total, &out);
    buf_add(&out, "", 1);
    cr_assert_not(out.failed);
    return out.ptr;
}

static bool
tells(const char *line)
{
    return strstr(page(), line) != NULL;
}

Test(node_metrics, each_end_has_its_code_and_its_reason)
{
    metrics_end(&lane.ends, METRICS_ANSWERED, 200);
    metrics_end(&lane.ends, METRICS_ANSWERED, 422);
    metrics_end(&lane.ends, metrics_reason_of("no_worker"), 503);
    metrics_end(&lane.ends, METRICS_BROKE_OFF, 206);
    cr_assert(
        tells("kvasir_requests_total{code=\"200\",reason=\"answered\"} 2\n"));
    cr_assert(
        tells("kvasir_requests_total{code=\"422\",reason=\"answered\"} 2\n"));
    cr_assert(
        tells("kvasir_requests_total{code=\"503\",reason=\"no_worker\"} 2\n"));
    cr_assert(tells("{code=\"206\",reason=\"answer_broke_off\"} 2\n"));
    cr_assert_eq(metrics_ended(&lane.ends, METRICS_ANSWERED), 2);
}

/* A counter that first appears when it is 1 never rises. */
Test(node_metrics, what_has_not_happened_is_told_too)
{
    cr_assert(tells("{code=\"502\",reason=\"all_attempts_failed\"} 0\n"));
    cr_assert(tells("{code=\"499\",reason=\"cancelled\"} 0\n"));
    cr_assert_not(tells("{code=\"500\",reason=\"answered\"}"));
}

Test(node_metrics, codes_and_reasons_that_are_not_listed_are_other)
{
    metrics_end(&lane.ends, metrics_reason_of("something new"), 299);
    metrics_end(&lane.ends, METRICS_ANSWERED, 1000000);
    cr_assert(tells("{code=\"other\",reason=\"other\"} 2\n"));
    cr_assert(tells("{code=\"other\",reason=\"answered\"} 2\n"));
}

Test(node_metrics, values_of_a_family_stand_below_one_head)
{
    counter_bump(&lane.attempts_closed, 3);
    counter_bump(&lane.retries, 1);
    cr_assert(tells("# HELP kvasir_attempts_failed_total Attempts that failed: "
                    "connect (no connection, or no memory here), "));
    cr_assert(tells("# TYPE kvasir_attempts_failed_total counter\n"
                    "kvasir_attempts_failed_total{reason=\"connect\"} 0\n"));
    cr_assert(tells("kvasir_attempts_failed_total{reason=\"closed\"} 6\n"
                    "kvasir_attempts_failed_total{reason=\"bad\"} 0\n"));
    cr_assert(tells("# TYPE kvasir_retries_total counter\n"
                    "kvasir_retries_total 2\n"));
}
