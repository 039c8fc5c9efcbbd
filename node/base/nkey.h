/*
 * Credentials of a NATS user: a file (.creds) with a JWT, which is shown, and the
 * seed of a key of Ed25519, with which what the server asks is signed. The source
 * is NATS' documentation of nkeys and of decentralised JWT authentication.
 *
 * Role: shell. Owns: nothing; struct nkey is the caller's, who wipes it. Thread:
 * any. Limits: NKEY_FILE_MAX, NKEY_JWT_MAX. Errors: named outcome and a text.
 */
#ifndef NODE_NKEY_H
#define NODE_NKEY_H

#include "index/base/check.h"
#include "index/base/slice.h"

#include <stdint.h>

#define NKEY_FILE_MAX   ((size_t)16 << 10)
#define NKEY_JWT_MAX    8192U /* with its NUL */
#define NKEY_SEED_BYTES 32U
#define NKEY_SIGNED_MAX 88U /* a signature as base64url, with its NUL */

struct nkey {
    char jwt[NKEY_JWT_MAX];
    uint8_t seed[NKEY_SEED_BYTES];
};

enum {
    NKEY_E_BAD = 1, /* see why */
};

/* Reads the file's text. 0, or NKEY_E_BAD and *why, static text. */
int nkey_read(struct slice text, struct nkey *key, const char **why) MUST_CHECK;

/* The same of a file. */
int nkey_load(const char *path, struct nkey *key, const char **why) MUST_CHECK;

/* Signs the text. False: there is no memory. */
bool nkey_sign(const struct nkey *key, struct slice text,
               char out[NKEY_SIGNED_MAX]) MUST_CHECK;

/* Nothing of it is left in memory. */
void nkey_wipe(struct nkey *key);

#endif
