/*
 * The groups of a hybrid model's cache (index/shape.h), from its events.
 *
 * Each event names its group, and a store the group's kind and window. A store
 * of a window group spans all tokens, but names only the blocks that are kept,
 * and these by the hashes of full attention. What they stand for is looked up
 * there; and as vLLM tells of its groups in the order of their numbers, blocks
 * that full attention stores only later wait for its next store in the batch.
 * A removal names the group alone.
 *
 * Role: core, private to kv_apply. Owns: nothing. Thread: one owner.
 * Limits: KV_GROUPS_MAX groups, KV_WAITING_MAX blocks that wait. Errors: what
 * does not fit is counted and dropped.
 */
#ifndef NODE_KV_GROUPS_INTERNAL_H
#define NODE_KV_GROUPS_INTERNAL_H

#include "node/events/kv_apply_internal.h"

#define KV_WAITING_MAX 65536U

/* One batch on the way. */
struct kv_apply_batch {
    struct kv_apply *apply;
    struct kv_reader *reader;
    struct ledger *ledger;
    uint32_t stream;
    struct kv_counters *counters;
    struct event_words *out;
    uint32_t waiting; /* blocks, in the reader's memory */
    uint32_t told;    /* blocks that the last event was about */
    bool damaged;
    bool gone; /* a removal could not be read */
};

/* Makes room for everything that an event of this many hashes can say. False:
 * out->failed. */
static inline bool
kv_apply_has_room(struct event_words *out, uint32_t hashes)
{
    CHECK(out->count <= out->max);
    if (out->failed || (uint64_t)out->max - out->count < (uint64_t)hashes + 1) {
        out->failed = true;
    }
    return !out->failed;
}

/* Whether blocks of this kind of group are those of whole prefixes; so it is
 * without a kind. */
bool kv_groups_is_main(struct slice kind);

/* Learns what a store tells of its group, which keeps no whole prefixes. */
void kv_groups_learn(struct kv_apply *apply, const struct kv_event *event);

/* Whether an event is of a group that was learned, and of a window group. */
bool kv_groups_knows(const struct kv_apply *apply,
                     const struct kv_event *event);
bool kv_groups_is_window(const struct kv_apply *apply,
                         const struct kv_event *event);

/* The blocks of a store, a placeholder and a removal of a window group. */
void kv_groups_store(struct kv_apply_batch *b, const struct kv_event *event,
                     enum tier tier);
void kv_groups_place(struct kv_apply_batch *b, const struct kv_event *event,
                     enum tier tier);
void kv_groups_remove(struct kv_apply_batch *b, const struct kv_event *event,
                      enum tier tier);

/* Blocks that wait are stored now, if full attention holds them, or never. */
void kv_groups_settle(struct kv_apply_batch *b);

#endif
