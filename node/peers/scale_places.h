/*
 * Where nodes get requests, for scale.within: each tells its peers the name of its
 * island, as gauges of its own, in pieces; how many requests it sends out per
 * second hints tell already (hints.h).
 *
 * Role: core. Owns: nothing. Thread: control. Limits: SCALE_PLACES_MAX islands;
 * further ones are left out. Errors: none; a row without room is told by the
 * next call.
 */
#ifndef NODE_SCALE_PLACES_H
#define NODE_SCALE_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "mesh/mesh.h"
#include "node/config/config.h"
#include "node/scale/scale_pool.h"

/* Islands that have nodes, each once; this node's own is the first. */
struct scale_places {
    uint32_t count;
    struct scale_place_of {
        char island[CONFIG_LABEL_MAX]; /* "": not told */
        uint64_t requests;             /* per second, of its nodes */
    } place[SCALE_PLACES_MAX];
};

/* Tells peers where this node is. */
void scale_places_tell(struct cluster *cluster, const char *island,
                       uint64_t now_us);

/* This node's own and what its peers told. A peer that has told no island yet
 * is left out. requests: per second, of this node. */
void scale_places_hear(struct cluster *cluster, const char *island,
                       uint64_t requests, struct scale_places *places);

#endif
