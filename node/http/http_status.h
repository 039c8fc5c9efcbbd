/*
 * The names of status codes (RFC 9110, section 15), and the body that says what
 * went wrong, in the form that OpenAI's clients read:
 *
 *   {"error":{"message":"...","type":"...","code":"..."}}
 *
 * or in that which Anthropic's do:
 *
 *   {"type":"error","error":{"type":"...","message":"..."}}
 *
 * Role: core. Owns: nothing; names are static texts. Thread: any. Limits:
 * HTTP_ERROR_MESSAGE_MAX; allocates nothing, so that lack of memory can be
 * reported.
 */
#ifndef NODE_HTTP_STATUS_H
#define NODE_HTTP_STATUS_H

#include "node/http/http_head.h"

#define HTTP_ERROR_MESSAGE_MAX 1024 /* bytes, escaped */
#define HTTP_ERROR_ROOM        (HTTP_ERROR_MESSAGE_MAX + 256)

/* The reason phrase, "Not Found"; "Status" when the code is unknown here. */
const char *http_status_reason(unsigned status);

/* The error code of answers that need no better one, "not_found"; "error" when
 * the status is unknown here. */
const char *http_status_code(unsigned status);

/* Writes the body above into out and returns it. status: 400 to 599, from
 * which the type follows. code: at most 64 bytes, fit for JSON as it is.
 * message: any text; what exceeds HTTP_ERROR_MESSAGE_MAX is left out. */
struct slice http_error_body(unsigned status, const char *code,
                             const char *message, char out[HTTP_ERROR_ROOM]);

/* The same in the second form. */
struct slice http_error_anthropic(unsigned status, const char *message,
                                  char out[HTTP_ERROR_ROOM]);

/* The message of a 405: which method of which path, and `allowed`, which is the
 * same list as in its Allow. What is too long of it is left out. */
void http_method_message(const struct http_head *head, const char *allowed,
                         char out[HTTP_ERROR_MESSAGE_MAX]);

#endif
