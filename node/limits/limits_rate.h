/*
 * What can be limited, and how much of it: as configurations write it.
 *
 *   600/min    requests or tokens in any minute; so with /s and /h
 *   none       no limit
 *
 * N/s counts four times N in any four seconds: nodes of a mesh hear of each
 * other too late to keep one second together.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: LIMITS_AMOUNT_MAX. Errors:
 * none; the reader says whether a text is a rate.
 */
#ifndef NODE_LIMITS_RATE_H
#define NODE_LIMITS_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define LIMITS_AMOUNT_MAX UINT32_C(1000000000)

enum limits_of {
    LIMITS_REQUESTS,
    LIMITS_TOKENS,
    LIMITS_CONCURRENT, /* requests open at one time */
    LIMITS_OFS,
};

/* "requests", "tokens", "concurrent". Static text. */
const char *limits_of_name(enum limits_of of);

struct limits_rate {
    uint32_t amount;    /* LIMITS_AMOUNT_MAX at most; 0: no limit */
    uint32_t window_ms; /* 0: of what is open at one time */
};

/* Reads a text as above. False: it is none, and *rate is unchanged. */
bool limits_rate_read(struct slice text, struct limits_rate *rate) MUST_CHECK;

/* The same of what is open at one time: a whole number, 1 or more. */
bool limits_rate_read_open(struct slice text, struct limits_rate *rate)
    MUST_CHECK;

/* Appends it as limits_rate_read() takes it; what is open: the number. */
void limits_rate_print(const struct limits_rate *rate, struct buf *out);

/* What was expected instead of a text that is no rate. Static text. */
#define LIMITS_RATE_WANT \
    "a whole number and /s, /min or /h, such as 600/min, or none"

#endif
