/*
 * For tests of the scanner: scans a body with every kernel, at every position
 * against the blocks and about the end of a window, in memory that ends with
 * the body, and gives the spans back as one line of text.
 */
#ifndef TESTS_SCAN_TRY_H
#define TESTS_SCAN_TRY_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/scan/scan_fault_internal.h"
#include "node/scan/scan_walk_internal.h"

#define TRY_SPANS 64
#define TRY_PADS  66
#define TRY_LEAP  (SCAN_BLOCK * (SCAN_WINDOW - 2))

struct
try {
    struct scan scan;
    int outcome;
    char spans[4096]; /* "role user|text hi|": the unescaped text of each */
    char model[256];
    struct scan_span room[TRY_SPANS];
};

static const struct scan_limits try_limits = {.depth_max = 16,
                                              .spans_max = TRY_SPANS};

static inline void
try_show(const char *body, struct try *try)
{
    static const char *const kinds[] = {
        [SCAN_ROLE] = "role",   [SCAN_TEXT] = "text", [SCAN_MEDIA] = "media",
        [SCAN_TOOLS] = "tools", [SCAN_IDS] = "ids",
    };
    size_t used = 0;

    try->spans[0] = '\0';
    for (uint32_t i = 0; i < try->scan.spans_count; i++) {
        const struct scan_span *s = &try->scan.spans[i];
        char text[2048];
        size_t len = s->len;
        cr_assert_lt(len, sizeof(text));
        memcpy(text, body + s->at, len);
        cr_assert(!s->escaped || memchr(text, '\\', len) != NULL);
        if (s->escaped) {
            len = scan_unescape(body + s->at, s->len, text);
        }
        used += (size_t)snprintf(try->spans + used, sizeof(try->spans) - used,
                                 "%s %.*s|", kinds[s->kind], (int)len, text);
    }
}

/* One scan of pad spaces and the body. */
static inline void
try_once(const struct scan_kernel *kernel, struct slice body, size_t pad,
         const struct scan_limits *limits, struct try *try)
{
    char *copy = malloc(pad + body.len + 1); /* + 1: malloc(0) */
    struct slice whole = {.ptr = copy + 1, .len = pad + body.len};

    cr_assert_not_null(copy);
    memset(copy + 1, ' ', pad);
    memcpy(copy + 1 + pad, body.ptr, body.len);
    memset(&try->scan, 0xA5, sizeof(try->scan));
    try->scan.spans = try->room;
    try->outcome = scan_body_with(kernel, whole, limits, &try->scan);
    try_show(whole.ptr, try);
    size_t len = scan_unescape(whole.ptr + try->scan.model.at,
                               try->scan.model.len, try->model);
    try->model[len] = '\0';
    free(copy);
}

/*
 * The same answer from each kernel at each position, or the test fails. Long
 * bodies, which cross blocks and windows anyway, are tried at fewer.
 */
static inline struct try
try_slice(struct slice body, const struct scan_limits *limits)
{
    static struct try first;
    static struct try other;
    const struct scan_kernel *kernel;

    try_once(&scan_kernel_portable, body, 0, limits, &first);
    for (unsigned i = 0; (kernel = scan_kernel_nth(i)) != NULL; i++) {
        size_t ends = body.len < 256 ? 3 * TRY_PADS : TRY_PADS;
        size_t step = body.len < 1024 ? 1 : 7;
        for (size_t n = 0; n < ends && kernel->usable(); n += step) {
            size_t pad = n < TRY_PADS ? n : n + TRY_LEAP;
            try_once(kernel, body, pad, limits, &other);
            cr_assert_eq(other.outcome, first.outcome, "%s, pad %zu: %s",
                         kernel->name, pad, other.scan.fault);
            cr_assert_str_eq(other.spans, first.spans, "%s, pad %zu: %s",
                             kernel->name, pad, other.spans);
            cr_assert_str_eq(other.model, first.model);
            cr_assert_eq(other.scan.max_tokens, first.scan.max_tokens);
            cr_assert_eq(other.scan.spans_truncated,
                         first.scan.spans_truncated);
            if (first.outcome != 0) {
                cr_assert_eq(other.scan.fault_at, first.scan.fault_at + pad,
                             "%s, pad %zu: %zu", kernel->name, pad,
                             other.scan.fault_at);
            }
        }
    }
    return first;
}

static inline struct try
try_body(const char *body)
{
    struct try try = try_slice(slice_of(body), &try_limits);

    cr_assert_eq(try.outcome, 0, "%s: %s at %zu", body, try.scan.fault,
                 try.scan.fault_at);
    return try;
}

/* The spans of the body are these. */
static inline void
try_spans(const char *body, const char *spans)
{
    struct try try = try_body(body);

    cr_assert_str_eq(try.spans, spans, "%s\ngives %s\nnot   %s", body,
                     try.spans, spans);
}

/* The body is refused, for this reason and there. */
static inline void
try_fault(const char *body, int outcome, size_t at)
{
    struct try try = try_slice(slice_of(body), &try_limits);

    cr_assert_eq(try.outcome, outcome, "%s: %d", body, try.outcome);
    cr_assert_eq(try.scan.fault_at, at, "%s: at %zu, not %zu (%s)", body,
                 try.scan.fault_at, at, try.scan.fault);
    cr_assert_eq(try.scan.spans_count, 0);
    cr_assert_neq(strlen(try.scan.fault), 0);
    cr_assert_str_neq(try.scan.fault, SCAN_DISPUTED);
}

#endif
