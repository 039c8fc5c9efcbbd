/*
 * What a chat completion says, whole or as one event of a stream.
 *
 * Role: core, private to the room. Owns: nothing; values point into the
 * caller's bytes. Thread: any.
 */
#ifndef NODE_DIALECT_CHAT_INTERNAL_H
#define NODE_DIALECT_CHAT_INTERNAL_H

#include "node/dialect/dialect.h"
#include "node/dialect/dialect_json_internal.h"

struct dialect_chat {
    struct dialect_value id;
    struct dialect_value model;
    struct dialect_value error;
    struct dialect_value created; /* seconds since 1970 */
    struct dialect_value content; /* of the first choice, as the next ones */
    struct dialect_value thought; /* its reasoning */
    struct dialect_value calls;   /* its tool calls */
    struct dialect_value finish;  /* why it ended */
    struct dialect_value stop;    /* the text that ended it */
    bool choice;                  /* it has one */
    bool told;                    /* it has a usage */
    struct dialect_usage usage;
};

/* False: it is no JSON object, or of another form. */
bool dialect_chat_read(struct slice json, struct dialect_chat *chat) MUST_CHECK;

/* The same of a whole answer. False also: it has no choice, or its engine gave
 * it up. */
bool dialect_chat_read_whole(struct slice json, struct dialect_chat *chat)
    MUST_CHECK;

struct dialect_call {
    struct dialect_value index;
    struct dialect_value id;
    struct dialect_value name;
    struct dialect_value arguments;
};

/* One of the tool calls, likewise. */
bool dialect_call_read(const struct dialect_value *item,
                       struct dialect_call *call) MUST_CHECK;

/* Anthropic's name of why an answer ended, a static text. */
const char *dialect_reason(const struct dialect_value *finish, bool tools,
                           bool stopped);

/* Adds "id":"msg_...","type":"message","role":"assistant","model":... */
void dialect_put_head(struct buf *out, const struct dialect_chat *chat);

/* Adds "stop_reason":...,"stop_sequence":...; raw: the latter, or empty. */
void dialect_put_reason(struct buf *out, const char *reason, struct slice raw);

/* Adds "usage":{...}. */
void dialect_put_usage(struct buf *out, const struct dialect_usage *usage);

#endif
