/* The configuration file: a YAML tree against the schema. */
#include <stdio.h>

#include "node/config/config_aliases_internal.h"
#include "node/config/config_apply_internal.h"
#include "node/config/config_models_internal.h"
#include "node/config/config_walk_internal.h"

/* The keys seen so far of one mapping, by their row in the schema. */
struct seen {
    uint32_t line[CONFIG_KEYS_MAX];
};

/* Adds one place at a time, so that a fault is reported with its own line. */
static void
take_places(const struct config_walk *walk, const struct config_key *key,
            const struct config_yaml_node *list, void *into)
{
    struct config_joins *joins = (void *)((char *)into + key->offset);

    joins->count = 0;
    for (uint32_t at = list->first; at != 0;) {
        const struct config_yaml_node *node = config_yaml_node(walk->yaml, at);
        struct config_place place = config_walk_place(walk, node);
        if (node->kind == CONFIG_YAML_SCALAR) {
            config_apply_place(key, config_yaml_text(walk->yaml, node), &place,
                               joins, walk->errors);
        } else {
            config_walk_wrong(walk, node, key->name, "a place");
        }
        at = node->next;
    }
}

/* A list of words is their text between blanks; an empty one is none. */
static void
take_words(const struct config_walk *walk, const struct config_key *key,
           const struct config_yaml_node *list, void *into)
{
    struct config_place place = config_walk_place(walk, list);
    struct buf text;

    buf_init(&text, CONFIG_FILE_BYTES_MAX);
    buf_add_text(&text, list->first == 0 ? "none" : "");
    for (uint32_t at = list->first; at != 0;) {
        const struct config_yaml_node *node = config_yaml_node(walk->yaml, at);
        if (node->kind != CONFIG_YAML_SCALAR) {
            config_walk_wrong(
                walk, node, key->name,
                key->type == CONFIG_RANGES ? "a range of addresses" : "text");
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
take_value(const struct config_walk *walk, const struct config_key *key,
           const struct config_yaml_node *node, void *into)
{
    struct config_place place = config_walk_place(walk, node);
    struct buf want;

    if (node->kind == CONFIG_YAML_SCALAR) {
        config_apply_value(key, config_yaml_text(walk->yaml, node), &place,
                           into, walk->errors);
        return;
    }
    if (node->kind == CONFIG_YAML_LIST &&
        (key->type == CONFIG_RANGES || key->type == CONFIG_CHOICES)) {
        take_words(walk, key, node, into);
        return;
    }
    if (node->kind == CONFIG_YAML_LIST && key->type == CONFIG_MODELS) {
        config_models_take(walk, key->name, node,
                           (void *)((char *)into + key->offset));
        return;
    }
    if (node->kind == CONFIG_YAML_LIST && key->type == CONFIG_ALIASES) {
        config_aliases_take(walk, key->name, node,
                            (void *)((char *)into + key->offset));
        return;
    }
    if (node->kind == CONFIG_YAML_LIST && key->type == CONFIG_PLACES) {
        take_places(walk, key, node, into);
        return;
    }
    buf_init(&want, 512);
    config_value_describe(key, SLICE(""), &want);
    buf_add(&want, "", 1);
    config_walk_wrong(walk, node, key->name, want.failed ? "text" : want.ptr);
    buf_fini(&want);
}

/* The keys of one section, or of one worker (section empty). */
static void
take_mapping(const struct config_walk *walk, const struct config_schema *schema,
             struct slice section, const struct config_yaml_node *mapping,
             struct seen *seen, void *into)
{
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    uint32_t at = mapping->first;

    while ((name = config_walk_pair(walk, &at, &value)) != NULL) {
        struct config_place place = config_walk_place(walk, name);
        struct slice text = config_yaml_text(walk->yaml, name);
        const struct config_key *key =
            config_schema_find_in(schema, section, text);
        if (key == NULL) {
            config_apply_unknown(schema, section, text, &place, walk->errors);
        } else if (config_walk_first(walk, name,
                                     &seen->line[key - schema->keys])) {
            take_value(walk, key, value, into);
        }
    }
}

/* The keys of one worker. 0, or CONFIG_E_INVALID and a fault; no fault for the
 * last worker of a file whose reading stopped, because it may only seem
 * incomplete. */
static int
read_worker(const struct config_walk *walk,
            const struct config_yaml_node *mapping, const char *where,
            struct config_worker *worker)
{
    struct seen seen = {.line = {0}};
    uint32_t before = walk->errors->count;

    take_mapping(walk, &config_schema_worker, SLICE(""), mapping, &seen,
                 worker);
    bool good = walk->errors->count == before;
    if ((!walk->yaml->whole && mapping->next == 0) ||
        (!good && (seen.line[CONFIG_WORKER_URL] != 0 ||
                   seen.line[CONFIG_WORKER_FROM] != 0))) {
        return CONFIG_E_INVALID;
    }
    return config_worker_end(worker, where, walk->errors);
}

/* One item of `workers`: a mapping, or text as after --worker. */
static void
take_worker(const struct config_walk *walk, const struct config_yaml_node *node,
            struct config *config)
{
    struct config_worker worker = {.ranks = 1,
                                   .bootstrap_port = CONFIG_BOOTSTRAP_PORT};
    struct config_place place = config_walk_place(walk, node);
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
        config_walk_wrong(walk, node, "workers",
                          "a worker (its keys, or URL[,KEY=VALUE]...)");
    }
    if (rc == 0) {
        config_apply_worker(config, &worker, &place, walk->errors);
    }
}

static void
take_workers(const struct config_walk *walk,
             const struct config_yaml_node *list, struct config *config)
{
    if (list->kind != CONFIG_YAML_LIST) {
        config_walk_wrong(walk, list, "workers", "a list of workers");
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
take_section(const struct config_walk *walk, int row,
             const struct config_yaml_node *node, struct seen *seen,
             struct config *config)
{
    const char *name = config_schema_section((size_t)row)->name;

    if (node->kind == CONFIG_YAML_MAPPING) {
        take_mapping(walk, &config_schema_node, slice_of(name), node, seen,
                     config);
    } else if (node->kind != CONFIG_YAML_NULL) {
        config_walk_wrong(walk, node, name, "a mapping of its keys");
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
take_root(const struct config_walk *walk, const struct config_yaml_node *root,
          struct config *config)
{
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    struct seen keys = {.line = {0}};
    struct seen sections = {.line = {0}};
    uint32_t workers_line = 0;
    uint32_t at = root->first;

    while ((name = config_walk_pair(walk, &at, &value)) != NULL) {
        struct config_place place = config_walk_place(walk, name);
        struct slice text = config_yaml_text(walk->yaml, name);
        const struct config_key *key = find_at_top(text);
        int row = section_row(text);
        if (key != NULL && (row < 0 || value->kind != CONFIG_YAML_MAPPING)) {
            if (config_walk_first(walk, name,
                                  &keys.line[key - config_schema_node.keys])) {
                take_value(walk, key, value, config);
            }
        } else if (slice_equal(text, SLICE("workers"))) {
            if (config_walk_first(walk, name, &workers_line)) {
                take_workers(walk, value, config);
            }
        } else if (row >= 0) {
            if (config_walk_first(walk, name, &sections.line[row])) {
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
    struct config_yaml yaml;
    struct config_walk walk = {.yaml = &yaml, .file = file, .errors = errors};

    config_yaml_read(&yaml, file, bytes, errors);
    if (yaml.root != 0) {
        const struct config_yaml_node *root =
            config_yaml_node(&yaml, yaml.root);
        if (root->kind == CONFIG_YAML_MAPPING) {
            take_root(&walk, root, config);
        } else if (root->kind != CONFIG_YAML_NULL) {
            config_walk_wrong(&walk, root, "", "a mapping of keys");
        }
    }
    config_yaml_fini(&yaml);
}

/* The list: all of the file, or the one key of it. NULL, with a fault. */
static const struct config_yaml_node *
find_list(const struct config_walk *walk, const struct config_yaml_node *root)
{
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    uint32_t at = root->first;

    if (root->kind == CONFIG_YAML_LIST) {
        return root;
    }
    if (root->kind == CONFIG_YAML_MAPPING &&
        (name = config_walk_pair(walk, &at, &value)) != NULL && at == 0 &&
        slice_equal(config_yaml_text(walk->yaml, name), SLICE("workers"))) {
        return value;
    }
    config_walk_wrong(walk, root, "", "a list of workers");
    return NULL;
}

static void
refuse_sources(const struct config *config, const struct config_place *place,
               struct config_errors *errors)
{
    for (uint32_t i = 0; i < config->workers_count; i++) {
        if (config->workers[i].from[0] != '\0') {
            config_error(errors, place, "%s: a file of workers names no others",
                         config->workers[i].from);
        }
    }
}

static void
read_list(struct config *config, const char *path, struct slice bytes,
          struct config_errors *errors)
{
    struct config_place place = {.source = path};
    struct config_yaml yaml;
    struct config_walk walk = {.yaml = &yaml, .file = path, .errors = errors};

    config_yaml_read(&yaml, path, bytes, errors);
    if (yaml.root == 0 && errors->count == 0) {
        config_error(errors, &place, "is empty: [] is a list of no workers");
    }
    if (yaml.root != 0) {
        const struct config_yaml_node *list =
            find_list(&walk, config_yaml_node(&yaml, yaml.root));
        if (list != NULL) {
            take_workers(&walk, list, config);
        }
    }
    config_yaml_fini(&yaml);
    refuse_sources(config, &place, errors);
}

void
config_read_workers(struct config *config, const char *from, const char *path,
                    struct config_errors *errors)
{
    struct buf bytes;

    buf_init(&bytes, CONFIG_FILE_BYTES_MAX + 1);
    if (config_read_regular(path, &bytes, errors)) {
        read_list(config, path, buf_slice(&bytes), errors);
    }
    buf_fini(&bytes);
    for (uint32_t i = 0; i < config->workers_count; i++) {
        (void)snprintf(config->workers[i].from, sizeof config->workers[i].from,
                       "%s", from);
    }
}
