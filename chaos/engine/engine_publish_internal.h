/*
 * The event publisher of the stand-in engine: a ZeroMQ PUB socket for live
 * batches, and its replay side, in the manner of vLLM's.
 *
 * Live message: [topic][seq][payload], seq 8 bytes, big end first, from 0.
 *
 * Departures from vLLM: no thread and no queue in between; a cleared cache is told at once, not with the next step.
 *
 * Role: shell. Owns: a ZeroMQ context, both sides' sockets, the batch under
 * way, the log of past ones.
 * Thread: the loop's. Limits: options.buffer_steps batches,
 * ENGINE_PUBLISH_LOG_BYTES_MAX; ENGINE_PUBLISH_HWM messages to a slow
 * subscriber. Errors: below zero -errno; what is lost is counted.
 */
#ifndef CHAOS_ENGINE_PUBLISH_INTERNAL_H
#define CHAOS_ENGINE_PUBLISH_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "chaos/engine/engine_events.h"
#include "chaos/engine/engine_events_log_internal.h"
#include "chaos/engine/engine_fault_internal.h"
#include "chaos/engine/engine_options_internal.h"
#include "chaos/engine/engine_replay_internal.h"
#include "chaos/engine/engine_socket_internal.h"
#include "index/base/buf.h"
#include "index/base/check.h"

#define ENGINE_PUBLISH_HWM           100000
#define ENGINE_PUBLISH_LOG_BYTES_MAX ((size_t)512 << 20)

struct engine_publisher {
    const struct engine_options *options;
    struct engine_faults *faults;
    void *context;
    struct engine_socket pub;
    struct engine_replay replay;

    struct engine_batch batch;
    struct engine_events_log log;
    struct buf payload;
    uint64_t live_seq; /* the next to be sent live; behind the log's while
                          stalled */
    uint64_t lost;     /* batches that memory was missing for: they have a
                          number, but nobody ever gets them */
};

/* Whether these options ask for events at all. */
bool engine_publish_wanted(const struct engine_options *options);

/* Whether they leave a port to chance. */
bool engine_publish_any_port(const struct engine_options *options);

/*
 * Binds the sockets of one rank as the options say. faults: what goes wrong on
 * purpose; read at each message, and counts are used up. any: the first of a
 * row of ports for where the options leave one to chance, the ranks' live ones
 * and then their replays'; 0 leaves it to the kernel. 0, or -errno and then
 * nothing is left behind.
 */
int engine_publisher_init(struct engine_publisher *publisher,
                          const struct engine_options *options,
                          struct engine_faults *faults, uint32_t rank,
                          uint32_t any) MUST_CHECK;

/* Lets it live on a loop, where it may not move any more. 0, or -errno; then
 * too engine_publisher_close() must follow. */
int engine_publisher_start(struct engine_publisher *publisher, uv_loop_t *loop)
    MUST_CHECK;

/* Adds a change of the cache; publishes the batch before it when that is
 * complete. The owner's texts must last until engine_publisher_flush(). */
void engine_publisher_add(struct engine_publisher *publisher,
                          const struct engine_event *event,
                          const struct engine_events_owner *owner);

/* Publishes what was added. */
void engine_publisher_flush(struct engine_publisher *publisher);

/* Goes on after a stall: sends what waits, answers who waits. Nothing happens
 * while it is still ordered. */
void engine_publisher_resume(struct engine_publisher *publisher);

/* As a new process would begin: nothing published yet, nothing to replay. */
void engine_publisher_restart(struct engine_publisher *publisher);

/* Closes the sockets; the polls on the loop are closing. */
void engine_publisher_close(struct engine_publisher *publisher);

/* After the loop has ended; or a publisher that is all zero. */
void engine_publisher_fini(struct engine_publisher *publisher);

#endif
