/*
 * What a lookup found: the answers of c-ares as addresses and targets.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: DISCOVER_IPS_MAX addresses
 * and DISCOVER_TARGETS_MAX targets; the others are left out. Errors: outcomes.
 */
#ifndef NODE_RESOLVE_FOUND_INTERNAL_H
#define NODE_RESOLVE_FOUND_INTERNAL_H

#include <ares.h>
#include <stdbool.h>
#include <stddef.h>

#include "mesh/mesh.h"

/* All zero is nothing. */
struct resolve_found {
    size_t ips_count;
    size_t targets_count;
    struct discover_ip ips[DISCOVER_IPS_MAX];
    struct discover_target targets[DISCOVER_TARGETS_MAX];
};

/*
 * Replaces *found by the addresses that ares_getaddrinfo() returned, in their
 * order. The list is borrowed; NULL is empty. Returns FOUND with one address or
 * more; ABSENT when there is no such name or no address; TIMEOUT when no server
 * answered; FAILED for every other status.
 */
enum discover_outcome resolve_found_hosts(struct resolve_found *found,
                                          int status,
                                          const struct ares_addrinfo *list);

/* Whether all of its addresses are IPv6 ones. */
bool resolve_found_no_four(const struct ares_addrinfo *list);

/*
 * The same for the SRV records that ares_search() returned. The answer is a DNS
 * message, any bytes of that size; it is borrowed, and read only when status is
 * ARES_SUCCESS. FAILED also when it cannot be parsed.
 */
enum discover_outcome resolve_found_service(struct resolve_found *found,
                                            int status,
                                            const unsigned char *answer,
                                            int size);

#endif
