/*
 * The inside of discover.h: what is known, and what gives way when a bound is
 * reached.
 *
 * Role: core. Thread: discovery's.
 */
#ifndef MESH_DISCOVER_INTERNAL_H
#define MESH_DISCOVER_INTERNAL_H

#include "mesh/discover.h"

/* A lookup that takes this long is lost and repeated. */
#define DISCOVER_LOST_US UINT64_C(60000000)

/* A free slot, or the slot of the target that was left out most often, or
 * NULL. */
struct discover_name *discover_name_room(struct discover *d);

/* Source (DISCOVER_NONE: the configuration) names this address now: it will be
 * hinted. False, and counted, when there is no room. */
bool discover_address_put(struct discover *d, const char *text,
                          uint32_t source);

/* Takes a good answer of source; returns how many of its addresses were usable.
 * If any was, each known address of source that the answer leaves out counts
 * one more miss. */
size_t discover_take_ips(struct discover *d, uint32_t source,
                         const struct discover_ip *ips, size_t count);
size_t discover_take_targets(struct discover *d, uint32_t source,
                             const struct discover_target *targets,
                             size_t count);

/* Marks all of source's addresses to be hinted. */
void discover_hint_again(struct discover *d, uint32_t source);

#endif
