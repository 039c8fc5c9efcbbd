/*
 * Texts' vectors, asked of an engine one after the other.
 *
 * Role: shell. Owns: a loop, and what TLS needs. Thread: main. Limits:
 * CLI_VECTORS_TIMEOUT_MS for each. Errors: printed, or a text.
 */
#ifndef NODE_CLI_VECTORS_INTERNAL_H
#define NODE_CLI_VECTORS_INTERNAL_H

#include <stdbool.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/fleet/embedding.h"

#define CLI_VECTORS_TIMEOUT_MS 10000U

struct cli_vectors {
    const char *url; /* NULL: there is no engine, and nothing is open */
    const char *model;
    uv_loop_t loop;
    struct sock_tls_context *tls; /* for https, by the system's authorities */
    struct text_vector *vector;   /* that came last, and was not taken yet */
    const char *why;              /* it did not come; static text */
};

/* Both are borrowed; NULL: no engine. False: it was printed why not, and
 * cli_vectors_close() is due all the same. */
bool cli_vectors_open(struct cli_vectors *vectors, const char *url,
                      const char *model) MUST_CHECK;

/* The text's, the caller's to free(); NULL: there is none. */
struct text_vector *cli_vectors_ask(struct cli_vectors *vectors,
                                    struct slice text) MUST_CHECK;

void cli_vectors_close(struct cli_vectors *vectors);

#endif
