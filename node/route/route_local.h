/*
 * Which model's files a request's tokens can be made by, for lanes and for
 * /admin/explain.
 *
 * Role: core, but for the clock. Owns: nothing. Thread: one that is online in
 * the qsbr. Errors: none.
 */
#ifndef NODE_ROUTE_LOCAL_H
#define NODE_ROUTE_LOCAL_H

#include "node/local/local_table.h"
#include "node/route/route.h"
#include "node/template/template_clock.h"

/*
 * The model of the request in the scratch, by its name or by what engines tell
 * of it (root, parent), and in *kind which engines may get it. NULL: there are
 * no files for it, or its prompt is of ids or media. table may be NULL.
 */
struct local_model *route_local_find(const struct route_scratch *route,
                                     const struct fleet_view *view,
                                     const struct local_table *table,
                                     struct slice body, enum engine_kind *kind);

/* Now, in the place's time: for templates that show it. */
struct template_clock route_local_clock(void);

#endif
