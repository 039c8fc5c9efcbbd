/*
 * Asks an engine's own renderer for the token ids of a prompt.
 *
 * POST /v1/chat/completions/render (or /v1/completions/render) with the
 * client's body; where an engine has no such path, POST /tokenize with the
 * parts of it that count. What an engine can is remembered per worker and
 * looked at again after a while. Connections are kept. An answer that comes
 * late is still an answer: the caller decides what it is good for.
 *
 * Role: shell. Owns: its connections, copies of what is asked.
 * Thread: the loop's (a lane). Limits: struct token_ask_limits.
 * Errors: outcomes in the answer.
 */
#ifndef NODE_TOKEN_ASK_H
#define NODE_TOKEN_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "index/base/worker_set.h"
#include "node/fleet_view.h"
#include "node/scan.h"

struct token_ask;
struct token_question;

struct token_ask_limits {
    uint32_t open_max;        /* questions at one time */
    uint32_t connections_max; /* kept, per worker */
    uint32_t timeout_ms;      /* of one question, whatever the caller waits */
    size_t answer_bytes_max;
    uint32_t retry_ms; /* until an engine that cannot is asked again */
};

enum token_outcome {
    TOKEN_OK,
    TOKEN_UNABLE, /* this engine has no renderer: it is not asked for a while */
    TOKEN_REFUSED, /* it answered 4xx: this prompt cannot be rendered */
    TOKEN_FAILED,  /* no answer, a bad one, or too large */
};

struct token_answer {
    enum token_outcome outcome;
    const uint32_t *tokens; /* TOKEN_OK; borrowed for the call */
    uint32_t count;
};

int token_ask_new(struct token_ask **out, uv_loop_t *loop,
                  const struct token_ask_limits *limits) MUST_CHECK;

/* No answer comes any more. The loop must run on until handles are closed. */
void token_ask_free(struct token_ask *ask);

/* Whether that worker may be asked: recognised as an engine with a renderer,
 * or not tried yet. */
bool token_ask_able(const struct token_ask *ask,
                    const struct fleet_worker *worker);

enum {
    TOKEN_ASK_E_BUSY = 1, /* open_max questions are open */
    TOKEN_ASK_E_SHAPE,    /* not a prompt that a renderer takes */
};

/*
 * Asks. body and scan are copied as needed; done is called once, never from
 * within this call, and not after token_ask_forget(). 0 and *out (good until
 * done returns), an outcome, or -ENOMEM.
 */
int token_ask_start(struct token_ask *ask, struct token_question **out,
                    const struct fleet_worker *worker, struct slice body,
                    const struct scan *scan, void *context,
                    void (*done)(void *context,
                                 const struct token_answer *answer)) MUST_CHECK;

/* The caller no longer wants to hear of it. */
void token_ask_forget(struct token_question *question);

#endif
