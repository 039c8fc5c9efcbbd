/*
 * The data-parallel ranks of the stand-in engine: engines of their own, each
 * with its queue, cache and event publisher, behind one HTTP port, as vLLM and
 * SGLang serve them.
 *
 * A request goes to the rank that its X-data-parallel-rank header names, else
 * to the one with the lowest 4 * waiting + running, the first of equals, as in
 * vLLM. Rank r publishes on the ports of rank 0 plus r.
 *
 * Role: shell. Owns: the models and their publishers. Thread: the loop's.
 * Limits: ENGINE_RANKS_MAX. Errors: below zero -errno.
 */
#ifndef CHAOS_ENGINE_RANKS_INTERNAL_H
#define CHAOS_ENGINE_RANKS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "chaos/engine/engine_model.h"
#include "chaos/engine/engine_publish_internal.h"
#include "chaos/engine/engine_report_internal.h"
#include "index/base/check.h"
#include "node/node.h"

struct engine_server;

struct engine_rank {
    struct engine engine;
    struct engine_publisher publisher; /* all zero without events */
    struct engine_report report;
};

/* Makes server->ranks as the options say; their publishers live on the loop
 * from now on. 0, or -errno; then too engine_ranks_close() and
 * engine_ranks_fini() must follow. */
int engine_ranks_init(struct engine_server *server) MUST_CHECK;

/* Closes the publishers; handles on the loop are closing. */
void engine_ranks_close(struct engine_server *server);

/* After the loop has ended. */
void engine_ranks_fini(struct engine_server *server);

/* The rank with the least to do. */
uint32_t engine_ranks_idlest(const struct engine_server *server);

/* Which rank a request is for; `otherwise` when it does not say. False: it
 * names one that is not there, and was refused with 400. A header that is no
 * number is ignored, as in vLLM. */
bool engine_ranks_named(const struct engine_server *server,
                        struct httpd_request *request, uint32_t otherwise,
                        uint32_t *rank);

/* Publishes what changed in a rank's cache. Before anything that might give
 * the place of a call back: events name their calls. */
void engine_ranks_publish(struct engine_server *server,
                          struct engine_rank *rank);

/* Forgets the caches. False: of some ranks blocks are in use, and these kept
 * theirs. */
bool engine_ranks_reset(struct engine_server *server);

/* Ends a stall of events, if none is ordered any more. */
void engine_ranks_resume(struct engine_server *server);

/* Events wait for so long. */
void engine_ranks_stall(struct engine_server *server, uint32_t ms);

/* Aborts all calls and forgets everything, as a new process would, but for the
 * ports and the orders. 0, or -ENOMEM and nothing changed. */
int engine_ranks_restart(struct engine_server *server) MUST_CHECK;

#endif
