/* The file of content rules: a YAML tree into names and rules. */
#include "node/config/config_content.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/config/config_apply_internal.h"
#include "node/config/config_walk_internal.h"
#include "node/text/json_out.h"
#include "node/text/json_pull.h"
#include "node/text/quote.h"

#define BYTES_MAX 4000000000L /* of a prompt */

typedef const struct config_yaml_node *yaml_node;

/* What one walk over the file carries along. */
struct reading {
    struct config_walk walk;
    struct content *content;
    struct content_rule rule;     /* that is being read */
    yaml_node words, regex, like; /* its lists, or NULL */
    bool conditional;             /* it has a condition */
    uint32_t faults;              /* of others, before this file */
};

static void
wrong(const struct reading *r, yaml_node node, const char *name,
      const char *want)
{
    struct config_place place = config_walk_place(&r->walk, node);
    char quoted[QUOTE_ROOM];

    if (node->kind != CONFIG_YAML_SCALAR) {
        config_walk_wrong(&r->walk, node, name, want);
        return;
    }
    config_error(r->walk.errors, &place, "%s: expected %s, not %s", name, want,
                 quote_text(config_yaml_text(r->walk.yaml, node), quoted));
}

static void
say_outcome(const struct reading *r, yaml_node node, int outcome,
            const char *full, const char *why)
{
    struct config_place place = config_walk_place(&r->walk, node);

    if (outcome == CONTENT_E_TWICE) {
        char quoted[QUOTE_ROOM];
        config_error(r->walk.errors, &place, "%s appears twice",
                     quote_text(config_yaml_text(r->walk.yaml, node), quoted));
    } else if (outcome == CONTENT_E_FULL) {
        config_error(r->walk.errors, &place, "at most %s", full);
    } else if (outcome == CONTENT_E_BAD) {
        config_error(r->walk.errors, &place, "%s", why);
    } else if (outcome != 0) {
        config_error(r->walk.errors, &place, "out of memory");
    }
}

/* A text without blanks, quotes and signs that end it in metrics and logs, into
 * room bytes. False: a fault was added. */
static bool
take_name(const struct reading *r, yaml_node node, const char *name, char *to,
          size_t room)
{
    struct slice text = node->kind == CONFIG_YAML_SCALAR
                            ? config_yaml_text(r->walk.yaml, node)
                            : SLICE("");
    bool good = text.len > 0 && text.len < room;

    for (size_t i = 0; i < text.len && good; i++) {
        good = text.ptr[i] > ' ' && text.ptr[i] < 0x7F &&
               strchr("\"\\#", text.ptr[i]) == NULL;
    }
    if (!good) {
        char want[64];
        (void)snprintf(want, sizeof want,
                       "a name of up to %zu bytes without blanks and \"\\#",
                       room - 1);
        wrong(r, node, name, want);
        return false;
    }
    memcpy(to, text.ptr, text.len);
    to[text.len] = '\0';
    return true;
}

static void
take_bytes(struct reading *r, yaml_node node, const char *name, uint64_t *bytes)
{
    struct slice text = node->kind == CONFIG_YAML_SCALAR
                            ? config_yaml_text(r->walk.yaml, node)
                            : SLICE("");
    char copy[16] = "";
    char *end = copy;

    if (text.len < sizeof copy) {
        memcpy(copy, text.ptr, text.len);
    }
    long number = strtol(copy, &end, 10);
    if (end == copy || *end != '\0' || copy[0] < '0' || number < 1 ||
        number > BYTES_MAX) {
        wrong(r, node, name, "a number of bytes from 1 to 4000000000");
        return;
    }
    *bytes = (uint64_t)number;
    r->conditional = true;
}

/* Calls take for each text of a list, one or more. */
static void
take_list(struct reading *r, yaml_node list, const char *name,
          void (*take)(struct reading *r, yaml_node node))
{
    if (list->kind != CONFIG_YAML_LIST || list->first == 0) {
        wrong(r, list, name, "a list of one or more");
        return;
    }
    for (uint32_t at = list->first; at != 0;) {
        yaml_node node = config_yaml_node(r->walk.yaml, at);
        if (node->kind == CONFIG_YAML_SCALAR &&
            config_yaml_text(r->walk.yaml, node).len != 0) {
            take(r, node);
        } else {
            wrong(r, node, name, "text");
        }
        at = node->next;
    }
    r->conditional = true;
}

/* The place of a text among names; count: it is none of them. */
static uint32_t
place_of(struct slice text, uint32_t count, const char *(*name)(uint32_t at))
{
    uint32_t i = 0;

    while (i < count && !slice_equal(slice_of(name(i)), text)) {
        i++;
    }
    return i;
}

static const char *
thing_name(uint32_t at)
{
    return content_thing_name((enum content_thing)at);
}

static const char *
language_name(uint32_t at)
{
    return content_language_name((enum content_language)at);
}

static const char *
option_name(uint32_t at)
{
    return scan_option_name((enum scan_option)at);
}

static void
take_thing(struct reading *r, yaml_node node)
{
    uint32_t at = place_of(config_yaml_text(r->walk.yaml, node), CONTENT_THINGS,
                           thing_name);

    if (at == CONTENT_THINGS) {
        wrong(r, node, "has",
              "code, tools, media, email, phone, card, iban or jailbreak");
        return;
    }
    r->rule.things |= 1U << at;
}

static void
take_language(struct reading *r, yaml_node node)
{
    uint32_t at = place_of(config_yaml_text(r->walk.yaml, node),
                           CONTENT_LANGUAGES, language_name);

    if (at == CONTENT_LANGUAGES) {
        wrong(r, node, "languages",
              "unknown, ar, de, el, en, es, fr, he, hi, it, ja, ko, pl, pt, "
              "ro, ru, th, tr, vi or zh");
        return;
    }
    r->rule.languages |= 1U << at;
}

static void
take_tenant(struct reading *r, yaml_node node)
{
    char name[CONTENT_TENANTS_MAX];
    size_t len = strlen(r->rule.tenants);

    if (!take_name(r, node, "tenants", name, 64)) {
        return;
    }
    int added = snprintf(r->rule.tenants + len, CONTENT_TENANTS_MAX - len,
                         "%s%s", len != 0 ? " " : "", name);
    if ((size_t)added >= CONTENT_TENANTS_MAX - len) {
        say_outcome(r, node, CONTENT_E_FULL, "255 bytes of tenants", "");
    }
}

/* Whether a text is one JSON value; *depth: how deep it is, or begins to be. */
static bool
is_json(struct slice text, uint32_t *depth)
{
    struct json_pull pull;
    enum pull_token token;

    *depth = 0;
    json_pull_init(&pull, text);
    while ((token = json_pull_next(&pull)) > PULL_END) {
        *depth = pull.depth > *depth ? pull.depth : *depth;
    }
    return token == PULL_END && memchr(text.ptr, '\n', text.len) == NULL;
}

/* A member for bodies: its value is JSON, or a text. */
static void
take_member(struct reading *r, yaml_node key, yaml_node value)
{
    struct slice name = config_yaml_text(r->walk.yaml, key);
    char *set = r->rule.set;
    struct json_out json;
    uint32_t depth;
    struct buf out;

    if (place_of(name, SCAN_OPTIONS, option_name) == SCAN_OPTIONS) {
        wrong(r, key, "set",
              "a member that changes how a request is rendered, such as "
              "chat_template_kwargs, reasoning_effort or thinking");
        return;
    }
    if (value->kind != CONFIG_YAML_SCALAR) {
        wrong(r, value, "set", "JSON in quotes, or text");
        return;
    }
    struct slice text = config_yaml_text(r->walk.yaml, value);
    bool whole = is_json(text, &depth);
    if (depth > CONTENT_SET_DEPTH_MAX) {
        wrong(r, value, "set", "JSON nested at most 7 deep");
        return;
    }
    buf_init(&out, CONTENT_SET_MAX);
    buf_printf(&out, "\"%.*s\":", (int)name.len, name.ptr);
    if (whole) {
        buf_add_slice(&out, text);
    } else {
        json_out_init(&json, &out);
        json_out_slice(&json, text);
    }
    buf_add_text(&out, ",\n");
    size_t len = strlen(set);
    if (out.failed || len + out.len >= CONTENT_SET_MAX) {
        say_outcome(r, key, CONTENT_E_FULL, "511 bytes of members", "");
    } else {
        memcpy(set + len, out.ptr, out.len);
        set[len + out.len] = '\0';
    }
    buf_fini(&out);
}

_Static_assert(CONTENT_SET_MAX == 512 && CONTENT_SET_DEPTH_MAX == 7 &&
                   CONTENT_TENANTS_MAX == 256,
               "as said");

static void
take_set(struct reading *r, yaml_node mapping)
{
    yaml_node value;
    yaml_node key;
    uint32_t at = mapping->first;

    if (mapping->kind != CONFIG_YAML_MAPPING) {
        wrong(r, mapping, "set", "a mapping of members and their values");
        return;
    }
    while ((key = config_walk_pair(&r->walk, &at, &value)) != NULL) {
        take_member(r, key, value);
    }
}

static void
take_rule_name(struct reading *r, yaml_node node)
{
    (void)take_name(r, node, "name", r->rule.name, sizeof r->rule.name);
}

static void
take_model(struct reading *r, yaml_node node)
{
    (void)take_name(r, node, "model", r->rule.model, sizeof r->rule.model);
}

static void
take_has(struct reading *r, yaml_node list)
{
    take_list(r, list, "has", take_thing);
}

static void
take_languages(struct reading *r, yaml_node list)
{
    take_list(r, list, "languages", take_language);
}

static void
take_tenants(struct reading *r, yaml_node list)
{
    take_list(r, list, "tenants", take_tenant);
}

static void
take_longer(struct reading *r, yaml_node node)
{
    take_bytes(r, node, "longer", &r->rule.longer);
}

static void
take_shorter(struct reading *r, yaml_node node)
{
    take_bytes(r, node, "shorter", &r->rule.shorter);
}

static void
take_semantic(struct reading *r, yaml_node node)
{
    struct slice text = node->kind == CONFIG_YAML_SCALAR
                            ? config_yaml_text(r->walk.yaml, node)
                            : SLICE("");
    char copy[16] = "";
    char *end = copy;

    if (slice_equal(text, SLICE("off"))) {
        r->rule.semantic_permille = 1001;
        return;
    }
    if (text.len < sizeof copy) {
        memcpy(copy, text.ptr, text.len);
    }
    double cosine = strtod(copy, &end);
    if (end == copy || *end != '\0' || !(cosine >= 0.5 && cosine <= 1)) {
        wrong(r, node, "semantic_threshold", "0.5 to 1, or off");
        return;
    }
    r->rule.semantic_permille = (uint32_t)(cosine * 1000 + 0.5);
}

/* Words and patterns are added once the rule is. */
static void
keep_words(struct reading *r, yaml_node list)
{
    r->words = list;
}

static void
keep_regex(struct reading *r, yaml_node list)
{
    r->regex = list;
}

static void
keep_like(struct reading *r, yaml_node list)
{
    r->like = list;
}

static void
take_example(struct reading *r, yaml_node node)
{
    say_outcome(
        r, node,
        content_add_example(r->content, config_yaml_text(r->walk.yaml, node)),
        "512 examples of up to 1024 bytes", "");
}

static void
take_word(struct reading *r, yaml_node node)
{
    say_outcome(
        r, node,
        content_add_word(r->content, config_yaml_text(r->walk.yaml, node)),
        "4096 bytes of words in a rule", "");
}

static void
take_pattern(struct reading *r, yaml_node node)
{
    char why[CONTENT_WHY_MAX] = "";
    int outcome = content_add_pattern(
        r->content, config_yaml_text(r->walk.yaml, node), why);

    say_outcome(r, node, outcome, "128 patterns of up to 4096 bytes", why);
}

_Static_assert(CONTENT_PATTERNS_MAX == 128 && CONTENT_PATTERN_BYTES == 4096 &&
                   CONTENT_EXAMPLES_MAX == 512 && CONTENT_EXAMPLE_BYTES == 1024,
               "as said");

static const struct rule_key {
    const char *name;
    void (*take)(struct reading *r, yaml_node value);
} rule_keys[] = {
    {"name", take_rule_name},  {"model", take_model},
    {"has", take_has},         {"languages", take_languages},
    {"tenants", take_tenants}, {"longer", take_longer},
    {"shorter", take_shorter}, {"words", keep_words},
    {"regex", keep_regex},     {"like", keep_like},
    {"set", take_set},         {"semantic_threshold", take_semantic},
};

#define RULE_KEYS (sizeof rule_keys / sizeof rule_keys[0])

static void
take_keys(struct reading *r, yaml_node mapping)
{
    yaml_node value;
    yaml_node key;
    uint32_t line[RULE_KEYS] = {0};
    uint32_t at = mapping->first;

    while ((key = config_walk_pair(&r->walk, &at, &value)) != NULL) {
        struct slice text = config_yaml_text(r->walk.yaml, key);
        size_t i = 0;
        while (i < RULE_KEYS &&
               !slice_equal(text, slice_of(rule_keys[i].name))) {
            i++;
        }
        if (i == RULE_KEYS) {
            wrong(r, key, "a rule",
                  "name, model, has, languages, tenants, longer, shorter, "
                  "words, regex, like, set or semantic_threshold");
        } else if (config_walk_first(&r->walk, key, &line[i])) {
            rule_keys[i].take(r, value);
        }
    }
}

static void
take_rule(struct reading *r, yaml_node item)
{
    struct config_place place = config_walk_place(&r->walk, item);
    uint32_t before = r->walk.errors->count;

    r->rule = (struct content_rule){.name = ""};
    r->words = r->regex = r->like = NULL;
    r->conditional = false;
    if (item->kind != CONFIG_YAML_MAPPING) {
        wrong(r, item, "rules", "a mapping of a rule's keys");
        return;
    }
    take_keys(r, item);
    if (r->walk.errors->count != before) {
        return;
    }
    if (r->rule.name[0] == '\0') {
        config_error(r->walk.errors, &place, "a rule without name");
        return;
    }
    int outcome = content_add_rule(r->content, &r->rule);
    if (outcome == CONTENT_E_TWICE) {
        config_error(r->walk.errors, &place, "the rule %s appears twice",
                     r->rule.name);
        return;
    }
    say_outcome(r, item, outcome, "64 rules", "");
    if (outcome == 0 && r->words != NULL) {
        take_list(r, r->words, "words", take_word);
    }
    if (outcome == 0 && r->regex != NULL) {
        take_list(r, r->regex, "regex", take_pattern);
    }
    if (outcome == 0 && r->like != NULL) {
        take_list(r, r->like, "like", take_example);
    }
    if (!r->conditional && r->walk.errors->count == before) {
        config_error(r->walk.errors, &place,
                     "the rule %s has no condition: it would fit all requests",
                     r->rule.name);
    }
}

_Static_assert(CONTENT_RULES_MAX == 64 && CONTENT_NAMES_MAX == 16, "as said");

static bool
take_look(const struct reading *r, yaml_node node, enum content_look *look)
{
    struct slice text = node->kind == CONFIG_YAML_SCALAR
                            ? config_yaml_text(r->walk.yaml, node)
                            : SLICE("");

    *look = slice_equal(text, SLICE("last")) ? CONTENT_LAST : CONTENT_FIRST;
    if (*look == CONTENT_FIRST && !slice_equal(text, SLICE("first"))) {
        wrong(r, node, "look", "first or last");
        return false;
    }
    return true;
}

/* The keys of a name, in their places. */
struct name_keys {
    yaml_node model, look, rules;
};

static bool
find_keys(const struct reading *r, yaml_node mapping, struct name_keys *keys)
{
    static const char *const names[] = {"model", "look", "rules"};
    yaml_node *const to[] = {&keys->model, &keys->look, &keys->rules};
    yaml_node value;
    yaml_node key;
    uint32_t line[3] = {0};
    uint32_t before = r->walk.errors->count;
    uint32_t at = mapping->first;

    while ((key = config_walk_pair(&r->walk, &at, &value)) != NULL) {
        struct slice text = config_yaml_text(r->walk.yaml, key);
        size_t i = 0;
        while (i < 3 && !slice_equal(text, slice_of(names[i]))) {
            i++;
        }
        if (i == 3) {
            wrong(r, key, "a name's keys", "model, look or rules");
        } else if (config_walk_first(&r->walk, key, &line[i])) {
            *to[i] = value;
        }
    }
    return r->walk.errors->count == before;
}

/* Adds the name. False: a fault was added. */
static bool
add_name(const struct reading *r, yaml_node key, const struct name_keys *keys)
{
    char name[CONTENT_MODEL_MAX];
    char model[CONTENT_MODEL_MAX];
    enum content_look look = CONTENT_FIRST;

    if (!take_name(r, key, "a name for clients", name, sizeof name) ||
        !take_name(r, keys->model, "model", model, sizeof model) ||
        (keys->look != NULL && !take_look(r, keys->look, &look))) {
        return false;
    }
    int outcome =
        content_add_name(r->content, slice_of(name), slice_of(model), look);
    say_outcome(r, key, outcome, "16 names", "");
    return outcome == 0;
}

static void
take_content(struct reading *r, yaml_node key, yaml_node value)
{
    struct name_keys keys = {NULL};

    if (value->kind != CONFIG_YAML_MAPPING) {
        wrong(r, value, "a name", "a mapping of model, look and rules");
        return;
    }
    if (!find_keys(r, value, &keys)) {
        return;
    }
    if (keys.model == NULL || keys.rules == NULL) {
        wrong(r, key, "a name", "model and rules behind it");
        return;
    }
    if (keys.rules->kind != CONFIG_YAML_LIST || keys.rules->first == 0) {
        wrong(r, keys.rules, "rules", "a list of one or more");
        return;
    }
    if (!add_name(r, key, &keys)) {
        return;
    }
    for (uint32_t at = keys.rules->first; at != 0;) {
        yaml_node item = config_yaml_node(r->walk.yaml, at);
        take_rule(r, item);
        at = item->next;
    }
}

static void
read_tree(const struct config_yaml *yaml, struct reading *r)
{
    char why[CONTENT_WHY_MAX] = "";
    yaml_node value;
    yaml_node key;

    if (yaml->root == 0) {
        config_fault(r->walk.errors, r->walk.file, "has no name");
        return;
    }
    yaml_node root = config_yaml_node(yaml, yaml->root);
    uint32_t at = root->first;
    if (root->kind != CONFIG_YAML_MAPPING) {
        wrong(r, root, "the file", "a mapping of names for clients");
        return;
    }
    while ((key = config_walk_pair(&r->walk, &at, &value)) != NULL) {
        take_content(r, key, value);
    }
    if (r->walk.errors->count == r->faults &&
        content_finish(r->content, why) != 0) {
        config_fault(r->walk.errors, r->walk.file,
                     "words cannot be compiled: %s", why);
    }
}

int
config_content_read(struct slice bytes, const char *file, struct content **out,
                    struct config_errors *errors)
{
    struct config_yaml yaml;
    struct reading r = {
        .walk = {.yaml = &yaml, .file = file, .errors = errors},
        .faults = errors->count,
    };

    *out = NULL;
    if (content_new(&r.content) < 0) {
        config_fault(errors, file, "out of memory");
        return CONFIG_E_INVALID;
    }
    config_yaml_read(&yaml, file, bytes, errors);
    if (errors->count == r.faults) {
        read_tree(&yaml, &r);
    }
    config_yaml_fini(&yaml);
    if (errors->count != r.faults) {
        content_free(r.content);
        return CONFIG_E_INVALID;
    }
    *out = r.content;
    return 0;
}

int
config_content_load(const char *path, struct content **out,
                    struct config_errors *errors)
{
    struct buf bytes;
    int rc = CONFIG_E_INVALID;

    *out = NULL;
    buf_init(&bytes, CONFIG_FILE_BYTES_MAX + 1);
    if (config_read_regular(path, &bytes, errors)) {
        rc = config_content_read(buf_slice(&bytes), path, out, errors);
    }
    buf_fini(&bytes);
    return rc;
}

/* What the rest of the configuration says of it. */
static void
check_rest(const struct config *config, const struct content *content,
           struct config_errors *errors)
{
    const char *name;

    for (uint32_t i = 0; (name = content_name(content, i)) != NULL; i++) {
        if (config_aliases_find(&config->aliases, slice_of(name)) != NULL) {
            config_fault(errors, "content.file",
                         "%s is an alias, too: a name is one or the other",
                         name);
        }
    }
    if (content_examples(content) != 0 &&
        config->content.embeddings_model[0] == '\0') {
        config_fault(errors, "content.file",
                     "rules with like want content.embeddings_model");
    }
}

void
config_content_check(const struct config *config, struct config_errors *errors)
{
    struct content *content = NULL;

    if (config->content.file[0] == '\0' ||
        config_content_load(config->content.file, &content, errors) != 0) {
        return;
    }
    check_rest(config, content, errors);
    content_free(content);
}
