/*
 * Islands: where workers are, and what the way there costs.
 *
 * An island is a label of parts between slashes, cloud/region/zone or as much of
 * that as matters. A prefix of whole parts names all islands below it: `eu` is
 * that of eu and of eu/fra, not of europe.
 *
 * The way from this node's island to a worker's costs a time: what the longest
 * row of island.links says that has both, whichever way round; nothing where
 * one label is a prefix of the other; else what is measured, the shortest round
 * trip to a worker there less that to a worker of its own island. A round trip
 * has the engine's own time in it, which the difference leaves out. Workers
 * without a label cost nothing, and without island.name none does.
 *
 * An election counts in tokens of a usual worker of the model, so the time
 * becomes what such a worker computes in it (view/speed.h; ISLAND_RATE until
 * that is known). It is added to the worker's cost, less the least among the
 * candidates: staying inside is worth so much, and no more. Where a row has a
 * price, what the bytes of a usual request of this node cost there becomes the
 * time for which an engine costs as much, and is added. So a new
 * conversation leaves when its island has that much more to do, one whose prefix
 * is held here later, because the prefix weighs more; and when no worker of the
 * island is left, all of it.
 *
 * Role: core. Owns: nothing. Thread: island_costs() and island_tell() by
 * control, the others by any. Limits: WORKERS_MAX. Errors: none.
 */
#ifndef NODE_ISLAND_H
#define NODE_ISLAND_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/role.h"
#include "index/base/slice.h"
#include "index/base/worker_set.h"
#include "node/config/config.h"
#include "node/view/fleet_view.h"
#include "node/view/speed.h"

#define ISLAND_RATE       UINT32_C(8000) /* prompt tokens a second */
#define ISLAND_TOKENS_MAX (UINT32_C(1) << 23)

/* Whether the label is the prefix, or below it. An empty label is in none. */
bool island_within(struct slice label, struct slice prefix);

/* The same with any of the prefixes, between blanks. */
bool island_in_any(struct slice label, struct slice prefixes);

/* Those of the set whose islands are in any of the prefixes. */
struct worker_set island_residents(const struct fleet_view *view,
                                   const struct worker_set *set,
                                   struct slice prefixes);

/* The row that counts for a way between two labels; NULL: none. What it says, in
 * us; UINT32_MAX: nothing. */
const struct config_link *island_link(const struct config_links *links,
                                      struct slice a, struct slice b);
uint32_t island_link_us(const struct config_links *links, struct slice a,
                        struct slice b);

/* What the way to a worker costs. */
struct island_cost {
    uint32_t link_us;
    uint32_t away_us; /* as measured, whatever the table says */
    uint32_t paid_us; /* its price, as an engine's time */
    bool crosses;     /* it is of another island, whatever that costs */
};

/*
 * Of each present worker, into an array of WORKERS_MAX by slot. round_us: the
 * shortest round trip to each lately, by slot; 0: none is known. True: some cost
 * anything, or are of other islands.
 */
bool island_costs(const struct config_island *island,
                  const struct fleet_view *view, const uint32_t *round_us,
                  struct island_cost *cost);

/* Adds what a request of so many bytes costs. engine_milli: what an engine does an
 * hour; 0: not known, and nothing is added. True: something was. */
bool island_pay(const struct config_island *island,
                const struct fleet_view *view, uint64_t bytes,
                uint32_t engine_milli, struct island_cost *cost);

/* Tells lanes. any: as island_costs() said. */
void island_tell(struct fleet_board *board, const struct fleet_view *view,
                 const struct speed *speed, const struct island_cost *cost,
                 bool any) ON_CONTROL;

/*
 * What the ways to the candidates cost beside the cheapest of them, in tokens,
 * plus what is in `more` (NULL: nothing), into an array of WORKERS_MAX by slot,
 * for elect.h. False: all cost the same, and the array is of no use.
 */
bool island_aside(const struct fleet_board *board,
                  const struct worker_set *candidates, const uint32_t *more,
                  uint32_t *aside);

#endif
