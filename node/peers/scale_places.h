/*
 * Where nodes get requests, for scale.within: members tell their islands
 * (member.h), and how many requests a node sends out per second hints tell
 * (hints.h).
 *
 * Role: core. Owns: nothing. Thread: control. Limits: SCALE_PLACES_MAX islands;
 * further ones are left out. Errors: none.
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

/* This node's own and its peers'. requests: per second, of this node. */
void scale_places_hear(struct cluster *cluster, const char *island,
                       uint64_t requests, struct scale_places *places);

#endif
