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
 *               + weight * of this one, that it does not hold
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
 * as computing them again.
 *
 *   weight      1 + (recompute_weight - 1) / (1 + n / 2), n = heat_milli / 1000
 *
 * But a prefix that many requests ask for at once (n for each of its holders)
 * is copied sooner: waiting for it would cost all of them, computing it once
 * more costs one.
 *
 * Where workers are known to differ in speed (slowness, view/speed.h), what
 * waits at one counts as often as it takes its time:
 *
 *   cost        slowness * (prompts that wait + 256 * requests in flight)
 *               + (weight - 1 + slowness) * of this prompt, not held
 *
 * Only one of the weight's parts is this request's own time; the others are
 * what it takes from later ones, wherever that is. Multiplying all of it keeps
 * prompts away from a slow worker until the others have queued for them.
 *
 * A worker of a pool that another one suits better (node/route/route_pools.h)
 * costs some tokens beside, and so does one of another island
 * (node/view/island.h); these are added to all this. Engines of two pools run
 * different numbers of requests, and those of two islands may, so no load is
 * imbalanced then.
 *
 * A request in flight counts for the memory it holds
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
 * order. A worker above kv_pressure_max is left out as long as any other
 * candidate remains: pressure is a hint, and a hint never refuses a request.
 * By default none is left out. Engines queue what they have no memory for, and
 * where all are nearly full, the one below the limit is drawn by the moment of
 * the last scrape: with 0.95 a fleet at 125 % of its capacity found 30 % in
 * caches instead of 49 % (chaos/replay).
 *
 * A prompt of which nobody holds enough to count is new, and other nodes may
 * get the same one at this moment. Among near-equals its worker is not drawn
 * but hashed (rendezvous, of prefix_key), so that all nodes compute it at one
 * place; a worker with more than 5/4 of the mean load gives way to the next by
 * hash. Where there is no key, or all near-equals are above that bound, chance
 * decides. Different prompts have different hashes, so nodes do not herd.
 *
 * But two different ones meet as often as two draws do. So where near-equals
 * have a share that is this node's for the moment (turn, view/turns.h), they
 * are narrowed to it: prompts that somebody holds, and new ones as long as peers
 * get others than this node.
 *
 * With an SLO (slo.ttft, slo.itl), those that would miss it are left out, if one
 * that keeps it costs at most twice the least cost. So a part of a prompt is
 * computed again where waiting for it would be too long; where nobody answers in
 * time, the rule is what it is without. Without the bound a fleet at 125 % of its
 * capacity copies long prefixes, and 75 % of requests are in time instead of
 * 93 % (b2b). What is in time is known in the rule's own numbers: how many
 * tokens may wait before an answer, its own included, and how many requests may
 * be in flight (view/speed.h). In replays that fill half of the fleet 98 %
 * instead of 89 % of requests meet their times (rag, chaos/replay).
 *
 * Without one, where the cheapest would answer later than 1.5 times the soonest
 * (by the cost with a weight of 1, which is the request's own time) and by more
 * than 3,072 tokens, those that would are left out, with the same bound. An
 * engine computes some thousand tokens in one step: without these a short
 * prompt leaves its prefix for what it would not have waited for (chat: p99 83
 * ms instead of 52).
 *
 * Other policies stand beside for comparison, for engines without a prefix
 * cache, and by the names people know (elect_named_internal.h); none ignores
 * kv_pressure_max.
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
    ELECT_PREFIX_HASH,  /* the same, among those with at most 5/4 of the mean
                          load: bounded loads, Mirrokni, Thorup and
                          Zadimoghaddam 2018 */
    ELECT_CONSISTENT_HASHING, /* the next on a ring (Karger et al. 1997) with
                                 150 places of each worker; the same bound */
    ELECT_CACHE_AWARE, /* the rule of SMG (sgl-router): the least load when
                          imbalanced, or when nobody holds more than 0.3 of the
                          prompt; else who holds the most */
    ELECT_COMPOSITE,   /* the highest sum of 0.6 of overlap, 0.3 of idleness
                          and 0.1 of successes; the least load below 0.3 */
    ELECT_DYNAMO,      /* NVIDIA Dynamo's cost: tokens to compute there, and
                          tokens of requests in flight; softmax of it by
                          policy.temperature */
    ELECT_POLICIES,    /* how many there are */
};

struct elect_config {
    enum elect_policy policy;
    uint32_t cache_threshold_permille; /* of the prompt; 0..1000 */
    uint32_t balance_abs;              /* requests */
    uint32_t balance_rel_permille;     /* 1000 or more */
    uint32_t kv_pressure_max_permille; /* of the KV cache; 0: no limit */
    uint32_t recompute_weight;         /* 0: shares decide, not costs */
    uint32_t split_tokens;             /* for node/route/split.h */
    uint32_t temperature_permille; /* dynamo: 0: the least cost; else the higher
                                      the more is left to chance */
    uint32_t pool_threshold;       /* tokens: see node/route/route_pools.h */
    uint32_t pool_spill;           /* requests */
    bool pool_tune;                /* the threshold is where that begins */
};

/* The only place where defaults are written: the configuration's table and the
 * help of kvasir replay take the same as text. */
#define ELECT_CACHE_THRESHOLD  0.05
#define ELECT_BALANCE_ABS      64
#define ELECT_BALANCE_REL      1.5
#define ELECT_KV_PRESSURE_MAX  1.0
#define ELECT_RECOMPUTE_WEIGHT 6
#define ELECT_SPLIT_TOKENS     512
#define ELECT_POOL_THRESHOLD   8192
#define ELECT_POOL_SPILL       16

#define ELECT_TEXT(macro)     ELECT_TEXT_OF(macro)
#define ELECT_TEXT_OF(value)  #value
#define ELECT_PERMILLE(ratio) ((uint32_t)((ratio)*1000 + 0.5))

#define ELECT_CONFIG_DEFAULT                                               \
    ((struct elect_config){                                                \
        .policy = ELECT_KVASIR,                                            \
        .cache_threshold_permille = ELECT_PERMILLE(ELECT_CACHE_THRESHOLD), \
        .balance_abs = ELECT_BALANCE_ABS,                                  \
        .balance_rel_permille = ELECT_PERMILLE(ELECT_BALANCE_REL),         \
        .kv_pressure_max_permille = ELECT_PERMILLE(ELECT_KV_PRESSURE_MAX), \
        .recompute_weight = ELECT_RECOMPUTE_WEIGHT,                        \
        .split_tokens = ELECT_SPLIT_TOKENS,                                \
        .pool_threshold = ELECT_POOL_THRESHOLD,                            \
        .pool_spill = ELECT_POOL_SPILL})

/* What a request in flight counts among the tokens that wait. */
#define ELECT_REQUEST_TOKENS 256U

/* What one elector carries from request to request. */
struct elect_state {
    uint32_t last; /* slot that round robin chose last */
};

/* What a worker can do in time: arrays like load. */
struct elect_slo {
    const uint32_t *tokens;   /* before an answer begins, that of the request
                                 included */
    const uint32_t *requests; /* in flight, the request included */
};

struct elect_input {
    /* Eligible, serving the model, not yet tried. */
    struct worker_set candidates;
    /* Arrays of WORKERS_MAX by slot, all of them initialised; only candidates'
     * elements matter. */
    const uint32_t *load; /* requests in flight, of all nodes */
    uint32_t unseen; /* requests that other nodes sent out since, expected */
    const uint32_t *queued; /* tokens of prompts that wait there; or NULL */
    /* How many thousandths of the time of a usual worker each takes for the
     * same work, 1 to 8,000 (view/speed.h); or NULL: all as long. */
    const uint32_t *slowness;
    const struct elect_slo *slo; /* kvasir, with queued; NULL: none */
    /* Tokens, at most 1 << 24, that each costs beside, because another pool
     * suits the request, or it is on another island; or NULL: none. */
    const uint32_t *aside;
    const uint16_t *kv_usage; /* permille of the KV cache; or NULL: not known,
                                 or elect_asks_usage() is false */
    const struct radix_match *match; /* NULL: nothing is known */
    uint32_t total_blocks;           /* of the prompt */
    uint32_t unit_tokens;            /* in one of these, about */
    uint32_t heat_milli; /* requests that lately asked for the longest prefix
                            that a candidate holds, for each that does */
    uint64_t prefix_key; /* hash of the prefix; 0: there is none */
    bool hashed; /* kvasir: near-equals are hashed by it, new prefix or not */
    /* An array like load; NULL where only kvasir decides: then nothing is
     * hashed. */
    const uint64_t *identity;
    /* Workers that this node takes first among near-equals (view/turns.h);
     * NULL: none. turn_new: new prefixes, too. kvasir only. */
    const struct worker_set *turn;
    bool turn_new;
    /* Thousandths of a worker's requests that did not fail; composite only, or
     * NULL: all. */
    const uint16_t *success;
};

/* Whether the share of a KV cache that is in use can leave a worker out. */
static inline bool
elect_asks_usage(const struct elect_config *config)
{
    return config->kv_pressure_max_permille != 0 &&
           config->kv_pressure_max_permille < 1000;
}

enum elect_mode {
    ELECT_AFFINITY, /* go where the prefix is */
    ELECT_BALANCE,  /* go where the load is least */
    ELECT_POLICY,   /* another policy than kvasir decided */
    ELECT_SESSION,  /* go where the session is; never of elect_pick() */
};

/* How a worker was found by hash. */
enum elect_hashed {
    ELECT_NOT_HASHED,
    ELECT_HASH_FIRST,    /* the first by hash */
    ELECT_HASH_OVERFLOW, /* a later one: those before have too much load */
    ELECT_HASH_FALLBACK, /* by chance: all near-equals have too much */
};

struct elect_choice {
    uint32_t worker; /* slot, or WORKER_NONE */
    enum elect_hashed hashed;
    enum elect_mode mode;
    uint32_t candidates; /* how many there were */
    uint32_t late;       /* left out for being too late for the SLO */
    uint32_t overlap;    /* blocks that the chosen worker holds */
    uint32_t most;       /* ... and the candidate that holds the most */
    uint32_t load;       /* of the chosen worker */
    uint32_t cost;       /* likewise, in tokens; 0 where costs do not decide */
    bool imbalanced;     /* the load was, by the rule above */
    const char *reason;  /* static text */
};

/* Chooses one of the candidates. Draws from rng only where there is a choice
 * to make. */
void elect_pick(const struct elect_config *config, struct elect_state *state,
                const struct elect_input *input, struct rng *rng,
                struct elect_choice *choice);

/* For elect_explain(): what a worker that is not a candidate lacks. */
struct elect_standing {
    struct worker_set present;   /* each gets a row */
    struct worker_set healthy;   /* otherwise "unhealthy" */
    struct worker_set draining;  /* "draining" */
    struct worker_set open;      /* "circuit open" */
    struct worker_set serves;    /* the model; otherwise "wrong model" */
    struct worker_set spared;    /* "session elsewhere" */
    struct worker_set apart;     /* "other role" */
    struct worker_set too_short; /* "too short" for prompt and answer */
    struct worker_set foreign;   /* "other residency" than the tenant's */
};

/* What each of a worker's columns counts in its cost, in thousandths of a
 * token. */
struct elect_weights {
    uint32_t unread; /* a token of this prompt that is not held there */
    uint32_t queued; /* a token that waits there */
    uint64_t load;   /* a request in flight */
};

struct elect_row {
    uint32_t worker;
    uint32_t overlap; /* blocks */
    uint32_t load;
    /* Of candidates; 0 where costs do not decide: the sum of its columns, each
     * with its weight (composite: see elect_named_internal.h; it has none). */
    uint32_t cost;
    uint32_t unread;
    struct elect_weights weights;
    uint32_t aside;    /* tokens in the cost beside its columns */
    uint32_t slowness; /* permille */
    uint16_t kv_usage; /* permille, 0 when unknown */
    bool candidate;
    /* Why it was out before costs or overlaps were compared: static text, one
     * of the verdicts; NULL: it was not. */
    const char *filter;
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

/* "kvasir", "round_robin", ...: as in the configuration; NULL behind the last. */
extern const char *const elect_policy_names[ELECT_POLICIES + 1];

/* One of them. */
const char *elect_policy_name(enum elect_policy policy);

/* "affinity", "balance", "policy" or "session". Static text. */
const char *elect_mode_name(enum elect_mode mode);

#endif
