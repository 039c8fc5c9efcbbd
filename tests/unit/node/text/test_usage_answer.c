#include <criterion/criterion.h>

#include "node/text/usage.h"

static struct usage
find(const char *text)
{
    char room[USAGE_OBJECT_MAX];
    struct usage_watch watch;
    struct usage usage;

    usage_watch_init(&watch);
    watch.room = room;
    usage_watch_give(&watch, slice_of(text));
    usage_watch_end(&watch, &usage);
    return usage;
}

Test(node_usage_answer, counts_the_tokens_of_an_answer)
{
    cr_assert_eq(find("\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,"
                      "\"completion_tokens_details\":{\"reasoning_tokens\":1}}")
                     .completion_tokens,
                 3);
    /* Responses; Anthropic, whose last word is of the answer alone. */
    cr_assert_eq(find("\"usage\":{\"input_tokens\":5,\"output_tokens\":7}")
                     .completion_tokens,
                 7);
    struct usage u = find("\"usage\":{\"input_tokens\":5,\"output_tokens\":1}"
                          "\"usage\":{\"output_tokens\":9}");
    cr_assert_eq(u.completion_tokens, 9);
    cr_assert_eq(u.prompt_tokens, 5);
    cr_assert_eq(find("\"timings\":{\"cache_n\":2,\"prompt_n\":3,"
                      "\"predicted_n\":4}")
                     .completion_tokens,
                 4);
}
