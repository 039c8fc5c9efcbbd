/*
 * The replay side of the event publisher: a ROUTER socket that sends the
 * batches of a log again to who missed some, in the manner of vLLM's.
 *
 * Request: [identity][][first seq wanted]; anything else is ignored. Answer:
 * one message per kept batch, oldest first, each [identity][][seq][payload] or,
 * since vLLM 0.26, [identity][][topic][seq][payload]; then an end marker whose
 * seq is all ones, and whose topic and payload are empty. What is published
 * after the request is not part of the answer. One request is answered at a
 * time, the others wait.
 *
 * As in vLLM the socket drops what exceeds its high-water mark without a word.
 * How much that is depends on how fast messages are put in, so it sends at the
 * pace of vLLM's Python: ENGINE_REPLAY_CHUNK a millisecond. A reader who keeps
 * up loses nothing.
 *
 * Role: shell. Owns: the socket and a timer. Thread: the loop's.
 * Limits: one request under way; libzmq's queue of 1000 waiting ones.
 * Errors: below zero -errno.
 */
#ifndef CHAOS_ENGINE_REPLAY_INTERNAL_H
#define CHAOS_ENGINE_REPLAY_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "chaos/engine/engine_events_log_internal.h"
#include "chaos/engine/engine_fault_internal.h"
#include "chaos/engine/engine_options_internal.h"
#include "chaos/engine/engine_socket_internal.h"
#include "index/base/check.h"

#define ENGINE_REPLAY_CHUNK        100
#define ENGINE_REPLAY_IDENTITY_MAX 255 /* libzmq's bound */

/* A request. */
struct engine_replay_job {
    char identity[ENGINE_REPLAY_IDENTITY_MAX];
    size_t identity_len;
    uint64_t first_seq; /* never left out */
    uint64_t next_seq;  /* to be sent next */
    uint64_t end_seq;   /* the first one that is not part of it */
    struct engine_replay_fate fate;
};

/* All zero is off. */
struct engine_replay {
    struct engine_socket socket;
    uv_timer_t timer; /* while a job is under way */
    const struct engine_options *options;
    struct engine_faults *faults;
    struct engine_events_log *log;
    struct engine_replay_job job;
    bool busy; /* with the job */
};

/* Binds the socket; the log and the faults are the caller's and stay. 0, or
 * -errno; then too engine_replay_close() must follow. */
int engine_replay_open(struct engine_replay *replay, void *zmq_context,
                       const char *endpoint,
                       const struct engine_options *options,
                       struct engine_faults *faults,
                       struct engine_events_log *log) MUST_CHECK;

/* Lets it live on a loop. 0, or -errno. */
int engine_replay_start(struct engine_replay *replay, uv_loop_t *loop)
    MUST_CHECK;

/* Goes on after a stall. Nothing happens while one is ordered. */
void engine_replay_resume(struct engine_replay *replay);

/* Drops the job under way. */
void engine_replay_restart(struct engine_replay *replay);

/* The handles on the loop are closing. */
void engine_replay_close(struct engine_replay *replay);

#endif
