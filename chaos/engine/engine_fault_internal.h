/*
 * Misbehaviour by order: what the engine does wrong with the next requests, so
 * that a test can see how a router handles it.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: none.
 * Errors: ENGINE_FAULT_E_BAD with a text.
 */
#ifndef CHAOS_ENGINE_FAULT_INTERNAL_H
#define CHAOS_ENGINE_FAULT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define ENGINE_FAULT_FOREVER UINT32_MAX /* a count that never runs out */
#define ENGINE_FAULT_NEVER   UINT32_MAX /* for die_after_tokens */
#define ENGINE_EVENT_TOKENS  16U        /* event_tokens at most */

struct engine_faults {
    uint32_t health_status;
    uint32_t fail_status;
    uint32_t fail_count;
    uint32_t hang_count;
    uint32_t die_after_tokens;
    uint32_t die_count;
    uint32_t event_tokens;       /* that one event of a stream has at most */
    uint32_t marked;             /* 1: of requests with x-chaos alone */
    uint32_t events;             /* 0: nothing is published, nothing counted */
    uint32_t events_stalled;     /* 1: batches wait, and so do replays */
    uint32_t event_drop_count;   /* live messages that are lost on the way */
    uint32_t replay_mute_count;  /* replays that are not answered at all */
    uint32_t replay_hole_every;  /* each batch whose seq is one less than a
                                    multiple of this is left out, but
                                    the first, without which history would
                                    seem to be gone ... */
    uint32_t replay_hole_count;  /* ... of so many replays */
    uint32_t replay_noend_count; /* replays without an end marker */
};

/* What happens to one generation request. */
struct engine_fate {
    bool hang;
    uint32_t fail_status;      /* 0: does not fail */
    uint32_t die_after_tokens; /* ENGINE_FAULT_NEVER: does not die */
};

/* What happens to one replay. */
struct engine_replay_fate {
    bool mute;
    bool endless;
    uint32_t hole_every; /* 0: whole */
};

/* Orders that concern the whole process, for the shell. */
struct engine_fault_orders {
    bool has_exit;
    uint32_t exit_code;
    uint32_t stall_ms;        /* 0: none */
    uint32_t speed_percent;   /* 0: none */
    uint32_t events_stall_ms; /* 0: none */
    uint32_t restart;         /* 1: forget all, as a new process would */
};

enum {
    ENGINE_FAULT_E_BAD = 1,
};

/* Starts without faults. */
void engine_faults_init(struct engine_faults *faults);

/*
 * Takes orders from a valid JSON object (see the manual). All or nothing: 0,
 * or ENGINE_FAULT_E_BAD and *why (static text).
 */
int engine_faults_order(struct engine_faults *faults, struct slice object,
                        struct engine_fault_orders *orders, const char **why)
    MUST_CHECK;

/* The fate of the next request; uses up one of a count. Hanging goes before
 * failing, failing before dying. marked: it has the header x-chaos. */
struct engine_fate engine_faults_draw(struct engine_faults *faults,
                                      bool marked);

/* Whether the next live event message is lost; uses up one of the count. */
bool engine_faults_drop_event(struct engine_faults *faults);

/* The fate of the next replay; uses up one of each count. */
struct engine_replay_fate
engine_faults_draw_replay(struct engine_faults *faults);

/* Writes the JSON object that would order the same faults. */
void engine_faults_show(const struct engine_faults *faults, struct buf *out);

#endif
