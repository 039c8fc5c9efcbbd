/*
 * Bytes of a token: learned here, told to peers and heard of them, published to
 * lanes (node/view/text_models.h).
 *
 * Role: core. Owns: nothing. Thread: control. Limits: those of the rows. Errors:
 * none.
 */
#ifndef NODE_CONTROL_TEXT_H
#define NODE_CONTROL_TEXT_H

#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/role.h"
#include "node/peers/hints.h"
#include "node/view/fleet_view.h"
#include "node/view/text_models.h"

/* Once in a while: models that workers list have rows, peers are told and heard,
 * and lanes read what counts. */
void control_text_pass(struct text_models *models, struct hints *hints,
                       const struct fleet_view *view, struct text_board *board,
                       uint64_t now_us) ON_CONTROL;

/* Prometheus text. */
void control_text_put_metrics(const struct text_models *models,
                              struct buf *out);

#endif
