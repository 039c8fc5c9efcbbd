/* JSON trees, built in an arena. */
#include "node/local/local_json_internal.h"

#include <string.h>

static void *
take(struct local_build *b, size_t count, size_t size)
{
    void *room = NULL;

    if (b->why == NULL) {
        room = arena_take(b->arena, (count != 0 ? count : 1) * size);
        if (room == NULL) {
            (void)local_fail(b, "out of memory");
        }
    }
    return room;
}

struct local_object
local_object_new(struct local_build *b, uint32_t room)
{
    return (struct local_object){
        .members = take(b, room, sizeof(struct json_member)), .room = room};
}

struct local_list
local_list_new(struct local_build *b, uint32_t room)
{
    return (struct local_list){
        .items = take(b, room, sizeof(struct json_value)), .room = room};
}

void
local_put_member(struct local_build *b, struct local_object *object,
                 const struct json_member *member)
{
    if (b->why == NULL) {
        CHECK(object->count < object->room);
        object->members[object->count++] = *member;
    }
}

void
local_put(struct local_build *b, struct local_object *object, const char *key,
          struct json_value value)
{
    struct json_member member = {json_tree_text(slice_of(key)), value};

    local_put_member(b, object, &member);
}

void
local_push(struct local_build *b, struct local_list *list,
           struct json_value value)
{
    if (b->why == NULL) {
        CHECK(list->count < list->room);
        list->items[list->count++] = value;
    }
}

struct json_value
local_object_end(const struct local_object *object)
{
    return (struct json_value){.kind = JSON_OBJECT,
                               .len = object->count,
                               .as.members = object->members};
}

struct json_value
local_list_end(const struct local_list *list)
{
    return (struct json_value){
        .kind = JSON_ARRAY, .len = list->count, .as.items = list->items};
}

struct json_value
local_join(struct local_build *b, const struct slice *pieces, uint32_t count,
           const char *between)
{
    size_t gap = strlen(between);
    size_t len = count > 1 ? (count - 1) * gap : 0;
    char *text;
    size_t at = 0;

    if (count == 1) {
        return json_tree_text(pieces[0]);
    }
    for (uint32_t i = 0; i < count; i++) {
        len += pieces[i].len;
    }
    if (len > JSON_TREE_LEN_MAX) {
        (void)local_fail(b, "a text is too long");
    }
    text = take(b, len, 1);
    for (uint32_t i = 0; b->why == NULL && i < count; i++) {
        if (i != 0) {
            memcpy(text + at, between, gap);
            at += gap;
        }
        if (pieces[i].len != 0) {
            memcpy(text + at, pieces[i].ptr, pieces[i].len);
        }
        at += pieces[i].len;
    }
    return json_tree_text((struct slice){text, at});
}

struct json_value
local_text_part(struct local_build *b, struct slice text)
{
    struct local_object part = local_object_new(b, 2);

    local_put(b, &part, "type", json_tree_text(SLICE("text")));
    local_put(b, &part, "text", json_tree_text(text));
    return local_object_end(&part);
}

const struct json_value *
local_given(const struct json_value *object, const char *key)
{
    const struct json_value *value = json_tree_member(object, key);

    return value != NULL && value->kind != JSON_NULL ? value : NULL;
}

bool
local_is(const struct json_value *value, const char *text)
{
    return value != NULL && value->kind == JSON_STRING &&
           slice_equal(json_tree_slice(value), slice_of(text));
}

struct slice
local_text(const struct json_value *object, const char *key, bool *is)
{
    const struct json_value *value = local_given(object, key);

    *is = value != NULL && value->kind == JSON_STRING;
    return *is ? json_tree_slice(value) : (struct slice){.len = 0};
}

bool
local_truth(const struct json_value *value)
{
    if (value == NULL || value->kind == JSON_NULL) {
        return false;
    }
    if (value->kind == JSON_BOOL || value->kind == JSON_INT) {
        return value->as.integer != 0;
    }
    return value->kind == JSON_REAL ? value->as.real != 0 : value->len != 0;
}
