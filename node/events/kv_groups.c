/* The groups of a hybrid model: which there are, and the blocks of windows. */
#include "node/events/kv_groups_internal.h"

/* What layers with a state (Mamba, linear attention, short convolutions) look
 * back at, in tokens: a hit needs their last block alone, which has the state at
 * its end. Source: vLLM 0.32, MambaManager.find_longest_cache_hit. */
#define STATE_WINDOW 2U

bool
kv_groups_is_main(struct slice kind)
{
    return kind.len == 0 || slice_equal(kind, SLICE("full_attention")) ||
           slice_equal(kind, SLICE("mla_attention")) ||
           slice_equal(kind, SLICE("sink_full_attention"));
}

static bool
is_window_kind(struct slice kind)
{
    return slice_equal(kind, SLICE("sliding_window")) ||
           slice_equal(kind, SLICE("sliding_window_mla"));
}

/* What a hit needs of an event's group, as a window in tokens; 0: nobody knows.
 * Of chunked local attention the rule is known, but no event tells the size of
 * a chunk. */
static uint32_t
window_of(const struct kv_event *event)
{
    if (slice_equal(event->spec_kind, SLICE("mamba"))) {
        return STATE_WINDOW;
    }
    return is_window_kind(event->spec_kind) ? event->window : 0;
}

void
kv_groups_learn(struct kv_apply *apply, const struct kv_event *event)
{
    CHECK(!kv_groups_is_main(event->spec_kind));
    if (!event->has_group || event->group >= KV_GROUPS_MAX) {
        apply->unruled = true;
        return;
    }
    struct kv_group *group = &apply->groups[event->group];
    if (event->kind != KV_STORED || event->tokens_count == 0) {
        return; /* it may not tell all */
    }
    *group = (struct kv_group){.kind = KV_GROUP_OTHER};
    uint32_t window = window_of(event);
    if (window != 0 && event->block_tokens <= SHAPE_TOKENS_MAX) {
        *group = (struct kv_group){.kind = KV_GROUP_WINDOW,
                                   .window = window,
                                   .block_tokens = event->block_tokens};
        apply->has_windows = true;
    } else {
        apply->unruled = true;
    }
}

bool
kv_groups_knows(const struct kv_apply *apply, const struct kv_event *event)
{
    return event->has_group && event->group < KV_GROUPS_MAX &&
           apply->groups[event->group].kind != KV_GROUP_NONE;
}

bool
kv_groups_is_window(const struct kv_apply *apply, const struct kv_event *event)
{
    return kv_groups_knows(apply, event) &&
           apply->groups[event->group].kind == KV_GROUP_WINDOW;
}

/* The number of a window group: full attention's group is left out. */
static uint32_t
number_of(const struct kv_apply *apply, uint32_t group)
{
    CHECK(apply->has_group && group < KV_GROUPS_MAX);
    uint32_t number = group > apply->group ? group - 1 : group;
    return number < SHAPE_WINDOWS_MAX ? number : SHAPE_WINDOWS_MAX - 1;
}

uint32_t
kv_apply_shape(const struct kv_apply *apply)
{
    uint32_t tokens = apply->block_tokens;
    uint32_t window = 0;
    uint32_t windows = 0;
    bool ruled = !apply->unruled;

    if (tokens == 0) {
        return 0;
    }
    uint32_t grain = shape_grain_of(tokens, apply->ahead);
    if (!apply->has_windows && ruled) {
        return grain;
    }
    for (uint32_t g = 0; g < KV_GROUPS_MAX && ruled; g++) {
        const struct kv_group *group = &apply->groups[g];
        if (group->kind != KV_GROUP_WINDOW) {
            continue;
        }
        uint64_t blocks = ((uint64_t)group->window + tokens - 2) / tokens;
        ruled = apply->has_group && group->block_tokens == tokens &&
                blocks <= SHAPE_WINDOW_MAX &&
                (windows == 0 || blocks == window);
        window = (uint32_t)blocks;
        windows = ruled ? number_of(apply, g) + 1 : 0;
    }
    return ruled ? shape_of(grain, window, windows)
                 : shape_of(grain, SHAPE_UNRULED, 0);
}

/* ---- blocks ---- */

static void
note_stored(struct kv_apply_batch *b, int outcome,
            const struct ledger_done *done)
{
    counter_bump(&b->counters->blocks_stored, done->changed);
    counter_bump(&b->counters->duplicates, done->duplicates);
    if (outcome == LEDGER_E_CONFLICT) {
        counter_bump(&b->counters->drop_conflict, 1);
    } else if (outcome != 0) {
        b->apply->full = KV_FULL_EVENTS;
        counter_bump(&b->counters->drop_full, 1);
    }
}

/* Stores a block as one of its own; false: full attention does not hold it. */
static bool
enter(struct kv_apply_batch *b, uint64_t hash, uint32_t group, enum tier tier)
{
    static const uint64_t apart = KEY_WINDOW;
    struct ledger_done done = {0};
    uint64_t key;

    if (!b->apply->has_group || !ledger_key(b->ledger, b->stream, hash, &key)) {
        return false;
    }
    uint32_t number = number_of(b->apply, group);
    uint64_t name = key_in_window(hash, number);
    struct ledger_run run = {.root = key, /* key_in_window() of it */
                             .hashes = &name,
                             .count = 1,
                             .block_tokens = 1,
                             .tokens = &number,
                             .extras = &apart,
                             .tier = tier};
    if (kv_apply_has_room(b->out, 1)) {
        int outcome = ledger_store(b->ledger, b->stream, &run, b->out, &done);
        note_stored(b, outcome, &done);
    }
    return true;
}

/* It is stored when full attention has told of it. */
static void
wait_for_key(struct kv_apply_batch *b, uint64_t hash, uint32_t group,
             enum tier tier)
{
    uint64_t *memory =
        b->waiting < KV_WAITING_MAX
            ? kv_reader_memory(b->reader, ((size_t)b->waiting + 1) * 2)
            : NULL;

    CHECK(group < KV_GROUPS_MAX && tier < TIERS);
    if (memory == NULL) {
        counter_bump(&b->counters->drop_full, 1);
        return;
    }
    memory += (size_t)b->waiting * 2;
    memory[0] = hash;
    memory[1] = (uint64_t)group << 8 | (uint64_t)tier;
    b->waiting++;
}

void
kv_groups_settle(struct kv_apply_batch *b)
{
    uint32_t count = b->waiting;
    uint32_t unknown = 0;

    if (count == 0) {
        return;
    }
    const uint64_t *memory = kv_reader_memory(b->reader, (size_t)count * 2);
    CHECK(memory != NULL); /* it is as large as that */
    for (uint32_t i = 0; i < count; i++, memory += 2) {
        unknown += !enter(b, memory[0], (uint32_t)(memory[1] >> 8),
                          (enum tier)(memory[1] & 0xff));
    }
    b->waiting = 0;
    counter_bump(&b->counters->drop_unknown_parent, unknown > 0 ? 1 : 0);
}

void
kv_groups_store(struct kv_apply_batch *b, const struct kv_event *event,
                enum tier tier)
{
    CHECK(kv_groups_is_window(b->apply, event));
    for (uint32_t i = 0; i < event->hashes_count; i++) {
        if (!enter(b, event->hashes[i], event->group, tier)) {
            wait_for_key(b, event->hashes[i], event->group, tier);
        }
    }
}

void
kv_groups_place(struct kv_apply_batch *b, const struct kv_event *event,
                enum tier tier)
{
    CHECK(kv_groups_is_window(b->apply, event));
    for (uint32_t i = 0; b->apply->has_group && i < event->hashes_count &&
                         kv_apply_has_room(b->out, 1);
         i++) {
        struct ledger_done done = {0};
        uint32_t number = number_of(b->apply, event->group);
        int outcome = ledger_place(b->ledger, b->stream,
                                   key_in_window(event->hashes[i], number),
                                   tier, b->out, &done);
        if (outcome == LEDGER_E_UNKNOWN) {
            counter_bump(&b->counters->drop_placeholder, 1);
        } else {
            note_stored(b, outcome, &done);
        }
    }
}

void
kv_groups_remove(struct kv_apply_batch *b, const struct kv_event *event,
                 enum tier tier)
{
    CHECK(kv_groups_is_window(b->apply, event));
    for (uint32_t i = 0; b->apply->has_group && i < event->hashes_count &&
                         kv_apply_has_room(b->out, 1);
         i++) {
        struct ledger_done done = {0};
        uint64_t name =
            key_in_window(event->hashes[i], number_of(b->apply, event->group));
        const uint32_t *remaining =
            event->remaining == NULL ? NULL : &event->remaining[i];
        ledger_remove(b->ledger, b->stream, &name, 1, remaining, tier, b->out,
                      &done);
        counter_bump(&b->counters->blocks_removed, done.changed);
        counter_bump(&b->counters->unknown_removed, done.unknown);
    }
}
