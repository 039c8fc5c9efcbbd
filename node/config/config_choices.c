/* A choice for each of some models: from text, back to text, and found. */
#include "node/config/config_choices_internal.h"

#include <string.h>

#include "node/config/config_value_internal.h"

#define WANT_CHOICE                                                        \
    "NAME=CHOICE between blanks, a name with a * at its end for all that " \
    "begin so, and a choice as without a model"

/* False: it is none of the names. */
static bool
find_choice(const char *const *names, struct slice text, uint32_t *choice)
{
    for (uint32_t i = 0; names[i] != NULL; i++) {
        if (slice_equal(text, slice_of(names[i]))) {
            *choice = i;
            return true;
        }
    }
    return false;
}

/* A name that stands in a file as it is: no blank, no mark of the form. */
static bool
is_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool star = c == '*' && i + 1 != name.len;
        if (c <= ' ' || c >= 0x7F || star || strchr("#\"\\,+=", c) != NULL) {
            return false;
        }
    }
    return name.len != 0 && name.len < CONFIG_MODEL_NAME_MAX;
}

static const char *
add(const char *const *names, struct slice text, struct config_choices *to)
{
    struct config_choice one = {.choice = 0};
    struct slice name = slice_take(&text, '=');

    if (!is_name(name) || !find_choice(names, text, &one.choice)) {
        return WANT_CHOICE;
    }
    memcpy(one.model, name.ptr, name.len);
    for (uint32_t i = 0; i < to->count; i++) {
        if (strcmp(to->of[i].model, one.model) == 0) {
            return "each model once";
        }
    }
    if (to->count == CONFIG_CHOICES_MAX) {
        return "at most 16 models";
    }
    to->of[to->count++] = one;
    return NULL;
}

_Static_assert(CONFIG_CHOICES_MAX == 16, "as the text says");

const char *
config_choices_read(const char *const *names, struct slice text,
                    struct config_choices *choices)
{
    struct config_choices read = {.count = 0};
    struct slice left;
    struct slice one;
    const char *want = config_list_begin(text, &left) ? NULL : WANT_CHOICE;

    while (want == NULL && config_list_next(&left, &one)) {
        want = add(names, one, &read);
    }
    if (want == NULL) {
        *choices = read;
    }
    return want;
}

const char *
config_choices_want(const char *const *names, struct slice text)
{
    struct config_choices scratch;
    const char *want =
        text.len != 0 ? config_choices_read(names, text, &scratch) : NULL;

    return want != NULL ? want : WANT_CHOICE ", or none";
}

void
config_choices_print(const char *const *names,
                     const struct config_choices *choices, struct buf *out)
{
    CHECK(choices->count <= CONFIG_CHOICES_MAX);
    for (uint32_t i = 0; i < choices->count; i++) {
        buf_printf(out, "%s%s=%s", i != 0 ? " " : "", choices->of[i].model,
                   names[choices->of[i].choice]);
    }
    if (choices->count == 0) {
        buf_add_text(out, "none");
    }
}

const struct config_choice *
config_choices_find(const struct config_choices *choices, struct slice model)
{
    CHECK(choices->count <= CONFIG_CHOICES_MAX);
    for (uint32_t i = 0; i < choices->count; i++) {
        struct slice name = slice_of(choices->of[i].model);
        bool begins = name.ptr[name.len - 1] == '*';
        struct slice part = model;
        if (begins) {
            name.len--;
            part.len = part.len < name.len ? part.len : name.len;
        }
        if (slice_equal(part, name)) {
            return &choices->of[i];
        }
    }
    return NULL;
}
