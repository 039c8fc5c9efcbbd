/* The filters, one function each, as struct tpl_filter calls them. */
#ifndef NODE_TEMPLATE_FILTER_INTERNAL_H
#define NODE_TEMPLATE_FILTER_INTERNAL_H

#include "node/template/template_run_internal.h"

#define TPL_FILTER(name)                                \
    struct json_value tpl_filter_##name(                \
        struct tpl_run *run, struct json_value subject, \
        const struct json_value *const *params)
#define TPL_FILTER_RAW(name)                                       \
    struct json_value tpl_filter_##name(struct tpl_run *run,       \
                                        struct json_value subject, \
                                        const struct tpl_args *args)

/* template_filter_text.c */
TPL_FILTER(upper);
TPL_FILTER(lower);
TPL_FILTER(capitalize);
TPL_FILTER(title);
TPL_FILTER(trim);
TPL_FILTER(replace);
TPL_FILTER(indent);
TPL_FILTER(string);
TPL_FILTER(safe);
TPL_FILTER(escape);
TPL_FILTER(forceescape);
TPL_FILTER(center);
TPL_FILTER(truncate);
TPL_FILTER(wordcount);
TPL_FILTER(urlencode);
TPL_FILTER(join);
TPL_FILTER_RAW(format);

/* template_filter_number.c */
TPL_FILTER(int);
TPL_FILTER(float);
TPL_FILTER(abs);
TPL_FILTER(round);
TPL_FILTER(length);
TPL_FILTER(default);
TPL_FILTER(sum);
TPL_FILTER(attr);

/* template_filter_list.c */
TPL_FILTER(first);
TPL_FILTER(last);
TPL_FILTER(list);
TPL_FILTER(reverse);
TPL_FILTER(items);
TPL_FILTER(batch);
TPL_FILTER(slice);
TPL_FILTER_RAW(map);
TPL_FILTER_RAW(select);
TPL_FILTER_RAW(reject);
TPL_FILTER_RAW(selectattr);
TPL_FILTER_RAW(rejectattr);

/* template_filter_sort.c */
TPL_FILTER(sort);
TPL_FILTER(dictsort);
TPL_FILTER(unique);
TPL_FILTER(min);
TPL_FILTER(max);
TPL_FILTER(groupby);

/* A parameter's truth; NULL: false. */
static inline bool
tpl_flag(const struct json_value *param)
{
    return param != NULL && tpl_truth(*param);
}

/* A list of values that grows. */
struct tpl_grow {
    struct json_value *items;
    size_t len;
    size_t size;
};

void tpl_grow_add(struct tpl_run *run, struct tpl_grow *grow,
                  struct json_value value);
/* A generator over values that are all known. */
struct json_value tpl_iter_over(struct tpl_run *run,
                                const struct tpl_grow *grow,
                                const struct template_error *error);

#endif
