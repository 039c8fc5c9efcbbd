#include <criterion/criterion.h>
#include <string.h>

#include "node/text/quote.h"

static char out[QUOTE_ROOM];

Test(node_quote, text_stands_between_quotes_and_escaped)
{
    cr_assert_str_eq(quote_text(SLICE(""), out), "\"\"");
    cr_assert_str_eq(quote_text(SLICE("a b"), out), "\"a b\"");
    cr_assert_str_eq(quote_text(SLICE("a\"\n\x1b"), out),
                     "\"a\\\"\\n\\u001b\"");
}

Test(node_quote, only_what_is_too_long_ends_in_dots)
{
    char text[QUOTE_MAX + 2];

    memset(text, 'x', sizeof text);
    text[QUOTE_MAX] = '\0';
    cr_assert_eq(strlen(quote_text(slice_of(text), out)), QUOTE_MAX + 2);
    cr_assert_null(strstr(out, "..."));
    text[QUOTE_MAX] = 'x';
    text[QUOTE_MAX + 1] = '\0';
    cr_assert_eq(strlen(quote_text(slice_of(text), out)), QUOTE_ROOM - 1);
    cr_assert_str_eq(out + QUOTE_MAX + 1, "...\"");
}
