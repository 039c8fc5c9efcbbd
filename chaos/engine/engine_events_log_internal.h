/*
 * The last batches that an engine has published, by sequence number, for
 * readers that missed some. The oldest make room for the newest.
 *
 * Role: core. Owns: a ring, and a copy of each payload in it. Thread: one
 * owner. Limits: steps_max payloads of bytes_max in all; the newest stays even
 * if it is larger alone. Errors: -ENOMEM at engine_events_log_init(); later a
 * payload without memory is missing, but has its number.
 */
#ifndef CHAOS_ENGINE_EVENTS_LOG_INTERNAL_H
#define CHAOS_ENGINE_EVENTS_LOG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

struct engine_events_entry {
    char *bytes; /* NULL: missing */
    size_t len;
};

struct engine_events_log {
    struct engine_events_entry *entries; /* ring: seq % steps_max */
    uint32_t steps_max;
    size_t bytes_max;
    size_t bytes;       /* of all payloads */
    uint64_t first_seq; /* the oldest; equals next_seq when there is none */
    uint64_t next_seq;  /* the next one published gets this */
};

/* steps_max: 1 or more. 0, or -ENOMEM. */
int engine_events_log_init(struct engine_events_log *log, uint32_t steps_max,
                           size_t bytes_max) MUST_CHECK;

/* Also fine on a log that is all zero. */
void engine_events_log_fini(struct engine_events_log *log);

/* Copies the payload, gives it the next sequence number and returns that. An
 * empty payload is missing, but has its number. */
uint64_t engine_events_log_push(struct engine_events_log *log,
                                struct slice payload);

/* The payload of a number, valid until the next push. False: not here. */
bool engine_events_log_find(const struct engine_events_log *log, uint64_t seq,
                            struct slice *payload);

/* Empty, and numbers begin with 0 again, as in a new process. */
void engine_events_log_clear(struct engine_events_log *log);

#endif
