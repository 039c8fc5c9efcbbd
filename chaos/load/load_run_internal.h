/*
 * Plays the script against a server: a bounded number of users, each with one
 * conversation at a time and one request of it under way.
 *
 * Role: shell. Owns: users, their calls and timers, the statistics.
 * Thread: the loop's. Limits: options->users connections,
 * LOAD_CHAT_BYTES_MAX of one conversation. Errors: below zero -errno; failed
 * requests are results, counted in stats.
 */
#ifndef CHAOS_LOAD_RUN_INTERNAL_H
#define CHAOS_LOAD_RUN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "chaos/load/load_chat_internal.h"
#include "chaos/load/load_lookup_internal.h"
#include "chaos/load/load_options_internal.h"
#include "chaos/load/load_report_internal.h"
#include "chaos/load/load_script_internal.h"
#include "chaos/load/load_sse.h"
#include "chaos/load/load_stats.h"
#include "index/base/check.h"
#include "node/node.h"

#define LOAD_CHAT_BYTES_MAX ((size_t)64 << 20)
#define LOAD_TARGET_MAX     (URL_PATH_MAX + 32)

struct load_run;

struct load_user {
    struct load_run *run;
    uv_timer_t timer;   /* thinks */
    struct httpc *call; /* NULL: no request under way */
    struct load_chat chat;
    struct load_sse sse;
    uint32_t conversation;
    uint32_t turn;
    uint64_t tried[LOAD_RETRIES_MAX]; /* keys of targets where it failed */
    uint32_t attempt;                 /* of this turn's request, from 0 */
    struct load_target target;        /* where it went */
    uint64_t sent_us;                 /* loop's clock; the first attempt */
    uint64_t first_us;                /* the first token; 0: none yet */
};

struct load_run {
    uv_loop_t *loop;
    const struct load_options *options;
    struct load_script script;
    struct load_lookup lookup;
    struct load_stats stats;
    struct load_user *users;
    uint32_t users_count;
    uint32_t users_left;
    uint64_t next_conversation;
    uint64_t not_sent; /* turns left out */
    uint64_t started_us;
    uint64_t ended_us;
    uv_timer_t progress;
    uv_signal_t terminate;
    uv_signal_t interrupt;
    struct buf line; /* of progress */
    bool bar;        /* stderr is a terminal */
    bool stopped;    /* by a signal */
    char target[LOAD_TARGET_MAX];
};

/* Starts everything; the loop then runs until the last conversation is over. 0,
 * or -errno and nothing is left behind. */
int load_run_init(struct load_run *run, uv_loop_t *loop,
                  const struct load_options *options) MUST_CHECK;

/* The result, once the loop has ended. */
struct load_report load_run_report(struct load_run *run);

/* Frees what it owns. */
void load_run_fini(struct load_run *run);

#endif
