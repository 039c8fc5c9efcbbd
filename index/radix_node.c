/*
 * Nodes and who holds them. One or two holders live in the node; more move
 * to a holder set: a bitmap of members and one entry for each by its rank
 * there. Joining a holder set copies it (once per worker and node), leaving
 * one only empties the entry: taking away must never need memory.
 *
 * Readers look at `full` first, then at `some`, then at the entry; the writer
 * therefore stores an entry before its bits, and clears `some` only when
 * there is nothing left.
 */
#include <string.h>

#include "index/radix_internal.h"

static uint32_t
hold_word(uint32_t worker, uint32_t missing)
{
    CHECK(worker < WORKERS_MAX && missing <= UINT16_MAX);
    return (worker + 1) << 16 | missing;
}

static uint32_t
word_load(const struct radix_hold *hold)
{
    return atomic_load_explicit(&hold->word, memory_order_relaxed);
}

/* Release: a reader that sees the hold sees the node's earlier state, too. */
static void
word_store(struct radix_hold *hold, uint32_t word)
{
    atomic_store_explicit(&hold->word, word, memory_order_release);
}

/* Release: a reader that sees the bit sees the bit's entry. */
static void
bit_set(_Atomic uint64_t *words, uint32_t worker, bool value)
{
    _Atomic uint64_t *word = &words[worker / 64];
    uint64_t bit = UINT64_C(1) << (worker % 64);
    uint64_t now = atomic_load_explicit(word, memory_order_relaxed);

    CHECK_SLOW(worker < WORKERS_MAX);
    now = value ? now | bit : now & ~bit;
    atomic_store_explicit(word, now, memory_order_release);
}

static struct radix_holder_set *
node_holder_set(const struct radix *radix, const struct radix_node *node)
{
    uint32_t ref = slot_load(&node->holder_set);
    return ref == CELL_NONE ? NULL : holder_set_at(radix, ref);
}

struct radix_hold *
radix_hold_find(const struct radix *radix, struct radix_node *node,
                uint32_t worker)
{
    struct radix_holder_set *holder_set = node_holder_set(radix, node);

    CHECK(worker < WORKERS_MAX);
    if (holder_set == NULL) {
        for (uint32_t i = 0; i < INLINE_MAX; i++) {
            if (word_load(&node->hold[i]) >> 16 == worker + 1) {
                return &node->hold[i];
            }
        }
        return NULL;
    }
    uint32_t rank = radix_holder_set_rank(holder_set, worker);
    if (rank == UINT32_MAX || word_load(&holder_set->hold[rank]) == 0) {
        return NULL;
    }
    return &holder_set->hold[rank];
}

uint32_t
radix_hold_count(const struct radix *radix, const struct radix_node *node)
{
    const struct radix_holder_set *holder_set = node_holder_set(radix, node);
    uint32_t count = 0;

    if (holder_set != NULL) {
        return holder_set->live;
    }
    for (uint32_t i = 0; i < INLINE_MAX; i++) {
        count += word_load(&node->hold[i]) != 0;
    }
    return count;
}

uint32_t
radix_hold_list(const struct radix *radix, const struct radix_node *node,
                struct radix_holder *list)
{
    const struct radix_holder_set *holder_set = node_holder_set(radix, node);
    const struct radix_hold *hold =
        holder_set != NULL ? holder_set->hold : node->hold;
    uint32_t entries = holder_set != NULL ? holder_set->members : INLINE_MAX;
    uint32_t count = 0;

    for (uint32_t i = 0; i < entries; i++) {
        uint32_t word = word_load(&hold[i]);
        if (word != 0) {
            list[count++] = (struct radix_holder){.worker = (word >> 16) - 1,
                                                  .missing = word & 0xFFFFU,
                                                  .record = hold[i].record};
        }
    }
    return count;
}

void
radix_hold_set(struct radix *radix, struct radix_node *node,
               struct radix_hold *hold, uint32_t missing)
{
    struct radix_holder_set *holder_set = node_holder_set(radix, node);
    uint32_t worker = (word_load(hold) >> 16) - 1;

    CHECK(missing < node->len);
    CHECK(word_load(hold) != 0);
    word_store(hold, hold_word(worker, missing));
    if (holder_set != NULL) {
        bit_set(holder_set->full, worker, missing == 0);
    }
}

static size_t
holder_set_bytes(uint32_t members)
{
    CHECK(members > 0 && members <= WORKERS_MAX);
    return sizeof(struct radix_holder_set) +
           members * sizeof(struct radix_hold);
}

/* Makes a holder set of these holders, in any order, on the plan. */
static uint32_t
holder_set_build(struct radix *radix, const struct radix_holder *holders,
                 uint32_t count)
{
    uint32_t ref = radix_plan_alloc(radix, holder_set_bytes(count));

    CHECK(count > INLINE_MAX);
    if (ref == CELL_NONE) {
        return CELL_NONE;
    }
    struct radix_holder_set *holder_set = holder_set_at(radix, ref);
    memset((unsigned char *)holder_set + sizeof(struct cell), 0,
           holder_set_bytes(count) - sizeof(struct cell));
    holder_set->members = count;
    holder_set->live = count;
    for (uint32_t i = 0; i < count; i++) {
        holder_set->member[holders[i].worker / 64] |=
            UINT64_C(1) << (holders[i].worker % 64);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t worker = holders[i].worker;
        struct radix_hold *hold =
            &holder_set->hold[radix_holder_set_rank(holder_set, worker)];
        word_store(hold, hold_word(worker, holders[i].missing));
        hold->record = holders[i].record;
        bit_set(holder_set->some, worker, true);
        bit_set(holder_set->full, worker, holders[i].missing == 0);
    }
    return ref;
}

bool
radix_hold_prepare(struct radix *radix, const struct radix_node *node,
                   const struct radix_holder *holder, uint32_t *holder_set)
{
    const struct radix_holder_set *old = node_holder_set(radix, node);
    uint32_t count = radix_hold_count(radix, node);

    CHECK(holder->worker < WORKERS_MAX);
    *holder_set = CELL_NONE;
    if (old == NULL
            ? count < INLINE_MAX
            : radix_holder_set_rank(old, holder->worker) != UINT32_MAX) {
        return true;
    }
    CHECK(count < WORKERS_MAX);
    (void)radix_hold_list(radix, node, radix->holder);
    radix->holder[count] = *holder;
    *holder_set = holder_set_build(radix, radix->holder, count + 1);
    return *holder_set != CELL_NONE;
}

void
radix_hold_commit(struct radix *radix, struct radix_node *node,
                  const struct radix_holder *holder, uint32_t holder_set)
{
    struct radix_holder_set *old = node_holder_set(radix, node);
    uint32_t word = hold_word(holder->worker, holder->missing);
    struct radix_hold *hold = NULL;

    CHECK(holder->record != CELL_NONE && holder->missing < node->len);
    if (holder_set != CELL_NONE) {
        uint32_t gone = slot_load(&node->holder_set);
        slot_store(&node->holder_set, holder_set);
        if (gone != CELL_NONE) {
            radix_retire(radix, gone);
        }
        return;
    }
    if (old != NULL) {
        hold = &old->hold[radix_holder_set_rank(old, holder->worker)];
        old->live++;
    }
    for (uint32_t i = 0; hold == NULL; i++) {
        CHECK(i < INLINE_MAX);
        hold = word_load(&node->hold[i]) == 0 ? &node->hold[i] : NULL;
    }
    hold->record = holder->record;
    word_store(hold, word);
    if (old != NULL) {
        bit_set(old->some, holder->worker, true);
        bit_set(old->full, holder->worker, holder->missing == 0);
    }
}

/* The place of the node that named a worker before the holder set took over,
 * INLINE_MAX when there is none. */
static uint32_t
old_place(const struct radix_node *node, uint32_t worker)
{
    uint32_t at = 0;

    while (at < INLINE_MAX && word_load(&node->hold[at]) >> 16 != worker + 1) {
        at++;
    }
    return at;
}

/*
 * Moves the holders of a small holder set back into the node. A holder that was
 * in the node before gets its old place: a reader that has been here since must
 * not miss a holder that never left.
 */
static void
holder_set_dissolve(struct radix *radix, struct radix_node *node)
{
    uint32_t ref = slot_load(&node->holder_set);
    struct radix_holder holder[INLINE_MAX];
    struct radix_holder place[INLINE_MAX] = {{.record = CELL_NONE}};
    uint32_t count = radix_hold_list(radix, node, holder);

    CHECK(count <= INLINE_MAX);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = old_place(node, holder[i].worker);
        if (at < INLINE_MAX) {
            place[at] = holder[i];
            holder[i].record = CELL_NONE;
        }
    }
    for (uint32_t at = 0; at < INLINE_MAX; at++) {
        for (uint32_t i = 0; i < count && place[at].record == CELL_NONE; i++) {
            place[at] = holder[i];
            holder[i].record = CELL_NONE;
        }
        node->hold[at].record = place[at].record;
        word_store(&node->hold[at],
                   place[at].record == CELL_NONE
                       ? 0
                       : hold_word(place[at].worker, place[at].missing));
    }
    slot_store(&node->holder_set, CELL_NONE);
    radix_retire(radix, ref);
}

/* Copies a holder set of mostly empty entries to its size, if there is room. */
static void
holder_set_shrink(struct radix *radix, struct radix_node *node)
{
    uint32_t old = slot_load(&node->holder_set);
    uint32_t count = radix_hold_list(radix, node, radix->holder);
    uint32_t holder_set = holder_set_build(radix, radix->holder, count);

    CHECK(count > INLINE_MAX);
    CHECK(holder_set == CELL_NONE || radix->plan == holder_set);
    if (holder_set != CELL_NONE) {
        slot_store(&node->holder_set, holder_set);
        radix_retire(radix, old);
    }
    radix_plan_done(radix);
}

void
radix_hold_remove(struct radix *radix, struct radix_node *node, uint32_t worker)
{
    struct radix_holder_set *holder_set = node_holder_set(radix, node);
    struct radix_hold *hold = radix_hold_find(radix, node, worker);

    CHECK(hold != NULL);
    word_store(hold, 0);
    hold->record = CELL_NONE;
    if (holder_set != NULL) {
        bit_set(holder_set->full, worker, false);
        bit_set(holder_set->some, worker, false);
        holder_set->live--;
        if (holder_set->live <= INLINE_MAX) {
            holder_set_dissolve(radix, node);
        } else if (holder_set->live <= holder_set->members / 2) {
            holder_set_shrink(radix, node);
        }
    }
}

uint32_t
radix_node_build(struct radix *radix, const uint64_t *keys, uint32_t len,
                 uint64_t last_key, const struct radix_holder *holders,
                 uint32_t count)
{
    size_t bytes = sizeof(struct radix_node) + (len - 1) * sizeof(uint64_t);

    CHECK(len >= 1 && len <= EDGE_MAX);
    CHECK(count >= 1);
    uint32_t ref = radix_plan_alloc(radix, bytes);
    if (ref == CELL_NONE) {
        return CELL_NONE;
    }
    struct radix_node *node = node_at(radix, ref);
    memset((unsigned char *)node + sizeof(struct cell), 0,
           sizeof(*node) - sizeof(struct cell));
    node->len = len;
    node->last_key = last_key;
    memcpy(node->key, keys, (len - 1) * sizeof(uint64_t));
    if (count > INLINE_MAX) {
        uint32_t holder_set = holder_set_build(radix, holders, count);
        atomic_init(&node->holder_set, holder_set);
        return holder_set == CELL_NONE ? CELL_NONE : ref;
    }
    for (uint32_t i = 0; i < count; i++) {
        atomic_init(&node->hold[i].word,
                    hold_word(holders[i].worker, holders[i].missing));
        node->hold[i].record = holders[i].record;
    }
    return ref;
}
