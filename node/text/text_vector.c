/* Embeddings: read, and compared. */
#include "node/text/text_vector.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "node/text/json_pull.h"

#define NUMBER_MAX 40U /* bytes of one, with a NUL */
#define LARGEST    127.0F

struct reading {
    struct json_pull pull;
    uint32_t dims;
    float largest; /* without its sign */
    float value[TEXT_VECTOR_DIMS_MAX];
};

/* Stands before the numbers of the first one: true. */
static bool
find_numbers(struct reading *r)
{
    enum pull_token token;

    while ((token = json_pull_next(&r->pull)) > PULL_END) {
        if (token == PULL_KEY && r->pull.depth == 3 &&
            json_pull_is(&r->pull, SLICE("embedding"))) {
            return json_pull_next(&r->pull) == PULL_ARRAY;
        }
    }
    return false;
}

static bool
take_number(struct reading *r)
{
    char text[NUMBER_MAX];
    size_t len = r->pull.text.len;

    if (len >= sizeof text || r->dims == TEXT_VECTOR_DIMS_MAX) {
        return false;
    }
    memcpy(text, r->pull.text.ptr, len);
    text[len] = '\0';
    float value = strtof(text, NULL);
    float size = fabsf(value);
    r->largest = size > r->largest ? size : r->largest;
    r->value[r->dims++] = value;
    return isfinite(value) != 0;
}

static bool
read_numbers(struct reading *r)
{
    enum pull_token token;

    while ((token = json_pull_next(&r->pull)) == PULL_NUMBER) {
        if (!take_number(r)) {
            return false;
        }
    }
    bool good = token == PULL_ARRAY_END && r->largest > 0;
    while (token > PULL_END) {
        token = json_pull_next(&r->pull);
    }
    return good && token == PULL_END;
}

static void
make_bytes(const struct reading *r, struct text_vector *vector)
{
    int64_t squares = 0;

    for (uint32_t i = 0; i < r->dims; i++) {
        long scaled = lrintf(r->value[i] / r->largest * LARGEST);
        vector->at[i] = (int8_t)scaled;
        squares += scaled * scaled;
    }
    vector->dims = r->dims;
    vector->inverse = 1.0F / sqrtf((float)squares);
}

/* What was read, as bytes. */
static int
make(const struct reading *r, struct text_vector **out)
{
    *out = malloc(sizeof(**out) + r->dims);
    if (*out == NULL) {
        return -ENOMEM;
    }
    make_bytes(r, *out);
    return 0;
}

int
text_vector_read(struct slice body, struct text_vector **out)
{
    struct reading r;

    r.dims = 0;
    r.largest = 0;
    json_pull_init(&r.pull, body);
    if (!find_numbers(&r) || !read_numbers(&r)) {
        return TEXT_VECTOR_E_NONE;
    }
    return make(&r, out);
}

int
text_vector_mean(struct text_vector *const *vectors, uint32_t count,
                 struct text_vector **out)
{
    struct reading r;

    CHECK(count > 0);
    r.dims = vectors[0]->dims;
    r.largest = 0;
    for (uint32_t d = 0; d < r.dims; d++) {
        r.value[d] = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (vectors[i]->dims != r.dims) {
            return TEXT_VECTOR_E_NONE;
        }
        for (uint32_t d = 0; d < r.dims; d++) {
            r.value[d] += (float)vectors[i]->at[d] * vectors[i]->inverse;
        }
    }
    for (uint32_t d = 0; d < r.dims; d++) {
        r.largest = fmaxf(r.largest, fabsf(r.value[d]));
    }
    return r.largest > 0 ? make(&r, out) : TEXT_VECTOR_E_NONE;
}

size_t
text_vector_bytes(const struct text_vector *vector)
{
    return sizeof(*vector) + vector->dims;
}

uint32_t
text_vector_cosine(const struct text_vector *a, const struct text_vector *b)
{
    int32_t sum = 0; /* 4096 times 127 times 127 is little */

    if (a->dims != b->dims) {
        return 0;
    }
    for (uint32_t i = 0; i < a->dims; i++) {
        sum += a->at[i] * b->at[i];
    }
    float cosine = (float)sum * a->inverse * b->inverse;
    return cosine > 0 ? (uint32_t)lrintf(cosine * 1000) : 0;
}
