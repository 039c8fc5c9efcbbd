/*
 * A JSON document as a tree, as Python's json.loads() would hold it.
 *
 * Objects keep the order of their keys; of a key that comes twice the last value
 * counts, at the first one's place. Integers are exact: those beyond 64 bits
 * stay text. Strings without escapes point into the document, which must
 * outlive the tree.
 *
 * The kinds are open at the end: a reader that computes with these values (chat
 * templates) has kinds of its own behind JSON_KINDS.
 *
 * Role: core. Owns: nothing; memory is the arena's. Thread: any. Limits: the
 * arena, JSON_PULL_DEPTH_MAX, JSON_TREE_DIGITS_MAX. Errors: struct
 * json_tree_fault.
 */
#ifndef NODE_JSON_TREE_H
#define NODE_JSON_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/arena.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define JSON_TREE_DIGITS_MAX 4300 /* of an integer, as in Python */
#define JSON_TREE_REAL_MAX   32   /* bytes of json_tree_real(), with a NUL */
#define JSON_TREE_LEN_MAX    UINT32_MAX

enum json_kind {
    JSON_NULL,
    JSON_BOOL, /* integer: 0 or 1 */
    JSON_INT,  /* integer */
    JSON_BIG,  /* text: the digits of an integer that does not fit, with '-' */
    JSON_REAL, /* real */
    JSON_STRING, /* text: UTF-8, may hold NUL */
    JSON_ARRAY,  /* items */
    JSON_OBJECT, /* members */
    JSON_KINDS,
};

enum {
    JSON_MARK_SORTED = 1, /* an object: json_tree_get() searches by halves */
};

struct json_value {
    uint8_t kind; /* enum json_kind, or the caller's */
    uint8_t mark;
    uint16_t extra; /* the caller's */
    uint32_t len;   /* bytes of text; items; members */
    union {
        int64_t integer;
        double real;
        const char *text;
        const struct json_value *items;
        const struct json_member *members;
        void *thing; /* the caller's */
    } as;
};

struct json_member {
    struct json_value key; /* of parsed text: JSON_STRING */
    struct json_value value;
};

struct json_tree_fault {
    const char *why; /* static text */
    size_t at;       /* offset in the document */
};

/*
 * Reads a whole document into *value. False: it is no JSON, holds a lone
 * surrogate or too many digits, or the arena is full; *fault says which.
 */
bool json_tree_read(struct slice document, struct arena *arena,
                    struct json_value *value, struct json_tree_fault *fault)
    MUST_CHECK;

/* The value of a key, or NULL; object is a JSON_OBJECT with string keys. */
const struct json_value *json_tree_get(const struct json_value *object,
                                       struct slice key);

/* The same of anything; NULL, too, where it is no object or NULL. */
static inline const struct json_value *
json_tree_member(const struct json_value *object, const char *key)
{
    return object != NULL && object->kind == JSON_OBJECT
               ? json_tree_get(object, slice_of(key))
               : NULL;
}

/* A string that borrows the text. text.len <= JSON_TREE_LEN_MAX. */
static inline struct json_value
json_tree_text(struct slice text)
{
    return (struct json_value){
        .kind = JSON_STRING, .len = (uint32_t)text.len, .as.text = text.ptr};
}

/* The bytes of a JSON_STRING or JSON_BIG. */
static inline struct slice
json_tree_slice(const struct json_value *value)
{
    return (struct slice){value->as.text, value->len};
}

/* Writes a number as Python's repr() does: the shortest digits that read back
 * as the same number, "1e+16", "nan", "-inf". Returns its length. */
size_t json_tree_real(double real, char out[JSON_TREE_REAL_MAX]);

#endif
