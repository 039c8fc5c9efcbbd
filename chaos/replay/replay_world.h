/*
 * A replay: a load through N router nodes and M engines, on virtual time,
 * without faults.
 *
 * A request arrives at a node drawn at random, which elects an engine by the
 * real code (replay_node.h); the engine is the model (engine_model.h). What
 * changes in an engine's cache in a step is known to the nodes that read its
 * events (the first two by rendezvous hash, as in mesh/owner.h) event_us after
 * the end of the step, and to the others gossip_us after that. Decisions, where
 * they travel at all (belief), take gossip_us; so does word of each request
 * that a node sent out, or that ended. Every gauge_us each node tells how many
 * prompt tokens of its requests wait at each engine (sooner once they have grown
 * by much), and how many requests it sends out per second, from which its peers
 * infer what they have not heard of yet; every metrics_us a node learns how full the engines are.
 *
 * Three rows are no router that could be built. They look into the engines'
 * block pools at the moment of the election, know what is queued there and what
 * is on its way, wherever a request arrives (replay_oracle.c).
 * - all_seeing_greedy decides by the rule of kvasir: the distance from kvasir to
 *   it is what knowing late costs.
 * - soonest goes where the first token comes soonest: the prompts before it,
 *   its own, the wait for memory. The distance from all_seeing_greedy to it is
 *   what the rule costs (or saves: it copies prefixes to whoever is idle, and
 *   looks no request ahead).
 * - sticky goes where more than one block of the prompt is cached, and most of
 *   it, else where the fewest tokens were computed.
 * None is an upper bound: replay_bound() is one, and the report says it.
 *
 * A sequential replay knows no time: each request comes when the one before it
 * in the load has ended, and its answer is one token. What is left is who
 * computes what: caches and placement.
 *
 * Islands: what goes to an engine of another one gets there away_us later, the
 * time of the way back included. Events and nodes' messages take what they take
 * within one.
 *
 * What is left out: the time of routing itself and of the network between
 * client, node and engine (below a millisecond, the same for all policies);
 * loss and retries; engines' own names of blocks (all engines of a replay name
 * them alike); more than one model, rank or tier.
 *
 * Role: core. Owns: nodes, engines, what is on its way. Thread: one owner.
 * Limits: WORKERS_MAX engines, REPLAY_NODES_MAX nodes. Errors: -ENOMEM.
 * The same setup and load give the same result, to the last bit.
 */
#ifndef CHAOS_REPLAY_WORLD_H
#define CHAOS_REPLAY_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "chaos/base/virtual_time.h"
#include "chaos/engine/engine_model.h"
#include "chaos/replay/replay_load.h"
#include "chaos/replay/replay_node.h"
#include "chaos/replay/replay_scale.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define REPLAY_NODES_MAX 64U

enum replay_policy {
    REPLAY_KVASIR, /* engines' events, and what is on its way */
    REPLAY_SLO,    /* the same, and its rule knows the SLO */
    REPLAY_SHARES, /* the same, but its rule knows no tokens (elect.h) */
    REPLAY_SPLIT,  /* kvasir, of engines of which some compute prompts and the
                      others go on with them (node/route/split.h) */
    REPLAY_BELIEF, /* the same rule without events: decisions alone */
    REPLAY_ROUND_ROBIN,
    REPLAY_LEAST_LOAD,
    REPLAY_RANDOM,
    REPLAY_POWER_OF_TWO,
    REPLAY_RENDEZVOUS,
    REPLAY_PREFIX_HASH,
    REPLAY_CONSISTENT_HASHING,
    REPLAY_CACHE_AWARE, /* rules of other routers, with what kvasir knows */
    REPLAY_COMPOSITE,
    REPLAY_DYNAMO,
    REPLAY_GREEDY,   /* the rule of kvasir, by one who sees all as it is */
    REPLAY_SOONEST,  /* the same sight, and the soonest first token */
    REPLAY_STICKY,   /* the same sight, and the longest prefix */
    REPLAY_POLICIES, /* how many there are */
};

/* As on the command line; static text. */
const char *replay_policy_name(enum replay_policy policy);
/* False: no such policy. */
bool replay_policy_find(struct slice name, enum replay_policy *policy);

struct replay_setup {
    enum replay_policy policy;
    uint32_t nodes;
    uint32_t engines;
    uint32_t load_permille; /* arrivals come so much faster; pauses do not */
    uint64_t seed;
    uint32_t event_us;
    uint32_t gossip_us;
    uint32_t gauge_us;
    uint32_t metrics_us;
    uint32_t expected_ms;
    uint32_t prefill; /* split: engines for prompts, the first ones; 0: half */
    uint32_t short_engines; /* the first ones take short_len tokens at most;
                               kvasir, slo and shares alone */
    uint32_t short_len;     /* of prompt and answer */
    bool pool_tune;         /* elect.pool_threshold is judged by the load */
    uint32_t transfer_tokens_per_s; /* of a prompt, from one to the other; 0: it
                                       takes no time */
    bool sequential;                /* one node, one request at a time */
    uint32_t slo_ttft_ms;
    uint32_t slo_itl_ms;
    /* How fast each engine is, in thousandths of the engine below; 0: as fast. */
    uint16_t speed_permille[WORKERS_MAX];
    bool same_speed;    /* nodes take all engines for equally fast */
    bool expect_alone;  /* kvasir: peers do not hear of what is on its way */
    bool answers_whole; /* nothing of an answer comes before all of it: when
                           its prompt is computed no node can tell */
    /* Engine i and node i are on island i % islands; a conversation comes to
     * nodes of one island, by these weights. 0 or 1: there is but one. */
    uint32_t islands;
    uint32_t island_weight[REPLAY_ISLANDS_MAX];
    uint32_t away_us; /* to another island and back */
    uint32_t link_ms; /* what nodes count that as */
    /* Engines come and go (replay_scale.h): the first `begin` of them are there
     * from the start. */
    enum replay_scaler scaler;
    uint32_t begin;
    struct scale_config rule;
    /* Arrivals swing about their rate, by so much of it, once in wave_us; 0: they
     * do not. The first is in the valley. */
    uint64_t wave_us;
    uint32_t swing_permille;
    struct elect_config elect;   /* but for its policy */
    struct engine_config engine; /* requests_max, request_tokens_max and events
                                    are the world's affair */
};

/* Measured on two shared cores, or the configuration's own defaults; an H100
 * with Llama 2 70B on four of them (replay_timing.h). */
#define REPLAY_EVENT_US     200U
#define REPLAY_GOSSIP_US    5000U
#define REPLAY_GAUGE_US     55000U
#define REPLAY_METRICS_US   1000000U
#define REPLAY_TRANSFER_TPS 100000 /* 320 kB each, at 32 GB/s */
#define REPLAY_EXPECTED_MS  (CONFIG_EXPECTED_S * 1000U)

enum replay_mode {
    REPLAY_MODE_AFFINITY,
    REPLAY_MODE_BALANCE,    /* no prefix worth it */
    REPLAY_MODE_IMBALANCED, /* balance, for the load */
    REPLAY_MODE_POLICY,
    REPLAY_MODES,
};

/* Of requests that stayed on their island, or left it. */
struct replay_side {
    uint64_t finished;
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t ttft_p50_us;
    uint64_t ttft_p99_us;
};

/* Of all requests of a load. Times are of virtual time. */
struct replay_result {
    uint64_t sent;
    uint64_t finished;
    uint64_t refused; /* longer than an engine's cache, or after such a one */
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t promised_tokens; /* what elections expected of these */
    uint64_t output_tokens;
    uint64_t evicted_blocks;
    uint64_t told_blocks; /* in decisions told to peers, once each */
    uint64_t waited;      /* requests that let peers decide before them */
    uint64_t split;       /* requests of which two engines did a half each */
    uint64_t lost;        /* records and decisions an index had no room for */
    uint64_t ttft_p50_us;
    uint64_t ttft_p90_us;
    uint64_t ttft_p99_us;
    uint64_t whole_p50_us; /* arrival to last token */
    uint64_t whole_p99_us;
    uint64_t itl_p50_us; /* a request's mean time between two tokens */
    uint64_t itl_p99_us;
    struct {
        uint64_t finished;
        uint64_t ttft_p50_us;
        uint64_t ttft_p99_us;
    } pool[2];               /* of short requests, and of long ones */
    uint32_t pool_threshold; /* 0: there is one pool */
    uint64_t within_slo; /* finished requests that met both times of the SLO */
    uint64_t busy_us;    /* of all engines */
    uint64_t took_us;    /* first arrival to last token */
    uint64_t modes[REPLAY_MODES];
    uint32_t imbalance_permille; /* tokens computed by the busiest engine, to
                                    the mean of all */
    uint32_t peak;               /* most requests open at one engine */
    struct replay_side inside;   /* these two where there are islands */
    struct replay_side across;
    struct replay_scaled scaled; /* where engines come and go */
};

struct replay_engine {
    struct engine engine;
    uint64_t wake_us; /* the wake that counts, or VIRTUAL_TIME_NEVER */
    uint32_t open;    /* requests there */
    uint32_t peak;
    uint64_t computed;          /* tokens */
    uint64_t busy_us;           /* in steps */
    uint64_t queued;            /* tokens of prompts without an answer yet */
    uint64_t wanted;            /* blocks that these have yet to take */
    struct event_words changed; /* in the step that runs */
    struct worker_set readers;  /* nodes; REPLAY_NODES_MAX of them at most */
};

/* What a request is while it is under way. */
struct replay_flight {
    uint32_t node;
    uint32_t engine;
    uint32_t queued; /* tokens to compute, as the election saw it */
    uint32_t wanted; /* blocks */
    uint32_t load;   /* requests there before it, as its node knew */
    uint32_t island; /* where its conversation comes from */
    bool waited;     /* for its node's moment */
    bool crossed;    /* its engine is on another one */
    uint64_t arrived_us;
    struct fleet_lease lease;
    bool split;
    bool passed;     /* split: its prompt is computed */
    uint32_t next;   /* split: the engine that goes on */
    uint32_t cached; /* split, passed: tokens, where it was computed */
    struct fleet_lease next_lease; /* split, until passed */
};

/* How many requests a node sends out, evened out as node/peers/hints.c does it. */
struct replay_rate {
    uint32_t sent;    /* since it told last */
    uint64_t milli;   /* per second, in thousandths */
    uint64_t told_us; /* when it told last what waits */
    bool soon;        /* it is about to tell */
};

struct replay_world {
    struct replay_setup setup;
    const struct replay_load *load;
    struct virtual_time time;
    struct rng rng;
    struct replay_engine *engines;
    struct replay_heard heard;
    struct replay_node *nodes; /* one if it sees all, or in sequence */
    uint32_t nodes_count;
    struct replay_rate *rates; /* of the nodes */
    struct replay_flight *flights;
    uint32_t *tokens; /* of one prompt, then of one answer */
    uint64_t *keys;
    uint64_t *ttft_us; /* of finished requests */
    uint64_t *side_us; /* the same: of those inside from the first on, of those
                          across from the last on; NULL: one island */
    uint64_t *pool_us[2]; /* the same of short ones, and of long ones */
    uint64_t *whole_us;
    uint64_t *itl_us; /* of those with two tokens or more: itl_count */
    uint64_t itl_count;
    uint64_t left; /* requests that have not ended */
    uint64_t first_us;
    uint64_t last_us;
    uint64_t root;
    uint32_t *told_queued;  /* tokens, node by node, by engine */
    uint32_t *heard_queued; /* the same, when the others have heard it */
    struct elect_state oracle;
    struct replay_fleet fleet;
    struct replay_result result;
};

/* 0 or -ENOMEM; the load is borrowed and has a request. */
int replay_world_init(struct replay_world *world,
                      const struct replay_setup *setup,
                      const struct replay_load *load) MUST_CHECK;

/* Frees everything of it, the load excepted. */
void replay_world_fini(struct replay_world *world);

/* Lets the next thing happen. 1; 0: all is over; -ENOMEM. */
int replay_world_step(struct replay_world *world) MUST_CHECK;

/* Once all is over. */
void replay_world_result(struct replay_world *world,
                         struct replay_result *result);

/* All of the above in one call. */
int replay_run(const struct replay_setup *setup, const struct replay_load *load,
               struct replay_result *result) MUST_CHECK;

/* Verifies engines, indexes and sums, and once all is over that every node
 * knows every cache to the block; false and *reason (static text). */
bool replay_world_check(const struct replay_world *world, const char **reason);

#endif
