#include <criterion/criterion.h>

#include "node/text/json_show.h"

static struct buf out;

static const char *
show(const char *json)
{
    buf_clear(&out);
    cr_assert_eq(json_show(slice_of(json), &out), 0);
    buf_add(&out, "", 1);
    return out.ptr;
}

static void
setup(void)
{
    buf_init(&out, 1 << 20);
}

static void
teardown(void)
{
    buf_fini(&out);
}

TestSuite(node_json_show, .init = setup, .fini = teardown);

Test(node_json_show, scalars_objects_and_lists_are_lines)
{
    cr_assert_str_eq(
        show("{\"node\":\"n1\",\"ready\":true,\"draining\":false,\"worker\":"
             "null,\"requests\":{\"read\":5,\"inner\":{\"a\":1.5,\"b\":[1,2]}},"
             "\"names\":[\"x\",\"y\"],\"none\":[],\"a_long_name_of_it\":1}"),
        "node          n1\n"
        "ready         yes\n"
        "draining      no\n"
        "worker        none\n"
        "requests      read=5  inner.a=1.5  inner.b=1  inner.b=2\n"
        "names         x, y\n"
        "none          none\n"
        "a_long_name_of_it  1\n");
}

Test(node_json_show, lists_of_objects_are_tables_without_empty_columns)
{
    cr_assert_str_eq(
        show("{\"workers\":["
             "{\"id\":\"gpu-1\",\"reason\":\"\",\"load\":5,\"models\":[\"m\","
             "\"n\"]},"
             "{\"id\":\"g\",\"reason\":\"\",\"load\":1234567,\"late\":true},"
             "{\"models\":[],\"load\":0,\"labels\":{\"pool\":\"x\"}}]}"),
        "workers\n"
        "  ID        LOAD  MODELS  LATE  LABELS\n"
        "  gpu-1        5  m,n\n"
        "  g      1234567          yes\n"
        "               0                pool=x\n");
}

Test(node_json_show, bytes_are_scaled)
{
    cr_assert_str_eq(
        show("{\"i\":{\"bytes\":1023,\"x_bytes\":1024,\"bytes_max\":536870912,"
             "\"big_bytes\":18446744073709551615,\"mbytesx\":2048}}"),
        "i             bytes=1023B  x_bytes=1.0KiB  bytes_max=512.0MiB  "
        "big_bytes=18446744073709551615B  mbytesx=2048\n");
}

Test(node_json_show, nothing_that_a_terminal_obeys_passes)
{
    cr_assert_str_eq(show("{\"a\\u001b[2J\":\"x\\n\\u0000\xC2\x9B"
                          "31m\x7F\xC3\xA4\"}"),
                     "a\\u001b[2J    x\\n\\u0000?31m?\xC3\xA4\n");
    cr_assert_str_eq(show("{\"t\":[{\"a\x7F\":1}]}"), "t\n  A?\n   1\n");
}

Test(node_json_show, long_cells_are_cut_between_characters)
{
    char json[1024] = "{\"w\":[{\"a\":\"";
    size_t len = strlen(json);

    for (int i = 0; i < 100; i++) {
        memcpy(json + len, "\xC3\xA4", 2);
        len += 2;
    }
    memcpy(json + len, "\",\"b\":1}]}", 11);
    const char *text = show(json);
    cr_assert_not_null(strstr(text, "\xC3\xA4...  1\n"));
    cr_assert_lt(strlen(text), 200);
}

Test(node_json_show, more_columns_than_the_bound_are_left_out)
{
    struct buf json;

    buf_init(&json, 65536);
    buf_add_text(&json, "{\"w\":[{");
    for (int i = 0; i < 100; i++) {
        buf_printf(&json, "%s\"c%d\":%d", i != 0 ? "," : "", i, i);
    }
    buf_add_text(&json, "}]}");
    buf_add(&json, "", 1);
    const char *text = show(json.ptr);
    cr_assert_not_null(strstr(text, " C31\n"));
    cr_assert_null(strstr(text, "C32"));
    buf_fini(&json);
}

Test(node_json_show, what_is_no_object_is_refused)
{
    static const char *const bad[] = {
        "", "[]", "1", "{\"a\":}", "{}x", "{\"a\":1", "{\"a\":\"\xFF\"}"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(json_show(slice_of(bad[i]), &out), JSON_SHOW_E_BAD, "%s",
                     bad[i]);
        cr_assert_eq(out.len, 0);
    }
    cr_assert_str_eq(show("{}"), "");
}
