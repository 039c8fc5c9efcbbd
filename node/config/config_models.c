/* Models' own files: from text, and back to text. */
#include "node/config/config_models_internal.h"

#include <string.h>

#include "node/config/config_value_internal.h"

#define BANNED "#\"\\,"

#define WANT_MODEL                                            \
    "NAME=PATH[,template=FILE][,content=auto|string|parts], " \
    "without blanks and #\"\\,"

static const char *const contents[] = {
    [CONFIG_CONTENT_AUTO] = "auto",
    [CONFIG_CONTENT_STRING] = "string",
    [CONFIG_CONTENT_PARTS] = "parts",
};

static bool
put_option(struct config_model *model, struct slice text)
{
    struct slice key = slice_take(&text, '=');

    if (slice_equal(key, SLICE("template"))) {
        return config_put_plain(model->template, sizeof model->template, text,
                                BANNED);
    }
    if (!slice_equal(key, SLICE("content"))) {
        return false;
    }
    for (uint32_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        if (slice_equal(text, slice_of(contents[i]))) {
            model->content = i;
            return true;
        }
    }
    return false;
}

const char *
config_models_add(struct config_models *models, struct slice text)
{
    struct config_model model = {.content = CONFIG_CONTENT_AUTO};
    struct slice file = slice_take(&text, ',');
    struct slice name = slice_take(&file, '=');

    CHECK(models->count <= CONFIG_MODELS_MAX);
    if (!config_put_plain(model.name, sizeof model.name, name, BANNED) ||
        !config_put_plain(model.path, sizeof model.path, file, BANNED)) {
        return WANT_MODEL;
    }
    while (text.len != 0) {
        if (!put_option(&model, slice_take(&text, ','))) {
            return WANT_MODEL;
        }
    }
    for (uint32_t i = 0; i < models->count; i++) {
        if (strcmp(models->model[i].name, model.name) == 0) {
            return "each model once";
        }
    }
    if (models->count == CONFIG_MODELS_MAX) {
        return "at most 32 models";
    }
    models->model[models->count++] = model;
    return NULL;
}

_Static_assert(CONFIG_MODELS_MAX == 32, "as the text says");

const char *
config_models_read(struct slice text, struct config_models *models)
{
    struct config_models read = {.count = 0};
    struct slice left;
    struct slice one;
    const char *want = config_list_begin(text, &left) ? NULL : WANT_MODEL;

    while (want == NULL && config_list_next(&left, &one)) {
        want = config_models_add(&read, one);
    }
    if (want == NULL) {
        *models = read;
    }
    return want;
}

const char *
config_models_want(struct slice text)
{
    struct config_models scratch;
    const char *want =
        text.len != 0 ? config_models_read(text, &scratch) : NULL;

    return want != NULL ? want : WANT_MODEL ", or none";
}

void
config_models_print(const struct config_models *models, struct buf *out)
{
    CHECK(models->count <= CONFIG_MODELS_MAX);
    for (uint32_t i = 0; i < models->count; i++) {
        const struct config_model *model = &models->model[i];
        buf_printf(out, "%s%s=%s", i != 0 ? " " : "", model->name, model->path);
        if (model->template[0] != '\0') {
            buf_printf(out, ",template=%s", model->template);
        }
        if (model->content != CONFIG_CONTENT_AUTO) {
            buf_printf(out, ",content=%s", contents[model->content]);
        }
    }
    if (models->count == 0) {
        buf_add_text(out, "none");
    }
}
