/*
 * Follows the engines' caches for the control thread: starts and ends event
 * sources with the workers, takes what they deliver to the feed, keeps what is
 * expected in step with the mirror's slots, and says aloud when a
 * worker's events are not what they should be.
 *
 * Role: shell. Owns: the intake, the feed, sidecars' streams.
 * Thread: control. Limits: items per turn, so that probes and the admin port
 * get theirs. Errors: below zero -errno.
 */
#ifndef NODE_FOLLOW_H
#define NODE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/role.h"
#include "node/facts.h"
#include "node/feed.h"
#include "node/fleet_view.h"
#include "node/intake.h"
#include "node/shared.h"

struct follow;

/* Takes what lanes have told: called before what engines tell is looked at, so
 * that a block is expected before the event that stores it. */
struct follow_owner {
    void *context;
    void (*take_facts)(void *context);
};

/* Makes the feed and starts the intake's thread. The loop is control's.
 * 0 and *out, or -errno. */
int follow_new(struct follow **out, struct node_shared *node, uv_loop_t *loop,
               const struct follow_owner *owner, uint64_t seed) MUST_CHECK;

/* Ends the sources; the loop then runs out of its handles. NULL is fine. */
void follow_stop(struct follow *follow) ON_CONTROL;

/* After the loop ended and the lanes are gone. NULL is fine. */
void follow_free(struct follow *follow);

/* A worker came or went. */
void follow_added(struct follow *follow, const struct fleet_worker *worker)
    ON_CONTROL;
void follow_removed(struct follow *follow, const struct fleet_worker *worker)
    ON_CONTROL;

/* A lane sent these blocks of tokens to a slot of the mirror. */
void follow_expect(struct follow *follow, const struct fact_learn *fact,
                   uint64_t now_us) ON_CONTROL;

/* A request ended: was its prediction right? */
void follow_answer(struct follow *follow, const struct fact_decision *fact,
                   uint64_t now_us) ON_CONTROL;

/* Background work, every few milliseconds. */
void follow_work(struct follow *follow, uint64_t now_us) ON_CONTROL;

/* For status and metrics. */
const struct feed *follow_feed(const struct follow *follow);
const struct intake *follow_intake(const struct follow *follow);

#endif
