/*
 * Shows where this node's tokens of a prompt and an engine's differ first.
 *
 * Role: shell. Owns: nothing. Thread: any. Limits: what fits into a line.
 * Errors: none.
 */
#ifndef NODE_LOCAL_DIFFER_H
#define NODE_LOCAL_DIFFER_H

#include "node/local/local_model.h"

/*
 * Two lines in the log: tokens_first_difference, which says at which id of the
 * prompt; and tokens_first_difference_ids, which has both ids from the from-th
 * on and, as ids are a client's text for who has the tokenizer, is for debugging
 * alone.
 */
void local_differ_log(const struct local_model *model, enum local_way way,
                      uint32_t at, uint32_t from, const uint32_t *ours,
                      uint32_t ours_count, const uint32_t *theirs,
                      uint32_t theirs_count);

#endif
