/* Places to look for other nodes: from text, and back to text. */
#include "node/config/config_joins_internal.h"

#include <string.h>

#define WANT_PLACE \
    "HOST:PORT, dns:NAME:PORT or srv:NAME, one or more between blanks"

static bool
has(const struct config_joins *joins, const struct discover_join *join)
{
    for (uint32_t i = 0; i < joins->count; i++) {
        const struct discover_join *other = &joins->join[i];
        if (other->kind == join->kind && other->port == join->port &&
            strcmp(other->name, join->name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *
add_words(struct config_joins *joins, struct slice text)
{
    struct slice word = slice_take_word(&text);
    struct discover_join join;

    CHECK(joins->count <= CONFIG_JOINS_MAX);
    if (word.len == 0) {
        return WANT_PLACE;
    }
    for (; word.len != 0; word = slice_take_word(&text)) {
        const char *want = discover_parse(word, &join);
        if (want != NULL) {
            return want;
        }
        if (has(joins, &join)) {
            continue;
        }
        if (joins->count == CONFIG_JOINS_MAX) {
            return "at most 32 places";
        }
        joins->join[joins->count++] = join;
    }
    return NULL;
}

_Static_assert(CONFIG_JOINS_MAX == 32, "as the text says");

const char *
config_joins_add(struct config_joins *joins, struct slice text)
{
    uint32_t before = joins->count;
    const char *want = add_words(joins, text);

    if (want != NULL) {
        joins->count = before;
    }
    return want;
}

const char *
config_joins_want(struct slice text)
{
    struct config_joins scratch = {.count = 0};
    const char *want = text.len != 0 ? add_words(&scratch, text) : NULL;

    return want != NULL ? want : WANT_PLACE;
}

void
config_joins_print(const struct config_joins *joins, struct buf *out)
{
    CHECK(joins->count <= CONFIG_JOINS_MAX);
    for (uint32_t i = 0; i < joins->count; i++) {
        const struct discover_join *join = &joins->join[i];
        const char *blank = i != 0 ? " " : "";
        if (join->kind == DISCOVER_HOST) {
            buf_printf(out, "%sdns:%s:%u", blank, join->name, join->port);
        } else {
            buf_printf(out, "%s%s%s", blank,
                       join->kind == DISCOVER_SERVICE ? "srv:" : "",
                       join->name);
        }
    }
}
