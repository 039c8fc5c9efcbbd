/*
 * What an engine makes of a request's messages and tools before its chat
 * template sees them, as a table of rules.
 *
 * Engines do not pass messages on as they came. They validate them against
 * OpenAI's types (unknown members go, members get the types' order, missing ones
 * become null), turn content into what the template goes through (a text, or a
 * list of parts), and read tool calls' arguments, which clients send as a text
 * with JSON. What a rule does not know (images, unknown parts) is refused, and
 * the engine is asked.
 *
 * Role: core, private to node/local. Thread: any. Limits: the arena. Errors:
 * the builder's `why`.
 * Source: the table in local_chat.c names it per engine.
 */
#ifndef NODE_LOCAL_CHAT_INTERNAL_H
#define NODE_LOCAL_CHAT_INTERNAL_H

#include "node/local/local_internal.h"
#include "node/local/local_json_internal.h"
#include "node/view/fleet_view.h"

/* What is done with one request. */
struct local_chat {
    struct local_build *b;
    bool parts;     /* the template goes through content part by part */
    bool developer; /* it knows that role */
    bool converted; /* a developer's message became the system's */
    bool tools;     /* some were seen */
};

struct local_rules {
    enum engine_kind kind;
    enum template_rule finds; /* how it finds out what a template wants */
    const char *versions;     /* these rules were read from */
    const char *source;       /* file and function in the engine's own source */
    /* The template's request, made of a client's, whose messages are a list. */
    struct json_value (*make)(struct local_chat *c,
                              const struct json_value *request);
};

/* The engine's rules; those of vLLM for engines without rules of their own,
 * which go by the same types. */
const struct local_rules *local_rules_of(enum engine_kind kind);

/*
 * Rewrites a chat request: *out is what the template's request is. wish: what
 * its template wants. *tools tells whether there are tools or tool calls in it.
 */
void local_chat_rewrite(struct local_build *b, const struct local_rules *rules,
                        const struct local_wish *wish,
                        const struct json_value *request,
                        struct json_value *out, bool *tools);

/* The template's arguments of a request that says how much effort to make: those
 * given, and beside them, by the names that templates have for it, whether to
 * think, unless they say it themselves. */
struct json_value local_make_arguments(struct local_build *b,
                                       enum engine_kind kind,
                                       const struct json_value *given,
                                       const struct json_value *effort);

/* SGLang's rules. */
struct json_value local_sglang_make(struct local_chat *c,
                                    const struct json_value *request);

/* A member that is there and not null, put under the same name. */
void local_put_given(struct local_build *b, struct local_object *to,
                     const struct json_value *from, const char *key);

/* A tool call's arguments, which come as a text with JSON, read. */
struct json_value local_read_arguments(struct local_build *b,
                                       const struct json_value *given);

/* A request of /v1/responses as the chat request that the engine makes of it.
 * out may be the request; it is unchanged when the builder fails. */
void local_from_responses(struct local_build *b, enum engine_kind kind,
                          const struct json_value *request,
                          struct json_value *out);

/* The same of /v1/messages. */
void local_from_messages(struct local_build *b, enum engine_kind kind,
                         const struct json_value *request,
                         struct json_value *out);

#endif
