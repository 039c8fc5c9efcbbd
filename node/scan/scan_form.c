/* Forms: the field `model` among the parts. */
#include "node/scan/scan_form.h"

#include <stdbool.h>
#include <string.h>

#define BOUNDARY_MAX 72   /* with its two dashes (RFC 2046) */
#define VALUE_MAX    1024 /* of a model's name */

/* The first line, which is taken. What is longer than a boundary is none, and
 * looked at no further: most bodies that come here are no forms. */
static struct slice
take_boundary(struct slice *text)
{
    struct slice start = *text;

    if (start.len > BOUNDARY_MAX + 2) {
        start.len = BOUNDARY_MAX + 2;
    }
    struct slice first = slice_take_until(&start, SLICE("\r\n"));
    if (first.ptr != NULL) {
        slice_skip(text, first.len + 2);
    }
    return first;
}

/* Whether a part's header lines say that it is the field `model`, and no file. */
static bool
is_model(struct slice lines)
{
    struct slice name = SLICE("content-disposition:");

    while (lines.len != 0) {
        struct slice line = slice_trim(slice_take_line(&lines));
        if (!slice_begins_nocase(line, name)) {
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
    struct slice first = take_boundary(&rest);
    char mark[BOUNDARY_MAX + 2] = "\r\n";

    if (first.len < 3 || first.len > BOUNDARY_MAX ||
        memcmp(first.ptr, "--", 2) != 0) {
        return none;
    }
    memcpy(mark + 2, first.ptr, first.len);
    struct slice end = {mark, first.len + 2};
    for (unsigned i = 0; i < SCAN_FORM_PARTS_MAX; i++) {
        struct slice lines = slice_take_until(&rest, SLICE("\r\n\r\n"));
        struct slice value = slice_take_until(&rest, end);
        if (lines.ptr == NULL || value.ptr == NULL) {
            return none;
        }
        if (is_model(lines)) {
            return value.len <= VALUE_MAX ? value : none;
        }
    }
    return none;
}

/* Forms that all readers read alike */

/* A text in quotes that means what it says. */
static bool
take_quoted(struct slice *text, struct slice *value)
{
    size_t len = 0;

    if (text->len == 0 || text->ptr[0] != '"') {
        return false;
    }
    text->ptr++;
    text->len--;
    while (len < text->len && text->ptr[len] != '"') {
        unsigned char c = (unsigned char)text->ptr[len];
        if (c == '\\' || c < 0x20 || c == 0x7f) {
            return false;
        }
        len++;
    }
    *value = (struct slice){text->ptr, len};
    if (len == text->len) {
        return false;
    }
    slice_skip(text, len + 1);
    return true;
}

/* What a plain Content-Disposition says after its name. */
static bool
take_disposition(struct slice line, struct slice *name, bool *is_file)
{
    struct slice file;

    line = slice_trim(line);
    if (!slice_skip_nocase(&line, SLICE("form-data; name=")) ||
        !take_quoted(&line, name) ||
        memchr(name->ptr, '%', name->len) != NULL) {
        return false;
    }
    *is_file = slice_skip_nocase(&line, SLICE("; filename="));
    return (!*is_file || take_quoted(&line, &file)) && line.len == 0;
}

/* A part's lines. False: readers might disagree about them. */
static bool
read_lines(struct slice lines, struct slice *name, bool *is_file)
{
    bool named = false;

    while (lines.len != 0) {
        struct slice rest = lines;
        struct slice line = slice_take_until(&rest, SLICE("\r\n"));
        if (line.ptr == NULL) {
            line = lines;
            rest.len = 0;
        }
        lines = rest;
        if (memchr(line.ptr, '\r', line.len) != NULL ||
            memchr(line.ptr, '\n', line.len) != NULL) {
            return false;
        }
        if (slice_skip_nocase(&line, SLICE("content-disposition:"))) {
            if (named || !take_disposition(line, name, is_file)) {
                return false;
            }
            named = true;
        } else if (!slice_skip_nocase(&line, SLICE("content-type:"))) {
            return false;
        }
    }
    return named;
}

/* Whether the head names the boundary that the body begins with. */
static bool
is_boundary(struct slice content_type, struct slice first)
{
    struct slice name;

    content_type = slice_trim(content_type);
    if (first.len < 3 || first.len > BOUNDARY_MAX ||
        memcmp(first.ptr, "--", 2) != 0 ||
        !slice_skip_nocase(&content_type, SLICE("multipart/form-data;"))) {
        return false;
    }
    content_type = slice_trim(content_type);
    if (!slice_skip_nocase(&content_type, SLICE("boundary="))) {
        return false;
    }
    name = content_type;
    if (name.len != 0 && name.ptr[0] == '"' &&
        (!take_quoted(&content_type, &name) || content_type.len != 0)) {
        return false;
    }
    slice_skip(&first, 2);
    return slice_equal(name, first);
}

struct slice
scan_form_sole_model(struct slice content_type, struct slice body)
{
    struct slice none = {.ptr = NULL, .len = 0};
    struct slice found = none;
    struct slice rest = body;
    struct slice first = take_boundary(&rest);
    char mark[BOUNDARY_MAX + 2] = "\r\n";

    if (!is_boundary(content_type, first)) {
        return none;
    }
    memcpy(mark + 2, first.ptr, first.len);
    struct slice end = {mark, first.len + 2};
    for (unsigned i = 0; i < SCAN_FORM_PARTS_MAX; i++) {
        bool is_file = false;
        struct slice name = none;
        struct slice lines = slice_take_until(&rest, SLICE("\r\n\r\n"));
        struct slice value = slice_take_until(&rest, end);
        if (lines.ptr == NULL || value.ptr == NULL ||
            !read_lines(lines, &name, &is_file)) {
            return none;
        }
        if (slice_equal(name, SLICE("model"))) {
            if (is_file || found.ptr != NULL || value.len > VALUE_MAX) {
                return none;
            }
            found = value;
        }
        /* Some take a boundary without the line's end before it. */
        if (memmem(value.ptr, value.len, first.ptr, first.len) != NULL) {
            return none;
        }
        if (slice_equal(rest, SLICE("--\r\n")) ||
            slice_equal(rest, SLICE("--"))) {
            return found;
        }
        if (!slice_skip_nocase(&rest, SLICE("\r\n"))) {
            return none;
        }
    }
    return none;
}
