/*
 * Heat: how often prefixes were asked for lately.
 *
 * A prefix that many requests share at one moment is wanted at more than one
 * worker; one that is asked for now and then is not worth its second copy. So
 * each request is counted at one kept key (decided.h): that of the longest
 * prefix of its prompt that a worker held. Prompts that go on from there, such
 * as the turns of other conversations, do not make their common beginning hot:
 * nobody has to compute that. A count fades over HEAT_FADE_MS: it is about what
 * came in the last five seconds. Where two keys meet in one place of the table,
 * the one that is asked for stays.
 *
 * Role: core. Owns: nothing. Thread: one writer; any reader, which sees some
 * recent count, or for a moment another key's. Limits: HEAT_PLACES. Errors:
 * none: what has no place is not hot, and counted.
 */
#ifndef NODE_HEAT_H
#define NODE_HEAT_H

#include <stdint.h>

#include "index/base/counter.h"

#define HEAT_PLACES  65536U /* a megabyte */
#define HEAT_FADE_MS 5000U  /* after which 1 / e of a count is left */
#define HEAT_HALF_MS 3466U  /* ln 2 of these */

/* All zero is an empty one. */
struct heat {
    struct counter now_ms; /* of the writer's last call */
    struct counter lost;   /* requests at keys without a place */
    struct heat_place {
        struct counter key;
        struct counter count; /* stamp in ms << 32 | thousandths of requests */
    } place[HEAT_PLACES];
};

/* A request for a prompt with these keys. */
void heat_add(struct heat *heat, const uint64_t *keys, uint32_t count,
              uint64_t now_us);

/* Time passes without requests. */
void heat_pass(struct heat *heat, uint64_t now_us);

/* Requests that asked for this prefix lately, in thousandths. */
uint32_t heat_of(const struct heat *heat, uint64_t key);

#endif
