/*
 * From a decoded batch of KV events to what changed: the engine's meaning.
 *
 * Which events count (attention groups, tiers by medium, locality), under
 * which namespace a block lies, which block size a stream has, what a
 * placeholder or a duplicate is. The ledger keeps the names; what comes out is
 * the words of one record (index/event.h). Every event that does not count is
 * counted under its reason.
 * [the rules, each with the engine it comes from]
 *
 * Role: core. Owns: what it learned of the stream. Thread: one owner.
 * Limits: KV_GROUPS_MAX groups. Errors: named outcomes.
 */
#ifndef NODE_KV_APPLY_H
#define NODE_KV_APPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/counter.h"
#include "index/index.h"
#include "node/kv_wire.h"

#define KV_GROUPS_MAX 16

/* X(name, help): one per stream, exported as
 * kvasir_events_NAME_total{worker,rank}. */
#define KV_COUNTERS(X)                                                         \
    X(batches, "Batches applied")                                              \
    X(events, "Events read")                                                   \
    X(bytes, "Payload bytes read")                                             \
    X(blocks_stored, "Blocks that became resident in a tier")                  \
    X(blocks_removed, "Blocks that left a tier")                               \
    X(cleared, "Times that the engine cleared its cache")                      \
    X(duplicates, "Copies of blocks held already")                             \
    X(drop_malformed, "Events dropped: not the msgpack they should be")        \
    X(drop_unknown_type, "Events dropped: a tag that is not known")            \
    X(drop_unaligned, "Events dropped: tokens do not fill the blocks")         \
    X(drop_repeated, "Events dropped: a hash twice, or its own parent")        \
    X(drop_opaque, "Events dropped: tokens that are no numbers")               \
    X(drop_placeholder, "Events dropped: no tokens, and a hash not known")     \
    X(drop_unknown_medium, "Events dropped: a medium that is not known")       \
    X(drop_non_local, "Events dropped: another machine's memory")              \
    X(drop_group, "Events dropped: not of the group that is indexed")          \
    X(drop_block_size, "Events dropped: another block size than the stream's") \
    X(drop_unknown_parent, "Events dropped: the parent is not held")           \
    X(drop_conflict, "Events dropped: one hash for two prefixes")              \
    X(drop_full, "Events dropped: memory bound reached")                       \
    X(unknown_removed, "Removed blocks that were not held")                    \
    X(rank_mismatch, "Batches whose payload names another rank")               \
    X(messages, "Messages received, live and replayed")                        \
    X(bad_frames, "Messages dropped: wrong frames")                            \
    X(other_topic, "Messages dropped: another topic")                          \
    X(gaps, "Times that batches were missing")                                 \
    X(restarts, "Times that the engine started anew")                          \
    X(replays, "Replays asked for")                                            \
    X(replay_incomplete, "Replays given up with a hole")                       \
    X(rereads, "Times that everything was read again")                         \
    X(pending_dropped, "Batches dropped while a replay ran: over the bound")   \
    X(connects, "Connections to the event socket")                             \
    X(disconnects, "Connections to the event socket lost")

#define KV_COUNTER_MEMBER(name, help) struct counter name;

struct kv_counters {
    KV_COUNTERS(KV_COUNTER_MEMBER)
};

/* What one stream is, as its events told. All zero at the start of each
 * incarnation. */
struct kv_apply {
    uint32_t block_tokens; /* 0: not known yet */
    bool has_group;        /* `group` is the one that is indexed */
    uint32_t group;
    uint16_t skipped_groups; /* bitmap of group indices that are not indexed */
    int64_t rank;            /* the socket's; -1: do not check */
};

enum {
    KV_APPLY_E_CLEARED = 1, /* the engine cleared its cache: start a new
                               incarnation with what follows in the batch; call
                               again with the same reader to go on */
    KV_APPLY_E_DAMAGED,     /* done, but events were lost before (an unknown
                               parent, a payload that breaks off): re-read */
};

/*
 * Applies the events that are left in the reader's batch to a ledger stream
 * and appends what changed to out. 0 when the batch is done, or the above.
 */
int kv_apply(struct kv_apply *apply, struct kv_reader *reader,
             struct ledger *ledger, uint32_t stream,
             struct kv_counters *counters, struct event_words *out) MUST_CHECK;

/* The tier a medium names, any case, empty is the device; -1 when unknown. */
int kv_tier_of(struct slice medium);

#endif
