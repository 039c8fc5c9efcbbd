#include <criterion/criterion.h>

#include "node/text/usage.h"

static struct usage
find(const char *text)
{
    struct usage usage;
    usage_find(slice_of(text), &usage);
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
    cr_assert_eq(find("\"prompt_tokens\"").prompt_tokens, 0);
    cr_assert_eq(find("\"prompt_tokens\":").prompt_tokens, 0);
    cr_assert_eq(find("\"prompt_tokens\":99999999999").prompt_tokens, 0);
    cr_assert_eq(find("").prompt_tokens, 0);
}

Test(node_usage, zero_cached_tokens_are_known_and_null_is_not)
{
    cr_assert(find("{\"prompt_tokens\":9,\"cached_tokens\":0}").cached_known);
    cr_assert_not(find("{\"prompt_tokens\":9}").cached_known);
    cr_assert_not(find("{\"cached_tokens\":null}").cached_known);
    cr_assert_not(find("{\"cached_tokens\":").cached_known);
    cr_assert_not(find("{\"cached_tokens\":99999999999}").cached_known);
    cr_assert_not(find("").cached_known);
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
    cr_assert_not(find("\"timings\":{\"cache_n\":5}").cached_known);
    cr_assert_not(find("\"cache_n\":4294967295,\"prompt_n\":1").cached_known);
}
