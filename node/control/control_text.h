/*
 * What is learned by model, told to peers and heard of them, published to lanes
 * (node/view/text_models.h): bytes of a token, and where the threshold between
 * pools should be (node/view/pool_tune.h).
 *
 * Role: core. Owns: nothing. Thread: control. Limits: those of the rows. Errors:
 * none.
 */
#ifndef NODE_CONTROL_TEXT_H
#define NODE_CONTROL_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/role.h"
#include "node/peers/hints.h"
#include "node/view/fleet_view.h"
#include "node/view/mix.h"
#include "node/view/text_models.h"

#define CONTROL_POOLS_US UINT64_C(600000000) /* between two verdicts */

/* Once in a while: models that workers list have rows, peers are told and heard,
 * and lanes read what counts. */
void control_text_pass(struct text_models *models, struct hints *hints,
                       const struct fleet_view *view, struct text_board *board,
                       uint64_t now_us) ON_CONTROL;

/* Before that: judges the thresholds of models with two pools whose time it is.
 * on: policy.pool_tune; without it none is told, and none counts. */
void control_text_tune(struct text_models *models, bool on,
                       const struct mix *mix, struct hints *hints,
                       const struct fleet_view *view, uint64_t now_us)
    ON_CONTROL;

/* Prometheus text. */
void control_text_put_metrics(const struct text_models *models,
                              struct buf *out);

#endif
