/*
 * How much one engine gets done, and how many are needed, by formulas.
 *
 * The closed form (arXiv 2604.09613) fills all slots with requests of the pool:
 *
 *   t(n) = W + H * n        S = (ceil(prompt / chunk) + output) * t(slots)
 *   rate = slots / E[S]     engines = ceil(arrivals / rate * beta)
 *
 * It leaves out what decides on real engines, so the corrected form has
 *
 * - the step's other costs: prompt tokens, the context that attention reads,
 *   pairs of prompt tokens, all at the mean of a full batch;
 * - one budget of tokens a step, which all prompts of an engine share, where the
 *   closed form gives each a chunk of its own;
 * - a cache that holds what requests need, as paged caches do, where the closed
 *   form reserves the longest length that is permitted;
 * - the time between tokens that was promised: no larger batch than keeps it;
 * - queueing in place of beta: waits are those of one queue before all slots
 *   (Erlang C; general service times by Kimura's factor), and their 99th
 *   percentile and the prefill of a prompt that is longer than 99 % must
 *   together keep the promised time to the first token.
 *
 * One queue is what a router that knows the load comes near to; with round robin
 * more is needed, see the simulation (plan_play.h).
 *
 * Role: core. Owns: nothing. Thread: any. Limits: PLAN_ENGINES_MAX.
 * Errors: a size of 0 engines, see there.
 */
#ifndef CHAOS_PLAN_FORM_H
#define CHAOS_PLAN_FORM_H

#include "chaos/plan/plan_engine.h"
#include "chaos/plan/plan_mix.h"

#define PLAN_ENGINES_MAX 100000U

/* What is promised to clients. */
struct plan_slo {
    uint32_t ttft_ms;
    uint32_t tpot_ms; /* a request's mean time between tokens */
};

/* The requests of one pool, and what it must do. */
struct plan_demand {
    struct plan_part part;
    double rate;              /* arrivals/s of this part */
    uint32_t max_len;         /* longest permitted total */
    uint32_t cached_permille; /* of prompts' tokens: not computed */
    struct plan_slo slo;
};

struct plan_size {
    uint32_t batch;   /* sequences in an engine that is full */
    double step_s;    /* of such a one */
    double rate;      /* requests/s that it gets done */
    uint32_t engines; /* 0: none does it (max_len does not fit, or
                         PLAN_ENGINES_MAX are too few), or no demand */
    bool late; /* corrected: a long prompt's prefill alone takes longer than
                  ttft_ms, or one sequence's step longer than tpot_ms, so that
                  no number of these engines keeps the promise */
};

/* beta: what the fleet has beside the mean, as 1.08. */
struct plan_size plan_closed(const struct plan_engine *engine,
                             const struct plan_demand *demand, double beta);

/* The same by the corrected form, which sets `late`, too. */
struct plan_size plan_corrected(const struct plan_engine *engine,
                                const struct plan_demand *demand);

/* The share of arrivals that wait, before `servers` of which `busy` are busy on
 * average (Erlang C); 1 when these are too few. */
double plan_erlang_c(uint64_t servers, double busy);

#endif
