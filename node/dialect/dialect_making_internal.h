/*
 * A chat request on its way, made of one of another API.
 *
 * Role: core, private to the room. Owns: nothing. Thread: one owner.
 */
#ifndef NODE_DIALECT_MAKING_INTERNAL_H
#define NODE_DIALECT_MAKING_INTERNAL_H

#include "node/dialect/dialect.h"
#include "node/dialect/dialect_json_internal.h"

struct dialect_making {
    struct buf *out;
    const char *why; /* NULL while all is well */
    bool each;       /* a stream tells the usage with each event */
    bool some;       /* the list being written has an item */
    bool speaks;     /* the assistant's message is open, ... */
    bool thinks;     /* ... its reasoning is written, ... */
    bool says;       /* ... its content, ... */
    bool calls;      /* ... and the list of its tool calls is open */
};

/* It cannot be made; the first reason stays. */
void dialect_refuse(struct dialect_making *m, const char *why);

/* The members of a part of the request. False: it was refused. */
bool dialect_open(struct dialect_making *m, const struct dialect_value *object,
                  const char *const *names, size_t count,
                  struct dialect_value *values) MUST_CHECK;

/* The same of all of it, whose first name is `model`; writes the chat up to its
 * messages. */
bool dialect_begin(struct dialect_making *m, struct slice body,
                   const char *const *names, size_t count,
                   struct dialect_value *values) MUST_CHECK;

/* An item of a list follows: sets the comma. */
void dialect_next(struct dialect_making *m);

/* Adds a part of a message's content, unless it is empty. */
void dialect_put_text(struct dialect_making *m, struct slice text);

/* Adds the salt, or the body's own. */
void dialect_put_salt(struct dialect_making *m, struct slice salt,
                      const struct dialect_value *own);

/* Adds that it is to be a stream, with its usage. */
void dialect_put_stream(struct dialect_making *m,
                        const struct dialect_value *stream);

/* The chat for a body of that API; counts: what decides its tokens alone. */
void dialect_from_messages(struct dialect_making *m, struct slice body,
                           struct slice salt, bool counts);
void dialect_from_responses(struct dialect_making *m, struct slice body,
                            struct slice salt);

#endif
