/*
 * What was cleared, as Redis says it to all nodes: a hash of marks, texts that are
 * drawn anew with each clearing: one of all answers, and one of each tenant, model,
 * and tenant's model that was ever cleared alone. An answer is sealed with a digest
 * of the marks that it has to do with, as they were before its engine was asked
 * (redis_seal.h), and is of no use once one of them is another. So a clearing is one
 * command, whatever there is, and holds for answers that are on their way. All
 * answers are cleared by deleting the hash; so does a Redis that evicts it.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: false.
 */
#ifndef NODE_REDIS_MARKS_H
#define NODE_REDIS_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/answers/answers.h"
#include "node/redis/redis_seal.h"
#include "node/redis/resp.h"

#define REDIS_MARKS_ASK 6U /* words that ask for them */
#define REDIS_MARKS_SET 4U /* words that set one */
#define REDIS_MARK_MAX  64U
#define REDIS_FIELD_MAX 40U

/* Texts of a command's words. */
struct redis_marks_text {
    char tenant[REDIS_FIELD_MAX];
    char model[REDIS_FIELD_MAX];
    char both[REDIS_FIELD_MAX];
    char mark[2 * REDIS_NONCE_BYTES + 1];
};

/* Asks for the marks of an answer; words borrow from *text. */
void redis_marks_ask(const struct answers_key *key,
                     struct redis_marks_text *text,
                     struct slice words[REDIS_MARKS_ASK]);

/* Reads them. False: there are none, and redis_marks_begin() is due. */
bool redis_marks_read(const struct resp *reply, uint64_t *digest) MUST_CHECK;

/* Sets the mark of all answers, unless there is one. */
void redis_marks_begin(const uint8_t nonce[REDIS_NONCE_BYTES],
                       struct redis_marks_text *text,
                       struct slice words[REDIS_MARKS_SET]);

/* Clears; returns how many words there are. After everything was cleared,
 * redis_marks_begin() is due. */
unsigned redis_marks_clear(const struct answers_which *which,
                           const uint8_t nonce[REDIS_NONCE_BYTES],
                           struct redis_marks_text *text,
                           struct slice words[REDIS_MARKS_SET]);

#endif
