/*
 * All models whose files this node has: published to lanes as a whole, and
 * replaced as a whole when the configuration is read again.
 *
 * Role: core. Owns: a list; the models are shared with the table that follows.
 * Thread: built by one thread, then read by any that is online in the qsbr.
 * Limits: LOCAL_MODELS_MAX. Errors: none.
 */
#ifndef NODE_LOCAL_TABLE_H
#define NODE_LOCAL_TABLE_H

#include "index/base/qsbr.h"
#include "node/local/local_model.h"

#define LOCAL_MODELS_MAX 64U

struct local_table {
    struct qsbr_node retired;
    void *owner; /* whoever publishes it, for its own use */
    uint32_t count;
    uint32_t left_off; /* models beyond LOCAL_MODELS_MAX */
    int dir_error;     /* -errno: tokens.dir cannot be read */
    struct local_model *model[LOCAL_MODELS_MAX];
};

/*
 * The model that one of these names means, the first name first; empty names
 * mean none. A name means a model that it equals, or whose name it ends with
 * behind a slash; the longest such. NULL: none. table may be NULL.
 */
struct local_model *local_table_find(const struct local_table *table,
                                     const struct slice *names, uint32_t count);

/* Whether it holds that very one. table may be NULL. */
bool local_table_has(const struct local_table *table,
                     const struct local_model *model);

/* Of the same name and version, or NULL. */
struct local_model *local_table_same(const struct local_table *table,
                                     struct slice name, uint64_t version);

/* Over all models: equal on nodes with the same files; 0: there are none. */
uint64_t local_table_version(const struct local_table *table);

#endif
