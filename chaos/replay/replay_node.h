/*
 * One router node of a replay: the real election over the real indexes, on
 * virtual time, without the process around them.
 *
 * A node knows of the engines what it was told: by their events
 * (replay_heard.h, replay_node_confirm()), by its own and its peers' decisions,
 * and by gauges. replay_world.h decides when it is told.
 *
 * Role: core. Owns: its indexes. Thread: one owner. Limits: WORKERS_MAX
 * engines, which sit in the slots 0, 1, ... of the fleet.
 * Errors: -ENOMEM from replay_node_init(); later, an index that is full knows
 * less, which its statistics count.
 */
#ifndef CHAOS_REPLAY_NODE_H
#define CHAOS_REPLAY_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "chaos/replay/replay_expect.h"
#include "chaos/replay/replay_heard.h"
#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/rng.h"
#include "index/index.h"
#include "node/node.h"

#define REPLAY_ISLANDS_MAX 8U

struct replay_node_config {
    const struct replay_heard *heard; /* borrowed: what engines' events told */
    uint32_t number;                  /* of the node there */
    struct elect_config elect;
    uint32_t engines;
    uint32_t prefill; /* the first ones compute prompts for the others; 0: all
                         engines do all of a request */
    uint32_t short_engines; /* the first ones take short_len tokens at most */
    uint32_t short_len;
    uint32_t engine_blocks; /* of each one's cache */
    uint32_t block_tokens;
    uint32_t depth_max;   /* blocks of the longest prompt */
    uint32_t expected_ms; /* how long a decision counts as on its way */
    struct speed_slo slo; /* of all engines */
    /* Engine i and node i are on island i % islands. Another one is away_us
     * away, there and back, and nodes count that as link_ms. */
    uint32_t islands; /* 0 or 1: there is but one */
    uint32_t island;  /* the node's */
    uint32_t away_us;
    uint32_t link_ms;
    struct turns_place place; /* among the nodes */
    bool events; /* engines publish events; otherwise there is only belief */
};

/* A request as a router sees it. */
struct replay_prompt {
    uint64_t root;
    const uint64_t *keys; /* of the full blocks */
    uint32_t blocks;
    uint32_t tokens;
    uint32_t answer; /* tokens that it allows */
    uint64_t family; /* for rendezvous hashing */
};

struct replay_choice {
    uint32_t engine;
    enum elect_mode mode;
    bool imbalanced;
    uint32_t promised; /* tokens that the node expects to be cached */
    uint32_t known; /* blocks of which peers are not to be told: held there, or
                       on their way before */
    uint32_t load;  /* requests there before it, as far as is known */
    struct fleet_lease lease;
    bool split; /* another engine computes the prompt; promised and known are of
                   that one */
    uint32_t prefill;
    struct fleet_lease prefill_lease;
    uint32_t known_next; /* as known, of `engine` */
};

struct replay_node {
    struct replay_node_config config;
    struct route_scratch scratch;
    struct qsbr qsbr;
    struct qsbr_reader *reader;
    struct radix *belief;
    const struct mirror *mirror;
    uint16_t slot[WORKERS_MAX]; /* of the mirror, by engine */
    struct replay_expect *expect;
    struct decided *decided;
    struct mirror_view mirrors;
    struct fleet_models models;
    struct fleet_worker *workers;
    struct fleet_view view;
    struct fleet_board *board;
    struct speed_shared speed;
    struct island_cost *cost; /* of the ways to engines; NULL: one island */
    struct twice twice;
    struct turns turns;
    uint32_t peers_said[WORKERS_MAX]; /* tokens that wait for peers' requests */
    struct gauge rank_inflight[WORKERS_MAX];
    struct route_world world;
    struct rng rng;
    uint64_t *kept_keys; /* depth_max, and one more, of one prompt */
    uint64_t lost;       /* blocks that some index had no room for */
};

/* Makes the indexes; all engines are healthy and empty. 0 or -ENOMEM; after
 * that nothing is to be freed. */
int replay_node_init(struct replay_node *node,
                     const struct replay_node_config *config, uint64_t seed)
    MUST_CHECK;

/* Frees the indexes. */
void replay_node_fini(struct replay_node *node);

/* Elects an engine for a prompt, takes a lease there and expects the prompt's
 * blocks there from now on; or has it wait so many us for the node's moment and
 * come again, unless it `waited`, which are returned. 0: *choice is filled in. */
uint32_t replay_node_elect(struct replay_node *node,
                           const struct replay_prompt *prompt, bool waited,
                           uint64_t now_us, struct replay_choice *choice)
    MUST_CHECK;

/* The engine must compute this many tokens of a lease's prompt. */
void replay_node_queue(struct replay_node *node, struct fleet_lease *lease,
                       uint32_t tokens);
/* Its answer has begun: its tokens wait no longer. */
void replay_node_began(struct replay_node *node, struct fleet_lease *lease);

/* ... so long after it was sent. */
void replay_node_timed(struct replay_node *node,
                       const struct fleet_lease *lease, uint64_t us);
/* Its tokens came so far apart; load: of struct replay_choice. */
void replay_node_stepped(struct replay_node *node,
                         const struct fleet_lease *lease, uint32_t load,
                         uint64_t us);
/* The engine takes requests from now on, or none any more. */
void replay_node_serve(struct replay_node *node, uint32_t engine, bool on);

/* Requests in flight that one of the engines is good for within the SLO; 0: not
 * known, or there is none. */
uint32_t replay_node_capacity(const struct replay_node *node,
                              const struct worker_set *engines);

/* What was learned of engines' speeds decides from now on: here, and at the
 * other ones of so many nodes, which it may be among. */
void replay_node_speed(struct replay_node *node, const struct replay_node *all,
                       uint32_t count, uint64_t now_us);

/* The request of a lease has ended. */
void replay_node_leave(struct replay_node *node, struct fleet_lease *lease);

/* Words of an engine's events (event.h), which are in the mirror: what they tell
 * is not expected any more. */
void replay_node_confirm(struct replay_node *node, uint32_t engine,
                         const uint64_t *words, uint32_t count);

/* These blocks of a prompt went to an engine: a peer's decision. They are
 * believed to be there; with events, expected until one tells. */
void replay_node_learn(struct replay_node *node, uint64_t root,
                       struct replay_part part, uint32_t engine,
                       uint64_t now_us);

/* A prompt with these kept keys (decided.h) went to an engine: a peer's
 * decision. */
void replay_node_decide(struct replay_node *node, const uint64_t *keys,
                        uint32_t count, uint32_t engine, uint64_t now_us);

/* A peer sent a request there. */
void replay_node_peer_opened(struct replay_node *node, uint32_t engine);
/* A request of a peer there has ended. */
void replay_node_peer_closed(struct replay_node *node, uint32_t engine);

/* Prompt tokens of this node's requests that wait there. */
uint32_t replay_node_queued(const struct replay_node *node, uint32_t engine);
/* Sets the prompt tokens of its peers' waiting requests, as the peers said. */
void replay_node_peers_queued(struct replay_node *node, uint32_t engine,
                              uint32_t tokens, uint64_t now_us);

/* How many requests peers are expected to have sent out that were not heard of
 * yet (node/peers/hints.h). */
void replay_node_unseen(struct replay_node *node, uint32_t requests);

/* Share of the engine's cache that is in use by running requests. */
void replay_node_pressure(struct replay_node *node, uint32_t engine,
                          uint32_t permille);

/* Background work of the indexes, and whose turn it is. */
void replay_node_work(struct replay_node *node, uint64_t now_us);

/* Verifies the indexes; false and *reason (static text) when broken. */
bool replay_node_check(const struct replay_node *node, const char **reason);

#endif
