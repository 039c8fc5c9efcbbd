/*
 * Children of a node: none, one (the slot names the node), or a trie over the
 * hash of their first keys, six bits a level. It is a trie and not a hash table
 * because a trie is never rehashed: adding a child copies one fan of at most 32
 * slots, even below thousands of siblings, and removing one needs no memory.
 */

#include "index/radix_internal.h"

static size_t
fan_bytes(uint32_t slots)
{
    CHECK(slots >= 1 && slots <= 64);
    return offsetof(struct radix_fan, slot) + slots * sizeof(uint32_t);
}

static uint32_t
fan_slots(const struct radix_fan *fan)
{
    return ones(fan->bitmap);
}

/* Makes a fan of one or two nodes that differ at this level. CELL_NONE: no
 * room. */
static uint32_t
fan_pair(struct radix *radix, const uint64_t *bit, const uint32_t *child,
         uint32_t count)
{
    uint32_t ref = radix_plan_alloc(radix, fan_bytes(count));

    CHECK(count == 1 || bit[0] != bit[1]);
    if (ref == CELL_NONE) {
        return CELL_NONE;
    }
    struct radix_fan *fan = fan_at(radix, ref);
    fan->bitmap = 0;
    fan->live = count;
    for (uint32_t i = 0; i < count; i++) {
        fan->bitmap |= bit[i];
        atomic_init(&fan->slot[i], child[i]);
    }
    return ref | FAN_TAG;
}

/*
 * Makes fans for two nodes in the place of one, from this level down to the
 * first level where their hashes differ. Distinct keys differ at the last level
 * at the latest.
 */
static uint32_t
fan_split(struct radix *radix, uint32_t level, uint64_t key_a, uint32_t a,
          uint64_t key_b, uint32_t b)
{
    uint32_t deepest = level;

    CHECK(key_a != key_b && level < FAN_LEVELS);
    while (fan_bit(key_a, deepest) == fan_bit(key_b, deepest)) {
        deepest++;
        CHECK(deepest < FAN_LEVELS);
    }
    bool a_first = fan_bit(key_a, deepest) < fan_bit(key_b, deepest);
    uint64_t bit[2] = {fan_bit(key_a, deepest), fan_bit(key_b, deepest)};
    uint32_t child[2] = {a_first ? a : b, a_first ? b : a};
    uint32_t ref = fan_pair(radix, bit, child, 2);

    while (ref != CELL_NONE && deepest-- > level) {
        bit[0] = fan_bit(key_a, deepest);
        child[0] = ref;
        ref = fan_pair(radix, bit, child, 1);
    }
    return ref;
}

/* Copies a fan and adds a slot. CELL_NONE: no room. */
static uint32_t
fan_grow(struct radix *radix, const struct radix_fan *old, uint64_t bit,
         uint32_t child)
{
    uint32_t slots = fan_slots(old);
    uint32_t at = fan_rank(old, bit);
    uint32_t ref = radix_plan_alloc(radix, fan_bytes(slots + 1));

    CHECK((old->bitmap & bit) == 0);
    if (ref == CELL_NONE) {
        return CELL_NONE;
    }
    struct radix_fan *fan = fan_at(radix, ref);
    fan->bitmap = old->bitmap | bit;
    fan->live = old->live + 1;
    for (uint32_t i = 0; i <= slots; i++) {
        uint32_t value =
            i == at ? child : slot_load(&old->slot[i > at ? i - 1 : i]);
        atomic_init(&fan->slot[i], value);
    }
    return ref | FAN_TAG;
}

bool
radix_fan_prepare(struct radix *radix, _Atomic uint32_t *slot, uint64_t key,
                  uint32_t child, struct fan_change *change)
{
    uint32_t ref = slot_load(slot);
    uint32_t level = 0;

    CHECK(child != CELL_NONE && (child & FAN_TAG) == 0);
    *change = (struct fan_change){.slot = slot, .value = child};
    for (; (ref & FAN_TAG) != 0; level++) {
        struct radix_fan *fan = fan_at(radix, ref);
        uint64_t bit = fan_bit(key, level);
        if ((fan->bitmap & bit) == 0) {
            change->grown = CELL_NONE;
            change->retired = ref & ~FAN_TAG;
            change->value = fan_grow(radix, fan, bit, child);
            return change->value != CELL_NONE;
        }
        change->slot = &fan->slot[fan_rank(fan, bit)];
        change->grown = ref & ~FAN_TAG;
        ref = slot_load(change->slot);
    }
    if (ref == CELL_NONE) {
        return true; /* an empty slot, at the top or in the last fan */
    }
    uint64_t other = node_first_key(node_at(radix, ref));
    CHECK(other != key);
    change->grown = CELL_NONE;
    change->value = fan_split(radix, level, other, ref, key, child);
    return change->value != CELL_NONE;
}

void
radix_fan_commit(struct radix *radix, const struct fan_change *change)
{
    CHECK(change->slot != NULL && change->value != CELL_NONE);
    slot_store(change->slot, change->value);
    if (change->grown != CELL_NONE) {
        fan_at(radix, change->grown)->live++;
    }
    if (change->retired != CELL_NONE) {
        radix_retire(radix, change->retired);
    }
}

/* The slots on the way down to the child that begins with key; the last one is
 * the child's own. */
static uint32_t
fan_way(const struct radix *radix, _Atomic uint32_t *slot, uint64_t key,
        _Atomic uint32_t **way)
{
    uint32_t levels = 0;

    way[0] = slot;
    for (uint32_t ref = slot_load(slot); (ref & FAN_TAG) != 0;
         ref = slot_load(way[levels])) {
        struct radix_fan *fan = fan_at(radix, ref);
        uint64_t bit = fan_bit(key, levels);
        CHECK((fan->bitmap & bit) != 0 && levels < FAN_LEVELS);
        way[++levels] = &fan->slot[fan_rank(fan, bit)];
    }
    return levels;
}

_Atomic uint32_t *
radix_fan_place(const struct radix *radix, _Atomic uint32_t *slot, uint64_t key)
{
    _Atomic uint32_t *way[FAN_LEVELS + 1];
    uint32_t levels = fan_way(radix, slot, key, way);
    CHECK_SLOW(levels <= FAN_LEVELS);
    return way[levels];
}

/* The only child left in a fan; CELL_NONE if that is a fan itself. */
static uint32_t
fan_last_node(const struct radix_fan *fan)
{
    uint32_t slots = fan_slots(fan);

    CHECK(fan->live == 1);
    for (uint32_t i = 0; i < slots; i++) {
        uint32_t ref = slot_load(&fan->slot[i]);
        if (ref != CELL_NONE) {
            return (ref & FAN_TAG) == 0 ? ref : CELL_NONE;
        }
    }
    return CELL_NONE;
}

void
radix_fan_remove(struct radix *radix, _Atomic uint32_t *slot, uint64_t key)
{
    _Atomic uint32_t *way[FAN_LEVELS + 1];
    uint32_t level = fan_way(radix, slot, key, way);
    uint32_t value = CELL_NONE;

    CHECK(slot_load(way[level]) != CELL_NONE);
    /* From the child's slot upwards: a fan left empty, or with one node,
     * is replaced by what is in it. */
    slot_store(way[level], CELL_NONE);
    while (level-- > 0) {
        uint32_t ref = slot_load(way[level]);
        struct radix_fan *fan = fan_at(radix, ref);
        if (value == CELL_NONE) {
            fan->live--;
        }
        if (fan->live > 1) {
            return;
        }
        value = fan->live == 0 ? CELL_NONE : fan_last_node(fan);
        if (fan->live == 1 && value == CELL_NONE) {
            return;
        }
        slot_store(way[level], value);
        radix_retire(radix, ref & ~FAN_TAG);
    }
}
