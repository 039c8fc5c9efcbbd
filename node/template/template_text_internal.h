/*
 * Text as Python sees it: UTF-8 that is counted, cut and folded by code points.
 *
 * Texts come from JSON or a checked template and are well-formed.
 */
#ifndef NODE_TEMPLATE_TEXT_INTERNAL_H
#define NODE_TEMPLATE_TEXT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/slice.h"
#include "index/base/utf8.h"

/* The code point at text[*at], which moves behind it. *at < text.len. */
uint32_t tpl_text_next(struct slice text, size_t *at);

/* Bytes of the character that ends at `end`, which is above 0. */
size_t tpl_text_before(struct slice text, size_t end);

/* Code points. */
size_t tpl_text_count(struct slice text);

/* The offset of the n-th code point, or text.len. */
size_t tpl_text_offset(struct slice text, size_t n);

/* str.isspace() of a code point. */
bool tpl_text_is_space(uint32_t c);

struct slice tpl_text_lstrip(struct slice text);
struct slice tpl_text_rstrip(struct slice text);

/* str.strip(chars) from the left, the right. */
struct slice tpl_text_lstrip_of(struct slice text, struct slice chars);
struct slice tpl_text_rstrip_of(struct slice text, struct slice chars);

/* The offset of the first `what` at or behind `from`; SIZE_MAX: none. */
size_t tpl_text_find(struct slice text, struct slice what, size_t from);
/* The offset of the last one that ends at or before `end`. */
size_t tpl_text_rfind(struct slice text, struct slice what, size_t end);

/* Takes a line off *rest as str.splitlines() does; its end, too, is in
 * *with_end. */
struct slice tpl_text_line(struct slice *rest, struct slice *with_end);

#endif
