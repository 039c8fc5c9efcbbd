/*
 * A stream's names from another reader's ledger, and all of them for another
 * reader.
 *
 * Blocks come in any order, and an entry needs its parent's. So each block is
 * reached from the first one above it that is there already, and the way down
 * is filled in. All that is done in units of one block, between which other
 * streams may change: the entries that this stream holds stay where they are.
 */
#include "index/ledger_internal.h"

#define AT_NONE  UINT32_MAX
#define REF_OPEN UINT32_MAX /* on the way down that is being filled in */

struct ledger_adoption {
    struct ledger *l;
    uint32_t stream;
    const struct names_block *block;
    uint32_t count;
    uint32_t *ref;  /* of each block; 0: not there yet */
    uint32_t *way;  /* blocks from the lowest to the highest */
    uint32_t *slot; /* by key: a block's place and 1; 0: free */
    uint32_t mask;
    size_t words;    /* of the memory that ref begins */
    uint32_t sorted; /* blocks that are in slot */
    uint32_t next;   /* the blocks before it are there, or on the way */
    bool climbs;     /* the way to `top` is looked for */
    uint32_t top;
    uint32_t len;    /* of the way */
    uint32_t parent; /* entry above the way's end, or REF_NONE */
};

static uint32_t *
slot_of(const struct ledger_adoption *a, uint64_t key)
{
    uint32_t at = (uint32_t)rng_mix(key) & a->mask;

    while (a->slot[at] != 0 && a->block[a->slot[at] - 1].key != key) {
        at = (at + 1) & a->mask;
    }
    return &a->slot[at];
}

/* The place of the block's parent, or AT_NONE. */
static uint32_t
above(const struct ledger_adoption *a, uint32_t at)
{
    const struct names_block *block = &a->block[at];
    uint32_t found = block->has_parent ? *slot_of(a, block->parent) : 0;

    return found == 0 ? AT_NONE : found - 1;
}

/* The entry with that name, key and parent which others hold, or REF_NONE. */
static uint32_t
find(const struct ledger *l, uint64_t name, uint64_t key, uint32_t parent)
{
    struct name_walk walk = name_walk(&l->names, name);
    uint32_t ref;

    while ((ref = name_next(&walk)) != REF_NONE) {
        const struct entry *entry = entry_at(l, ref);
        if (entry->name == name && entry->key == key &&
            ledger_parent(l, entry) == parent) {
            return ref;
        }
    }
    return REF_NONE;
}

static uint32_t
make(struct ledger *l, uint64_t name, uint64_t key, uint32_t parent,
     uint32_t stream)
{
    if ((parent != REF_NONE && !ledger_kids_claim(l, parent, stream)) ||
        !ledger_pool_claim(l, &l->entries)) {
        return REF_NONE;
    }
    uint32_t ref = ledger_pool_take(&l->entries);
    *entry_at(l, ref) = (struct entry){.name = name, .key = key};
    if (!ledger_names_insert(l, ref)) {
        ledger_pool_give(&l->entries, ref);
        return REF_NONE;
    }
    ledger_kids_add(l, parent, ref);
    ledger_tell_block(l, ref, parent);
    return ref;
}

/* Room for the stream to hold an entry that others know. */
static bool
claim_joining(struct ledger *l, uint32_t ref, uint32_t stream)
{
    const struct entry *entry = entry_at(l, ref);

    if ((entry->link & LINK_COUNTED) != 0 &&
        !ledger_kids_claim(l, entry->link & REF_MASK, stream)) {
        return false;
    }
    return !holders_tight(entry->holders) || ledger_pool_claim(l, &l->sets);
}

static bool
hold(struct ledger_adoption *a, uint32_t at, uint32_t parent)
{
    struct ledger *l = a->l;
    const struct names_block *block = &a->block[at];
    uint32_t ref = find(l, block->name, block->key, parent);

    CHECK(ledger_held(l, a->stream, block->name) == REF_NONE);
    if (ref == REF_NONE) {
        ref = make(l, block->name, block->key, parent, a->stream);
        if (ref == REF_NONE) {
            return false;
        }
    } else if (!claim_joining(l, ref, a->stream)) {
        return false;
    }
    ledger_enter(l, ref, a->stream);
    a->ref[at] = ref;
    if (parent != REF_NONE &&
        !holders_has(l, entry_at(l, parent)->holders, a->stream)) {
        l->stream[a->stream].holes++;
    }
    if (block->copies == COPIES_PLAIN) {
        return true;
    }
    if (!ledger_copies_claim(l, ref, a->stream)) {
        return false;
    }
    ledger_copies_set(l, ref, a->stream, block->copies);
    return true;
}

/* An entry that nobody holds, for a block whose parent is not there. Its name
 * is not known, so it never comes back, and the hole goes with its kids. */
static uint32_t
ghost_of(struct ledger_adoption *a, uint64_t key)
{
    uint32_t ref = find(a->l, rng_mix(key), key, REF_NONE);

    return ref != REF_NONE ? ref
                           : make(a->l, rng_mix(key), key, REF_NONE, a->stream);
}

static void
unclaim(struct ledger *l)
{
    l->sets.claimed = 0;
    ledger_rows_unclaim(&l->copies);
    ledger_rows_unclaim(&l->kids);
}

static bool
copies_are_sound(uint32_t copies)
{
    return copies != 0 && copies <= NAMES_COPIES_MAX;
}

/* Enters a block by key; of two with one key, either will do. */
static int
sort(struct ledger_adoption *a)
{
    const struct names_block *block = &a->block[a->sorted];

    *slot_of(a, block->key) = ++a->sorted;
    return copies_are_sound(block->copies) ? LEDGER_E_MORE : LEDGER_E_BAD;
}

/* One block up towards one that is there. */
static int
climb(struct ledger_adoption *a)
{
    if (a->top != AT_NONE && a->ref[a->top] == REF_OPEN) {
        return LEDGER_E_BAD;
    }
    if (a->top != AT_NONE && a->ref[a->top] == REF_NONE) {
        a->ref[a->top] = REF_OPEN;
        a->way[a->len++] = a->top;
        a->top = above(a, a->top);
        return LEDGER_E_MORE;
    }
    a->parent = a->top == AT_NONE ? REF_NONE : a->ref[a->top];
    a->climbs = false;
    return LEDGER_E_MORE;
}

/* The highest block of the way that is not there yet. */
static int
descend(struct ledger_adoption *a)
{
    uint32_t at = a->way[--a->len];
    const struct names_block *block = &a->block[at];

    if (a->parent == REF_NONE && block->has_parent) {
        a->parent = ghost_of(a, block->parent);
        if (a->parent == REF_NONE) {
            return a->l->refusal;
        }
    }
    if (!hold(a, at, a->parent)) {
        return a->l->refusal;
    }
    unclaim(a->l);
    a->parent = a->ref[at];
    return LEDGER_E_MORE;
}

static int
one(struct ledger_adoption *a)
{
    if (a->sorted < a->count) {
        return sort(a);
    }
    if (a->climbs) {
        return climb(a);
    }
    if (a->len > 0) {
        return descend(a);
    }
    if (a->next == a->count) {
        return 0;
    }
    a->top = a->next++;
    a->climbs = true;
    return LEDGER_E_MORE;
}

int
ledger_adopt_begin(struct ledger *ledger, uint32_t stream,
                   const struct names_block *blocks, size_t count,
                   struct ledger_adoption **out)
{
    uint32_t mask = 1;

    CHECK(stream < LEDGER_STREAMS_MAX &&
          ledger->stream[stream].state == STREAM_OPEN &&
          ledger->stream[stream].blocks == 0);
    if (count > REF_MASK / 2) {
        return LEDGER_E_FULL;
    }
    while (mask < count * 2) {
        mask = mask * 2 + 1;
    }
    size_t words = 2 * count + mask + 1;
    struct ledger_adoption *a = ledger_take(ledger, sizeof *a);
    uint32_t *memory =
        a == NULL ? NULL : ledger_take(ledger, words * sizeof *memory);
    if (memory == NULL) {
        ledger_give(ledger, a, sizeof *a);
        return ledger->refusal;
    }
    *a = (struct ledger_adoption){.l = ledger,
                                  .stream = stream,
                                  .block = blocks,
                                  .count = (uint32_t)count,
                                  .ref = memory,
                                  .way = memory + count,
                                  .slot = memory + 2 * count,
                                  .mask = mask,
                                  .words = words};
    *out = a;
    return 0;
}

int
ledger_adopt_step(struct ledger_adoption *adoption, uint32_t budget)
{
    struct ledger_adoption *a = adoption;
    int rc = LEDGER_E_MORE;

    CHECK(a->l->said == NULL && a->l->stream[a->stream].state == STREAM_OPEN);
    for (uint32_t i = 0; i < budget && rc == LEDGER_E_MORE; i++) {
        rc = one(a);
    }
    unclaim(a->l);
    /* A ghost without a kid, when there was no room for that. */
    a->l->litter = a->l->litter || (rc != 0 && rc != LEDGER_E_MORE);
    return rc;
}

void
ledger_adopt_end(struct ledger_adoption *adoption)
{
    if (adoption != NULL) {
        struct ledger *l = adoption->l;
        ledger_give(l, adoption->ref, adoption->words * sizeof(uint32_t));
        ledger_give(l, adoption, sizeof *adoption);
    }
}

void
ledger_say_all(const struct ledger *ledger, uint32_t stream,
               struct names_said *said)
{
    CHECK(ledger->stream[stream].state == STREAM_OPEN);
    for (uint32_t ref = 1; ref < ledger->entries.fresh; ref++) {
        const struct entry *entry = entry_at(ledger, ref);
        if (entry->link == 0 || !holders_has(ledger, entry->holders, stream)) {
            continue;
        }
        uint32_t parent = ledger_parent(ledger, entry);
        struct names_block block = {
            .name = entry->name,
            .key = entry->key,
            .parent = parent == REF_NONE ? 0 : entry_at(ledger, parent)->key,
            .has_parent = parent != REF_NONE};
        uint32_t copies = ledger_copies(ledger, ref, stream);
        names_say_enter(said, &block);
        if (copies != COPIES_PLAIN) {
            names_say_copies(said, entry->name, copies);
        }
    }
}
