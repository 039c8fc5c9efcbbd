/* The samples of a Prometheus page that an engine wrote. */
#include "node/text/promtext.h"

#include <math.h>
#include <stdlib.h>

#include "index/base/ascii.h"

#define NUMBER_BYTES_MAX 64

static bool
is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == ':';
}

static void
skip_blanks(struct slice *s)
{
    while (s->len > 0 && ascii_is_blank(s->ptr[0])) {
        slice_skip(s, 1);
    }
}

static struct slice
take_name(struct slice *s)
{
    size_t n = 0;

    while (n < s->len && is_name(s->ptr[n])) {
        n++;
    }
    return slice_take_len(s, n);
}

/* Bytes up to the quote that ends a label value; s is behind the opening
 * one. s->len when there is none. */
static size_t
quoted_len(struct slice s)
{
    size_t n = 0;

    while (n < s.len && s.ptr[n] != '"') {
        n += s.ptr[n] == '\\' && n + 1 < s.len ? 2 : 1;
    }
    return n;
}

/* One name="value" off the front of s; false when there is no whole one. */
static bool
take_label(struct slice *s, struct slice *name, struct slice *value)
{
    skip_blanks(s);
    *name = take_name(s);
    skip_blanks(s);
    if (name->len == 0 || s->len < 2 || s->ptr[0] != '=') {
        return false;
    }
    slice_skip(s, 1);
    skip_blanks(s);
    if (s->len == 0 || s->ptr[0] != '"') {
        return false;
    }
    slice_skip(s, 1);
    size_t n = quoted_len(*s);
    if (n == s->len) {
        return false;
    }
    *value = (struct slice){s->ptr, n};
    slice_skip(s, n + 1);
    skip_blanks(s);
    if (s->len > 0 && s->ptr[0] == ',') {
        slice_skip(s, 1);
        skip_blanks(s);
    }
    return true;
}

/* The labels between braces; line is behind the opening one. */
static bool
take_labels(struct slice *line, struct slice *labels)
{
    struct slice name;
    struct slice value;
    const char *start = line->ptr;

    skip_blanks(line);
    while (line->len > 0 && line->ptr[0] != '}') {
        if (!take_label(line, &name, &value)) {
            return false;
        }
    }
    if (line->len == 0) {
        return false;
    }
    *labels = (struct slice){start, (size_t)(line->ptr - start)};
    slice_skip(line, 1);
    return true;
}

static bool
parse_line(struct slice line, struct promtext_sample *sample)
{
    size_t n = 0;

    *sample = (struct promtext_sample){.name = take_name(&line)};
    if (sample->name.len == 0 || line.len == 0) {
        return false;
    }
    if (!ascii_is_blank(line.ptr[0]) && line.ptr[0] != '{') {
        return false;
    }
    skip_blanks(&line);
    if (line.len > 0 && line.ptr[0] == '{') {
        slice_skip(&line, 1);
        if (!take_labels(&line, &sample->labels)) {
            return false;
        }
        skip_blanks(&line);
    }
    while (n < line.len && !ascii_is_blank(line.ptr[n])) {
        n++;
    }
    sample->value = (struct slice){line.ptr, n};
    return n > 0;
}

bool
promtext_next(struct promtext *walk, struct promtext_sample *sample)
{
    while (walk->rest.len > 0) {
        struct slice line = slice_take_line(&walk->rest);
        skip_blanks(&line);
        if (line.len == 0 || line.ptr[0] == '#') {
            continue;
        }
        if (parse_line(line, sample)) {
            return true;
        }
        walk->bad_lines++;
    }
    return false;
}

bool
promtext_label(const struct promtext_sample *sample, struct slice name,
               struct slice *value)
{
    struct slice rest = sample->labels;
    struct slice found;

    while (take_label(&rest, &found, value)) {
        if (slice_equal(found, name)) {
            return true;
        }
    }
    return false;
}

bool
promtext_number(const struct promtext_sample *sample, double *number)
{
    char text[NUMBER_BYTES_MAX];
    char *end;
    size_t len = sample->value.len;

    if (len == 0 || len >= sizeof text) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        /* Keeps strtod() from blanks, hexadecimal and the words it knows. */
        if (strchr("0123456789+-.eE", sample->value.ptr[i]) == NULL ||
            sample->value.ptr[i] == '\0') {
            return false;
        }
    }
    memcpy(text, sample->value.ptr, len);
    text[len] = '\0';
    *number = strtod(text, &end);
    return *end == '\0' && isfinite(*number);
}
