/* Decoded events into the ledger, and the blocks that they change as words. */
#include "node/events/kv_groups_internal.h"

#include <stdio.h>
#include <string.h>

#define AHEAD 32 /* hashes */

int
kv_tier_of(struct slice medium)
{
    static const struct {
        const char *name;
        enum tier tier;
    } media[] = {
        {"", TIER_DEVICE},           {"gpu", TIER_DEVICE},
        {"device", TIER_DEVICE},     {"cpu", TIER_HOST},
        {"cpu_pinned", TIER_HOST},   {"cpu_tier1", TIER_HOST},
        {"cpu_tier2", TIER_DISK},    {"disk", TIER_DISK},
        {"nvme", TIER_DISK},         {"storage", TIER_DISK},
        {"fs", TIER_DISK},           {"obj", TIER_EXTERNAL},
        {"external", TIER_EXTERNAL}, {"network", TIER_EXTERNAL},
        {"remote", TIER_EXTERNAL},   {"shared", TIER_EXTERNAL},
    };

    for (size_t i = 0; i < sizeof media / sizeof *media; i++) {
        if (slice_equal_nocase(medium, slice_of(media[i].name))) {
            return (int)media[i].tier;
        }
    }
    return -1;
}

/* ---- what was dropped on purpose ---- */

#define DROPPED_HALF (KV_DROPPED_BITS / 64 / 2) /* words */

/* The word and the bit of a hash in a half. */
static uint32_t
dropped_word(uint64_t hash, uint64_t *bit)
{
    uint64_t mixed = hash * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    uint64_t index = mixed % (KV_DROPPED_BITS / 2);

    *bit = UINT64_C(1) << (index % 64);
    return (uint32_t)(index / 64);
}

static void
age_dropped(struct kv_apply *apply)
{
    uint32_t set = 0;

    for (uint32_t i = 0; i < DROPPED_HALF; i++) {
        set += (uint32_t)__builtin_popcountll(apply->dropped[i]);
    }
    if (set >= KV_DROPPED_FILL) {
        memcpy(apply->dropped + DROPPED_HALF, apply->dropped,
               DROPPED_HALF * sizeof *apply->dropped);
        memset(apply->dropped, 0, DROPPED_HALF * sizeof *apply->dropped);
    }
}

static void
mark_dropped(struct kv_apply *apply, uint64_t hash)
{
    uint64_t bit;
    uint32_t word = dropped_word(hash, &bit);

    CHECK(word < DROPPED_HALF);
    if ((apply->dropped[word] & bit) == 0) {
        age_dropped(apply);
        apply->dropped[word] |= bit;
    }
}

/* A hash that is looked up is in use, and remembered for longer. */
static bool
was_dropped(struct kv_apply *apply, uint64_t hash)
{
    uint64_t bit;
    uint32_t word = dropped_word(hash, &bit);

    CHECK(word < DROPPED_HALF);
    if ((apply->dropped[word] & bit) == 0 &&
        (apply->dropped[word + DROPPED_HALF] & bit) == 0) {
        return false;
    }
    mark_dropped(apply, hash);
    return true;
}

static void
drop_store(struct kv_apply_batch *b, const struct kv_event *event,
           struct counter *reason)
{
    counter_bump(reason, 1);
    for (uint32_t i = 0; i < event->hashes_count; i++) {
        mark_dropped(b->apply, event->hashes[i]);
    }
}

static void
drop_orphan(struct kv_apply_batch *b, const struct kv_event *event)
{
    bool explained = was_dropped(b->apply, event->parent) || b->apply->full > 0;

    b->damaged = b->damaged || !explained;
    drop_store(b, event, &b->counters->drop_unknown_parent);
}

/* ---- which events count ---- */

/* Whether an event is of the group that is indexed. A store with tokens may
 * choose it (chooses). */
static bool
is_indexed_group(struct kv_apply *apply, const struct kv_event *event,
                 bool chooses)
{
    if (!kv_groups_is_main(event->spec_kind)) {
        kv_groups_learn(apply, event);
        return false;
    }
    if (!event->has_group) {
        return true;
    }
    if (apply->has_group) {
        return event->group == apply->group;
    }
    if (event->spec_kind.len == 0 && kv_groups_knows(apply, event)) {
        return false;
    }
    if (chooses) {
        apply->has_group = true;
        apply->group = event->group;
    }
    return true;
}

/* NULL if the event counts, and *tier is its own; otherwise the counter of the
 * reason. */
static struct counter *
reason_to_drop(struct kv_apply_batch *b, const struct kv_event *event,
               bool chooses, enum tier *tier)
{
    int found = kv_tier_of(event->medium);

    *tier = TIER_DEVICE;
    if (slice_equal_nocase(event->locality, SLICE("remote"))) {
        return &b->counters->drop_non_local;
    }
    if (found < 0) {
        return &b->counters->drop_unknown_medium;
    }
    *tier = (enum tier)found;
    return is_indexed_group(b->apply, event, chooses)
               ? NULL
               : &b->counters->drop_group;
}

/* Whether an event that is not of the indexed group (reason) is of a window
 * group; *tier is set then. */
static bool
is_of_window(const struct kv_apply_batch *b, const struct kv_event *event,
             const struct counter *reason)
{
    return reason == &b->counters->drop_group &&
           kv_groups_is_window(b->apply, event);
}

/* ---- stores ---- */

static void
note_stored(struct kv_apply_batch *b, const struct ledger_done *done)
{
    counter_bump(&b->counters->blocks_stored, done->changed);
    counter_bump(&b->counters->duplicates, done->duplicates);
}

/* Blocks without tokens: in a further tier, if they are held at all. */
static void
place(struct kv_apply_batch *b, const struct kv_event *event, enum tier tier)
{
    bool unknown = false;
    bool full = false;

    CHECK(b->out->max - b->out->count >= event->hashes_count + 2);
    for (uint32_t i = 0; i < event->hashes_count; i++) {
        struct ledger_done done = {0};
        int rc = ledger_place(b->ledger, b->stream, event->hashes[i], tier,
                              b->out, &done);
        note_stored(b, &done);
        unknown = unknown || rc == LEDGER_E_UNKNOWN;
        full = full || (rc != 0 && rc != LEDGER_E_UNKNOWN);
    }
    counter_bump(&b->counters->drop_placeholder, unknown ? 1 : 0);
    counter_bump(&b->counters->drop_full, full ? 1 : 0);
    CHECK(!b->out->failed); /* there was room */
}

/* Takes back blocks whose size turned out not to be the stream's. */
static void
take_back_lone(struct kv_apply_batch *b)
{
    static const uint32_t none_left[KV_LONE_MAX];
    struct kv_apply *apply = b->apply;

    CHECK(!apply->is_size_proven && apply->lone_count <= KV_LONE_MAX);
    for (unsigned tier = 0; tier < TIERS; tier++) {
        struct ledger_done done = {0};
        if (kv_apply_has_room(b->out, apply->lone_count)) {
            ledger_remove(b->ledger, b->stream, apply->lone, apply->lone_count,
                          none_left, (enum tier)tier, b->out, &done);
            counter_bump(&b->counters->blocks_removed, done.changed);
        }
    }
    counter_bump(&b->counters->drop_block_size, apply->lone_count);
    apply->lone_count = 0;
    apply->block_tokens = 0;
    CHECK(!apply->is_size_proven);
}

/* What an event's hashes cover behind a block, as a grain has it. */
static uint32_t
ahead_of(const struct kv_event *event)
{
    return event->pairs ? SHAPE_PAIRS : event->ahead;
}

/* Whether an event's blocks are as large as the stream's, so far as is known. A
 * store beside the engine (LMCache's chunks) may have a size of its own, so what
 * lies outside of the device's memory does not say it. */
static bool
is_of_size(struct kv_apply_batch *b, const struct kv_event *event,
           enum tier tier)
{
    struct kv_apply *apply = b->apply;

    if (event->block_tokens > SHAPE_TOKENS_MAX ||
        event->ahead > SHAPE_AHEAD_MAX ||
        (apply->block_tokens != 0 && ahead_of(event) != apply->ahead)) {
        return false;
    }
    if (event->block_tokens == apply->block_tokens ||
        (apply->block_tokens == 0 && tier == TIER_DEVICE)) {
        return true;
    }
    if (tier != TIER_DEVICE || apply->is_size_proven || event->has_parent ||
        event->block_tokens < apply->block_tokens) {
        return false;
    }
    take_back_lone(b);
    return true;
}

static void
learn_size(struct kv_apply *apply, const struct kv_event *event)
{
    CHECK(apply->lone_count <= KV_LONE_MAX);
    apply->block_tokens = event->block_tokens;
    apply->ahead = ahead_of(event);
    if (event->hashes_count > 1 || event->has_parent ||
        apply->lone_count == KV_LONE_MAX) {
        apply->is_size_proven = true;
    } else if (!apply->is_size_proven) {
        apply->lone[apply->lone_count++] = event->hashes[0];
    }
    CHECK(apply->lone_count <= KV_LONE_MAX && apply->block_tokens > 0);
}

static uint64_t
root_of(const struct kv_event *event, struct slice salt_told)
{
    char number[24];
    struct slice lora = event->lora_name;
    struct slice salt = event->salt.len > 0 ? event->salt : salt_told;

    if (lora.len == 0 && event->has_lora_id) {
        int len =
            snprintf(number, sizeof number, "%lld", (long long)event->lora_id);
        lora = (struct slice){number, (size_t)len};
    }
    return key_token_root(lora, salt);
}

static void
store_run(struct kv_apply_batch *b, const struct kv_event *event,
          const struct ledger_run *run)
{
    struct ledger_done done = {0};
    int rc = ledger_store(b->ledger, b->stream, run, b->out, &done);

    CHECK(run->count > 0 && run->block_tokens > 0);
    if (rc == 0) {
        learn_size(b->apply, event);
        note_stored(b, &done);
        b->apply->full -= b->apply->full > 0;
    } else if (rc == LEDGER_E_PARENT) {
        drop_orphan(b, event);
    } else if (rc == LEDGER_E_CONFLICT) {
        drop_store(b, event, &b->counters->drop_conflict);
    } else {
        /* Out of memory is no different from the bound: less is known. */
        b->apply->full = KV_FULL_EVENTS;
        drop_store(b, event, &b->counters->drop_full);
    }
    CHECK(!b->out->failed); /* there was room */
}

/* Before it is applied, while the parent is sure to be held. */
static void
tell_stored(struct kv_apply_batch *b, const struct ledger_run *run,
            uint32_t ahead, bool media)
{
    const struct kv_listener *listener = b->apply->listener;
    struct kv_stored stored = {
        .has_parent = run->has_parent,
        .root = run->root,
        .tokens = run->tokens,
        .tokens_count = run->count * run->block_tokens,
        .grain = shape_grain_of(run->block_tokens, ahead),
    };

    if (listener == NULL || media || run->tier != TIER_DEVICE ||
        !listener->wants(listener->context, listener->worker)) {
        return;
    }
    if (!run->has_parent ||
        ledger_key(b->ledger, b->stream, run->parent, &stored.parent)) {
        listener->stored(listener->context, listener, &stored);
    }
}

static void
store_blocks(struct kv_apply_batch *b, const struct kv_event *event,
             enum tier tier)
{
    struct ledger_run run = {
        .has_parent = event->has_parent,
        .parent = event->parent,
        .hashes = event->hashes,
        .count = event->hashes_count,
        .block_tokens = event->block_tokens,
        .tokens = event->tokens,
        .tier = tier,
        .distinct = true, /* the reader drops what repeats a hash */
    };
    struct kv_apart apart;
    enum kv_fault fault;

    if (kv_reader_apart(b->reader, event, &apart, &fault) != 0) {
        drop_store(b, event,
                   fault == KV_FAULT_MEMORY ? &b->counters->drop_full
                                            : &b->counters->drop_malformed);
        return;
    }
    if (!is_of_size(b, event, tier)) {
        drop_store(b, event, &b->counters->drop_block_size);
        return;
    }
    run.extras = apart.extras;
    run.root = event->has_parent ? 0 : root_of(event, apart.salt);
    tell_stored(b, &run, ahead_of(event), apart.media);
    if (kv_apply_has_room(b->out, run.count)) {
        store_run(b, event, &run);
    }
}

static void
store(struct kv_apply_batch *b, const struct kv_event *event)
{
    enum tier tier;
    bool is_placeholder = event->tokens_count == 0;
    struct counter *reason = reason_to_drop(b, event, !is_placeholder, &tier);

    if (is_of_window(b, event, reason)) {
        if (is_placeholder) {
            kv_groups_place(b, event, tier);
        } else {
            kv_groups_store(b, event, tier);
        }
    } else if (reason != NULL) {
        counter_bump(reason, 1);
    } else if (event->tokens_opaque) {
        drop_store(b, event, &b->counters->drop_opaque);
    } else if (!is_placeholder) {
        store_blocks(b, event, tier);
        kv_groups_settle(b);
    } else if (kv_apply_has_room(b->out, event->hashes_count + 1)) {
        place(b, event, tier);
    }
}

/* ---- everything else ---- */

static void
remove_blocks(struct kv_apply_batch *b, const struct kv_event *event)
{
    enum tier tier;
    struct ledger_done done = {0};
    struct counter *reason = reason_to_drop(b, event, false, &tier);

    kv_groups_settle(b);
    if (is_of_window(b, event, reason)) {
        kv_groups_remove(b, event, tier);
        return;
    }
    if (reason != NULL) {
        counter_bump(reason, 1);
        return;
    }
    if (event->hashes_count == 0 ||
        !kv_apply_has_room(b->out, event->hashes_count)) {
        return;
    }
    ledger_remove(b->ledger, b->stream, event->hashes, event->hashes_count,
                  event->remaining, tier, b->out, &done);
    CHECK(!b->out->failed && done.changed <= event->hashes_count);
    counter_bump(&b->counters->blocks_removed, done.changed);
    counter_bump(&b->counters->unknown_removed, done.unknown);
}

/* An event that the reader dropped. */
static void
note_skipped(struct kv_apply_batch *b, const struct kv_event *event,
             enum kv_fault fault)
{
    struct kv_counters *counters = b->counters;
    enum tier tier;

    b->gone = b->gone || event->kind == KV_REMOVED;
    switch (fault) {
    case KV_FAULT_UNKNOWN_TYPE:
        counter_bump(&counters->drop_unknown_type, 1);
        return;
    case KV_FAULT_MEMORY:
        b->apply->full = KV_FULL_EVENTS;
        counter_bump(&counters->drop_full, 1);
        return;
    case KV_FAULT_UNALIGNED:
    case KV_FAULT_REPEATED: {
        /* Windows are sparse: so it is with every group that is no main one. */
        struct counter *reason = reason_to_drop(b, event, false, &tier);
        if (fault == KV_FAULT_UNALIGNED && is_of_window(b, event, reason)) {
            kv_groups_store(b, event, tier);
        } else if (reason != NULL) {
            counter_bump(reason, 1);
        } else {
            drop_store(b, event,
                       fault == KV_FAULT_UNALIGNED ? &counters->drop_unaligned
                                                   : &counters->drop_repeated);
        }
        return;
    }
    case KV_FAULT_MALFORMED:
    case KV_FAULT_NONE:
    case KV_FAULTS:
        break;
    }
    counter_bump(&counters->drop_malformed, 1);
}

static void
note_end(struct kv_apply_batch *b)
{
    int64_t told = kv_reader_rank(b->reader);

    kv_groups_settle(b);
    counter_bump(&b->counters->batches, 1);
    counter_bump(&b->counters->bytes, kv_reader_bytes(b->reader));
    if (told >= 0 && b->apply->rank >= 0 && told != b->apply->rank) {
        counter_bump(&b->counters->rank_mismatch, 1);
    }
}

/* Prefetches what the next events will touch. The ledger does it itself for an
 * event of many blocks, after which another of the kind is likely. */
static void
look_ahead(struct kv_apply_batch *b)
{
    uint64_t hashes[AHEAD];

    if (b->told >= AHEAD) {
        return;
    }
    uint32_t count = kv_reader_ahead(b->reader, hashes, AHEAD);

    CHECK(count <= AHEAD);
    ledger_prefetch(b->ledger, hashes, count);
}

/* Applies one event; false: the batch ends here, or pauses (*outcome). */
static bool
step(struct kv_apply_batch *b, int *outcome)
{
    struct kv_event event;
    enum kv_fault fault;

    look_ahead(b);
    int rc = kv_reader_next(b->reader, &event, &fault, NULL);
    if (rc == KV_E_END || rc == KV_E_PAYLOAD) {
        if (rc == KV_E_PAYLOAD) {
            counter_bump(&b->counters->drop_malformed, 1);
            b->damaged = true;
        }
        note_end(b);
        *outcome = b->gone                        ? KV_APPLY_E_GONE
                   : b->damaged || b->out->failed ? KV_APPLY_E_DAMAGED
                                                  : 0;
        return false;
    }
    counter_bump(&b->counters->events, 1);
    b->told = event.hashes_count;
    if (rc == KV_E_SKIPPED) {
        note_skipped(b, &event, fault);
        return true;
    }
    switch (event.kind) {
    case KV_STORED:
        store(b, &event);
        return true;
    case KV_REMOVED:
        remove_blocks(b, &event);
        return true;
    case KV_CLEARED:
        break;
    }
    counter_bump(&b->counters->cleared, 1);
    *outcome = KV_APPLY_E_CLEARED;
    return false;
}

int
kv_apply(struct kv_apply *apply, struct kv_reader *reader,
         struct ledger *ledger, uint32_t stream, struct kv_counters *counters,
         struct event_words *out)
{
    struct kv_apply_batch batch = {
        .apply = apply,
        .reader = reader,
        .ledger = ledger,
        .stream = stream,
        .counters = counters,
        .out = out,
    };
    int outcome = 0;

    CHECK(reader != NULL && ledger != NULL && counters != NULL);
    CHECK(out->words != NULL && out->count <= out->max);
    while (step(&batch, &outcome)) {
    }
    CHECK(out->count <= out->max);
    CHECK_SLOW(out->failed || event_check(out->words, out->count));
    return outcome;
}
