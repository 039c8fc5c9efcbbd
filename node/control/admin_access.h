/*
 * Who uses the admin port: its guard and tokens, and the log of changes.
 *
 * The file of tokens is read again when it was replaced or written. One that
 * cannot be read, or makes no sense, leaves the tokens as they are. Lanes know
 * operators by the same tokens.
 *
 * Role: shell. Owns: nothing. Thread: control. Limits: http_tokens.h. Errors:
 * -errno; log lines.
 */
#ifndef NODE_ADMIN_ACCESS_H
#define NODE_ADMIN_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/role.h"
#include "node/config/config.h"
#include "node/http/http_tokens.h"
#include "node/http/httpd.h"
#include "node/route/shared.h"

struct admin_access {
    struct node_shared *node;
    const struct config *config;
    struct http_tokens tokens; /* of admin.token_file, if there is one */
    uint64_t stamp;            /* of the file that was read */
    /* Of the request that is being handled. */
    char peer[HTTPD_PEER_MAX];
    const char *token; /* its name, "" without */
    bool joins;        /* it is an engine's: see http_tokens.h */
};

/* Reads the tokens, and publishes them to lanes. The node is borrowed for the
 * access's life. 0; or -errno, and one line in the log says why. */
int admin_access_init(struct admin_access *access, struct node_shared *node)
    ON_CONTROL MUST_CHECK;

/* Whether there is a file of tokens. */
bool admin_access_has_tokens(const struct admin_access *access);

/* Reads the tokens again if their file has changed. True: others were
 * published, and lanes must be woken. */
bool admin_access_refresh(struct admin_access *access) ON_CONTROL MUST_CHECK;

/* Whether a request with such a head, and a body, would pass. */
bool admin_access_knows(const struct admin_access *access,
                        const struct http_head *head) ON_CONTROL MUST_CHECK;

/* Whether the request may pass. False: it was answered, and the log says who
 * asked for what. */
bool admin_access_admits(struct admin_access *access,
                         struct httpd_request *request) ON_CONTROL MUST_CHECK;

/* Writes who changed what, and what came of it, to the log. worker: its id, or
 * empty. fault: NULL when it was done. Call it before the answer. */
void admin_access_log(const struct admin_access *access,
                      const struct httpd_request *request, struct slice worker,
                      const char *fault) ON_CONTROL;

#endif
