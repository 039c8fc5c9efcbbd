/* The file of keys: a YAML tree into tenants. */
#include "node/config/config_keys.h"

#include <stdlib.h>
#include <string.h>

#include "node/config/config_apply_internal.h"
#include "node/config/config_value_internal.h"
#include "node/config/config_walk_internal.h"
#include "node/keys/keys_check.h"
#include "node/text/quote.h"

/* What one walk over the file carries along. */
struct reading {
    struct config_walk walk;
    struct keys *keys;
    uint32_t tenant; /* whose mapping is read */
    uint32_t faults; /* of others, before this file */
    bool strict[KEYS_TENANTS_MAX];
    struct slice space[KEYS_TENANTS_MAX]; /* its namespace, in the file */
    bool has_secret;
    uint8_t secret[KEYS_SECRET_BYTES];
    bool keyless; /* tokens may name a tenant without keys */
};

static void
say_outcome(const struct reading *r, const struct config_yaml_node *node,
            int outcome, const char *want, const char *twice, uint32_t max)
{
    struct config_place place = config_walk_place(&r->walk, node);
    char quoted[QUOTE_ROOM];

    (void)quote_text(config_yaml_text(r->walk.yaml, node), quoted);
    if (outcome == KEYS_E_BAD) {
        config_error(r->walk.errors, &place, "expected %s, not %s", want,
                     quoted);
    } else if (outcome == KEYS_E_TWICE) {
        config_error(r->walk.errors, &place, "%s appears twice", twice);
    } else if (outcome == KEYS_E_FULL) {
        config_error(r->walk.errors, &place, "at most %u of these", max);
    } else if (outcome < 0) {
        config_error(r->walk.errors, &place, "out of memory");
    }
}

/* One line of `keys`. A wrong one may be a client's key: it is not shown. */
static void
take_key(const struct reading *r, const struct config_yaml_node *node)
{
    struct config_place place = config_walk_place(&r->walk, node);
    int outcome =
        keys_add(r->keys, r->tenant, config_yaml_text(r->walk.yaml, node));

    if (outcome == KEYS_E_BAD) {
        config_error(r->walk.errors, &place,
                     "expected the second line of `kvasir key`, "
                     "ID:sha256:SALT:HASH");
    } else {
        say_outcome(r, node, outcome, "", "this key's id", KEYS_MAX);
    }
}

static void
take_model(const struct reading *r, const struct config_yaml_node *node)
{
    int outcome = keys_add_model(r->keys, r->tenant,
                                 config_yaml_text(r->walk.yaml, node));

    say_outcome(r, node, outcome,
                "a model's name of up to 127 bytes, with a * at its end for "
                "all that begin so",
                "", KEYS_MODELS_MAX);
}

/* Each item of a list. */
static void
take_list(const struct reading *r, const char *name,
          const struct config_yaml_node *list,
          void (*take)(const struct reading *r,
                       const struct config_yaml_node *node))
{
    if (list->kind != CONFIG_YAML_LIST) {
        config_walk_wrong(&r->walk, list, name, "a list");
        return;
    }
    for (uint32_t at = list->first; at != 0;) {
        const struct config_yaml_node *node =
            config_yaml_node(r->walk.yaml, at);
        if (node->kind == CONFIG_YAML_SCALAR) {
            take(r, node);
        } else {
            config_walk_wrong(&r->walk, node, name, "text");
        }
        at = node->next;
    }
}

/* A whole number from min to max, into *number; false: it was named as a
 * fault. */
static bool
take_number(const struct reading *r, const struct config_yaml_node *node,
            const char *name, long min, long max, long *number)
{
    struct config_place place = config_walk_place(&r->walk, node);
    struct slice text = config_yaml_text(r->walk.yaml, node);
    char copy[16] = "";
    char *end = copy;
    char quoted[QUOTE_ROOM];

    if (node->kind == CONFIG_YAML_SCALAR && text.len != 0 &&
        text.len < sizeof(copy)) {
        memcpy(copy, text.ptr, text.len);
        *number = strtol(copy, &end, 10);
    }
    if (end == copy || *end != '\0' || copy[0] == ' ' || *number < min ||
        *number > max) {
        config_error(r->walk.errors, &place,
                     "%s: expected a number from %ld to %ld, not %s", name, min,
                     max, quote_text(text, quoted));
        return false;
    }
    return true;
}

static void
take_weight(struct reading *r, const struct config_yaml_node *node)
{
    long number = 0;

    if (take_number(r, node, "weight", 1, KEYS_WEIGHT_MAX, &number)) {
        keys_set_weight(r->keys, r->tenant, (uint32_t)number);
    }
}

static void
take_priority(struct reading *r, const struct config_yaml_node *node)
{
    long number = 0;

    if (take_number(r, node, "priority", KEYS_FIRST, KEYS_LAST, &number)) {
        keys_set_priority(r->keys, r->tenant, (int32_t)number);
    }
}

/* Limits of a tenant, of its requests for one model or for all. */
struct limiting {
    const struct reading *r;
    const struct config_yaml_node *model; /* NULL: all */
    uint32_t line[LIMITS_OFS];
    uint32_t models_line;
};

static void
take_limit(const struct limiting *l, const struct config_yaml_node *node,
           enum limits_of of)
{
    const struct reading *r = l->r;
    struct config_place place = config_walk_place(&r->walk, node);
    struct slice text = config_yaml_text(r->walk.yaml, node);
    struct slice model =
        l->model != NULL ? config_yaml_text(r->walk.yaml, l->model) : SLICE("");
    struct limits_rate rate = {.amount = 0};
    char quoted[QUOTE_ROOM];
    long number = 0;

    if (of == LIMITS_CONCURRENT) {
        if (!slice_equal(text, SLICE("none")) &&
            !take_number(r, node, "concurrent", 1, LIMITS_AMOUNT_MAX,
                         &number)) {
            return;
        }
        rate.amount = (uint32_t)number;
    } else if (node->kind != CONFIG_YAML_SCALAR ||
               !limits_rate_read(text, &rate)) {
        config_error(r->walk.errors, &place,
                     "%s: expected " LIMITS_RATE_WANT ", not %s",
                     limits_of_name(of), quote_text(text, quoted));
        return;
    }
    int outcome = keys_add_limit(r->keys, r->tenant, model, of, &rate);
    say_outcome(r, outcome == KEYS_E_BAD ? l->model : node, outcome,
                "a model's name of up to 127 bytes, with a * at its end for "
                "all that begin so",
                "this limit", KEYS_LIMITS_MAX);
}

/* A limit; or `models` of a tenant, whose mapping is then *models. */
static void
take_limit_of(struct limiting *l, const struct config_yaml_node *name,
              const struct config_yaml_node *value,
              const struct config_yaml_node **models)
{
    const struct config_walk *walk = &l->r->walk;
    struct config_place place = config_walk_place(walk, name);
    struct slice text = config_yaml_text(walk->yaml, name);
    char quoted[QUOTE_ROOM];

    for (unsigned of = 0; of < LIMITS_OFS; of++) {
        if (slice_equal(text, slice_of(limits_of_name((enum limits_of)of)))) {
            if (config_walk_first(walk, name, &l->line[of])) {
                take_limit(l, value, (enum limits_of)of);
            }
            return;
        }
    }
    if (l->model == NULL && slice_equal(text, SLICE("models"))) {
        if (config_walk_first(walk, name, &l->models_line)) {
            *models = value;
        }
        return;
    }
    config_error(walk->errors, &place,
                 "unknown key %s: limits are of requests, tokens, "
                 "concurrent%s",
                 quote_text(text, quoted),
                 l->model == NULL ? " and models" : "");
}

static void
take_limits_of(const struct reading *r, const struct config_yaml_node *model,
               const struct config_yaml_node *mapping,
               const struct config_yaml_node **models)
{
    struct limiting l = {.r = r, .model = model};
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    uint32_t at = mapping->first;

    if (mapping->kind != CONFIG_YAML_MAPPING) {
        config_walk_wrong(&r->walk, mapping, "limits",
                          "a mapping such as {requests: 600/min, tokens: "
                          "200000/min, concurrent: 16}");
        return;
    }
    while ((name = config_walk_pair(&r->walk, &at, &value)) != NULL) {
        take_limit_of(&l, name, value, models);
    }
}

static void
take_limits(struct reading *r, const struct config_yaml_node *mapping)
{
    const struct config_yaml_node *models = NULL;
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;

    take_limits_of(r, NULL, mapping, &models);
    if (models != NULL && models->kind != CONFIG_YAML_MAPPING) {
        config_walk_wrong(&r->walk, models, "models",
                          "a mapping of models' names");
        return;
    }
    uint32_t at = models != NULL ? models->first : 0;
    while (at != 0 &&
           (name = config_walk_pair(&r->walk, &at, &value)) != NULL) {
        if (config_yaml_text(r->walk.yaml, name).len == 0) {
            config_walk_wrong(&r->walk, name, "models", "a model's name");
        } else {
            take_limits_of(r, name, value, &models);
        }
    }
}

static void
take_isolation(struct reading *r, const struct config_yaml_node *node)
{
    struct slice text = node->kind == CONFIG_YAML_SCALAR
                            ? config_yaml_text(r->walk.yaml, node)
                            : SLICE("");

    if (slice_equal(text, SLICE("strict"))) {
        r->strict[r->tenant] = true;
    } else if (!slice_equal(text, SLICE("shared"))) {
        config_walk_wrong(&r->walk, node, "isolation", "strict or shared");
    }
}

static bool is_label(struct slice text);

static void
take_namespace(struct reading *r, const struct config_yaml_node *node)
{
    struct slice text = node->kind == CONFIG_YAML_SCALAR
                            ? config_yaml_text(r->walk.yaml, node)
                            : SLICE("");

    if (is_label(text)) {
        r->space[r->tenant] = text;
    } else {
        config_walk_wrong(&r->walk, node, "namespace",
                          "a name of letters, digits and ._:@-[]");
    }
}

/* What is wrong with a secret is not shown. */
static void
take_secret(struct reading *r, const struct config_yaml_node *node)
{
    struct config_place place = config_walk_place(&r->walk, node);
    struct slice text = config_yaml_text(r->walk.yaml, node);

    r->has_secret =
        node->kind == CONFIG_YAML_SCALAR && keys_read_secret(text, r->secret);
    if (!r->has_secret) {
        config_error(r->walk.errors, &place,
                     "isolation_secret: expected 64 small hex digits "
                     "(openssl rand -hex 32)");
    }
}

static void
isolate_tenants(struct reading *r)
{
    for (uint32_t i = 0; i < KEYS_TENANTS_MAX; i++) {
        struct keys_isolation isolation;
        const char *name = keys_tenant_name(r->keys, i);
        struct slice space =
            r->space[i].len != 0 ? r->space[i] : slice_of(name);
        if (!r->strict[i] && r->space[i].len != 0) {
            config_fault(r->walk.errors, r->walk.file,
                         "the tenant %s has a namespace, which wants "
                         "isolation: strict",
                         name);
            return;
        }
        if (!r->strict[i]) {
            continue;
        }
        if (!r->has_secret) {
            config_fault(r->walk.errors, r->walk.file,
                         "the tenant %s has isolation: strict, which wants "
                         "an isolation_secret (openssl rand -hex 32), the "
                         "same on all nodes",
                         name);
            return;
        }
        if (keys_isolate(r->secret, space, &isolation) < 0) {
            config_fault(r->walk.errors, r->walk.file,
                         "the library of hashes fails");
            return;
        }
        keys_set_isolation(r->keys, i, &isolation);
    }
}

static void
take_keys(struct reading *r, const struct config_yaml_node *list)
{
    take_list(r, "keys", list, take_key);
}

static void
take_models(struct reading *r, const struct config_yaml_node *list)
{
    keys_limit_models(r->keys, r->tenant);
    take_list(r, "models", list, take_model);
}

/* Each item of `residency`. */
static void
take_island(const struct reading *r, const struct config_yaml_node *node)
{
    struct slice text = config_yaml_text(r->walk.yaml, node);
    char label[CONFIG_LABEL_MAX];
    int outcome = config_island_read(text, label)
                      ? keys_add_residency(r->keys, r->tenant, text)
                      : KEYS_E_BAD;

    if (outcome == KEYS_E_FULL) {
        config_walk_wrong(&r->walk, node, "residency",
                          "at most 191 bytes of islands");
        return;
    }
    say_outcome(r, node, outcome,
                "an island such as eu or aws/eu-west-1: labels of letters, "
                "digits and ._:@-[] between slashes",
                "", 0);
}

_Static_assert(KEYS_RESIDENCY_MAX == 192, "as the text says");

/* An empty list would be nowhere, and is no rule that anybody wants. */
static void
take_residency(struct reading *r, const struct config_yaml_node *list)
{
    if (list->kind == CONFIG_YAML_LIST && list->first == 0) {
        config_walk_wrong(&r->walk, list, "residency",
                          "a list of one or more islands");
        return;
    }
    take_list(r, "residency", list, take_island);
}

static const struct tenant_key {
    const char *name;
    void (*take)(struct reading *r, const struct config_yaml_node *value);
} tenant_keys[] = {
    {"keys", take_keys},           {"models", take_models},
    {"limits", take_limits},       {"weight", take_weight},
    {"priority", take_priority},   {"isolation", take_isolation},
    {"namespace", take_namespace}, {"residency", take_residency},
};

#define TENANT_KEYS (sizeof tenant_keys / sizeof tenant_keys[0])

static void
take_mapping(struct reading *r, const struct config_yaml_node *mapping)
{
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    uint32_t line[TENANT_KEYS] = {0};
    uint32_t at = mapping->first;

    while ((name = config_walk_pair(&r->walk, &at, &value)) != NULL) {
        struct config_place place = config_walk_place(&r->walk, name);
        struct slice text = config_yaml_text(r->walk.yaml, name);
        char quoted[QUOTE_ROOM];
        size_t i = 0;
        while (i < TENANT_KEYS &&
               !slice_equal(text, slice_of(tenant_keys[i].name))) {
            i++;
        }
        if (i == TENANT_KEYS) {
            config_error(r->walk.errors, &place,
                         "unknown key %s: a tenant has keys, models, limits, "
                         "weight, priority, isolation, namespace and "
                         "residency",
                         quote_text(text, quoted));
        } else if (config_walk_first(&r->walk, name, &line[i])) {
            tenant_keys[i].take(r, value);
        }
    }
}

/* Tenants have names as nodes have. */
static bool
is_label(struct slice text)
{
    const struct config_key *key =
        config_schema_find(&config_schema_node, SLICE("name"));
    struct config parsed;

    CHECK(key != NULL);
    return config_value_set(key, text, &parsed);
}

static void
take_tenant(struct reading *r, const struct config_yaml_node *name,
            const struct config_yaml_node *value)
{
    struct slice text = config_yaml_text(r->walk.yaml, name);
    int outcome = is_label(text) ? keys_add_tenant(r->keys, text, &r->tenant)
                                 : KEYS_E_BAD;

    if (outcome != 0) {
        say_outcome(r, name, outcome,
                    "a tenant's name of letters, digits and ._:@-[]",
                    "this tenant", KEYS_TENANTS_MAX);
    } else if (value->kind == CONFIG_YAML_MAPPING) {
        take_mapping(r, value);
    } else if (value->kind != CONFIG_YAML_NULL) {
        config_walk_wrong(&r->walk, value, "a tenant",
                          "a mapping of keys and models");
    }
}

static void
take_tenants(struct reading *r, const struct config_yaml_node *mapping)
{
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    uint32_t at = mapping->first;

    if (mapping->kind != CONFIG_YAML_MAPPING) {
        config_walk_wrong(&r->walk, mapping, "tenants",
                          "a mapping of tenants' names");
        return;
    }
    while ((name = config_walk_pair(&r->walk, &at, &value)) != NULL) {
        take_tenant(r, name, value);
    }
}

static void
take_root(struct reading *r, const struct config_yaml_node *root)
{
    const struct config_yaml_node *value;
    const struct config_yaml_node *name;
    uint32_t line = 0;
    uint32_t secret_line = 0;
    uint32_t at = root->first;

    if (root->kind != CONFIG_YAML_MAPPING) {
        config_walk_wrong(&r->walk, root, "", "tenants:");
        return;
    }
    while ((name = config_walk_pair(&r->walk, &at, &value)) != NULL) {
        struct config_place place = config_walk_place(&r->walk, name);
        struct slice text = config_yaml_text(r->walk.yaml, name);
        char quoted[QUOTE_ROOM];
        if (slice_equal(text, SLICE("isolation_secret"))) {
            if (config_walk_first(&r->walk, name, &secret_line)) {
                take_secret(r, value);
            }
        } else if (!slice_equal(text, SLICE("tenants"))) {
            config_error(r->walk.errors, &place,
                         "unknown key %s: expected tenants or "
                         "isolation_secret",
                         quote_text(text, quoted));
        } else if (config_walk_first(&r->walk, name, &line)) {
            take_tenants(r, value);
        }
    }
}

static void
read_tree(const struct config_yaml *yaml, struct reading *r)
{
    if (yaml->root != 0) {
        take_root(r, config_yaml_node(yaml, yaml->root));
        isolate_tenants(r);
    }
    /* An empty file is an accident more often than the wish to serve nobody. */
    if (r->walk.errors->count != r->faults) {
        return;
    }
    if (r->keyless && keys_tenants_count(r->keys) == 0) {
        config_fault(r->walk.errors, r->walk.file, "has no tenant");
    } else if (!r->keyless && keys_count(r->keys) == 0) {
        config_fault(r->walk.errors, r->walk.file,
                     "has no key: `kvasir key` makes "
                     "one");
    }
}

int
config_keys_read(struct slice bytes, const char *file, bool keyless,
                 const struct keys *before, struct keys **out,
                 struct config_errors *errors)
{
    struct config_yaml yaml;
    struct reading r = {
        .walk = {.yaml = &yaml, .file = file, .errors = errors},
        .faults = errors->count,
        .keyless = keyless,
    };

    *out = NULL;
    if (keys_new(&r.keys, before) < 0) {
        config_fault(errors, file, "out of memory");
        return CONFIG_E_INVALID;
    }
    config_yaml_read(&yaml, file, bytes, errors);
    if (errors->count == r.faults) {
        read_tree(&yaml, &r);
    }
    config_yaml_fini(&yaml);
    if (errors->count != r.faults) {
        keys_free(r.keys);
        return CONFIG_E_INVALID;
    }
    *out = r.keys;
    return 0;
}

int
config_keys_load(const struct config *config, const struct keys *before,
                 struct keys **out, struct config_errors *errors)
{
    const char *path = config->keys.file;
    bool keyless = config->jwt.jwks[0] != '\0';
    struct buf bytes;
    int rc = CONFIG_E_INVALID;

    buf_init(&bytes, CONFIG_FILE_BYTES_MAX + 1);
    *out = NULL;
    if (config_read_regular(path, &bytes, errors)) {
        rc = config_keys_read(buf_slice(&bytes), path, keyless, before, out,
                              errors);
    }
    buf_fini(&bytes);
    return rc;
}

void
config_keys_check(const struct config *config, struct config_errors *errors)
{
    struct keys *keys;

    if (config->keys.file[0] != '\0' &&
        config_keys_load(config, NULL, &keys, errors) == 0) {
        keys_free(keys);
    }
}
