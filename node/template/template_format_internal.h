/* Parts of formatting that "%" and str.format() share. */
#ifndef NODE_TEMPLATE_FORMAT_INTERNAL_H
#define NODE_TEMPLATE_FORMAT_INTERNAL_H

#include "node/template/template_run_internal.h"

#define TPL_FORMAT_WIDTH_MAX 100000

struct tpl_format_spec {
    char fill[4];
    size_t fill_len;
    char align; /* '\0': the type's */
    char sign;  /* '+', ' ', or '\0' */
    bool alternate;
    bool precision_given;
    bool percent;  /* of "%", where a precision pads integers */
    bool left;     /* "%-5d" */
    char grouping; /* ',' or '_' or '\0' */
    char type;
    size_t width;
    size_t precision;
};

/* All append to the output. */
void tpl_format_int(struct tpl_run *run, struct json_value value,
                    const struct tpl_format_spec *spec, char type);
void tpl_format_real(struct tpl_run *run, double real,
                     const struct tpl_format_spec *given, char type);
void tpl_format_text(struct tpl_run *run, struct slice text,
                     const struct tpl_format_spec *spec);
void tpl_format_ascii(struct tpl_run *run, struct json_value value);
void tpl_format_pad(struct tpl_run *run, size_t from,
                    const struct tpl_format_spec *spec, char align);

#endif
