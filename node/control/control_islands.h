/*
 * The islands of the workers, for lanes and for operators: what the way to each
 * costs, and how many requests went there.
 *
 * Role: core. Owns: nothing. Thread: control. Limits: CONTROL_ISLANDS_MAX
 * islands that requests went to; those to further ones are counted together.
 * Errors: none.
 */
#ifndef NODE_CONTROL_ISLANDS_H
#define NODE_CONTROL_ISLANDS_H

#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/role.h"
#include "node/config/config.h"
#include "node/fleet/fleet.h"
#include "node/text/json_out.h"
#include "node/view/island.h"

#define CONTROL_ISLANDS_MAX 64U

/* All zero at first. */
struct control_islands {
    char from[CONFIG_LABEL_MAX]; /* the node's own, of which the counts are */
    uint32_t count;
    struct control_island {
        char to[CONFIG_LABEL_MAX];
        uint64_t requests;
        uint64_t bytes; /* of these and their answers */
    } island[CONTROL_ISLANDS_MAX];
    uint64_t others;
    uint64_t others_bytes;
    uint64_t
        usual_bytes; /* of a request and its answer, of late; 0: not known */
};

/* What the ways to workers are read from. engine_milli: what an engine costs an
 * hour; 0: not known. */
struct control_islands_world {
    const struct config_island *config;
    const struct fleet *fleet;
    const struct speed *speed;
    uint32_t engine_milli;
};

/* Looks at the ways anew, and tells lanes; now and then. The SLO of a worker
 * (an array of WORKERS_MAX by slot) is shortened by the way to it, for there
 * the time goes by. */
void control_islands_look(struct control_islands *islands,
                          const struct control_islands_world *world,
                          struct fleet_board *board, struct speed_slo *slo)
    ON_CONTROL;

/* A request ended that this worker was sent, of so many bytes with its
 * answer. */
void control_islands_take(struct control_islands *islands,
                          const struct fleet_worker *worker, uint64_t bytes);

/* Whether a request of this node left its island for that one. */
bool control_islands_crosses(const struct config_island *config,
                             const char *island);

/* A worker's members of the status, inside its object. */
void control_islands_put_worker(const struct fleet_board *board, uint32_t slot,
                                struct json_out *json);

/* How many requests the node sent to workers, and how many of these left its
 * island: members of the status, inside its object. */
void control_islands_put_sums(const struct control_islands *islands,
                              struct json_out *json);

/* Prometheus text; nothing while the node has no island. */
void control_islands_put_metrics(const struct control_islands *islands,
                                 const struct fleet_board *board,
                                 struct buf *out);

#endif
