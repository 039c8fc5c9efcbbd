/*
 * What a request's name stands for: itself, an alias (alias.h), or a name whose
 * model is chosen by what the request says (content.h), which may be an alias in
 * turn.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: CONFIG_ALIAS_TARGETS_MAX.
 * Errors: none.
 */
#ifndef NODE_NAMED_H
#define NODE_NAMED_H

#include <stdbool.h>
#include <stdint.h>

#include "node/config/config.h"
#include "node/content/content.h"

struct named {
    const char *asked; /* the name; NULL: it stands for itself, and the rest is
                          nothing */
    const char *model[CONFIG_ALIAS_TARGETS_MAX]; /* in the order in which they
                                                    are tried */
    uint32_t count;
    const char *alias; /* of these models; NULL: none */
    bool judged;       /* by content rules: what they say */
    struct content_verdict verdict;
};

/* What names are looked up in. */
struct named_names {
    const struct config_aliases *aliases;
    const struct content *content;   /* NULL: there are no rules */
    struct content_scratch *scratch; /* with content */
};

/* A request for that name. hash: of its conversation, for alias_order().
 * asked->scan is NULL for a body without a prompt: no rule fits it. What *named
 * has is borrowed from names and the scratch. */
void named_find(const struct named_names *names, struct slice name,
                const struct content_asked *asked, uint64_t hash,
                struct named *named);

#endif
