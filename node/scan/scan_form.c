/* Forms: the field `model` among the parts. */
#include "node/scan/scan_form.h"

#include <stdbool.h>
#include <string.h>

#define BOUNDARY_MAX 72   /* with its two dashes (RFC 2046) */
#define VALUE_MAX    1024 /* of a model's name */

/* The bytes of text before mark, which are taken from it with the mark. NULL: it
 * is not there. */
static struct slice
take_until(struct slice *text, struct slice mark)
{
    const char *at = text->len != 0
                         ? memmem(text->ptr, text->len, mark.ptr, mark.len)
                         : NULL;
    struct slice found = {.ptr = NULL, .len = 0};

    if (at != NULL) {
        found = (struct slice){text->ptr, (size_t)(at - text->ptr)};
        text->ptr = at + mark.len;
        text->len -= found.len + mark.len;
    }
    return found;
}

/* Whether a part's header lines say that it is the field `model`, and no file. */
static bool
is_model(struct slice lines)
{
    struct slice name = SLICE("content-disposition:");

    while (lines.len != 0) {
        struct slice line = slice_trim(slice_take_line(&lines));
        struct slice start = {line.ptr, name.len};
        if (line.len < name.len || !slice_equal_nocase(start, name)) {
            continue;
        }
        (void)slice_take(&line, ';');
        while (line.len != 0) {
            struct slice word = slice_trim(slice_take(&line, ';'));
            if (slice_equal_nocase(word, SLICE("name=\"model\"")) ||
                slice_equal_nocase(word, SLICE("name=model"))) {
                return true;
            }
        }
    }
    return false;
}

struct slice
scan_form_model(struct slice body)
{
    struct slice none = {.ptr = NULL, .len = 0};
    struct slice rest = body;
    struct slice first = take_until(&rest, SLICE("\r\n"));
    char mark[BOUNDARY_MAX + 2] = "\r\n";

    if (first.len < 3 || first.len > BOUNDARY_MAX ||
        memcmp(first.ptr, "--", 2) != 0) {
        return none;
    }
    memcpy(mark + 2, first.ptr, first.len);
    struct slice end = {mark, first.len + 2};
    for (unsigned i = 0; i < SCAN_FORM_PARTS_MAX; i++) {
        struct slice lines = take_until(&rest, SLICE("\r\n\r\n"));
        struct slice value = take_until(&rest, end);
        if (lines.ptr == NULL || value.ptr == NULL) {
            return none;
        }
        if (is_model(lines)) {
            return value.len <= VALUE_MAX ? value : none;
        }
    }
    return none;
}
