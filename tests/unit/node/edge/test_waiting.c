/* The times that clients give a request to wait. */
#include <criterion/criterion.h>

#include "node/edge/edge_internal.h"

static uint64_t
ms_of(const char *text)
{
    uint64_t ms = 0;

    return waiting_read_ms(slice_of(text), &ms) ? ms : UINT64_MAX;
}

Test(node_edge_waiting, a_time_is_in_seconds_or_milliseconds)
{
    cr_assert_eq(ms_of("2"), 2000);
    cr_assert_eq(ms_of("2.5"), 2500);
    cr_assert_eq(ms_of("30S"), 30000);
    cr_assert_eq(ms_of("0.0019"), 1);
    cr_assert_eq(ms_of("500ms"), 500);
    cr_assert_eq(ms_of("0"), 0);
    cr_assert_eq(ms_of("99999999999999999999999999999999"), 86400000);
}

Test(node_edge_waiting, what_is_no_time_is_none)
{
    static const char *const texts[] = {"",   ".",     "-1",  "s",    "1m",
                                        "1 ", "1.2.3", "1e3", "soon", "ms"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        cr_assert_eq(ms_of(texts[i]), UINT64_MAX, "%s", texts[i]);
    }
}
