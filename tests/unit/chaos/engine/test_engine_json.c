#include <criterion/criterion.h>

#include "chaos/engine/engine_json_internal.h"

static int
number_of(const char *object, uint64_t max, uint64_t *number)
{
    return engine_json_uint(slice_of(object), SLICE("n"), max, number);
}

Test(chaos_engine_json, the_last_member_of_a_name_counts)
{
    uint64_t n = 0;

    cr_assert_eq(number_of("{\"n\":1,\"m\":{\"n\":9},\"n\":2}", 100, &n), 0);
    cr_assert_eq(n, 2);
    cr_assert_eq(number_of("{\"\\u006e\":7}", 100, &n), 0);
    cr_assert_eq(n, 7);
}

Test(chaos_engine_json, absent_and_wrong_are_told_apart)
{
    uint64_t n = 0;

    cr_assert_eq(number_of("{}", 100, &n), ENGINE_JSON_E_ABSENT);
    cr_assert_eq(number_of("{\"m\":[{\"n\":1}]}", 100, &n),
                 ENGINE_JSON_E_ABSENT);
    cr_assert_eq(number_of("[1]", 100, &n), ENGINE_JSON_E_ABSENT);
    cr_assert_eq(number_of("{\"n\":\"1\"}", 100, &n), ENGINE_JSON_E_OTHER);
    cr_assert_eq(number_of("{\"n\":-1}", 100, &n), ENGINE_JSON_E_OTHER);
    cr_assert_eq(number_of("{\"n\":1.5}", 100, &n), ENGINE_JSON_E_OTHER);
    cr_assert_eq(number_of("{\"n\":101}", 100, &n), ENGINE_JSON_E_OTHER);
    cr_assert_eq(number_of("{\"n\":100}", 100, &n), 0);
}

Test(chaos_engine_json, bools_and_texts)
{
    struct slice object =
        SLICE("{\"yes\":true,\"no\":false,\"s\":\"a\\u0062\"}");

    cr_assert(engine_json_bool(object, SLICE("yes"), false));
    cr_assert_not(engine_json_bool(object, SLICE("no"), true));
    cr_assert(engine_json_bool(object, SLICE("s"), true));
    cr_assert_not(engine_json_bool(object, SLICE("absent"), false));
    cr_assert(engine_json_is_text(object, SLICE("s"), SLICE("ab")));
    cr_assert_not(engine_json_is_text(object, SLICE("yes"), SLICE("true")));
}

Test(chaos_engine_json, arrays_of_ids)
{
    struct engine_ids ids;

    engine_ids_init(&ids, 10);
    cr_assert_eq(
        engine_json_ids(SLICE("{\"t\":[ 1 ,\n4294967295]}"), SLICE("t"), &ids),
        0);
    cr_assert_eq(ids.count, 2);
    cr_assert_eq(ids.ids[1], UINT32_MAX);
    cr_assert(engine_json_id_array(SLICE("[]"), &ids));
    cr_assert_not(engine_json_id_array(SLICE("[1,\"2\"]"), &ids));
    cr_assert_not(engine_json_id_array(SLICE("[1,[2]]"), &ids));
    cr_assert_not(engine_json_id_array(SLICE("7"), &ids));
    cr_assert_eq(engine_json_ids(SLICE("{\"t\":{}}"), SLICE("t"), &ids),
                 ENGINE_JSON_E_OTHER);
    engine_ids_fini(&ids);
}

Test(chaos_engine_json, values_by_their_raw_bytes)
{
    struct slice object =
        SLICE("{ \"a\" : [1, {\"b\": \"c\"} ,\"d\"], \"e\":\"f\\n\"}");
    struct slice array = engine_json_raw(object, SLICE("a"));
    struct json_pull items;
    struct slice item;

    cr_assert(slice_equal(array, SLICE("[1, {\"b\": \"c\"} ,\"d\"]")));
    cr_assert(slice_equal(engine_json_first_key(object), SLICE("a")));
    cr_assert(
        slice_equal(engine_json_inside(engine_json_raw(object, SLICE("e"))),
                    SLICE("f\\n")));
    cr_assert(engine_json_items(&items, array));
    cr_assert(engine_json_next(&items, &item));
    cr_assert(slice_equal(item, SLICE("1")));
    cr_assert(engine_json_next(&items, &item));
    cr_assert(slice_equal(item, SLICE("{\"b\": \"c\"}")));
    cr_assert(engine_json_next(&items, &item));
    cr_assert(slice_equal(item, SLICE("\"d\"")));
    cr_assert_not(engine_json_next(&items, &item));
    cr_assert_eq(items.depth, 0);
}

Test(chaos_engine_json, what_is_not_there_has_no_bytes)
{
    struct json_pull items;
    struct slice item;

    cr_assert_eq(engine_json_raw(SLICE("{}"), SLICE("a")).len, 0);
    cr_assert_eq(engine_json_raw(SLICE("[]"), SLICE("a")).len, 0);
    cr_assert_eq(engine_json_raw(SLICE(""), SLICE("a")).len, 0);
    cr_assert_eq(engine_json_first_key(SLICE("{}")).len, 0);
    cr_assert_eq(engine_json_first_key(SLICE("7")).len, 0);
    cr_assert_null(engine_json_inside(SLICE("7")).ptr);
    cr_assert_not_null(engine_json_inside(SLICE("\"\"")).ptr);
    cr_assert_not(engine_json_items(&items, SLICE("{}")));
    cr_assert(engine_json_items(&items, SLICE("[]")));
    cr_assert_not(engine_json_next(&items, &item));
}
