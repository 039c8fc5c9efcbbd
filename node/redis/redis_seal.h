/*
 * Answers as they lie in Redis: sealed, so that who can read it reads no answer,
 * and who can write it plants none (AES-256 in GCM, a key of the nodes' secret, a
 * nonce drawn for each). What an answer is to, its tenant and its model are sealed
 * into it: under another name it does not open.
 *
 *   "KvA1" nonce(12) tag(16) | made_ms(8) cleared(8) type_len(2) type body
 *
 * Numbers are little-endian; what is behind the bar is enciphered. Another form
 * gets another beginning, and another prefix of its name.
 *
 * Source: NIST SP 800-38D. Role: core, but for redis_nonce(). Owns: nothing.
 * Thread: any. Limits: as the caller says. Errors: named outcomes, -ENOMEM.
 */
#ifndef NODE_REDIS_SEAL_H
#define NODE_REDIS_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/answers/answers.h"
#include "node/redis/redis_place.h"

#define REDIS_NONCE_BYTES 12U
#define REDIS_NAME_MAX    96U /* of an answer's name in Redis, with a NUL */

/* Beside the answer. */
struct redis_facts {
    uint64_t made_ms; /* it came, since 1970 */
    uint64_t cleared; /* what was cleared before it was asked for: a digest */
};

enum {
    REDIS_SEAL_E_BAD = 1, /* damaged, foreign, for another name, or too large */
};

/* Writes the number as 16 digits, without a NUL; returns where they end. */
char *redis_hex(uint64_t number, char *at);

/* The name that the answer has in Redis; returns its length. */
size_t redis_name(const struct answers_key *key, char out[REDIS_NAME_MAX]);

/* Draws a nonce. False: there is no randomness. */
bool redis_nonce(uint8_t nonce[REDIS_NONCE_BYTES]) MUST_CHECK;

/* Appends the sealed answer; it may fail as buffers do. 0 or -ENOMEM. */
int redis_seal(const struct redis_secret *secret, const struct answers_key *key,
               const struct redis_facts *facts,
               const uint8_t nonce[REDIS_NONCE_BYTES],
               const struct answers_kept *answer, struct buf *out) MUST_CHECK;

/* Opens it. 0, and *answer is the caller's as answers_kept_new() has it; or
 * REDIS_SEAL_E_BAD, or -ENOMEM. body_max: of the answer's body. */
int redis_unseal(const struct redis_secret *secret,
                 const struct answers_key *key, struct slice sealed,
                 size_t body_max, struct redis_facts *facts,
                 struct answers_kept **answer) MUST_CHECK;

#endif
