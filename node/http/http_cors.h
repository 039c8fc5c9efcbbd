/*
 * Which pages of other origins may read answers (CORS, WHATWG Fetch 3.2).
 *
 * Such a page's browser says where the page is from (Origin), and asks before
 * it sends what a form could not have sent: the preflight, an OPTIONS with
 * Access-Control-Request-Method. Nothing is allowed to a page but what a key
 * allows to everybody: no cookies and no other credentials of the browser are
 * taken, so a listed page can do no more than what its own code has a key for.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: HTTP_CORS_ASKED_MAX bytes of
 * names that a preflight asks for. Errors: none.
 */
#ifndef NODE_HTTP_CORS_H
#define NODE_HTTP_CORS_H

#include <stdbool.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/http/http_head.h"

#define HTTP_CORS_ASKED_MAX 2048U

/* Whether these are origins, SCHEME://HOST[:PORT] between blanks, or * alone. */
bool http_cors_is_list(struct slice origins) MUST_CHECK;

/* What a page from there is told: "*", its own origin as the list has it, or
 * nothing, because it is none of these. origins: as above, or empty. */
struct slice http_cors_find(struct slice origins, struct slice origin);

/* Whether the request is a browser's question beforehand. */
bool http_cors_is_preflight(const struct http_head *head);

/* Adds the lines of an answer for a page of that origin (http_cors_find()'s);
 * empty: only that the answer depends on it, which caches must know. */
void http_cors_add(struct buf *out, struct slice allowed);

/* The same, of the answer to a preflight, which it is. */
void http_cors_add_preflight(struct buf *out, struct slice allowed,
                             const struct http_head *head);

/* Whether an engine's field is about this: the node alone says who may read. */
bool http_cors_is_field(struct slice name);

#endif
