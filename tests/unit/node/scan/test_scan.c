/* What the scanner reads out of good bodies, field by field. */
#include "scan_try.h"

Test(node_scan, chat_spans_are_role_then_content_in_order)
{
    try_spans("{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":"
              "\"be kind\"},{\"role\":\"user\",\"content\":\"hi\"}]}",
              "role system|text be kind|role user|text hi|");
    cr_assert_eq(try_body("{\"messages\":[]}").scan.shape, SCAN_MESSAGES);
}

Test(node_scan, role_comes_first_even_when_written_last)
{
    try_spans("{\"messages\":[{\"content\":[\"a\",\"b\"],\"role\":\"user\"}]}",
              "role user|text a|text b|");
}

Test(node_scan, message_without_role_still_begins)
{
    try_spans("{\"messages\":[{\"content\":\"a\"},{\"content\":\"b\"}]}",
              "role |text a|role |text b|");
    try_spans("{\"messages\":[{\"role\":1,\"content\":\"a\"}]}",
              "role |text a|");
}

Test(node_scan, content_may_be_null_or_of_no_known_type)
{
    try_spans("{\"messages\":[{\"role\":\"a\",\"content\":null},"
              "{\"role\":\"b\",\"content\":{\"x\":[1]}},{\"role\":\"c\"}]}",
              "role a|role b|role c|");
}

Test(node_scan, last_duplicate_wins_whatever_its_type)
{
    try_spans("{\"messages\":[{\"role\":\"a\",\"content\":\"x\"}],"
              "\"messages\":[{\"role\":\"b\",\"content\":\"y\"}]}",
              "role b|text y|");
    try_spans("{\"messages\":[{\"content\":\"x\"}],\"messages\":\"y\"}", "");
    try_spans("{\"messages\":\"y\",\"messages\":[{\"content\":\"x\"}]}",
              "role |text x|");
    try_spans("{\"messages\":[{\"content\":\"x\",\"content\":null}]}",
              "role |");
    try_spans("{\"messages\":[{\"content\":[\"x\",\"y\"],\"role\":\"r\","
              "\"content\":\"z\",\"role\":\"s\"}]}",
              "role s|text z|");
    try_spans("{\"messages\":[{\"role\":\"r\",\"role\":[],\"content\":\"\"}]}",
              "role |text |");
    struct try try = try_body("{\"model\":\"a\",\"max_tokens\":5,\"stream\":"
                              "true,\"model\":7,\"max_tokens\":null,"
                              "\"stream\":[true]}");
    cr_assert(!try.scan.model.present);
    cr_assert(!try.scan.has_max_tokens);
    cr_assert(!try.scan.stream);
}

Test(node_scan, tools_and_system_come_before_the_messages)
{
    const char *want = "tools [{\"a\":1}]|tools [2]|text s|role r|text x|";

    try_spans("{\"tools\":[{\"a\":1}],\"functions\":[2],\"system\":\"s\","
              "\"messages\":[{\"role\":\"r\",\"content\":\"x\"}]}",
              want);
    try_spans("{\"messages\":[{\"role\":\"r\",\"content\":\"x\"}],"
              "\"system\":\"s\",\"functions\":[2],\"tools\":[{\"a\":1}]}",
              want);
    try_spans("{\"functions\":[2],\"messages\":[{\"role\":\"r\","
              "\"content\":\"x\"}],\"tools\":[{\"a\":1}],\"system\":\"s\"}",
              want);
    try_spans("{\"system\":\"no\",\"messages\":[1],\"functions\":[2,3],"
              "\"system\":[\"s\"],\"messages\":[{\"role\":\"r\",\"content\":"
              "\"x\"}],\"tools\":[{\"a\":1}],\"functions\":[2]}",
              want);
}

Test(node_scan, empty_tools_are_no_tools)
{
    try_spans("{\"tools\":[ ],\"functions\":{},\"prompt\":\"p\"}", "text p|");
    try_spans("{\"tools\":[1],\"tools\":null,\"prompt\":\"p\"}", "text p|");
    try_spans("{\"tools\":\"x\",\"prompt\":\"p\"}", "text p|");
}

Test(node_scan, system_is_meant_before_instructions)
{
    try_spans("{\"instructions\":\"i\",\"system\":\"s\",\"input\":\"x\"}",
              "text s|text x|");
    try_spans("{\"instructions\":\"i\",\"system\":5,\"input\":\"x\"}",
              "text i|text x|");
    try_spans("{\"system\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
              "\"text\",\"text\":\"b\"}],\"messages\":[]}",
              "text a|text b|");
}

Test(node_scan, messages_are_meant_before_input_and_prompt)
{
    try_spans("{\"prompt\":\"p\",\"input\":\"i\",\"messages\":"
              "[{\"content\":\"m\"}]}",
              "role |text m|");
    try_spans("{\"messages\":[{\"content\":\"m\"}],\"prompt\":\"p\","
              "\"messages\":null,\"input\":\"i\"}",
              "text i|");
    try_spans("{\"prompt\":\"p\",\"input\":{}}", "text p|");
}

Test(node_scan, parts_give_text_media_or_themselves)
{
    try_spans(
        "{\"messages\":[{\"role\":\"u\",\"content\":["
        "{\"type\":\"text\",\"text\":\"a\"},{\"text\":\"b\"},\"c\",5,[6],"
        "{\"type\":\"input_text\",\"text\":\"d\"},"
        "{\"text\":\"e\",\"type\":\"output_text\"},"
        "{\"type\":\"refusal\",\"refusal\":\"f\"},"
        "{\"type\":\"image_url\",\"image_url\":{\"detail\":\"low\",\"url\":"
        "\"g\"}},{\"type\":\"image_url\",\"image_url\":\"h\"},"
        "{\"type\":\"input_image\",\"image_url\":\"i\"},"
        "{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"j\","
        "\"format\":\"wav\"}},"
        "{\"type\":\"file\",\"file\":{\"file_id\":\"k\",\"filename\":\"z\"}},"
        "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":"
        "\"l\"}},{\"type\":\"video_url\",\"video_url\":{\"url\":\"m\"}}]}]}",
        "role u|text a|text b|text c|text d|text e|text f|media g|media h|"
        "media i|media j|media k|media l|media m|");
}

Test(node_scan, a_media_part_is_its_uuid_if_it_has_one)
{
    try_spans("{\"messages\":[{\"role\":\"u\",\"content\":["
              "{\"type\":\"image_url\",\"image_url\":{\"url\":\"a?signed\"},"
              "\"uuid\":\"1\"},"
              "{\"uuid\":\"2\",\"type\":\"audio_url\",\"audio_url\":null},"
              "{\"type\":\"input_audio\",\"uuid\":null,\"input_audio\":"
              "{\"data\":\"b\"}},"
              "{\"type\":\"video_url\",\"video_url\":\"c\",\"uuid\":\"\"},"
              "{\"type\":\"text\",\"text\":\"d\",\"uuid\":\"3\"}]}]}",
              "role u|media 1|media 2|media b|media c|text d|");
}

Test(node_scan, part_that_is_not_understood_is_kept_raw)
{
    try_spans("{\"messages\":[{\"role\":\"u\",\"content\":["
              "{\"type\":\"thinking\",\"text\":\"a\"},{\"type\":\"text\"},{},"
              "{\"type\":\"image_url\",\"image_url\":{\"url\":1}},"
              "{\"type\":\"text\",\"text\":\"a\",\"text\":null}]}]}",
              "role u|tools {\"type\":\"thinking\",\"text\":\"a\"}|"
              "tools {\"type\":\"text\"}|tools {}|"
              "tools {\"type\":\"image_url\",\"image_url\":{\"url\":1}}|"
              "tools {\"type\":\"text\",\"text\":\"a\",\"text\":null}|");
}

Test(node_scan, nested_media_keys_take_the_last_of_each_and_the_best)
{
    try_spans("{\"messages\":[{\"content\":[{\"type\":\"file\",\"file\":"
              "{\"file_id\":\"a\",\"file_data\":\"b\",\"file_data\":\"c\","
              "\"x\":{\"url\":\"no\"}}}]}]}",
              "role |media c|");
}

Test(node_scan, tool_calls_names_and_reasoning_follow_the_content)
{
    try_spans("{\"messages\":[{\"tool_calls\":[{\"id\":\"1\"}],\"name\":\"n\","
              "\"reasoning_content\":\"why\",\"role\":\"assistant\","
              "\"content\":null,\"function_call\":{\"name\":\"f\"}}]}",
              "role assistant|text n|text why|tools [{\"id\":\"1\"}]|"
              "tools {\"name\":\"f\"}|");
    try_spans("{\"messages\":[{\"reasoning\":\"b\",\"role\":\"a\","
              "\"reasoning_content\":\"c\",\"content\":\"t\"}]}",
              "role a|text t|text c|text b|");
    try_spans("{\"messages\":[{\"role\":\"a\",\"tool_calls\":[1],"
              "\"tool_calls\":[]}]}",
              "role a|");
}

Test(node_scan, item_that_is_no_message_is_kept_raw)
{
    try_spans("{\"input\":[{\"role\":\"user\",\"content\":\"q\"},{\"type\":"
              "\"function_call\",\"arguments\":\"{}\"},7]}",
              "role user|text q|role |"
              "tools {\"type\":\"function_call\",\"arguments\":\"{}\"}|");
}

static void
shape(const char *body, enum scan_shape shape, uint32_t prompts,
      const char *spans)
{
    struct try try = try_body(body);

    cr_assert_eq(try.scan.shape, shape, "%s: %d", body, try.scan.shape);
    cr_assert_eq(try.scan.prompts, prompts, "%s: %u", body, try.scan.prompts);
    cr_assert_str_eq(try.spans, spans, "%s: %s", body, try.spans);
}

Test(node_scan, prompt_and_input_in_all_their_shapes)
{
    shape("{\"prompt\":\"p\"}", SCAN_STRING, 1, "text p|");
    shape("{\"input\":\"\"}", SCAN_STRING, 1, "text |");
    shape("{\"prompt\":[\"a\",\"b\",\"c\"]}", SCAN_STRINGS, 3, "text a|");
    shape("{\"prompt\":[1, 22,\n333]}", SCAN_ID_LIST, 1, "ids [1, 22,\n333]|");
    shape("{\"prompt\":[0],\"n\":3,\"user\":\"u\"}", SCAN_ID_LIST, 1,
          "ids [0]|");
    shape("{\"input\":[[1,2],[],[3]]}", SCAN_ID_LISTS, 3, "ids [1,2]|");
    shape("{\"input\":[[]]}", SCAN_ID_LISTS, 1, "ids []|");
    shape("{\"prompt\":[{\"content\":\"m\"}]}", SCAN_MESSAGES, 1,
          "role |text m|");
    shape("{}", SCAN_NO_PROMPT, 1, "");
    shape("{\"prompt\":[]}", SCAN_NO_PROMPT, 1, "");
    shape("{\"prompt\":null}", SCAN_NO_PROMPT, 1, "");
}

Test(node_scan, mixed_lists_are_as_if_absent)
{
    shape("{\"prompt\":[\"a\",1]}", SCAN_NO_PROMPT, 1, "");
    shape("{\"prompt\":[\"a\",[1,{\"x\":\"]\"}]]}", SCAN_NO_PROMPT, 1, "");
    shape("{\"prompt\":[1,\"a\",2],\"user\":\"u\"}", SCAN_NO_PROMPT, 1, "");
    shape("{\"prompt\":[1,-2]}", SCAN_NO_PROMPT, 1, "");
    shape("{\"prompt\":[1,2.0]}", SCAN_NO_PROMPT, 1, "");
    shape("{\"prompt\":[true]}", SCAN_NO_PROMPT, 1, "");
    shape("{\"prompt\":[[1],[2,[3]],[4]]}", SCAN_NO_PROMPT, 1, "");
    shape("{\"prompt\":[[1],2]}", SCAN_NO_PROMPT, 1, "");
    shape("{\"prompt\":[[1],{\"a\":[]}],\"input\":\"i\"}", SCAN_STRING, 1,
          "text i|");
}

Test(node_scan, keys_are_compared_after_unescaping)
{
    struct try try =
        try_body("{\"m\\u006fdel\":\"a\\\"\\u00e9\\uD83D\\uDE00\","
                 "\"\\u006d\\u0065\\u0073\\u0073\\u0061\\u0067\\u0065\\u0073\":"
                 "[{\"\\u0072ole\":\"user\",\"conten\\u0074\":[{\"typ\\u0065\":"
                 "\"tex\\u0074\",\"text\":\"x\\ny\"}]}]}");

    cr_assert_str_eq(try.model, "a\"\u00e9\U0001F600");
    cr_assert(try.scan.model.escaped);
    cr_assert_str_eq(try.spans, "role user|text x\ny|");
}

Test(node_scan, decoy_keys_at_other_levels_are_not_read)
{
    struct try try = try_body(
        "{\"metadata\":{\"model\":\"no\",\"messages\":[{\"content\":\"no\"}],"
        "\"stream\":true},\"x\":[{\"model\":\"no\"}],\"Model\":\"no\","
        "\"model \":\"no\",\"model\":\"yes\",\"y\":\"\\\"model\\\":\\\"no\"}");

    cr_assert_str_eq(try.model, "yes");
    cr_assert(!try.scan.stream);
    cr_assert_str_eq(try.spans, "");
}

Test(node_scan, strings_that_identify_are_given)
{
    static const struct slice kept[] = {
        {.ptr = "session_id", .len = 10},
        {.ptr = "user", .len = 4},
        {.ptr = "other", .len = 5},
    };
    const struct scan_limits limits = {
        .depth_max = 16, .spans_max = 8, .kept_count = 3, .kept = kept};
    const char *body = "{\"user\":\"u1\",\"cache_salt\":\"s2\",\"other\":\"x\","
                       "\"session\\u005fid\":\"i\\n3\",\"stream\":true,"
                       "\"x\":{\"user\":\"no\"},\"other\":5,"
                       "\"stream_options\":{\"include_usage\":true}}";
    struct try try = try_slice(slice_of(body), &limits);

    cr_assert(try.scan.stream && try.scan.include_usage);
    cr_assert_eq(memcmp(body + try.scan.salt.at, "s2", try.scan.salt.len), 0);
    cr_assert(try.scan.kept[1].present && !try.scan.kept[1].escaped);
    cr_assert_eq(memcmp(body + try.scan.kept[1].at, "u1", 2), 0);
    cr_assert(try.scan.kept[0].present && try.scan.kept[0].escaped);
    cr_assert_eq(try.scan.kept[0].len, 4);
    cr_assert(!try.scan.kept[2].present, "the last one counts, of any type");
    cr_assert(!try_body(body).scan.kept[1].present, "nobody asked");
}

Test(node_scan, include_usage_is_of_the_last_stream_options)
{
    cr_assert(!try_body("{\"stream_options\":{\"include_usage\":true},"
                        "\"stream_options\":{\"x\":{\"include_usage\":true}}}")
                   .scan.include_usage);
    cr_assert(!try_body("{\"stream_options\":{\"include_usage\":true,"
                        "\"include_usage\":1}}")
                   .scan.include_usage);
    cr_assert(!try_body("{\"stream_options\":[true]}").scan.include_usage);
}

static void
max_tokens(const char *number, bool has, int64_t value)
{
    char body[256];
    struct try try;

    snprintf(body, sizeof(body), "{\"max_tokens\":%s,\"user\":\"\"}", number);
    try = try_body(body);
    cr_assert_eq(try.scan.has_max_tokens, has, "%s", number);
    cr_assert_eq(try.scan.max_tokens, value, "%s: %lld", number,
                 (long long)try.scan.max_tokens);
}

Test(node_scan, numbers_are_exact_and_saturate)
{
    max_tokens("0", true, 0);
    max_tokens("-0", true, 0);
    max_tokens("-0.0e9", true, 0);
    max_tokens("4096", true, 4096);
    max_tokens("-1", true, -1);
    max_tokens("9007199254740993", true, INT64_C(9007199254740993));
    max_tokens("9223372036854775807", true, INT64_MAX);
    max_tokens("9223372036854775808", true, INT64_MAX);
    max_tokens("-9223372036854775808", true, INT64_MIN);
    max_tokens("-9223372036854775809", true, INT64_MIN);
    max_tokens("100000000000000000000000", true, INT64_MAX);
    max_tokens("1e400", true, INT64_MAX);
    max_tokens("-1e99999999999999999999", true, INT64_MIN);
    max_tokens("0e99999999999999999999", true, 0);
    max_tokens("128.0", true, 128);
    max_tokens("1.28e2", true, 128);
    max_tokens("12800e-2", true, 128);
    max_tokens("1.25E+2", true, 125);
    max_tokens("1.5", false, 0);
    max_tokens("1e-1", false, 0);
    max_tokens("128e-99999999999999999999", false, 0);
    max_tokens("\"128\"", false, 0);
    max_tokens("true", false, 0);
    max_tokens("null", false, 0);
    max_tokens("[128]", false, 0);
}

Test(node_scan, newest_name_of_the_output_limit_counts)
{
    struct try try = try_body("{\"max_tokens\":1,\"max_output_tokens\":2,"
                              "\"max_completion_tokens\":3}");
    cr_assert_eq(try.scan.max_tokens, 3);
    try = try_body("{\"max_completion_tokens\":null,\"max_output_tokens\":2,"
                   "\"max_tokens\":1}");
    cr_assert_eq(try.scan.max_tokens, 2);
}

Test(node_scan, priority_and_n)
{
    struct try try = try_body("{\"priority\":-5,\"n\":4}");
    cr_assert(try.scan.has_priority);
    cr_assert_eq(try.scan.priority, -5);
    cr_assert_eq(try.scan.n, 4);
    try = try_body("{\"n\":0}");
    cr_assert(!try.scan.has_priority);
    cr_assert_eq(try.scan.n, 1);
    cr_assert_eq(try_body("{\"n\":1e30}").scan.n, UINT32_MAX);
    cr_assert_eq(try_body("{\"n\":\"2\"}").scan.n, 1);
}

Test(node_scan, a_priority_that_is_no_integer_is_a_bad_one)
{
    cr_assert(try_body("{\"priority\":\"high\"}").scan.priority_bad);
    cr_assert(try_body("{\"priority\":1.5}").scan.priority_bad);
    cr_assert(try_body("{\"priority\":[1]}").scan.priority_bad);
    cr_assert(try_body("{\"priority\":true}").scan.priority_bad);
    cr_assert(!try_body("{\"priority\":null}").scan.priority_bad);
    cr_assert(!try_body("{\"priority\":2.0}").scan.priority_bad);
    cr_assert(
        !try_body("{\"priority\":\"1\",\"priority\":1}").scan.priority_bad);
    cr_assert(!try_body("{}").scan.priority_bad);
}

Test(node_scan, greedy_is_who_says_a_temperature_of_nought)
{
    cr_assert(try_body("{\"temperature\":0}").scan.greedy);
    cr_assert(try_body("{\"temperature\":0.0}").scan.greedy);
    cr_assert(!try_body("{\"temperature\":0.1}").scan.greedy);
    cr_assert(!try_body("{\"temperature\":null}").scan.greedy);
    cr_assert(!try_body("{\"temperature\":0,\"temperature\":1}").scan.greedy);
    cr_assert(!try_body("{\"temperature\":\"0\"}").scan.greedy);
    cr_assert(!try_body("{}").scan.greedy);
}

Test(node_scan, spans_that_are_kept_are_the_first_in_rendered_order)
{
    const char *body =
        "{\"messages\":[{\"content\":[\"a\",\"b\"],\"role\":\"r\"},"
        "{\"role\":\"t\",\"content\":\"c\"}],\"system\":[\"s\"],"
        "\"tools\":[1]}";
    const char *all = "tools [1]|text s|role r|text a|text b|role t|text c|";
    const size_t lens[] = {0, 10, 17, 24, 31, 38, 45, 52};

    for (uint32_t max = 0; max < 9; max++) {
        struct scan_limits limits = {.depth_max = 8, .spans_max = max};
        struct try try = try_slice(slice_of(body), &limits);
        size_t len = lens[max < 7 ? max : 7];
        cr_assert_eq(try.outcome, 0);
        cr_assert_eq(strlen(try.spans), len, "%s", try.spans);
        cr_assert_eq(memcmp(try.spans, all, len), 0, "%s", try.spans);
        cr_assert_eq(try.scan.spans_truncated, max < 7);
        cr_assert_eq(try.scan.shape, SCAN_MESSAGES);
    }
}

Test(node_scan, spans_taken_back_do_not_count_against_the_limit)
{
    struct scan_limits limits = {.depth_max = 8, .spans_max = 2};
    struct try try = try_slice(
        SLICE("{\"messages\":[{\"content\":[\"a\",\"b\",\"c\"],\"content\":"
              "\"d\"}],\"messages\":[{\"content\":[\"a\",\"b\"],\"content\":"
              "\"e\"}]}"),
        &limits);

    cr_assert_str_eq(try.spans, "role |text e|");
    cr_assert(!try.scan.spans_truncated);
}

Test(node_scan, long_strings_and_blanks_cross_blocks)
{
    char body[2048];
    char spans[1024];
    char text[400];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memcpy(text + 100, "\\\\\\\"\\u00e9", 10);
    snprintf(body, sizeof(body),
             "{\"messages\"%100s:[{\"role\":\"u\",%200s\"content\":\"%s\"}]}",
             "", "", text);
    memmove(text + 100, "\\\"\u00e9", 4);
    memmove(text + 104, text + 110, sizeof(text) - 110);
    snprintf(spans, sizeof(spans), "role u|text %s|", text);
    try_spans(body, spans);
}

static void
option_is(const char *body, enum scan_option option, const char *raw)
{
    struct try try = try_body(body);
    const struct scan_text *found = &try.scan.options[option];

    cr_assert_eq(try.outcome, 0);
    cr_assert_eq(found->present, raw != NULL);
    if (raw != NULL) {
        cr_assert(slice_equal(
            (struct slice){.ptr = body + found->at, .len = found->len},
            slice_of(raw)));
    }
}

Test(node_scan, options_of_rendering_are_kept_raw)
{
    option_is("{\"chat_template\":\"a\\n\"}", SCAN_CHAT_TEMPLATE, "\"a\\n\"");
    option_is("{\"tool_choice\" : {\"a\": [1] } }", SCAN_TOOL_CHOICE,
              "{\"a\": [1] }");
    option_is("{\"documents\":[]}", SCAN_DOCUMENTS, "[]");
    option_is("{\"add_generation_prompt\": false }", SCAN_ADD_GENERATION_PROMPT,
              "false");
    option_is("{\"reasoning_effort\":null}", SCAN_REASONING_EFFORT, "null");
    option_is("{\"truncate_prompt_tokens\":-1\n,\"n\":1}",
              SCAN_TRUNCATE_PROMPT_TOKENS, "-1");
    option_is("{\"chat_template_kwargs\":1,\"chat_template_kwargs\":{}}",
              SCAN_CHAT_TEMPLATE_KWARGS, "{}");
    option_is("{\"mm_processor_kwargs\":[[1,2],3]}", SCAN_MM_PROCESSOR_KWARGS,
              "[[1,2],3]");
    option_is("{\"a\":{\"documents\":1}}", SCAN_DOCUMENTS, NULL);
    option_is("{\"response_format\":1}", SCAN_DOCUMENTS, NULL);
}

Test(node_scan, each_option_has_its_name)
{
    for (unsigned i = 0; i < SCAN_OPTIONS; i++) {
        char body[128];
        snprintf(body, sizeof(body), "{\"%s\":[%u]}",
                 scan_option_name((enum scan_option)i), i);
        char raw[16];
        snprintf(raw, sizeof(raw), "[%u]", i);
        option_is(body, (enum scan_option)i, raw);
    }
}

static void
pools(const char *body, enum scan_api api, bool each)
{
    struct scan_span spans[4];
    struct scan scan = {.spans = spans, .api = SCAN_API_POOLING};
    struct scan_limits limits = {.depth_max = 16, .spans_max = 4};

    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0);
    cr_assert_eq(scan.api, api, "%s", body);
    cr_assert_eq(scan.rescored, each, "%s", body);
}

Test(node_scan, a_task_says_whether_a_whole_prompt_is_pooled)
{
    pools("{\"input\":\"a\",\"task\":\"embed\"}", SCAN_API_EMBEDDINGS, false);
    pools("{\"task\":\"classify\",\"input\":[1]}", SCAN_API_EMBEDDINGS, false);
    pools("{\"task\":\"token_embed\",\"input\":\"a\"}", SCAN_API_EMBEDDINGS,
          true);
    pools("{\"task\":\"token_classify\"}", SCAN_API_EMBEDDINGS, true);
    pools("{\"input\":\"a\",\"task\":\"plugin\"}", SCAN_API_OTHER, false);
    pools("{\"input\":\"a\",\"task\":null}", SCAN_API_OTHER, false);
    pools("{\"input\":\"embed\"}", SCAN_API_OTHER, false);
}

Test(node_scan, a_number_that_crosses_blocks_is_kept_whole)
{
    char body[512];
    char digits[201];

    memset(digits, '7', 200);
    digits[200] = '\0';
    snprintf(body, sizeof(body), "{\"x\":\"%30s\",\"documents\":%s}", "",
             digits);
    option_is(body, SCAN_DOCUMENTS, digits);
}

static void
raws_are(const char *body, const char *prompt, bool is_input, const char *tools)
{
    struct try try = try_body(body);
    const struct scan_text *p = &try.scan.prompt_raw;
    const struct scan_text *t = &try.scan.tools_raw;

    cr_assert_eq(try.scan.prompt_is_input, is_input);
    cr_assert(slice_equal((struct slice){.ptr = body + p->at, .len = p->len},
                          slice_of(prompt)));
    cr_assert(slice_equal((struct slice){.ptr = body + t->at, .len = t->len},
                          slice_of(tools)));
}

Test(node_scan, the_prompt_is_known_as_it_stands)
{
    raws_are("{\"tools\":[ {} ], \"messages\" : [ {\"role\":\"u\"} ] }",
             "[ {\"role\":\"u\"} ]", false, "[ {} ]");
    raws_are("{\"prompt\":\"a\",\"input\": \"b\" }", "\"b\"", true, "");
    raws_are("{\"input\":1,\"prompt\":[\"a\"],\"tools\":[]}", "[\"a\"]", false,
             "");
    raws_are("{\"prompt\":1,\"tools\":[1],\"tools\":null}", "", false, "");
}

/* The body with "S" as its salt. */
static void
salted(const char *body, const char *wanted)
{
    struct try try = try_body(body);
    uint32_t after = try.scan.salt_at + try.scan.salt_cut;
    char made[256];

    (void)snprintf(made, sizeof(made), "%.*s%s%s", (int)try.scan.salt_at, body,
                   try.scan.salt_cut != 0 ? "\"S\"" : "\"cache_salt\":\"S\",",
                   body + after);
    cr_assert_str_eq(made, wanted);
}

Test(node_scan, another_salt_has_a_place_that_counts)
{
    salted("{\"prompt\":\"x\"}", "{\"cache_salt\":\"S\",\"prompt\":\"x\"}");
    salted("{\"cache_salt\":\"a\\\"b\",\"n\":1}",
           "{\"cache_salt\":\"S\",\"n\":1}");
    salted("{ \"cache_salt\" : null }", "{ \"cache_salt\" : \"S\" }");
    salted("{\"cache_salt\":[1,{\"a\":2}],\"n\":1}",
           "{\"cache_salt\":\"S\",\"n\":1}");
    salted("{\"cache_salt\":\"a\",\"n\":1,\"cache_\\u0073alt\":12}",
           "{\"cache_salt\":\"a\",\"n\":1,\"cache_\\u0073alt\":\"S\"}");
}
