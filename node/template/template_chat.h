/*
 * A model's templates and what apply_chat_template() does around them: special
 * tokens, several templates by name, the fields of a request, continued messages.
 *
 * Role: core. Owns: the compiled templates. Thread: const once it is built.
 * Limits: TEMPLATE_CHAT_MEMORY for the files; those of template_render().
 * Errors: struct template_error; line 0: not in the template.
 * Source: transformers 5.23, tokenization_utils_base.py and
 * utils/chat_template_utils.py.
 */
#ifndef NODE_TEMPLATE_CHAT_H
#define NODE_TEMPLATE_CHAT_H

#include "node/template/template.h"

#define TEMPLATE_CHAT_MEMORY ((size_t)64 << 20)

struct template_chat;

/*
 * From a model's files: tokenizer_config.json (special tokens; chat_template, a
 * text or a list of {"name", "template"}), and a template of its own
 * (chat_template.jinja), which then counts alone. Either may be empty; both are
 * copied. NULL: *error says why.
 */
struct template_chat *template_chat_new(struct slice config,
                                        struct slice source,
                                        struct template_error *error)
    MUST_CHECK;

/* Gives it back; NULL is fine. */
void template_chat_free(struct template_chat *chat);

/* template_takes_parts() of the template that a request with or without tools
 * gets. */
bool template_chat_takes_parts(const struct template_chat *chat, bool tools,
                               enum template_rule rule) MUST_CHECK;

/* Whether that template has a literal of this name, as vLLM looks for roles. */
bool template_chat_quotes(const struct template_chat *chat, bool tools,
                          const char *name) MUST_CHECK;

/*
 * Appends the text of a request to *out. request: the body of a chat completion;
 * its messages, tools, documents, add_generation_prompt (true when it is
 * missing), continue_final_message, reasoning_effort and chat_template_kwargs
 * count. Messages reach the template as they are, but for
 * the names that transformers adds to a message's reasoning. With tools the
 * template "tool_use" is taken where there is one. False: *error says why.
 */
bool template_chat_render(const struct template_chat *chat,
                          const struct json_value *request,
                          const struct template_limits *limits,
                          const struct template_clock *clock, struct buf *out,
                          struct template_error *error) MUST_CHECK;

#endif
