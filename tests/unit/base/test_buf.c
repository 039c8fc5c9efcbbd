#include <criterion/criterion.h>

#include "index/base/buf.h"

Test(base_buf, grows_up_to_its_bound_and_then_says_so)
{
    struct buf buf;

    buf_init(&buf, 1000);
    for (int i = 0; i < 100; i++) {
        buf_add_text(&buf, "0123456789");
    }
    cr_assert(!buf.failed);
    cr_assert_eq(buf.len, 1000);
    buf_add_text(&buf, "x");
    cr_assert(buf.failed);
    cr_assert_eq(buf.len, 1000);
    buf_clear(&buf);
    cr_assert(!buf.failed);
    buf_fini(&buf);
}

Test(base_buf, drop_keeps_the_rest)
{
    struct buf buf;

    buf_init(&buf, 100);
    buf_printf(&buf, "%s-%d", "abc", 42);
    buf_drop(&buf, 2);
    cr_assert(slice_equal(buf_slice(&buf), SLICE("c-42")));
    buf_fini(&buf);
}

Test(base_buf, numbers_are_written_whole)
{
    struct buf buf;

    buf_init(&buf, 100);
    buf_add_uint(&buf, 0);
    buf_add_text(&buf, " ");
    buf_add_uint(&buf, 907);
    buf_add_text(&buf, " ");
    buf_add_uint(&buf, UINT64_MAX);
    cr_assert(
        slice_equal(buf_slice(&buf), SLICE("0 907 18446744073709551615")));
    buf_fini(&buf);
}

Test(base_slice, trim_and_fold)
{
    cr_assert(slice_equal(slice_trim(SLICE(" \t a b ")), SLICE("a b")));
    cr_assert(
        slice_equal_nocase(SLICE("Content-Length"), SLICE("cONTENT-lENGTH")));
    cr_assert(!slice_equal_nocase(SLICE("@bc"), SLICE("`bc")));
    cr_assert_lt(slice_compare(SLICE("ab"), SLICE("abc")), 0);
    cr_assert_gt(slice_compare(SLICE("b"), SLICE("abc")), 0);
}
