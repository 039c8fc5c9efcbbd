/* Which model a name means. */
#include "node/local/local_table.h"

#include "index/index.h"

static bool
means(struct slice name, struct slice model)
{
    size_t before = name.len - model.len;

    return model.len != 0 && slice_ends(name, model) &&
           (before == 0 || name.ptr[before - 1] == '/');
}

static struct local_model *
find_one(const struct local_table *table, struct slice name)
{
    struct local_model *best = NULL;
    size_t len = 0;

    for (uint32_t i = 0; i < table->count; i++) {
        struct slice model = slice_of(local_model_name(table->model[i]));
        if (means(name, model) && model.len > len) {
            best = table->model[i];
            len = model.len;
        }
    }
    return best;
}

struct local_model *
local_table_find(const struct local_table *table, const struct slice *names,
                 uint32_t count)
{
    struct local_model *found = NULL;

    for (uint32_t i = 0; table != NULL && found == NULL && i < count; i++) {
        found = find_one(table, names[i]);
    }
    return found;
}

bool
local_table_has(const struct local_table *table,
                const struct local_model *model)
{
    for (uint32_t i = 0; table != NULL && i < table->count; i++) {
        if (table->model[i] == model) {
            return true;
        }
    }
    return false;
}

struct local_model *
local_table_same(const struct local_table *table, struct slice name,
                 uint64_t version)
{
    for (uint32_t i = 0; table != NULL && i < table->count; i++) {
        struct local_model *model = table->model[i];
        if (local_model_version(model) == version &&
            slice_equal(slice_of(local_model_name(model)), name)) {
            return model;
        }
    }
    return NULL;
}

uint64_t
local_table_version(const struct local_table *table)
{
    uint64_t version = 0;

    for (uint32_t i = 0; table != NULL && i < table->count; i++) {
        uint64_t own = local_model_version(table->model[i]);
        version ^=
            key_next(key_digest(slice_of(local_model_name(table->model[i]))),
                     &own, sizeof own);
    }
    return version;
}
