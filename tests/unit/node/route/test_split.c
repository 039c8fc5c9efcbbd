/* What both halves of a split request are asked. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/route/split.h"

#define ASKS                                                                \
    "\"kv_transfer_params\":{\"do_remote_decode\":true,"                    \
    "\"do_remote_prefill\":false,\"remote_engine_id\":null,"                \
    "\"remote_block_ids\":null,\"remote_host\":null,\"remote_port\":null}," \
    ""

/* The body of the prefill half; NULL: it is not split. */
static const char *
prefill_of(const char *body)
{
    static char out[2048];
    struct body_edit edits[SPLIT_EDITS_MAX];
    struct split_form form;
    size_t from = 0;
    size_t len = 0;

    if (!split_read(slice_of(body), &form)) {
        return NULL;
    }
    uint32_t count = split_prefill_edits(&form, edits);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_geq(edits[i].at, from);
        len += (size_t)snprintf(out + len, sizeof(out) - len, "%.*s%.*s",
                                (int)(edits[i].at - from), body + from,
                                (int)edits[i].text.len, edits[i].text.ptr);
        from = edits[i].at + edits[i].cut;
    }
    (void)snprintf(out + len, sizeof(out) - len, "%s", body + from);
    return out;
}

Test(split, the_prefill_half_asks_for_one_token_as_json)
{
    cr_assert_str_eq(
        prefill_of("{\"model\":\"m\", \"stream\" : true,\"max_tokens\":\t77 ,"
                   "\"stream_options\":{\"include_usage\":true},"
                   "\"min_tokens\":5,\"max_completion_tokens\":9}"),
        "{" ASKS "\"model\":\"m\", \"stream\" : false,\"max_tokens\":\t1 ,"
        "\"stream_options\":null,"
        "\"min_tokens\":0,\"max_completion_tokens\":1}");
}

Test(split, a_number_of_tokens_that_is_missing_is_added)
{
    cr_assert_str_eq(prefill_of(" {\"prompt\":\"x\"}"),
                     " {" ASKS "\"max_tokens\":1,\"prompt\":\"x\"}");
    cr_assert_str_eq(
        prefill_of("{\"max_completion_tokens\":9,\"prompt\":\"x\"}"),
        "{" ASKS "\"max_tokens\":1,"
        "\"max_completion_tokens\":1,\"prompt\":\"x\"}");
}

Test(split, members_of_members_stay_as_they_are)
{
    cr_assert_str_eq(prefill_of("{\"metadata\":{\"stream\":true,"
                                "\"kv_transfer_params\":1},\"max_tokens\":4}"),
                     "{" ASKS "\"metadata\":{\"stream\":true,"
                     "\"kv_transfer_params\":1},\"max_tokens\":1}");
}

Test(split, what_its_client_splits_or_nobody_can_read_is_not_split)
{
    static const char *const bodies[] = {
        "{\"kv_transfer_params\":{}}",
        "{\"bootstrap_room\":7}",
        "{\"bootstrap_host\":\"h\"}",
        "{\"kv\\u005ftransfer_params\":{}}",
        "{\"max_tokens\":1,\"max_tokens\":2}",
        "{\"stream\":true,\"str\\u0065am\":false}",
        "{\"stream\":tru}",
        "{\"stream\":true",
        "{\"a\":}",
        "[]",
        "",
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        cr_assert_null(prefill_of(bodies[i]), "%s", bodies[i]);
    }
    cr_assert_not_null(prefill_of("{\"kv_transfer_params\":null}"));
}

static const char *
params_of(const char *answer)
{
    static char out[256];
    struct slice member;

    if (!split_params(slice_of(answer), &member)) {
        return NULL;
    }
    (void)snprintf(out, sizeof(out), "%.*s", (int)member.len, member.ptr);
    return out;
}

Test(split, parameters_pass_as_they_are)
{
    cr_assert_str_eq(params_of("{\"id\":\"x\",\"choices\":[{\"a\":{}}],"
                               "\"kv_transfer_params\" : {\"b\":[[1, 2]],"
                               "\"c\":1.50} ,\"usage\":{}}\n"),
                     "\"kv_transfer_params\" : {\"b\":[[1, 2]],\"c\":1.50}");
}

Test(split, parameters_that_are_none)
{
    static const char *const answers[] = {
        "{\"kv_transfer_params\":null}",
        "{\"kv_transfer_params\":[1]}",
        "{\"kv_transfer_params\":\"{}\"}",
        "{\"x\":{\"kv_transfer_params\":{}}}",
        "{\"kv_transfer_params\":{\"a\":}}",
        "{\"kv_transfer_params\":{}",
        "{\"kv_transfer_params\":{}} x",
        "[{\"kv_transfer_params\":{}}]",
        "data: {\"kv_transfer_params\":{}}",
        "",
    };

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        cr_assert_null(params_of(answers[i]), "%s", answers[i]);
    }
}

Test(split, a_room_is_a_number_that_is_not_negative)
{
    static struct fleet_worker worker = {.bootstrap_port = 8998};
    char text[SPLIT_ROOM_TEXT_MAX];

    memcpy(worker.host, "10.0.0.1", sizeof("10.0.0.1"));
    uint32_t len = split_room(&worker, UINT64_MAX, text);
    cr_assert_eq(len, strlen(text));
    cr_assert_str_eq(text, "\"bootstrap_host\":\"10.0.0.1\","
                           "\"bootstrap_port\":8998,"
                           "\"bootstrap_room\":9223372036854775807,");
    memset(worker.host, 'h', sizeof(worker.host) - 1);
    worker.bootstrap_port = UINT16_MAX;
    (void)split_room(&worker, INT64_MAX, text);
}

Test(split, requests_that_can_be)
{
    static const struct scan chat = {
        .api = SCAN_API_CHAT, .shape = SCAN_MESSAGES, .n = 1, .prompts = 1};
    struct scan scan = chat;

    cr_assert(split_suits(&scan));
    scan.n = 2;
    cr_assert_not(split_suits(&scan));
    scan = chat;
    scan.rescored = true;
    cr_assert_not(split_suits(&scan));
    scan = chat;
    scan.api = SCAN_API_EMBEDDINGS;
    cr_assert_not(split_suits(&scan));
    scan = (struct scan){
        .api = SCAN_API_TEXT, .shape = SCAN_ID_LIST, .n = 1, .prompts = 1};
    cr_assert(split_suits(&scan));
    scan.shape = SCAN_ID_LISTS;
    cr_assert_not(split_suits(&scan));
}
