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
 * Source: local_rules.c names it per engine.
 */
#ifndef NODE_LOCAL_CHAT_INTERNAL_H
#define NODE_LOCAL_CHAT_INTERNAL_H

#include "node/local/local_json_internal.h"
#include "node/view/fleet_view.h"

/* How tools reach the template. */
enum local_tools {
    LOCAL_TOOLS_WHOLE,    /* {"type": "function", "function": {...}} */
    LOCAL_TOOLS_FUNCTION, /* the function alone */
};

struct local_rules {
    enum engine_kind kind;
    const char *versions; /* these rules were read from */
    const char *source;   /* file and function in the engine's own source */
    const char *between;  /* texts of a message's parts, when it wants a text */
    bool strict;      /* a message keeps only what its role is known to have */
    bool empty_calls; /* an empty list of tool calls stays */
    enum local_tools tools;
};

/* The engine's rules; those of vLLM for engines without rules of their own,
 * which go by the same types. */
const struct local_rules *local_rules_of(enum engine_kind kind);

/*
 * Rewrites a chat request: *out is what the template's request is. parts: its
 * template goes through content part by part. *tools tells whether there are
 * tools or tool calls in it.
 */
void local_chat_rewrite(struct local_build *b, const struct local_rules *rules,
                        bool parts, const struct json_value *request,
                        struct json_value *out, bool *tools);

/* A request of /v1/responses as a chat request, as vLLM makes it. out may be
 * the request; it is unchanged when the builder fails. */
void local_from_responses(struct local_build *b,
                          const struct json_value *request,
                          struct json_value *out);

/* The same of /v1/messages. */
void local_from_messages(struct local_build *b,
                         const struct json_value *request,
                         struct json_value *out);

#endif
