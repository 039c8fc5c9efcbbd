/*
 * A text's embedding, as an engine's /v1/embeddings tells it: a direction, kept in
 * a byte for each of its dimensions. That is a quarter of what an engine computes,
 * and changes a cosine by a thousandth or two.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: ANSWERS_DIMS_MAX. Errors: named
 * outcomes.
 */
#ifndef NODE_ANSWERS_VECTOR_H
#define NODE_ANSWERS_VECTOR_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define ANSWERS_DIMS_MAX 4096U

struct answers_vector {
    uint32_t dims;
    float inverse; /* 1 over its length */
    int8_t at[];
};

enum {
    ANSWERS_E_VECTOR = 1, /* the body tells none: it is no such JSON, is in
                             base64, has too many dimensions, or is all zeroes */
};

/* Reads the first of data[].embedding. 0 and *out, the caller's to free();
 * ANSWERS_E_VECTOR, -ENOMEM. */
int answers_vector_read(struct slice body, struct answers_vector **out)
    MUST_CHECK;

/* Of its memory. */
size_t answers_vector_bytes(const struct answers_vector *vector);

/* The cosine between two, in thousandths, rounded; 0 where it is below, or they
 * have not as many dimensions. */
uint32_t answers_vector_cosine(const struct answers_vector *a,
                               const struct answers_vector *b);

#endif
