/*
 * Shows where this node's tokens of a prompt and an engine's differ first.
 *
 * Role: shell. Owns: nothing. Thread: any. Limits: what fits into a line.
 * Errors: none.
 */
#ifndef NODE_LOCAL_DIFFER_H
#define NODE_LOCAL_DIFFER_H

#include "node/local/local_model.h"

/* One line in the log, tokens_first_difference: both ids from a little before
 * the at-th id of the prompt on, and the text that each makes. */
void local_differ_log(const struct local_model *model, enum local_way way,
                      uint32_t at, const uint32_t *ours, uint32_t ours_count,
                      const uint32_t *theirs, uint32_t theirs_count);

#endif
