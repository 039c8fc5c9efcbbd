/*
 * What writes the events of a stream: dialect_stream.c says what happens, in
 * this order: start, then open, delta... and close of each block, then finish;
 * fail instead of anything.
 *
 * Role: core, private to the room. Owns: nothing. Thread: one owner.
 */
#ifndef NODE_DIALECT_STREAM_INTERNAL_H
#define NODE_DIALECT_STREAM_INTERNAL_H

#include "node/dialect/dialect_chat_internal.h"

struct dialect_writer {
    const char *usual; /* why an answer ended whose engine did not say */
    void (*start)(struct dialect_stream *s, const struct dialect_chat *chat);
    /* s->block begins; call: a tool's, else NULL. */
    void (*open)(struct dialect_stream *s, const struct dialect_call *call);
    void (*delta)(struct dialect_stream *s, struct slice raw);
    void (*close)(struct dialect_stream *s);
    /* Why it ended, as `reason` keeps it: a static text. */
    const char *(*reason)(const struct dialect_stream *s,
                          const struct dialect_chat *chat);
    void (*finish)(struct dialect_stream *s);
    /* body: an error of an engine's. */
    void (*fail)(struct dialect_stream *s, unsigned status, struct slice body);
};

extern const struct dialect_writer dialect_messages_writer;
extern const struct dialect_writer dialect_responses_writer;

#endif
