/*
 * Where nodes and workers are, beside one another.
 *
 * An island is a label of parts between slashes, cloud/region/zone or as much of
 * that as matters (node/view/island.h). Here it is one number for each prefix of
 * whole parts, so that two labels are compared without their texts. Parts behind
 * the last number that there is count as one.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: ISLAND_PARTS. Errors: none.
 */
#ifndef MESH_ISLAND_PATH_H
#define MESH_ISLAND_PATH_H

#include <stdint.h>

#include "index/base/slice.h"

#define ISLAND_PARTS 3U

/* All zero: no label. */
struct island_path {
    uint64_t part[ISLAND_PARTS]; /* of the first part, of the first two, ...; 0:
                                    there are no more */
};

/* Of a label; "": all zero. */
struct island_path island_path_of(struct slice label);

/* How many parts both begin with. */
uint32_t island_path_shared(const struct island_path *a,
                            const struct island_path *b);

/* The widest part of the fleet that `there` is in and `here` is not; 0: neither
 * is outside of the other's. Where one label is the beginning of the other, they
 * are together. */
uint64_t island_path_apart(const struct island_path *here,
                           const struct island_path *there);

#endif
