/* Other names of models: from text, and back to text. */
#include "node/config/config_aliases_internal.h"

#include <string.h>

#include "node/config/config_error_internal.h"
#include "node/config/config_value_internal.h"
#include "node/text/quote.h"

#define BANNED "#\"\\,+*="

#define WANT_ALIAS                                                    \
    "NAME=MODEL[*WEIGHT][+MODEL[*WEIGHT]]...[,fallback=MODEL[+MODEL]" \
    "...], weights from 1 to 1000000, without blanks and #\"\\,+*="

/* A whole number from 1 to CONFIG_ALIAS_WEIGHT_MAX. */
static bool
read_weight(struct slice text, uint32_t *weight)
{
    uint32_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        value = value * 10 + (uint32_t)(text.ptr[i] - '0');
        if (value > CONFIG_ALIAS_WEIGHT_MAX) {
            return false;
        }
    }
    *weight = value;
    return value != 0;
}

_Static_assert(CONFIG_ALIAS_WEIGHT_MAX == 1000000, "as the text says");
_Static_assert(CONFIG_ALIAS_TARGETS_MAX == 8, "as the text says");
_Static_assert(CONFIG_ALIASES_MAX == 32, "as the text says");

static const char *
add_target(struct config_alias *alias, struct slice text, bool fallback)
{
    struct config_alias_target target = {.weight = fallback ? 0 : 1};
    bool weighted = memchr(text.ptr, '*', text.len) != NULL;
    struct slice model = slice_take(&text, '*');

    if (!config_put_plain(target.model, sizeof target.model, model, BANNED) ||
        (weighted && (fallback || !read_weight(text, &target.weight)))) {
        return WANT_ALIAS;
    }
    for (uint32_t i = 0; i < alias->targets_count; i++) {
        if (strcmp(alias->target[i].model, target.model) == 0) {
            return "each model once in an alias";
        }
    }
    if (alias->targets_count == CONFIG_ALIAS_TARGETS_MAX) {
        return "at most 8 models in an alias";
    }
    alias->target[alias->targets_count++] = target;
    return NULL;
}

/* Models between plus signs; at least one. */
static const char *
add_targets(struct config_alias *alias, struct slice text, bool fallback)
{
    bool more = text.len == 0 || text.ptr[text.len - 1] == '+';
    const char *want = more ? WANT_ALIAS : NULL;

    while (want == NULL && text.len != 0) {
        want = add_target(alias, slice_take(&text, '+'), fallback);
    }
    return want;
}

static const char *
read_alias(struct slice text, struct config_alias *alias)
{
    struct slice to = slice_take(&text, ',');
    struct slice name = slice_take(&to, '=');
    const char *want =
        config_put_plain(alias->name, sizeof alias->name, name, BANNED)
            ? add_targets(alias, to, false)
            : WANT_ALIAS;

    if (want == NULL && text.len != 0) {
        struct slice key = slice_take(&text, '=');
        want = slice_equal(key, SLICE("fallback"))
                   ? add_targets(alias, text, true)
                   : WANT_ALIAS;
    }
    return want;
}

const struct config_alias *
config_aliases_find(const struct config_aliases *aliases, struct slice name)
{
    CHECK(aliases->count <= CONFIG_ALIASES_MAX);
    for (uint32_t i = 0; i < aliases->count; i++) {
        if (slice_equal(slice_of(aliases->alias[i].name), name)) {
            return &aliases->alias[i];
        }
    }
    return NULL;
}

const char *
config_aliases_add(struct config_aliases *aliases, struct slice text)
{
    struct config_alias alias = {.targets_count = 0};
    const char *want = read_alias(text, &alias);

    if (want != NULL) {
        return want;
    }
    if (config_aliases_find(aliases, slice_of(alias.name)) != NULL) {
        return "each alias once";
    }
    if (aliases->count == CONFIG_ALIASES_MAX) {
        return "at most 32 aliases";
    }
    aliases->alias[aliases->count++] = alias;
    return NULL;
}

const char *
config_aliases_read(struct slice text, struct config_aliases *aliases)
{
    struct config_aliases read = {.count = 0};
    struct slice left;
    struct slice one;
    const char *want = config_list_begin(text, &left) ? NULL : WANT_ALIAS;

    while (want == NULL && config_list_next(&left, &one)) {
        want = config_aliases_add(&read, one);
    }
    if (want == NULL) {
        *aliases = read;
    }
    return want;
}

const char *
config_aliases_want(struct slice text)
{
    struct config_aliases scratch;
    const char *want =
        text.len != 0 ? config_aliases_read(text, &scratch) : NULL;

    return want != NULL ? want : WANT_ALIAS ", or none";
}

static void
print_target(const struct config_alias *alias, uint32_t at, struct buf *out)
{
    const struct config_alias_target *target = &alias->target[at];
    bool first =
        at == 0 || (target->weight == 0 && alias->target[at - 1].weight != 0);

    if (at != 0 && first) {
        buf_add_text(out, ",fallback=");
    }
    buf_printf(out, "%s%s", first ? "" : "+", target->model);
    if (target->weight > 1) {
        buf_printf(out, "*%u", target->weight);
    }
}

void
config_aliases_print(const struct config_aliases *aliases, struct buf *out)
{
    CHECK(aliases->count <= CONFIG_ALIASES_MAX);
    for (uint32_t i = 0; i < aliases->count; i++) {
        const struct config_alias *alias = &aliases->alias[i];
        buf_printf(out, "%s%s=", i != 0 ? " " : "", alias->name);
        for (uint32_t at = 0; at < alias->targets_count; at++) {
            print_target(alias, at, out);
        }
    }
    if (aliases->count == 0) {
        buf_add_text(out, "none");
    }
}

/* Whether its own name is one of the models that it stands for. */
static bool
is_model_too(const struct config_alias *alias)
{
    for (uint32_t i = 0; i < alias->targets_count; i++) {
        if (strcmp(alias->target[i].model, alias->name) == 0) {
            return true;
        }
    }
    return false;
}

void
config_aliases_check(const struct config_aliases *aliases,
                     struct config_errors *errors)
{
    char name[QUOTE_ROOM];
    char quoted[QUOTE_ROOM];

    for (uint32_t i = 0; i < aliases->count; i++) {
        const struct config_alias *alias = &aliases->alias[i];
        for (uint32_t at = 0; at < alias->targets_count; at++) {
            struct slice model = slice_of(alias->target[at].model);
            const struct config_alias *next =
                config_aliases_find(aliases, model);
            if (next != NULL && next != alias && !is_model_too(next)) {
                config_fault(errors, "aliases",
                             "%s leads to %s, which is an alias itself: "
                             "expected a model that engines serve",
                             quote_text(slice_of(alias->name), name),
                             quote_text(model, quoted));
            }
        }
    }
}
