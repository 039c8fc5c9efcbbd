/*
 * Says what is wrong with a body, and where: a byte at a time, slowly, and
 * only after the scanner found that something is. Private to scan.
 *
 * A second, independent judgement of the grammar: tests hold the two to the
 * same verdict on every input.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: SCAN_DEPTH_MAX.
 */
#ifndef NODE_SCAN_FAULT_INTERNAL_H
#define NODE_SCAN_FAULT_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"

/* What scan_body() says if ever the two judges disagree. */
#define SCAN_DISPUTED "not JSON"

struct scan_fault {
    const char *what; /* static text; NULL when there is none */
    size_t at;        /* the first byte with which no JSON can go on, or len
                         when the body ends too early; for depth the bracket
                         that is one too many; for a value that is not an
                         object its first byte */
};

/* 0 when body is a JSON object, or a SCAN_E_* and *fault. */
int scan_fault_find(const char *body, size_t len, uint32_t depth_max,
                    struct scan_fault *fault) MUST_CHECK;

#endif
