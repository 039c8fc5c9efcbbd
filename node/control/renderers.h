/*
 * Renderers: finds out how each worker with events tells the tokens of a chat,
 * before clients ask, for the status and the log.
 *
 * A worker is asked once it is eligible, and again every RENDERERS_AGAIN_US
 * while it has no exact renderer: it may be restarted with one. One question at
 * a time.
 *
 * Role: shell. Owns: its question. Thread: control. Limits: WORKERS_MAX.
 * Errors: a worker that does not answer is asked again later.
 */
#ifndef NODE_RENDERERS_H
#define NODE_RENDERERS_H

#include <stdint.h>

#include "index/base/role.h"
#include "node/tokens/token_ask.h"
#include "node/view/fleet_view.h"

#define RENDERERS_AGAIN_US UINT64_C(60000000)

enum renderer {
    RENDERER_UNKNOWN,   /* not asked, or no answer yet */
    RENDERER_EXACT,     /* it renders chats as it computes them */
    RENDERER_TOKENIZER, /* it tokenizes messages, and knows few options */
    RENDERER_NONE,      /* its chats are routed by text */
};

/* "unknown", "exact", "tokenizer", "none". Static text. */
const char *renderer_name(enum renderer renderer);

struct renderers_worker {
    uint32_t generation; /* that was asked */
    enum renderer renderer;
    uint64_t again_us; /* not asked before */
};

/* All zero but for `ask` is a good beginning. */
struct renderers {
    struct token_ask *ask; /* borrowed; NULL: nobody is asked */
    struct token_question *question;
    uint32_t slot; /* of the worker that is asked */
    uint32_t generation;
    enum engine_kind kind;
    char id[FLEET_ID_BYTES];
    uint64_t now_us; /* of the last look */
    struct renderers_worker worker[WORKERS_MAX];
};

/* Asks the next worker that is due, if none is being asked. Now and then. */
void renderers_look(struct renderers *r, const struct fleet_view *view,
                    uint64_t now_us) ON_CONTROL;

/* What is known of that worker. */
enum renderer renderers_of(const struct renderers *r,
                           const struct fleet_worker *worker) ON_CONTROL;

#endif
