/*
 * An attempt at a worker: what it counts while it lasts, and which prefixes
 * control is told of. dispatch.c decides when it begins and ends.
 *
 *   route_elect(..., tried, rng, &choice)        takes a lease
 *   attempt_begin(&choice, ...)                 counts unread tokens
 *   attempt_prefixes(&choice, ...)               -> FACT_LEARN, FACT_EXPECT
 *   attempt_decided(&choice, ...)                -> FACT_DECIDED
 *   fleet_lease_answered(&choice.lease, board)   a head came
 *   fleet_lease_began(&choice.lease, board)      ... and a body begins
 *   attempt_fail(&choice, ..., &tried)           no head came: elect again
 *   attempt_end(&choice, ...)                    nothing of it is in flight
 *
 * Role: core. Owns: nothing. Thread: one owner per choice; the counts any.
 * Limits: none of its own. Errors: none.
 */
#ifndef NODE_ATTEMPT_INTERNAL_H
#define NODE_ATTEMPT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/role.h"
#include "node/route/route.h"
#include "node/view/facts.h"
#include "node/view/fleet_view.h"

/* Where attempts are counted; the counters outlive each attempt. */
struct attempt_counts {
    struct fleet_board *board;
    struct gauge *rank_inflight; /* WORKERS_MAX, by slot of the mirror */
};

/* A request was elected to the worker in choice, which has so many tokens of it
 * to read: route_unread_tokens(). */
void attempt_begin(struct route_choice *choice, uint64_t unread,
                   const struct attempt_counts *counts) ON_LANE;

/* Where a prompt's blocks went, for control: a struct fact_learn, with keys
 * that are valid as long as scratch holds the request. */
struct attempt_prefix {
    enum fact_kind kind;
    uint32_t slot;
    uint32_t generation;
    uint32_t owner;
    uint32_t from;
    uint32_t held;
    uint32_t count; /* FACT_KEYS_MAX at most, the end left out */
    uint64_t root;
    uint64_t ticket;
    const uint64_t *keys;
    uint64_t end; /* FACT_EXPECT: one more key, after these; 0: none */
};

static inline size_t
attempt_prefix_size(const struct attempt_prefix *prefix)
{
    return sizeof(struct fact_learn) +
           (prefix->count + (prefix->end != 0)) * sizeof(*prefix->keys);
}

/* fact: as large as that. */
void attempt_prefix_write(const struct attempt_prefix *prefix,
                          struct fact_learn *fact);

/*
 * FACT_LEARN, of no blocks unless `text`: the request's text was split; then,
 * if it is known where they will be, FACT_EXPECT of the blocks of tokens that
 * are not held there, and of the prompt's end where windows are kept. Returns
 * how many.
 */
uint32_t attempt_prefixes(const struct route_choice *choice,
                          const struct route_scratch *scratch, bool text,
                          struct attempt_prefix prefixes[2]);

/* FACT_DECIDED: the prompt's place in the order of decisions. False: it is not
 * known where its tokens go, or they are too few. Overwrites the scratch's kept
 * keys. */
bool attempt_decided(const struct route_choice *choice,
                     const struct route_scratch *scratch,
                     struct attempt_prefix *prefix) MUST_CHECK;

/* FACT_SESSION: what the worker has of the request's session then. False:
 * nothing that is to be learned. */
bool attempt_session(const struct route_choice *choice,
                     const struct route_scratch *scratch,
                     struct attempt_prefix *prefix) MUST_CHECK;

/* Control counts successes of a worker that is watched only (fleet_view.h). */
static inline bool
attempt_matters(enum fact_result result, bool watched)
{
    return result != FACT_ANSWERED || watched;
}

/* The attempt ended without an answer: the next election leaves that worker
 * out. blamed: the worker, and not this node. */
void attempt_fail(struct route_choice *choice,
                  const struct attempt_counts *counts, struct worker_set *tried,
                  bool blamed) ON_LANE;

/* Nothing of the attempt is in flight any more. Does nothing if it has ended
 * already. */
void attempt_end(struct route_choice *choice,
                 const struct attempt_counts *counts) ON_LANE;

#endif
