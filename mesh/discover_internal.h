/*
 * The inside of discover.h: what is known, and what gives way.
 *
 * Role: core. Thread: discovery's.
 */
#ifndef MESH_DISCOVER_INTERNAL_H
#define MESH_DISCOVER_INTERNAL_H

#include "mesh/discover.h"

/* A lookup that took this long is asked for again. */
#define DISCOVER_LOST_US UINT64_C(60000000)

/* A free place, or that of the target left out most often, or NULL. */
struct discover_name *discover_name_room(struct discover *d);

/* An address named by source now (DISCOVER_NONE: the configuration), to be
 * hinted. False, and counted, when there is no room. */
bool discover_address_put(struct discover *d, const char *text,
                          uint32_t source);

/* A good answer of source; returns how many in it were usable. When some
 * were, those it left out have been left out once more. */
size_t discover_take_ips(struct discover *d, uint32_t source,
                         const struct discover_ip *ips, size_t count);
size_t discover_take_targets(struct discover *d, uint32_t source,
                             const struct discover_target *targets,
                             size_t count);

/* All of source's addresses are to be hinted. */
void discover_hint_again(struct discover *d, uint32_t source);

#endif
