/*
 * One part of the cache: whole answers by name, and flights: requests whose
 * answer is on its way, for which others of the same name wait.
 *
 * A name is asked for: it is there (a hit), it is in flight, or whoever asks
 * takes off with it, and lands once, with an answer or without. Each flight
 * keeps which lanes have somebody who waits for it. Answers are counted
 * references: one that gives way lives on until the last one is given back.
 *
 * Role: core, private to node/answers. Owns: entries and answers. Thread: one at a
 * time. Limits: bytes_max and entries_max of what is kept, of which the least
 * recently used gives way; a flight belongs to an open request, of which the
 * caller has only so many. Errors: what finds no memory is not kept.
 */
#ifndef NODE_ANSWERS_TABLE_INTERNAL_H
#define NODE_ANSWERS_TABLE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "node/answers/answers.h"

struct answers_flight {
    struct answers_flight *next;  /* of its bucket */
    struct answers_flight *newer; /* of the list of the kept, or of flights */
    struct answers_flight *older;
    struct answers_key key;
    struct answers_kept *answer; /* NULL: in flight */
    uint64_t lanes;              /* that wait for it */
    uint64_t until_us;           /* of the answer */
    bool stale; /* its answer is not to be kept: it was cleared meanwhile */
};

/* The newest and the oldest of a list. */
struct answers_list {
    struct answers_flight *newest;
    struct answers_flight *oldest;
};

struct answers_table {
    size_t bytes_max;
    uint32_t entries_max;
    uint64_t ttl_us;
    uint32_t mask; /* of buckets */
    struct answers_flight **bucket;
    struct answers_list kept;
    struct answers_list flying;
    struct answers_stats stats;
};

/* 0, or -ENOMEM. */
int answers_table_init(struct answers_table *table, size_t bytes_max,
                       uint64_t ttl_us) MUST_CHECK;

/* Nothing is in flight. */
void answers_table_fini(struct answers_table *table);

/* As answers_ask() has it. */
enum answers_found answers_table_ask(struct answers_table *table,
                                     const struct answers_key *key,
                                     const struct answers_asker *asker,
                                     uint64_t now_us, struct answers_got *got);

/* As answers_land() has it. */
uint64_t answers_table_land(struct answers_table *table,
                            struct answers_flight *flight,
                            struct answers_kept *answer, uint64_t now_us);

/* As answers_clear() has it. */
uint32_t answers_table_clear(struct answers_table *table,
                             const struct answers_which *which);

/* One reference less. */
void answers_table_put(struct answers_kept *answer);

/* Whether its counts are those of its lists. */
bool answers_table_check(const struct answers_table *table);

#endif
