/* traceparent, as W3C Trace Context has it. */
#include <criterion/criterion.h>

#include "node/http/http_trace.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN  "b7ad6b7169203331"

static const char *
again(const char *value)
{
    static char text[HTTP_TRACE_TEXT];
    struct http_trace trace;

    return http_trace_read(slice_of(value), &trace)
               ? http_trace_text(&trace, text)
               : "none";
}

Test(node_http_trace, what_is_read_is_written_again)
{
    cr_assert_str_eq(again("00-" TRACE "-" SPAN "-01"),
                     "00-" TRACE "-" SPAN "-01");
    cr_assert_str_eq(again("00-" TRACE "-" SPAN "-00"),
                     "00-" TRACE "-" SPAN "-00");
}

Test(node_http_trace, flags_that_nobody_knows_do_not_go_on)
{
    cr_assert_str_eq(again("00-" TRACE "-" SPAN "-ff"),
                     "00-" TRACE "-" SPAN "-03");
}

Test(node_http_trace, a_later_version_is_read_as_far_as_it_is_known)
{
    cr_assert_str_eq(again("cc-" TRACE "-" SPAN "-01-what"),
                     "00-" TRACE "-" SPAN "-01");
    cr_assert_str_eq(again("cc-" TRACE "-" SPAN "-01"),
                     "00-" TRACE "-" SPAN "-01");
    cr_assert_str_eq(again("cc-" TRACE "-" SPAN "-01.what"), "none");
}

Test(node_http_trace, what_is_malformed_is_none)
{
    static const char *const cases[] = {
        "",
        "00-" TRACE "-" SPAN "-0",
        "00-" TRACE "-" SPAN "-01-",
        "00-" TRACE "-" SPAN "-01x",
        "ff-" TRACE "-" SPAN "-01",
        "0x-" TRACE "-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01",
        "00-0af7651916cd43dd8448eb211c80319g-" SPAN "-01",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01",
        "00-" TRACE "-" SPAN "_01",
        "00-" TRACE "-" SPAN "-0g",
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_str_eq(again(cases[i]), "none", "%s", cases[i]);
    }
}
