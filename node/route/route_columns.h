/*
 * What an election compared, worker by worker, for those who ask later why a
 * request went where it went: the same rows as elect_explain() makes, noted
 * while they are true.
 *
 * Costs nothing but a branch unless somebody keeps them. Of a split request the
 * worker's that answers are noted, not its prefill half's.
 *
 * Role: core. Owns: nothing. Thread: a lane; the standing also control.
 * Errors: none.
 */
#ifndef NODE_ROUTE_COLUMNS_H
#define NODE_ROUTE_COLUMNS_H

#include "node/route/route.h"
#include "node/view/facts.h"

/* For elect_explain(): what present workers lack for the request that the
 * scratch has read. */
struct elect_standing
route_columns_standing(const struct route_scratch *scratch,
                       const struct route_world *world);

/* Makes the rows of the election that came to this choice. They are kept. */
void route_columns_take(struct route_scratch *scratch,
                        const struct route_world *world,
                        const struct elect_input *input,
                        const struct elect_choice *choice);

/* Notes them, if they are kept. */
static inline void
route_columns_note(struct route_scratch *scratch,
                   const struct route_world *world,
                   const struct elect_input *input,
                   const struct elect_choice *choice)
{
    if (scratch->columns.kept && world->part != ROUTE_PREFILL) {
        route_columns_take(scratch, world, input, choice);
    }
}

/* The row, below columns.count, as a fact; view: as it was noted by. */
void route_columns_read(const struct route_scratch *scratch,
                        const struct fleet_view *view, uint32_t at,
                        struct fact_column *out);

#endif
