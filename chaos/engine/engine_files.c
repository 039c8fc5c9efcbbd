/* Prompts by a real model's tokenizer and chat template. */
#include "chaos/engine/engine_files_internal.h"

#include <stdio.h>

bool
engine_files_open(struct engine_files *files, const char *folder,
                  const char *name, char *why, size_t why_size)
{
    struct config_tokens tokens = {.dir = ""};
    struct slice named = slice_of(name);

    *files = (struct engine_files){.answer.ids.max = LOCAL_IDS_MAX};
    if (snprintf(tokens.dir, sizeof tokens.dir, "%s", folder) >=
            (int)sizeof tokens.dir ||
        local_load(&tokens, NULL, &files->table) != 0) {
        (void)snprintf(why, why_size, "--tokens: cannot read %s", folder);
        return false;
    }
    files->model = local_table_find(files->table, &named, 1);
    if (files->model == NULL && files->table->count == 1) {
        files->model = files->table->model[0];
    }
    if (files->model == NULL) {
        (void)snprintf(why, why_size, "--tokens: %s has no model %s", folder,
                       name);
    } else if (local_model_why(files->model)[0] != '\0') {
        (void)snprintf(why, why_size, "--tokens: %s: %s",
                       local_model_place(files->model),
                       local_model_why(files->model));
        files->model = NULL;
    }
    if (files->model == NULL) {
        engine_files_close(files);
        return false;
    }
    return true;
}

void
engine_files_close(struct engine_files *files)
{
    tokenizer_ids_fini(&files->answer.ids);
    local_table_free(files->table, NULL);
    files->table = NULL;
    files->model = NULL;
}

int
engine_files_render(struct engine_files *files, struct slice body,
                    const struct scan *scan, struct engine_ids *ids)
{
    struct local_question question = {
        .model = files->model, .kind = ENGINE_VLLM, .body = body};
    struct local_patience patience = LOCAL_PATIENT;

    if (files->model == NULL || !local_question_read(&question, scan)) {
        return ENGINE_FILES_E_OWN;
    }
    if (local_tokens(&question, &patience, NULL, &files->answer) != 0) {
        return ENGINE_FILES_E_BAD;
    }
    for (size_t i = 0; i < files->answer.ids.count; i++) {
        engine_ids_add(ids, files->answer.ids.ptr[i]);
    }
    return 0;
}
