#include <criterion/criterion.h>

#include "index/base/ascii.h"
#include "index/base/slice.h"

static bool
is(struct slice slice, const char *text)
{
    return slice_equal(slice, slice_of(text));
}

Test(slice, is_taken_up_to_the_separator)
{
    struct slice rest = SLICE("a,bc,,d");

    cr_assert(is(slice_take(&rest, ','), "a"));
    cr_assert(is(slice_take(&rest, ','), "bc"));
    cr_assert(is(slice_take(&rest, ','), ""));
    cr_assert(is(rest, "d"));
    cr_assert(is(slice_take(&rest, ','), "d"));
    cr_assert_eq(rest.len, 0);
    cr_assert(is(slice_take(&rest, ','), ""));
}

Test(slice, with_a_separator_last_has_nothing_behind_it)
{
    struct slice rest = SLICE("a,");

    cr_assert(is(slice_take(&rest, ','), "a"));
    cr_assert_eq(rest.len, 0);
}

Test(slice, takes_lines_without_their_ends)
{
    struct slice rest = SLICE("one\r\ntwo\n\r\n\nlast\r");

    cr_assert(is(slice_take_line(&rest), "one"));
    cr_assert(is(slice_take_line(&rest), "two"));
    cr_assert(is(slice_take_line(&rest), ""));
    cr_assert(is(slice_take_line(&rest), ""));
    cr_assert(is(slice_take_line(&rest), "last"));
    cr_assert_eq(rest.len, 0);
}

Test(slice, takes_words_between_blanks_and_ends_of_lines)
{
    struct slice rest = SLICE(" one\ttwo\r\n\nthree ");

    cr_assert(is(slice_take_word(&rest), "one"));
    cr_assert(is(slice_take_word(&rest), "two"));
    cr_assert(is(slice_take_word(&rest), "three"));
    cr_assert(is(slice_take_word(&rest), ""));
    cr_assert_eq(rest.len, 0);
    rest = (struct slice){.len = 0};
    cr_assert(is(slice_take_word(&rest), ""));
}

Test(slice, without_a_mark_gives_nothing_and_keeps_all)
{
    struct slice rest = SLICE("a--b-c");

    cr_assert(is(slice_take_until(&rest, SLICE("--")), "a"));
    cr_assert_null(slice_take_until(&rest, SLICE("--")).ptr);
    cr_assert(is(rest, "b-c"));
}

Test(slice, begins_and_ends_with_itself_and_nothing_longer)
{
    struct slice all = SLICE("end");

    cr_assert(slice_begins(all, all) && slice_ends(all, all));
    cr_assert(slice_begins(all, SLICE("e")) && slice_ends(all, SLICE("d")));
    cr_assert(slice_begins(all, SLICE("")) && slice_ends(all, SLICE("")));
    cr_assert_not(slice_begins(all, SLICE("end.")));
    cr_assert_not(slice_ends(all, SLICE(".end")));
    cr_assert_not(slice_begins(all, SLICE("E")));
    cr_assert(slice_begins_nocase(all, SLICE("E")));
}

Test(slice, is_as_it_was_where_it_does_not_begin_so)
{
    struct slice rest = SLICE("tcp://host");

    cr_assert_not(slice_skip_text(&rest, SLICE("TCP://")));
    cr_assert(is(rest, "tcp://host"));
    cr_assert(slice_skip_nocase(&rest, SLICE("TCP://")));
    cr_assert_not(slice_skip_nocase(&rest, SLICE("hosts")));
    cr_assert(slice_skip_text(&rest, SLICE("ho")));
    cr_assert(is(slice_take_len(&rest, 1), "s"));
    cr_assert(is(rest, "t"));
}

Test(slice, is_equal_in_either_case_for_ascii_letters_only)
{
    cr_assert(slice_equal_nocase(SLICE("Keep-Alive"), SLICE("kEEP-aLIVE")));
    cr_assert_not(slice_equal_nocase(SLICE("["), SLICE("{")));
    cr_assert_not(slice_equal_nocase(SLICE("\xC4"), SLICE("\xE4")));
}

Test(ascii, hex_digits_are_those_sixteen_in_either_case)
{
    int found = 0;

    for (int c = -128; c < 128; c++) {
        int value = ascii_hex((char)c);
        found += value >= 0 ? 1 : 0;
        cr_assert_lt(value, 16);
    }
    cr_assert_eq(found, 22);
    cr_assert_eq(ascii_hex('0'), 0);
    cr_assert_eq(ascii_hex('9'), 9);
    cr_assert_eq(ascii_hex('a'), 10);
    cr_assert_eq(ascii_hex('F'), 15);
}
