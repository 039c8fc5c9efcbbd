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

/* A worker answers, and was chosen so. */
void dispatch_count_choice(struct metrics_lane *m,
                           const struct route_choice *choice);

/* The first bytes of a streamed answer's body came. */
void dispatch_count_first_token(struct metrics_lane *m,
                                const struct dispatch *d, uint64_t now_us);

/* The answer is whole: of a stream, how far apart its tokens were. */
void dispatch_count_steps(struct metrics_lane *m, const struct dispatch *d,
                          const struct dispatch_report *report);

/* Whether its answer tells what became of its prediction: the engine told what
 * it had, of this prompt alone, and all of that at this worker. */
bool dispatch_judges(const struct dispatch *d,
                     const struct dispatch_report *report);

/* Of an answer that judges: the tokens of its prompt that might have come from a
 * cache. They are the most that a candidate held when it was placed, or what
 * did come, where that is more. */
uint32_t dispatch_possible(const struct dispatch *d, const struct usage *usage);

/* The answer is whole: what came from a cache, and what might have. */
void dispatch_count_cached(struct metrics_lane *m, const struct dispatch *d,
                           const struct dispatch_report *report);

#endif
