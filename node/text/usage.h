/*
 * Finds the token counts that an engine reports in its answer, in JSON or SSE,
 * in pieces of any size: those of the last "usage" objects,
 *
 *   OpenAI     prompt_tokens, prompt_tokens_details.cached_tokens and
 *              created_cache_tokens (vLLM), completion_tokens
 *   Responses  input_tokens, input_tokens_details.cached_tokens and
 *              cache_write_tokens, output_tokens
 *   Anthropic  input_tokens, cache_read_input_tokens and
 *              cache_creation_input_tokens, which are not part of the first,
 *              output_tokens
 *
 * or "prompt_n", "cache_n" and "predicted_n" of the last "timings" of llama.cpp,
 * where no usage tells what was cached.
 *
 * It searches and does not parse: the answer is passed on byte for byte.
 * Generated text cannot fake the counts, because in JSON text its quotes would
 * be escaped.
 *
 * Role: core. Owns: nothing; the room is the caller's, who has to keep it between
 * two pieces only while an object has begun in the one before. Thread: any.
 * Limits: USAGE_OBJECT_MAX. Errors: a count that is not found is 0.
 */
#ifndef NODE_USAGE_H
#define NODE_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/slice.h"

#define USAGE_OBJECT_MAX 1024U /* bytes looked at of an object with counts */

struct usage {
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t created_tokens;    /* of the prompt: written to the cache */
    uint32_t completion_tokens; /* of the answer: the most that was told */
    bool cached_known;          /* the engine said how many, be it 0 */
};

/* Follows one answer. */
struct usage_watch {
    struct usage found;
    struct usage timings; /* cached_known: there were some */
    uint8_t state;        /* enum watch_state of usage.c */
    uint8_t name;         /* enum watch_name: the one that was seen, in part */
    uint8_t matched;      /* bytes of it, at the end of the last piece */
    uint32_t object_len;  /* of the object, in the room; 0: nothing is kept */
    char *room; /* USAGE_OBJECT_MAX bytes: the caller sets it before he gives */
};

/* Where "usage" with its quotes first stands in these bytes; NULL: nowhere. */
const char *usage_find(struct slice bytes);

/* Before the first byte of an answer. */
void usage_watch_init(struct usage_watch *watch);

/* The next bytes of the answer. */
void usage_watch_give(struct usage_watch *watch, struct slice bytes);

/* The object that has begun, if one has, will not count. */
void usage_watch_forget(struct usage_watch *watch);

/* What the answer said. */
void usage_watch_end(const struct usage_watch *watch, struct usage *usage);

#endif
