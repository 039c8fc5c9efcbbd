/* Special tokens around a text, and truncation. */
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

#define AROUND_MAX 64 /* special tokens on one side */
#define PARTS_MAX  32 /* of a template; some have no ids */

/* Puts ids on the outside, before or after all that is there. */
static bool
put_outside(struct tok_load *load, uint32_t **ids, size_t *count, bool front,
            const uint32_t *more, size_t more_count)
{
    if (*ids == NULL) {
        *ids = tok_alloc_many(load, AROUND_MAX, sizeof(*ids)[0]);
    }
    if (*ids == NULL || *count + more_count > AROUND_MAX) {
        return tok_fail(load, "post_processor: too many special tokens");
    }
    if (front) {
        memmove(*ids + more_count, *ids, *count * sizeof(*ids)[0]);
    }
    memcpy(*ids + (front ? 0 : *count), more, more_count * sizeof more[0]);
    *count += more_count;
    return true;
}

static bool
put_around(struct tok_load *load, const uint32_t *before, size_t before_count,
           const uint32_t *after, size_t after_count)
{
    struct post *post = &load->t->post;

    return put_outside(load, &post->before, &post->before_count, true, before,
                       before_count) &&
           put_outside(load, &post->after, &post->after_count, false, after,
                       after_count);
}

/* ["[SEP]", 102] */
static bool
pair_id(struct tok_load *load, struct slice object, const char *name,
        uint32_t *id)
{
    struct json_walk walk;
    struct slice value;
    uint64_t number = 0;

    if (!json_member(object, name, &value) || !json_walk_open(&walk, value) ||
        walk.object || !json_walk_next(&walk, NULL, NULL, &value) ||
        !json_walk_next(&walk, NULL, NULL, &value) ||
        !tok_uint(value, UINT32_MAX - 1, &number)) {
        return tok_fail(load, "post_processor: no %s", name);
    }
    *id = (uint32_t)number;
    return true;
}

/* The ids of a special token of a template, up to AROUND_MAX. */
static bool
template_ids(struct tok_load *load, struct slice specials, struct slice name,
             uint32_t *ids, size_t *count)
{
    struct json_walk walk;
    struct slice key = {.ptr = NULL};
    struct slice value;
    uint64_t id = 0;
    char shown[TOK_SHOWN + 4];
    struct slice found = {.ptr = NULL};

    if (json_walk_open(&walk, specials) && walk.object) {
        while (json_walk_next(&walk, &key, NULL, &value)) {
            if (name.len == key.len + 2 &&
                memcmp(name.ptr + 1, key.ptr, key.len) == 0) {
                found = value;
            }
        }
    }
    if (found.ptr == NULL || !json_member(found, "ids", &value) ||
        !json_walk_open(&walk, value) || walk.object) {
        return tok_fail(load, "post_processor: no ids of %s",
                        tok_show(name, shown));
    }
    while (json_walk_next(&walk, NULL, NULL, &value)) {
        if (*count == AROUND_MAX || !tok_uint(value, UINT32_MAX - 1, &id)) {
            return tok_fail(load, "post_processor: too many special tokens");
        }
        ids[(*count)++] = (uint32_t)id;
    }
    return true;
}

static bool
template_load(struct tok_load *load, struct slice object)
{
    struct slice single;
    struct slice specials = {.ptr = NULL};
    struct slice value;
    struct slice inner;
    struct json_walk walk;
    uint32_t ids[2][AROUND_MAX];
    size_t counts[2] = {0, 0};
    unsigned side = 0;
    unsigned parts = 0;

    if (!json_member(object, "single", &single) ||
        !json_member(object, "special_tokens", &specials) ||
        !json_walk_open(&walk, single) || walk.object) {
        return tok_fail(load, "post_processor: a template without single");
    }
    while (json_walk_next(&walk, NULL, NULL, &value)) {
        struct slice name = {.ptr = NULL};
        if (parts++ == PARTS_MAX) {
            return tok_fail(load, "post_processor: too many parts");
        }
        if (json_member(value, "Sequence", &inner)) {
            if (!json_member(inner, "id", &name) || side == 1 ||
                !slice_equal(name, SLICE("\"A\""))) {
                return tok_fail(load, "post_processor: a template of more "
                                      "than one text");
            }
            side = 1;
        } else if (!json_member(value, "SpecialToken", &inner) ||
                   !json_member(inner, "id", &name) ||
                   !template_ids(load, specials, name, ids[side],
                                 &counts[side])) {
            return tok_fail(load, "post_processor: a template's part");
        }
    }
    if (side == 0) {
        return tok_fail(load, "post_processor: a template without the text");
    }
    return put_around(load, ids[0], counts[0], ids[1], counts[1]);
}

static bool
processor_load(struct tok_load *load, struct slice object, unsigned depth)
{
    struct slice type = {.ptr = NULL};
    struct slice list;
    struct slice value;
    struct json_walk walk;
    uint32_t ids[2];
    char shown[TOK_SHOWN + 4];

    (void)json_member(object, "type", &type);
    if (slice_equal(type, SLICE("\"ByteLevel\""))) {
        return true; /* offsets only */
    }
    if (slice_equal(type, SLICE("\"TemplateProcessing\""))) {
        return template_load(load, object);
    }
    if (slice_equal(type, SLICE("\"BertProcessing\"")) ||
        slice_equal(type, SLICE("\"RobertaProcessing\""))) {
        return pair_id(load, object, "cls", &ids[0]) &&
               pair_id(load, object, "sep", &ids[1]) &&
               put_around(load, &ids[0], 1, &ids[1], 1);
    }
    if (slice_equal(type, SLICE("\"Sequence\"")) && depth < 4 &&
        json_member(object, "processors", &list) &&
        json_walk_open(&walk, list) && !walk.object) {
        while (json_walk_next(&walk, NULL, NULL, &value)) {
            if (!processor_load(load, value, depth + 1)) {
                return false;
            }
        }
        return true;
    }
    return tok_fail(load, "post_processor: %s is not understood",
                    tok_show(type, shown));
}

static bool
truncation_load(struct tok_load *load, struct slice object)
{
    struct post *post = &load->t->post;
    struct slice value;

    post->truncate =
        tok_member_uint(load, object, "max_length", UINT32_MAX - 1);
    if (json_member(object, "direction", &value)) {
        post->truncate_left = slice_equal(value, SLICE("\"Left\""));
        if (!post->truncate_left && !slice_equal(value, SLICE("\"Right\""))) {
            return tok_fail(load, "truncation: direction is not understood");
        }
    }
    if (json_member(object, "strategy", &value) &&
        !slice_equal(value, SLICE("\"LongestFirst\"")) &&
        !slice_equal(value, SLICE("\"OnlyFirst\""))) {
        return tok_fail(load, "truncation: strategy is not understood");
    }
    if (post->truncate <= post->before_count + post->after_count) {
        return tok_fail(load, "truncation: no room beside special tokens");
    }
    return !load->failed;
}

bool
post_load(struct tok_load *load, struct slice post_processor,
          struct slice truncation)
{
    load->t->post.truncate = SIZE_MAX;
    return (json_is_null(post_processor) ||
            processor_load(load, post_processor, 0)) &&
           (json_is_null(truncation) || truncation_load(load, truncation));
}
