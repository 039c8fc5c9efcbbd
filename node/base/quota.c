/* Who holds how much, by the hash of an address; and how much is too much. */
#include "node/base/quota.h"

#include <netinet/in.h>
#include <string.h>

#include "index/base/rng.h"

void
quota_init(struct quota *quota, uint64_t seed)
{
    memset(quota, 0, sizeof(*quota));
    quota->seed = seed;
}

/* What tells one client from another: a host, or a network of one host. */
static uint64_t
identity(const struct sockaddr *address)
{
    uint64_t high = 0;
    uint32_t v4 = 0;

    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        return ntohl(in->sin_addr.s_addr);
    }
    if (address->sa_family != AF_INET6) {
        return 0;
    }
    const struct sockaddr_in6 *in6 = (const void *)address;
    if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
        memcpy(&v4, in6->sin6_addr.s6_addr + 12, sizeof(v4));
        return ntohl(v4);
    }
    memcpy(&high, in6->sin6_addr.s6_addr, sizeof(high));
    return rng_mix(high) | UINT64_C(1) << 63; /* no IPv4 address is so large */
}

struct quota_bucket *
quota_of(struct quota *quota, const struct sockaddr *address)
{
    uint64_t hash = rng_mix(identity(address) ^ quota->seed);

    return &quota->bucket[hash % QUOTA_BUCKETS];
}

enum quota_verdict
quota_judge(const struct quota_ask *ask)
{
    uint64_t own = ask->own + ask->more;
    uint64_t all = ask->all + ask->more;

    CHECK(own >= ask->own && all >= ask->all);
    if (all > ask->max) {
        return QUOTA_FULL;
    }
    if (ask->cap != 0) {
        return own > ask->cap ? QUOTA_OVER : QUOTA_GRANTED;
    }
    return own > ask->floor && own > ask->max - all ? QUOTA_OVER
                                                    : QUOTA_GRANTED;
}
