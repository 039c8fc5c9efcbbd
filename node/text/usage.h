/*
 * Finds the token counts that an engine reports at the end of its answer:
 * "prompt_tokens" and "cached_tokens" of the usage object, in JSON or SSE, or
 * "prompt_n" and "cache_n" of llama.cpp's timings.
 *
 * It searches and does not parse: the answer is passed on byte for byte and
 * only its last bytes are kept. Generated text cannot fake the counts, because
 * in JSON text its quotes would be escaped.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: a count that is not found is
 * 0.
 */
#ifndef NODE_USAGE_H
#define NODE_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/slice.h"

struct usage {
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    bool cached_known; /* the engine said how many, be it 0 */
};

/* tail: the last bytes of an answer, as many as were kept. */
void usage_find(struct slice tail, struct usage *usage);

#endif
