/*
 * A stream's names from another reader's ledger, and all of them for another
 * reader.
 *
 * Blocks come in any order, and an entry needs its parent's. So each block is
 * reached from the first one above it that is there already, and the way down
 * is filled in.
 */
#include "index/ledger_internal.h"

#define AT_NONE  UINT32_MAX
#define REF_OPEN UINT32_MAX /* on the way down that is being filled in */

struct adopted {
    struct ledger *l;
    uint32_t stream;
    const struct names_block *block;
    uint32_t count;
    uint32_t *ref;  /* of each block; 0: not there yet */
    uint32_t *way;  /* blocks from the lowest to the highest */
    uint32_t *slot; /* by key: a block's place and 1; 0: free */
    uint32_t mask;
};

static uint32_t *
slot_of(const struct adopted *a, uint64_t key)
{
    uint32_t at = (uint32_t)rng_mix(key) & a->mask;

    while (a->slot[at] != 0 && a->block[a->slot[at] - 1].key != key) {
        at = (at + 1) & a->mask;
    }
    return &a->slot[at];
}

/* The place of the block's parent, or AT_NONE. */
static uint32_t
above(const struct adopted *a, uint32_t at)
{
    const struct names_block *block = &a->block[at];
    uint32_t found = block->has_parent ? *slot_of(a, block->parent) : 0;

    return found == 0 ? AT_NONE : found - 1;
}

/* The entry with that name, key and parent which others hold, or REF_NONE. */
static uint32_t
find(const struct ledger *l, uint64_t name, uint64_t key, uint32_t parent)
{
    uint32_t ref = *name_head(&l->names, name);

    while (ref != REF_NONE) {
        const struct entry *entry = entry_at(l, ref);
        if (entry->name == name && entry->key == key &&
            ledger_parent(l, entry) == parent) {
            return ref;
        }
        ref = entry->next;
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
    ledger_kids_add(l, parent, ref);
    ledger_names_insert(l, ref);
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
hold(struct adopted *a, uint32_t at, uint32_t parent)
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
ghost_of(struct adopted *a, uint64_t key)
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

/* Fills in the way from the highest block that is not there down to this one.
 */
static int
fill_in(struct adopted *a, uint32_t at)
{
    uint32_t len = 0;
    uint32_t top = at;

    for (; top != AT_NONE && a->ref[top] == REF_NONE; top = above(a, top)) {
        a->ref[top] = REF_OPEN;
        a->way[len++] = top;
    }
    if (top != AT_NONE && a->ref[top] == REF_OPEN) {
        return LEDGER_E_BAD;
    }
    uint32_t parent = top == AT_NONE ? REF_NONE : a->ref[top];
    while (len > 0) {
        const struct names_block *block = &a->block[a->way[--len]];
        if (parent == REF_NONE && block->has_parent) {
            parent = ghost_of(a, block->parent);
            if (parent == REF_NONE) {
                return a->l->refusal;
            }
        }
        if (!hold(a, a->way[len], parent)) {
            return a->l->refusal;
        }
        unclaim(a->l);
        parent = a->ref[a->way[len]];
    }
    return 0;
}

static bool
copies_are_sound(uint32_t copies)
{
    return copies != 0 && copies <= NAMES_COPIES_MAX;
}

/* Enters all blocks by key; of two with one key, either will do. False: one of
 * them is none. */
static bool
sort(struct adopted *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        *slot_of(a, a->block[i].key) = i + 1;
        if (!copies_are_sound(a->block[i].copies)) {
            return false;
        }
    }
    return true;
}

int
ledger_adopt(struct ledger *ledger, uint32_t stream,
             const struct names_block *blocks, size_t count)
{
    struct adopted a = {.l = ledger,
                        .stream = stream,
                        .block = blocks,
                        .count = (uint32_t)count,
                        .mask = 1};

    CHECK(stream < LEDGER_STREAMS_MAX && ledger->said == NULL);
    CHECK(ledger->stream[stream].state == STREAM_OPEN &&
          ledger->stream[stream].blocks == 0);
    if (count > REF_MASK / 2) {
        return LEDGER_E_FULL;
    }
    while (a.mask < count * 2) {
        a.mask = a.mask * 2 + 1;
    }
    size_t words = 2 * count + a.mask + 1;
    uint32_t *memory = ledger_take(ledger, words * sizeof *memory);
    if (memory == NULL) {
        return ledger->refusal;
    }
    a.ref = memory;
    a.way = memory + count;
    a.slot = memory + 2 * count;
    int rc = sort(&a) ? 0 : LEDGER_E_BAD;
    for (uint32_t i = 0; i < a.count && rc == 0; i++) {
        rc = fill_in(&a, i);
    }
    unclaim(ledger);
    ledger_give(ledger, memory, words * sizeof *memory);
    /* A ghost without a kid, when there was no room for that. */
    ledger->litter = ledger->litter || rc != 0;
    return rc;
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
