/*
 * Reads models' files from where the configuration says.
 *
 * `models` names folders or files one by one. `tokens.dir` is a folder of
 * models: DIR/NAME, DIR/ORGANISATION/NAME, or as Hugging Face's cache has them,
 * DIR/models--ORGANISATION--NAME/snapshots/HASH.
 * A model's folder has a tokenizer.json, or a .tiktoken file of a known name;
 * beside it tokenizer_config.json and chat_template.jinja.
 *
 * Role: shell (it reads files). Owns: nothing. Thread: any; it may take seconds.
 * Limits: LOCAL_MODELS_MAX, TOKENIZER_FILE_MAX, TEMPLATE_SOURCE_MAX. Errors: a
 * model that cannot be used is in the table and says why.
 */
#ifndef NODE_LOCAL_LOAD_H
#define NODE_LOCAL_LOAD_H

#include "index/base/check.h"
#include "node/config/config.h"
#include "node/local/local_table.h"

/*
 * 0 and *out, a table for the caller; models that are as in `before` (may be
 * NULL) are that table's own. Or -errno: tokens.dir cannot be read (and no
 * model is named beside it: see dir_error), or no memory, and *out is NULL.
 */
int local_load(const struct config_tokens *config,
               const struct local_table *before, struct local_table **out)
    MUST_CHECK;

/* Frees a table and those of its models that `but` (may be NULL) has not.
 * Nobody uses them. NULL is fine. */
void local_table_free(struct local_table *table, const struct local_table *but);

#endif
