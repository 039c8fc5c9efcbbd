#include <criterion/criterion.h>
#include <string.h>

#include "node/base/histogram.h"

static struct histogram histogram;
static struct buf out;

static bool
says(const char *line)
{
    buf_init(&out, 65536);
    histogram_print(&histogram, "x_seconds", "Times", &out);
    buf_add(&out, "", 1);
    cr_assert_not(out.failed);
    bool found = strstr(out.ptr, line) != NULL;
    buf_fini(&out);
    return found;
}

Test(node_histogram, a_bound_belongs_to_its_bucket)
{
    histogram_add(&histogram, 10);
    histogram_add(&histogram, 11);
    cr_assert(says("x_seconds_bucket{le=\"1e-05\"} 1\n"));
    cr_assert(says("x_seconds_bucket{le=\"2e-05\"} 2\n"));
}

Test(node_histogram, what_exceeds_every_bound_is_counted)
{
    histogram_add(&histogram, UINT64_C(200000000));
    cr_assert(says("x_seconds_bucket{le=\"100\"} 0\n"));
    cr_assert(says("x_seconds_bucket{le=\"+Inf\"} 1\n"));
    cr_assert(says("x_seconds_sum 200.000000\n"));
    cr_assert(says("x_seconds_count 1\n"));
}

Test(node_histogram, a_series_has_its_labels_and_no_comments)
{
    histogram_add(&histogram, 10);
    buf_init(&out, 65536);
    histogram_print_series(&histogram, "x_seconds", "mode=\"a\"", &out);
    buf_add(&out, "", 1);
    cr_assert_not(out.failed);
    cr_assert_null(strchr(out.ptr, '#'));
    cr_assert(strstr(out.ptr, "x_seconds_bucket{mode=\"a\",le=\"1e-05\"} 1\n"));
    cr_assert(strstr(out.ptr, "x_seconds_bucket{mode=\"a\",le=\"+Inf\"} 1\n"));
    cr_assert(strstr(out.ptr, "x_seconds_sum{mode=\"a\"} 0.000010\n"));
    cr_assert(strstr(out.ptr, "x_seconds_count{mode=\"a\"} 1\n"));
    cr_assert_eq(histogram_count(&histogram), 1);
    buf_fini(&out);
}

Test(node_histogram, a_merge_adds_buckets_and_sums)
{
    struct histogram other = {0};

    histogram_add(&histogram, 10);
    histogram_add(&other, 1000000);
    histogram_merge(&histogram, &other);
    cr_assert(says("x_seconds_bucket{le=\"1\"} 2\n"));
    cr_assert(says("x_seconds_bucket{le=\"0.5\"} 1\n"));
    cr_assert(says("x_seconds_sum 1.000010\n"));
}
