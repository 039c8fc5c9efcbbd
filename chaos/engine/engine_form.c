/* The fields of a form, one by one from its beginning. */
#include "chaos/engine/engine_form_internal.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BOUNDARY_MAX 72 /* with its two dashes (RFC 2046) */

static const struct slice none = {.ptr = NULL, .len = 0};

static bool
is_named(struct slice lines, const char *name)
{
    char wanted[80];
    int len = snprintf(wanted, sizeof(wanted), "; name=\"%s\"", name);

    return len > 0 && (size_t)len < sizeof(wanted) &&
           memmem(lines.ptr, lines.len, wanted, (size_t)len) != NULL;
}

struct slice
engine_form_field(struct slice body, const char *name)
{
    struct slice first = slice_take_until(&body, SLICE("\r\n"));
    char mark[BOUNDARY_MAX + 2] = "\r\n";

    if (first.len < 3 || first.len > BOUNDARY_MAX ||
        memcmp(first.ptr, "--", 2) != 0) {
        return none;
    }
    memcpy(mark + 2, first.ptr, first.len);
    for (;;) {
        struct slice lines = slice_take_until(&body, SLICE("\r\n\r\n"));
        struct slice value =
            slice_take_until(&body, (struct slice){mark, first.len + 2});
        if (lines.ptr == NULL || value.ptr == NULL) {
            return none;
        }
        if (is_named(lines, name)) {
            return value;
        }
    }
}
