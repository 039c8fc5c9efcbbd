/*
 * Asks an engine's own renderer for the token ids of a prompt.
 *
 * It sends POST /v1/chat/completions/render (or that of /v1/completions,
 * /v1/responses, /v1/messages) with the client's body. If an engine has no such
 * path (404, 405, 501), it sends POST /tokenize with the relevant parts of a
 * chat or a text; of the other two APIs nothing then. Only the former is exact:
 * the latter does not know what templates see beside messages, tools and the
 * options of scan.h. What an engine can do is remembered for each worker and
 * API, and tried again after retry_ms. A path
 * that has once worked is given up only after four refusals in a row, not after
 * a single 404; a 404 that names a model is a refusal, not a missing path. A
 * path that refuses four times from the start counts as missing. A worker that
 * failed to answer four times in a row is left alone for retry_ms as well.
 *
 * Of a prompt with pictures only a renderer's answer that names them
 * (token_media.h) is good: to /tokenize they are all alike. It does not cut a
 * prompt off either (truncate_prompt_tokens).
 *
 * Connections are kept (httpc.h). A connection that turns out dead before an
 * answer began costs a second attempt on a new one. A late answer is still an
 * answer: the caller decides what it is good for.
 *
 * Role: shell. Owns: its connections, copies of the questions. Thread: the
 * loop's (a lane). Limits: struct token_ask_limits; beside the answers, room
 * for their ids (4 bytes each) is kept once. The process must ignore SIGPIPE.
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
#include "node/base/sock_tls.h"
#include "node/scan/scan.h"
#include "node/tokens/token_media.h"
#include "node/view/fleet_view.h"

struct token_ask;
struct token_question;

struct token_ask_limits {
    uint32_t open_max;        /* questions at one time; each has a connection */
    uint32_t connections_max; /* kept between questions, per worker; up to 8 */
    uint32_t timeout_ms;      /* of one question, whatever the caller waits */
    size_t answer_bytes_max;  /* of a body; under 4 GiB */
    size_t copied_bytes_max;  /* of all open questions' bodies */
    uint32_t retry_ms;        /* until an engine that cannot is asked again */
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
    const struct token_media *media; /* the same; NULL: there are none */
    bool rendered; /* TOKEN_OK: by a renderer, not by /tokenize */
};

/* 0 and *out, the caller's to token_ask_free(), or -ENOMEM and *out is NULL.
 * The limits are copied. */
int token_ask_new(struct token_ask **out, uv_loop_t *loop,
                  const struct token_ask_limits *limits) MUST_CHECK;

/* What workers with https must show; good until the next call. Before the first
 * question. */
void token_ask_use_tls(struct token_ask *ask,
                       const struct sock_tls_context *tls);

/* Forgets all questions: no answer comes any more. The loop must run on until
 * its handles are closed. ask may be NULL. */
void token_ask_free(struct token_ask *ask);

/* Whether that worker may be asked about bodies of that API: it is not known to
 * fail with them. */
bool token_ask_able(const struct token_ask *ask,
                    const struct fleet_worker *worker, enum scan_api api);

enum {
    TOKEN_ASK_E_BUSY = 1, /* open_max questions, or too many bytes of them */
    TOKEN_ASK_E_SHAPE,    /* not a prompt that a renderer takes: of ids, of
                             several texts, of another API than the four, one
                             that goes on with what the engine stored, or one
                             with pictures, or cut off, for an engine that only
                             tokenizes */
};

/*
 * Asks. body and scan are copied as needed; done is called once, never from
 * within this call, and not after token_ask_forget() or token_ask_free(); it
 * may ask again. 0 and *out (good until done returns), an outcome, or -ENOMEM.
 */
int token_ask_start(struct token_ask *ask, struct token_question **out,
                    const struct fleet_worker *worker, struct slice body,
                    const struct scan *scan, void *context,
                    void (*done)(void *context,
                                 const struct token_answer *answer)) MUST_CHECK;

/* The caller no longer wants to hear of it: it is given up. Without effect
 * from within its done. */
void token_ask_forget(struct token_question *question);

struct token_ask_stats {
    uint64_t asked;
    uint64_t answered; /* TOKEN_OK */
    uint64_t unable;
    uint64_t refused;
    uint64_t failed;    /* of these: */
    uint64_t timed_out; /* after timeout_ms */
    uint64_t too_large; /* over answer_bytes_max */
    uint64_t forgotten;
    uint64_t busy;         /* not asked, for open_max or copied_bytes_max */
    uint64_t copied_bytes; /* now */
    uint32_t open;         /* questions now */
    uint32_t idle;         /* connections kept now */
};

/* Counters since token_ask_new(), and levels of now. */
struct token_ask_stats token_ask_stats(const struct token_ask *ask);

#endif
