/*
 * The public keys of those who make tokens: a JSON Web Key Set (RFC 7517), and
 * what its tokens must say. A key of the set is for one algorithm, whatever a
 * token claims (RFC 8725): RS256 for RSA keys of 2,048 to 4,096 bits, ES256 for
 * points on P-256. Other keys of a set are passed over, as RFC 7517 has it.
 *
 * Role: core. Owns: its keys. Thread: any number of readers once it is made.
 * Limits: KEYS_JWKS_*. Errors: static text.
 */
#ifndef NODE_KEYS_JWKS_H
#define NODE_KEYS_JWKS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/slice.h"
#include "node/keys/keys.h"

#define KEYS_JWKS_MAX       64U /* usable keys of a set; more are an error */
#define KEYS_JWKS_BYTES_MAX ((size_t)256 << 10)
#define KEYS_KID_MAX        128U /* of a key's id, with its NUL */
#define KEYS_CLAIM_MAX      256U /* of a text in a token, with its NUL */

enum keys_alg {
    KEYS_RS256,
    KEYS_ES256,
};

/* What a token must say. */
struct keys_rules {
    char issuer[KEYS_CLAIM_MAX];   /* "": anybody whose key is in the set */
    char audience[KEYS_CLAIM_MAX]; /* "": any */
    char tenant_claim[KEYS_CLAIM_MAX];
    char default_tenant[KEYS_NAME_MAX]; /* of tokens that name no tenant of
                                           ours; "": they are refused */
    uint32_t leeway_s;                  /* by which clocks may differ */
};

struct keys_jwk {
    enum keys_alg alg;
    char kid[KEYS_KID_MAX];  /* "": it has none */
    struct evp_pkey_st *key; /* OpenSSL's */
};

struct keys_jwks {
    struct qsbr_node retired; /* first */
    struct keys_rules rules;
    uint64_t version; /* the owner's, another one for each set */
    uint32_t count;
    struct keys_jwk jwk[KEYS_JWKS_MAX];
};

/* Reads a set; the rules are copied. NULL and *why: it is none, or has no key
 * that can be used. */
struct keys_jwks *keys_jwks_new(struct slice json,
                                const struct keys_rules *rules,
                                const char **why) MUST_CHECK;

/* NULL is fine. */
void keys_jwks_free(struct keys_jwks *jwks);

/* For qsbr_retire(). */
void keys_jwks_free_retired(struct qsbr_node *retired);

/* The key of that id and algorithm; without an id ("") the only one of that
 * algorithm. NULL: there is none. */
const struct keys_jwk *keys_jwks_find(const struct keys_jwks *jwks,
                                      const char *kid, enum keys_alg alg);

/*
 * Decodes base64url without padding (RFC 7515) into out. False: it is none, or
 * over `room` bytes; bits that stand for nothing must be 0.
 */
bool keys_base64url(struct slice text, uint8_t *out, size_t room, size_t *size)
    MUST_CHECK;

#endif
