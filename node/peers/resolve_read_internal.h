/*
 * DNS answers to addresses and targets.
 *
 * Of the answer section every record of the wanted type counts, whatever its
 * owner: behind a CNAME the resolver has put the records of another name. What
 * does not parse is left out, and so is all behind it.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: struct resolve_found; more
 * than fits is left out. Errors: none; hostile bytes name less.
 */
#ifndef NODE_RESOLVE_READ_INTERNAL_H
#define NODE_RESOLVE_READ_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "mesh/mesh.h"

struct resolve_found {
    size_t ips_count;
    size_t targets_count;
    struct discover_ip ips[DISCOVER_IPS_MAX];
    struct discover_target targets[DISCOVER_TARGETS_MAX];
};

enum resolve_type {
    RESOLVE_A,
    RESOLVE_AAAA,
    RESOLVE_SRV,
};

/* Adds what a whole DNS message answers; 0 bytes or more of anything. */
void resolve_read(const uint8_t *bytes, size_t size, enum resolve_type type,
                  struct resolve_found *found);

/* Adds the address of an IPv4 or IPv6 socket address; others are left out. */
void resolve_add(struct resolve_found *found, const struct sockaddr *address);

#endif
