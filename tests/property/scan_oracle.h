/*
 * What the body scanner must find, worked out from the object tree of a real
 * JSON library (jansson) by the rules of node/scan/scan.h.
 *
 * Where jansson itself is at odds with RFC 8259 nothing is said: it refuses
 * lone surrogates, NUL in keys, integers over 63 bits and reals that overflow,
 * passes over some zero bytes, and its reals are doubles. Thread: any. Limits: ORACLE_SPANS.
 */
#ifndef TESTS_SCAN_ORACLE_H
#define TESTS_SCAN_ORACLE_H

#include <stdbool.h>

#include "node/scan/scan.h"

#define ORACLE_SPANS 1024

/* Two names for scan_limits.kept, which the scan judged was told to keep. */
extern const struct slice oracle_kept[2];

/*
 * Whether scan, which came of this body with this outcome, is right; else
 * *why says what is wrong with it. A DEPTH outcome is not judged.
 */
bool scan_oracle_agrees(const char *body, size_t len, int outcome,
                        const struct scan *scan, const char **why);

#endif
