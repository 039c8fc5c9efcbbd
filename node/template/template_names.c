/* The tables of filters and tests, and the tests. */
#include "node/template/template_filter_internal.h"
#include "node/template/template_method_internal.h"

#define F(name, params, needed)                        \
    {                                                  \
#name, tpl_filter_##name, params, needed, NULL \
    }
#define RAW(name)                               \
    {                                           \
#name, NULL, NULL, 0, tpl_filter_##name \
    }

static const struct tpl_filter filters[] = {
    F(tojson, "ensure_ascii,indent,separators,sort_keys", 0),
    F(trim, "chars", 0),
    F(length, "", 0),
    {"count", tpl_filter_length, "", 0, NULL},
    F(default, "default_value,boolean", 0),
    {"d", tpl_filter_default, "default_value,boolean", 0, NULL},
    F(join, "d,attribute", 0),
    F(string, "", 0),
    F(list, "", 0),
    F(items, "", 0),
    F(first, "", 0),
    F(last, "", 0),
    F(replace, "old,new,count", 2),
    F(upper, "", 0),
    F(lower, "", 0),
    F(title, "", 0),
    F(capitalize, "", 0),
    F(indent, "width,first,blank", 0),
    F(safe, "", 0),
    F(escape, "", 0),
    {"e", tpl_filter_escape, "", 0, NULL},
    F(forceescape, "", 0),
    F(int, "default,base", 0),
    F(float, "default", 0),
    F(abs, "", 0),
    F(round, "precision,method", 0),
    F(sum, "attribute,start", 0),
    F(min, "case_sensitive,attribute", 0),
    F(max, "case_sensitive,attribute", 0),
    F(sort, "reverse,case_sensitive,attribute", 0),
    F(dictsort, "case_sensitive,by,reverse", 0),
    F(unique, "case_sensitive,attribute", 0),
    F(groupby, "attribute,default,case_sensitive", 1),
    F(reverse, "", 0),
    F(batch, "linecount,fill_with", 1),
    F(slice, "slices,fill_with", 1),
    F(attr, "name", 1),
    F(center, "width", 0),
    F(truncate, "length,killwords,end,leeway", 0),
    F(wordcount, "", 0),
    F(urlencode, "", 0),
    RAW(map),
    RAW(select),
    RAW(reject),
    RAW(selectattr),
    RAW(rejectattr),
    RAW(format),
};

const struct tpl_filter *
tpl_filter_named(struct slice name)
{
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        if (slice_equal(slice_of(filters[i].name), name)) {
            return &filters[i];
        }
    }
    return NULL;
}

#define TEST(name)                                                          \
    static bool test_##name(struct tpl_run *run, struct json_value subject, \
                            const struct json_value *argument)

#define UNUSED ((void)run, (void)argument)

TEST(defined)
{
    UNUSED;
    return subject.kind != TPL_V_UNDEFINED;
}

TEST(undefined)
{
    UNUSED;
    return subject.kind == TPL_V_UNDEFINED;
}

TEST(none)
{
    UNUSED;
    return subject.kind == JSON_NULL;
}

TEST(string)
{
    UNUSED;
    return subject.kind == JSON_STRING;
}

TEST(number)
{
    UNUSED;
    return tpl_is_number(subject);
}

TEST(integer)
{
    UNUSED;
    return subject.kind == JSON_INT || subject.kind == JSON_BIG;
}

TEST(float)
{
    UNUSED;
    return subject.kind == JSON_REAL;
}

TEST(mapping)
{
    UNUSED;
    return subject.kind == JSON_OBJECT;
}

TEST(iterable)
{
    UNUSED;
    return tpl_can_walk(subject);
}

/* Has a length and items by number or key. */
TEST(sequence)
{
    UNUSED;
    return subject.kind == JSON_STRING || subject.kind == JSON_OBJECT ||
           subject.kind == TPL_V_UNDEFINED || subject.kind == TPL_V_RANGE ||
           tpl_is_sequence(subject);
}

TEST(boolean)
{
    UNUSED;
    return subject.kind == JSON_BOOL;
}

TEST(true)
{
    UNUSED;
    return subject.kind == JSON_BOOL && subject.as.integer != 0;
}

TEST(false)
{
    UNUSED;
    return subject.kind == JSON_BOOL && subject.as.integer == 0;
}

TEST(callable)
{
    UNUSED;
    return subject.kind == TPL_V_MACRO || subject.kind == TPL_V_GLOBAL ||
           subject.kind == TPL_V_METHOD || subject.kind == TPL_V_LOOP ||
           subject.kind == TPL_V_JOINER || subject.kind == TPL_V_UNDEFINED;
}

/* subject % by == rest */
static bool
leaves(struct tpl_run *run, struct json_value subject, struct json_value by,
       int64_t rest)
{
    return tpl_equal(run, tpl_binary(run, TPL_MOD, subject, by), tpl_int(rest));
}

TEST(odd)
{
    (void)argument;
    return leaves(run, subject, tpl_int(2), 1);
}

TEST(even)
{
    (void)argument;
    return leaves(run, subject, tpl_int(2), 0);
}

TEST(divisibleby)
{
    return leaves(run, subject, *argument, 0);
}

TEST(lower)
{
    const struct json_value *none[TPL_PARAMS_MAX] = {NULL};

    (void)argument;
    return tpl_truth(tpl_str_islower(run, tpl_soft_str(run, subject), none));
}

TEST(upper)
{
    const struct json_value *none[TPL_PARAMS_MAX] = {NULL};

    (void)argument;
    return tpl_truth(tpl_str_isupper(run, tpl_soft_str(run, subject), none));
}

TEST(escaped)
{
    UNUSED;
    return subject.kind == JSON_STRING && (subject.mark & TPL_MARK_SAFE) != 0;
}

TEST(sameas)
{
    (void)run;
    return tpl_same(subject, *argument);
}

TEST(in)
{
    return tpl_contains(run, *argument, subject);
}

TEST(eq)
{
    return tpl_equal(run, subject, *argument);
}

TEST(ne)
{
    return !tpl_equal(run, subject, *argument);
}

TEST(lt)
{
    return tpl_order(run, subject, *argument) < 0;
}

TEST(gt)
{
    return tpl_order(run, subject, *argument) == 1;
}

TEST(le)
{
    return tpl_order(run, subject, *argument) <= 0;
}

TEST(ge)
{
    int order = tpl_order(run, subject, *argument);

    return order == 0 || order == 1;
}

TEST(filter)
{
    UNUSED;
    return subject.kind == JSON_STRING &&
           tpl_filter_named(tpl_slice(subject)) != NULL;
}

TEST(test)
{
    UNUSED;
    return subject.kind == JSON_STRING &&
           tpl_test_named(tpl_slice(subject)) != NULL;
}

static const struct tpl_test tests[] = {
    {"defined", test_defined, 0},
    {"undefined", test_undefined, 0},
    {"none", test_none, 0},
    {"string", test_string, 0},
    {"number", test_number, 0},
    {"integer", test_integer, 0},
    {"float", test_float, 0},
    {"mapping", test_mapping, 0},
    {"iterable", test_iterable, 0},
    {"sequence", test_sequence, 0},
    {"boolean", test_boolean, 0},
    {"true", test_true, 0},
    {"false", test_false, 0},
    {"callable", test_callable, 0},
    {"odd", test_odd, 0},
    {"even", test_even, 0},
    {"divisibleby", test_divisibleby, 1},
    {"lower", test_lower, 0},
    {"upper", test_upper, 0},
    {"escaped", test_escaped, 0},
    {"sameas", test_sameas, 1},
    {"in", test_in, 1},
    {"eq", test_eq, 1},
    {"==", test_eq, 1},
    {"equalto", test_eq, 1},
    {"ne", test_ne, 1},
    {"!=", test_ne, 1},
    {"lt", test_lt, 1},
    {"<", test_lt, 1},
    {"lessthan", test_lt, 1},
    {"gt", test_gt, 1},
    {">", test_gt, 1},
    {"greaterthan", test_gt, 1},
    {"le", test_le, 1},
    {"<=", test_le, 1},
    {"ge", test_ge, 1},
    {">=", test_ge, 1},
    {"filter", test_filter, 0},
    {"test", test_test, 0},
};

const struct tpl_test *
tpl_test_named(struct slice name)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (slice_equal(slice_of(tests[i].name), name)) {
            return &tests[i];
        }
    }
    return NULL;
}
