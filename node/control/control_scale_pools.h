/*
 * What may be bought for a group of engines (node/scale/scale_pool.h), as this
 * node sees it: the pools of the configuration with what is in them, the places
 * where nodes get requests, the ways between them, and the money.
 *
 * An engine is in the pool that it was asked of; one that nobody asked for, in
 * that whose name is its worker's `pool`. A way is what island.links says,
 * nothing where one label is a prefix of the other or is not told, else what
 * this node measures to a worker of that island that answers, from its own;
 * from elsewhere it is not known.
 *
 * Role: core. Owns: nothing. Thread: control. Limits: those of scale_pool.h.
 * Errors: none.
 */
#ifndef NODE_CONTROL_SCALE_POOLS_H
#define NODE_CONTROL_SCALE_POOLS_H

#include "index/base/buf.h"
#include "index/base/role.h"
#include "index/base/worker_set.h"
#include "node/config/config.h"
#include "node/peers/scale_places.h"
#include "node/peers/scale_seat.h"
#include "node/scale/scale_pool.h"
#include "node/text/json_out.h"
#include "node/view/fleet_view.h"

/* What all of it is read from; all of it borrowed. */
struct control_scale_world {
    const struct config_scale *config;
    const struct config_island *island;
    const struct fleet_board *board;
    struct scale_seat *seat;
    const struct scale_places *places;
    const struct worker_set *stays; /* workers that count as engines */
    uint64_t now_us;
};

/* The name of the pool that a worker's engine is in; "": of none that has a
 * name. */
const char *control_scale_pool_of(const struct control_scale_world *world,
                                  uint32_t slot);

/* Whether an engine was asked of a pool that the configuration has no more, so
 * that nobody can end it. */
bool control_scale_is_orphan(const struct config_scale *config,
                             const struct scale_job *job);

/* What an engine of that pool costs an hour. */
uint32_t control_scale_price(const struct config_scale *config,
                             const char *pool);

/* Of the group of that model, whose workers are `set`. */
void control_scale_market(const struct control_scale_world *world,
                          const char *model, const struct worker_set *set,
                          struct scale_market *market);

/* A member `pools`, a list with each pool and why it may be asked or not;
 * nothing where none has a name. */
void control_scale_put_pools(const struct config_scale *config,
                             const struct scale_market *market,
                             struct json_out *json);

#endif
