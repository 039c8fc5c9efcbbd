/*
 * Names that stand for models: which model a request gets, and which ones it
 * tries after that.
 *
 * A conversation has one of the models that share an alias, by a hash of its
 * session or else of its opening (blocks.h: prefix_key), the same on every node:
 * so its cache stays of use. The hash falls among the weights in their order. A
 * weight that grows at the cost of its neighbour's therefore moves no
 * conversation but those that change sides. The other models follow in the
 * order of the configuration, the fall-backs last.
 *
 * A request is rewritten: everybody after that, engines included, sees one that
 * asks for the model.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: CONFIG_ALIAS_TARGETS_MAX.
 * Errors: none.
 */
#ifndef NODE_ALIAS_H
#define NODE_ALIAS_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/slice.h"
#include "node/config/config.h"

/* The models of an alias in the order in which one conversation tries them, by
 * their places in alias->target. All of them: alias->targets_count. */
void alias_order(const struct config_alias *alias, uint64_t hash,
                 uint8_t order[CONFIG_ALIAS_TARGETS_MAX]);

/* A name within a request's body. */
struct alias_place {
    size_t at;
    size_t len;
};

/* What becomes of a body: another name there, and further members. */
struct alias_edit {
    struct alias_place place;
    struct slice model;
    struct slice members; /* each with a comma behind it; the body is a JSON
                             object then */
};

/* Of the body that it makes. */
size_t alias_body_size(struct slice body, const struct alias_edit *edit);

/* Writes it to out, which has room for alias_body_size(). Returns it. */
struct slice alias_body(struct slice body, const struct alias_edit *edit,
                        char *out);

/* The session of a request that asked for the alias, at one of its models: they
 * have workers of their own. 0 stays 0: it has none. */
uint64_t alias_session(uint64_t asked, struct slice model);

#endif
