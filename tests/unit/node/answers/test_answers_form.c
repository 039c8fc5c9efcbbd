/* One name for one value, however it is written, and another for another. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/answers/answers_form.h"

static struct answers_form
form_of(const char *body)
{
    struct answers_form form;

    cr_assert(answers_form_read_around(slice_of(body), SLICE(""), 7, &form),
              "%s", body);
    return form;
}

static bool
is_same(const char *a, const char *b)
{
    struct key_wide one = form_of(a).name;
    struct key_wide other = form_of(b).name;

    return one.low == other.low && one.high == other.high;
}

Test(answers_form, order_of_members_and_blanks_do_not_count)
{
    cr_assert(is_same("{\"a\":1,\"b\":{\"c\":[1,2],\"d\":\"x\"}}",
                      " {\"b\" : {\"d\":\"x\",\n\"c\":[ 1 , 2 ]}, \"a\":1 } "));
}

Test(answers_form, everything_else_counts)
{
    static const char *const all[] = {
        "{}",
        "{\"a\":1}",
        "{\"a\":1.0}",
        "{\"a\":\"1\"}",
        "{\"a\":true}",
        "{\"a\":false}",
        "{\"a\":null}",
        "{\"a\":\"\"}",
        "{\"a\":{}}",
        "{\"a\":[]}",
        "{\"a\":[[]]}",
        "{\"a\":[{}]}",
        "{\"a\":[1,2]}",
        "{\"a\":[2,1]}",
        "{\"a\":[12]}",
        "{\"a\":[\"1\",2]}",
        "{\"a\":[[1],2]}",
        "{\"a\":[1,[2]]}",
        "{\"a\":[[1,2]]}",
        "{\"b\":1}",
        "{\"a\":1,\"b\":1}",
        "{\"a\":{\"b\":1}}",
        "{\"a\":{\"a\":1}}",
        "{\"a\":\"A\"}",
        "{\"a\":\"\\u0041\"}",
        "{\"ab\":\"c\"}",
        "{\"a\":\"bc\"}",
    };
    size_t count = sizeof(all) / sizeof(*all);

    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++) {
            cr_expect_eq(is_same(all[i], all[k]), i == k, "%s %s", all[i],
                         all[k]);
        }
    }
}

/* Texts and lists longer than what is taken at a time, told apart by one byte
 * anywhere. */
Test(answers_form, one_byte_counts_wherever_it_is)
{
    enum {
        ITEMS = 700,
        EACH = 6
    };
    char body[ITEMS * EACH + 16];
    char other[sizeof(body)];
    size_t len = (size_t)snprintf(body, sizeof(body), "{\"p\":[");

    for (unsigned i = 0; i < ITEMS; i++) {
        len += (size_t)snprintf(body + len, sizeof(body) - len, "%s%u",
                                i != 0 ? "," : "", 10000 + i);
    }
    (void)snprintf(body + len, sizeof(body) - len, "]}");
    for (size_t at = 6; at < len; at++) {
        memcpy(other, body, sizeof(body));
        if (body[at] != ',') {
            other[at] = body[at] == '9' ? '8' : '9';
            cr_assert_not(is_same(body, other), "at %zu", at);
        }
    }
    memset(body, 'x', 3000);
    memcpy(body, "{\"p\":\"", 6);
    memcpy(body + 2998, "\"}", 3);
    for (size_t at = 6; at < 2998; at += 7) {
        memcpy(other, body, sizeof(body));
        other[at] = 'y';
        cr_assert_not(is_same(body, other), "at %zu", at);
    }
}

Test(answers_form, what_depends_on_the_order_of_members_has_no_name)
{
    static const char *const bad[] = {
        "{\"a\":1,\"a\":1}",
        "{\"b\":{\"a\":1,\"c\":2,\"a\":2}}",
        "{\"\\u0061\":1}",
        "{\"a\":1",
        "[]",
        "1",
        "{\"a\":1} {}",
        "",
    };
    struct answers_form form;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        cr_expect_not(
            answers_form_read_around(slice_of(bad[i]), SLICE(""), 7, &form),
            "%s", bad[i]);
    }
}

Test(answers_form, too_many_members_or_levels_have_no_name)
{
    char body[ANSWERS_MEMBERS_MAX * 8 + 64] = "{";
    struct answers_form form;
    size_t len = 1;

    for (unsigned i = 0; i < ANSWERS_MEMBERS_MAX; i++) {
        len += (size_t)snprintf(body + len, sizeof(body) - len, "%s\"%u\":1",
                                i != 0 ? "," : "", i);
    }
    memcpy(body + len, "}", 2);
    cr_assert(answers_form_read_around(slice_of(body), SLICE(""), 7, &form));
    memcpy(body + len, ",\"z\":1}", 8);
    cr_assert_not(
        answers_form_read_around(slice_of(body), SLICE(""), 7, &form));
    memcpy(body, "{\"a\":", 5);
    memset(body + 5, '[', 80);
    memset(body + 85, ']', 80);
    memcpy(body + 165, "}", 2);
    cr_assert_not(
        answers_form_read_around(slice_of(body), SLICE(""), 7, &form));
}

Test(answers_form, what_rules_look_at_is_noted_at_the_top_alone)
{
    struct answers_form form =
        form_of("{\"seed\":1,\"store\":false,\"web_search_options\":{}}");

    cr_assert(form.seeded && form.unstored && form.searches);
    form = form_of("{\"seed\":null,\"store\":true,\"web_search_options\":null,"
                   "\"x\":{\"seed\":1,\"store\":false},\"y\":[{\"seed\":2}],"
                   "\"z\":{\"web_search_options\":{}}}");
    cr_assert(!form.seeded && !form.unstored && !form.searches);
}

Test(answers_form, another_seed_is_another_name)
{
    struct answers_form one;
    struct answers_form other;

    cr_assert(answers_form_read_around(SLICE("{\"a\":1}"), SLICE(""), 1, &one));
    cr_assert(
        answers_form_read_around(SLICE("{\"a\":1}"), SLICE(""), 2, &other));
    cr_assert(one.name.low != other.name.low);
    one.name = answers_form_add(one.name, SLICE("x"), 1);
    other.name = answers_form_add(one.name, SLICE(""), 1);
    cr_assert(one.name.low != other.name.low);
}

/* The form around the text of "q". */
static struct answers_form
around(const char *body)
{
    struct answers_form form;
    const char *from = strstr(body, "\"q\":\"");

    cr_assert_not_null(from);
    from += 5;
    struct slice hole = {from, (size_t)(strchr(from, '"') - from)};
    cr_assert(answers_form_read_around(slice_of(body), hole, 7, &form));
    return form;
}

static bool
is_equal(struct key_wide a, struct key_wide b)
{
    return a.low == b.low && a.high == b.high;
}

Test(answers_form, a_kin_is_all_but_the_hole)
{
    struct answers_form one = around("{\"a\":[1,{\"q\":\"x\"}],\"b\":\"x\"}");
    struct answers_form words =
        around("{\"b\":\"x\",\"a\":[1,{\"q\":\"yy\"}]}");
    struct answers_form beside =
        around("{\"a\":[1,{\"q\":\"x\"}],\"b\":\"y\"}");

    cr_assert(one.holed && words.holed && beside.holed);
    cr_expect(is_equal(one.kin, words.kin));
    cr_expect_not(is_equal(one.name, words.name));
    cr_expect_not(is_equal(one.kin, beside.kin));
    cr_expect_not(is_equal(one.name, one.kin));
    cr_expect_not(form_of("{\"q\":\"x\"}").holed);
}
