/* What a `from` of kube: says. */
#include <stdlib.h>
#include <string.h>

#include "index/base/ascii.h"
#include "node/config/config.h"

static const char prefix[] = "kube:";

static bool
consists_of(struct slice s, const char *more, size_t room)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool letter = ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z';
        if (!letter && !ascii_is_digit(c) && strchr(more, c) == NULL) {
            return false;
        }
    }
    return s.len != 0 && s.len < room;
}

/* LABEL=VALUE, several of them with + between; the API has commas there. */
static bool
take_labels(struct slice text, char out[CONFIG_TEXT_MAX])
{
    struct slice rest = text;

    if (!consists_of(text, "=+._/-", CONFIG_TEXT_MAX)) {
        return false;
    }
    while (rest.len != 0) {
        struct slice value = slice_take(&rest, '+');
        struct slice label = slice_take(&value, '=');
        if (label.len == 0 || value.len == 0 ||
            memchr(value.ptr, '=', value.len) != NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < text.len; i++) {
        out[i] = text.ptr[i];
        if (out[i] == '+') {
            out[i] = ',';
        }
    }
    out[text.len] = '\0';
    return text.ptr[text.len - 1] != '+';
}

static void
copy(char *out, struct slice s)
{
    memcpy(out, s.ptr, s.len);
    out[s.len] = '\0';
}

bool
config_from_kube(const struct config_worker *worker, struct config_kube *kube)
{
    struct slice rest = slice_of(worker->from);
    struct slice part[4];
    uint32_t parts = 0;

    if (!slice_skip_text(&rest, SLICE(prefix))) {
        return false;
    }
    while (rest.len != 0 && parts < 4) {
        part[parts++] = slice_take(&rest, ':');
    }
    if (parts != 2 && parts != 3) {
        return false;
    }
    *kube = (struct config_kube){.space = ""};
    struct slice port = part[parts - 1];
    if (!take_labels(part[parts - 2], kube->labels) ||
        !consists_of(port, "-", sizeof kube->port) ||
        (parts == 3 && !consists_of(part[0], "-", sizeof kube->space))) {
        return false;
    }
    copy(kube->port, port);
    if (parts == 3) {
        copy(kube->space, part[0]);
    }
    if (ascii_is_digit(port.ptr[0])) { /* no name of a port begins so here */
        char *end;
        unsigned long number = strtoul(kube->port, &end, 10);
        return *end == '\0' && number >= 1 && number <= UINT16_MAX;
    }
    return true;
}
