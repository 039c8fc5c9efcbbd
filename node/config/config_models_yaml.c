/* A list of models in a file: each is text, or a mapping of its keys. */
#include "node/config/config_models_internal.h"
#include "node/text/quote.h"

/* The value of one of a model's keys, to the end of its text. */
static void
add_option(const struct config_walk *walk, const struct config_yaml_node *item,
           const char *key, const char *before, struct buf *text)
{
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    uint32_t at = item->first;

    while ((name = config_walk_pair(walk, &at, &value)) != NULL) {
        if (slice_equal(config_yaml_text(walk->yaml, name), slice_of(key))) {
            buf_add_text(text, before);
            buf_add_slice(text, config_yaml_text(walk->yaml, value));
        }
    }
}

/* Whether a model's mapping has its keys, once each, and text behind them. */
static bool
has_model_keys(const struct config_walk *walk,
               const struct config_yaml_node *item)
{
    static const char *const keys[] = {"name", "path", "template", "content"};
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    uint32_t before = walk->errors->count;
    uint32_t lines[4] = {0};
    uint32_t at = item->first;

    while ((name = config_walk_pair(walk, &at, &value)) != NULL) {
        struct slice text = config_yaml_text(walk->yaml, name);
        struct config_place place = config_walk_place(walk, name);
        char quoted[QUOTE_ROOM];
        size_t row = 0;
        while (row < 4 && !slice_equal(text, slice_of(keys[row]))) {
            row++;
        }
        if (row == 4) {
            config_error(walk->errors, &place,
                         "expected name, path, template or content, not %s",
                         quote_text(text, quoted));
        } else if (config_walk_first(walk, name, &lines[row]) &&
                   value->kind != CONFIG_YAML_SCALAR) {
            config_walk_wrong(walk, value, keys[row], "text");
        }
    }
    if (walk->errors->count == before && (lines[0] == 0 || lines[1] == 0)) {
        struct config_place place = config_walk_place(walk, item);
        config_error(walk->errors, &place, "a model without %s",
                     lines[0] == 0 ? "name" : "path");
    }
    return walk->errors->count == before;
}

/* An item of a list of models: its keys, or the text of one. */
static void
take_model(const struct config_walk *walk, const char *name,
           const struct config_yaml_node *item, struct config_models *models)
{
    struct config_place place = config_walk_place(walk, item);
    char quoted[QUOTE_ROOM];
    struct buf text;

    buf_init(&text, CONFIG_FILE_BYTES_MAX);
    if (item->kind == CONFIG_YAML_SCALAR) {
        buf_add_slice(&text, config_yaml_text(walk->yaml, item));
    } else if (item->kind != CONFIG_YAML_MAPPING) {
        config_walk_wrong(walk, item, name, "a model");
        return;
    } else if (!has_model_keys(walk, item)) {
        return;
    } else {
        add_option(walk, item, "name", "", &text);
        add_option(walk, item, "path", "=", &text);
        add_option(walk, item, "template", ",template=", &text);
        add_option(walk, item, "content", ",content=", &text);
    }
    const char *want = config_models_add(models, buf_slice(&text));
    if (want != NULL) {
        config_error(walk->errors, &place, "%s: expected %s, not %s", name,
                     want, quote_text(buf_slice(&text), quoted));
    }
    buf_fini(&text);
}

void
config_models_take(const struct config_walk *walk, const char *name,
                   const struct config_yaml_node *list,
                   struct config_models *models)
{
    models->count = 0;
    for (uint32_t at = list->first; at != 0;) {
        const struct config_yaml_node *node = config_yaml_node(walk->yaml, at);
        take_model(walk, name, node, models);
        at = node->next;
    }
}
