/* Values of JSON by their raw bytes. */
#include "node/dialect/dialect_json_internal.h"

#include <string.h>

#include "node/text/json_text.h"

/* The value that follows. False: there is none, or it is no JSON. */
static bool
take(struct json_pull *pull, struct dialect_value *value)
{
    size_t at = pull->at;
    enum pull_token kind = json_pull_next(pull);

    *value = (struct dialect_value){.kind = PULL_END};
    if (kind <= PULL_END || kind == PULL_ARRAY_END) {
        return false;
    }
    struct slice text = pull->text;
    if (!json_pull_skip(pull)) {
        return false;
    }
    while (strchr(":, \t\r\n", pull->bytes.ptr[at]) != NULL) {
        at++;
    }
    CHECK(at < pull->at);
    value->raw = (struct slice){pull->bytes.ptr + at, pull->at - at};
    if (kind != PULL_NULL) {
        value->kind = kind;
    }
    if (kind == PULL_STRING) {
        value->text = text;
    }
    return true;
}

bool
dialect_members(struct slice object, const char *const *names, size_t count,
                struct dialect_value *values)
{
    struct json_pull pull;
    enum pull_token token;

    CHECK(count <= DIALECT_MEMBERS_MAX);
    for (size_t i = 0; i < count; i++) {
        values[i] = (struct dialect_value){.kind = PULL_END};
    }
    json_pull_init(&pull, object);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        size_t i = 0;
        struct dialect_value other;
        while (i < count && !json_pull_is(&pull, slice_of(names[i]))) {
            i++;
        }
        if (!take(&pull, i < count ? &values[i] : &other)) {
            return false;
        }
    }
    return token == PULL_OBJECT_END && json_pull_next(&pull) == PULL_END;
}

void
dialect_items_init(struct dialect_items *items,
                   const struct dialect_value *value)
{
    items->open = value->kind == PULL_ARRAY;
    if (items->open) {
        json_pull_init(&items->pull, value->raw);
        items->open = json_pull_next(&items->pull) == PULL_ARRAY;
    }
}

bool
dialect_items_next(struct dialect_items *items, struct dialect_value *item)
{
    items->open = items->open && take(&items->pull, item);
    return items->open;
}

bool
dialect_is(const struct dialect_value *value, const char *text)
{
    return value->kind == PULL_STRING &&
           slice_equal(value->text, slice_of(text));
}

bool
dialect_some(const struct dialect_value *value)
{
    return value->kind != PULL_END && value->kind != PULL_FALSE &&
           (value->kind != PULL_STRING || value->text.len != 0);
}

uint64_t
dialect_uint(const struct dialect_value *value)
{
    uint64_t number = 0;

    for (size_t i = 0; value->kind == PULL_NUMBER && i < value->raw.len; i++) {
        char c = value->raw.ptr[i];
        if (c < '0' || c > '9' || i > 15) {
            return 0;
        }
        number = number * 10 + (uint64_t)(c - '0');
    }
    return number;
}

void
dialect_put_quoted(struct buf *out, struct slice json)
{
    char piece[512];

    while (json.len != 0) {
        size_t len = json_text_escape(&json, piece, sizeof(piece));
        buf_add(out, piece, len);
    }
}

void
dialect_put(struct buf *out, const char *key, const struct dialect_value *value)
{
    if (value->kind != PULL_END) {
        buf_add_text(out, ",\"");
        buf_add_text(out, key);
        buf_add_text(out, "\":");
        buf_add_slice(out, value->raw);
    }
}
