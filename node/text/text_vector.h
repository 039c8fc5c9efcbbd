/*
 * A text's embedding, as an engine's /v1/embeddings tells it: a direction, kept in
 * a byte for each of its dimensions. That is a quarter of what an engine computes,
 * and changes a cosine by a thousandth or two.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: TEXT_VECTOR_DIMS_MAX. Errors: named
 * outcomes.
 */
#ifndef NODE_TEXT_VECTOR_H
#define NODE_TEXT_VECTOR_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define TEXT_VECTOR_DIMS_MAX 4096U

struct text_vector {
    uint32_t dims;
    float inverse; /* 1 over its length */
    int8_t at[];
};

enum {
    TEXT_VECTOR_E_NONE = 1, /* the body tells none: it is no such JSON, is in
                             base64, has too many dimensions, or is all zeroes */
};

/* Reads the first of data[].embedding. 0 and *out, the caller's to free();
 * TEXT_VECTOR_E_NONE, -ENOMEM. */
int text_vector_read(struct slice body, struct text_vector **out) MUST_CHECK;

/* The direction in the middle of count ones that have as many dimensions, each
 * counted alike. 0 and *out, the caller's to free(); TEXT_VECTOR_E_NONE (their
 * dimensions differ, or they cancel each other out), -ENOMEM. */
int text_vector_mean(struct text_vector *const *vectors, uint32_t count,
                     struct text_vector **out) MUST_CHECK;

/* Of its memory. */
size_t text_vector_bytes(const struct text_vector *vector);

/* The cosine between two, in thousandths, rounded; 0 where it is below, or they
 * have not as many dimensions. */
uint32_t text_vector_cosine(const struct text_vector *a,
                            const struct text_vector *b);

#endif
