/*
 * Elects the worker of a request: go where the prefix is (affinity), unless
 * the load says otherwise (balance).
 *
 * The rule, over the candidates (workers that may take the request):
 *
 *   imbalanced  when max_load - min_load > balance_abs
 *               and  max_load > balance_rel * min_load
 *   imbalanced  -> balance:  of the workers within the tolerance of the least
 *               load, one with the least cost
 *   balanced    -> one with the least cost; it is called affinity when that
 *               one holds (nearly) the longest prefix, else balance
 *
 *   cost        in tokens: of prompts that wait at the worker
 *               + recompute_weight * of this one, that it does not hold
 *               + 256 * requests in flight there
 *
 * Loads are requests in flight, and requests differ a thousandfold in what
 * their prompts cost an engine; what waits there is what they wait for. A token
 * to be computed weighs more than one that waits, because it takes its time not
 * from this request alone but from all that come after it, and takes memory
 * from other prefixes. With a weight of 1, prefixes are copied to whoever is
 * idle, and engines that are full compute what they have forgotten (replays:
 * 14 % found in caches where 48 % could be); from 4 to 8 there is little
 * between, and prefixes spread when waiting for them takes some times as long
 * as computing them again. A request in flight counts for the memory it holds
 * and the steps that it is in. An overlap of cache_threshold or less of the
 * prompt counts as none.
 *
 * With a recompute_weight of 0 tokens do not count. Then, and among the ranks
 * of one worker:
 *
 *   imbalanced  -> balance:  of the workers within the tolerance of the least
 *               load, one with the most overlap
 *   balanced, best overlap / total > cache_threshold
 *               -> affinity: one with the most overlap
 *   balanced otherwise
 *               -> balance:  one with the least load
 *
 * "One with" is decided by two random choices among the near-equals (Azar,
 * Broder, Karlin, Upfal 1994; Mitzenmacher 1996): two of them are drawn, the
 * one with the lower cost wins, then the lower load, then more overlap, then
 * the first drawn. A strict best would be the same for every node that holds
 * the same view, and views are as old as the last gossip or scrape: all nodes
 * would send to one worker until they see what they did. Two draws spread them
 * and lose little: among near-equals only two are compared, and with two or
 * fewer of them the result is the exact best.
 *
 * What is near, and within tolerance:
 *
 *   tolerance     a quarter of the spread that counts as imbalance at the
 *                 least load: max(balance_abs, (balance_rel - 1) * min) / 4
 *                 (16 requests at the defaults while min_load is below 128).
 *                 Wide enough to keep some affinity, too narrow to keep the
 *                 imbalance up.
 *   near cost     at most 1/32 above the least; and as for near load, up to the
 *                 level to which unseen requests would fill those that hold as
 *                 much of this prompt as the cheapest, if each of them is one
 *                 like this.
 *   near overlap  at most total / 32 blocks less than the best: recomputing
 *                 3 % of the prompt costs less than standing in a queue.
 *                 Exact equality for prompts under 32 blocks.
 *   near load     at most 1 + min_load / 8 above the least, but when a worker
 *                 is idle only idle ones are near; and up to the level to which
 *                 `unseen` requests would fill all workers, if they went where
 *                 the least is. That is what other nodes have done since: what
 *                 lies below is no longer known to be less loaded (Dahlin 2000,
 *                 "Interpreting stale load information").
 *
 * A retry elects again without the workers that were tried; that is the rank
 * order. A worker above kv_pressure_max would preempt what it runs to take
 * more, so it is left out as long as any other candidate remains: pressure is
 * a hint, and a hint never refuses a request.
 *
 * Simpler policies stand beside for comparison and for engines without a
 * prefix cache; they ignore overlap but not kv_pressure_max.
 *
 * Role: core. Owns: nothing. Thread: any; one owner per elect_state and rng.
 * Limits: WORKERS_MAX. Errors: none: WORKER_NONE when there is no candidate.
 * Cost: measured by tests/bench/bench_elect.c.
 */
#ifndef NODE_ELECT_H
#define NODE_ELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/rng.h"
#include "index/base/slice.h"
#include "index/base/worker_set.h"
#include "index/index.h"

enum elect_policy {
    ELECT_KVASIR,
    ELECT_ROUND_ROBIN,  /* in slot order */
    ELECT_LEAST_LOAD,   /* ties at random; with unseen requests two of those
                           below their level are drawn */
    ELECT_RANDOM,       /* uniform */
    ELECT_POWER_OF_TWO, /* the less loaded of two random ones */
    ELECT_RENDEZVOUS,   /* highest hash of (prefix_key, worker): Thaler and
                           Ravishankar 1998; retries go to the next highest */
};

struct elect_config {
    enum elect_policy policy;
    uint32_t cache_threshold_permille; /* of the prompt; 0..1000 */
    uint32_t balance_abs;              /* requests */
    uint32_t balance_rel_permille;     /* 1000 or more */
    uint32_t kv_pressure_max_permille; /* of the KV cache; 0: no limit */
    uint32_t recompute_weight;         /* 0: shares decide, not costs */
};

#define ELECT_CONFIG_DEFAULT                                \
    ((struct elect_config){.policy = ELECT_KVASIR,          \
                           .cache_threshold_permille = 50,  \
                           .balance_abs = 64,               \
                           .balance_rel_permille = 1500,    \
                           .kv_pressure_max_permille = 980, \
                           .recompute_weight = 6})

/* What a request in flight counts among the tokens that wait. */
#define ELECT_REQUEST_TOKENS 256U

/* What one elector carries from request to request. */
struct elect_state {
    uint32_t last; /* slot that round robin chose last */
};

struct elect_input {
    /* Eligible, serving the model, not yet tried. */
    struct worker_set candidates;
    /* Arrays of WORKERS_MAX by slot, all of them initialised; only candidates'
     * elements matter. */
    const uint32_t *load; /* requests in flight, of all nodes */
    uint32_t unseen; /* requests that other nodes sent out since, expected */
    const uint32_t *queued;   /* tokens of prompts that wait there; or NULL */
    const uint16_t *kv_usage; /* permille of the KV cache; or NULL */
    const struct radix_match *match; /* NULL: nothing is known */
    uint32_t total_blocks;           /* of the prompt */
    uint32_t unit_tokens;            /* in one of these, about */
    uint64_t prefix_key;             /* rendezvous: hash of the prefix */
    const uint64_t *identity;        /* an array like load; rendezvous only */
};

enum elect_mode {
    ELECT_AFFINITY, /* go where the prefix is */
    ELECT_BALANCE,  /* go where the load is least */
    ELECT_POLICY,   /* another policy than kvasir decided */
};

struct elect_choice {
    uint32_t worker; /* slot, or WORKER_NONE */
    enum elect_mode mode;
    uint32_t overlap;   /* blocks that the chosen worker holds */
    bool imbalanced;    /* the load was, by the rule above */
    const char *reason; /* static text */
};

/* Chooses one of the candidates. Draws from rng only where there is a choice
 * to make. */
void elect_pick(const struct elect_config *config, struct elect_state *state,
                const struct elect_input *input, struct rng *rng,
                struct elect_choice *choice);

/* For elect_explain(): what a worker that is not a candidate lacks. */
struct elect_standing {
    struct worker_set present;  /* each gets a row */
    struct worker_set healthy;  /* otherwise "unhealthy" */
    struct worker_set draining; /* "draining" */
    struct worker_set open;     /* "circuit open" */
    struct worker_set serves;   /* the model; otherwise "wrong model" */
};

struct elect_row {
    uint32_t worker;
    uint32_t overlap; /* blocks */
    uint32_t load;
    uint32_t cost;     /* tokens, of candidates; 0 where costs do not decide */
    uint16_t kv_usage; /* permille, 0 when unknown */
    bool candidate;
    const char *verdict; /* static text: "chosen", "less overlap", ... */
};

/*
 * Says for each present worker why it was chosen or not, given what
 * elect_pick() made of the same input. rows has room for WORKERS_MAX; returns
 * how many were filled: the chosen one, then candidates, then the rest, each
 * by falling overlap, rising load, rising slot. load and kv_usage are read for
 * present workers that are no candidates too.
 */
size_t elect_explain(const struct elect_config *config,
                     const struct elect_input *input,
                     const struct elect_standing *standing,
                     const struct elect_choice *choice, struct elect_row *rows);

/* How far above the least load still counts as least, in balance. */
uint32_t elect_tolerance(const struct elect_config *config, uint32_t min_load);

/* "kvasir", "round_robin", ...: as in the configuration. Static text. */
const char *elect_policy_name(enum elect_policy policy);

/* "affinity", "balance" or "policy". Static text. */
const char *elect_mode_name(enum elect_mode mode);

#endif
