/* Single members out of small JSON objects. */
#include "chaos/engine/engine_json_internal.h"

#include <string.h>

/*
 * Finds the last member of that name and leaves *pull after its value's first
 * token, which is returned; PULL_BAD when there is no such member.
 */
static enum pull_token
find(struct slice object, struct slice key, struct json_pull *pull)
{
    enum pull_token found = PULL_BAD;
    struct json_pull at;

    json_pull_init(&at, object);
    if (json_pull_next(&at) != PULL_OBJECT) {
        return PULL_BAD;
    }
    while (json_pull_next(&at) == PULL_KEY) {
        if (json_pull_is(&at, key)) {
            *pull = at;
            found = json_pull_next(pull);
        }
        if (!json_pull_skip(&at)) {
            return PULL_BAD;
        }
    }
    return found;
}

int
engine_json_uint(struct slice object, struct slice key, uint64_t max,
                 uint64_t *number)
{
    struct json_pull pull;
    enum pull_token token = find(object, key, &pull);

    if (token == PULL_BAD) {
        return ENGINE_JSON_E_ABSENT;
    }
    return token == PULL_NUMBER && json_pull_uint(&pull, max, number)
               ? 0
               : ENGINE_JSON_E_OTHER;
}

bool
engine_json_bool(struct slice object, struct slice key, bool preset)
{
    struct json_pull pull;
    enum pull_token token = find(object, key, &pull);

    return token == PULL_TRUE || (token != PULL_FALSE && preset);
}

bool
engine_json_is_text(struct slice object, struct slice key, struct slice text)
{
    struct json_pull pull;

    return find(object, key, &pull) == PULL_STRING && json_pull_is(&pull, text);
}

/* The elements of an array whose bracket was just read. */
static bool
ids_from(struct json_pull *pull, struct engine_ids *ids)
{
    enum pull_token token;

    while ((token = json_pull_next(pull)) == PULL_NUMBER) {
        uint64_t id;
        if (!json_pull_uint(pull, UINT32_MAX, &id)) {
            return false;
        }
        engine_ids_add(ids, (uint32_t)id);
    }
    return token == PULL_ARRAY_END;
}

int
engine_json_ids(struct slice object, struct slice key, struct engine_ids *ids)
{
    struct json_pull pull;
    enum pull_token token = find(object, key, &pull);

    if (token == PULL_BAD) {
        return ENGINE_JSON_E_ABSENT;
    }
    return token == PULL_ARRAY && ids_from(&pull, ids) ? 0
                                                       : ENGINE_JSON_E_OTHER;
}

bool
engine_json_id_array(struct slice array, struct engine_ids *ids)
{
    struct json_pull pull;

    json_pull_init(&pull, array);
    return json_pull_next(&pull) == PULL_ARRAY && ids_from(&pull, ids);
}

/* The raw value that follows. False: none does. */
static bool
take_raw(struct json_pull *pull, struct slice *raw)
{
    size_t at = pull->at;
    enum pull_token token = json_pull_next(pull);

    if (token <= PULL_END || token == PULL_ARRAY_END || !json_pull_skip(pull)) {
        return false;
    }
    while (strchr(":, \t\r\n", pull->bytes.ptr[at]) != NULL) {
        at++;
    }
    *raw = (struct slice){pull->bytes.ptr + at, pull->at - at};
    return true;
}

struct slice
engine_json_raw(struct slice object, struct slice key)
{
    struct json_pull pull;
    struct slice found = {.ptr = NULL, .len = 0};

    json_pull_init(&pull, object);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return found;
    }
    while (json_pull_next(&pull) == PULL_KEY) {
        struct slice other;
        bool wanted = json_pull_is(&pull, key);
        if (!take_raw(&pull, wanted ? &found : &other)) {
            break;
        }
    }
    return found;
}

struct slice
engine_json_first_key(struct slice object)
{
    struct json_pull pull;

    json_pull_init(&pull, object);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return SLICE("");
    }
    return json_pull_next(&pull) == PULL_KEY ? pull.text : SLICE("");
}

bool
engine_json_items(struct json_pull *items, struct slice array)
{
    json_pull_init(items, array);
    return json_pull_next(items) == PULL_ARRAY;
}

bool
engine_json_next(struct json_pull *items, struct slice *item)
{
    return take_raw(items, item);
}

struct slice
engine_json_inside(struct slice raw)
{
    return raw.len >= 2 && raw.ptr[0] == '"'
               ? (struct slice){raw.ptr + 1, raw.len - 2}
               : (struct slice){.ptr = NULL, .len = 0};
}
