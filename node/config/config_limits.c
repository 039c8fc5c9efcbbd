/* Limits of single models: from text, and back to text. */
#include "node/config/config_limits_internal.h"

#include <string.h>

#include "node/config/config_value_internal.h"

#define WANT_LIMITS                                            \
    "NAME=KIND:LIMIT, and more of them after commas, such as " \
    "qwen3-8b=requests:600/min,tokens:200000/min,concurrent:16"

static bool
put_name(struct slice name, char to[CONFIG_LIMIT_MODEL_MAX])
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c <= ' ' || c >= 0x7F || strchr("#\"\\,", c) != NULL) {
            return false;
        }
    }
    if (name.len == 0 || name.len >= CONFIG_LIMIT_MODEL_MAX) {
        return false;
    }
    memcpy(to, name.ptr, name.len);
    to[name.len] = '\0';
    return true;
}

/* KIND:LIMIT, which was not given before. */
static bool
put_limit(struct slice text, struct limits_rate to[LIMITS_OFS])
{
    struct slice kind = slice_take(&text, ':');

    for (unsigned of = 0; of < LIMITS_OFS; of++) {
        if (slice_equal(kind, slice_of(limits_of_name((enum limits_of)of)))) {
            bool fresh = to[of].amount == 0;
            bool read = of == LIMITS_CONCURRENT
                            ? limits_rate_read_open(text, &to[of])
                            : limits_rate_read(text, &to[of]);
            return fresh && read && to[of].amount != 0;
        }
    }
    return false;
}

static const char *
add(struct config_model_limits *limits, struct slice text)
{
    struct config_model_limit model = {.name = ""};
    struct slice name = slice_take(&text, '=');

    CHECK(limits->count <= CONFIG_MODELS_MAX);
    if (!put_name(name, model.name) || text.len == 0) {
        return WANT_LIMITS;
    }
    while (text.len != 0) {
        if (!put_limit(slice_take(&text, ','), model.rate)) {
            return WANT_LIMITS;
        }
    }
    for (uint32_t i = 0; i < limits->count; i++) {
        if (strcmp(limits->model[i].name, model.name) == 0) {
            return "each model once";
        }
    }
    if (limits->count == CONFIG_MODELS_MAX) {
        return "at most 32 models";
    }
    limits->model[limits->count++] = model;
    return NULL;
}

_Static_assert(CONFIG_MODELS_MAX == 32, "as the text says");

const char *
config_limits_read(struct slice text, struct config_model_limits *limits)
{
    struct config_model_limits read = {.count = 0};
    struct slice left;
    struct slice one;
    const char *want = config_list_begin(text, &left) ? NULL : WANT_LIMITS;

    while (want == NULL && config_list_next(&left, &one)) {
        want = add(&read, one);
    }
    if (want == NULL) {
        *limits = read;
    }
    return want;
}

const char *
config_limits_want(struct slice text)
{
    struct config_model_limits scratch;
    const char *want =
        text.len != 0 ? config_limits_read(text, &scratch) : NULL;

    return want != NULL ? want : WANT_LIMITS ", or none";
}

void
config_limits_print(const struct config_model_limits *limits, struct buf *out)
{
    CHECK(limits->count <= CONFIG_MODELS_MAX);
    for (uint32_t i = 0; i < limits->count; i++) {
        const struct config_model_limit *model = &limits->model[i];
        char before = '=';
        buf_printf(out, "%s%s", i != 0 ? " " : "", model->name);
        for (unsigned of = 0; of < LIMITS_OFS; of++) {
            if (model->rate[of].amount != 0) {
                buf_printf(out, "%c%s:", before,
                           limits_of_name((enum limits_of)of));
                limits_rate_print(&model->rate[of], out);
                before = ',';
            }
        }
    }
    if (limits->count == 0) {
        buf_add_text(out, "none");
    }
}
