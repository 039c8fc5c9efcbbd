/*
 * Building JSON trees in an arena: what local_chat.c and its like make of a
 * request before its template sees it.
 *
 * A builder is sticky: after the first failure nothing more is added and `why`
 * says what it was. Objects and lists are filled to their room, which the caller
 * says.
 *
 * Role: core, private to node/local. Owns: nothing; memory is the arena's.
 */
#ifndef NODE_LOCAL_JSON_INTERNAL_H
#define NODE_LOCAL_JSON_INTERNAL_H

#include "node/text/json_tree.h"

struct local_build {
    struct arena *arena;
    const char *why; /* static text; NULL: all is well */
};

struct local_object {
    struct json_member *members;
    uint32_t count;
    uint32_t room;
};

struct local_list {
    struct json_value *items;
    uint32_t count;
    uint32_t room;
};

/* It failed, for this reason unless there was one before. */
static inline bool
local_fail(struct local_build *b, const char *why)
{
    b->why = b->why != NULL ? b->why : why;
    return false;
}

/* An empty one with that room. */
struct local_object local_object_new(struct local_build *b, uint32_t room);
struct local_list local_list_new(struct local_build *b, uint32_t room);

/* Adds a member or an item; there is room, or the builder has failed. */
void local_put(struct local_build *b, struct local_object *object,
               const char *key, struct json_value value);
void local_put_member(struct local_build *b, struct local_object *object,
                      const struct json_member *member);
void local_push(struct local_build *b, struct local_list *list,
                struct json_value value);

/* As values. */
struct json_value local_object_end(const struct local_object *object);
struct json_value local_list_end(const struct local_list *list);

/* A string of the pieces, which are joined by `between`. */
struct json_value local_join(struct local_build *b, const struct slice *pieces,
                             uint32_t count, const char *between);

/* {"type": type, NAME: text} */
struct json_value local_text_part(struct local_build *b, struct slice text);

/* A member that is there and not null, or NULL; also of what is no object. */
const struct json_value *local_given(const struct json_value *object,
                                     const char *key);

/* Whether a value, which may be NULL, is this text. */
bool local_is(const struct json_value *value, const char *text);

/* A member's text, or the empty slice; *is tells whether it is a text. */
struct slice local_text(const struct json_value *object, const char *key,
                        bool *is);

/* As Python sees it: not null, false, 0, or empty. */
bool local_truth(const struct json_value *value);

#endif
