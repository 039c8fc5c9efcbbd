/* The index of questions' vectors. */
#include <stdlib.h>

#include "node/answers/answers_alike_internal.h"

#define ENTRIES_MAX ((size_t)1 << 20)

static struct alike_entry **
bucket_of(const struct alike_index *index, struct key_wide kin)
{
    return &index->bucket[kin.high & index->mask];
}

/* All but the words are the same; the key has the tenant and the model. */
static bool
is_kin(const struct alike_entry *entry, const struct answers_question *question)
{
    return entry->kin.low == question->kin.low &&
           entry->kin.high == question->kin.high &&
           entry->key.tenant == question->tenant &&
           entry->key.model == question->model;
}

static bool
names(const struct alike_entry *entry, const struct answers_key *key)
{
    return entry->key.name.low == key->name.low &&
           entry->key.name.high == key->name.high &&
           entry->key.tenant == key->tenant && entry->key.model == key->model;
}

static size_t
bytes_of(const struct text_vector *vector)
{
    return sizeof(struct alike_entry) + text_vector_bytes(vector);
}

/* The list */

static void
link_newest(struct alike_index *index, struct alike_entry *entry)
{
    entry->newer = NULL;
    entry->older = index->newest;
    if (index->newest != NULL) {
        index->newest->newer = entry;
    } else {
        index->oldest = entry;
    }
    index->newest = entry;
}

static void
unlink_entry(struct alike_index *index, struct alike_entry *entry)
{
    if (entry->newer != NULL) {
        entry->newer->older = entry->older;
    } else {
        index->newest = entry->older;
    }
    if (entry->older != NULL) {
        entry->older->newer = entry->newer;
    } else {
        index->oldest = entry->newer;
    }
}

/* The chain */

static void
enter_chain(struct alike_index *index, struct alike_entry *entry)
{
    struct alike_entry **first = bucket_of(index, entry->kin);

    entry->next = *first;
    entry->back = first;
    if (entry->next != NULL) {
        entry->next->back = &entry->next;
    }
    *first = entry;
}

static void
leave_chain(struct alike_entry *entry)
{
    *entry->back = entry->next;
    if (entry->next != NULL) {
        entry->next->back = entry->back;
    }
}

static void
drop(struct alike_index *index, struct alike_entry *entry)
{
    leave_chain(entry);
    unlink_entry(index, entry);
    index->bytes -= bytes_of(entry->vector);
    index->entries--;
    free(entry->vector);
    free(entry);
}

void
alike_index_init(struct alike_index *index, size_t bytes_max)
{
    size_t entries = bytes_max / ALIKE_ENTRY_BYTES;

    CHECK(entries != 0);
    entries = entries < ENTRIES_MAX ? entries : ENTRIES_MAX;
    *index = (struct alike_index){
        .bytes_max = bytes_max, .entries_max = (uint32_t)entries, .mask = 1};
    while (index->mask < index->entries_max) {
        index->mask = index->mask * 2 + 1;
    }
}

void
alike_index_fini(struct alike_index *index)
{
    while (index->oldest != NULL) {
        drop(index, index->oldest);
    }
    free(index->bucket);
}

/* Questions */

enum answers_alike
alike_index_find(const struct alike_index *index,
                 const struct answers_question *question,
                 struct answers_key *key, uint32_t *permille)
{
    const struct alike_entry *best = NULL;
    uint32_t least = question->permille;
    uint32_t looks = 0;
    bool guarded = false;

    if (index->bucket == NULL) {
        return ANSWERS_UNLIKE;
    }
    for (const struct alike_entry *at = *bucket_of(index, question->kin);
         at != NULL && looks < ALIKE_LOOKS_MAX; at = at->next) {
        looks++;
        uint32_t cosine = is_kin(at, question)
                              ? text_vector_cosine(at->vector, question->vector)
                              : 0;
        if (cosine < least || cosine == 0) {
            continue;
        }
        if (at->guard != question->guard) {
            guarded = true;
        } else if (best == NULL || cosine > *permille) {
            best = at;
            *permille = cosine;
        }
    }
    if (best == NULL) {
        return guarded ? ANSWERS_GUARDED : ANSWERS_UNLIKE;
    }
    *key = best->key;
    return ANSWERS_ALIKE;
}

/* Among those that are compared. */
static struct alike_entry *
find_entry(const struct alike_index *index,
           const struct answers_question *question,
           const struct answers_key *key)
{
    struct alike_entry *at =
        index->bucket != NULL ? *bucket_of(index, question->kin) : NULL;

    for (uint32_t i = 0; at != NULL && i < ALIKE_LOOKS_MAX; i++) {
        if (is_kin(at, question) && names(at, key)) {
            return at;
        }
        at = at->next;
    }
    return NULL;
}

void
alike_index_touch(struct alike_index *index,
                  const struct answers_question *question,
                  const struct answers_key *key, bool gone)
{
    struct alike_entry *entry = find_entry(index, question, key);

    if (entry == NULL) {
        return; /* it gave way meanwhile */
    }
    if (gone) {
        drop(index, entry);
        return;
    }
    unlink_entry(index, entry);
    link_newest(index, entry);
    leave_chain(entry);
    enter_chain(index, entry);
}

void
alike_index_add(struct alike_index *index,
                const struct answers_question *question,
                const struct answers_key *key, struct text_vector *vector)
{
    size_t bytes = bytes_of(vector);
    struct alike_entry *entry = find_entry(index, question, key);

    if (entry != NULL) {
        drop(index, entry); /* of an answer that was kept before */
    }
    if (index->bucket == NULL) {
        index->bucket =
            calloc((size_t)index->mask + 1, sizeof(struct alike_entry *));
    }
    entry = index->bucket != NULL && bytes <= index->bytes_max
                ? malloc(sizeof(*entry))
                : NULL;
    if (entry == NULL) {
        free(vector);
        return;
    }
    while (index->entries >= index->entries_max ||
           index->bytes + bytes > index->bytes_max) {
        drop(index, index->oldest);
    }
    *entry = (struct alike_entry){
        .kin = question->kin,
        .guard = question->guard,
        .key = *key,
        .vector = vector,
    };
    enter_chain(index, entry);
    link_newest(index, entry);
    index->entries++;
    index->bytes += bytes;
}

void
alike_index_clear(struct alike_index *index, const struct answers_which *which)
{
    struct alike_entry *next;

    for (struct alike_entry *at = index->newest; at != NULL; at = next) {
        next = at->older;
        if ((!which->tenants || at->key.tenant == which->tenant) &&
            (!which->models || at->key.model == which->model)) {
            drop(index, at);
        }
    }
}

bool
alike_index_check(const struct alike_index *index)
{
    uint64_t entries = 0;
    uint64_t bytes = 0;

    for (const struct alike_entry *at = index->newest; at != NULL;
         at = at->older) {
        entries++;
        bytes += bytes_of(at->vector);
    }
    return entries == index->entries && bytes == index->bytes &&
           entries <= index->entries_max && bytes <= index->bytes_max;
}
