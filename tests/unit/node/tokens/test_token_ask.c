/* What an engine is asked, and what is learnt of it. */
#include "token_ask_rig.h"

TestSuite(node_token_ask, .init = start, .fini = stop);

Test(node_token_ask, a_chat_is_rendered_from_the_body_as_it_came)
{
    engine.script = (const struct reply[]){{ACT_ANSWER, 200, OK}};
    strcpy(worker.url, "http://engine:1/base");
    strcpy(worker.api_key, "secret");
    cr_assert_eq(answer_to(" " CHAT " "), TOKEN_OK);
    tokens_are(1, 2, 3);
    cr_assert_str_eq(engine.path[0], "/base/v1/chat/completions/render");
    cr_assert_str_eq(engine.body[0], " " CHAT " ");
    cr_assert_str_eq(engine.host, "engine:1");
    cr_assert_str_eq(engine.key, "Bearer secret");
    cr_assert_eq(stats().answered, 1);
    cr_assert_eq(stats().open, 0);
}

Test(node_token_ask, a_text_is_rendered_too)
{
    engine.script = (const struct reply[]){
        {ACT_CHUNKS, 200, "[{\"token_ids\": [4, 5, 6]}, {}]"}};
    cr_assert_eq(answer_to(TEXT), TOKEN_OK);
    tokens_are(4, 5, 6);
    cr_assert_str_eq(engine.path[0], "/v1/completions/render");
    cr_assert_str_eq(engine.key, "");
}

Test(node_token_ask, of_pictures_the_layout_is_enough)
{
    engine.script = (const struct reply[]){{ACT_ANSWER, 200, OK}};
    cr_assert_eq(
        answer_to(" {\"messages\":[{\"content\":[{\"type\":\"image_url\","
                  "\"image_url\":\"http://x\"}]}]}"),
        TOKEN_OK);
    cr_assert_str_eq(engine.body[0],
                     "{\"return_mm_kwargs\":false,\"messages\":[{\"content\":[{"
                     "\"type\":\"image_url\",\"image_url\":\"http://x\"}]}]}");
}

Test(node_token_ask, without_a_renderer_the_tokeniser_is_asked)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 404, "{\"detail\":\"Not Found\"}"},
        {ACT_ANSWER, 200, "{\"count\":3,\"tokens\":[7,8,9]}"},
        {ACT_ANSWER, 200, "{\"tokens\":[1,2,3]}"},
    };
    cr_assert_eq(
        answer_to("{\"stream\":true,\"tools\":[ {} ],\"messages\": [ "
                  "{\"role\":\"u\"} ] ,\"chat_template\":\"x\\n\",\"user\":1,"
                  "\"add_generation_prompt\":false,\"model\":\"m\\/\"}"),
        TOKEN_OK);
    tokens_are(7, 8, 9);
    cr_assert_str_eq(engine.path[0], "/v1/chat/completions/render");
    cr_assert_str_eq(engine.path[1], "/tokenize");
    cr_assert_str_eq(engine.body[1],
                     "{\"messages\":[ {\"role\":\"u\"} ],\"model\":\"m\\/\","
                     "\"tools\":[ {} ],\"chat_template\":\"x\\n\","
                     "\"add_generation_prompt\":false}");
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_str_eq(engine.path[2], "/tokenize"); /* at once */
    cr_assert_eq(stats().asked, 2);
}

Test(node_token_ask, a_renderer_that_is_shut_is_none)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 403,
         "{\"error\":{\"type\":\"PermissionDeniedError\",\"code\":403}}"},
        {ACT_ANSWER, 200, "{\"tokens\":[1,2,3]}"},
        {ACT_ANSWER, 200, "{\"tokens\":[1,2,3]}"},
    };
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_str_eq(engine.path[1], "/tokenize");
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_str_eq(engine.path[2], "/tokenize");
}

Test(node_token_ask, texts_and_chats_are_learnt_apart)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 405, ""},
        {ACT_ANSWER, 501, ""},
        {ACT_ANSWER, 404, ""},
        {ACT_ANSWER, 200, "{\"tokens\":[1,2,3]}"},
    };
    cr_assert_eq(answer_to(CHAT), TOKEN_UNABLE);
    cr_assert(is_able());
    cr_assert_eq(answer_to("{\"add_special_tokens\":false,\"documents\":[1],"
                           "\"tools\":[1],\"prompt\":[ \"a\" ]}"),
                 TOKEN_OK);
    cr_assert_str_eq(engine.path[2], "/v1/completions/render");
    cr_assert_str_eq(engine.body[3],
                     "{\"prompt\":\"a\",\"add_special_tokens\":false}");
    cr_assert_eq(answer_to(CHAT), TOKEN_UNABLE);
    cr_assert_eq(engine.seen, 4);
}

Test(node_token_ask, what_an_engine_cannot_is_tried_again_after_a_while)
{
    struct token_ask_limits short_memory = limits;

    short_memory.retry_ms = 20;
    limit(short_memory);
    engine.script = (const struct reply[]){{ACT_ANSWER, 404, ""},
                                           {ACT_ANSWER, 404, ""},
                                           {ACT_ANSWER, 404, ""},
                                           {ACT_ANSWER, 404, ""},
                                           {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_UNABLE);
    cr_assert_eq(answer_to(TEXT), TOKEN_UNABLE);
    while (!is_able()) {
        uv_update_time(&loop);
    }
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_str_eq(engine.path[4], "/v1/chat/completions/render");
}

Test(node_token_ask, a_prompt_may_be_refused)
{
    engine.script =
        (const struct reply[]){{ACT_ANSWER, 400, "{}"}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_REFUSED);
    cr_assert(is_able());
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
}

Test(node_token_ask, an_answer_without_tokens_is_none)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 404, ""},
        {ACT_ANSWER, 200, "{\"tokens\":[]}"},
        {ACT_ANSWER, 200, "{\"tokens\":[]}"},
        {ACT_ANSWER, 200, "{\"tokens\":[]}"},
        {ACT_ANSWER, 200, "{\"tokens\":[]}"},
    };
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(answer_to(CHAT), TOKEN_REFUSED);
    }
    cr_assert_eq(answer_to(CHAT), TOKEN_UNABLE);
    cr_assert_eq(engine.seen, 5);
}

Test(node_token_ask, an_unknown_model_is_no_missing_path)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 404, "{\"message\":\"The model `m` does not exist.\"}"},
        {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_REFUSED);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_str_eq(engine.path[1], "/v1/chat/completions/render");
}

Test(node_token_ask, a_proven_path_is_not_given_up_for_one_404)
{
    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK},
                               {ACT_ANSWER, 404, ""},
                               {ACT_ANSWER, 400, ""},
                               {ACT_ANSWER, 404, ""},
                               {ACT_ANSWER, 404, ""},
                               {ACT_ANSWER, 404, ""},
                               {ACT_ANSWER, 200, "{\"tokens\":[1,2,3]}"}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    for (unsigned i = 1; i < 5; i++) {
        cr_assert_eq(answer_to(CHAT), TOKEN_REFUSED);
    }
    cr_assert_eq(answer_to(CHAT), TOKEN_OK); /* the fourth 404: it is gone */
    cr_assert_str_eq(engine.path[6], "/tokenize");
}

Test(node_token_ask, a_success_makes_up_for_refusals)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 200, OK}, {ACT_ANSWER, 404, ""}, {ACT_ANSWER, 404, ""},
        {ACT_ANSWER, 404, ""}, {ACT_ANSWER, 200, OK}, {ACT_ANSWER, 404, ""}};
    for (unsigned i = 0; i < 6; i++) {
        cr_assert_eq(answer_to(CHAT), i % 4 == 0 ? TOKEN_OK : TOKEN_REFUSED);
    }
}

Test(node_token_ask, one_that_only_refuses_is_no_renderer)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 422, ""}, {ACT_ANSWER, 422, ""}, {ACT_ANSWER, 422, ""},
        {ACT_ANSWER, 422, ""}, {ACT_ANSWER, 422, ""}, {ACT_ANSWER, 422, ""},
        {ACT_ANSWER, 422, ""}, {ACT_ANSWER, 422, ""}};
    for (unsigned i = 0; i < 6; i++) {
        cr_assert_eq(answer_to(CHAT), TOKEN_REFUSED);
    }
    cr_assert_eq(answer_to(CHAT), TOKEN_UNABLE);
    cr_assert_eq(engine.seen, 8);
}

Test(node_token_ask, what_makes_no_sense_is_a_failure)
{
    engine.script = (const struct reply[]){{ACT_ANSWER, 200, "<html>"},
                                           {ACT_ANSWER, 200, "{}"},
                                           {ACT_ANSWER, 503, "{}"},
                                           {ACT_ANSWER, 302, "{}"}};
    for (unsigned i = 0; i < 4; i++) {
        cr_assert(is_able());
        cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    }
    cr_assert_not(is_able()); /* left alone for a while */
    worker.generation++;
    cr_assert(is_able()); /* another worker in its place */
    cr_assert_eq(stats().failed, 4);
}

Test(node_token_ask, a_success_makes_up_for_failures)
{
    engine.script = (const struct reply[]){{ACT_ANSWER, 500, ""},
                                           {ACT_ANSWER, 500, ""},
                                           {ACT_ANSWER, 500, ""},
                                           {ACT_ANSWER, 200, OK},
                                           {ACT_ANSWER, 500, ""}};
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    }
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert(is_able());
}

Test(node_token_ask, not_every_prompt_is_for_a_renderer)
{
    static const char *const bodies[] = {
        "{\"prompt\":[1,2]}",      "{\"prompt\":[[1,2]]}",
        "{\"input\":\"a\"}",       "{\"prompt\":[\"a\",\"b\"]}",
        "{\"input\":[{\"a\":1}]}", "{\"model\":\"m\"}"};

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        cr_assert_eq(ask_it(bodies[i]), TOKEN_ASK_E_SHAPE, "%s", bodies[i]);
    }
}
