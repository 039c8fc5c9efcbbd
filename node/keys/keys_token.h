/*
 * Tokens: JSON Web Tokens (RFC 7519) that a client sends in place of a key,
 * signed by one of the keys of a set (keys_jwks.h). A claim names the tenant.
 *
 * A token is trusted for what it says only once its signature is right: by the
 * key that its `kid` names, with that key's own algorithm. It must end (`exp`);
 * `nbf`, `iss` and `aud` are held to the rules; a header with `crit` is refused.
 * Nothing that a token points at (`jku`, `x5u`, `jwk`) is followed.
 *
 * A signature costs 30 to 100 us, so a token that was found good is remembered
 * by its SHA-256, for as long as it and the set of keys last.
 *
 * Role: core; time is an argument. Owns: a reader's memory of tokens. Thread: a
 * reader belongs to one. Limits: KEYS_TOKEN_BYTES_MAX, KEYS_TOKENS_MAX. Errors:
 * named outcomes; -ENOMEM, -EIO.
 */
#ifndef NODE_KEYS_TOKEN_H
#define NODE_KEYS_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/keys/keys.h"
#include "node/keys/keys_jwks.h"

#define KEYS_TOKEN_BYTES_MAX 8192U
#define KEYS_TOKENS_MAX      1024U /* that are remembered, at 120 bytes */

enum keys_token_outcome {
    KEYS_TOKEN_FINE,
    KEYS_TOKEN_BAD,       /* none that can be read here */
    KEYS_TOKEN_KEY,       /* by none of these keys */
    KEYS_TOKEN_SIGNATURE, /* not by the key that it names */
    KEYS_TOKEN_EXPIRED,
    KEYS_TOKEN_EARLY,
    KEYS_TOKEN_ISSUER,
    KEYS_TOKEN_AUDIENCE,
    KEYS_TOKEN_TENANT, /* names no tenant of ours */
    KEYS_TOKEN_OUTCOMES,
};

/* "this token has expired": for the client. Static text. */
const char *keys_token_why(enum keys_token_outcome outcome);

/* Whether it looks like a token and not like a key of ours. */
bool keys_token_is(struct slice text);

struct keys_token_reader;

/* 0 and *out, or -ENOMEM. */
int keys_token_reader_new(struct keys_token_reader **out) MUST_CHECK;

/* NULL is fine. */
void keys_token_reader_free(struct keys_token_reader *reader);

/*
 * Whose token it is. now_s: since 1970. KEYS_TOKEN_FINE and *tenant; another
 * outcome; -EIO: the library failed. *verified: a signature was looked at.
 */
int keys_token_check(struct keys_token_reader *reader,
                     const struct keys_jwks *jwks, const struct keys *keys,
                     struct slice token, int64_t now_s, uint32_t *tenant,
                     bool *verified) MUST_CHECK;

#endif
