/*
 * The oracle's part for extra keys: which of them make one prompt's blocks differ
 * from another's.
 */
#include "index/index.h"
#include "tests/fuzz/kv_oracle.h"
#include "tests/fuzz/kv_walk.h"

static void
add(uint64_t *media, uint64_t kind, const void *bytes, size_t n,
    uint64_t offset)
{
    uint64_t words[4] = {*media, kind, 0, offset};

    words[2] = key_digest((struct slice){bytes, n});
    *media = key_digest((struct slice){(const char *)words, sizeof words});
    *media += *media == 0;
}

static bool
is_placed(const msgpack_object *o)
{
    if (!kv_walk_is_array(o, 2) || o->via.array.size != 2) {
        return false;
    }
    const msgpack_object *pair = o->via.array.ptr;
    return pair[0].type == MSGPACK_OBJECT_STR &&
           (pair[1].type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
            pair[1].type == MSGPACK_OBJECT_NEGATIVE_INTEGER);
}

/* The string under a key of a map, the last that is one. */
static struct slice
under(const msgpack_object *map, const char *key)
{
    struct slice found = {0};

    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];
        if (kv_walk_is_text(&pair->key, key) &&
            pair->val.type == MSGPACK_OBJECT_STR) {
            found = kv_walk_text(&pair->val);
        }
    }
    return found;
}

/* Whether an element is no medium: nothing, an adapter, or *salt. */
static bool
is_no_medium(const msgpack_object *o, struct slice *salt, bool *has_salt)
{
    if (o->type == MSGPACK_OBJECT_MAP) {
        struct slice type = under(o, "type");
        if (slice_equal(type, SLICE("cache_salt"))) {
            *salt = under(o, "salt");
            *has_salt = true;
            return true;
        }
        return slice_equal(type, SLICE("lora"));
    }
    return o->type == MSGPACK_OBJECT_NIL ||
           o->type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
           o->type == MSGPACK_OBJECT_NEGATIVE_INTEGER;
}

static void
add_medium(uint64_t *media, const msgpack_object *o, const uint8_t *at,
           const uint8_t *next)
{
    if (is_placed(o)) {
        const msgpack_object *pair = o->via.array.ptr;
        add(media, 0, pair[0].via.str.ptr, pair[0].via.str.size,
            pair[1].via.u64);
    } else if (o->type == MSGPACK_OBJECT_STR) {
        add(media, 1, o->via.str.ptr, o->via.str.size, 0);
    } else if (o->type == MSGPACK_OBJECT_BIN) {
        add(media, 2, o->via.bin.ptr, o->via.bin.size, 0);
    } else {
        add(media, 3, at, (size_t)(next - at), 0);
    }
}

/* The last string of a list that is not the adapter: count when there is
 * none. The adapter is the first that is called like it. */
static uint32_t
last_text(const msgpack_object_array *list, uint32_t adapter)
{
    for (uint32_t i = list->size; i-- > 0;) {
        if (list->ptr[i].type == MSGPACK_OBJECT_STR && i != adapter) {
            return i;
        }
    }
    return list->size;
}

static uint32_t
find_adapter(const msgpack_object_array *list, struct slice lora_name)
{
    uint32_t i = 0;

    while (i < list->size &&
           (lora_name.len == 0 || list->ptr[i].type != MSGPACK_OBJECT_STR ||
            !slice_equal(kv_walk_text(&list->ptr[i]), lora_name))) {
        i++;
    }
    return i;
}

static uint64_t
media_of(const msgpack_object_array *list, const uint8_t *at,
         const uint8_t *end, bool first, struct slice lora_name,
         struct slice *salt)
{
    uint32_t adapter = find_adapter(list, lora_name);
    uint32_t last = first ? last_text(list, adapter) : list->size;
    bool has_salt = false;
    uint64_t media = 0;
    uint64_t held = list->size; /* a string that may yet be the salt */

    if (last < list->size) {
        *salt = kv_walk_text(&list->ptr[last]);
    }
    struct slice typed = {0};
    const uint8_t *texts[2] = {NULL, NULL};
    for (uint32_t i = 0; i < list->size; i++) {
        const msgpack_object *o = &list->ptr[i];
        const uint8_t *next = kv_walk_behind(at, end);
        bool is_string = o->type == MSGPACK_OBJECT_STR && i != adapter;
        if (is_string && first) {
            /* It is told when the next one comes. */
            if (held < list->size) {
                add_medium(&media, &list->ptr[held], texts[0], texts[1]);
            }
            held = i;
            texts[0] = at;
            texts[1] = next;
        } else if (i != adapter && !is_no_medium(o, &typed, &has_salt)) {
            add_medium(&media, o, at, next);
        }
        at = next;
    }
    if (has_salt) {
        *salt = typed;
    }
    return media;
}

bool
kv_oracle_extras(struct slice extras, size_t block, bool first,
                 struct slice lora_name, uint64_t *media, struct slice *salt)
{
    const uint8_t *at = (const uint8_t *)extras.ptr;
    const uint8_t *end = at + extras.len;
    struct kv_walk_head head;
    msgpack_unpacked tree;

    *media = 0;
    *salt = (struct slice){0};
    if (!kv_walk_head(at, end, &head) || block >= head.items) {
        return false;
    }
    at += head.size;
    for (size_t i = 0; i < block; i++) {
        at = kv_walk_behind(at, end);
    }
    if (!kv_walk_parse(at, kv_walk_behind(at, end), &tree)) {
        return false;
    }
    bool is_list = tree.data.type == MSGPACK_OBJECT_ARRAY;
    bool good = is_list || tree.data.type == MSGPACK_OBJECT_NIL;
    if (is_list && kv_walk_head(at, end, &head)) {
        *media = media_of(&tree.data.via.array, at + head.size, end, first,
                          lora_name, salt);
    }
    msgpack_unpacked_destroy(&tree);
    return good;
}
