/*
 * Why a Redis refuses a command, by the first word of its error.
 *
 * Source: redis.io/docs/reference/protocol-spec, and the errors that Redis 7 and
 * Valkey 9 make (OOM, READONLY, NOAUTH, WRONGPASS, NOPERM, ...).
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef NODE_REDIS_REFUSAL_H
#define NODE_REDIS_REFUSAL_H

#include "index/base/slice.h"

enum redis_refusal {
    REDIS_FULL,      /* no memory, and nothing may be evicted */
    REDIS_READ_ONLY, /* it follows another one */
    REDIS_PASSWORD,
    REDIS_RIGHTS, /* its user may not do that */
    REDIS_OTHER,
    REDIS_REFUSALS,
};

/* said: the error, without its sign. */
enum redis_refusal redis_refusal_of(struct slice said);

/* "full", "read_only", ... Static text. */
const char *redis_refusal_name(enum redis_refusal refusal);

/* "it is full", ... Static text. */
const char *redis_refusal_why(enum redis_refusal refusal);

/* What to do. Static text. */
const char *redis_refusal_hint(enum redis_refusal refusal);

#endif
