/*
 * Where a Redis is and what is needed for it: its address, and a file with what
 * nobody else may know.
 *
 * redis://HOST[:PORT][/NUMBER], or rediss:// for TLS; port 6379 and database 0
 * when absent. The file has lines of a name and a value: `secret` (required, 16 to
 * 256 characters, the same on all nodes), `password`, `user`; empty lines, and
 * lines that begin with #.
 *
 * Of the secret are made: the seed of answers' names (answers_form.h), so that
 * they are the same on all nodes and nobody else can find two bodies of one
 * name; and the key that answers are sealed with (redis_seal.h).
 *
 * Role: shell, for reading the file. Owns: nothing. Thread: any. Limits: as
 * above, and REDIS_FILE_MAX. Errors: static texts.
 */
#ifndef NODE_REDIS_PLACE_H
#define NODE_REDIS_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/text/url.h"

#define REDIS_FILE_MAX      4096U
#define REDIS_WORD_MAX      257U /* of a user or password, with its NUL */
#define REDIS_KEY_BYTES     32U
#define REDIS_DATABASES_MAX 1024U

struct redis_place {
    struct url url; /* tls: rediss */
    uint32_t database;
};

struct redis_secret {
    uint64_t seed;
    uint8_t key[REDIS_KEY_BYTES];
    char user[REDIS_WORD_MAX];     /* "": the default one */
    char password[REDIS_WORD_MAX]; /* "": none is needed */
};

/* NULL, or what was expected (and *place is undefined). */
const char *redis_place_read(struct slice text, struct redis_place *place)
    MUST_CHECK;

/* NULL, or what is wrong with the file. */
const char *redis_secret_read(const char *path, struct redis_secret *secret)
    MUST_CHECK;

/* Overwrites it. */
void redis_secret_forget(struct redis_secret *secret);

#endif
