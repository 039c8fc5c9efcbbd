/*
 * The file of content rules: which model serves requests for a name that stands
 * for none (content.h).
 *
 *   auto:                          # what clients ask for
 *     model: qwen3-8b              # where no rule fits; may be an alias
 *     look: first                  # at the user's first message (absent), or
 *                                  # at the last
 *     rules:                       # the first that fits counts
 *       - name: proofs             # for metrics, the log and explain
 *         words: [prove, theorem]  # in any case of letters
 *         regex: ['\blemma \d+']   # the same (PCRE2)
 *         model: deepseek-r1       # absent: the name's own
 *         set:                     # members that the body gets unless it has
 *           reasoning_effort: high # them: JSON, or text
 *       - name: code
 *         has: [code]              # see enum content_thing
 *         model: qwen3-coder
 *       - name: long
 *         longer: 100000           # bytes of all texts of the prompt, at least;
 *         shorter: 4000000         # at most
 *         languages: [de, fr]      # see enum content_language
 *       - name: travel
 *         like: [Which sights are there in Rome?, When does the train leave?]
 *         model: qwen3-travel      # nearest to these, of all rules with like
 *         tenants: [shop]          # of keys.file
 *         model: qwen3-long
 *
 * All conditions of a rule must hold; of a list any item is enough, and words
 * and regex are one condition.
 *
 * Role: core, except for config_content_load(), which reads the file. Owns:
 * nothing. Thread: one owner. Limits: those of node/content/content.h, and
 * CONFIG_FILE_BYTES_MAX. Errors: lines in struct config_errors.
 */
#ifndef NODE_CONFIG_CONTENT_H
#define NODE_CONFIG_CONTENT_H

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"
#include "node/content/content.h"

/* Reads any bytes, with `file` as the source of faults. 0 and *out, the
 * caller's to content_free(); or CONFIG_E_INVALID. */
int config_content_read(struct slice bytes, const char *file,
                        struct content **out, struct config_errors *errors)
    MUST_CHECK;

/* The same with a file. */
int config_content_load(const char *path, struct content **out,
                        struct config_errors *errors) MUST_CHECK;

/* Adds a line for each fault of content.file, if there is one, and for names
 * that are aliases as well. */
void config_content_check(const struct config *config,
                          struct config_errors *errors);

#endif
