/*
 * Bytes of a token, among the gauges that a node tells its peers (hints.h): a
 * row for each model and kind of text of which its own requests have taught it
 * something (struct text_told), under a name that is the same on all nodes. Nodes
 * of earlier versions keep such rows as those of a worker that they do not have.
 * Beside them each model has a row of the threshold between its pools.
 *
 * Role: core. Owns: nothing. Thread: control. Limits: rows that gossip has no room
 * for are counted. Errors: none.
 */
#ifndef NODE_HINTS_TEXT_H
#define NODE_HINTS_TEXT_H

#include <stdint.h>

#include "node/peers/hints.h"
#include "node/view/text_models.h"

/* Tells peers what this node's requests have taught of the row, and sets what
 * counts: that, and what they tell. */
void hints_share_text(struct hints *hints, struct text_model *row,
                      uint64_t now_us);

/* Tells peers what this node has found of the model's pools, and sets the
 * threshold that counts: what that and theirs lead to (pool_tune.h). */
void hints_share_pool(struct hints *hints, struct text_model *row,
                      uint64_t now_us);

#endif
