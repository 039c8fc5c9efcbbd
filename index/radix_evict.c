/*
 * Eviction: the values that order leaves, and the three reasons to take blocks
 * away: a worker's capacity, the bound of the whole tree, and the sweep of a
 * worker that is gone. Blocks are taken from the tail of a leaf, so that a
 * worker holds every prefix of what it holds.
 */
#include "index/radix_internal.h"

/* Shorter nodes are not worth copying, because the rest of them is usually
 * evicted next. 65 blocks. */
#define TRIM_LEAST (EDGE_MAX / 32 + 1)

uint64_t
radix_leaf_value(enum radix_eviction eviction,
                 const struct radix_record *record)
{
    uint64_t touched = record->touched;

    CHECK_SLOW(record->worker < WORKERS_MAX);
    switch (eviction) {
    case RADIX_LRU:
        return touched;
    case RADIX_LFU:
        return (uint64_t)record->count << 48 | touched;
    case RADIX_FIFO:
        return record->created;
    case RADIX_MRU:
        return STAMP_MAX - touched;
    case RADIX_FILO:
        return STAMP_MAX - record->created;
    case RADIX_PRIORITY:
        return (uint64_t)record->priority << 48 | touched;
    }
    CHECK(false);
    return 0;
}

static bool
has_recency(const struct radix_worker *worker)
{
    return worker->eviction != RADIX_LRU;
}

bool
radix_leaf_reserve(struct radix *radix, uint32_t worker, uint32_t n)
{
    struct radix_worker *w = &radix->worker[worker];

    CHECK(worker < WORKERS_MAX);
    return order_reserve(&w->order[BY_POLICY], &radix->store, n) &&
           (!has_recency(w) ||
            order_reserve(&w->order[BY_RECENCY], &radix->store, n));
}

void
radix_leaf_add(struct radix *radix, uint32_t worker, uint32_t ref)
{
    struct radix_worker *w = &radix->worker[worker];
    const struct radix_record *record = record_at(radix, ref);

    CHECK(record->kids == 0 && record->place[BY_POLICY] == ORDER_NOWHERE);
    CHECK(record->worker == worker);
    order_push(&w->order[BY_POLICY], &radix->store,
               radix_leaf_value(w->eviction, record), ref);
    if (has_recency(w)) {
        order_push(&w->order[BY_RECENCY], &radix->store, record->touched, ref);
    }
}

void
radix_leaf_remove(struct radix *radix, uint32_t worker, uint32_t ref)
{
    struct radix_worker *w = &radix->worker[worker];
    const struct radix_record *record = record_at(radix, ref);

    CHECK(record->worker == worker);
    for (uint32_t i = 0; i < 2; i++) {
        if (record->place[i] != ORDER_NOWHERE) {
            order_remove(&w->order[i], &radix->store, record->place[i]);
        }
    }
}

/* The most blocks that any holder of a node without a holder set has of it. */
static uint32_t
greatest_hold(const struct radix *radix, const struct radix_node *node)
{
    struct radix_holder holder[INLINE_MAX];
    uint32_t count = radix_hold_list(radix, node, holder);
    uint32_t most = 0;

    CHECK(slot_load(&node->holder_set) == CELL_NONE);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t held = node->len - holder[i].missing;
        most = held > most ? held : most;
    }
    return most;
}

/* Replaces a node by a shorter copy once half of its blocks are given up, if
 * there is room. So the copy costs O(1) for each block given up. */
static void
trim(struct radix *radix, uint32_t ref)
{
    const struct radix_node *node = node_at(radix, ref);

    if (node->len >= TRIM_LEAST && slot_load(&node->holder_set) == CELL_NONE) {
        uint32_t most = greatest_hold(radix, node);
        if (most > 0 && most <= node->len / 2) {
            (void)!radix_node_split(radix, ref, most);
        }
    }
}

/* Passes the values of a child that goes to its parent; see struct
 * radix_record. */
static void
inherit(struct radix_record *parent, const struct radix_record *child)
{
    uint32_t count = (uint32_t)parent->count + (uint32_t)child->count;

    CHECK(parent->worker == child->worker);
    parent->touched =
        child->touched > parent->touched ? child->touched : parent->touched;
    parent->count = count > COUNT_MAX ? COUNT_MAX : count & COUNT_MAX;
    parent->priority =
        child->priority > parent->priority ? child->priority : parent->priority;
    CHECK(parent->kids > 0);
    parent->kids--;
}

/* Takes a worker's hold of a node away, and returns the parent's record. */
static uint32_t
drop_hold(struct radix *radix, uint32_t ref)
{
    struct radix_record *record = record_at(radix, ref);
    uint32_t parent = record->parent;
    uint32_t node_ref = record->node;
    struct radix_node *node = node_at(radix, node_ref);

    CHECK(record->kids == 0);
    radix_hold_remove(radix, node, record->worker);
    if (parent != CELL_NONE) {
        inherit(record_at(radix, parent), record);
    }
    if (radix_hold_count(radix, node) == 0) {
        radix_node_drop(radix, node_ref, parent);
    } else {
        trim(radix, node_ref);
    }
    cell_free(&radix->store, ref);
    return parent;
}

/*
 * Takes blocks from the tail of a leaf, at most those of its own node, and
 * returns how many. A parent left without children becomes a leaf, unless it is
 * keep.
 */
static uint32_t
give_up(struct radix *radix, uint32_t ref, uint64_t blocks, uint32_t keep)
{
    struct radix_record *record = record_at(radix, ref);
    struct radix_node *node = node_at(radix, record->node);
    uint32_t worker = record->worker;
    struct radix_hold *hold = radix_hold_find(radix, node, worker);
    uint32_t held = node->len - hold_missing(hold);

    CHECK(record->kids == 0);
    CHECK(hold != NULL && blocks > 0 && node->space == 0);
    uint32_t taken = blocks < held ? (uint32_t)blocks : held;
    CHECK(radix->worker[worker].blocks >= taken);
    radix->worker[worker].blocks -= taken;
    radix->stats.holder_blocks -= taken;
    if (taken < held) {
        radix_hold_set(radix, node, hold, hold_missing(hold) + taken);
        trim(radix, record->node);
        return taken;
    }
    radix_leaf_remove(radix, worker, ref);
    uint32_t parent = drop_hold(radix, ref);
    if (parent != CELL_NONE && record_at(radix, parent)->kids == 0 &&
        parent != keep) {
        record = record_at(radix, parent);
        if (node_at(radix, record->node)->space != 0) {
            (void)drop_hold(radix, parent);
        } else {
            radix_leaf_add(radix, worker, parent);
        }
    }
    return taken;
}

void
radix_evict_worker(struct radix *radix, uint32_t worker, uint32_t keep,
                   uint64_t steps)
{
    struct radix_worker *w = &radix->worker[worker];
    const struct order *order = &w->order[BY_POLICY];

    CHECK(worker < WORKERS_MAX);
    while (w->blocks > w->blocks_max && order->count > 0 && steps-- > 0) {
        uint32_t taken = give_up(radix, order_record(order, &radix->store, 0),
                                 w->blocks - w->blocks_max, keep);
        radix->stats.evicted_blocks += taken;
    }
    if (w->blocks <= w->blocks_max) {
        worker_set_remove(&radix->over, worker);
    }
}

/* The order of a worker's leaves by recency. */
static const struct order *
recency(const struct radix_worker *worker)
{
    return &worker->order[has_recency(worker) ? BY_RECENCY : BY_POLICY];
}

uint64_t
radix_oldest(const struct radix *radix, uint32_t *worker)
{
    uint64_t oldest = UINT64_MAX;

    WORKER_SET_EACH (i, &radix->live) {
        const struct order *order = recency(&radix->worker[i]);
        if (order->count > 0) {
            uint64_t value = order_value(order, &radix->store, 0);
            *worker = value < oldest ? i : *worker;
            oldest = value < oldest ? value : oldest;
        }
    }
    return oldest;
}

bool
radix_evict_oldest(struct radix *radix)
{
    uint32_t worker = 0;

    CHECK(radix->plan == CELL_NONE);
    if (radix_oldest(radix, &worker) == UINT64_MAX) {
        return false;
    }
    const struct order *order = recency(&radix->worker[worker]);
    radix->stats.evicted_bound += give_up(
        radix, order_record(order, &radix->store, 0), UINT64_MAX, CELL_NONE);
    return true;
}

bool
radix_evict_dead(struct radix *radix, uint32_t worker)
{
    const struct order *order = &radix->worker[worker].order[BY_POLICY];

    CHECK(radix->worker[worker].state == WORKER_DEAD);
    if (order->count == 0) {
        return false;
    }
    (void)give_up(radix, order_record(order, &radix->store, order->count - 1),
                  UINT64_MAX, CELL_NONE);
    return true;
}
