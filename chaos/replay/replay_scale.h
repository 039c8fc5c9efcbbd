/*
 * A fleet whose number of engines changes while a replay runs: by the rule of
 * node/scale/scale.h, or by a plain one on queues, to compare with.
 *
 * An engine that is asked for comes after the rule's `provision`, with an empty
 * cache; nodes know of it at once. One that is to go gets no new requests and is
 * gone when none is open there; who goes is scale_victim()'s choice. What an
 * engine costs counts from the moment in which it is asked for. A place that an
 * engine left is not used again, so a run has REPLAY_SCALE_PLACES times as many
 * as it begins with.
 *
 * The plain rule: one more when more requests wait than there are engines, one at
 * most in the time that one takes to come; one fewer when that has not been so for
 * `cool_down`.
 *
 * Role: core. Owns: nothing. Thread: the replay's. Limits: WORKERS_MAX places.
 * Errors: -ENOMEM.
 */
#ifndef CHAOS_REPLAY_SCALE_H
#define CHAOS_REPLAY_SCALE_H

#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "index/base/worker_set.h"
#include "node/node.h"

#define REPLAY_SCALE_PLACES 8U
#define REPLAY_SCALE_US     5000000U /* between two looks */

enum replay_scaler {
    REPLAY_SCALE_FIXED,
    REPLAY_SCALE_RULE,
    REPLAY_SCALE_QUEUE,
    REPLAY_SCALERS, /* how many there are */
};

/* Of "fixed", "rule" and "queue". False: none of them. */
bool replay_scaler_find(struct slice name, enum replay_scaler *by);

struct replay_fleet {
    struct worker_set on; /* take requests */
    struct worker_set coming;
    struct worker_set drains;
    uint32_t next;                  /* place that nobody had yet */
    uint64_t since_us[WORKERS_MAX]; /* when it was asked for */
    struct scale_group group;       /* of the rule */
    uint32_t answers;               /* since the last look */
    uint32_t late;
    uint64_t asked_us; /* of the plain rule: when one was asked for; 0: never */
    uint64_t idle_us;  /* since when few wait; 0: many do */
    int way;           /* of the last change */
};

struct replay_scaled {
    uint64_t engine_us; /* that engines were paid for */
    uint32_t most;      /* engines at one time, those that come included */
    uint32_t changes;
    uint32_t turns; /* of these, in the other direction than the one before */
};

struct replay_world;

/* The engines that are there from the start. */
void replay_scale_begin(struct replay_world *world);
/* Handles KIND_SCALE, and schedules the next look. */
int replay_scale_look(struct replay_world *world) MUST_CHECK;
/* Handles KIND_COMES. */
void replay_scale_comes(struct replay_world *world, uint32_t engine);
/* Once all is over. */
void replay_scale_end(struct replay_world *world);

#endif
