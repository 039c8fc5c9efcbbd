/*
 * Session affinity: which session a request belongs to, and which worker has
 * that session.
 *
 * A session is a name that clients send, in a header or a member of the body,
 * under its tenant and model: 64 bits of hash. Belief remembers where it is, as
 * a prompt of a namespace of its own (SESSION_ROOT): so sessions are told to
 * peers, bounded, given up and saved as prompts are, and a worker has a session
 * once it has begun an answer of success; until then it is expected of it.
 *
 * Belief cannot take back what it learned of one worker. So a session that moves
 * becomes a longer prompt: at its first worker it is one block, at the next two,
 * and who holds the most of it has it now. Blocks are chained hashes of the
 * session's. Nodes that missed a move learn of it with the session's next
 * request anywhere; where two workers hold as much, because two nodes chose at
 * one moment, all nodes take the first by hash of these, and its next block ends
 * the tie. After SESSION_MOVES_MAX moves a session stays among the workers that
 * have all of its blocks.
 *
 *   soft   at election the worker counts as holding all of the prompt, so the
 *          rule of elect.h can outweigh it. A request that goes elsewhere for
 *          the load does not take its session along.
 *   hard   no other worker is a candidate while it takes requests and has room.
 *   bound  what is asked for is stored at its worker (stored.h): no other one is
 *          a candidate, ever. If nobody is known to have it, all are, and who
 *          answers with success has it.
 *
 * A session that is new, or whose worker is gone (hard: or full), goes to the
 * first by hash of the session: soft among workers of nearly the least cost,
 * hard among those with at most 5/4 of the mean load. It is the session's worker
 * from then on, also when the first one comes back.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: SESSION_MOVES_MAX; names as
 * configured. Errors: none; a session that belief gave up is new again.
 */
#ifndef NODE_SESSION_H
#define NODE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "index/base/worker_set.h"
#include "index/index.h"
#include "node/config/config.h"
#include "node/elect/elect.h"
#include "node/http/http_head.h"
#include "node/scan/scan.h"
#include "node/view/metrics.h"

#define SESSION_ROOT      UINT64_C(0x73657373696f6e73)
#define SESSION_MOVES_MAX 16U /* belief.depth_max is no less */

enum session_mode {
    SESSION_OFF,
    SESSION_SOFT,
    SESSION_HARD,
    SESSION_BOUND, /* never of the configuration */
};

/* What names a session, from the configuration. The slices are into it: it is
 * not copied. */
struct session_rule {
    enum session_mode mode;
    uint32_t headers_count;
    uint32_t fields_count; /* 0 with SESSION_OFF: nothing is read then */
    struct slice header[CONFIG_NAMES_COUNT];
    struct slice field[CONFIG_NAMES_COUNT];
    struct config_affinity text;
};

/* By the configuration. */
void session_rule_init(struct session_rule *rule,
                       const struct config_affinity *affinity);

/* Has a scan keep the members that may name a session. rule outlives it. */
void session_rule_scan(const struct session_rule *rule,
                       struct scan_limits *limits);

/* A request, as far as it may name its session; all borrowed. */
struct session_asked {
    const struct http_head *head; /* NULL: it has none */
    const char *body;
    const struct scan *scan; /* of the body; NULL: it was not scanned */
    uint64_t tenant;         /* a hash of its name */
    struct slice model;
};

/* The session's key; 0: the request has none. */
uint64_t session_key(const struct session_rule *rule,
                     const struct session_asked *asked);

/* What became of a request's session with the choice of a worker. */
enum session_outcome {
    SESSION_NONE,
    SESSION_NEW,     /* nobody had it */
    SESSION_KEPT,    /* it goes where it was */
    SESSION_MOVED,   /* its worker does not take it: it has another now */
    SESSION_YIELDED, /* this request goes elsewhere for the load */
};

struct session_choice {
    enum session_outcome outcome;
    uint32_t blocks; /* that the worker has of it then; 0: nothing new */
};

/* Where the session of one request is. */
struct session_place {
    enum session_mode mode; /* SESSION_OFF: the request has none */
    uint32_t home;          /* its worker, if it may be chosen; WORKER_NONE */
    uint32_t depth;         /* of who has it; 0: nobody */
    bool tied;              /* several have as much of it */
    bool credited; /* home counts as holding the prompt, of which ... */
    uint32_t held; /* ... it holds this much */
    struct worker_set spared; /* candidates left out for home's sake */
    uint64_t keys[SESSION_MOVES_MAX];
};

/* Begins with a request; key 0 or SESSION_OFF: no session. */
void session_begin(struct session_place *place, enum session_mode mode,
                   uint64_t key);

/* Finds the session's worker: match is of place->keys, able are those that may
 * be chosen, identity as in struct elect_input. */
void session_find(struct session_place *place, const struct radix_match *match,
                  const struct worker_set *able, const uint64_t *identity);

/* Bound: leaves the worker alone among the candidates. False: it is none of
 * them, and nobody else has what is asked for. */
bool session_bind(const struct session_place *place,
                  struct worker_set *candidates) MUST_CHECK;

/* Soft: credits the worker with the prompt, in *match (as looked up for the
 * input) and the input. Once for each look-up. */
void session_credit(struct session_place *place, struct radix_match *match,
                    struct elect_input *input);

/* Makes the input one that elects by the session. full: candidates that have no
 * room. */
void session_apply(struct session_place *place, const struct worker_set *full,
                   struct elect_input *input);

/* Whether there are other candidates, left out for the session's sake. */
bool session_spares(const struct session_place *place);

/* The rule to elect by, where `usual` is that of requests without session. */
struct elect_config session_rule_of(const struct session_place *place,
                                    const struct elect_config *usual);

/* Says in the choice what the session did, and there gives the overlap that is
 * not a credit. */
struct session_choice session_settle(const struct session_place *place,
                                     const struct elect_input *input,
                                     struct elect_choice *choice);

/* Counts a request that a worker answers. */
void session_count(struct metrics_lane *metrics,
                   const struct session_choice *choice);

#endif
