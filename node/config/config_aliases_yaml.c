/* A list of aliases in a file: each is text, or a mapping of its keys. */
#include "node/config/config_aliases_internal.h"
#include "node/text/quote.h"

enum {
    KEY_NAME,
    KEY_TO,
    KEY_FALLBACK,
    KEYS
};

/* The values of one alias's keys; NULL: it has none. */
struct alias_keys {
    const struct config_yaml_node *value[KEYS];
};

/* A list of texts between plus signs. False, and a fault: it is none. */
static bool
join_list(const struct config_walk *walk, const char *name,
          const struct config_yaml_node *list, struct buf *text)
{
    for (uint32_t at = list->first; at != 0;) {
        const struct config_yaml_node *node = config_yaml_node(walk->yaml, at);
        if (node->kind != CONFIG_YAML_SCALAR) {
            config_walk_wrong(walk, node, name, "a model");
            return false;
        }
        buf_add_text(text, at != list->first ? "+" : "");
        buf_add_slice(text, config_yaml_text(walk->yaml, node));
        at = node->next;
    }
    return true;
}

/* Models and their weights. The same. */
static bool
join_weights(const struct config_walk *walk, const char *name,
             const struct config_yaml_node *mapping, struct buf *text)
{
    const struct config_yaml_node *value;
    const struct config_yaml_node *model;
    uint32_t at = mapping->first;
    bool more = false;

    while ((model = config_walk_pair(walk, &at, &value)) != NULL) {
        if (value->kind != CONFIG_YAML_SCALAR) {
            config_walk_wrong(walk, value, name, "a weight");
            return false;
        }
        buf_add_text(text, more ? "+" : "");
        buf_add_slice(text, config_yaml_text(walk->yaml, model));
        buf_add_text(text, "*");
        buf_add_slice(text, config_yaml_text(walk->yaml, value));
        more = true;
    }
    return true;
}

/* One model, or several. The same. */
static bool
add_models(const struct config_walk *walk, const char *name,
           const struct config_yaml_node *node, struct buf *text)
{
    switch (node->kind) {
    case CONFIG_YAML_SCALAR:
        buf_add_slice(text, config_yaml_text(walk->yaml, node));
        return true;
    case CONFIG_YAML_LIST:
        return join_list(walk, name, node, text);
    case CONFIG_YAML_MAPPING:
        return join_weights(walk, name, node, text);
    case CONFIG_YAML_NULL:
    case CONFIG_YAML_REFUSED:
        break;
    }
    config_walk_wrong(walk, node, name, "models");
    return false;
}

/* The keys of a mapping. False, and faults: they are not as they should be. */
static bool
find_keys(const struct config_walk *walk, const struct config_yaml_node *item,
          struct alias_keys *keys)
{
    static const char *const names[KEYS] = {"name", "to", "fallback"};
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    uint32_t before = walk->errors->count;
    uint32_t lines[KEYS] = {0};
    uint32_t at = item->first;

    while ((name = config_walk_pair(walk, &at, &value)) != NULL) {
        struct slice text = config_yaml_text(walk->yaml, name);
        struct config_place place = config_walk_place(walk, name);
        char quoted[QUOTE_ROOM];
        size_t row = 0;
        while (row < KEYS && !slice_equal(text, slice_of(names[row]))) {
            row++;
        }
        if (row == KEYS) {
            config_error(walk->errors, &place,
                         "expected name, to or fallback, not %s",
                         quote_text(text, quoted));
        } else if (config_walk_first(walk, name, &lines[row])) {
            keys->value[row] = value;
        }
    }
    if (walk->errors->count == before &&
        (keys->value[KEY_NAME] == NULL || keys->value[KEY_TO] == NULL)) {
        struct config_place place = config_walk_place(walk, item);
        config_error(walk->errors, &place, "an alias without %s",
                     keys->value[KEY_NAME] == NULL ? "name" : "to");
    }
    return walk->errors->count == before;
}

/* A mapping as the text of an alias. False, and faults. */
static bool
write_mapping(const struct config_walk *walk,
              const struct config_yaml_node *item, struct buf *text)
{
    struct alias_keys keys = {.value = {NULL}};

    if (!find_keys(walk, item, &keys) || keys.value[KEY_NAME] == NULL ||
        keys.value[KEY_TO] == NULL) {
        return false;
    }
    if (keys.value[KEY_NAME]->kind != CONFIG_YAML_SCALAR) {
        config_walk_wrong(walk, keys.value[KEY_NAME], "name", "text");
        return false;
    }
    buf_add_slice(text, config_yaml_text(walk->yaml, keys.value[KEY_NAME]));
    buf_add_text(text, "=");
    if (!add_models(walk, "to", keys.value[KEY_TO], text)) {
        return false;
    }
    if (keys.value[KEY_FALLBACK] == NULL) {
        return true;
    }
    buf_add_text(text, ",fallback=");
    return add_models(walk, "fallback", keys.value[KEY_FALLBACK], text);
}

static void
take_alias(const struct config_walk *walk, const char *name,
           const struct config_yaml_node *item, struct config_aliases *aliases)
{
    struct config_place place = config_walk_place(walk, item);
    char quoted[QUOTE_ROOM];
    struct buf text;
    bool good = true;

    buf_init(&text, CONFIG_FILE_BYTES_MAX);
    if (item->kind == CONFIG_YAML_SCALAR) {
        buf_add_slice(&text, config_yaml_text(walk->yaml, item));
    } else if (item->kind == CONFIG_YAML_MAPPING) {
        good = write_mapping(walk, item, &text);
    } else {
        config_walk_wrong(walk, item, name, "an alias");
        good = false;
    }
    const char *want =
        good ? config_aliases_add(aliases, buf_slice(&text)) : NULL;
    if (text.failed) {
        config_error(walk->errors, &place, "out of memory");
    } else if (want != NULL) {
        config_error(walk->errors, &place, "%s: expected %s, not %s", name,
                     want, quote_text(buf_slice(&text), quoted));
    }
    buf_fini(&text);
}

void
config_aliases_take(const struct config_walk *walk, const char *name,
                    const struct config_yaml_node *list,
                    struct config_aliases *aliases)
{
    aliases->count = 0;
    for (uint32_t at = list->first; at != 0;) {
        const struct config_yaml_node *node = config_yaml_node(walk->yaml, at);
        take_alias(walk, name, node, aliases);
        at = node->next;
    }
}
