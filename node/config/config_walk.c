/* Walks over YAML trees. */
#include "node/config/config_walk_internal.h"

#include "node/text/quote.h"

struct config_place
config_walk_place(const struct config_walk *walk,
                  const struct config_yaml_node *node)
{
    return (struct config_place){
        .source = walk->file, .line = node->line, .column = node->column};
}

bool
config_walk_first(const struct config_walk *walk,
                  const struct config_yaml_node *node, uint32_t *line)
{
    struct config_place place = config_walk_place(walk, node);
    char quoted[QUOTE_ROOM];

    CHECK(node->line != 0);
    if (*line != 0) {
        config_error(
            walk->errors, &place, "key %s appears twice, first in line %u",
            quote_text(config_yaml_text(walk->yaml, node), quoted), *line);
        return false;
    }
    *line = node->line;
    return true;
}

void
config_walk_wrong(const struct config_walk *walk,
                  const struct config_yaml_node *node, const char *name,
                  const char *want)
{
    struct config_place place = config_walk_place(walk, node);

    if (node->kind == CONFIG_YAML_REFUSED) {
        return;
    }
    config_error(walk->errors, &place, "%s%sexpected %s, not %s", name,
                 name[0] != '\0' ? ": " : "", want,
                 config_yaml_kind_text(node->kind));
}

const struct config_yaml_node *
config_walk_pair(const struct config_walk *walk, uint32_t *at,
                 const struct config_yaml_node **value)
{
    while (*at != 0) {
        const struct config_yaml_node *key = config_yaml_node(walk->yaml, *at);
        if (key->next == 0) {
            return NULL;
        }
        *value = config_yaml_node(walk->yaml, key->next);
        *at = (*value)->next;
        if (key->kind == CONFIG_YAML_SCALAR) {
            return key;
        }
        config_walk_wrong(walk, key, "", "a key");
    }
    return NULL;
}
