/*
 * The log of one stream: its latest records, in order and without a gap.
 *
 * It covers the positions after `low` up to `high`. Each entry covers the
 * positions after its predecessor up to its own. When there is no room, the
 * older half is dropped, except what the owner still needs. A log that cannot
 * grow, because all logs together are at their bound, takes half of the memory of
 * the largest one, as long as that stays larger than itself. So a stream that
 * comes last has its share, and those that fell silent give way.
 *
 * Role: core. Owns: its memory, counted in the store that all logs share.
 * Thread: one owner. Limits: struct delta_log_store.
 */
#ifndef GOSSIP_DELTA_LOG_INTERNAL_H
#define GOSSIP_DELTA_LOG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"

struct delta_log_store {
    struct delta_log *first; /* those that have memory */
    size_t bytes;            /* used by all logs */
    size_t bytes_max;        /* limit for all logs */
    uint32_t log_bytes;      /* limit for one log's bodies */
    uint32_t log_count;      /* limit for one log's entries */
    uint64_t dropped;        /* entries dropped to make room */
};

struct delta_log_entry {
    uint64_t pos;
    uint32_t at; /* offset of its body in `bytes` */
    uint32_t len;
};

struct delta_log {
    struct delta_log *next; /* in the store's list */
    uint64_t low;
    uint64_t high;
    uint64_t keep; /* entries beyond it are not dropped; the owner's, too */
    struct delta_log_entry *entries;
    uint32_t first; /* entries[first..first+count) */
    uint32_t count;
    uint32_t entries_size;
    uint8_t *bytes; /* bodies, in order, up to tail */
    uint32_t tail;
    uint32_t bytes_size;
};

/* Frees the memory; the log covers nothing after pos. */
void delta_log_fini(struct delta_log *log, struct delta_log_store *store);

/* Forgets the entries and keeps the memory. */
void delta_log_restart(struct delta_log *log, uint64_t pos);

/* Appends a record that ends at pos > high. Entries beyond `keep` are not
 * dropped, nor are they by appends to other logs: false when there is no room
 * without dropping them. The log stays where it is until delta_log_fini(). */
bool delta_log_append(struct delta_log *log, struct delta_log_store *store,
                      uint64_t keep, uint64_t pos, const uint8_t *body,
                      uint32_t len) MUST_CHECK;

/* Index of the first entry beyond pos (0 is the oldest); count when there is
 * none. */
uint32_t delta_log_after(const struct delta_log *log, uint64_t pos);

/* The at-th entry; 0 is the oldest, at < count. Valid until the log changes. */
static inline const struct delta_log_entry *
delta_log_entry_at(const struct delta_log *log, uint32_t at)
{
    CHECK(at < log->count);
    return &log->entries[log->first + at];
}

/* Whether a state at pos can continue with the log. */
static inline bool
delta_log_covers(const struct delta_log *log, uint64_t pos)
{
    CHECK_SLOW(log->low <= log->high);
    return log->low <= pos && pos <= log->high;
}

/* Verifies the invariants of one log. False: *reason says which one is broken,
 * static text. */
bool delta_log_check(const struct delta_log *log,
                     const struct delta_log_store *store, const char **reason);

#endif
