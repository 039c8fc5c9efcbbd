/*
 * What a node tells its peers beside events: its load at each worker, and its
 * routing decisions.
 *
 * Load. Every gauge_ms a node tells for each worker how many requests it has
 * open there, how many of their prompt tokens wait for an answer to begin, and
 * how many blocks the worker is known to hold; the same for requests sent to a
 * named rank; and, as a gauge of the node itself, how many requests it sends
 * out per second. Peers' gauges go on the board beside the node's own numbers
 * and are never mixed with them: the election's load is own + peers + foreign,
 * each of which counts different requests (fleet_view.h).
 *
 * Prompts differ a thousandfold in what they cost, so a worker's waiting tokens
 * are told sooner, with those of all workers, once they have grown by
 * HINTS_SOON_TOKENS since they were told: a peer that gets a long prompt, too,
 * would choose the same worker. An engine computes some ten thousand tokens a
 * second, which bounds how often that happens; a node tells so each
 * HINTS_SOON_US at most.
 *
 * Peers' numbers are old when they arrive: half a gauge_ms on average, plus the
 * transit, and they stay until the next ones. Nodes that decide by the same old
 * numbers would all send to the worker that had the least load then. So the
 * board also says how many requests the peers have probably sent since (their
 * rate times that age: `unseen`), and the election spreads its requests over as
 * many places as that many requests would fill up (elect.h).
 *
 * Queued tokens end when the first byte of an answer's body arrives. If an
 * answer comes in one piece, that is its end, so its prompt counts as long as
 * it is open, at all workers alike. Peers' queued tokens are as old as their
 * last gauges; elections weigh them with the prompt's own (elect.h).
 *
 * Turns. With its rate a node tells its ticket, a number that is another one on
 * each node; those that tell one take turns (turns.h), and elect long prompts one after the other
 * where these come in crowds (moment.h).
 *
 * Circuits. A node tells, as a gauge beside the worker's, that its breaker of
 * the worker is not closed; the board says how many peers told so
 * (fleet_outlier.c).
 *
 * Files. A node that has models' own files (node/local) tells so under one
 * name, and their version under another: who counts fewer of the second than of
 * the first has other files than some peer.
 *
 * Distrust. A node that found that an engine has other tokens than the node made
 * by files of that version, in that way of asking, tells so under a name of its
 * own: an engine's events are not read on every node, nor does each get such
 * prompts.
 *
 * Belief. When a lane sends a prompt somewhere (FACT_LEARN), the peers hear of a
 * request; its block keys go to them once its answer has begun. For peers that
 * is a request that ends and begins again, because keys count as one sent. A prompt that a peer reports goes into this node's tree as if
 * this node had sent it, for the worker of the same identity. It goes no
 * further: only hints_learn() tells peers, and only of this node's own prompts.
 *
 * Expectations. The same for blocks of tokens (FACT_EXPECT), which join the
 * expectations of the worker's rank. Its events say the same to all nodes, but
 * seconds later if engines queue, and meanwhile a peer would send the same
 * prefix elsewhere. A node tells only blocks that the rank neither holds in its
 * mirror nor is expected to hold: others were told before, by this node or
 * another. Blocks that a peer tells are compared with the mirror first, so an
 * event that came sooner leaves nothing to expect; those that are held or
 * expected here count once among what waits (twice.h). Blocks of an attempt that
 * came to nothing are taken back in the same way, under HINTS_TAKEN_BACK; a
 * peer that does not know that sees no such rank, and forgets them by time.
 * Blocks of text are told in the same way, under HINTS_TEXT, from the request on
 * until its answer begins; the belief that is told then ends them.
 *
 * Order. The kept keys of each prompt in tokens (FACT_DECIDED) go to peers when
 * it is sent, so that the order of decisions (decided.h) and what is hot are
 * those of the whole mesh. They go under HINTS_DECIDED; a peer that does not know that sees no such
 * rank.
 *
 * Grammar: after a turn's calls, pull gossip's outputs (hub_pull()).
 *
 * Role: core. Owns: nothing. Thread: control. Limits: those of gossip; workers
 * beyond the gauges' workers_max are counted. Errors: -ENOMEM of belief is
 * counted.
 */
#ifndef NODE_HINTS_H
#define NODE_HINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "gossip/gossip.h"
#include "index/base/role.h"
#include "node/peers/hub.h"
#include "node/view/decided.h"
#include "node/view/expectations.h"
#include "node/view/facts.h"
#include "node/view/fleet_view.h"
#include "node/view/mirror_view.h"
#include "node/view/turns.h"
#include "node/view/twice.h"

#define HINTS_NODE_GAUGE UINT64_C(0x6b7661736972) /* no worker: a node's own */

#define HINTS_SOON_TOKENS 512U
#define HINTS_SOON_US     UINT64_C(5000)

/* In the rank of an expectation: its blocks are not on their way any more. */
#define HINTS_TAKEN_BACK (UINT32_C(1) << 31)
/* ... an answer proved them; with the other one: it disproved them. A node of an
 * earlier version knows no such rank. */
#define HINTS_PROVED (UINT32_C(1) << 30)

/* The same for a decision: kept keys of a whole prompt (decided.h). */
#define HINTS_DECIDED (UINT32_C(1) << 29)
/* ... or its blocks are of text, and of the worker as a whole. */
#define HINTS_TEXT (UINT32_C(1) << 28)

/* A node's numbers, all of which outlive the hints. */
struct hints_world {
    struct fleet_board *board;
    struct radix *belief;
    const struct mirror *mirror;
    const struct publish *mirror_view;
    struct expectations *expectations; /* NULL: nothing is */
    struct decided *decided;           /* NULL: likewise */
    struct expectations *text;         /* the same, by slot of the fleet */
    const struct gauge *rank_inflight; /* WORKERS_MAX, by slot of the mirror */
    struct gauge *rank_peers;          /* the same, of peers */
    uint32_t ticket; /* this node's among its peers' (turns.h), another one than
                        theirs; 0: it takes no turns */
};

struct hints_stats {
    uint64_t told;           /* decisions of this node */
    uint64_t learned;        /* decisions of peers */
    uint64_t expected_told;  /* decisions of this node in tokens */
    uint64_t expected_heard; /* ... of peers */
    uint64_t decided_heard;  /* ... of peers, in kept keys */
    uint64_t taken_back;     /* ... of peers, that came to nothing */
    uint64_t proofs_heard;   /* of peers' answers */
    uint64_t unknown;        /* decisions of peers for no worker or rank that is
                               here */
    uint64_t refused;        /* ... for which belief had no room */
    uint64_t gauges_failed;  /* numbers of a worker that gossip had no room
                               for */
    uint64_t rounds;         /* of telling own numbers */
    uint64_t soon;           /* ... of workers alone, for a long prompt */
};

struct hints {
    struct hints_world world;
    struct gossip *gossip; /* NULL: a node alone */
    uint32_t gauge_ms;
    uint64_t told_us; /* when the own numbers were last told */
    uint64_t due_us;
    uint64_t workers_told_us; /* when the workers' were, with the others or
                                 sooner */
    uint64_t soon_us;         /* when they are told sooner; or UINT64_MAX */
    uint64_t heard;      /* gossip_gauges_heard() as of the board's contents */
    uint64_t view_heard; /* version of the view it was put there by */
    uint64_t requests;   /* sent out up to told_us */
    uint64_t rate_milli; /* sent out per second, in thousandths */
    uint64_t files;      /* version of this node's models' files; 0: none */
    uint64_t files_told; /* ... as told */
    uint64_t open[WORKERS_MAX]; /* by slot: the worker whose breaker was told
                                   to be open, or 0 */
    uint32_t queued_told[WORKERS_MAX]; /* by slot: waiting tokens as told */
    struct twice twice;
    struct turns turns;
    struct hints_stats stats;
};

/* Without peers; the board is as it is for a single node. */
void hints_init(struct hints *hints, const struct hints_world *world);

/* gossip: through which peers are told, or NULL to stop. It outlives the hints,
 * or the next such call. gauge_ms: 1 or more. */
void hints_join(struct hints *hints, struct gossip *gossip, uint32_t gauge_ms,
                uint64_t now_us);

/* Has the hub hand peers' decisions to hints_belief_out(). Before hub_start();
 * hints outlives the hub's start and stop. */
void hints_attach(struct hints *hints, struct hub *hub);

/* Tells the own numbers when they are due, and puts peers' changed numbers on
 * the board. Call it at hints_deadline() and after anything that may have
 * changed gossip. True: the own numbers were told. */
bool hints_tick(struct hints *hints, uint64_t now_us);
uint64_t hints_deadline(const struct hints *hints);

/* Puts on the board whose turn it is. Call it after hints_tick(), each time that
 * the own numbers were told. wall_ms: since 1970. */
void hints_turn(struct hints *hints, uint64_t wall_ms);

/* The version of this node's models' files (0: it has none), for peers. */
void hints_set_files(struct hints *hints, uint64_t version);

/* Peers that have models' files, but others than this node; 0 when it has
 * none. */
uint32_t hints_files_differ(const struct hints *hints);

/* An engine has shown other tokens than files of that version make, in that way
 * (any number): tells peers, again after each hints_join(). */
void hints_tell_distrust(struct hints *hints, uint64_t version, uint32_t way,
                         uint64_t now_us);

/* Whether a peer told so. */
bool hints_hears_distrust(const struct hints *hints, uint64_t version,
                          uint32_t way);

/* A lane of this node's sent a request to a worker: peers count it. */
void hints_sent(struct hints *hints, const struct fact_learn *fact,
                uint64_t now_us);

/* Its answer has begun: its blocks, one or more, to the peers. */
void hints_learn(struct hints *hints, const struct fact_learn *fact,
                 uint64_t now_us);

/* A lane sent these blocks of tokens to a rank: tells the peers, except for
 * blocks that they know. Call it before the blocks are expected here. */
void hints_expect(struct hints *hints, const struct fact_learn *fact,
                  uint64_t now_us) ON_CONTROL;

/* A FACT_DECIDED: to the peers. */
void hints_decided(struct hints *hints, const struct fact_learn *fact,
                   uint64_t now_us) ON_CONTROL;

/* The attempt of such blocks came to nothing: tells peers that those after the
 * first `known` are not on their way. Call it before they are taken back
 * here. */
void hints_take_back(struct hints *hints, const struct fact_learn *fact,
                     uint32_t known, uint64_t now_us) ON_CONTROL;

/* An answer proved that the worker held the blocks of a FACT_EXPECT; or that it
 * had evicted some of those after the first `known`. Tells peers. */
void hints_prove(struct hints *hints, const struct fact_learn *fact,
                 uint64_t now_us) ON_CONTROL;
void hints_disprove(struct hints *hints, const struct fact_learn *fact,
                    uint32_t known, uint64_t now_us) ON_CONTROL;
/* The same of a FACT_LEARN's blocks of text, after the first `known`. */
void hints_expect_text(struct hints *hints, const struct fact_learn *fact,
                       uint32_t known, uint64_t now_us) ON_CONTROL;
void hints_take_back_text(struct hints *hints, const struct fact_learn *fact,
                          uint32_t known, uint64_t now_us) ON_CONTROL;

/* A request that this node had sent to a worker is over: the same way. */
void hints_ended(struct hints *hints, uint32_t slot, uint32_t generation,
                 uint64_t now_us);

/* A GOSSIP_BELIEF: adds a peer's decision to this node's tree or
 * expectations. */
void hints_belief_out(struct hints *hints, const struct gossip_out *out,
                      uint64_t now_us) ON_CONTROL;

/* A present worker's numbers: this node's own, and the peers'. */
struct hints_load {
    struct gossip_gauge own;
    struct gossip_gauge peers;
};

/* Of the worker in a slot; the peers' part is zero without a mesh. */
struct hints_load hints_load(const struct hints *hints, uint32_t slot);

#endif
