/*
 * A request whose prompt one worker computes and whose answer another one
 * makes: which ones those are, and what each is asked.
 *
 * Prefill and decode get in each other's way in one engine: a long prompt holds
 * up the next token of every stream beside it. Fleets that keep them apart give
 * each worker a role. A node elects both halves at once: the decode worker
 * among those that have a partner, by load and by what it holds (a token that
 * it lacks costs a transfer and no computing, so overlap weighs
 * SPLIT_RECOMPUTE_WEIGHT there); then, if it lacks policy.split_tokens of the
 * prompt or more, the prefill worker by the rule of elect.h, overlap and queue.
 * If it lacks less, it computes that itself: a step or less of its time, while
 * a split costs a second request and the transfer of all that it lacks.
 *
 * Engines have two ways of passing the prompt on:
 *
 *   SPLIT_PARAMS (vLLM, NIXL and connectors like it): first the prefill worker
 *   is asked for one token, with kv_transfer_params that say so; what its answer
 *   has as kv_transfer_params goes to the decode worker as it is. Both kinds
 *   can do without the other.
 *
 *   SPLIT_ROOM (SGLang): both get the same request at once, with
 *   bootstrap_host and bootstrap_port of the prefill worker, and the same
 *   bootstrap_room, a number that nobody else has. Neither does anything
 *   without the other.
 *
 * A request of which one half has failed goes to one worker that does all of
 * it; where there is none (SGLang alone), to two others.
 *
 * Role: core. Owns: nothing. Thread: one owner of the scratch. Limits:
 * SPLIT_EDITS_MAX, SPLIT_ANSWER_MAX. Errors: none; what cannot be read is not
 * split.
 */
#ifndef NODE_SPLIT_H
#define NODE_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/rng.h"
#include "index/base/role.h"
#include "index/base/slice.h"
#include "index/base/worker_set.h"
#include "node/route/body_edit.h"
#include "node/route/route.h"
#include "node/scan/scan.h"

#define SPLIT_RECOMPUTE_WEIGHT 1U
#define SPLIT_EDITS_MAX        6U
#define SPLIT_ANSWER_MAX       ((size_t)1 << 20) /* of a prefill worker */
#define SPLIT_ROOM_TEXT_MAX    (URL_HOST_MAX + 96U)

enum split_flow {
    SPLIT_NONE, /* one worker does all of it */
    SPLIT_PARAMS,
    SPLIT_ROOM,
};

/* "params", "room", or NULL. Static text. */
const char *split_flow_name(enum split_flow flow);

/* Whether a request is to be split, its caller says. */
enum split_asked {
    SPLIT_NEVER, /* there are no pairs, or its form is not for it */
    SPLIT_MAY,
    SPLIT_LAST, /* a half has failed: only where nobody does all of it */
};

/* Why one worker does all of it. */
enum split_why {
    SPLIT_UNASKED,
    SPLIT_SHORT,  /* the decode worker lacks too little */
    SPLIT_ALONE,  /* no pair is free */
    SPLIT_FAILED, /* a half has failed before */
};

/* "not asked", ...: for explain. Static text. */
const char *split_why_name(enum split_why why);

struct split_choice {
    enum split_asked asked; /* the caller sets it */
    enum split_flow flow;
    enum split_why why;          /* with SPLIT_NONE */
    uint32_t lacks;              /* tokens that the decode worker does; else */
    struct route_choice prefill; /* with a lease, unless SPLIT_NONE */
};

/* As route_elect(), where *choice is the worker that answers. */
int split_elect(struct route_scratch *scratch, const struct route_world *world,
                const struct worker_set *tried, struct rng *rng,
                struct route_choice *choice, struct split_choice *split)
    ON_LANE MUST_CHECK;

/* Elected, a request whose prompt is long may have to wait for a moment of this
 * node's (view/moment.h): so many us, or 0. If it has to, its leases are given
 * back, and it is to be elected again. Once for each request. wall_us: since
 * 1970. */
uint32_t split_yield(const struct route_scratch *scratch,
                     const struct route_world *world, uint64_t wall_us,
                     struct route_choice *choice, struct split_choice *split)
    ON_LANE;

/* Whether workers have both roles. */
static inline bool
split_has_pairs(const struct fleet_view *view)
{
    return !worker_set_empty(&view->prefill) &&
           !worker_set_empty(&view->decode);
}

/* The world of one half: partner is the kind of the decode worker. *elect is
 * the caller's, to be kept as long. */
struct route_world split_world(const struct route_world *world,
                               enum route_part part, enum engine_kind partner,
                               struct elect_config *elect);

/* Whether so few tokens are not worth a split. */
static inline bool
split_is_short(const struct elect_config *elect, uint64_t tokens)
{
    return tokens < elect->split_tokens;
}

/* The prompt's tokens, as far as the scratch knows; an estimate for text. */
uint64_t split_prompt_tokens(const struct route_scratch *scratch);

/* The form of a request */

/* Whether requests like it can be split: a chat or a completion with one
 * answer, whose prompt's own tokens are not asked about. */
bool split_suits(const struct scan *scan);

/* Where a body has what the halves are asked otherwise. */
struct split_form {
    uint32_t open; /* behind its bracket */
    struct body_edit member[SPLIT_EDITS_MAX - 1];
    uint32_t count;
    uint32_t seen; /* a bit for each kind of member */
};

/* False: it says something of its own about a split, or a member twice. */
bool split_read(struct slice body, struct split_form *form) MUST_CHECK;

/* SPLIT_PARAMS: what the body becomes for the prefill worker, by rising place:
 * one token, as JSON. Returns how many; static text. */
uint32_t split_prefill_edits(const struct split_form *form,
                             struct body_edit edits[SPLIT_EDITS_MAX]);

/* SPLIT_PARAMS: the member of a prefill worker's answer that the decode worker
 * gets, as `"kv_transfer_params":{...}`; borrowed from the answer. False: there
 * is none. */
bool split_params(struct slice answer, struct slice *member) MUST_CHECK;

/* SPLIT_ROOM: the members that both halves get, with a comma behind. Returns
 * their length. */
uint32_t split_room(const struct fleet_worker *prefill, uint64_t random,
                    char text[SPLIT_ROOM_TEXT_MAX]);

#endif
