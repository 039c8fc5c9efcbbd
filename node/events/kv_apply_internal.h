/*
 * From a decoded batch of KV events to what changed: the engine's meaning.
 *
 * Which events count (attention groups, tiers by medium, locality), under
 * which namespace a block lies, which block size a stream has, what a
 * placeholder or a duplicate is. The ledger keeps the names; what comes out is
 * the words of one record (index/event.h). Every event that does not count is
 * counted under its reason. In the order in which an event is asked:
 *
 *   locality   REMOTE is another machine's memory (vLLM)
 *   medium     names a tier, see kv_tier_of(); what no table knows is dropped
 *   group      of a hybrid model (vLLM) only layers with full attention keep
 *              whole prefixes: kv_cache_spec_kind full_attention,
 *              mla_attention, sink_full_attention or absent. The first such
 *              group is the main one, for equal hashes come in several groups.
 *              Window groups (sliding_window) are indexed beside it, as
 *              index/shape.h says; with any other kind nobody can tell what a
 *              hit is, and the stream's shape says so. Removals name the group
 *              without its kind, so it is remembered
 *   tokens     none: a placeholder of vLLM's offload, which tells a further
 *              tier of a block that is known. Strings among them
 *              (TensorRT-LLM's media): nobody could ask for such a block
 *   size       and the tokens ahead that its hashes cover (index/shape.h): the
 *              stream's is learned from its stores. One block alone may be
 *              the short last page of an old SGLang or a part of a block that
 *              vLLM publishes early, so until a second block in a row proves
 *              the size, a larger one takes its place and what was stored is
 *              taken back. Other sizes are dropped
 *   namespace  of a first block: the adapter by name (of very old engines by
 *              number) and the salt, which SGLang has as cache_salt and vLLM in
 *              the extra keys. Blocks behind it inherit it by their parent
 *   media      per block, from the extra keys, see kv_extras_next()
 *   parent     one that is not held never makes a root: the event is dropped,
 *              and as its parent's event must have been lost, the batch ends
 *              as DAMAGED. Not so when the parent is one that was dropped here
 *              on purpose lately, or memory was full: reading again would
 *              not help
 *
 * Role: core. Owns: what it learned of the stream. Thread: one owner.
 * Limits: KV_GROUPS_MAX groups. Errors: named outcomes.
 */
#ifndef NODE_KV_APPLY_INTERNAL_H
#define NODE_KV_APPLY_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/counter.h"
#include "index/index.h"
#include "node/events/kv_wire_internal.h"

#define KV_GROUPS_MAX   16
#define KV_LONE_MAX     8
#define KV_DROPPED_BITS 8192 /* of both halves */
#define KV_DROPPED_FILL 512  /* bits of a half that are set when it ages */
#define KV_FULL_EVENTS  4096 /* that were stored since memory was full */

/* X(name, help): one per stream. /admin/workers has them by stream; metrics have
 * their totals, kvasir_events_NAME_total, and of drop_REASON
 * kvasir_events_dropped_total{reason}. */
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
    X(restarts, "Times that the engine restarted")                             \
    X(replays, "Replays asked for")                                            \
    X(replay_incomplete, "Replays given up with a hole")                       \
    X(rereads, "Times that everything was read again")                         \
    X(pending_dropped, "Batches dropped while a replay ran: over the bound")   \
    X(connects, "Connections to the event socket")                             \
    X(disconnects, "Connections to the event socket lost")

enum kv_group_kind {
    KV_GROUP_NONE,   /* not heard of, or one that keeps whole prefixes */
    KV_GROUP_WINDOW, /* sliding windows */
    KV_GROUP_OTHER,  /* nobody knows what a hit needs of it */
};

struct kv_group {
    enum kv_group_kind kind;
    uint32_t window; /* tokens; of a window group, as is: */
    uint32_t block_tokens;
};

#define KV_COUNTER_MEMBER(name, help) struct counter name;

struct kv_counters {
    KV_COUNTERS(KV_COUNTER_MEMBER)
};

/* A run of blocks in full attention's group that an event stores in the engine,
 * with nothing beside its tokens and namespace to set it apart. */
struct kv_stored {
    bool has_parent;
    uint64_t parent; /* key of the block before it, else: */
    uint64_t root;   /* of its namespace */
    const uint32_t *tokens;
    uint32_t tokens_count; /* a multiple of a block's */
    uint32_t grain;        /* index/shape.h */
};

/* Who hears of them, and whose they are. */
struct kv_listener {
    bool (*wants)(void *context, uint32_t worker); /* a hint */
    void (*stored)(void *context, const struct kv_listener *listener,
                   const struct kv_stored *stored);
    void *context;
    uint32_t worker;
    uint32_t generation;
};

/* What a stream's events have told about it. All zero (but rank) at the start
 * of each incarnation. */
struct kv_apply {
    uint32_t block_tokens; /* 0: not known yet */
    uint32_t ahead;        /* that hashes cover behind a block, as a grain
                              has it (index/shape.h) */
    bool has_group;        /* `group` is the main group */
    uint32_t group;
    bool has_windows; /* there are window groups among: */
    bool unruled;     /* there is a group that is neither main nor window */
    struct kv_group groups[KV_GROUPS_MAX];
    int64_t rank;                       /* the socket's; -1: do not check */
    const struct kv_listener *listener; /* borrowed; NULL: nobody listens */
    /* The ledger refused a store for its bound: what is missing may be that,
     * for so many more events that are stored. 0: it is not. */
    uint32_t full;
    bool is_size_proven;
    uint8_t lone_count;
    uint64_t lone[KV_LONE_MAX]; /* blocks held whose size is not proven yet */
    /* A bit for each hash whose store was dropped lately, by 12 bits of it:
     * what hangs on these is no damage. Marks are set in the first half. When
     * that has KV_DROPPED_FILL of them it becomes the second one, whose marks
     * are forgotten; so at most one other hash in four is taken for dropped. */
    uint64_t dropped[KV_DROPPED_BITS / 64];
};

enum {
    KV_APPLY_E_CLEARED = 1, /* the engine cleared its cache: start a new
                               incarnation with the rest of the batch, and call
                               again with the same reader */
    KV_APPLY_E_DAMAGED,     /* done, but events were lost before (an unknown
                               parent, a payload that breaks off): re-read */
    KV_APPLY_E_GONE,        /* done, but a removal could not be read: any of the
                               blocks may be gone */
};

/* Words of room that `out` needs for the rest of a payload of this many
 * bytes. */
#define KV_APPLY_WORDS(bytes) ((bytes) + 64)

/*
 * Applies the remaining events of the reader's batch to a ledger stream and
 * appends the changes to out. 0 when the batch is done, or an outcome above. If
 * out is too small: DAMAGED, with out->failed. A reader whose batch could not
 * be begun counts as a truncated payload.
 */
int kv_apply(struct kv_apply *apply, struct kv_reader *reader,
             struct ledger *ledger, uint32_t stream,
             struct kv_counters *counters, struct event_words *out) MUST_CHECK;

/* The shape of the stream's blocks (index/shape.h), as far as it is known. */
uint32_t kv_apply_shape(const struct kv_apply *apply);

/*
 * The tier a medium names, in any case, -1 when unknown:
 *   device    none, GPU, DEVICE
 *   host      CPU, CPU_PINNED, CPU_TIER1
 *   disk      CPU_TIER2, DISK, NVME, STORAGE, FS
 *   external  OBJ, EXTERNAL, NETWORK, REMOTE, SHARED
 */
int kv_tier_of(struct slice medium);

#endif
