/*
 * Verifies every invariant of the mirror by walking all of it.
 */
#include <stdlib.h>

#include "index/base/rng.h"
#include "index/mirror_internal.h"

/* Counts over all tables. */
struct tally {
    const struct mirror *mirror;
    const char *reason;
    uint64_t held[WORKERS_MAX];
    uint64_t digest[WORKERS_MAX];
    uint64_t tiered[WORKERS_MAX];
    uint64_t holder_sets;
    uint64_t passed; /* in this table, lines before those of entries */
    size_t bytes;
};

static bool
fail(struct tally *tally, const char *reason)
{
    tally->reason = reason;
    return false;
}

static bool
check_holder_set(struct tally *tally, uint32_t word, uint32_t holders)
{
    if (word_holder_set(word) >= tally->mirror->holder_sets_made) {
        return fail(tally,
                    "an entry refers to a holder set that was never made");
    }
    if (holders <= HOLDER_SET_LEAVE) {
        return fail(tally, "a holder set has too few holders");
    }
    tally->holder_sets++;
    return true;
}

static bool
check_holders(struct tally *tally, uint64_t key, uint32_t word)
{
    struct worker_set set;
    uint32_t named = word & WORD_COUNT;

    if (named == 0 && !word_is_set(word)) {
        return fail(tally, "a word of holders has no valid kind");
    }
    mirror_holders(tally->mirror, word, &set);
    uint32_t count = worker_set_count(&set);
    if (named == 0 ? !check_holder_set(tally, word, count) : count != named) {
        return tally->reason != NULL ? false
                                     : fail(tally, "a holder is named twice");
    }
    WORKER_SET_EACH (slot, &set) {
        if (tally->mirror->slot[slot].state == SLOT_FREE) {
            return fail(tally, "a free slot holds something");
        }
        tally->held[slot]++;
        tally->digest[slot] ^= rng_mix(key);
    }
    return true;
}

static bool
check_tiers(struct tally *tally, uint64_t key, uint32_t word)
{
    const struct mirror *mirror = tally->mirror;
    uint32_t slot = word_tiered(word);
    uint64_t tiers = word >> WORD_SHIFT & TIERS_MASK;
    uint64_t hash = mirror_hash(key);
    struct mirror_wanted wanted = {.key = key};
    uint32_t holders;

    if ((word & WORD_KIND) != WORD_TIERS || slot >= WORKERS_MAX) {
        return fail(tally, "a word of tiers has no valid kind");
    }
    if (tiers == 0 || tiers == TIERS_DEVICE) {
        return fail(tally, "an entry for no tier but the device");
    }
    tally->tiered[slot]++;
    if (mirror->slot[slot].state != SLOT_OPEN) {
        return mirror->slot[slot].state == SLOT_DEAD ||
               fail(tally, "a free slot has tiers");
    }
    (void)mirror_find(mirror, MIRROR_HOLDERS, hash, &wanted, &holders);
    return mirror_word_has(mirror, holders, slot) ||
           fail(tally, "tiers of a block that is not held");
}

/* Verifies a live entry: it is in its key's table, and a search finds it. */
static bool
check_entry(struct tally *tally, enum mirror_kind kind, uint32_t shard,
            uint32_t at, uint32_t i)
{
    const struct mirror *mirror = tally->mirror;
    const char *handle = mirror_handle_get(mirror, kind, shard);
    const struct mirror_line *line = &mirror_handle_lines(handle)[at];
    uint32_t lines = mirror_lines(mirror, shard, handle);
    uint64_t key = key_load(line, i);
    uint32_t word = word_load(line, i);
    uint32_t slot = word_tiered(word);
    uint64_t hash = kind == MIRROR_HOLDERS ? mirror_hash(key)
                                           : mirror_hash_tiers(key, slot);
    struct mirror_wanted wanted = {.key = key};
    uint32_t found;

    if (kind == MIRROR_TIERS) {
        wanted = mirror_wanted_tiers(key, slot);
    }
    struct mirror_entry entry =
        mirror_find(mirror, kind, hash, &wanted, &found);
    if (mirror_shard(hash) != shard || entry.line != line || entry.at != i) {
        return fail(tally, "an entry is not found by its key");
    }
    uint32_t home = mirror_home(hash, lines);
    tally->passed += at >= home ? at - home : at + lines - home;
    return kind == MIRROR_HOLDERS ? check_holders(tally, key, word)
                                  : check_tiers(tally, key, word);
}

static bool
check_table(struct tally *tally, enum mirror_kind kind, uint32_t shard)
{
    const struct mirror *mirror = tally->mirror;
    const char *handle = mirror_handle_get(mirror, kind, shard);
    uint32_t lines = handle == NULL ? 0 : mirror_lines(mirror, shard, handle);
    struct mirror_fill count = {.live = 0};
    uint64_t past = 0;

    tally->passed = 0;
    for (uint32_t i = 0; i < lines * MIRROR_LINE_ENTRIES; i++) {
        uint32_t at = i / MIRROR_LINE_ENTRIES;
        const struct mirror_line *line = &mirror_handle_lines(handle)[at];
        uint32_t word = word_load(line, i % MIRROR_LINE_ENTRIES);
        past += i % MIRROR_LINE_ENTRIES == 0 ? line_past(line) : 0;
        count.used += word != WORD_EMPTY;
        count.live += word_live(word);
        if (word_live(word) &&
            !check_entry(tally, kind, shard, at, i % MIRROR_LINE_ENTRIES)) {
            return false;
        }
    }
    if (count.live != mirror->fill[kind][shard].live ||
        count.used != mirror->fill[kind][shard].used) {
        return fail(tally, "a table's entries are miscounted");
    }
    if (past != tally->passed) {
        return fail(tally, "entries that lie further on are miscounted");
    }
    if (lines > 0 && count.used == lines * MIRROR_LINE_ENTRIES) {
        return fail(tally, "a table has no room");
    }
    tally->bytes +=
        handle == NULL ? 0 : page_heap_size(((size_t)lines + 1) * 64);
    return true;
}

static bool
check_slots(struct tally *tally)
{
    const struct mirror *mirror = tally->mirror;
    struct worker_set tiered = mirror_tiered(mirror);

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        const struct mirror_slot *slot = &mirror->slot[i];
        bool alive = (atomic_load_explicit(&mirror->alive[i / 64],
                                           memory_order_relaxed) >>
                          i % 64 &
                      1) != 0;
        if (alive != (slot->state == SLOT_OPEN)) {
            return fail(tally, "the alive bitmap differs from the open slots");
        }
        if (slot->held != tally->held[i] || slot->digest != tally->digest[i]) {
            return fail(tally, "a slot's blocks are miscounted");
        }
        if (slot->tiered != tally->tiered[i] ||
            worker_set_has(&tiered, i) != (slot->tiered > 0)) {
            return fail(tally, "a slot's tiers are miscounted");
        }
        if (slot->lossy && !slot->walked) {
            return fail(tally, "a slot may have holes and is not walked");
        }
    }
    return true;
}

static bool
check_memory(struct tally *tally)
{
    const struct mirror *mirror = tally->mirror;

    if (tally->holder_sets != mirror->holder_sets_used ||
        !mirror_holder_sets_sound(mirror)) {
        return fail(tally, "a holder set is lost");
    }
    if (tally->bytes + mirror->stats.bytes_retired != mirror->stats.bytes ||
        mirror->stats.bytes > mirror->bytes_max) {
        return fail(tally, "bytes are miscounted, or above their bound");
    }
    return true;
}

static bool
check_all(struct tally *tally)
{
    for (uint32_t i = 0; i < MIRROR_KINDS * MIRROR_SHARDS; i++) {
        if (!check_table(tally, (enum mirror_kind)(i / MIRROR_SHARDS),
                         i % MIRROR_SHARDS)) {
            return false;
        }
    }
    tally->bytes +=
        sizeof(struct mirror) + mirror_holder_sets_bytes(tally->mirror);
    return check_slots(tally) && check_memory(tally);
}

bool
mirror_check(const struct mirror *mirror, const char **reason)
{
    struct tally *tally = calloc(1, sizeof(*tally));

    *reason = "no memory to check with";
    if (tally == NULL) {
        return false;
    }
    tally->mirror = mirror;
    bool sound = check_all(tally);
    *reason = tally->reason;
    free(tally);
    return sound;
}
