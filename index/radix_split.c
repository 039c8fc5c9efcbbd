/*
 * Nodes in the tree: splitting one in two, taking one out. Two new nodes
 * replace a node that is split, and it is retired; its readers see what was
 * true before.
 */
#include "index/radix_internal.h"

/* The slot that children of a record's node hang in. */
static _Atomic uint32_t *
children_of(struct radix *radix, uint32_t record)
{
    CHECK_SLOW(record == CELL_NONE ||
               record_at(radix, record)->node != CELL_NONE);
    return record == CELL_NONE
               ? &radix->roots
               : &node_at(radix, record_at(radix, record)->node)->children;
}

static void
node_retire(struct radix *radix, uint32_t ref)
{
    uint32_t holder_set = slot_load(&node_at(radix, ref)->holder_set);

    CHECK(ref != CELL_NONE);
    if (holder_set != CELL_NONE) {
        radix_retire(radix, holder_set);
    }
    radix_retire(radix, ref);
}

void
radix_node_replace(struct radix *radix, uint32_t ref, uint32_t by,
                   uint32_t parent)
{
    uint64_t key = node_first_key(node_at(radix, ref));

    CHECK(by != CELL_NONE && by != ref);
    slot_store(radix_fan_place(radix, children_of(radix, parent), key), by);
    node_retire(radix, ref);
}

/* Makes a record between a worker's hold of the lower part and its parent. */
static uint32_t
record_between(struct radix *radix, const struct radix_record *lower)
{
    return radix_record_new(radix,
                            &(struct radix_record){.node = CELL_NONE,
                                                   .parent = lower->parent,
                                                   .kids = 1,
                                                   .worker = lower->worker,
                                                   .created = lower->created});
}

/*
 * Divides radix->holder[0..count). Holders of more than len blocks stay there,
 * as holders of the lower part, and get a record for the upper one. All go to
 * radix->upper. Returns how many stay; UINT32_MAX: no room.
 */
static uint32_t
deal_holders(struct radix *radix, const struct radix_node *node, uint32_t len,
             uint32_t count)
{
    uint32_t below = 0;

    CHECK(len >= 1 && len < node->len);
    for (uint32_t i = 0; i < count; i++) {
        struct radix_holder holder = radix->holder[i];
        uint32_t held = node->len - holder.missing;
        radix->upper[i] = holder;
        if (held <= len) {
            radix->upper[i].missing = len - held;
            continue;
        }
        radix->holder[below++] = holder;
        radix->upper[i].missing = 0;
        radix->upper[i].record =
            record_between(radix, record_at(radix, holder.record));
        if (radix->upper[i].record == CELL_NONE) {
            return UINT32_MAX;
        }
    }
    return below;
}

/* Hangs the records of radix->upper and ->holder onto the two parts. */
static void
move_records(struct radix *radix, uint32_t upper, uint32_t lower,
             uint32_t count, uint32_t below)
{
    uint32_t next = 0;

    CHECK(below <= count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t record = radix->upper[i].record;
        record_at(radix, record)->node = upper;
        if (next < below &&
            radix->holder[next].worker == radix->upper[i].worker) {
            struct radix_record *under =
                record_at(radix, radix->holder[next++].record);
            under->node = lower;
            under->parent = record;
        }
    }
    CHECK(next == below);
}

bool
radix_node_split(struct radix *radix, uint32_t ref, uint32_t len)
{
    struct radix_node *node = node_at(radix, ref);
    uint32_t count = radix_hold_list(radix, node, radix->holder);
    uint32_t lower = CELL_NONE;
    uint32_t upper = CELL_NONE;

    CHECK(len >= 1 && len < node->len && count > 0);
    uint32_t parent = record_at(radix, radix->holder[0].record)->parent;
    uint32_t below = deal_holders(radix, node, len, count);
    if (below != UINT32_MAX) {
        upper = radix_node_build(radix, node->key, len, node->key[len - 1],
                                 radix->upper, count);
    }
    if (upper != CELL_NONE && below > 0) {
        lower = radix_node_build(radix, node->key + len, node->len - len,
                                 node->last_key, radix->holder, below);
    }
    if (upper == CELL_NONE || (below > 0 && lower == CELL_NONE)) {
        radix_plan_abort(radix);
        return false;
    }
    uint32_t children = slot_load(&node->children);
    CHECK(below > 0 || children == CELL_NONE);
    slot_store(&node_at(radix, upper)->children, lower);
    if (lower != CELL_NONE) {
        slot_store(&node_at(radix, lower)->children, children);
    }
    move_records(radix, upper, lower, count, below);
    radix->stats.nodes += lower != CELL_NONE;
    radix->stats.blocks -= lower != CELL_NONE ? 0 : node->len - len;
    radix_node_replace(radix, ref, upper, parent);
    radix_plan_done(radix);
    return true;
}

void
radix_node_drop(struct radix *radix, uint32_t ref, uint32_t parent)
{
    struct radix_node *node = node_at(radix, ref);

    CHECK(slot_load(&node->children) == CELL_NONE);
    CHECK(radix_hold_count(radix, node) == 0);
    radix_fan_remove(radix, children_of(radix, parent), node_first_key(node));
    radix->stats.nodes--;
    radix->stats.namespaces -= node->space;
    radix->stats.blocks -= node->space != 0 ? 0 : node->len;
    node_retire(radix, ref);
}
