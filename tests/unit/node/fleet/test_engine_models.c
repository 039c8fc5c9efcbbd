#include <criterion/criterion.h>
#include <stdio.h>

#include "index/base/buf.h"
#include "node/fleet/engine_models.h"

static struct engine_models models;

static int
read_text(const char *text)
{
    return engine_models_read(slice_of(text), &models);
}

static bool
has_fact(size_t i, enum model_fact fact, const char *json)
{
    return slice_equal(models.model[i].fact[fact], slice_of(json));
}

Test(node_engine_models, vllm_with_an_adapter)
{
    cr_assert_eq(
        read_text("{\"object\":\"list\",\"data\":[{\"id\":\"Qwen/Qwen3-8B\","
                  "\"object\":\"model\",\"created\":1,\"owned_by\":\"vllm\","
                  "\"root\":\"Qwen/Qwen3-8B\",\"parent\":null,"
                  "\"max_model_len\":32768,\"permission\":[{\"id\":\"perm-1\","
                  "\"allow\":true}]},{\"id\":\"adapter\","
                  "\"owned_by\":\"vllm\",\"parent\":\"Qwen/Qwen3-8B\"}]}"),
        0);
    cr_assert_eq(models.kind, ENGINE_VLLM);
    cr_assert_eq(models.count, 2);
    cr_assert(slice_equal(models.model[0].name, SLICE("Qwen/Qwen3-8B")));
    cr_assert_not(models.model[0].adapter);
    cr_assert(slice_equal(models.model[1].name, SLICE("adapter")));
    cr_assert(models.model[1].adapter);
    cr_assert_eq(models.model[0].created, 1);
    cr_assert(has_fact(0, MODEL_OWNED_BY, "\"vllm\""));
    cr_assert(has_fact(0, MODEL_ROOT, "\"Qwen/Qwen3-8B\""));
    cr_assert(has_fact(0, MODEL_PARENT, "null"));
    cr_assert(has_fact(0, MODEL_MAX_MODEL_LEN, "32768"));
    cr_assert(has_fact(1, MODEL_PARENT, "\"Qwen/Qwen3-8B\""));
    cr_assert(has_fact(1, MODEL_MAX_MODEL_LEN, ""));
    engine_models_fini(&models);
}

Test(node_engine_models, facts_stay_as_they_are_written_and_are_scalars)
{
    char text[ENGINE_MODEL_FACT_MAX + 200];

    cr_assert_eq(read_text("{\"data\":[{\"root\" : \t\"a\\u0062\\n\" ,"
                           "\"id\":\"m\",\"created\":-1,"
                           "\"max_model_len\":4.096e3,\"parent\":{\"x\":1},"
                           "\"owned_by\":[\"vllm\"]}]}"),
                 0);
    cr_assert(has_fact(0, MODEL_ROOT, "\"a\\u0062\\n\""));
    cr_assert(has_fact(0, MODEL_MAX_MODEL_LEN, "4.096e3"));
    cr_assert(has_fact(0, MODEL_PARENT, ""));
    cr_assert(models.model[0].adapter);
    cr_assert(has_fact(0, MODEL_OWNED_BY, ""));
    cr_assert_eq(models.model[0].created, 0);
    engine_models_fini(&models);
    (void)snprintf(text, sizeof(text),
                   "{\"data\":[{\"id\":\"m\",\"root\":\"%0*d\"}]}",
                   (int)ENGINE_MODEL_FACT_MAX, 7);
    cr_assert_eq(read_text(text), 0);
    cr_assert(has_fact(0, MODEL_ROOT, ""), "too long");
    engine_models_fini(&models);
}

Test(node_engine_models, sglang_and_others)
{
    cr_assert_eq(read_text("{\"data\":[{\"owned_by\":\"sglang\","
                           "\"id\":\"m\"}]}"),
                 0);
    cr_assert_eq(models.kind, ENGINE_SGLANG);
    engine_models_fini(&models);
    cr_assert_eq(read_text("{\"data\":[{\"owned_by\":\"tensorrt_llm\"}]}"), 0);
    cr_assert_eq(models.kind, ENGINE_TRTLLM);
    engine_models_fini(&models);
    cr_assert_eq(read_text("{\"models\":[{\"name\":\"m\"}],\"object\":\"list\","
                           "\"data\":[{\"id\":\"m\",\"owned_by\":\"llamacpp\","
                           "\"meta\":{\"n_ctx_train\":131072}}]}"),
                 0);
    cr_assert_eq(models.kind, ENGINE_LLAMACPP);
    cr_assert_eq(models.count, 1);
    engine_models_fini(&models);
    cr_assert_eq(read_text("{\"data\":[{\"owned_by\":7,\"id\":\"m\"}]}"), 0);
    cr_assert_eq(models.kind, ENGINE_OTHER);
    engine_models_fini(&models);
}

Test(node_engine_models, names_are_sorted_unescaped_and_unique)
{
    cr_assert_eq(
        read_text("{\"x\":{\"data\":[{\"id\":\"no\"}]},\"data\":["
                  "{\"id\":\"b\"},{\"id\":\"\\u0061\"},{\"id\":\"b\"},"
                  "{\"id\":\"\"},{},{\"id\":5},4,\"s\",[{\"id\":\"n\"}]"
                  "],\"data\":[{\"id\":\"again\"}]}"),
        0);
    cr_assert_eq(models.count, 2);
    cr_assert(slice_equal(models.model[0].name, SLICE("a")));
    cr_assert(slice_equal(models.model[1].name, SLICE("b")));
    engine_models_fini(&models);
}

Test(node_engine_models, an_adapter_of_sglang_is_asked_for_behind_its_parent)
{
    cr_assert_eq(
        engine_models_read(
            SLICE("{\"data\":[{\"id\":\"base\",\"owned_by\":\"sglang\"},"
                  "{\"parent\":\"ba\\u0073e\",\"id\":\"a\","
                  "\"owned_by\":\"sglang\"},"
                  "{\"parent\":1,\"id\":\"b\",\"owned_by\":\"sglang\"}]}"),
            &models),
        0);
    cr_assert_eq(models.count, 4);
    cr_assert(slice_equal(models.model[0].name, SLICE("a")));
    cr_assert(slice_equal(models.model[1].name, SLICE("b")));
    cr_assert(slice_equal(models.model[2].name, SLICE("base")));
    cr_assert(slice_equal(models.model[3].name, SLICE("base:a")));
    cr_assert(models.model[3].adapter);
    cr_assert_eq(models.model[3].own_at, 5);
    cr_assert_eq(models.model[0].own_at, 1, "it is answered by the base model");
    engine_models_fini(&models);
}

/* Its parent is kept as a fact of both names, and within one of them. */
Test(node_engine_models, a_long_parent_of_a_short_adapter_has_room)
{
    char parent[ENGINE_MODEL_NAME_MAX - 1] = "";
    char body[512];

    memset(parent, 'p', sizeof parent - 1);
    (void)snprintf(body, sizeof body,
                   "{\"data\":[{\"id\":\"a\",\"parent\":\"%s\","
                   "\"owned_by\":\"sglang\"}]}",
                   parent);
    cr_assert_eq(read_text(body), 0);
    cr_assert_eq(models.count, 2);
    cr_assert_eq(models.model[1].name.len, ENGINE_MODEL_NAME_MAX);
    engine_models_fini(&models);
}

Test(node_engine_models, an_adapter_is_what_has_a_parent_whatever_it_is)
{
    cr_assert_eq(read_text("{\"data\":[{\"id\":\"a\"},"
                           "{\"parent\":{\"id\":null},\"id\":\"b\"},"
                           "{\"id\":\"c\",\"parent\":[\"x\"]},"
                           "{\"id\":\"d\",\"parent\":null}]}"),
                 0);
    cr_assert_eq(models.count, 4);
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(models.model[i].adapter, i == 1 || i == 2);
    }
    engine_models_fini(&models);
}

Test(node_engine_models, a_name_listed_without_a_parent_once_is_no_adapter)
{
    cr_assert_eq(read_text("{\"data\":[{\"id\":\"a\",\"parent\":\"b\"},"
                           "{\"id\":\"a\"},{\"id\":\"b\",\"parent\":\"c\"},"
                           "{\"id\":\"b\",\"parent\":\"d\"}]}"),
                 0);
    cr_assert_eq(models.count, 2);
    cr_assert_not(models.model[0].adapter);
    cr_assert(models.model[1].adapter);
    engine_models_fini(&models);
}

Test(node_engine_models, an_empty_list_is_a_list)
{
    cr_assert_eq(read_text("{\"data\":[]}"), 0);
    cr_assert_eq(models.count, 0);
    engine_models_fini(&models);
}

Test(node_engine_models, anything_else_is_refused_and_leaves_nothing)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "null",
        "{\"data\":{}}",
        "{\"data\":null}",
        "{\"data\":[{\"id\":\"a\"}",
        "{\"data\":[{\"id\":\"a\"}]",
        "{\"data\":[{\"id\":\"a\"}]}x",
        "{\"data\":[{\"id\":}]}",
        "{\"error\":{\"message\":\"no\"}}",
        "{\"data\":[{\"id\" 1}]}",
        "{\"data\":[{\"a\":[}]}",
        "{\"x\":[,\"data\":[]}",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(read_text(bad[i]), ENGINE_MODELS_E_BAD, "%s", bad[i]);
        cr_assert_eq(models.count, 0);
        cr_assert_null(models.model);
    }
}

Test(node_engine_models, what_is_over_a_limit_is_left_out_and_counted)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    buf_printf(&text, "{\"data\":[{\"id\":\"%0*d\"},{\"id\":\"%0*d\"}",
               ENGINE_MODEL_NAME_MAX + 1, 0, ENGINE_MODEL_NAME_MAX, 0);
    for (int i = 0; i < ENGINE_MODELS_MAX; i++) {
        buf_printf(&text, ",{\"id\":\"m%d\"}", i);
    }
    buf_add_text(&text, "]}");
    cr_assert_eq(engine_models_read(buf_slice(&text), &models), 0);
    cr_assert_eq(models.count, ENGINE_MODELS_MAX);
    cr_assert_eq(models.left_out, 2);
    engine_models_fini(&models);
    buf_fini(&text);
}

Test(node_engine_models, many_adapters_of_sglang_have_room_for_both_names)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    buf_add_text(&text, "{\"data\":[{\"id\":\"base\",\"owned_by\":\"sglang\"}");
    for (int i = 0; i < 511; i++) {
        buf_printf(&text,
                   ",{\"id\":\"a%d\",\"owned_by\":\"sglang\",\"parent\":"
                   "\"base\"}",
                   i);
    }
    buf_add_text(&text, "]}");
    cr_assert_eq(engine_models_read(buf_slice(&text), &models), 0);
    cr_assert_eq(models.count, 1 + 2 * 511);
    cr_assert_eq(models.left_out, 0);
    engine_models_fini(&models);
    buf_fini(&text);
}

Test(node_engine_models, equal_means_the_same_names_and_adapters)
{
    struct engine_models other;

    cr_assert_eq(read_text("{\"data\":[{\"id\":\"b\"},{\"id\":\"a\"}]}"), 0);
    cr_assert_eq(
        engine_models_read(SLICE("{\"data\":[{\"id\":\"a\"},{\"id\":\"b\"}]}"),
                           &other),
        0);
    cr_assert(engine_models_equal(&models, &other));
    engine_models_fini(&other);
    cr_assert_eq(
        engine_models_read(SLICE("{\"data\":[{\"id\":\"a\"},{\"id\":\"c\"}]}"),
                           &other),
        0);
    cr_assert_not(engine_models_equal(&models, &other));
    engine_models_fini(&other);
    cr_assert_eq(engine_models_read(SLICE("{\"data\":[{\"id\":\"b\"},{\"id\":"
                                          "\"a\",\"parent\":\"b\"}]}"),
                                    &other),
                 0);
    cr_assert_not(engine_models_equal(&models, &other));
    engine_models_fini(&other);
    cr_assert_not(engine_models_equal(&models, &other));
    engine_models_fini(&models);
}
