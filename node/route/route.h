/*
 * Finds a worker for a request: scan, split into blocks, look up, elect. Lanes
 * and /admin/explain take the same steps.
 *
 * Role: core. Owns: its scratch memory. Thread: one owner per scratch; the
 * caller is online in the qsbr around route_elect(). Limits: spans_max,
 * depth_max of the configuration. Errors: named outcomes.
 */
#ifndef NODE_ROUTE_H
#define NODE_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/rng.h"
#include "index/base/role.h"
#include "index/base/slice.h"
#include "index/base/worker_set.h"
#include "index/index.h"
#include "node/config/config.h"
#include "node/elect/elect.h"
#include "node/http/http_head.h"
#include "node/keys/keys.h"
#include "node/route/route_pools.h"
#include "node/route/session.h"
#include "node/route/token_match_internal.h"
#include "node/scan/blocks.h"
#include "node/scan/scan.h"
#include "node/view/expectations.h"
#include "node/view/fleet_view.h"
#include "node/view/text_models.h"

#define ROUTE_MODEL_MAX       256U /* bytes of a name that has escapes */
#define ROUTE_BYTES_PER_TOKEN 4U   /* of text, about */

/* Of a salt or an adapter: what vLLM takes, 1024 characters, as they are written
 * at their longest. */
#define ROUTE_TEXT_MAX ((size_t)12 << 10)

/* The endpoints that a request path can name. */
enum route_kind {
    ROUTE_UNKNOWN, /* 404 */
    ROUTE_LOCAL,   /* answered by the node: health, readiness, models */
    ROUTE_PROMPT,  /* a JSON body with a prompt: scanned and routed by it */
    ROUTE_PLAIN,   /* forwarded by load alone: uploads, lookups */
};

/* What the queue is told of a request that must wait. */
struct route_wait {
    struct worker_set able;  /* workers that may take it */
    struct worker_set homes; /* of these, those that hold most of it */
    uint64_t tokens;         /* of its prompt; an estimate for text */
    uint64_t held_tokens;    /* of these, what the homes hold */
};

/* One request's facts, and the memory to find them with. */
/* What the last election compared, of all present workers, until that is
 * told. */
struct route_columns {
    bool kept; /* somebody wants to know */
    uint32_t count;
    struct elect_row row[WORKERS_MAX];
};

struct route_scratch {
    struct scan scan;
    struct blocks blocks;
    struct slice model; /* into the body or unescaped; empty when absent */
    bool by_tokens;     /* its tokens can be looked up, too */
    struct token_match tokens; /* what workers hold of its tokens, if these
                                  are known */
    struct conversation conversation; /* the token cache's name for it */
    size_t body_len;
    bool prompts;        /* the scan is the request's */
    uint32_t text_bytes; /* of its text; 0: something else makes tokens, too */
    enum text_kind text_kind;
    uint32_t total; /* units that overlap counts: tokens or
                                         blocks of text */
    struct radix_match match;
    struct radix_match rank_match; /* for a worker's ranks, by mirror slot */
    uint32_t rank_load[WORKERS_MAX];
    uint32_t load[WORKERS_MAX];
    uint32_t queued[WORKERS_MAX];
    uint32_t slowness[WORKERS_MAX];
    uint32_t slo_tokens[WORKERS_MAX];
    uint32_t slo_requests[WORKERS_MAX];
    struct worker_set turn;
    struct elect_slo slo; /* these two */
    uint16_t kv_usage[WORKERS_MAX];
    uint16_t success[WORKERS_MAX];
    struct elect_state elect;
    struct session_place session; /* where the request's session is */
    struct pools pools;           /* which lengths of engines suit it */
    /* Workers of its model that its tenant's residency leaves out. */
    struct worker_set foreign;
    uint32_t aside[WORKERS_MAX]; /* tokens, for elect.h: pools' and links' */
    /* Of the request's tenant, for route_read(); NULL: none is isolated. */
    const struct keys_isolation *isolation;
    char salt[KEYS_CACHE_SALT_ROOM]; /* what engines must be told as cache_salt;
                                        "": what the request says */
    struct route_wait wait;          /* after ROUTE_E_FULL */
    struct route_columns columns;
    struct scan_limits limits;
    char model_text[ROUTE_MODEL_MAX];
};

/* A body that is read in pieces, beside a scratch that others use meanwhile. */
struct route_ahead {
    struct scan scan;
    struct blocks blocks;
    struct blocks_cut cut;
    size_t body_len;
};

enum {
    ROUTE_E_SYNTAX = 1, /* scan.fault and scan.fault_at say what */
    ROUTE_E_NO_MODEL,   /* no present worker serves the model */
    ROUTE_E_NO_WORKER,  /* some do, but none is eligible now */
    ROUTE_E_FULL,      /* all that are have no room: it waits; see route_wait */
    ROUTE_E_TOO_LONG,  /* no worker of its model ever takes so many tokens: see
                         pools */
    ROUTE_E_RESIDENCY, /* some serve the model, and none of them is where the
                          tenant's requests may be */
};

struct route_choice {
    struct elect_choice elect; /* with `exact` its `most` is what was predicted
                                  to be cached, not what that is worth */
    struct fleet_lease lease;
    struct session_choice session;
    bool exact;  /* overlap counts tokens of the worker's mirror; otherwise it
                    counts blocks of text, or is an estimate */
    bool ranked; /* the worker has ranks: the request must name best.rank */
    bool placed; /* best.slot is where the blocks will be */
    bool alone;  /* there was no other candidate */
    enum pools_want pool;         /* that it wanted */
    bool spilled;                 /* the worker is of the other one */
    struct token_match_rank best; /* the worker's best rank; with `exact` */
};

/* Which part of a request a worker is elected for (split.h). */
enum route_part {
    ROUTE_WHOLE, /* all of it: of workers with a role only those that can, and
                    those for prefill last */
    ROUTE_DECODE,
    ROUTE_PREFILL,
};

/* The state that routing reads; valid while the caller is online in the
 * qsbr. */
struct route_world {
    const struct elect_config *elect;
    const struct fleet_view *view;
    struct fleet_board *board;
    const struct radix *belief;
    const struct expectations *expected; /* of text; NULL: nothing is */
    const struct gauge *rank_inflight; /* by mirror slot: requests in flight */
    const struct gauge *rank_peers;    /* the same, sent by peers; NULL: none */
    const struct text_board *text;     /* bytes of a token; NULL: not learned */
    struct token_match_world tokens;
    enum route_part part;
    enum engine_kind partner; /* with ROUTE_PREFILL: of the decode worker */
    enum session_mode affinity;
    uint64_t session;      /* session_key() of the request; 0: it has none */
    const char *residency; /* islands where it may be served (keys.h); "" or
                              NULL: anywhere */
    bool placed; /* the request has waited, and was given a place at a worker */
    uint32_t place;
};

/* Allocates spans and keys as the configuration bounds them. 0 or -ENOMEM. */
int route_scratch_init(struct route_scratch *scratch,
                       const struct config *config) MUST_CHECK;

/* Frees what route_scratch_init() allocated. */
void route_scratch_fini(struct route_scratch *scratch);

/* Decides by path, method and content type. more: paths that are forwarded in
 * addition, between blanks; one that ends in * is a prefix (config.paths). */
enum route_kind route_kind_of(const struct http_head *head, const char *more);

/* Whether an engine that answers well to this has an empty cache then: a POST
 * (SGLang: also a GET) of a path that resets it, or puts the engine to sleep, or
 * pauses it (vLLM empties the cache then, unless the query says otherwise). */
bool route_clears_cache(const struct http_head *head);

/* The API of that path, by whose rules engines render the body.
 * SCAN_API_OTHER: they render none (/tokenize, ...). */
enum scan_api route_api(const struct http_head *head);

/*
 * Scans a body and splits its prompt. api: route_api() of the body's path, or
 * SCAN_API_GUESSED where that is not known. 0 or ROUTE_E_SYNTAX.
 */
int route_read(struct route_scratch *scratch, struct slice body,
               enum scan_api api) MUST_CHECK;

/* Allocates as route_scratch_init() does: 0 or -ENOMEM. */
int route_ahead_init(struct route_ahead *ahead, const struct config *config)
    MUST_CHECK;

/* Frees what route_ahead_init() allocated. */
void route_ahead_fini(struct route_ahead *ahead);

/*
 * route_read() in pieces: begins, and scans the body with the scratch, which is
 * free again afterwards. ahead may have begun with another one, which it drops. 0:
 * the body is borrowed until it was taken or dropped; or ROUTE_E_SYNTAX.
 */
int route_ahead_begin(struct route_ahead *ahead, struct route_scratch *scratch,
                      struct slice body, enum scan_api api) MUST_CHECK;

/* Goes on for about so many bytes: blocks_more(). True: all is read. */
bool route_ahead_more(struct route_ahead *ahead, size_t bytes) MUST_CHECK;

/* All was read: the scratch is as after route_read() of the body, if it has the
 * limits and the isolation of then. */
void route_ahead_take(struct route_ahead *ahead, struct route_scratch *scratch,
                      struct slice body);

/* Whether an engine of that kind takes a cache_salt in such bodies, or may: messages
 * and embeddings are vLLM's (0.32), others pass a member over that they do not know,
 * and TensorRT-LLM refuses it. Of further bodies vLLM reads it in those that score,
 * rank, classify or decide, and passes it over in the rest. */
bool route_salts(enum scan_api api, enum engine_kind kind);

/* Takes a request without a prompt: no model, no blocks. */
void route_read_nothing(struct route_scratch *scratch);

/* Takes a request without a prompt: of a form (scan_form.h) the model, which is
 * borrowed from the body; no blocks. */
void route_read_form(struct route_scratch *scratch, struct slice body);

/* The adapter that the body names beside its model: as it is written where that is
 * over ROUTE_TEXT_MAX. In room, or borrowed from the body; empty: none. */
struct slice route_adapter(const struct route_scratch *scratch,
                           const char *body, char room[ROUTE_TEXT_MAX]);

/* The root key of the request's tokens: made of adapter and salt. */
uint64_t route_token_root(const struct route_scratch *scratch, const char *body,
                          const struct fleet_view *view);

/* Whether the request's tokens can be looked up, and a worker that may take it
 * has a mirror. */
bool route_wants_tokens(const struct route_scratch *scratch,
                        const struct route_world *world);

/* Whether those that are not known are made, or asked of an engine: other rules
 * than ours go by the text then. */
bool route_makes_tokens(const struct route_world *world);

/*
 * Makes the input of elect_pick(): candidates that serve the model and are not
 * in tried, their loads, and what they hold: in tokens if those are known
 * (scratch->tokens), otherwise in blocks of text. Those without room are left
 * out, unless all are. 0 or ROUTE_E_NO_MODEL, ROUTE_E_NO_WORKER, ROUTE_E_FULL,
 * ROUTE_E_TOO_LONG, ROUTE_E_RESIDENCY; *input is filled in each case.
 */
int route_input(struct route_scratch *scratch, const struct route_world *world,
                const struct worker_set *tried, struct elect_input *input)
    MUST_CHECK;

/* The workers that serve the request's model where it may be served; *foreign:
 * those that serve it elsewhere. */
struct worker_set route_servers(const struct route_scratch *scratch,
                                const struct route_world *world,
                                struct worker_set *foreign);

/* Tokens that candidates cost beside, by slot, for elect.h: another pool's
 * (scratch->pools), and the way to another island's. NULL: none. */
const uint32_t *route_aside(struct route_scratch *scratch,
                            const struct route_world *world,
                            const struct worker_set *candidates);

/* Those of the set that are for the world's part of a request. */
struct worker_set route_for_part(const struct route_world *world,
                                 const struct worker_set *set);

/* Looks up what these workers hold of the request, into scratch->match and
 * total; for route_input() and for /admin/explain. */
void route_look_up(struct route_scratch *scratch,
                   const struct route_world *world,
                   const struct worker_set *asked, struct elect_input *input);

/* Elects by that input, and says in the choice what the session did. Returns
 * that. */
struct session_choice route_pick(struct route_scratch *scratch,
                                 const struct route_world *world,
                                 const struct elect_input *input,
                                 struct rng *rng, struct elect_choice *choice);

/*
 * Elects a worker and takes a lease at it. 0 and *choice, or ROUTE_E_NO_MODEL,
 * ROUTE_E_NO_WORKER, ROUTE_E_FULL, ROUTE_E_TOO_LONG, ROUTE_E_RESIDENCY.
 */
int route_elect(struct route_scratch *scratch, const struct route_world *world,
                const struct worker_set *tried, struct rng *rng,
                struct route_choice *choice) ON_LANE MUST_CHECK;

/* Prompt tokens that the elected worker does not hold yet, as far as the
 * scratch still has the request; an estimate for text. */
uint64_t route_unread_tokens(const struct route_scratch *scratch,
                             const struct route_choice *choice);

#endif
