/* What links between islands cost: from text, and back to text. */
#include "node/config/config_links_internal.h"

#include <string.h>

#include "node/config/config_schema.h"
#include "node/config/config_value_internal.h"

#define WANT_LINK                                                        \
    "ISLAND~ISLAND=TIME[@PRICE] such as eu~us=80ms, eu~us=80ms@0.02 or " \
    "eu~us=@0.02"
#define TIME_MAX_MS UINT64_C(600000)
#define PRICE_MAX   1000000U /* thousandths */

static bool
is_same(const struct config_link *a, const struct config_link *b)
{
    return (strcmp(a->from, b->from) == 0 && strcmp(a->to, b->to) == 0) ||
           (strcmp(a->from, b->to) == 0 && strcmp(a->to, b->from) == 0);
}

/* TIME, @PRICE or both. */
static bool
read_cost(struct slice text, struct config_link *link)
{
    static const struct config_key price = {
        .type = CONFIG_RATIO, .offset = 0, .max = PRICE_MAX};
    struct slice time = slice_take(&text, '@');
    uint64_t ms = 0;

    link->measured = time.len == 0;
    if (text.ptr != NULL ? !config_value_set(&price, text, &link->price_milli)
                         : link->measured) {
        return false;
    }
    if (!link->measured &&
        (!config_duration_read(time, &ms) || ms > TIME_MAX_MS)) {
        return false;
    }
    link->ms = (uint32_t)ms;
    return true;
}

static const char *
add(struct config_links *links, struct slice text)
{
    struct config_link link = {.ms = 0};
    struct slice from = slice_take(&text, '~');
    struct slice to = slice_take(&text, '=');

    CHECK(links->count <= CONFIG_LINKS_MAX);
    if (!config_island_read(from, link.from) ||
        !config_island_read(to, link.to) || !read_cost(text, &link)) {
        return WANT_LINK;
    }
    for (uint32_t i = 0; i < links->count; i++) {
        if (is_same(&links->link[i], &link)) {
            return "each link once, whichever way round";
        }
    }
    if (links->count == CONFIG_LINKS_MAX) {
        return "at most 64 links";
    }
    links->link[links->count++] = link;
    return NULL;
}

_Static_assert(CONFIG_LINKS_MAX == 64, "as the text says");

const char *
config_links_read(struct slice text, struct config_links *links)
{
    struct config_links read = {.count = 0};
    struct slice left;
    struct slice one;
    const char *want = config_list_begin(text, &left) ? NULL : WANT_LINK;

    while (want == NULL && config_list_next(&left, &one)) {
        want = add(&read, one);
    }
    if (want == NULL) {
        *links = read;
    }
    return want;
}

const char *
config_links_want(struct slice text)
{
    struct config_links scratch;
    const char *want = text.len != 0 ? config_links_read(text, &scratch) : NULL;

    return want != NULL ? want : WANT_LINK ", or none";
}

void
config_links_print(const struct config_links *links, struct buf *out)
{
    CHECK(links->count <= CONFIG_LINKS_MAX);
    for (uint32_t i = 0; i < links->count; i++) {
        const struct config_link *link = &links->link[i];
        buf_printf(out, "%s%s~%s=", i != 0 ? " " : "", link->from, link->to);
        if (!link->measured) {
            config_number_print(CONFIG_DURATION, link->ms, out);
        }
        if (link->price_milli != 0 || link->measured) {
            buf_add_text(out, "@");
            config_number_print(CONFIG_RATIO, link->price_milli, out);
        }
    }
    if (links->count == 0) {
        buf_add_text(out, "none");
    }
}
