/*
 * A real model's tokens: of the files that --tokens names, by the rules that
 * the make of engine has around them.
 *
 * Answers stay made-up words with ids of the stand-in's own.
 *
 * Role: shell when it begins (it reads files), then core. Owns: the files'
 * models. Thread: one owner. Errors: one line of text.
 */
#ifndef CHAOS_ENGINE_FILES_INTERNAL_H
#define CHAOS_ENGINE_FILES_INTERNAL_H

#include "chaos/engine/engine_tokens_internal.h"
#include "index/base/check.h"
#include "node/node.h"

struct engine_files {
    struct local_table *table; /* NULL: the stand-in's own tokens */
    struct local_model *model;
    struct local_answer answer;
};

/* Reads the folder. name: of the model, which the folder has a model for, or it
 * has one only. False: why says what is missing. */
bool engine_files_open(struct engine_files *files, const char *folder,
                       const char *name, char *why, size_t why_size) MUST_CHECK;

/* Frees all of it; also what was never opened, if it is zero. */
void engine_files_close(struct engine_files *files);

enum {
    ENGINE_FILES_E_OWN = 1, /* no prompt of the model's: ids, images */
    ENGINE_FILES_E_BAD,     /* refused: files->answer.why */
};

/* Appends the ids of a scanned body's prompt. 0 or an outcome. */
int engine_files_render(struct engine_files *files, struct slice body,
                        const struct scan *scan, struct engine_ids *ids)
    MUST_CHECK;

#endif
