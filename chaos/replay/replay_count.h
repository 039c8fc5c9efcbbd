/*
 * What came of requests that real nodes answered, as the result of a replay.
 *
 * Times are those of the client: an answer's first and last token are its first
 * and last chunk with text. Tokens are those of the answer's usage; where it
 * tells none, those of the load, and the chunks. What was promised is what
 * x-kvasir-overlap says of an answer: what the worker held by its engine's word,
 * without what was on its way there, which replay_result has of simulated nodes.
 * Of engines nothing is seen but who answered (x-kvasir-worker), so evictions,
 * their own time, and what nodes told each other are 0.
 *
 * Role: core. Owns: its arrays. Thread: one owner. Limits: LOAD_WORKERS_MAX
 * workers and nodes by name, further ones count as the last. Errors: -ENOMEM.
 */
#ifndef CHAOS_REPLAY_COUNT_H
#define CHAOS_REPLAY_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "chaos/load/load_stats.h"
#include "chaos/replay/replay_world.h"
#include "index/base/check.h"

/* How one request ended. Times are from the start of the load; slices are
 * borrowed for the call. */
struct replay_end {
    uint32_t number; /* of the load */
    enum load_outcome outcome;
    struct slice node;    /* where it was sent */
    struct slice worker;  /* these three: headers; empty: not told */
    struct slice mode;    /* "affinity", ... */
    struct slice overlap; /* "HELD/ALL" */
    struct load_usage usage;
    bool has_usage;
    uint32_t chunks; /* with text */
    uint64_t due_us; /* when it was to be sent; later where all places were
                          taken */
    uint64_t sent_us;
    uint64_t first_us; /* these two: tokens; 0: none came */
    uint64_t last_us;
    uint64_t end_us;
};

struct replay_counted; /* what is kept of a request */

struct replay_count {
    const struct replay_load *load;
    struct load_stats stats;
    struct replay_counted *counted;
    uint32_t counted_count;
    uint64_t *scratch;                   /* two for each request */
    uint64_t computed[LOAD_WORKERS_MAX]; /* tokens, by row of stats.workers */
    uint64_t first_us;                   /* the first one due */
    uint64_t last_us;                    /* the last token of all */
    uint64_t told;               /* answers that said how much was held */
    struct replay_result result; /* sums so far */
    uint32_t slo_ttft_ms;
    uint32_t slo_itl_ms;
    uint32_t short_len; /* tokens of prompt and answer */
};

/* Of setup counts the SLO and short_len. The load is borrowed. 0 or -ENOMEM. */
int replay_count_init(struct replay_count *count,
                      const struct replay_setup *setup,
                      const struct replay_load *load) MUST_CHECK;

/* Frees what it owns. */
void replay_count_fini(struct replay_count *count);

/* A request is sent; each gets one replay_count_end() later. */
void replay_count_sent(struct replay_count *count);

/* A request has ended. */
void replay_count_end(struct replay_count *count, const struct replay_end *end);

/* The result, once all have ended. engines: the share of the busiest one is
 * that of so many, or, if more were seen, of those. Sorts the names of nodes and
 * workers; called once. */
void replay_count_result(struct replay_count *count, uint32_t engines,
                         struct replay_result *result);

#endif
