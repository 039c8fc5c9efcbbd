/* SLOs of single models: from text, and back to text. */
#include "node/config/config_slos_internal.h"

#include <string.h>

#include "node/config/config_value_internal.h"

#define WANT_SLO    "NAME=TTFT/ITL such as qwen3-8b=500ms/50ms"
#define TIME_MAX_MS UINT64_C(600000)

static bool
put_name(struct slice name, char to[CONFIG_MODEL_NAME_MAX])
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c <= ' ' || c >= 0x7F || strchr("#\"\\,", c) != NULL) {
            return false;
        }
    }
    if (name.len == 0 || name.len >= CONFIG_MODEL_NAME_MAX) {
        return false;
    }
    memcpy(to, name.ptr, name.len);
    to[name.len] = '\0';
    return true;
}

static bool
put_time(struct slice text, uint32_t *to)
{
    uint64_t ms;

    if (!config_duration_read(text, &ms) || ms > TIME_MAX_MS) {
        return false;
    }
    *to = (uint32_t)ms;
    return true;
}

static const char *
add(struct config_slos *slos, struct slice text)
{
    struct config_slo_model model = {.ttft_ms = 0};
    struct slice name = slice_take(&text, '=');
    struct slice ttft = slice_take(&text, '/');

    CHECK(slos->count <= CONFIG_MODELS_MAX);
    if (!put_name(name, model.name) || !put_time(ttft, &model.ttft_ms) ||
        !put_time(text, &model.itl_ms)) {
        return WANT_SLO;
    }
    for (uint32_t i = 0; i < slos->count; i++) {
        if (strcmp(slos->model[i].name, model.name) == 0) {
            return "each model once";
        }
    }
    if (slos->count == CONFIG_MODELS_MAX) {
        return "at most 32 models";
    }
    slos->model[slos->count++] = model;
    return NULL;
}

_Static_assert(CONFIG_MODELS_MAX == 32, "as the text says");

const char *
config_slos_read(struct slice text, struct config_slos *slos)
{
    struct config_slos read = {.count = 0};
    struct slice left;
    struct slice one;
    const char *want = config_list_begin(text, &left) ? NULL : WANT_SLO;

    while (want == NULL && config_list_next(&left, &one)) {
        want = add(&read, one);
    }
    if (want == NULL) {
        *slos = read;
    }
    return want;
}

const char *
config_slos_want(struct slice text)
{
    struct config_slos scratch;
    const char *want = text.len != 0 ? config_slos_read(text, &scratch) : NULL;

    return want != NULL ? want : WANT_SLO ", or none";
}

void
config_slos_print(const struct config_slos *slos, struct buf *out)
{
    CHECK(slos->count <= CONFIG_MODELS_MAX);
    for (uint32_t i = 0; i < slos->count; i++) {
        const struct config_slo_model *model = &slos->model[i];
        buf_printf(out, "%s%s=", i != 0 ? " " : "", model->name);
        config_number_print(CONFIG_DURATION, model->ttft_ms, out);
        buf_add_text(out, "/");
        config_number_print(CONFIG_DURATION, model->itl_ms, out);
    }
    if (slos->count == 0) {
        buf_add_text(out, "none");
    }
}
