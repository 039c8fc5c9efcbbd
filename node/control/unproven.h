/*
 * Unproven: prefixes that lanes sent to workers whose answers have not begun.
 *
 * A worker is not known to hold a prompt because the prompt was sent there: it
 * may refuse it, fail, or answer nothing. So control keeps each prefix under
 * its attempt's ticket until the lane says how the attempt went (facts.h:
 * FACT_SETTLED). fact_sink.c learns it then, or takes back what was expected in
 * the meantime. Blocks that the whole answer may prove are kept until then.
 *
 * Role: core. Owns: copies of the prefixes. Thread: control. Limits: bytes_max;
 * the oldest give way, and nothing is learned of them. Errors: a prefix without
 * memory is not kept, and counted.
 */
#ifndef NODE_UNPROVEN_H
#define NODE_UNPROVEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "node/base/list.h"
#include "node/view/facts.h"

#define UNPROVEN_BUCKETS 4096U

/* One fact of an attempt. */
struct unproven_prefix {
    struct list_link by_age;
    struct list_link fresh;       /* on no list: unproven_fresh() has told it */
    struct unproven_prefix *next; /* of its bucket */
    size_t bytes;
    uint32_t known; /* blocks of it that were expected before, or held */
    struct fact_learn fact; /* with its keys */
};

struct unproven {
    struct list_link by_age; /* the oldest first */
    struct list_link fresh;  /* likewise */
    size_t bytes;
    size_t bytes_max;
    uint64_t dropped; /* for want of room */
    struct unproven_prefix *bucket[UNPROVEN_BUCKETS];
};

/* Empty. bytes_max: of all copies. */
void unproven_init(struct unproven *u, size_t bytes_max);

/* Frees the copies. */
void unproven_fini(struct unproven *u);

/* Keeps a copy of a FACT_LEARN or FACT_EXPECT that has a ticket. False: there
 * is no memory for it. */
bool unproven_add(struct unproven *u, const struct fact_learn *fact,
                  uint32_t known) MUST_CHECK;

/* Keeps a FACT_LEARN or FACT_SESSION as if all of it were known, until
 * unproven_fresh() tells it. Without memory it is not kept. */
void unproven_add_fresh(struct unproven *u, const struct fact_learn *fact);

/* The oldest that was added so, was not told yet and is kept still; NULL: there
 * is none. It stays kept. */
struct unproven_prefix *unproven_fresh(struct unproven *u) MUST_CHECK;

/* A copy of that attempt, which is the caller's to unproven_free() now; NULL:
 * there is none any more. Called until then. */
struct unproven_prefix *unproven_take(struct unproven *u, uint64_t ticket)
    MUST_CHECK;

/* Keeps what unproven_take() returned, once more. */
void unproven_put_back(struct unproven *u, struct unproven_prefix *prefix);

/* Frees what unproven_take() returned. */
void unproven_free(struct unproven_prefix *prefix);

#endif
