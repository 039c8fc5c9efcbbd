#include <criterion/criterion.h>

#include "node/limits/limits_rate.h"

static void
reads(const char *text, uint32_t amount, uint32_t window_ms)
{
    struct limits_rate rate = {.amount = 1};
    struct buf out;

    cr_assert(limits_rate_read(slice_of(text), &rate), "%s", text);
    cr_assert_eq(rate.amount, amount);
    cr_assert_eq(rate.window_ms, window_ms);
    buf_init(&out, 64);
    limits_rate_print(&rate, &out);
    cr_assert(slice_equal(buf_slice(&out), slice_of(text)), "%s", text);
    buf_fini(&out);
}

Test(limits_rate, is_an_amount_and_a_window_and_prints_as_it_was_read)
{
    reads("600/min", 600, 60000);
    reads("1000000000/h", 1000000000, 3600000);
    reads("10/s", 40, 4000);
    reads("none", 0, 0);
}

Test(limits_rate, what_is_none_is_refused)
{
    static const char *const wrong[] = {
        "",     "600",  "/min", "0/min",  "06/min",         "-1/min",
        "6/m",  "6/",   "6 /s", "6/min ", "1000000001/min", "250000001/s",
        "None", "1.5/s"};
    struct limits_rate rate = {.amount = 7};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert_not(limits_rate_read(slice_of(wrong[i]), &rate), "%s",
                      wrong[i]);
    }
    cr_assert_eq(rate.amount, 7);
}
