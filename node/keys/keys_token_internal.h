/*
 * The JSON inside a token: its head, which is read before anything is trusted,
 * and its claims, which are read once the signature is right. Private to
 * node/keys and its tests.
 */
#ifndef NODE_KEYS_TOKEN_INTERNAL_H
#define NODE_KEYS_TOKEN_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "node/keys/keys_jwks.h"

struct token_head {
    char alg[16];
    char kid[KEYS_KID_MAX];
};

struct token_claims {
    bool has_exp;
    bool right_issuer;
    bool right_audience;
    int64_t exp_s;
    int64_t nbf_s;              /* INT64_MIN: there is none */
    char tenant[KEYS_NAME_MAX]; /* "": none that fits */
};

/* False: it is no head that may be trusted, or not JSON. */
bool keys_token_read_head(struct slice json, struct token_head *head)
    MUST_CHECK;

/* False: they are no claims with an exp, or not JSON. */
bool keys_token_read_claims(struct slice json, const struct keys_rules *rules,
                            struct token_claims *claims) MUST_CHECK;

#endif
