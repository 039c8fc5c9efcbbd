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

Test(node_token_ask, each_api_has_its_renderer)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 200, OK}, {ACT_ANSWER, 200, OK}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to_of(SCAN_API_RESPONSES,
                              "{\"instructions\":\"b\",\"input\":\"a\"}"),
                 TOKEN_OK);
    cr_assert_str_eq(engine.path[0], "/v1/responses/render");
    cr_assert_str_eq(engine.body[0],
                     "{\"instructions\":\"b\",\"input\":\"a\"}");
    cr_assert_eq(
        answer_to_of(SCAN_API_RESPONSES, "{\"input\":[{\"role\":\"u\"}]}"),
        TOKEN_OK);
    cr_assert_str_eq(engine.path[1], "/v1/responses/render");
    cr_assert_eq(answer_to_of(SCAN_API_MESSAGES, CHAT), TOKEN_OK);
    cr_assert_str_eq(engine.path[2], "/v1/messages/render");
    tokens_are(1, 2, 3);
}

Test(node_token_ask, the_tokeniser_knows_nothing_of_later_apis)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 404, ""}, {ACT_ANSWER, 403, ""}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to_of(SCAN_API_MESSAGES, CHAT), TOKEN_UNABLE);
    cr_assert_eq(answer_to_of(SCAN_API_RESPONSES, "{\"input\":\"a\"}"),
                 TOKEN_UNABLE);
    cr_assert_eq(engine.seen, 2);
    cr_assert(!token_ask_able(ask, &worker, SCAN_API_MESSAGES));
    cr_assert(!token_ask_able(ask, &worker, SCAN_API_RESPONSES));
    cr_assert(is_able()); /* about chats nothing was learnt */
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_str_eq(engine.path[2], "/v1/chat/completions/render");
}

#define PICTURE                                             \
    "{\"messages\":[{\"content\":[{\"type\":\"image_url\"," \
    "\"image_url\":\"http://x\"}]}]}"

Test(node_token_ask, pictures_that_are_not_named_make_tokens_useless)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 200, OK}, {ACT_ANSWER, 404, ""}, {ACT_ANSWER, 404, ""}};
    cr_assert_eq(answer_to(PICTURE), TOKEN_REFUSED);
    worker.generation++; /* one that only tokenizes */
    cr_assert_eq(answer_to(PICTURE), TOKEN_UNABLE);
    cr_assert_eq(engine.seen, 2);
    cr_assert_eq(ask_it(PICTURE), TOKEN_ASK_E_SHAPE);
}

#define CUT "{\"prompt\":\"a\",\"truncate_prompt_tokens\":2}"

Test(node_token_ask, the_tokeniser_cuts_nothing_off)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 200, OK}, {ACT_ANSWER, 404, ""}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CUT), TOKEN_OK);
    worker.generation++; /* one that only tokenizes */
    cr_assert_eq(answer_to(CUT), TOKEN_UNABLE);
    cr_assert_eq(engine.seen, 2);
    cr_assert_eq(ask_it(CUT), TOKEN_ASK_E_SHAPE);
}

Test(node_token_ask, of_pictures_the_layout_is_enough)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 200,
         "{\"token_ids\":[1,2,3],\"features\":{\"mm_hashes\":{\"image\":["
         "\"ab\"]},\"mm_placeholders\":{\"image\":[{\"offset\":1,"
         "\"length\":2}]}}}"},
        {ACT_ANSWER, 200, OK}};
    cr_assert_eq(
        answer_to(" {\"messages\":[{\"content\":[{\"type\":\"image_url\","
                  "\"image_url\":\"http://x\"}]}]}"),
        TOKEN_OK);
    cr_assert_str_eq(engine.body[0],
                     "{\"return_mm_kwargs\":false,\"messages\":[{\"content\":[{"
                     "\"type\":\"image_url\",\"image_url\":\"http://x\"}]}]}");
    cr_assert_eq(heard.media.count, 1);
    cr_assert_eq(heard.media.item[0].at, 1);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_null(heard.answer.media); /* not the last prompt's */
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

Test(node_token_ask, sglang_is_not_told_what_its_chats_do_not_heed)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 404, "{\"detail\":\"Not Found\"}"},
        {ACT_ANSWER, 200, "{\"tokens\":[7,8,9]}"},
    };
    worker.kind = ENGINE_SGLANG;
    cr_assert_eq(answer_to("{\"messages\":[],\"add_generation_prompt\":false,"
                           "\"reasoning_effort\":\"low\"}"),
                 TOKEN_OK);
    cr_assert_str_eq(engine.body[1],
                     "{\"messages\":[],\"reasoning_effort\":\"low\"}");
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
    cr_assert(!is_able());
    cr_assert(token_ask_able(ask, &worker, SCAN_API_TEXT));
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
    static const struct {
        enum scan_api api;
        const char *body;
    } prompts[] = {
        {SCAN_API_GUESSED, "{\"prompt\":[1,2]}"},
        {SCAN_API_GUESSED, "{\"prompt\":[[1,2]]}"},
        {SCAN_API_GUESSED, "{\"prompt\":[\"a\",\"b\"]}"},
        {SCAN_API_GUESSED, "{\"model\":\"m\"}"},
        {SCAN_API_GUESSED, "{\"input\":[1,2]}"},
        {SCAN_API_TEXT, "{\"input\":\"a\"}"},
        {SCAN_API_TEXT, CHAT},
        {SCAN_API_CHAT, TEXT},
        {SCAN_API_CHAT, "{\"input\":[{\"role\":\"u\"}]}"},
        {SCAN_API_MESSAGES, TEXT},
        {SCAN_API_RESPONSES, CHAT},
        {SCAN_API_RESPONSES,
         "{\"previous_response_id\":\"r\",\"input\":\"a\"}"},
        {SCAN_API_RESPONSES, "{\"input\":\"a\",\"conversation\":{\"id\":1}}"},
        {SCAN_API_OTHER, CHAT},
    };

    for (size_t i = 0; i < sizeof(prompts) / sizeof(prompts[0]); i++) {
        cr_assert_eq(ask_it_of(prompts[i].api, prompts[i].body),
                     TOKEN_ASK_E_SHAPE, "%s", prompts[i].body);
    }
    /* What is stored nowhere is none of the engine's. */
    engine.script = (const struct reply[]){{ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to_of(SCAN_API_RESPONSES,
                              "{\"previous_response_id\":null,"
                              "\"conversation\":null,\"input\":\"a\"}"),
                 TOKEN_OK);
}
