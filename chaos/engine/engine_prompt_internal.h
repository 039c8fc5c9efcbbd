/*
 * Turns request bodies into token ids: the scanner's spans through a fixed
 * chat template into the stand-in tokenizer.
 *
 * The input text of Responses is one message of the user's.
 *
 * The template, in the order real ones have: the tools, then the system
 * prompt, then each message as a role marker, its parts and an end marker, and
 * at last the assistant's marker, after which the model would speak. Markers
 * are special ids that no text can yield. So a conversation one turn longer
 * starts with all of the tokens of the turn before, its answer included.
 *
 * Role: core. Owns: its scratch memory. Thread: one owner.
 * Limits: ENGINE_SPANS_MAX, and max_tokens of engine_prompt_init().
 * Errors: text for the client in struct engine_prompt.
 */
#ifndef CHAOS_ENGINE_PROMPT_INTERNAL_H
#define CHAOS_ENGINE_PROMPT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chaos/engine/engine_files_internal.h"
#include "chaos/engine/engine_tokens_internal.h"
#include "index/base/buf.h"
#include "index/base/check.h"
#include "node/node.h"

#define ENGINE_SPANS_MAX 16384
#define ENGINE_DEPTH_MAX 128

/* Reused from request to request. */
struct engine_prompt {
    struct scan scan; /* of the body read last */
    struct slice body;
    struct engine_ids ids;
    size_t spoken_at;           /* ids before what the assistant says last */
    bool continues;             /* ... with which the answer goes on */
    struct engine_files *files; /* a real model's, borrowed; NULL: none */
    struct buf text;            /* unescaped strings */
    struct scan_span spans[ENGINE_SPANS_MAX];
    char fault[LOCAL_WHY_MAX]; /* with ENGINE_PROMPT_E_BAD */
};

enum {
    ENGINE_PROMPT_E_BAD = 1, /* refuse with 400 and prompt->fault */
    ENGINE_PROMPT_E_MEMORY,  /* out of memory, or over max_tokens */
};

/* max_tokens: of a rendered prompt. Allocates nothing yet. */
void engine_prompt_init(struct engine_prompt *prompt, size_t max_tokens);

/* Frees its buffers. */
void engine_prompt_fini(struct engine_prompt *prompt);

/* Scans a body written for that API, which must stay until it is rendered. 0,
 * or ENGINE_PROMPT_E_BAD. */
int engine_prompt_scan(struct engine_prompt *prompt, struct slice body,
                       enum scan_api api) MUST_CHECK;

/*
 * Writes the ids of the prompt in the scanned body to prompt->ids. speak:
 * messages end in the assistant's marker. 0, ENGINE_PROMPT_E_BAD (no prompt,
 * or not one that this engine reads), or ENGINE_PROMPT_E_MEMORY.
 */
int engine_prompt_render(struct engine_prompt *prompt, bool speak) MUST_CHECK;

/* The unescaped text of a scanned string; valid until the next call. Empty
 * when it is absent (or memory is out). */
struct slice engine_prompt_text(struct engine_prompt *prompt,
                                struct scan_text text);

#endif
