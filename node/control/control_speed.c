/* Each second: what was learned of workers goes to lanes, and what follows of it
 * is judged. */
#include "node/config/config_scale.h"
#include "node/control/admin.h"
#include "node/peers/hints_speed.h"

#define SPEED_TELL_US UINT64_C(1000000)

static bool
pool_tune_is_on(struct node_shared *node)
{
    const struct node_live *live = publish_get(&node->live);

    return live->policy.pool_tune != 0;
}

void
control_speed_tell(struct control *control, uint64_t now_us)
{
    struct fleet_board *board = control->node->board;
    struct speed_slo slo[WORKERS_MAX];

    if (now_us >= control->speed_told_us + SPEED_TELL_US) {
        control->speed_told_us = now_us;
        speed_pass(&control->speed.own, now_us);
        hints_share_speed(&control->hints, &control->speed,
                          fleet_view_get(board), now_us);
        control_slo_list(&control->node->slo, fleet_view_get(board), slo);
        control_islands_look(
            &control->islands,
            &(struct control_islands_world){
                .config = &control->node->island,
                .fleet = control->fleet,
                .speed = &control->speed.all,
                .engine_milli = config_scale_price(&control->node->scale)},
            board, slo);
        fleet_board_speed(board, fleet_view_get(board), &control->speed.all,
                          slo);
        control_text_tune(&control->text, pool_tune_is_on(control->node),
                          control->mix, &control->hints, fleet_view_get(board),
                          now_us);
        control_text_pass(&control->text, &control->hints,
                          fleet_view_get(board), &control->node->text, now_us);
        control_scale_turn(control);
        control_scale_look(control, now_us);
        admin_count_ends(control, now_us);
    }
}
