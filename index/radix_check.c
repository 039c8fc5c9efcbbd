/*
 * Verifies the tree: every node, fan, holder set, record and byte. Walks with a
 * stack of its own on the heap, for tests and simulations.
 */
#include <stdlib.h>

#include "index/radix_internal.h"

struct entry {
    uint32_t ref;    /* a node, or a fan with its tag */
    uint32_t parent; /* the node above, CELL_NONE at the top */
    uint32_t level;  /* of a fan */
};

struct check {
    const struct radix *radix;
    const char *reason;
    struct entry *stack;
    size_t len;
    size_t max;
    size_t bytes; /* of all objects met */
    uint64_t nodes;
    uint64_t namespaces;
    uint64_t blocks;
    uint64_t held[WORKERS_MAX];   /* blocks */
    uint32_t leaves[WORKERS_MAX]; /* records without kids */
    uint32_t tally[WORKERS_MAX];
    struct radix_holder holder[WORKERS_MAX];
};

/* Checks a fact; the first one that fails becomes the reason. */
static bool
fact(struct check *check, bool holds, const char *reason)
{
    if (!holds && check->reason == NULL) {
        check->reason = reason;
    }
    return holds;
}

static bool
push(struct check *check, uint32_t ref, uint32_t parent, uint32_t level)
{
    if (check->len == check->max) {
        size_t max = check->max == 0 ? 256 : check->max * 2;
        struct entry *more = realloc(check->stack, max * sizeof(struct entry));
        if (!fact(check, more != NULL, "radix_check: out of memory")) {
            return false;
        }
        check->stack = more;
        check->max = max;
    }
    check->stack[check->len++] =
        (struct entry){.ref = ref, .parent = parent, .level = level};
    return true;
}

/* Replaces a fan on the stack by what is in it. */
static bool
expand_fan(struct check *check, size_t at)
{
    struct entry entry = check->stack[at];
    const struct radix_fan *fan = fan_at(check->radix, entry.ref);
    uint32_t slots = ones(fan->bitmap);
    uint32_t live = 0;

    check->bytes += cell_size(&check->radix->store, entry.ref & ~FAN_TAG);
    check->stack[at] = check->stack[--check->len];
    for (uint32_t i = 0; i < slots; i++) {
        uint32_t ref = slot_load(&fan->slot[i]);
        if (ref != CELL_NONE) {
            live++;
            if (!push(check, ref, entry.parent, entry.level + 1)) {
                return false;
            }
        }
    }
    return fact(check, live == fan->live && live > 0,
                "radix: a fan's live slots are miscounted");
}

/* Puts the nodes below a slot on the stack. */
static bool
push_nodes(struct check *check, const _Atomic uint32_t *slot, uint32_t parent)
{
    size_t at = check->len;
    uint32_t ref = slot_load(slot);

    if (ref != CELL_NONE && !push(check, ref, parent, 0)) {
        return false;
    }
    while (at < check->len) {
        const struct entry *entry = &check->stack[at];
        if ((entry->ref & FAN_TAG) == 0) {
            uint64_t key = node_first_key(node_at(check->radix, entry->ref));
            if (!fact(check, fan_find(check->radix, slot, key) == entry->ref,
                      "radix: a child cannot be found")) {
                return false;
            }
            at++;
        } else if (!expand_fan(check, at)) {
            return false;
        }
    }
    return true;
}

static bool
bit_of(const _Atomic uint64_t *words, uint32_t worker)
{
    return (atomic_load(&words[worker / 64]) >> (worker % 64) & 1U) != 0;
}

static bool
check_holder_set(struct check *check, const struct radix_node *node)
{
    uint32_t ref = slot_load(&node->holder_set);
    uint32_t members = 0;
    uint32_t live = 0;

    if (ref == CELL_NONE) {
        return true;
    }
    const struct radix_holder_set *holder_set =
        holder_set_at(check->radix, ref);
    check->bytes += cell_size(&check->radix->store, ref);
    for (uint32_t worker = 0; worker < WORKERS_MAX; worker++) {
        uint32_t rank = radix_holder_set_rank(holder_set, worker);
        bool full = bit_of(holder_set->full, worker);
        bool some = bit_of(holder_set->some, worker);
        uint32_t word =
            rank == UINT32_MAX ? 0 : slot_load(&holder_set->hold[rank].word);
        members += rank != UINT32_MAX;
        live += word != 0;
        if (!fact(check, word == 0 || word >> 16 == worker + 1,
                  "radix: a holder set's entry is not its member's") ||
            !fact(check, some == (word != 0),
                  "radix: a holder set's set of holders is wrong") ||
            !fact(check, full == (some && (word & 0xFFFFU) == 0),
                  "radix: a holder set's full set is wrong")) {
            return false;
        }
    }
    return fact(check,
                members == holder_set->members && live == holder_set->live &&
                    live > INLINE_MAX,
                "radix: a holder set is miscounted");
}

/* Verifies that a leaf is in its worker's orders by its value, and an inner
 * record in none. */
static bool
check_place(struct check *check, uint32_t ref)
{
    const struct radix *radix = check->radix;
    const struct radix_record *record = record_at(radix, ref);
    const struct radix_worker *w = &radix->worker[record->worker];

    if (record->kids > 0) {
        return fact(check,
                    record->place[BY_POLICY] == ORDER_NOWHERE &&
                        record->place[BY_RECENCY] == ORDER_NOWHERE,
                    "radix: a record with kids is in an order");
    }
    check->leaves[record->worker]++;
    bool second = w->eviction != RADIX_LRU;
    const struct order *order = &w->order[BY_POLICY];
    uint32_t place = record->place[BY_POLICY];
    bool ok = place < order->count &&
              order_record(order, &radix->store, place) == ref &&
              order_value(order, &radix->store, place) ==
                  radix_leaf_value(w->eviction, record);
    order = &w->order[BY_RECENCY];
    place = record->place[BY_RECENCY];
    ok = ok && (second ? place < order->count &&
                             order_record(order, &radix->store, place) == ref &&
                             order_value(order, &radix->store, place) ==
                                 record->touched
                       : place == ORDER_NOWHERE);
    return fact(check, ok, "radix: a leaf is not where its order says");
}

static bool
check_holder(struct check *check, const struct entry *entry,
             const struct radix_holder *holder)
{
    const struct radix *radix = check->radix;
    const struct radix_node *node = node_at(radix, entry->ref);
    const struct radix_record *record = record_at(radix, holder->record);

    check->bytes += cell_size(&radix->store, holder->record);
    if (!fact(check, holder->missing < node->len,
              "radix: a holder holds nothing") ||
        !fact(check,
              record->node == entry->ref && record->worker == holder->worker &&
                  radix->worker[holder->worker].state != WORKER_FREE,
              "radix: a record of another node or worker")) {
        return false;
    }
    if (entry->parent != CELL_NONE) {
        struct radix_node *above = node_at(radix, entry->parent);
        const struct radix_hold *hold =
            radix_hold_find(radix, above, holder->worker);
        if (!fact(check, hold != NULL && hold_missing(hold) == 0,
                  "radix: a worker holds blocks without those before") ||
            !fact(check, record->parent == hold->record,
                  "radix: a record with the wrong parent")) {
            return false;
        }
    }
    if (node->space == 0) {
        check->held[holder->worker] += node->len - holder->missing;
    }
    return fact(check,
                record->kids == check->tally[holder->worker] &&
                    (record->kids == 0 || holder->missing == 0),
                "radix: a record's kids are miscounted") &&
           check_place(check, holder->record);
}

/* Counts, for each worker, the children of a node that it holds; they were
 * just put on the stack. */
static void
tally_children(struct check *check, size_t from)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        check->tally[i] = 0;
    }
    for (size_t i = from; i < check->len; i++) {
        uint32_t count = radix_hold_list(
            check->radix, node_at(check->radix, check->stack[i].ref),
            check->holder);
        for (uint32_t k = 0; k < count; k++) {
            check->tally[check->holder[k].worker]++;
        }
    }
}

static bool
check_node(struct check *check)
{
    struct entry entry = check->stack[--check->len];
    const struct radix_node *node = node_at(check->radix, entry.ref);
    size_t from = check->len;

    check->bytes += cell_size(&check->radix->store, entry.ref);
    check->nodes++;
    check->namespaces += node->space;
    check->blocks += node->space != 0 ? 0 : node->len;
    if (!fact(check, node->len >= 1 && node->len <= EDGE_MAX,
              "radix: an edge is empty") ||
        !fact(check,
              (node->space != 0) == (entry.parent == CELL_NONE) &&
                  (node->space == 0 || node->len == 1),
              "radix: a namespace that is not at the top") ||
        !check_holder_set(check, node) ||
        !push_nodes(check, &node->children, entry.ref)) {
        return false;
    }
    tally_children(check, from);
    uint32_t count = radix_hold_list(check->radix, node, check->holder);
    bool ok = fact(check, count > 0, "radix: nobody holds a node");
    for (uint32_t i = 0; ok && i < count; i++) {
        ok = check_holder(check, &entry, &check->holder[i]);
    }
    return ok;
}

/* Bytes that an order takes from the store. */
static size_t
order_bytes(const struct order *order, const struct cell_store *store)
{
    size_t bytes =
        order->directory == CELL_NONE ? 0 : cell_size(store, order->directory);
    for (uint32_t i = 0; i < order->pages; i++) {
        bytes += cell_size(store, order_page(order, store, i));
    }
    return bytes;
}

static bool
check_workers(struct check *check)
{
    const struct radix *radix = check->radix;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        const struct radix_worker *w = &radix->worker[i];
        uint32_t second = w->eviction != RADIX_LRU ? check->leaves[i] : 0;
        bool alive = bit_of(radix->alive, i);
        sum += w->blocks;
        check->bytes += order_bytes(&w->order[BY_POLICY], &radix->store) +
                        order_bytes(&w->order[BY_RECENCY], &radix->store);
        if (!fact(check, check->held[i] == w->blocks,
                  "radix: a worker's blocks are miscounted") ||
            !fact(check,
                  w->order[BY_POLICY].count == check->leaves[i] &&
                      w->order[BY_RECENCY].count == second,
                  "radix: an order has a leaf too many") ||
            !fact(check,
                  order_check(&w->order[BY_POLICY], &radix->store) &&
                      order_check(&w->order[BY_RECENCY], &radix->store),
                  "radix: a worker's heap is not in order") ||
            !fact(check,
                  alive == (w->state == WORKER_LIVE) &&
                      worker_set_has(&radix->dead, i) ==
                          (w->state == WORKER_DEAD),
                  "radix: a worker's state and the sets disagree") ||
            !fact(check,
                  w->state != WORKER_LIVE || w->blocks <= w->blocks_max ||
                      worker_set_has(&radix->over, i),
                  "radix: a worker above its capacity")) {
            return false;
        }
    }
    return fact(check, sum == radix->stats.holder_blocks,
                "radix: holder blocks are miscounted");
}

static bool
check_totals(struct check *check)
{
    const struct radix *radix = check->radix;
    size_t bytes = radix->fixed_bytes + cell_bytes(&radix->store);

    return fact(check, check->nodes == radix->stats.nodes,
                "radix: nodes are miscounted") &&
           fact(check, check->namespaces == radix->stats.namespaces,
                "radix: namespaces are miscounted") &&
           fact(check, check->blocks == radix->stats.blocks,
                "radix: blocks are miscounted") &&
           fact(check, check->namespaces <= radix->namespaces_max,
                "radix: more namespaces than the limit") &&
           fact(check, radix->plan == CELL_NONE,
                "radix: a plan was left open") &&
           fact(check,
                bytes <= radix->fixed_bytes + radix->store.bytes_max +
                             radix->store.fixed_bytes,
                "radix: more bytes than the bound") &&
           fact(check,
                check->bytes + radix->limbo_bytes == radix->store.used_bytes,
                "radix: bytes are lost");
}

bool
radix_check(const struct radix *radix, const char **reason)
{
    struct check *check = calloc(1, sizeof(*check));

    if (check == NULL) {
        *reason = "radix_check: out of memory";
        return false;
    }
    check->radix = radix;
    bool ok = push_nodes(check, &radix->roots, CELL_NONE);
    while (ok && check->len > 0) {
        ok = check_node(check);
    }
    ok = ok && check_workers(check) && check_totals(check) &&
         cell_check(&radix->store, &check->reason);
    *reason = ok ? NULL : check->reason;
    free(check->stack);
    free(check);
    return ok;
}
