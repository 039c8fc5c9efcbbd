/*
 * Makes the n-th allocation of a test fail: malloc, calloc, realloc,
 * aligned_alloc and mmap of our own objects, which are linked with --wrap.
 * Criterion's and the C library's own calls are not touched.
 *
 *   for (uint64_t n = 0; failing_alloc_after(n); n++) {
 *       ... run the path; every failure is an answer, nothing leaks ...
 *   }
 */
#ifndef TESTS_UNIT_FAILING_ALLOC_H
#define TESTS_UNIT_FAILING_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

/* The allocation after n more ones fails, once. False: the one ordered before
 * was never reached, so the path was run with each of its own failing. */
bool failing_alloc_after(uint64_t n);

/* Allocations do not fail any more. */
void failing_alloc_stop(void);

#endif
