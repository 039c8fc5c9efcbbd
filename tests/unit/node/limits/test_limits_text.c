#include <criterion/criterion.h>
#include <stdio.h>

#include "node/limits/limits_text.h"

static const struct limits_standing usual = {
    .limit = 600, .left = 599, .reset_ms = 360000};

static void
is(const struct buf *out, const char *text)
{
    cr_assert(slice_equal(buf_slice(out), slice_of(text)), "%.*s",
              (int)out->len, out->ptr);
}

Test(limits_text, openai_s_clients_read_three_lines)
{
    struct buf out;

    buf_init(&out, 1024);
    limits_text_openai(&out, LIMITS_REQUESTS, &usual);
    is(&out, "x-ratelimit-limit-requests: 600\r\n"
             "x-ratelimit-remaining-requests: 599\r\n"
             "x-ratelimit-reset-requests: 6m0s\r\n");
    buf_clear(&out);
    limits_text_openai(&out, LIMITS_TOKENS, &usual);
    is(&out, "x-ratelimit-limit-tokens: 600\r\n"
             "x-ratelimit-remaining-tokens: 599\r\n"
             "x-ratelimit-reset-tokens: 6m0s\r\n");
    buf_fini(&out);
}

Test(limits_text, anthropic_s_clients_read_a_time_of_day)
{
    struct buf out;

    buf_init(&out, 1024);
    limits_text_anthropic(&out, LIMITS_TOKENS, &usual,
                          SLICE("2024-05-01T09:56:01Z"));
    is(&out, "anthropic-ratelimit-tokens-limit: 600\r\n"
             "anthropic-ratelimit-tokens-remaining: 599\r\n"
             "anthropic-ratelimit-tokens-reset: 2024-05-01T09:56:01Z\r\n");
    buf_clear(&out);
    limits_text_anthropic(&out, LIMITS_REQUESTS, &usual,
                          SLICE("2024-05-01T09:56:00Z"));
    is(&out, "anthropic-ratelimit-requests-limit: 600\r\n"
             "anthropic-ratelimit-requests-remaining: 599\r\n"
             "anthropic-ratelimit-requests-reset: 2024-05-01T09:56:00Z\r\n");
    buf_fini(&out);
}

Test(limits_text, spans_are_as_go_prints_them_and_never_too_short)
{
    static const struct {
        uint64_t ms;
        const char *span;
    } row[] = {
        {0, "0ms"},      {999, "999ms"},  {1000, "1s"},    {1001, "2s"},
        {59001, "1m0s"}, {60000, "1m0s"}, {61500, "1m2s"}, {3600000, "60m0s"},
    };
    struct buf out;
    char text[128];

    buf_init(&out, 1024);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct limits_standing s = {.reset_ms = row[i].ms};
        buf_clear(&out);
        limits_text_openai(&out, LIMITS_TOKENS, &s);
        (void)snprintf(text, sizeof(text),
                       "x-ratelimit-limit-tokens: 0\r\n"
                       "x-ratelimit-remaining-tokens: 0\r\n"
                       "x-ratelimit-reset-tokens: %s\r\n",
                       row[i].span);
        is(&out, text);
    }
    buf_fini(&out);
}

Test(limits_text, the_greatest_numbers_fit_and_a_full_buffer_is_no_matter)
{
    const struct limits_standing great = {
        .limit = UINT64_MAX, .left = UINT64_MAX, .reset_ms = UINT64_MAX - 999};
    struct buf out;

    buf_init(&out, 1024);
    limits_text_openai(&out, LIMITS_REQUESTS, &great);
    limits_text_anthropic(&out, LIMITS_REQUESTS, &great,
                          SLICE("the longest of texts that a caller has.."));
    cr_assert_not(out.failed);
    buf_fini(&out);
    buf_init(&out, 8);
    limits_text_openai(&out, LIMITS_REQUESTS, &usual);
    limits_text_anthropic(&out, LIMITS_REQUESTS, &usual, SLICE("soon"));
    cr_assert(out.failed && out.len == 0);
    buf_fini(&out);
}
