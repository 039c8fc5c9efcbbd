/*
 * Applies records to a slot. The lines of the next keys are fetched while a key
 * is applied, because most of its cost is the wait for them.
 */
#include <string.h>

#include "index/base/mutant.h"
#include "index/base/rng.h"
#include "index/mirror_internal.h"

#define AHEAD 24 /* keys */

/* Keys that are applied before memory is reclaimed again. */
#define RECLAIM_KEYS 2048

static void
count_block(struct mirror *mirror, uint32_t slot, uint64_t key, bool held)
{
    struct mirror_slot *of = &mirror->slot[slot];

    CHECK(held || of->held > 0);
    CHECK(slot < WORKERS_MAX && mirror->slot[slot].state != SLOT_FREE);
    watch_mark(mirror->watch, mirror_shard(mirror_hash(key)));
    of->held += held ? 1 : UINT64_MAX;
    of->digest ^= rng_mix(key);
}

void
mirror_unhold(struct mirror *mirror, uint32_t shard, struct mirror_entry entry,
              uint32_t slot)
{
    CHECK_SLOW(mirror_word_has(mirror, word_load(entry.line, entry.at), slot));
    count_block(mirror, slot, key_load(entry.line, entry.at), false);
    mirror_holder_drop(mirror, shard, entry, slot);
}

void
mirror_untier(struct mirror *mirror, uint32_t shard, struct mirror_entry entry,
              uint32_t slot)
{
    CHECK(mirror->slot[slot].tiered > 0);
    watch_mark(mirror->watch,
               mirror_shard(mirror_hash(key_load(entry.line, entry.at))));
    mirror_bury(mirror, MIRROR_TIERS, shard, entry);
    if (--mirror->slot[slot].tiered == 0) {
        mirror_tiered_mark(mirror, slot, false);
    }
}

/* The entry with a block's tiers and its word, WORD_EMPTY when the block is in
 * the device alone. */
static struct mirror_entry
find_tiers(const struct mirror *mirror, uint32_t slot, uint64_t key,
           uint32_t *word)
{
    struct mirror_wanted wanted = mirror_wanted_tiers(key, slot);

    CHECK_SLOW(slot < WORKERS_MAX);
    *word = WORD_EMPTY;
    return mirror->slot[slot].tiered == 0
               ? (struct mirror_entry){.line = NULL}
               : mirror_find(mirror, MIRROR_TIERS, mirror_hash_tiers(key, slot),
                             &wanted, word);
}

/* The tiers of a block that the slot holds, by the word that find_tiers()
 * found. */
static uint64_t
tiers_in(uint32_t word)
{
    return word != WORD_EMPTY ? word >> WORD_SHIFT & TIERS_MASK : TIERS_DEVICE;
}

uint64_t
mirror_tiers_of(const struct mirror *mirror, uint32_t slot, uint64_t key)
{
    uint32_t word;

    (void)find_tiers(mirror, slot, key, &word);
    return tiers_in(word);
}

static uint32_t
tiers_word(uint32_t slot, uint64_t tiers)
{
    CHECK(tiers != 0 && tiers != TIERS_DEVICE && (tiers & ~TIERS_MASK) == 0);
    return WORD_TIERS | (uint32_t)tiers << WORD_SHIFT | slot << TIERED_SHIFT;
}

static bool
enter_tiers(struct mirror *mirror, uint32_t slot, uint64_t key, uint64_t tiers)
{
    bool first = mirror->slot[slot].tiered == 0;

    CHECK(slot < WORKERS_MAX);
    if (first) {
        mirror_tiered_mark(mirror, slot, true);
    }
    if (!mirror_enter(mirror, MIRROR_TIERS, mirror_hash_tiers(key, slot), key,
                      tiers_word(slot, tiers))) {
        if (first) {
            mirror_tiered_mark(mirror, slot, false);
        }
        return false;
    }
    mirror->slot[slot].tiered++;
    return true;
}

static void
drop_tiers(struct mirror *mirror, uint32_t slot, uint64_t key,
           struct mirror_entry entry)
{
    CHECK(entry.line != NULL);
    mirror_untier(mirror, mirror_shard(mirror_hash_tiers(key, slot)), entry,
                  slot);
}

/* Adds a tier to a block that the slot holds already. */
static bool
store_further(struct mirror *mirror, uint32_t slot, uint64_t key,
              enum tier tier)
{
    uint32_t word;
    struct mirror_entry entry = find_tiers(mirror, slot, key, &word);
    uint64_t tiers = tiers_in(word);
    uint64_t more = tiers | UINT64_C(1) << tier;

    if (more == tiers) {
        mirror->stats.repeated++;
        return true;
    }
    watch_mark(mirror->watch, mirror_shard(mirror_hash(key)));
    if (word != WORD_EMPTY) {
        word_store(entry, tiers_word(slot, more));
    } else if (!enter_tiers(mirror, slot, key, more)) {
        return false;
    }
    mirror->stats.stored++;
    return true;
}

/* Adds a holder to a block that others hold (entry and word) or nobody holds
 * (WORD_EMPTY). */
static bool
hold(struct mirror *mirror, uint32_t slot, uint64_t key,
     struct mirror_entry entry, uint32_t word)
{
    CHECK((entry.line == NULL) == (word == WORD_EMPTY));
    if (word != WORD_EMPTY) {
        return mirror_holder_add(mirror, entry, word, slot);
    }
    return mirror_enter(mirror, MIRROR_HOLDERS, mirror_hash(key), key,
                        1 | slot << WORD_SLOTS);
}

/* The entry of a block and the word of its holders, WORD_EMPTY: nobody. In
 * place, for nearly all of a record's time goes here. */
static inline struct mirror_entry
find_block(const struct mirror *mirror, uint64_t key, uint32_t *word)
{
    uint64_t hash = mirror_hash(key);
    const char *handle =
        mirror_handle_get(mirror, MIRROR_HOLDERS, mirror_shard(hash));
    struct mirror_wanted wanted = {.key = key};

    *word = WORD_EMPTY;
    return handle == NULL
               ? (struct mirror_entry){.line = NULL}
               : mirror_find_from(mirror, handle, hash, &wanted, word);
}

bool
mirror_store(struct mirror *mirror, uint32_t slot, uint64_t key, enum tier tier)
{
    uint32_t word;
    struct mirror_entry entry = find_block(mirror, key, &word);

    CHECK(slot < WORKERS_MAX && tier < TIERS);
    if (mirror_word_has(mirror, word, slot)) {
        return store_further(mirror, slot, key, tier);
    }
    /* Tiers first: a reader that sees the block may ask for them. */
    if (tier != TIER_DEVICE &&
        !enter_tiers(mirror, slot, key, UINT64_C(1) << tier)) {
        return false;
    }
    if (!hold(mirror, slot, key, entry, word)) {
        if (tier != TIER_DEVICE) {
            drop_tiers(mirror, slot, key, find_tiers(mirror, slot, key, &word));
        }
        return false;
    }
    count_block(mirror, slot, key, true);
    mirror->stats.stored++;
    return true;
}

static void
take_away(struct mirror *mirror, uint32_t slot, uint64_t key, enum tier tier)
{
    uint64_t hash = mirror_hash(key);
    uint32_t word;
    uint32_t tiers_of;
    struct mirror_entry entry = find_block(mirror, key, &word);

    CHECK(slot < WORKERS_MAX && tier < TIERS);
    if (!mirror_word_has(mirror, word, slot)) {
        mirror->stats.repeated++;
        return;
    }
    struct mirror_entry placed = find_tiers(mirror, slot, key, &tiers_of);
    uint64_t tiers = tiers_in(tiers_of);
    uint64_t left = tiers & ~(UINT64_C(1) << tier);
    if (left == tiers) {
        mirror->stats.repeated++;
        return;
    }
    if (left == 0) {
        mirror_unhold(mirror, mirror_shard(hash), entry, slot);
    }
    if (tiers_of != WORD_EMPTY && (left == 0 || left == TIERS_DEVICE)) {
        drop_tiers(mirror, slot, key, placed);
    } else if (tiers_of != WORD_EMPTY) {
        watch_mark(mirror->watch, mirror_shard(hash));
        word_store(placed, tiers_word(slot, left));
    }
    mirror->stats.removed++;
}

static void
fetch_line(const struct mirror *mirror, enum mirror_kind kind, uint64_t hash)
{
    const char *handle = mirror_handle_get(mirror, kind, mirror_shard(hash));

    if (handle != NULL) {
        const struct mirror_line *line = mirror_line_at(mirror, handle, hash);
        __builtin_prefetch(line, 1);
        __builtin_prefetch(line + 1, 1); /* where the first is full */
    }
}

/* Words of events, and what is to be fetched next. */
struct said {
    const uint64_t *word;
    uint32_t count;
    uint32_t next; /* a key, or at the end of its op the next op */
    uint32_t end;  /* of the op that next is in */
};

/* Fetches the lines of the next key, of a later op too: engines tell of few
 * blocks at a time. */
static inline void
fetch_next(const struct mirror *mirror, uint32_t slot, struct said *said)
{
    while (said->next < said->count && said->next == said->end) {
        said->end = said->next + 1 + event_op_count(said->word[said->next]);
        said->next++;
    }
    if (said->next == said->count) {
        return;
    }
    uint64_t key = said->word[said->next++];
    fetch_line(mirror, MIRROR_HOLDERS, mirror_hash(key));
    if (mirror->slot[slot].tiered > 0) {
        fetch_line(mirror, MIRROR_TIERS, mirror_hash_tiers(key, slot));
    }
}

/* Notes that blocks were left out: the slot may have holes from now on. */
static void
refuse(struct mirror *mirror, uint32_t slot)
{
    CHECK(mirror->fault != 0);
    mirror->stats.refused++;
    mirror->slot[slot].lossy = true;
    mirror_walk_set(mirror, slot);
    CHECK(mirror->slot[slot].walked);
}

/* The op at a word: 0, or why blocks were left out. */
static int
apply_op(struct mirror *mirror, uint32_t slot, struct said *said, uint32_t at)
{
    uint64_t op = said->word[at];
    uint32_t end = at + 1 + event_op_count(op);
    enum tier tier = event_op_tier(op);
    bool removes = event_op_kind(op) == EVENT_REMOVE;
    bool tears = removes && mirror->slot[slot].walked;
    int rc = 0;

    CHECK(event_op_kind(op) != EVENT_CLEAR && tier < TIERS);
    CHECK(event_op_kind(op) < EVENT_KINDS);
    if (tears) {
        mirror_tear(mirror, slot);
    }
    if (removes && MUTANT(NO_REMOVE)) {
        return 0;
    }
    for (at++; at < end; at++) {
        fetch_next(mirror, slot, said);
        if (removes) {
            take_away(mirror, slot, said->word[at], tier);
        } else if (!mirror_store(mirror, slot, said->word[at], tier)) {
            refuse(mirror, slot);
            rc = mirror->fault;
        }
    }
    if (tears) {
        mirror_tear(mirror, slot);
    }
    return rc;
}

static void
tell(struct mirror *mirror, uint32_t slot, const uint64_t *words,
     uint32_t count)
{
    uint64_t *to = watch_add(mirror->watch, (size_t)count + 1);

    CHECK(count > 0);
    if (to != NULL) {
        *to = watch_op(WATCH_APPLY, slot, count);
        memcpy(to + 1, words, count * sizeof(*words));
    }
}

int
mirror_apply(struct mirror *mirror, uint32_t slot, const uint64_t *words,
             uint32_t count, uint32_t holes)
{
    struct said all = {.word = words, .count = count};
    int rc = 0;

    CHECK(slot < WORKERS_MAX && mirror->slot[slot].state == SLOT_OPEN);
    CHECK(count == 0 || words != NULL);
    if (holes != 0) {
        mirror_walk_set(mirror, slot);
    }
    if (count > 0) {
        tell(mirror, slot, words, count);
    }
    for (uint32_t i = 0; i < AHEAD; i++) {
        fetch_next(mirror, slot, &all);
    }
    for (uint32_t at = 0; at < count;) {
        uint32_t keys = event_op_count(words[at]);
        CHECK(keys < count - at);
        int fault = apply_op(mirror, slot, &all, at);
        rc = fault != 0 ? fault : rc;
        at += 1 + keys;
    }
    if (holes == 0 && !mirror->slot[slot].lossy) {
        mirror_walk_clear(mirror, slot);
    }
    mirror->applied += count;
    if (mirror->applied >= RECLAIM_KEYS) {
        mirror->applied = 0;
        mirror_grace(mirror);
        (void)qsbr_reclaim(mirror->qsbr);
    }
    return rc;
}
