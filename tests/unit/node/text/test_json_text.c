#include <criterion/criterion.h>
#include <string.h>

#include "node/text/json_text.h"

Test(node_json_text, as_many_whole_characters_are_written_as_fit)
{
    static const char *const wanted[] = {"",     "a",    "a",
                                         "a\\n", "a\\n", "a\\n\xc3\xa4"};

    for (size_t room = 0; room < sizeof wanted / sizeof wanted[0]; room++) {
        struct slice text = SLICE("a\n\xc3\xa4");
        char out[8];
        memset(out, '#', sizeof out);
        size_t len = json_text_escape(&text, out, room);
        cr_assert(
            slice_equal((struct slice){out, len}, slice_of(wanted[room])));
        cr_assert_eq(out[len], '#');
    }
}

Test(node_json_text, a_character_is_as_long_as_utf8_says)
{
    cr_assert_eq(json_text_char(SLICE("a")), 1);
    cr_assert_eq(json_text_char(SLICE("\xc2\x80")), 2);
    cr_assert_eq(json_text_char(SLICE("\xe0\xa0\x80")), 3);
    cr_assert_eq(json_text_char(SLICE("\xf4\x8f\xbf\xbf")), 4);
    cr_assert_eq(json_text_char(SLICE("\xc1\xbf")), 0);     /* overlong */
    cr_assert_eq(json_text_char(SLICE("\xe0\x9f\xbf")), 0); /* overlong */
    cr_assert_eq(json_text_char(SLICE("\xed\xa0\x80")), 0); /* a surrogate */
    cr_assert_eq(json_text_char(SLICE("\xf4\x90\x80\x80")), 0);
    cr_assert_eq(json_text_char(SLICE("\xe2\x82")), 0); /* not whole */
    cr_assert_eq(json_text_char(SLICE("\x80")), 0);
}

Test(node_json_text, each_byte_that_is_not_utf8_is_replaced)
{
    struct slice text = SLICE("\xff\xe2\x82x");
    char out[16];
    size_t len = json_text_escape(&text, out, sizeof out);

    cr_assert(slice_equal((struct slice){out, len},
                          SLICE("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx")));
    cr_assert_eq(text.len, 0);
}
