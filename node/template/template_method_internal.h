/* The methods of texts: what template_method.c has in its table. */
#ifndef NODE_TEMPLATE_METHOD_INTERNAL_H
#define NODE_TEMPLATE_METHOD_INTERNAL_H

#include "node/template/template_run_internal.h"

/* All have this form; params as of struct tpl_filter. */
#define TPL_STR_METHOD(name)                                 \
    struct json_value tpl_str_##name(struct tpl_run *run,    \
                                     struct json_value self, \
                                     const struct json_value *const *params)

TPL_STR_METHOD(split);
TPL_STR_METHOD(rsplit);
TPL_STR_METHOD(splitlines);
TPL_STR_METHOD(partition);
TPL_STR_METHOD(rpartition);
TPL_STR_METHOD(join);
TPL_STR_METHOD(strip);
TPL_STR_METHOD(lstrip);
TPL_STR_METHOD(rstrip);
TPL_STR_METHOD(replace);
TPL_STR_METHOD(removeprefix);
TPL_STR_METHOD(removesuffix);
TPL_STR_METHOD(center);
TPL_STR_METHOD(ljust);
TPL_STR_METHOD(rjust);
TPL_STR_METHOD(zfill);
TPL_STR_METHOD(expandtabs);
TPL_STR_METHOD(find);
TPL_STR_METHOD(rfind);
TPL_STR_METHOD(index);
TPL_STR_METHOD(rindex);
TPL_STR_METHOD(count);
TPL_STR_METHOD(startswith);
TPL_STR_METHOD(endswith);
TPL_STR_METHOD(upper);
TPL_STR_METHOD(lower);
TPL_STR_METHOD(title);
TPL_STR_METHOD(capitalize);
TPL_STR_METHOD(swapcase);
TPL_STR_METHOD(casefold);
TPL_STR_METHOD(isspace);
TPL_STR_METHOD(isascii);
TPL_STR_METHOD(isdigit);
TPL_STR_METHOD(isdecimal);
TPL_STR_METHOD(isnumeric);
TPL_STR_METHOD(isalpha);
TPL_STR_METHOD(isalnum);
TPL_STR_METHOD(islower);
TPL_STR_METHOD(isupper);
TPL_STR_METHOD(isidentifier);
TPL_STR_METHOD(isprintable);

/* text.replace(old, new, count), count below 0: all. */
struct slice tpl_replace(struct tpl_run *run, struct slice text,
                         struct slice old, struct slice new, int64_t count);

#endif
