#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "node/text/usage.h"
#include "node/text/usage_strip.h"

#define TEXT  "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
#define USAGE "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7}}\n\n"

static struct usage_strip strip;
static char room[USAGE_STRIP_ROOM];

static void
begin(void)
{
    usage_strip_init(&strip);
    strip.held = room;
}

/* How many parts pass of the piece, and what they are together. */
static unsigned
give(const char *piece, char *out)
{
    struct slice part;
    unsigned count = 0;

    out[0] = '\0';
    usage_strip_give(&strip, slice_of(piece));
    while (usage_strip_next(&strip, &part)) {
        strncat(out, part.ptr, part.len);
        count++;
    }
    return count;
}

Test(node_usage_strip, whole_events_without_usage_pass_at_once)
{
    char out[400];

    begin();
    cr_assert_eq(give(TEXT TEXT TEXT, out), 1);
    cr_assert_str_eq(out, TEXT TEXT TEXT);
    cr_assert_eq(give(TEXT USAGE, out), 1);
    cr_assert_str_eq(out, TEXT);
    cr_assert_eq(strip.dropped, 1);
}

/* An end that a piece begins with is of an event that has begun before. */
Test(node_usage_strip, the_rest_of_an_event_is_no_whole_one)
{
    char out[400];

    begin();
    cr_assert_eq(give("data: {\"choices\":[],\"usage\":{\"prompt", out), 0);
    cr_assert_eq(give("_tokens\":7}}\n\n", out), 0);
    cr_assert_eq(strip.dropped, 1);
    cr_assert_eq(give(TEXT, out), 1);
    cr_assert_str_eq(out, TEXT);
}

/* Of any length, with the name at any place, and with what is nearly one
 * before; the bytes lie where a sanitizer sees their end. */
Test(node_usage_strip, the_name_is_found_at_any_place)
{
    static const char *const near[] = {"\"usage", "\"user\"", "usage\"", "\"u"};

    for (size_t len = 0; len < 120; len++) {
        char *text = malloc(len != 0 ? len : 1);
        cr_assert_not_null(text);
        for (size_t at = 0; at <= len; at++) {
            memset(text, '"', len);
            for (size_t i = 0; i < 4 && at >= 8 * (i + 1); i++) {
                memcpy(text + at - 8 * (i + 1), near[i], strlen(near[i]));
            }
            memcpy(text + at, "\"usage\"", len - at < 7 ? len - at : 7);
            cr_assert_eq(usage_find((struct slice){text, len}),
                         memmem(text, len, "\"usage\"", 7), "%zu of %zu", at,
                         len);
        }
        free(text);
    }
}
