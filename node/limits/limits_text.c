/* How a limit stands, for clients. */
#include "node/limits/limits_text.h"

#include <string.h>

#include "index/base/check.h"

#define LINE(text)             \
    {                          \
        text, sizeof(text) - 1 \
    }
#define UNTIL_MAX 40U

/* The three lines, each up to its value. */
struct lines {
    struct slice limit;
    struct slice left;
    struct slice reset;
};

static const struct lines openai[] = {
    [LIMITS_REQUESTS] =
        {
            LINE("x-ratelimit-limit-requests: "),
            LINE("\r\nx-ratelimit-remaining-requests: "),
            LINE("\r\nx-ratelimit-reset-requests: "),
        },
    [LIMITS_TOKENS] =
        {
            LINE("x-ratelimit-limit-tokens: "),
            LINE("\r\nx-ratelimit-remaining-tokens: "),
            LINE("\r\nx-ratelimit-reset-tokens: "),
        },
};

static const struct lines anthropic[] = {
    [LIMITS_REQUESTS] =
        {
            LINE("anthropic-ratelimit-requests-limit: "),
            LINE("\r\nanthropic-ratelimit-requests-remaining: "),
            LINE("\r\nanthropic-ratelimit-requests-reset: "),
        },
    [LIMITS_TOKENS] =
        {
            LINE("anthropic-ratelimit-tokens-limit: "),
            LINE("\r\nanthropic-ratelimit-tokens-remaining: "),
            LINE("\r\nanthropic-ratelimit-tokens-reset: "),
        },
};

static char *
put(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

static char *
put_uint(char *at, uint64_t number)
{
    char digits[20];
    size_t first = sizeof(digits);

    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return put(at, digits + first, sizeof(digits) - first);
}

static char *
put_standing(char *at, const struct lines *lines,
             const struct limits_standing *s)
{
    at = put_uint(put(at, lines->limit.ptr, lines->limit.len), s->limit);
    at = put_uint(put(at, lines->left.ptr, lines->left.len), s->left);
    return put(at, lines->reset.ptr, lines->reset.len);
}

/* 120ms, 1s, 6m0s. */
static char *
put_span(char *at, uint64_t ms)
{
    uint64_t seconds = (ms + 999) / 1000;

    if (ms < 1000) {
        return put(put_uint(at, ms), "ms", 2);
    }
    if (seconds >= 60) {
        at = put(put_uint(at, seconds / 60), "m", 1);
    }
    return put(put_uint(at, seconds % 60), "s", 1);
}

static void
end(struct buf *out, const char *begin, char *at)
{
    at = put(at, "\r\n", 2);
    CHECK((size_t)(at - begin) <= LIMITS_TEXT_ROOM);
    out->len += (size_t)(at - begin);
}

void
limits_text_openai(struct buf *out, enum limits_of of,
                   const struct limits_standing *standing)
{
    CHECK(of == LIMITS_REQUESTS || of == LIMITS_TOKENS);
    char *begin = buf_reserve(out, LIMITS_TEXT_ROOM);

    if (begin != NULL) {
        char *at = put_standing(begin, &openai[of], standing);
        end(out, begin, put_span(at, standing->reset_ms));
    }
}

void
limits_text_anthropic(struct buf *out, enum limits_of of,
                      const struct limits_standing *standing,
                      struct slice until)
{
    CHECK(of == LIMITS_REQUESTS || of == LIMITS_TOKENS);
    CHECK(until.len <= UNTIL_MAX);
    char *begin = buf_reserve(out, LIMITS_TEXT_ROOM);

    if (begin != NULL) {
        char *at = put_standing(begin, &anthropic[of], standing);
        end(out, begin, put(at, until.ptr, until.len));
    }
}
