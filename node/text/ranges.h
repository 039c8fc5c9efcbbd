/*
 * Ranges of IP addresses, ADDRESS/BITS (CIDR, RFC 4632), and whether an address
 * is in one of them.
 *
 * An IPv4 address and the same one mapped into IPv6 (::ffff:a.b.c.d) are one
 * address here.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: RANGES_MAX. Errors: static
 * texts that say what was expected.
 */
#ifndef NODE_RANGES_H
#define NODE_RANGES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define RANGES_MAX     32
#define RANGE_TEXT_MAX 56 /* a range and its NUL */

struct range {
    uint8_t bytes[16]; /* an IPv6 address, zero behind its bits */
    uint8_t bits;      /* of them; 96 more than written for IPv4 */
};

/* All zero: no range. */
struct ranges {
    uint32_t count;
    struct range range[RANGES_MAX];
};

/* Reads ranges between blanks, or "none". NULL and *ranges; or what was
 * expected, and *ranges is unchanged. */
const char *ranges_parse(struct slice text, struct ranges *ranges) MUST_CHECK;

/* What was expected instead of text; for an empty text, the form of ranges.
 * Static text. */
const char *ranges_want(struct slice text);

/* The range that the address is in; NULL: none. */
const struct range *ranges_find(const struct ranges *ranges,
                                const struct sockaddr *address);

/* The same of an address as text; NULL for a name, too. */
const struct range *ranges_find_host(const struct ranges *ranges,
                                     const char *host);

/* Writes ADDRESS/BITS into out; returns out. */
const char *range_text(const struct range *range, char out[RANGE_TEXT_MAX]);

#endif
