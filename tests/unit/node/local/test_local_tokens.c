/* Prompts by the files of our own model; earlier turns; which model is meant. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/local/local_load.h"
#include "node/local/local_tokens.h"
#include "node/scan/scan.h"

static struct local_table *table;
static struct local_turns *turns;

static void
begin(void)
{
    struct config_tokens config = {.dir = LOCAL_MODELS};

    cr_assert_eq(local_load(&config, NULL, &table), 0);
    cr_assert_eq(table->count, 1);
    cr_assert_str_eq(local_model_why(table->model[0]), "");
    cr_assert_eq(local_turns_new(&turns, (size_t)16 << 20), 0);
}

static void
end(void)
{
    local_turns_free(turns);
    local_table_free(table, NULL);
}

TestSuite(local_tokens, .init = begin, .fini = end);

/* The ids, in *answer, whose ids the caller ends. */
static int
ask(const char *body, enum scan_api api, const struct local_patience *patience,
    struct local_turns *with, const uint64_t *names, uint32_t names_count,
    struct local_answer *answer)
{
    static struct scan_span spans[4096];
    struct scan_limits limits = {.depth_max = 64, .spans_max = 4096};
    struct scan scan = {.spans = spans, .api = api};
    struct local_question question = {.model = table->model[0],
                                      .kind = ENGINE_VLLM,
                                      .body = slice_of(body),
                                      .names = names,
                                      .names_count = names_count};

    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0);
    cr_assert(local_question_read(&question, &scan));
    *answer = (struct local_answer){.ids.max = LOCAL_IDS_MAX};
    return local_tokens(&question, patience, with, answer);
}

static struct local_answer
answer_of(const char *body, enum scan_api api)
{
    struct local_answer answer;
    struct local_patience patience = LOCAL_PATIENT;

    cr_assert_eq(ask(body, api, &patience, NULL, NULL, 0, &answer), 0, "%s",
                 answer.why);
    return answer;
}

static void
are_alike(const struct local_answer *a, const struct local_answer *b)
{
    cr_assert_eq(a->ids.count, b->ids.count);
    cr_assert_eq(memcmp(a->ids.ptr, b->ids.ptr, a->ids.count * 4), 0);
}

Test(local_tokens, a_text_has_the_special_tokens_unless_it_wants_none)
{
    struct local_answer with =
        answer_of("{\"prompt\":\"The node\"}", SCAN_API_TEXT);
    struct local_answer without =
        answer_of("{\"prompt\":[\"The node\"],\"add_special_tokens\":false}",
                  SCAN_API_TEXT);

    cr_assert_eq(with.ids.count, without.ids.count + 1);
    cr_assert_eq(
        memcmp(with.ids.ptr + 1, without.ids.ptr, without.ids.count * 4), 0);
    tokenizer_ids_fini(&with.ids);
    tokenizer_ids_fini(&without.ids);
}

Test(local_tokens, of_several_texts_the_first_one_s_are_made)
{
    struct local_answer alone =
        answer_of("{\"prompt\":\"The \\\"node\\\" [\"}", SCAN_API_TEXT);
    struct local_answer first =
        answer_of("{\"prompt\": [ \"The \\\"node\\\" [\" , \"two\",\"three\"]}",
                  SCAN_API_TEXT);

    cr_assert_gt(alone.ids.count, 0);
    are_alike(&alone, &first);
    tokenizer_ids_fini(&alone.ids);
    tokenizer_ids_fini(&first.ids);
}

Test(local_tokens, an_embedding_has_the_tokens_of_its_text)
{
    struct local_answer text =
        answer_of("{\"prompt\":\"The node\"}", SCAN_API_TEXT);
    struct local_answer embedding =
        answer_of("{\"input\":[\"The node\"]}", SCAN_API_EMBEDDINGS);

    are_alike(&text, &embedding);
    cr_expect_eq(embedding.way, LOCAL_EMBEDDINGS);
    tokenizer_ids_fini(&text.ids);
    tokenizer_ids_fini(&embedding.ids);
}

/* A model of every byte and a configuration. */
static struct local_model *
model_of_ranks(const char *config)
{
    static const char sextets[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct buf ranks;

    buf_init(&ranks, 1 << 16);
    for (unsigned byte = 0; byte < 256; byte++) {
        buf_printf(&ranks, "%c%c== %u\n", sextets[byte >> 2],
                   sextets[(byte & 3) << 4], byte);
    }
    struct local_model *model =
        local_model_new(&(struct local_parts){.name = SLICE("ranks"),
                                              .ranks = buf_slice(&ranks),
                                              .pattern = SLICE("qwen"),
                                              .config = slice_of(config)});
    cr_assert_not_null(model);
    buf_fini(&ranks);
    return model;
}

#define CHAT "\"chat_template\":\"<|a|>{{ messages[0].content }}<|b|>\""

Test(local_tokens, a_tiktoken_file_has_the_special_tokens_of_its_configuration)
{
    static const uint32_t ids[] = {300, 'h', 'i', 301};
    struct local_model *tiny = table->model[0];

    table->model[0] = model_of_ranks(
        "{\"added_tokens_decoder\":{\"300\":{\"content\":\"<|a|>\"},"
        "\"301\":{\"content\":\"<|b|>\",\"special\":true}}," CHAT "}");
    cr_expect_str_eq(local_model_why(table->model[0]), "");
    struct local_answer answer =
        answer_of("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
                  SCAN_API_CHAT);
    cr_assert_eq(answer.ids.count, 4);
    cr_expect_arr_eq(answer.ids.ptr, ids, sizeof ids);
    tokenizer_ids_fini(&answer.ids);
    local_model_free(table->model[0]);
    table->model[0] = tiny;
}

Test(local_tokens, a_tiktoken_file_without_special_tokens_makes_texts_alone)
{
    static const char *const configs[] = {
        "",
        "{" CHAT "}",
        "{\"added_tokens_decoder\":[]," CHAT "}",
        "{\"added_tokens_decoder\":{\"x\":{\"content\":\"a\"}}," CHAT "}",
        "{\"added_tokens_decoder\":{\"300\":{}}," CHAT "}",
        "{\"added_tokens_decoder\":{\"99999999999\":"
        "{\"content\":\"a\"}}," CHAT "}",
    };

    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct local_model *model = model_of_ranks(configs[i]);
        cr_expect_not_null(
            strstr(local_model_why(model), "added_tokens_decoder"), "%s",
            configs[i]);
        cr_expect(local_model_can(model, LOCAL_TEXT));
        cr_expect_not(local_model_can(model, LOCAL_CHAT));
        local_model_free(model);
    }
}

/* Whether the question can be read. */
static bool
is_read(const char *body, enum scan_api api)
{
    static struct scan_span spans[64];
    struct scan_limits limits = {.depth_max = 64, .spans_max = 64};
    struct scan scan = {.spans = spans, .api = api};
    struct local_question question = {.body = slice_of(body)};

    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0);
    return local_question_read(&question, &scan);
}

Test(local_tokens, an_embedding_that_is_cut_or_filled_up_is_not_made_here)
{
    cr_expect(is_read("{\"input\":\"a\"}", SCAN_API_EMBEDDINGS));
    cr_expect(is_read("{\"input\":\"a\",\"truncate_prompt_tokens\":null}",
                      SCAN_API_EMBEDDINGS));
    cr_expect_not(is_read("{\"input\":\"a\",\"truncate_prompt_tokens\":5}",
                          SCAN_API_EMBEDDINGS));
    cr_expect_not(is_read("{\"input\":\"a\",\"padding\":\"max_length\"}",
                          SCAN_API_EMBEDDINGS));
}

Test(local_tokens, a_prompt_that_says_at_which_end_it_is_cut_is_not_made_here)
{
    cr_expect(is_read("{\"prompt\":\"a\",\"truncate_prompt_tokens\":5}",
                      SCAN_API_TEXT));
    cr_expect(is_read("{\"prompt\":\"a\",\"truncation_side\":\"right\"}",
                      SCAN_API_TEXT));
    cr_expect_not(is_read("{\"prompt\":\"a\",\"truncate_prompt_tokens\":5,"
                          "\"truncation_side\":\"right\"}",
                          SCAN_API_TEXT));
}

Test(local_tokens, a_truncated_prompt_keeps_its_end_and_the_first_token)
{
    struct local_answer whole =
        answer_of("{\"prompt\":\"one two three four\"}", SCAN_API_TEXT);
    struct local_answer cut = answer_of(
        "{\"prompt\":\"one two three four\",\"truncate_prompt_tokens\":4}",
        SCAN_API_TEXT);

    cr_assert_eq(cut.ids.count, 4);
    cr_expect_eq(cut.ids.ptr[0], whole.ids.ptr[0]);
    cr_expect_eq(
        memcmp(cut.ids.ptr + 1, whole.ids.ptr + whole.ids.count - 3, 12), 0);
    tokenizer_ids_fini(&whole.ids);
    tokenizer_ids_fini(&cut.ids);
}

Test(local_tokens, what_takes_long_is_for_later)
{
    static char body[(64 << 10) + 64];
    size_t len = (size_t)64 << 10;
    struct local_answer answer;
    struct local_patience patience = LOCAL_AT_ONCE;

    int at = sprintf(body, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
    memset(body + at, 'a', len);
    memcpy(body + at + len, "\"}]}", sizeof "\"}]}");
    cr_expect_eq(ask(body, SCAN_API_CHAT, &patience, NULL, NULL, 0, &answer),
                 LOCAL_E_LATER);
    tokenizer_ids_fini(&answer.ids);
}

Test(local_tokens, a_template_that_refuses_says_why)
{
    struct local_answer answer;
    struct local_patience patience = LOCAL_PATIENT;

    cr_expect_eq(ask("{\"messages\":[{\"role\":\"refuse\",\"content\":\"\"}]}",
                     SCAN_API_CHAT, &patience, NULL, NULL, 0, &answer),
                 LOCAL_E_REFUSED);
    cr_expect_not_null(strstr(answer.why, "this role is refused"));
    tokenizer_ids_fini(&answer.ids);
}

Test(local_tokens, a_request_that_brings_its_ids_is_not_made_here)
{
    struct local_answer answer;
    struct local_patience patience = LOCAL_PATIENT;
    const char *body = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                       "\"kv_transfer_params\":{\"prompt_token_ids\":[1,2]}}";

    cr_expect_eq(ask(body, SCAN_API_CHAT, &patience, NULL, NULL, 0, &answer),
                 LOCAL_E_REFUSED);
    cr_expect_str_eq(answer.why, "the request brings its ids");
    tokenizer_ids_fini(&answer.ids);
}

/* Each is compared with those before it, which no step of a template counts. */
Test(local_tokens, a_templates_own_options_are_few)
{
    static char body[8 << 10];
    struct local_answer answer;
    struct local_patience patience = LOCAL_PATIENT;

    for (int more = 0; more < 2; more++) {
        int at = sprintf(body,
                         "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
                         "\"chat_template_kwargs\":{");
        for (int i = 0; i < 256 + more; i++) {
            at += sprintf(body + at, "\"x%d\":1,", i);
        }
        (void)sprintf(body + at - 1, "}}");
        cr_expect_eq(
            ask(body, SCAN_API_CHAT, &patience, NULL, NULL, 0, &answer),
            more == 0 ? 0 : LOCAL_E_REFUSED, "%s", answer.why);
        tokenizer_ids_fini(&answer.ids);
    }
    cr_expect_not_null(strstr(answer.why, "chat_template_kwargs: too many"));
}

Test(local_tokens, a_way_that_is_distrusted_is_refused_and_no_other)
{
    struct local_answer answer;
    struct local_patience patience = LOCAL_PATIENT;
    const char *body = "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}";

    cr_expect(local_model_distrust(table->model[0], LOCAL_CHAT));
    cr_expect(!local_model_distrust(table->model[0], LOCAL_CHAT));
    cr_expect_eq(ask(body, SCAN_API_CHAT, &patience, NULL, NULL, 0, &answer),
                 LOCAL_E_REFUSED);
    tokenizer_ids_fini(&answer.ids);
    answer = answer_of(body, SCAN_API_MESSAGES);
    tokenizer_ids_fini(&answer.ids);
}

Test(local_tokens, a_count_that_differs_is_forgiven_once_many_agreed)
{
    struct local_model *model = table->model[0];

    cr_expect_not(
        local_model_counted(model, LOCAL_CHAT, false)); /* the first */
    for (unsigned i = 0; i < LOCAL_MISCOUNT; i++) {
        cr_expect_not(local_model_counted(model, LOCAL_TEXT, false));
        cr_expect(local_model_counted(model, LOCAL_CHAT, true));
    }
    cr_expect(local_model_counted(model, LOCAL_CHAT, false));
    cr_expect_not(local_model_counted(model, LOCAL_CHAT, false));
    for (unsigned i = 0; i < 1000; i++) {
        cr_expect(local_model_counted(model, LOCAL_CHAT, true));
    }
    for (unsigned i = 0; i < LOCAL_CREDIT_MAX / LOCAL_MISCOUNT; i++) {
        cr_expect(local_model_counted(model, LOCAL_CHAT, false));
    }
    cr_expect_not(local_model_counted(model, LOCAL_CHAT, false));
}

/* One prompt's class is not all the others': what few requests say. */
Test(local_tokens, requests_with_options_are_trusted_by_themselves)
{
    static const struct {
        const char *body;
        enum scan_api api;
        enum local_way way;
    } all[] = {
        {"{\"prompt\":\"a\"}", SCAN_API_TEXT, LOCAL_TEXT},
        {"{\"prompt\":\"a\",\"add_special_tokens\":false}", SCAN_API_TEXT,
         LOCAL_TEXT_OPTIONS},
        {"{\"input\":\"a\",\"add_special_tokens\":false}", SCAN_API_EMBEDDINGS,
         LOCAL_EMBEDDINGS_OPTIONS},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
         "\"temperature\":1,\"tool_choice\":\"auto\"}",
         SCAN_API_CHAT, LOCAL_CHAT},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
         "\"chat_template_kwargs\":{}}",
         SCAN_API_CHAT, LOCAL_CHAT_OPTIONS},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"name\":\"b\"}]"
         "}",
         SCAN_API_CHAT, LOCAL_CHAT_OPTIONS},
        {"{\"messages\":[{\"role\":\"developer\",\"content\":\"a\"}]}",
         SCAN_API_CHAT, LOCAL_CHAT_OPTIONS},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
         "\"thinking\":{\"type\":\"enabled\"}}",
         SCAN_API_MESSAGES, LOCAL_MESSAGES_OPTIONS},
        {"{\"input\":\"a\",\"reasoning\":{\"effort\":\"low\"}}",
         SCAN_API_RESPONSES, LOCAL_RESPONSES_OPTIONS},
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct local_answer answer = answer_of(all[i].body, all[i].api);
        cr_expect_eq(answer.way, all[i].way, "%s", all[i].body);
        tokenizer_ids_fini(&answer.ids);
    }
    cr_expect(local_model_distrust(table->model[0], LOCAL_CHAT_OPTIONS));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct local_answer answer;
        struct local_patience patience = LOCAL_PATIENT;
        cr_expect_eq(
            ask(all[i].body, all[i].api, &patience, NULL, NULL, 0, &answer),
            all[i].way == LOCAL_CHAT_OPTIONS ? LOCAL_E_REFUSED : 0);
        tokenizer_ids_fini(&answer.ids);
    }
}

/* Earlier turns */

struct talk {
    char body[1 << 16];
    size_t len;
    uint64_t names[64];
    uint32_t count;
};

static void
begin_talk(struct talk *t)
{
    *t = (struct talk){.count = 0};
    t->len = (size_t)sprintf(t->body, "{\"messages\":[");
}

/* One message more; the body stays open. */
static void
add_words(struct talk *t, struct rng *rng, const char *role)
{
    static const char *const words[] = {"the node",   " knows",   "<|im_end|>",
                                        " \\u0131 ",  "\\n",      " engine",
                                        "<think>\\n", " caching", "."};
    uint64_t count = rng_below(rng, 60);

    t->len +=
        (size_t)sprintf(t->body + t->len, "%s{\"role\":\"%s\",\"content\":\"",
                        t->count != 0 ? "," : "", role);
    for (uint64_t i = 0; i < count; i++) {
        t->len += (size_t)sprintf(
            t->body + t->len, "%s",
            words[rng_below(rng, sizeof words / sizeof words[0])]);
    }
    t->len += (size_t)sprintf(t->body + t->len, "\"}");
    t->names[t->count++] = rng_next(rng) | 1;
}

Test(local_tokens, a_next_turn_has_the_ids_that_it_has_alone)
{
    struct local_patience patience = LOCAL_PATIENT;
    struct local_turns_stats stats;
    static struct talk talk;
    struct rng rng;

    rng_init(&rng, 15);
    for (int round = 0; round < 50; round++) {
        begin_talk(&talk);
        for (int turn = 0; turn < 8; turn++) {
            struct local_answer with;
            add_words(&talk, &rng, turn % 2 == 0 ? "user" : "assistant");
            memcpy(talk.body + talk.len, "]}", sizeof "]}");
            struct local_answer alone = answer_of(talk.body, SCAN_API_CHAT);
            cr_assert_eq(ask(talk.body, SCAN_API_CHAT, &patience, turns,
                             talk.names, talk.count, &with),
                         0);
            are_alike(&alone, &with);
            tokenizer_ids_fini(&alone.ids);
            tokenizer_ids_fini(&with.ids);
            talk.body[talk.len] = '\0';
        }
    }
    local_turns_stats(turns, &stats);
    cr_expect_geq(stats.found, 300);
    cr_expect_eq(stats.missed, 50);
}

Test(local_tokens, a_turn_is_taken_over_up_to_the_last_cut_that_is_alike)
{
    struct local_cut cuts[] = {{2, 1}, {4, 2}};
    uint32_t ids[] = {7, 8};
    uint64_t names[] = {5, 6};
    struct tokenizer_ids out = {.max = 100};
    struct local_found found;

    local_turns_add(turns, 1, 5, SLICE("abcd"), ids, cuts, 2);
    local_turns_find(turns, 1, names, 2, SLICE("abcdef"), &out, &found);
    cr_expect_eq(found.count, 2);
    cr_expect_eq(out.count, 2);
    out.count = 0;
    local_turns_find(turns, 1, names, 2, SLICE("abxd"), &out, &found);
    cr_expect_eq(found.count, 1);
    cr_expect_eq(out.count, 1);
    cr_expect_eq(out.ptr[0], 7);
    out.count = 0;
    local_turns_find(turns, 1, names, 2, SLICE("xbcd"), &out, &found);
    cr_expect_eq(found.count, 0);
    local_turns_find(turns, 2, names, 2, SLICE("abcd"), &out, &found);
    cr_expect_eq(found.count, 0, "another version of the files");
    cr_expect_eq(out.count, 0);
    tokenizer_ids_fini(&out);
}

Test(local_tokens, turns_give_way_to_later_ones)
{
    static uint32_t ids[1 << 16];
    struct local_turns_stats stats;
    struct local_turns *few;

    cr_assert_eq(local_turns_new(&few, (size_t)16 << 19), 0);
    for (uint64_t name = 1; name <= 200; name++) {
        struct local_cut cut = {1, 1 << 16};
        local_turns_add(few, 1, name, SLICE("a"), ids, &cut, 1);
    }
    local_turns_stats(few, &stats);
    cr_expect_leq(stats.bytes, (size_t)16 << 19);
    cr_expect_eq(stats.turns + stats.evicted, 200);
    local_turns_free(few);
}

/* Names */

Test(local_tokens, a_name_means_a_model_that_it_ends_with)
{
    struct slice is[] = {SLICE(""), SLICE("house/tiny")};
    struct slice path[] = {SLICE("other"), SLICE("/models/x/tiny")};
    struct slice not [] = {SLICE("notiny"), SLICE("tiny/x")};

    cr_expect_eq(local_table_find(table, is, 2), table->model[0]);
    cr_expect_eq(local_table_find(table, path, 2), table->model[0]);
    cr_expect_null(local_table_find(table, not, 2));
    cr_expect_null(local_table_find(NULL, is, 2));
}

Test(local_tokens, a_folder_with_a_slash_behind_it_is_the_same_model)
{
    struct config_tokens config = {.dir = LOCAL_MODELS "/tiny/"};
    struct local_table *alone;

    cr_assert_eq(local_load(&config, NULL, &alone), 0);
    cr_assert_eq(alone->count, 1);
    cr_expect_str_eq(local_model_name(alone->model[0]), "tiny");
    local_table_free(alone, NULL);
}

static struct local_table *
load_named(const struct config_model *first, const struct config_model *second,
           const char *dir)
{
    struct config_tokens config = {.models = {2, {*first, *second}}};
    struct local_table *named;

    (void)snprintf(config.dir, sizeof config.dir, "%s", dir);
    cr_assert_eq(local_load(&config, NULL, &named), 0);
    return named;
}

Test(local_tokens, models_that_are_named_come_before_those_of_a_folder)
{
    struct config_model tiny = {.name = "tiny", .path = LOCAL_MODELS "/tiny"};
    struct config_model other = {
        .name = "other",
        .path = LOCAL_MODELS "/tiny/tokenizer.json",
        .template = LOCAL_MODELS "/tiny/tokenizer_config.json",
        .content = CONFIG_CONTENT_PARTS};
    struct local_table *named = load_named(&tiny, &other, LOCAL_MODELS);

    cr_assert_eq(named->count, 2);
    cr_expect_str_eq(local_model_name(named->model[0]), "tiny");
    cr_expect_str_eq(local_model_name(named->model[1]), "other");
    cr_expect_str_eq(local_model_why(named->model[1]), "");
    cr_expect_eq(local_model_version(named->model[0]),
                 local_model_version(table->model[0]));
    cr_expect_neq(local_model_version(named->model[1]),
                  local_model_version(table->model[0]));
    cr_expect_eq(named->dir_error, 0);
    local_table_free(named, NULL);
    named = load_named(&tiny, &other, "/nowhere/at/all");
    cr_expect_eq(named->count, 2);
    cr_expect_lt(named->dir_error, 0);
    local_table_free(named, NULL);
}

Test(local_tokens, a_named_file_that_is_missing_is_told_by_name)
{
    struct config_model no_template = {.name = "tiny",
                                       .path = LOCAL_MODELS "/tiny",
                                       .template = "/no/template"};
    struct config_model no_file = {.name = "other", .path = "/no/file.json"};
    struct local_table *named = load_named(&no_template, &no_file, "");

    cr_assert_eq(named->count, 2);
    cr_expect_str_eq(local_model_why(named->model[0]),
                     "/no/template: cannot be read, is empty or too large");
    cr_expect_str_eq(local_model_why(named->model[1]),
                     "/no/file.json: cannot be read, is empty or too large");
    cr_expect_not(local_model_can(named->model[0], LOCAL_TEXT));
    local_table_free(named, NULL);
}

Test(local_tokens, unchanged_files_are_the_same_model)
{
    struct config_tokens config = {.dir = LOCAL_MODELS "/tiny"};
    struct local_table *again;

    cr_assert_eq(local_load(&config, table, &again), 0);
    cr_assert_eq(again->count, 1);
    cr_expect_eq(again->model[0], table->model[0]);
    cr_expect_eq(local_table_version(again), local_table_version(table));
    const struct local_table *first = table;
    local_table_free(again, first);
}
