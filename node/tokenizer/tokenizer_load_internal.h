/*
 * What loading a file needs: memory that lives as long as the tokenizer, the
 * text of the first fault, and members of a JSON value that is known to be
 * well-formed.
 *
 * Role: core. Owns: tok_memory its blocks. Thread: one, while loading.
 */
#ifndef NODE_TOKENIZER_LOAD_INTERNAL_H
#define NODE_TOKENIZER_LOAD_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/text/json_pull.h"

#define TOK_NONE UINT32_MAX

struct tokenizer;

/* Blocks, newest first. */
struct tok_memory {
    struct tok_block *blocks;
    size_t bytes; /* of all blocks */
};

struct tok_load {
    struct tokenizer *t;
    char *why; /* TOKENIZER_WHY_MAX bytes */
    bool failed;
};

/* Zeroed memory, aligned for anything, freed with the tokenizer. NULL: the load
 * has failed. */
void *tok_alloc(struct tok_load *load, size_t bytes);

/* The same for `count` things of `size` bytes. */
void *tok_alloc_many(struct tok_load *load, size_t count, size_t size);

void tok_memory_free(struct tok_memory *memory);

/* A copy of the bytes; ptr is NULL when the load has failed. */
struct slice tok_copy(struct tok_load *load, struct slice bytes);

/* Notes why the load fails, unless it has failed already; returns false. */
__attribute__((format(printf, 2, 3))) bool tok_fail(struct tok_load *load,
                                                    const char *format, ...);

/* A value for a message: short, and printable. */
#define TOK_SHOWN 48
const char *tok_show(struct slice value, char out[TOK_SHOWN + 4]);

/* Goes through an object or an array. */
struct json_walk {
    struct json_pull pull;
    bool object;
};

/* Begins with a value; false when it is neither. */
bool json_walk_open(struct json_walk *walk, struct slice value);

/* The next member or element, as it is written; false after the last. */
bool json_walk_next(struct json_walk *walk, struct slice *key, bool *escaped,
                    struct slice *value);

/* The value of a member as it is written; false when there is none, or when
 * the value is no object. The last of several with one name counts. */
bool json_member(struct slice object, const char *name, struct slice *value);

/* The object of a model, gone through once: what is large, as it is written
 * (ptr NULL: it has none), and an object of its other members. */
struct tok_model_parts {
    struct slice vocab;
    struct slice merges;
    struct slice rest;
};

/* False: the load has failed. */
bool tok_model_parts(struct tok_load *load, struct slice model,
                     struct tok_model_parts *parts);

/* Whether a value is absent (false from json_member()) or null. */
bool json_is_null(struct slice value);

/* Unescapes what stands between the quotes of a string into out, which has
 * room for all of raw. Its length, or SIZE_MAX: half of a surrogate pair. */
size_t json_unescape(struct slice raw, char *out);

/* Typed members. They fail the load when the value has another type. Absent
 * and null give the default, and has_*() says whether it was there. */
bool tok_member_bool(struct tok_load *load, struct slice object,
                     const char *name, bool otherwise);
uint64_t tok_member_uint(struct tok_load *load, struct slice object,
                         const char *name, uint64_t otherwise);
bool tok_member_text(struct tok_load *load, struct slice object,
                     const char *name, struct slice *text);

/* The text of a JSON string value: copied into the tokenizer's memory. */
bool tok_text(struct tok_load *load, struct slice value, struct slice *text);

/* An integer value. */
bool tok_uint(struct slice value, uint64_t max, uint64_t *number);

#endif
