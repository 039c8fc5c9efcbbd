/*
 * What the files of dispatch share. Private to them.
 *
 *   dispatch.c        the request's way
 *   dispatch_split.c  of a split request the prefill worker's half
 *   dispatch_tell.c   what control is told
 *
 * Role: core. Owns: nothing. Thread: one lane.
 */
#ifndef NODE_DISPATCH_INTERNAL_H
#define NODE_DISPATCH_INTERNAL_H

#include "node/route/attempt_internal.h"
#include "node/route/dispatch.h"

/* dispatch_tell.c: a fact that finds no room is lost and counted. */

/* One prefix. */
void dispatch_tell_prefix(struct dispatch_lane *lane,
                          const struct attempt_prefix *prefix) ON_LANE;

/* The worker of a choice, whose request the scratch holds, will hold these if
 * it answers: as text, for when tokens are not known, and as tokens until its
 * own events say so. decided: and in the order of decisions. Returns the ticket
 * under which that is to be settled, or 0. */
uint64_t dispatch_tell_prefixes(struct dispatch_lane *lane,
                                const struct route_choice *choice, bool routed,
                                bool decided) ON_LANE;

/* What was learned under this ticket is all: its answer broke off. Of no ticket,
 * nothing is told. */
void dispatch_tell_broke_off(struct dispatch_lane *lane, uint64_t ticket)
    ON_LANE;

/* learned: an answer of success has begun. Of no ticket, nothing is told. */
void dispatch_tell_settled(struct dispatch_lane *lane, uint64_t ticket,
                           bool learned) ON_LANE;

/* How an attempt went, if that matters. */
void dispatch_tell_outcome(struct dispatch_lane *lane,
                           const struct fleet_lease *lease, bool watched,
                           enum fact_result result) ON_LANE;

/* The prefill worker has computed the prompt. */
void dispatch_tell_prefilled(struct dispatch *d, const struct usage *usage,
                             uint64_t now_us) ON_LANE;

/* Tells what the last election compared, if that is kept: its number, or 0. The
 * caller is online in the qsbr, with the view that it was elected by. */
uint64_t dispatch_tell_columns(struct dispatch_lane *lane,
                               const struct fleet_view *view) ON_LANE;

/* The request has ended. */
void dispatch_tell_decision(struct dispatch *d,
                            const struct dispatch_report *report) ON_LANE;

/* dispatch.c */

static inline struct attempt_counts
dispatch_counts(const struct dispatch *d)
{
    return (struct attempt_counts){.board = d->lane->board,
                                   .rank_inflight = d->lane->rank_inflight};
}

/* An attempt's result, for the circuit breaker. */
enum fact_result dispatch_result_of(const struct dispatch_failure *failure);

/* A failure is remembered, counted, and told the client if it comes to that. */
void dispatch_note_failure(struct dispatch *d,
                           const struct dispatch_failure *failure,
                           const char *worker, const struct fleet_lease *lease)
    ON_LANE;

/* Whether the request may go to one more worker. */
bool dispatch_may_go_on(const struct dispatch *d);

/* It is elected again, or given up: by dispatch_may_go_on(). */
void dispatch_go_on(struct dispatch *d) ON_LANE;

/* dispatch_split.c */

/* Both halves were elected. */
void dispatch_split_elected(struct dispatch *d, uint64_t now_us) ON_LANE;

/* The prefill half is over, whatever became of it. Repeating it is harmless. */
void dispatch_split_leave(struct dispatch *d) ON_LANE;

#endif
