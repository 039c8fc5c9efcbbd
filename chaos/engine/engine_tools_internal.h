/*
 * Whether an answer calls a tool, and which.
 *
 * A chat with `tools` gets a call where tool_choice demands one, or where its
 * last message is the user's and says "call NAME"; once the tool's result is
 * the last message, words follow again. There is one call. Its arguments are
 * an object of one member, the first of the tool's parameters, whose value is
 * the words of the answer: so they are as many tokens as those would be.
 *
 * Role: core. Owns: nothing; what it says points into the request's body.
 * Thread: any. Limits: none. Errors: ENGINE_TOOLS_E_UNKNOWN.
 * Source: chat completions of vLLM 0.32.
 */
#ifndef CHAOS_ENGINE_TOOLS_INTERNAL_H
#define CHAOS_ENGINE_TOOLS_INTERNAL_H

#include "chaos/engine/engine_prompt_internal.h"
#include "index/base/check.h"
#include "index/base/slice.h"

struct engine_tool {
    struct slice name; /* inside of a JSON string; empty: no tool is called */
    struct slice argument; /* likewise: the member's name */
};

enum {
    ENGINE_TOOLS_E_UNKNOWN = 1, /* tool_choice demands what is no tool */
};

/* By the chat that was scanned last. 0, or ENGINE_TOOLS_E_UNKNOWN. */
int engine_tools_choose(struct engine_prompt *prompt, struct engine_tool *tool)
    MUST_CHECK;

#endif
