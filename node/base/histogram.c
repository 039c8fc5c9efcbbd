/* Latencies counted into fixed buckets. */
#include "node/base/histogram.h"

#include <inttypes.h>

#include "index/base/check.h"

const uint64_t histogram_bound_us[HISTOGRAM_BOUNDS] = {
    10,      20,      50,       100,      200,      500,       1000,   2000,
    5000,    10000,   20000,    50000,    100000,   200000,    500000, 1000000,
    2000000, 5000000, 10000000, 20000000, 50000000, 100000000,
};

void
histogram_add(struct histogram *h, uint64_t us)
{
    unsigned i = 0;

    while (i < HISTOGRAM_BOUNDS && us > histogram_bound_us[i]) {
        i++;
    }
    counter_bump(&h->bucket[i], 1);
    counter_bump(&h->sum_us, us);
}

void
histogram_merge(struct histogram *total, const struct histogram *from)
{
    CHECK(total != from);
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        counter_bump(&total->bucket[i], counter_read(&from->bucket[i]));
    }
    counter_bump(&total->sum_us, counter_read(&from->sum_us));
}

uint64_t
histogram_count(const struct histogram *h)
{
    uint64_t count = 0;

    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        count += counter_read(&h->bucket[i]);
    }
    return count;
}

void
histogram_print_series(const struct histogram *h, const char *name,
                       const char *labels, struct buf *out)
{
    const char *comma = labels[0] != '\0' ? "," : "";
    const char *open = labels[0] != '\0' ? "{" : "";
    const char *close = labels[0] != '\0' ? "}" : "";
    uint64_t count = 0;

    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
        count += counter_read(&h->bucket[i]);
        buf_printf(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels,
                   comma, (double)histogram_bound_us[i] / 1e6, count);
    }
    count += counter_read(&h->bucket[HISTOGRAM_BOUNDS]);
    buf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels,
               comma, count);
    buf_printf(out, "%s_sum%s%s%s %.6f\n", name, open, labels, close,
               (double)counter_read(&h->sum_us) / 1e6);
    buf_printf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close,
               count);
}

void
histogram_print(const struct histogram *h, const char *name, const char *help,
                struct buf *out)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    histogram_print_series(h, name, "", out);
}
