/*
 * Texts' vectors, asked of a worker that lists the model for it at
 * /v1/embeddings.
 *
 * Role: shell. Owns: nothing. Thread: the loop's. Limits: those of httpc.h;
 * EMBEDDING_BYTES of an answer. Errors: -errno.
 */
#ifndef NODE_EMBEDDING_H
#define NODE_EMBEDDING_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/rng.h"
#include "index/base/slice.h"
#include "node/http/httpc.h"
#include "node/text/text_vector.h"
#include "node/view/fleet_view.h"

#define EMBEDDING_BYTES ((size_t)256 << 10)

/* All is borrowed for embedding_start(), but for the connection's place. */
struct embedding_ask {
    const char *url;     /* http(s)://host:port/path, sound */
    const char *api_key; /* or "" */
    /* As in httpc_request: */
    const struct sockaddr *address;
    const struct sock_tls_context *tls;
    struct httpc_conn **waits;
    uint32_t timeout_ms;
    void *context;
    void (*done)(void *context, const struct httpc_answer *answer);

    const char *model;
    struct slice text;
    bool raw; /* it is as between the quotes of a JSON string */
};

/* As httpc_start(); -EINVAL also for https without tls. */
int embedding_start(struct httpc **call, uv_loop_t *loop,
                    const struct embedding_ask *ask) MUST_CHECK;

/* A worker that lists the model and is well, each as likely; NULL: there is none,
 * or no such model (NULL). Borrowed from the view. */
const struct fleet_worker *embedding_choose(const struct fleet_view *view,
                                            const struct fleet_model *model,
                                            struct rng *rng);

/* The vector that was answered; NULL: there is none. The caller's to free(). */
struct text_vector *embedding_read(const struct httpc_answer *answer)
    MUST_CHECK;

#endif
