/* Notes what elections compared. */
#include "node/route/route_columns.h"

struct elect_standing
route_columns_standing(const struct route_scratch *scratch,
                       const struct route_world *world)
{
    const struct fleet_view *view = world->view;
    struct worker_set apt = route_for_part(world, &view->present);
    struct elect_standing standing = {
        .present = view->present,
        .healthy = view->healthy,
        .draining = view->draining,
        .open = view->open,
        .serves = fleet_view_find_model(view, scratch->model),
        .too_short = scratch->pools.too_short,
        .foreign = scratch->foreign,
        .apart = worker_set_minus(&view->present, &apt),
    };

    if (session_spares(&scratch->session)) {
        standing.spared = scratch->session.spared;
    }
    return standing;
}

void
route_columns_take(struct route_scratch *scratch,
                   const struct route_world *world,
                   const struct elect_input *input,
                   const struct elect_choice *choice)
{
    struct elect_config config =
        session_rule_of(&scratch->session, world->elect);
    struct elect_standing standing = route_columns_standing(scratch, world);
    const struct fleet_board *board = world->board;

    CHECK(scratch->columns.kept);
    scratch->columns.count = (uint32_t)elect_explain(
        &config, input, &standing, choice, scratch->columns.row);
    for (uint32_t i = 0; i < scratch->columns.count; i++) {
        struct elect_row *row = &scratch->columns.row[i];
        row->kv_usage =
            (uint16_t)gauge_read(&board->kv_usage_permille[row->worker]);
    }
}

void
route_columns_read(const struct route_scratch *scratch,
                   const struct fleet_view *view, uint32_t at,
                   struct fact_column *out)
{
    const struct elect_row *row = &scratch->columns.row[at];

    CHECK(at < scratch->columns.count && view->worker[row->worker] != NULL);
    *out = (struct fact_column){
        .slot = row->worker,
        .generation = view->worker[row->worker]->generation,
        .candidate = row->candidate,
        .filter = row->filter,
        .verdict = row->verdict,
    };
    if (row->candidate) {
        out->overlap = row->overlap;
        out->load = row->load;
        out->queued = scratch->queued[row->worker];
        out->unread = row->unread;
        out->aside = row->aside;
        out->cost = row->cost;
        out->slowness = row->slowness;
        out->kv_usage = row->kv_usage;
        out->unread_weight = row->weights.unread;
        out->queued_weight = row->weights.queued;
        out->load_weight = row->weights.load;
    }
}
