/*
 * The tokens that open a port: Authorization: Bearer TOKEN (RFC 6750).
 *
 * A file has one token a line, after a name that the log can show: "NAME
 * TOKEN". A line of one word is a token whose name is "token". "NAME TOKEN join"
 * is one for engines, which may announce themselves with it and nothing else.
 * Empty lines and lines that begin with # are skipped. Several tokens let each operator have
 * his own, and let one be replaced without a moment in which none is good.
 *
 * A token is compared in a time that depends on neither its bytes nor on how
 * many of them are right.
 *
 * Role: core, except for http_tokens_load(), which reads a file. Owns: nothing.
 * Thread: any. Limits: HTTP_TOKENS_MAX, HTTP_TOKEN_MAX, HTTP_TOKENS_FILE_MAX.
 * Errors: static texts that say what was expected; -errno.
 */
#ifndef NODE_HTTP_TOKENS_H
#define NODE_HTTP_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/http/http_head.h"

#define HTTP_TOKENS_MAX      32
#define HTTP_TOKEN_MIN       16 /* characters; fewer can be guessed */
#define HTTP_TOKEN_MAX       128
#define HTTP_TOKEN_NAME_MAX  64 /* a name and its NUL */
#define HTTP_TOKENS_FILE_MAX ((size_t)16 << 10)

struct http_token {
    char name[HTTP_TOKEN_NAME_MAX];
    char text[HTTP_TOKEN_MAX + 1]; /* all zero behind the token */
    bool joins;                    /* an engine's, and no operator's */
};

struct http_tokens {
    uint32_t count; /* once read, 1 or more are operators' */
    struct http_token token[HTTP_TOKENS_MAX];
};

/* Reads a file's bytes. NULL and *tokens; or what was expected, static text,
 * and *tokens is unchanged. */
const char *http_tokens_read(struct slice bytes, struct http_tokens *tokens)
    MUST_CHECK;

/* Reads the file at path. 0 and *tokens; or -errno with *want NULL; or -EINVAL
 * with *want, the text of http_tokens_read(). *tokens is unchanged then. */
int http_tokens_load(const char *path, struct http_tokens *tokens,
                     const char **want) MUST_CHECK;

/* The first one that is an operator's; NULL: none was read. */
const struct http_token *http_tokens_operator(const struct http_tokens *tokens);

/* The name of the operator's token with this text; NULL: it is none of these.
 * The name lives as long as *tokens. */
const char *http_tokens_name(const struct http_tokens *tokens,
                             struct slice text);

/* The word behind "Bearer" in Authorization, in the head's bytes. False: there
 * is none, or the header is repeated. */
bool http_tokens_bearer(const struct http_head *head, struct slice *text)
    MUST_CHECK;

/* The token, whoever's, that the request carries in Authorization; NULL: none of
 * these, or the header is repeated. It is one of *tokens. */
const struct http_token *http_tokens_find(const struct http_tokens *tokens,
                                          const struct http_head *head);

#endif
