/* The configuration file: a YAML tree against the schema. */
#include <stdio.h>

#include "node/config/config_apply_internal.h"
#include "node/config/config_yaml_internal.h"
#include "node/text/quote.h"

/* What one walk over a tree carries along. */
struct walk {
    const struct config_yaml *yaml;
    const char *file;
    struct config_errors *errors;
};

/* The keys seen so far of one mapping, by their row in the schema. */
struct seen {
    uint32_t line[CONFIG_KEYS_MAX];
};

static struct config_place
place_of(const struct walk *walk, const struct config_yaml_node *node)
{
    return (struct config_place){
        .source = walk->file, .line = node->line, .column = node->column};
}

/* False, and a fault, if *line says that the key occurred before. */
static bool
is_first(const struct walk *walk, const struct config_yaml_node *node,
         uint32_t *line)
{
    struct config_place place = place_of(walk, node);
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

/* A fault that says what was expected instead of this node. */
static void
wrong_kind(const struct walk *walk, const struct config_yaml_node *node,
           const char *name, const char *want)
{
    struct config_place place = place_of(walk, node);

    if (node->kind == CONFIG_YAML_REFUSED) {
        return;
    }
    config_error(walk->errors, &place, "%s%sexpected %s, not %s", name,
                 name[0] != '\0' ? ": " : "", want,
                 config_yaml_kind_text(node->kind));
}

/* Adds one place at a time, so that a fault is reported with its own line. */
static void
take_places(const struct walk *walk, const struct config_key *key,
            const struct config_yaml_node *list, void *into)
{
    struct config_joins *joins = (void *)((char *)into + key->offset);

    joins->count = 0;
    for (uint32_t at = list->first; at != 0;) {
        const struct config_yaml_node *node = config_yaml_node(walk->yaml, at);
        struct config_place place = place_of(walk, node);
        if (node->kind == CONFIG_YAML_SCALAR) {
            config_apply_place(key, config_yaml_text(walk->yaml, node), &place,
                               joins, walk->errors);
        } else {
            wrong_kind(walk, node, key->name, "a place");
        }
        at = node->next;
    }
}

/* A list of ranges is their text between blanks; an empty one is none. */
static void
take_ranges(const struct walk *walk, const struct config_key *key,
            const struct config_yaml_node *list, void *into)
{
    struct config_place place = place_of(walk, list);
    struct buf text;

    buf_init(&text, CONFIG_FILE_BYTES_MAX);
    buf_add_text(&text, list->first == 0 ? "none" : "");
    for (uint32_t at = list->first; at != 0;) {
        const struct config_yaml_node *node = config_yaml_node(walk->yaml, at);
        if (node->kind != CONFIG_YAML_SCALAR) {
            wrong_kind(walk, node, key->name, "a range of addresses");
        }
        buf_add_slice(&text, config_yaml_text(walk->yaml, node));
        buf_add_text(&text, " ");
        at = node->next;
    }
    if (text.failed) {
        config_error(walk->errors, &place, "out of memory");
    } else {
        config_apply_value(key, buf_slice(&text), &place, into, walk->errors);
    }
    buf_fini(&text);
}

static void
take_value(const struct walk *walk, const struct config_key *key,
           const struct config_yaml_node *node, void *into)
{
    struct config_place place = place_of(walk, node);
    struct buf want;

    if (node->kind == CONFIG_YAML_SCALAR) {
        config_apply_value(key, config_yaml_text(walk->yaml, node), &place,
                           into, walk->errors);
        return;
    }
    if (node->kind == CONFIG_YAML_LIST && key->type == CONFIG_RANGES) {
        take_ranges(walk, key, node, into);
        return;
    }
    if (node->kind == CONFIG_YAML_LIST && key->type == CONFIG_PLACES) {
        take_places(walk, key, node, into);
        return;
    }
    buf_init(&want, 512);
    config_value_describe(key, SLICE(""), &want);
    buf_add(&want, "", 1);
    wrong_kind(walk, node, key->name, want.failed ? "text" : want.ptr);
    buf_fini(&want);
}

/* The next key of a mapping and its value; NULL at its end. A key that is not
 * text is a fault and passed over; so is a key whose value was never read. */
static const struct config_yaml_node *
next_pair(const struct walk *walk, uint32_t *at,
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
        wrong_kind(walk, key, "", "a key");
    }
    return NULL;
}

/* The keys of one section, or of one worker (section empty). */
static void
take_mapping(const struct walk *walk, const struct config_schema *schema,
             struct slice section, const struct config_yaml_node *mapping,
             struct seen *seen, void *into)
{
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    uint32_t at = mapping->first;

    while ((name = next_pair(walk, &at, &value)) != NULL) {
        struct config_place place = place_of(walk, name);
        struct slice text = config_yaml_text(walk->yaml, name);
        const struct config_key *key =
            config_schema_find_in(schema, section, text);
        if (key == NULL) {
            config_apply_unknown(schema, section, text, &place, walk->errors);
        } else if (is_first(walk, name, &seen->line[key - schema->keys])) {
            take_value(walk, key, value, into);
        }
    }
}

/* The keys of one worker. 0, or CONFIG_E_INVALID and a fault; no fault for the
 * last worker of a file whose reading stopped, because it may only seem
 * incomplete. */
static int
read_worker(const struct walk *walk, const struct config_yaml_node *mapping,
            const char *where, struct config_worker *worker)
{
    struct seen seen = {.line = {0}};
    uint32_t before = walk->errors->count;

    take_mapping(walk, &config_schema_worker, SLICE(""), mapping, &seen,
                 worker);
    bool good = walk->errors->count == before;
    if ((!walk->yaml->whole && mapping->next == 0) ||
        (!good && seen.line[CONFIG_WORKER_URL] != 0)) {
        return CONFIG_E_INVALID;
    }
    return config_worker_end(worker, where, walk->errors);
}

/* One item of `workers`: a mapping, or text as after --worker. */
static void
take_worker(const struct walk *walk, const struct config_yaml_node *node,
            struct config *config)
{
    struct config_worker worker = {.ranks = 1};
    struct config_place place = place_of(walk, node);
    int rc = CONFIG_E_INVALID;
    char where[512];

    (void)snprintf(where, sizeof where, "%s:%u:%u", walk->file, node->line,
                   node->column);
    if (node->kind == CONFIG_YAML_SCALAR) {
        rc = config_parse_worker(config_yaml_text(walk->yaml, node), where,
                                 &worker, walk->errors);
    } else if (node->kind == CONFIG_YAML_MAPPING) {
        rc = read_worker(walk, node, where, &worker);
    } else {
        wrong_kind(walk, node, "workers",
                   "a worker (its keys, or URL[,KEY=VALUE]...)");
    }
    if (rc == 0) {
        config_apply_worker(config, &worker, &place, walk->errors);
    }
}

static void
take_workers(const struct walk *walk, const struct config_yaml_node *list,
             struct config *config)
{
    if (list->kind != CONFIG_YAML_LIST) {
        wrong_kind(walk, list, "workers", "a list of workers");
        return;
    }
    config_apply_no_workers(config);
    for (uint32_t at = list->first; at != 0;) {
        const struct config_yaml_node *node = config_yaml_node(walk->yaml, at);
        take_worker(walk, node, config);
        at = node->next;
    }
}

/* The row of a section's name, or -1. */
static int
section_row(struct slice name)
{
    const struct config_section *section;

    for (int i = 0; (section = config_schema_section((size_t)i)) != NULL; i++) {
        if (slice_equal(slice_of(section->name), name)) {
            return i;
        }
    }
    return -1;
}

static void
take_section(const struct walk *walk, int row,
             const struct config_yaml_node *node, struct seen *seen,
             struct config *config)
{
    const char *name = config_schema_section((size_t)row)->name;

    if (node->kind == CONFIG_YAML_MAPPING) {
        take_mapping(walk, &config_schema_node, slice_of(name), node, seen,
                     config);
    } else if (node->kind != CONFIG_YAML_NULL) {
        wrong_kind(walk, node, name, "a mapping of its keys");
    }
}

/* A key of no section, or the whole name of a flat section's key. */
static const struct config_key *
find_at_top(struct slice name)
{
    const struct config_key *key =
        config_schema_find(&config_schema_node, name);

    if (key == NULL) {
        return NULL;
    }
    struct slice section = config_key_section(key);
    return section.len == 0 || config_section_is_flat(section) ? key : NULL;
}

static void
take_root(const struct walk *walk, const struct config_yaml_node *root,
          struct config *config)
{
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    struct seen keys = {.line = {0}};
    struct seen sections = {.line = {0}};
    uint32_t workers_line = 0;
    uint32_t at = root->first;

    while ((name = next_pair(walk, &at, &value)) != NULL) {
        struct config_place place = place_of(walk, name);
        struct slice text = config_yaml_text(walk->yaml, name);
        const struct config_key *key = find_at_top(text);
        int row = section_row(text);
        if (key != NULL && (row < 0 || value->kind != CONFIG_YAML_MAPPING)) {
            if (is_first(walk, name,
                         &keys.line[key - config_schema_node.keys])) {
                take_value(walk, key, value, config);
            }
        } else if (slice_equal(text, SLICE("workers"))) {
            if (is_first(walk, name, &workers_line)) {
                take_workers(walk, value, config);
            }
        } else if (row >= 0) {
            if (is_first(walk, name, &sections.line[row])) {
                take_section(walk, row, value, &keys, config);
            }
        } else {
            config_apply_unknown(&config_schema_node, SLICE(""), text, &place,
                                 walk->errors);
        }
    }
}

void
config_apply_yaml(struct config *config, const char *file, struct slice bytes,
                  struct config_errors *errors)
{
    struct config_place place = {.source = file};
    struct config_yaml yaml;
    struct walk walk = {.yaml = &yaml, .file = file, .errors = errors};

    if (bytes.len > CONFIG_FILE_BYTES_MAX) {
        config_error(errors, &place, "over %zu bytes", CONFIG_FILE_BYTES_MAX);
        return;
    }
    config_yaml_read(&yaml, file, bytes, errors);
    if (yaml.root != 0) {
        const struct config_yaml_node *root =
            config_yaml_node(&yaml, yaml.root);
        if (root->kind == CONFIG_YAML_MAPPING) {
            take_root(&walk, root, config);
        } else if (root->kind != CONFIG_YAML_NULL) {
            wrong_kind(&walk, root, "", "a mapping of keys");
        }
    }
    config_yaml_fini(&yaml);
}
