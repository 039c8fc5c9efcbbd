/*
 * How much each client address holds of what all clients share: connections,
 * and bytes of buffers.
 *
 * Nobody's share is fixed. Whoever holds little may take more, and whoever holds
 * much may take more while as much as he holds is still free. So one address
 * alone gets half of everything, two get a third each, and there is always room
 * for the next one that comes. (Choudhury and Hahne, "Dynamic queue length
 * thresholds", 1998.) A fixed limit replaces that where an operator sets one.
 *
 * Addresses are hashed into a fixed number of buckets, by a secret seed, and
 * those that meet in one bucket share its share: nothing is ever searched,
 * added or evicted, and lanes need no lock. An IPv6 address counts as its /64,
 * which is what one host is given.
 *
 * Role: core. Owns: nothing. Thread: any; levels are counters and gauges.
 * Limits: QUOTA_BUCKETS. Errors: none.
 */
#ifndef NODE_QUOTA_H
#define NODE_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "index/base/check.h"
#include "index/base/counter.h"

#define QUOTA_BUCKETS 16384U /* a power of two */

/* What the addresses of one bucket hold. */
struct quota_bucket {
    struct gauge connections;
    struct counter bytes;
};

struct quota {
    uint64_t seed;
    struct quota_bucket bucket[QUOTA_BUCKETS];
};

/* A question: may somebody take `more`? All in one unit. */
struct quota_ask {
    uint64_t own;  /* what he holds */
    uint64_t more; /* what he wants in addition */
    uint64_t all;  /* what everybody holds, he included */
    uint64_t max;  /* ... at most */
    uint64_t cap;  /* what one address may hold; 0: what the free rest allows */
    uint64_t floor; /* what one address may hold whatever is free */
};

enum quota_verdict {
    QUOTA_GRANTED,
    QUOTA_FULL, /* nobody gets that much */
    QUOTA_OVER, /* this address has enough */
};

/* All buckets empty; *quota need not be zero. */
void quota_init(struct quota *quota, uint64_t seed);

/* The bucket of an address of any family, port apart. Good as long as *quota. */
struct quota_bucket *quota_of(struct quota *quota,
                              const struct sockaddr *address);

/* Whether that fits; takes nothing. */
enum quota_verdict quota_judge(const struct quota_ask *ask) MUST_CHECK;

#endif
