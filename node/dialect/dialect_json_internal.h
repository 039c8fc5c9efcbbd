/*
 * JSON as it is taken apart here: values by their raw bytes, so that what is
 * not looked into passes as it is.
 *
 * Role: core, private to the room. Owns: nothing. Thread: any.
 */
#ifndef NODE_DIALECT_JSON_INTERNAL_H
#define NODE_DIALECT_JSON_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/text/json_pull.h"

#define DIALECT_MEMBERS_MAX 32U

struct dialect_value {
    enum pull_token kind; /* PULL_OBJECT, PULL_ARRAY, PULL_STRING, PULL_NUMBER,
                             PULL_TRUE, PULL_FALSE; PULL_END: it is not there, or
                             null */
    struct slice raw;     /* all of it */
    struct slice text;    /* of a string: between the quotes */
};

/* The members of an object by these names, as many as there are; of one that
 * comes twice the last. False: it is no object, or no JSON. */
bool dialect_members(struct slice object, const char *const *names,
                     size_t count, struct dialect_value *values) MUST_CHECK;

/* An array's items, one by one. */
struct dialect_items {
    struct json_pull pull;
    bool open;
};

/* value: an array; of anything else there are no items. */
void dialect_items_init(struct dialect_items *items,
                        const struct dialect_value *value);
bool dialect_items_next(struct dialect_items *items, struct dialect_value *item)
    MUST_CHECK;

/* Whether it is this string. */
bool dialect_is(const struct dialect_value *value, const char *text);

/* Whether it is there and neither empty nor false. */
bool dialect_some(const struct dialect_value *value);

/* A number of at most that many; 0: it is none. */
uint64_t dialect_uint(const struct dialect_value *value);

/* Adds bytes of JSON as the inside of a JSON string. */
void dialect_put_quoted(struct buf *out, struct slice json);

/* Adds ,"key":RAW if the value is there. */
void dialect_put(struct buf *out, const char *key,
                 const struct dialect_value *value);

#endif
