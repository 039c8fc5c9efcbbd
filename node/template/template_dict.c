/* Dictionaries: keys of any hashable kind, in order of insertion. */
#include "node/template/template_run_internal.h"

#define DICT_MAX 100000 /* keys are compared one by one while it is built */

static void
check_key(struct tpl_run *run, struct json_value key)
{
    if (!tpl_hashable(key)) {
        tpl_fail_type(run, "unhashable key", key);
    }
}

static const struct json_member *
find(struct tpl_run *run, const struct json_member *members, uint32_t len,
     struct json_value key)
{
    for (uint32_t i = 0; i < len; i++) {
        if (members[i].key.kind == key.kind && key.kind == JSON_STRING
                ? slice_equal(tpl_slice(members[i].key), tpl_slice(key))
                : tpl_equal(run, members[i].key, key)) {
            return &members[i];
        }
    }
    return NULL;
}

const struct json_value *
tpl_dict_get(struct tpl_run *run, struct json_value dict, struct json_value key)
{
    const struct json_member *member = NULL;

    CHECK(dict.kind == JSON_OBJECT);
    if (key.kind == JSON_STRING && (dict.mark & JSON_MARK_SORTED) != 0) {
        return json_tree_get(&dict, tpl_slice(key));
    }
    check_key(run, key);
    tpl_step(run, dict.len / 16);
    member = find(run, dict.as.members, dict.len, key);
    return member != NULL ? &member->value : NULL;
}

void
tpl_dict_put(struct tpl_run *run, struct tpl_dict *dict, struct json_value key,
             struct json_value value)
{
    uint32_t at = 0;
    const struct json_member *old = NULL;
    struct json_member *grown = NULL;

    check_key(run, key);
    tpl_step(run, dict->len / 16);
    old = find(run, dict->members, dict->len, key);
    if (old != NULL) {
        at = (uint32_t)(old - dict->members);
        dict->members[at].value = value;
        return;
    }
    if (dict->len == DICT_MAX) {
        tpl_fail(run, "more than %d keys", DICT_MAX);
    }
    if (dict->len == dict->size) {
        dict->size = dict->size * 2 + 4;
        grown = tpl_take(run, dict->size * sizeof *grown);
        if (dict->len > 0) {
            memcpy(grown, dict->members, dict->len * sizeof *grown);
        }
        dict->members = grown;
    }
    dict->members[dict->len++] = (struct json_member){key, value};
}

struct json_value
tpl_dict_value(const struct tpl_dict *dict)
{
    return (struct json_value){
        .kind = JSON_OBJECT, .len = dict->len, .as.members = dict->members};
}

struct json_value
tpl_pair(struct tpl_run *run, struct json_value a, struct json_value b)
{
    struct json_value *items = tpl_take_values(run, 2);

    items[0] = a;
    items[1] = b;
    return tpl_array(TPL_V_TUPLE, items, 2);
}

static void
put_pairs(struct tpl_run *run, struct tpl_dict *dict, struct json_value from)
{
    struct tpl_walk walk;
    struct json_value item;

    tpl_walk_start(run, &walk, from);
    while (tpl_walk_next(run, &walk, &item)) {
        struct json_value pair = tpl_list(run, item);
        if (pair.len != 2) {
            tpl_fail(run,
                     "dictionary update sequence element has length %u; 2 "
                     "is required",
                     (unsigned)pair.len);
        }
        tpl_dict_put(run, dict, pair.as.items[0], pair.as.items[1]);
    }
}

struct json_value
tpl_dict_make(struct tpl_run *run, const struct tpl_args *args)
{
    struct tpl_dict dict = {.len = 0};

    if (args->count > 1) {
        tpl_fail(run, "dict expected at most 1 argument");
    }
    if (args->count == 1 && args->at[0].kind == JSON_OBJECT) {
        for (uint32_t i = 0; i < args->at[0].len; i++) {
            tpl_dict_put(run, &dict, args->at[0].as.members[i].key,
                         args->at[0].as.members[i].value);
        }
    } else if (args->count == 1) {
        put_pairs(run, &dict, args->at[0]);
    }
    for (uint32_t i = 0; i < args->kw_count; i++) {
        tpl_dict_put(run, &dict, args->kw[(size_t)2 * i],
                     args->kw[(size_t)2 * i + 1]);
    }
    return tpl_dict_value(&dict);
}
