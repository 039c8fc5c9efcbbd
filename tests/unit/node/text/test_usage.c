#include <criterion/criterion.h>
#include <string.h>

#include "node/text/usage.h"

static char room[USAGE_OBJECT_MAX];

static void
begin(struct usage_watch *watch)
{
    usage_watch_init(watch);
    watch->room = room;
}

static struct usage
find(const char *text)
{
    struct usage_watch watch;
    struct usage usage;

    begin(&watch);
    usage_watch_give(&watch, slice_of(text));
    usage_watch_end(&watch, &usage);
    return usage;
}

Test(node_usage, reads_the_usage_of_a_plain_answer)
{
    struct usage u =
        find("..\"}],\"usage\":{\"prompt_tokens\":640,"
             "\"completion_tokens\":3,\"total_tokens\":643,"
             "\"prompt_tokens_details\":{\"cached_tokens\": 624}}}");

    cr_assert_eq(u.prompt_tokens, 640);
    cr_assert_eq(u.cached_tokens, 624);
}

/* The room is another one's between two pieces, unless something is kept. */
static void
give(struct usage_watch *watch, const char *text, size_t len)
{
    usage_watch_give(watch, (struct slice){text, len});
    if (watch->object_len == 0) {
        memset(room, '9', sizeof(room));
    }
}

static void
find_in_any_two_pieces(const char *tail)
{
    size_t size = strlen(tail);
    char text[256];

    for (size_t before = 0; before < 100; before++) {
        memset(text, '"', before); /* many quotes, none of them the name's */
        memcpy(text + before, tail, size);
        for (size_t cut = 0; cut <= before + size; cut++) {
            struct usage_watch watch;
            struct usage usage;
            begin(&watch);
            give(&watch, text, cut);
            give(&watch, text + cut, before + size - cut);
            usage_watch_end(&watch, &usage);
            cr_assert_eq(usage.prompt_tokens, 7, "%zu, %zu", before, cut);
            cr_assert_eq(watch.object_len, 0); /* the room may go back */
        }
    }
}

Test(node_usage, finds_it_at_any_place_and_in_any_two_pieces)
{
    find_in_any_two_pieces("\"usage\":{\"prompt_tokens\":7}");
}

Test(node_usage, finds_timings_at_any_place_and_in_any_two_pieces)
{
    find_in_any_two_pieces("\"timings\":{\"cache_n\":3,\"prompt_n\":4}");
    find_in_any_two_pieces("\"usage\":{\"prompt_tokens\":8},\"timings\":{"
                           "\"cache_n\":3,\"prompt_n\":4,\"x\":[{}]}");
}

/* With timings_per_token each event has some; all but the last are far from the
 * end. */
Test(node_usage, the_last_timings_count)
{
    cr_assert_eq(find("\"timings\":{\"cache_n\":3,\"prompt_n\":4,"
                      "\"predicted_n\":1}}\n\ndata: {\"timings\":{"
                      "\"cache_n\":3,\"prompt_n\":4,\"predicted_n\":2}}")
                     .completion_tokens,
                 2);
}

/* An object is looked at as far as its room goes, in however many pieces. */
Test(node_usage, a_long_object_is_looked_at_in_part)
{
    char text[2 * USAGE_OBJECT_MAX] = "\"usage\":{\"prompt_tokens\":7,\"x\":\"";
    size_t len = strlen(text);

    memset(text + len, 'x', sizeof(text) - len);
    memcpy(text + sizeof(text) - 24, "\",\"prompt_tokens\":8}", 21);
    for (size_t piece = 1; piece <= sizeof(text); piece *= 2) {
        struct usage_watch watch;
        struct usage usage;
        begin(&watch);
        for (size_t at = 0; at < sizeof(text); at += piece) {
            give(&watch, text + at, piece);
        }
        usage_watch_end(&watch, &usage);
        cr_assert_eq(usage.prompt_tokens, 7, "%zu", piece);
    }
}

/* Where the room ends within a number, its first digits are another number. */
Test(node_usage, a_number_that_the_room_cuts_is_nothing)
{
    static const char head[] = "\"usage\":{\"x\":\"";
    static const char tail[] = "\",\"prompt_tokens\":123";
    size_t object_at = strlen("\"usage\":");
    char text[2 * USAGE_OBJECT_MAX];

    for (size_t inside = 0; inside <= 4; inside++) {
        size_t tail_at =
            object_at + USAGE_OBJECT_MAX - strlen(tail) + 3 - inside;
        memset(text, 'x', sizeof(text));
        memcpy(text, head, strlen(head));
        memcpy(text + tail_at, tail, strlen(tail));
        strcpy(text + tail_at + strlen(tail), "}");
        cr_assert_eq(find(text).prompt_tokens, inside == 4 ? 123 : 0, "%zu",
                     inside);
    }
}

Test(node_usage, takes_the_last_of_a_stream)
{
    struct usage u = find("data: {\"usage\":{\"prompt_tokens\":1}}\n\n"
                          "data: {\"usage\":{\"prompt_tokens\":20,"
                          "\"prompt_tokens_details\":null}}\n\n"
                          "data: [DONE]\n\n0\r\n\r\n");

    cr_assert_eq(u.prompt_tokens, 20);
    cr_assert_eq(u.cached_tokens, 0);
}

Test(node_usage, generated_text_cannot_fake_it)
{
    struct usage u = find("{\"content\":\"\\\"cached_tokens\\\": 99\"}");

    cr_assert_eq(u.cached_tokens, 0);
}

Test(node_usage, a_number_cut_off_or_too_large_is_nothing)
{
    cr_assert_eq(find("\"usage\":{\"prompt_tokens\"").prompt_tokens, 0);
    cr_assert_eq(find("\"usage\":{\"prompt_tokens\":}").prompt_tokens, 0);
    cr_assert_eq(
        find("\"usage\":{\"prompt_tokens\":99999999999}").prompt_tokens, 0);
    cr_assert_eq(find("").prompt_tokens, 0);
}

Test(node_usage, zero_cached_tokens_are_known_and_null_is_not)
{
    cr_assert(find("\"usage\":{\"prompt_tokens\":9,\"cached_tokens\":0}")
                  .cached_known);
    cr_assert_not(find("\"usage\":{\"prompt_tokens\":9}").cached_known);
    cr_assert_not(find("\"usage\":{\"cached_tokens\":null}").cached_known);
    cr_assert_not(find("\"usage\":{\"cached_tokens\":").cached_known);
    cr_assert_not(
        find("\"usage\":{\"cached_tokens\":99999999999}").cached_known);
    cr_assert_not(find("").cached_known);
}

Test(node_usage, what_follows_it_may_be_long)
{
    char text[8192] = "{\"usage\":{\"prompt_tokens\":640,"
                      "\"prompt_tokens_details\":{\"cached_tokens\":624,"
                      "\"created_cache_tokens\":16}},"
                      "\"prompt_token_ids\":[";

    while (strlen(text) < sizeof(text) - 16) {
        strcat(text, "1234,");
    }
    strcat(text, "1]}");
    cr_assert_eq(find(text).prompt_tokens, 640);
    cr_assert_eq(find(text).cached_tokens, 624);
    cr_assert_eq(find(text).created_tokens, 16);
    cr_assert(find(text).cached_known);
}

Test(node_usage, responses_say_input_tokens)
{
    struct usage u = find(
        "event: response.created\ndata: {\"response\":{\"usage\":null}}\n\n"
        "data: {\"response\":{\"usage\":{\"input_tokens\":90,"
        "\"input_tokens_details\":{\"cached_tokens\":64,"
        "\"cache_write_tokens\":26,\"input_tokens_per_turn\":[1],"
        "\"cached_tokens_per_turn\":[2]},\"output_tokens\":5},"
        "\"user\":null}}\n\n");

    cr_assert_eq(u.prompt_tokens, 90);
    cr_assert_eq(u.cached_tokens, 64);
    cr_assert_eq(u.created_tokens, 26);
    cr_assert(u.cached_known);
}

Test(node_usage, anthropic_counts_the_cache_beside_the_input)
{
    struct usage u =
        find("data: {\"type\":\"message_start\",\"message\":{\"usage\":{"
             "\"input_tokens\":90,\"output_tokens\":0}}}\n\n"
             "data: {\"type\":\"message_delta\",\"usage\":{"
             "\"output_tokens\":7,\"cache_read_input_tokens\":64,"
             "\"cache_creation_input_tokens\":16,\"input_tokens\":10}}\n\n");

    cr_assert_eq(u.prompt_tokens, 90);
    cr_assert_eq(u.cached_tokens, 64);
    cr_assert_eq(u.created_tokens, 16);
    cr_assert(u.cached_known);
}

Test(node_usage, a_later_object_without_the_cache_takes_nothing_back)
{
    struct usage u = find("data: {\"message\":{\"usage\":{\"input_tokens\":10,"
                          "\"cache_read_input_tokens\":64}}}\n\n"
                          "data: {\"usage\":{\"output_tokens\":7}}\n\n"
                          "data: {\"usage\":{\"input_tokens\":10}}\n\n");

    cr_assert_eq(u.prompt_tokens, 74);
    cr_assert_eq(u.cached_tokens, 64);
}

Test(node_usage, a_string_of_that_name_is_no_usage)
{
    cr_assert_eq(
        find("{\"token\":\"usage\",\"prompt_tokens\":4}").prompt_tokens, 0);
    cr_assert_eq(find("{\"usage\" : {\"x\":\"}\\\"}\","
                      "\"prompt_tokens\":4}}")
                     .prompt_tokens,
                 4);
}

Test(node_usage, llama_cpps_timings_say_it_without_usage)
{
    struct usage u = find("\"finish_reason\":\"length\"}],\"timings\":{"
                          "\"cache_n\":236,\"prompt_n\":4,\"prompt_ms\":3.1,"
                          "\"predicted_n\":35}}\n\ndata: [DONE]\n\n");

    cr_assert_eq(u.prompt_tokens, 240);
    cr_assert_eq(u.cached_tokens, 236);
    cr_assert(u.cached_known);
}

/* Recorded: the server of llama.cpp, of October 2026. */
Test(node_usage, the_end_of_a_stream_of_a_real_llama_cpp)
{
    struct usage u = find(
        "data: "
        "{\"choices\":[{\"finish_reason\":\"length\",\"index\":0,\"delta\":{"
        "}}],\"created\":1795670244,\"id\":\"chatcmpl-"
        "7remq5AzOSENz4iNug4yLYNqH8xY5a6r\",\"model\":\"tiny\",\"system_"
        "fingerprint\":\"b0-unknown\",\"object\":\"chat.completion.chunk\","
        "\"timings\":{\"cache_n\":17,\"prompt_n\":1,\"prompt_ms\":3.83,"
        "\"prompt_"
        "per_token_ms\":3.83,\"prompt_per_second\":261.0966057441253,"
        "\"predicted_n\":3,\"predicted_ms\":0.134,\"predicted_per_token_ms\":0."
        "067,\"predicted_per_second\":14925.373134328358}}\n\ndata: "
        "[DONE]\n\n");

    cr_assert_eq(u.prompt_tokens, 18);
    cr_assert_eq(u.cached_tokens, 17);
    cr_assert_eq(u.completion_tokens, 3);
    cr_assert(u.cached_known);
}

Test(node_usage, an_older_llama_cpp_has_the_cached_tokens_in_its_timings_alone)
{
    struct usage u = find("\"usage\":{\"prompt_tokens\":240,\"total_tokens\":"
                          "250},\"timings\":{\"cache_n\":0,\"prompt_n\":240}}");

    cr_assert_eq(u.prompt_tokens, 240);
    cr_assert_eq(u.cached_tokens, 0);
    cr_assert(u.cached_known);
}

Test(node_usage, half_of_the_timings_say_nothing)
{
    cr_assert_not(find("\"timings\":{\"cache_n\":5}}").cached_known);
    cr_assert_not(find("\"timings\":{\"cache_n\":4294967295,\"prompt_n\":1}")
                      .cached_known);
}

Test(node_usage, an_object_that_is_forgotten_does_not_count)
{
    static const char begin_of[] = "\"usage\":{\"prompt_tokens\":1";
    static const char rest_of[] =
        "2,\"completion_tokens\":3,\"cached_tokens\":4}";
    struct usage_watch watch;
    struct usage usage;

    begin(&watch);
    usage_watch_give(&watch, slice_of(begin_of));
    cr_assert_neq(watch.object_len, 0);
    usage_watch_forget(&watch);
    cr_assert_eq(watch.object_len, 0);
    usage_watch_give(&watch, slice_of(rest_of));
    usage_watch_end(&watch, &usage);
    cr_assert_eq(usage.prompt_tokens, 0);
    cr_assert_eq(usage.completion_tokens, 0);
    cr_assert_not(usage.cached_known);

    usage_watch_give(&watch, slice_of("\"usage\":{\"prompt_tokens\":5}"));
    usage_watch_end(&watch, &usage);
    cr_assert_eq(usage.prompt_tokens, 5);
}
