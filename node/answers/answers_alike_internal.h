/*
 * Which kept answers are to questions like another one: a flat index of their
 * vectors, in chains by all else that their requests said.
 *
 * Of a chain the ALIKE_LOOKS_MAX that were used last are compared. An entry names an answer of
 * answers_table_internal.h and has no part in how long that is kept: who finds the
 * answer gone drops the entry. The least recently used gives way.
 *
 * Role: core, private to node/answers. Owns: entries and their vectors. Thread: one
 * at a time; answers_alike_find() many beside each other. Limits: bytes_max,
 * entries_max. Errors: what finds no memory is not indexed.
 */
#ifndef NODE_ANSWERS_ALIKE_INTERNAL_H
#define NODE_ANSWERS_ALIKE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "node/answers/answers.h"

#define ALIKE_LOOKS_MAX   2048U
#define ALIKE_ENTRY_BYTES 512U /* of bytes_max, for each entry */

struct alike_entry {
    struct alike_entry *next; /* of its bucket */
    struct alike_entry **back;
    struct alike_entry *newer;
    struct alike_entry *older;
    struct key_wide kin;
    uint64_t guard;
    struct answers_key key; /* of its answer */
    struct text_vector *vector;
};

struct alike_index {
    size_t bytes_max;
    uint32_t entries_max;
    uint32_t mask;               /* of buckets */
    struct alike_entry **bucket; /* NULL until something is added */
    struct alike_entry *newest;
    struct alike_entry *oldest;
    uint64_t entries;
    uint64_t bytes;
};

void alike_index_init(struct alike_index *index, size_t bytes_max);
void alike_index_fini(struct alike_index *index);

/* As answers_find_alike() has it. */
enum answers_alike alike_index_find(const struct alike_index *index,
                                    const struct answers_question *question,
                                    struct answers_key *key, uint32_t *permille)
    MUST_CHECK;

/* As answers_add_alike() has it. */
void alike_index_add(struct alike_index *index,
                     const struct answers_question *question,
                     const struct answers_key *key, struct text_vector *vector);

/* The entry of that answer was used, or is of no use (gone). */
void alike_index_touch(struct alike_index *index,
                       const struct answers_question *question,
                       const struct answers_key *key, bool gone);

/* As answers_clear() has it. */
void alike_index_clear(struct alike_index *index,
                       const struct answers_which *which);

/* Whether its counts are those of its list. */
bool alike_index_check(const struct alike_index *index);

#endif
