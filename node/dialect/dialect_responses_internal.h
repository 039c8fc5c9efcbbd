/*
 * The objects of /v1/responses: the response, its items, their parts.
 *
 * Role: core, private to the room. Owns: nothing. Thread: any.
 */
#ifndef NODE_DIALECT_RESPONSES_INTERNAL_H
#define NODE_DIALECT_RESPONSES_INTERNAL_H

#include "node/dialect/dialect_chat_internal.h"

/* A tool of this type is a list of functions. A chat's have its name before theirs,
 * with that between them, as in vLLM. */
#define DIALECT_SPACE     "namespace"
#define DIALECT_SPACE_END "__"

/* Slices are raw, as between the quotes of JSON. */
struct dialect_item {
    enum dialect_block kind;
    uint32_t index;  /* in the output */
    bool open;       /* the rest of it follows: it has no text yet */
    struct slice id; /* of the chat */
    struct slice call_id;
    struct slice name;
    struct slice text;   /* or a call's arguments */
    struct slice spaces; /* of the request: dialect_spaces_read() */
};

struct dialect_response {
    struct slice items; /* with commas between them */
    const char *reason; /* why it is incomplete; "": it is complete; NULL: it
                           has just begun */
    const struct dialect_usage *usage; /* NULL: not known */
};

/* Adds the names of a request's namespaces, with a quote behind each: one that
 * has no room is not begun. */
void dialect_spaces_read(struct slice asked, struct buf *out);

/* Adds "id":"resp_...","object":... up to the model. */
void dialect_response_name(struct buf *out, const struct dialect_chat *chat);

/* Adds {"id":...}, with a name as above. */
void dialect_response_put(struct buf *out, struct slice name,
                          const struct dialect_response *r);

/* Why an answer that ended so is incomplete; "": it is not. */
const char *dialect_response_reason(const struct dialect_value *finish);

/* Adds the id of an item, without quotes. */
void dialect_item_put_id(struct buf *out, enum dialect_block kind,
                         uint32_t index, struct slice id);

/* Adds a part with that text. */
void dialect_item_put_part(struct buf *out, enum dialect_block kind,
                           struct slice text);

/* Adds an item. */
void dialect_item_put(struct buf *out, const struct dialect_item *item);

/* As dialect_answer(). */
bool dialect_response_answer(struct slice asked, struct slice json,
                             struct buf *out) MUST_CHECK;

#endif
