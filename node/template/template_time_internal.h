/* strftime() as Python's datetime does it in the C locale, on a given time. */
#ifndef NODE_TEMPLATE_TIME_INTERNAL_H
#define NODE_TEMPLATE_TIME_INTERNAL_H

#include "node/template/template.h"

/* Appends the time in this format. NULL, or what is wrong with the format. */
const char *tpl_time_put(struct buf *out, struct slice format,
                         const struct template_clock *clock);

#endif
