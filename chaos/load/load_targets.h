/*
 * The addresses that a load goes to: those of a name. Each request has its own
 * order of them, so that every turn of a conversation may reach another node.
 * An address that failed comes last for as long as it is avoided.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: LOAD_TARGETS_MAX, the
 * rest of an answer is left out.
 */
#ifndef CHAOS_LOAD_TARGETS_H
#define CHAOS_LOAD_TARGETS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "mesh/mesh.h"

#define LOAD_TARGETS_MAX      64U
#define LOAD_TARGETS_AVOID_US UINT64_C(5000000)

struct load_target {
    struct sockaddr_storage address; /* port included */
    uint64_t key;                    /* of the address, for the order */
    uint64_t avoid_us;               /* avoided until then; 0: not avoided */
};

struct load_targets {
    uint32_t count;
    struct load_target target[LOAD_TARGETS_MAX];
};

/* Sets the name's present addresses. Those that stay are avoided as before. */
void load_targets_set(struct load_targets *targets,
                      const struct discover_ip *ips, size_t count,
                      uint16_t port);

/* Where a request goes that failed at the targets of these keys: to another
 * one, or around again when there is none; NULL: there is nowhere. request: a
 * hash of which one it is. */
const struct load_target *
load_targets_pick(const struct load_targets *targets, uint64_t request,
                  const uint64_t *tried, uint32_t tried_count, uint64_t now_us);

/* Nobody answered at the target of that key, if it is still one. */
void load_targets_failed(struct load_targets *targets, uint64_t key,
                         uint64_t now_us);

#endif
