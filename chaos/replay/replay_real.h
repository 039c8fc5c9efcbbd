/*
 * Plays a load in real time against real nodes.
 *
 * Each node is asked for its models first; one that does not answer ends the
 * run before it begins. Then each request is sent at its moment, to a node drawn
 * as a replay of the same seed draws it, as a streamed completion whose prompt is
 * token ids: those of the load, brought below REPLAY_REAL_IDS, so that every
 * model knows them. The answer is as long as the load has it (max_tokens,
 * ignore_eos). What the engine says is its own, so a next turn carries the
 * load's answer in its place, and finds none of it in a cache.
 *
 * A request that fails is counted and logged, and not sent again; turns that
 * wait for it are not sent. Beyond open_max requests wait here for a place, and
 * their times go on. Each has a connection of its own.
 *
 * Role: shell. Owns: its loop, calls and handles. Thread: the caller's, until
 * the load is over. Limits: open_max connections, REPLAY_REAL_TIMEOUT_MS for an
 * answer, REPLAY_REAL_TEXT_MAX bytes of its text. Errors: named outcomes,
 * -errno; failed requests are results.
 */
#ifndef CHAOS_REPLAY_REAL_H
#define CHAOS_REPLAY_REAL_H

#include <stdint.h>

#include "chaos/replay/replay_count.h"
#include "chaos/replay/replay_load.h"
#include "chaos/replay/replay_world.h"
#include "index/base/buf.h"
#include "index/base/check.h"
#include "node/node.h"

#define REPLAY_REAL_IDS        30000U /* ids are REPLAY_REAL_IDS_FROM and up */
#define REPLAY_REAL_IDS_FROM   1000U  /* below are special ones */
#define REPLAY_REAL_TIMEOUT_MS 600000U
#define REPLAY_REAL_CONNECT_MS 5000U
#define REPLAY_REAL_TEXT_MAX   ((size_t)4 << 20)
#define REPLAY_REAL_MODEL_MAX  256U /* bytes, with its NUL */
#define REPLAY_REAL_FAULT_MAX  512U

struct replay_real_setup {
    const struct url *nodes;
    uint32_t nodes_count;
    const char *model;    /* NULL: the first that the first node has */
    struct slice headers; /* further lines, each ending in CRLF */
    uint32_t open_max;
};

enum {
    REPLAY_REAL_E_NODE = 1, /* a node does not answer: fault says which */
    REPLAY_REAL_E_STOPPED,  /* SIGINT or SIGTERM: count has what was until
                               then */
};

/*
 * Plays the load; setup is what a simulated replay of it would have. Fills
 * count, which has been initialised, and model (REPLAY_REAL_MODEL_MAX bytes) with the
 * name that was asked for. 0, an outcome, or -errno; fault has
 * REPLAY_REAL_FAULT_MAX bytes.
 */
int replay_real_run(const struct replay_real_setup *real,
                    const struct replay_setup *setup,
                    const struct replay_load *load, struct replay_count *count,
                    char *model, char *fault) MUST_CHECK;

/* Appends the body of a request; tokens: its prompt's, as the load has them. */
void replay_real_body(const struct replay_request *request,
                      const uint32_t *tokens, const char *model,
                      uint32_t max_tokens, struct buf *out);

#endif
