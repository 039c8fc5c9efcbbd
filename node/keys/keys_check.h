/*
 * Making a key, and telling whether a client's key is one of those that are
 * known: SHA-256 (FIPS 180-4) by OpenSSL, compared in a time that does not
 * depend on where two hashes differ.
 *
 * Role: core; randomness is an argument. Owns: a checker's state. Thread: a
 * checker belongs to one. Limits: none. Errors: named outcomes of keys.h,
 * -errno.
 */
#ifndef NODE_KEYS_CHECK_H
#define NODE_KEYS_CHECK_H

#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/keys/keys.h"

#define KEYS_RANDOM_BYTES (KEYS_ID_BYTES + KEYS_SALT_BYTES + KEYS_SECRET_BYTES)
#define KEYS_KEY_ROOM     96  /* a client's key and its NUL */
#define KEYS_LINE_ROOM    128 /* what a file keeps of it, the same */

struct keys_checker;

/* 0 and *out, or -ENOMEM. */
int keys_checker_new(struct keys_checker **out) MUST_CHECK;

/* NULL is fine. */
void keys_checker_free(struct keys_checker *checker);

/* Whose key it is. 0 and *tenant; KEYS_E_UNKNOWN; -EIO: the library failed. It
 * allocates nothing. */
int keys_check(struct keys_checker *checker, const struct keys *keys,
               struct slice key, uint32_t *tenant) MUST_CHECK;

/* Makes a key of random bytes, which nobody else may have seen: what the client
 * gets, and what a file keeps. 0, or -EIO. */
int keys_make(struct keys_checker *checker,
              const uint8_t random[KEYS_RANDOM_BYTES], char key[KEYS_KEY_ROOM],
              char line[KEYS_LINE_ROOM]) MUST_CHECK;

/* Isolates a tenant by the secret of the file of keys. 0, or -EIO. */
int keys_isolate(const uint8_t secret[KEYS_SECRET_BYTES], struct slice tenant,
                 struct keys_isolation *isolation) MUST_CHECK;

/* The cache salt of a request of an isolated tenant whose client has given one
 * of its own (empty: none): no client can make another tenant's. It allocates
 * nothing that lasts. */
void keys_cache_salt(const struct keys_isolation *isolation, struct slice given,
                     char out[KEYS_CACHE_SALT_ROOM]);

#endif
