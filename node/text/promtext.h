/*
 * Walks the samples of a Prometheus text exposition (format 0.0.4, and the
 * sample lines of OpenMetrics 1.0) in place.
 *
 * Tolerant line by line: skips comments and blank lines, counts and skips lines
 * that are not samples, ignores timestamps and exemplars. Only the name and the
 * labels of a line are parsed; its number is read on request, because a router
 * needs a dozen of a thousand lines.
 *
 * Role: core. Owns: nothing; slices point into the caller's text.
 * Thread: any. Limits: none but the text's. Errors: none.
 */
#ifndef NODE_PROMTEXT_H
#define NODE_PROMTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

struct promtext {
    struct slice rest;
    uint64_t bad_lines;
};

struct promtext_sample {
    struct slice name;   /* whole: compare with slice_equal() */
    struct slice labels; /* between the braces, raw; empty without any */
    struct slice value;  /* the number as written */
};

/* Starts at the first line of text, which is borrowed. */
static inline struct promtext
promtext_of(struct slice text)
{
    return (struct promtext){.rest = text};
}

/* The next sample; false at the end of the text. */
bool promtext_next(struct promtext *walk, struct promtext_sample *sample)
    MUST_CHECK;

/* The value of a label, without its quotes and with its escapes. False when the
 * sample has no such label. */
bool promtext_label(const struct promtext_sample *sample, struct slice name,
                    struct slice *value) MUST_CHECK;

/* The sample's number. False when it is none, NaN or infinite: to a router
 * these say the same as no sample at all. */
bool promtext_number(const struct promtext_sample *sample, double *number)
    MUST_CHECK;

#endif
