#include <criterion/criterion.h>
#include <stdio.h>

#include "index/base/buf.h"
#include "node/text/json_tree.h"

static struct arena arena;
static struct json_value tree;
static struct json_tree_fault fault;
static struct buf shown;

static void
open_arena(void)
{
    arena_init(&arena, 1 << 20);
    buf_init(&shown, 1 << 20);
}

static void
close_arena(void)
{
    arena_fini(&arena);
    buf_fini(&shown);
}

TestSuite(node_json_tree, .init = open_arena, .fini = close_arena);

static void
show(const struct json_value *value)
{
    char real[JSON_TREE_REAL_MAX];

    switch ((enum json_kind)value->kind) {
    case JSON_NULL:
        buf_add_text(&shown, "null");
        break;
    case JSON_BOOL:
        buf_add_text(&shown, value->as.integer != 0 ? "true" : "false");
        break;
    case JSON_INT:
        buf_printf(&shown, "%lld", (long long)value->as.integer);
        break;
    case JSON_REAL:
        buf_add(&shown, real, json_tree_real(value->as.real, real));
        break;
    case JSON_BIG:
        buf_add_text(&shown, "big ");
        buf_add_slice(&shown, json_tree_slice(value));
        break;
    case JSON_STRING:
        buf_add_slice(&shown, json_tree_slice(value));
        break;
    case JSON_ARRAY:
        buf_add_text(&shown, "[");
        for (uint32_t i = 0; i < value->len; i++) {
            show(&value->as.items[i]);
            buf_add_text(&shown, ",");
        }
        buf_add_text(&shown, "]");
        break;
    case JSON_OBJECT:
        buf_add_text(&shown, "{");
        for (uint32_t i = 0; i < value->len; i++) {
            show(&value->as.members[i].key);
            buf_add_text(&shown, ":");
            show(&value->as.members[i].value);
            buf_add_text(&shown, ",");
        }
        buf_add_text(&shown, "}");
        break;
    case JSON_KINDS:
        break;
    }
}

static const char *
read_as(const char *text)
{
    buf_clear(&shown);
    if (json_tree_read(slice_of(text), &arena, &tree, &fault)) {
        show(&tree);
    } else {
        buf_add_text(&shown, fault.why);
    }
    buf_add(&shown, "", 1);
    return shown.ptr;
}

Test(node_json_tree, keeps_order_and_the_last_of_doubles_at_the_first_place)
{
    cr_assert_str_eq(read_as("{\"b\":1,\"a\":[2,{\"c\":{}}],\"b\":[]}"),
                     "{b:[],a:[2,{c:{},},],}");
    cr_assert_str_eq(read_as(" [ [ ] , \"x\" , null,true,false ] "),
                     "[[],x,null,true,false,]");
    cr_assert_str_eq(
        read_as("{\"k\":0,\"j\":1,\"i\":2,\"h\":3,\"g\":4,\"f\":5,\"e\":6,"
                "\"d\":7,\"k\":8,\"b\":9,\"d\":10,\"k\":11}"),
        "{k:11,j:1,i:2,h:3,g:4,f:5,e:6,d:10,b:9,}");
}

Test(node_json_tree, finds_each_key_of_small_and_large_objects)
{
    for (int size = 1; size < 200; size += 7) {
        struct buf text;
        char key[16];
        buf_init(&text, 1 << 16);
        for (int i = 0; i < size; i++) {
            buf_printf(&text, "%s\"k%d\":%d", i == 0 ? "{" : ",", i * 3, i);
        }
        buf_add(&text, "}", 2);
        cr_assert(json_tree_read(slice_of(text.ptr), &arena, &tree, &fault));
        for (int i = 0; i < 3 * size; i++) {
            (void)snprintf(key, sizeof key, "k%d", i);
            const struct json_value *found =
                json_tree_get(&tree, slice_of(key));
            cr_assert_eq(found != NULL, i % 3 == 0, "%s of %d", key, size);
            cr_assert(found == NULL || found->as.integer == i / 3);
        }
        buf_fini(&text);
    }
}

Test(node_json_tree, keeps_integers_exact)
{
    cr_assert_str_eq(read_as("[-0,9223372036854775807,-9223372036854775808]"),
                     "[0,9223372036854775807,-9223372036854775808,]");
    cr_assert_str_eq(read_as("[9223372036854775808,-123456789012345678901]"),
                     "[big 9223372036854775808,big -123456789012345678901,]");
}

Test(node_json_tree, prints_reals_as_python_does)
{
    cr_assert_str_eq(
        read_as("[1.0,-0.0,0.1,1e16,123456789012345680.0,9999999999999998.0,"
                "1e-4,1e-5,1.5e300,5e-324,2.2250738585072014e-308,1e22,"
                "0.30000000000000004,1234.5678,1E2,1e400,-1e400,100.25]"),
        "[1.0,-0.0,0.1,1e+16,1.2345678901234568e+17,9999999999999998.0,"
        "0.0001,1e-05,1.5e+300,5e-324,2.2250738585072014e-308,1e+22,"
        "0.30000000000000004,1234.5678,100.0,inf,-inf,100.25,]");
}

Test(node_json_tree, unescapes_strings_and_refuses_half_a_pair)
{
    cr_assert_str_eq(read_as("\"a\\n\\u00e9\\u20ac\\ud83d\\ude00\\\\\\/\\\"\""),
                     "a\n\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\\/\"");
    cr_assert_str_eq(read_as("[\"\\ud83d\"]"), "half of a surrogate pair");
    cr_assert_str_eq(read_as("[\"\\ude00\\ud83d\"]"),
                     "half of a surrogate pair");
    cr_assert(json_tree_read(slice_of("\"\\u0000\""), &arena, &tree, &fault));
    cr_assert(tree.len == 1 && tree.as.text[0] == '\0');
}

Test(node_json_tree, says_why_and_where_it_refuses)
{
    cr_assert_str_neq(read_as("[1,]"), "[1,]");
    cr_assert_eq(fault.at, 3);
    (void)read_as("");
    cr_assert_not_null(fault.why);
    (void)read_as("{\"a\":1} x");
    cr_assert_not_null(fault.why);
}

Test(node_json_tree, is_bounded_by_the_arena)
{
    struct buf text;

    buf_init(&text, 1 << 22);
    buf_add_text(&text, "[");
    for (int i = 0; i < 200000; i++) {
        buf_add_text(&text, "0,");
    }
    buf_add(&text, "0]", 3);
    cr_assert_str_eq(read_as(text.ptr), "document too large");
    buf_fini(&text);
}
