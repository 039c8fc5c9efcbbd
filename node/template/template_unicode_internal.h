/*
 * What Python knows of a code point: str.isalpha() and its like, on utf8proc's
 * data (Unicode 15, as of Python 3.12).
 */
#ifndef NODE_TEMPLATE_UNICODE_INTERNAL_H
#define NODE_TEMPLATE_UNICODE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPL_UNICODE_CASE_MAX 3 /* code points that one becomes */

bool tpl_unicode_prints(uint32_t c); /* repr() shows it as it is */
bool tpl_unicode_is_alpha(uint32_t c);
bool tpl_unicode_is_alnum(uint32_t c);
bool tpl_unicode_is_decimal(uint32_t c);
bool tpl_unicode_is_digit(uint32_t c);
bool tpl_unicode_is_numeric(uint32_t c);
bool tpl_unicode_is_word(uint32_t c); /* \w */
bool tpl_unicode_is_upper(uint32_t c);
bool tpl_unicode_is_lower(uint32_t c);
bool tpl_unicode_is_title(uint32_t c);
bool tpl_unicode_is_cased(uint32_t c);
bool tpl_unicode_is_case_ignorable(uint32_t c);

/* The full mapping of one code point, without context; how many it becomes. */
size_t tpl_unicode_upper(uint32_t c, uint32_t out[TPL_UNICODE_CASE_MAX]);
size_t tpl_unicode_lower(uint32_t c, uint32_t out[TPL_UNICODE_CASE_MAX]);
size_t tpl_unicode_title(uint32_t c, uint32_t out[TPL_UNICODE_CASE_MAX]);
size_t tpl_unicode_fold(uint32_t c, uint32_t out[TPL_UNICODE_CASE_MAX]);

#endif
