/*
 * Chat templates: Jinja as models use it, rendered byte for byte as
 * transformers' apply_chat_template() does (jinja2's immutable sandbox with
 * trim_blocks and lstrip_blocks, loop controls, no escaping).
 *
 * A template is compiled once and rendered often. What is wrong with a template
 * or a conversation is an outcome with the template's line; the caller then asks
 * somebody else.
 *
 * Left out, and refused by name when a template is compiled: include, import,
 * extends, block, autoescape, self. Integers beyond 64 bits can be printed, not
 * computed with. What would print an address (a generator) is refused.
 *
 * Role: core. Owns: a compiled template's memory. Thread: a compiled template is
 * const and may be rendered by many threads at once. Limits: struct
 * template_limits, TEMPLATE_SOURCE_MAX. Errors: struct template_error.
 * Source: jinja2 3.1.6; transformers 5.23, utils/chat_template_utils.py.
 */
#ifndef NODE_TEMPLATE_H
#define NODE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/template/template_clock.h"
#include "node/text/json_tree.h"

#define TEMPLATE_SOURCE_MAX ((size_t)1 << 20)
#define TEMPLATE_ERROR_MAX  200

struct template; /* compiled */

struct template_error {
    uint32_t line; /* of the template, from 1; 0: none */
    char text[TEMPLATE_ERROR_MAX];
};

struct template_limits {
    uint64_t steps_max;  /* expressions, loop rounds, 64 bytes of text */
    size_t memory_bytes; /* for values on the way */
    size_t output_bytes;
    uint32_t depth_max; /* of expressions, calls and values in one another */
};

/* What is far above what any model's template needs. */
#define TEMPLATE_LIMITS                    \
    ((struct template_limits){             \
        .steps_max = 20000000,             \
        .memory_bytes = (size_t)256 << 20, \
        .output_bytes = (size_t)64 << 20,  \
        .depth_max = 1000,                 \
    })

/*
 * Compiles a template. The source is copied. NULL: *error says why and where.
 */
struct template *template_compile(struct slice source,
                                  struct template_error *error) MUST_CHECK;

/* Gives a compiled template back; NULL is fine. */
void template_free(struct template *compiled);

/*
 * Appends the text to *out. context is an object: what the template's names
 * mean; it and its document are borrowed. False: *error says why and where, and
 * *out is as it was.
 */
bool template_render(const struct template *compiled,
                     const struct json_value *context,
                     const struct template_limits *limits,
                     const struct template_clock *clock, struct buf *out,
                     struct template_error *error) MUST_CHECK;

/* By whose rule a template's wish is found out. */
enum template_rule {
    TEMPLATE_VLLM,
    TEMPLATE_SGLANG,
    TEMPLATE_RULES
};

/* Whether the template goes through a message's content part by part, as that
 * engine finds out: then content is passed as parts, else as text. */
bool template_takes_parts(const struct template *compiled,
                          enum template_rule rule) MUST_CHECK;

#endif
