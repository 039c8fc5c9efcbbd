/*
 * The scanner on any bytes: every kernel says the same, says what the slow
 * judge of the grammar says, and finds what a real JSON library finds; spans
 * that are cut are the first of all of them.
 *
 * The first byte sets the limits and the place against the blocks.
 */
#include <stdlib.h>
#include <string.h>

#include "node/scan/scan_fault_internal.h"
#include "node/scan/scan_walk_internal.h"
#include "scan_oracle.h"

#define SPANS_FEW 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void
same_spans(const struct scan *few, const struct scan *all)
{
    must(few->spans_count <= all->spans_count);
    must(few->spans_truncated == (all->spans_count > few->spans_count));
    for (uint32_t i = 0; i < few->spans_count; i++) {
        const struct scan_span *a = &few->spans[i];
        const struct scan_span *b = &all->spans[i];
        must(a->at == b->at && a->len == b->len && a->kind == b->kind &&
             a->escaped == b->escaped);
    }
}

static void
judge(struct slice body, int outcome, const struct scan *scan,
      const struct scan_limits *limits)
{
    struct scan_fault fault;
    const char *why;

    must(scan_fault_find(body.ptr, body.len, limits->depth_max, &fault) ==
         outcome);
    must(outcome == 0 ||
         (scan->fault == fault.what && scan->fault_at == fault.at));
    must(scan_oracle_agrees(body.ptr, body.len, outcome, scan, &why));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct scan_span spans[ORACLE_SPANS];
    static struct scan_span others[ORACLE_SPANS];
    size_t pad = size > 0 ? data[0] % 64U : 0;
    struct scan_limits limits = {
        .depth_max = size > 0 && data[0] >= 128 ? 4 : 1024,
        .spans_max = ORACLE_SPANS,
        .kept_count = 2,
        .kept = oracle_kept};
    struct scan first = {.spans = spans};
    const struct scan_kernel *kernel;
    int outcome = -1;

    if (size == 0 || size > 1U << 16) {
        return 0;
    }
    char *copy = malloc(pad + size); /* one more than is used */
    struct slice body = {.ptr = copy + 1, .len = pad + size - 1};
    must(copy != NULL);
    memset(copy, ' ', pad + 1);
    memcpy(copy + 1 + pad, data + 1, size - 1);
    for (unsigned i = 0; (kernel = scan_kernel_nth(i)) != NULL; i++) {
        if (!kernel->usable()) {
            continue;
        }
        if (outcome < 0) {
            outcome = scan_body_with(kernel, body, &limits, &first);
            judge(body, outcome, &first, &limits);
            continue;
        }
        struct scan scan = {.spans = others};
        must(scan_body_with(kernel, body, &limits, &scan) == outcome);
        must(scan.spans_count == first.spans_count &&
             scan.fault_at == first.fault_at && scan.shape == first.shape);
        same_spans(&scan, &first);
        limits.spans_max = SPANS_FEW;
        must(scan_body_with(kernel, body, &limits, &scan) == outcome);
        limits.spans_max = ORACLE_SPANS;
        if (!first.spans_truncated) {
            same_spans(&scan, &first);
        }
    }
    free(copy);
    return 0;
}
