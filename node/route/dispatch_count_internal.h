/*
 * The counters of dispatch.c, one for each outcome.
 *
 * Role: core. Owns: nothing. Thread: the lane's. Limits: none. Errors: none.
 */
#ifndef NODE_DISPATCH_COUNT_INTERNAL_H
#define NODE_DISPATCH_COUNT_INTERNAL_H

#include "node/route/dispatch.h"

/* An attempt ended without an answer. */
void dispatch_count_failure(struct metrics_lane *m, enum dispatch_fault fault);

/* No worker takes a request, of whatever model. */
void dispatch_count_refusal(struct metrics_lane *m,
                            enum dispatch_refusal refusal);

/* A worker answers, and was chosen so. */
void dispatch_count_choice(struct metrics_lane *m,
                           const struct route_choice *choice);

/* The first bytes of a streamed answer's body came. */
void dispatch_count_first_token(struct metrics_lane *m,
                                const struct dispatch *d, uint64_t now_us);

/* The answer is whole: of a stream, how far apart its tokens were. */
void dispatch_count_steps(struct metrics_lane *m, const struct dispatch *d,
                          const struct dispatch_report *report);

/* An answer of that status is passed on. */
void dispatch_count_answer(struct metrics_lane *m, unsigned status);

#endif
