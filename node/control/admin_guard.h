/*
 * Whether the admin port answers a request: who asks, and from where.
 *
 * A browser of somebody in the same network is the stranger to think of. A page
 * of his can send requests anywhere, and says so in Origin. Under a name whose
 * address it changes (DNS rebinding) it is no stranger to the browser, but that
 * name is still in Host; so names are taken only when they are ours. A request
 * that carries a token is not from such a page. An engine's token opens no more
 * than what an engine needs. What changes something comes
 * as application/json, which a page cannot send to strangers without asking.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: a refusal.
 */
#ifndef NODE_ADMIN_GUARD_H
#define NODE_ADMIN_GUARD_H

#include <stdbool.h>

#include "index/base/check.h"
#include "node/http/http_head.h"
#include "node/http/http_tokens.h"

struct admin_guard {
    const struct http_tokens *tokens; /* NULL: none is needed */
    const char *name;                 /* of the node: a name of ours */
};

struct admin_refusal {
    unsigned status; /* 401, 403 or 415 */
    const char *code;
    const char *message;
};

/* True: the request may pass, and *token is the one that it carries (NULL: none
 * is needed); one that joins passes to POST /admin/workers alone, and its worker
 * must have a ttl. False, and why. Texts are static, tokens those of the guard. */
bool admin_guard_admits(const struct admin_guard *guard,
                        const struct http_head *head, bool has_body,
                        const struct http_token **token,
                        struct admin_refusal *refusal) MUST_CHECK;

#endif
