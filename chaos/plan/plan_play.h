/*
 * A pool played on virtual time: arrivals of a Poisson process, each a request
 * drawn from the pool's part of the mix, before so many engines, which are
 * those of chaos/engine (their batches, budgets, queues and caches). No prompt
 * shares anything with another.
 *
 * An engine's cache is played in blocks of 16 tokens, in larger ones where all
 * engines would together have more than PLAN_PLAYED_BLOCKS_MAX.
 *
 * Role: core. Owns: samples own their arrays. Thread: one owner.
 * Limits: PLAN_ENGINES_MAX, PLAN_WAITING_MAX requests at an engine; one more is
 * lost, and counts as one that never got an answer.
 * Errors: -ENOMEM.
 */
#ifndef CHAOS_PLAN_PLAY_H
#define CHAOS_PLAN_PLAY_H

#include "chaos/plan/plan_form.h"

#define PLAN_PLAYED_BLOCKS_MAX (UINT64_C(1) << 22)
#define PLAN_WAITING_MAX       2048U

enum plan_route {
    PLAN_ROUND_ROBIN,
    PLAN_LEAST_LOAD, /* the fewest requests in flight */
};

struct plan_play {
    const struct plan_engine *engine;
    struct plan_part part;
    double rate; /* arrivals/s of this part */
    double
        duration_s;   /* in which they arrive; the first fifth is not counted */
    uint32_t engines; /* 1 or more */
    uint32_t slots;   /* an engine's, at most */
    enum plan_route route;
    uint64_t seed;
};

/* Times of requests, in seconds; several plays may add to one. */
struct plan_samples {
    double *ttft;
    double *tpot; /* of answers of two tokens or more */
    uint32_t ttft_count;
    uint32_t tpot_count;
    uint32_t size;
    uint32_t lost;
};

struct plan_latency {
    double ttft_p50;
    double ttft_p99;
    double tpot_p50;
    double tpot_p99;
    uint32_t requests; /* that were counted, lost ones among them */
};

/* No samples; frees those there are. */
void plan_samples_init(struct plan_samples *samples);
void plan_samples_fini(struct plan_samples *samples);

/* Plays the pool until the last answer ends, and adds what was counted. */
int plan_play(const struct plan_play *play, struct plan_samples *samples)
    MUST_CHECK;

/* Sorts the samples. INFINITY where so many were lost. */
struct plan_latency plan_samples_latency(struct plan_samples *samples);

#endif
