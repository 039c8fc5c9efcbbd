/* The tables of filters, tests and globals, as the parser asks for them. */
#ifndef NODE_TEMPLATE_NAMES_INTERNAL_H
#define NODE_TEMPLATE_NAMES_INTERNAL_H

#include "index/base/slice.h"

struct tpl_filter;
struct tpl_test;

/* NULL: there is none of that name. */
const struct tpl_filter *tpl_filter_named(struct slice name);
const struct tpl_test *tpl_test_named(struct slice name);

#endif
