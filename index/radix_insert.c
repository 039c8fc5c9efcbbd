/*
 * Learning a prefix. First the tree is split where the prefix ends or leaves a
 * node, which no match can see. Then everything that the change needs is
 * prepared. Then the change is made, which cannot fail. A worker enters the
 * nodes of a path from the top.
 */
#include <errno.h>

#include "index/radix_internal.h"

/* How often an insert that found no room evicts and tries again, and how many
 * runs it evicts at most: some, and one for each four blocks of its own. */
#define ROOM_ROUNDS     3
#define ROOM_STEPS      32U
#define ROOM_STEP_BLOCK 4U

/* Free memory may lie in small pieces: from one attempt to the next new nodes
 * get shorter by this factor, but not shorter than this. */
#define SHORTER       8U
#define EDGE_SHORTEST (EDGE_MAX < 128 ? 1U : EDGE_MAX / 128U)

/* With this much retired memory it is worth asking the qsbr. */
#define RECLAIM_BYTES ((size_t)64 << 10)

struct insert {
    struct radix *radix;
    uint64_t root;
    const uint64_t *keys;
    uint32_t count;
    uint32_t worker;
    uint8_t priority;
    uint32_t edge_max; /* of new nodes, in this attempt */

    /* The way down, radix->step[0..steps), the namespace first. */
    uint32_t steps;
    uint32_t depth;   /* blocks that are in the tree */
    uint32_t within;  /* of them in the last node */
    uint32_t held;    /* steps that the worker holds */
    uint32_t missing; /* blocks it misses of the last of these */

    /* What is new: the last node grown, or nodes below it. */
    uint32_t grown;
    uint32_t first_node;
    uint32_t first_record;
    uint32_t last_record;
    uint32_t nodes;
    struct fan_change change;
};

static struct radix_node *
step_node(const struct insert *in, uint32_t step)
{
    CHECK_SLOW(step < in->steps);
    return node_at(in->radix, in->radix->step[step].node);
}

/* Finds how far the tree knows the prefix, and how far the worker holds it. */
static void
walk(struct insert *in)
{
    struct radix *radix = in->radix;
    uint32_t ref = fan_find(radix, &radix->roots, in->root);

    in->steps = in->depth = in->within = in->held = in->missing = 0;
    if (ref != CELL_NONE && node_at(radix, ref)->last_key == in->root) {
        radix->step[in->steps++].node = ref;
        in->within = 1;
    }
    while (in->steps > 0 && in->depth < in->count) {
        const struct radix_node *node = node_at(radix, ref);
        ref = fan_find(radix, &node->children, in->keys[in->depth]);
        uint32_t matched = ref == CELL_NONE ? 0
                                            : node_match(node_at(radix, ref),
                                                         in->keys + in->depth,
                                                         in->count - in->depth);
        if (matched == 0) {
            break;
        }
        radix->step[in->steps++].node = ref;
        in->within = matched;
        in->depth += matched;
        if (matched < node_at(radix, ref)->len) {
            break;
        }
    }
    while (in->held < in->steps && in->missing == 0) {
        const struct radix_hold *hold =
            radix_hold_find(radix, step_node(in, in->held), in->worker);
        if (hold == NULL) {
            break;
        }
        radix->step[in->held++].record = hold->record;
        in->missing = hold_missing(hold);
    }
    CHECK(in->held <= in->steps && in->depth <= in->count);
}

/*
 * True when eviction will treat the blocks of the last node that the worker
 * holds and the blocks that this insert adds alike: leaves are ordered by when
 * they were touched, or by a priority that this insert does not lower.
 */
static bool
stay_alike(const struct insert *in)
{
    const struct radix_record *record =
        record_at(in->radix, in->radix->step[in->held - 1].record);

    CHECK(in->held > 0);
    switch (in->radix->worker[in->worker].eviction) {
    case RADIX_LRU:
    case RADIX_MRU:
        return true;
    case RADIX_PRIORITY:
        return in->priority >= record->priority;
    case RADIX_LFU:
    case RADIX_FIFO:
    case RADIX_FILO:
        break;
    }
    return false;
}

/*
 * Eviction treats all blocks of one record alike. Where this insert would make
 * them differ, or where the tree branches, a node must be split: that of *step,
 * after *len blocks. False: there is nothing to split.
 */
static bool
find_split(const struct insert *in, uint32_t *step, uint32_t *len)
{
    uint32_t last = in->steps - 1;

    CHECK(step != NULL && len != NULL);
    if (in->steps < 2) {
        return false;
    }
    uint32_t last_len = step_node(in, last)->len;
    bool holds_last = in->held == in->steps;
    *step = last;
    *len = in->within;
    if (in->within < last_len &&
        (in->depth < in->count ||
         (holds_last && last_len - in->missing > in->within))) {
        return true;
    }
    if (in->held < 2 || in->missing == 0 || stay_alike(in)) {
        return false;
    }
    *step = in->held - 1;
    *len = step_node(in, *step)->len - in->missing;
    return !holds_last || in->within > *len;
}

/* Makes a record of the worker for a node, on the plan. */
static uint32_t
new_record(const struct insert *in, uint32_t node)
{
    return radix_record_new(
        in->radix,
        &(struct radix_record){.node = node,
                               .parent = CELL_NONE,
                               .worker = in->worker,
                               .created = in->radix->clock & STAMP_MAX});
}

/* How a worker will hold a step that it does not hold yet. */
static struct radix_holder
step_holder(const struct insert *in, uint32_t step)
{
    uint32_t len = step_node(in, step)->len;

    CHECK(step >= in->held);
    return (struct radix_holder){
        .worker = in->worker,
        .missing = step == in->steps - 1 ? len - in->within : 0,
        .record = in->radix->step[step].record};
}

/* Prepares records and places for the worker in nodes that others hold. */
static bool
prepare_steps(struct insert *in)
{
    struct radix *radix = in->radix;

    CHECK(in->held <= in->steps);
    for (uint32_t i = in->held; i < in->steps; i++) {
        struct radix_step *step = &radix->step[i];
        step->record = new_record(in, step->node);
        struct radix_holder holder = step_holder(in, i);
        if (step->record == CELL_NONE ||
            !radix_hold_prepare(radix, step_node(in, i), &holder,
                                &step->holder_set)) {
            return false;
        }
    }
    return true;
}

/* Prepares a new node above those prepared so far. */
static bool
prepare_node(struct insert *in, const uint64_t *keys, uint32_t len)
{
    struct radix *radix = in->radix;
    struct radix_holder holder = {.worker = in->worker};

    CHECK(len >= 1 && len <= in->edge_max);
    holder.record = new_record(in, CELL_NONE);
    if (holder.record == CELL_NONE) {
        return false;
    }
    uint32_t node =
        radix_node_build(radix, keys, len, keys[len - 1], &holder, 1);
    if (node == CELL_NONE) {
        return false;
    }
    struct radix_record *record = record_at(radix, holder.record);
    record->node = node;
    if (in->first_node != CELL_NONE) {
        slot_store(&node_at(radix, node)->children, in->first_node);
        record_at(radix, in->first_record)->parent = holder.record;
        record->kids = 1;
    } else {
        in->last_record = holder.record;
    }
    in->first_node = node;
    in->first_record = holder.record;
    in->nodes++;
    return true;
}

/*
 * True when the last node may grow instead of getting a child: the worker is
 * its only holder and nothing branches off. So a conversation is one node, and
 * not one for each turn.
 */
static bool
may_grow(const struct insert *in)
{
    CHECK_SLOW(in->within > 0 || in->steps == 0);
    if (in->steps < 2 || in->held < in->steps || !stay_alike(in)) {
        return false;
    }
    const struct radix_node *last = step_node(in, in->steps - 1);
    return in->depth < in->count && in->within == last->len &&
           last->len + (in->count - in->depth) <= in->edge_max &&
           slot_load(&last->children) == CELL_NONE &&
           radix_hold_count(in->radix, last) == 1;
}

static bool
prepare_growth(struct insert *in)
{
    const struct radix_step *last = &in->radix->step[in->steps - 1];
    uint32_t start = in->depth - in->within;
    struct radix_holder holder = {.worker = in->worker, .record = last->record};

    CHECK(in->held == in->steps && in->within <= in->depth);
    in->grown = radix_node_build(in->radix, in->keys + start, in->count - start,
                                 in->keys[in->count - 1], &holder, 1);
    return in->grown != CELL_NONE;
}

/* Prepares nodes for the blocks that nobody holds, the deepest first. */
static bool
prepare_tail(struct insert *in)
{
    uint32_t end = in->count;

    CHECK(in->edge_max >= 1);
    in->grown = CELL_NONE;
    in->first_node = in->first_record = in->last_record = CELL_NONE;
    in->nodes = 0;
    if (may_grow(in)) {
        return prepare_growth(in);
    }
    while (end > in->depth) {
        uint32_t len = (end - in->depth) % in->edge_max;
        len = len == 0 ? in->edge_max : len;
        if (!prepare_node(in, in->keys + end - len, len)) {
            return false;
        }
        end -= len;
    }
    if (in->steps == 0) {
        if (!prepare_node(in, &in->root, 1)) {
            return false;
        }
        node_at(in->radix, in->first_node)->space = 1;
    }
    if (in->first_node == CELL_NONE) {
        return true;
    }
    return radix_fan_prepare(in->radix,
                             in->steps == 0
                                 ? &in->radix->roots
                                 : &step_node(in, in->steps - 1)->children,
                             in->steps == 0 ? in->root : in->keys[in->depth],
                             in->first_node, &in->change);
}

/* Adds a child to the worker's record, which is no longer a leaf. */
static void
gain_kid(struct insert *in, uint32_t ref)
{
    struct radix_record *record = record_at(in->radix, ref);

    CHECK(record->worker == in->worker);
    if (record->kids++ == 0) {
        radix_leaf_remove(in->radix, in->worker, ref);
    }
}

static void
count_blocks(struct insert *in, uint32_t blocks)
{
    in->radix->worker[in->worker].blocks += blocks;
    in->radix->stats.holder_blocks += blocks;
}

/* Enters the worker into the nodes that others hold. Returns the record at the
 * end of the known part; CELL_NONE: nothing is known. */
static uint32_t
commit_steps(struct insert *in)
{
    struct radix *radix = in->radix;
    uint32_t above = CELL_NONE;

    CHECK(in->steps == 0 || in->radix->step[0].node != CELL_NONE);
    if (in->held > 0) {
        uint32_t last = in->held - 1;
        struct radix_node *node = step_node(in, last);
        uint32_t reach = in->held == in->steps ? in->within : node->len;
        above = radix->step[last].record;
        if (reach > node->len - in->missing) {
            radix_hold_set(radix, node,
                           radix_hold_find(radix, node, in->worker),
                           node->len - reach);
            count_blocks(in, reach - (node->len - in->missing));
        }
    }
    for (uint32_t i = in->held; i < in->steps; i++) {
        struct radix_node *node = step_node(in, i);
        struct radix_holder holder = step_holder(in, i);
        record_at(radix, holder.record)->parent = above;
        if (above != CELL_NONE) {
            gain_kid(in, above);
        }
        radix_hold_commit(radix, node, &holder, radix->step[i].holder_set);
        count_blocks(in, node->space != 0 ? 0 : node->len - holder.missing);
        above = holder.record;
    }
    return above;
}

/* Touches the last record of the prefix, which must not give way to this
 * insert. */
static void
touch(struct insert *in, uint32_t ref)
{
    struct radix *radix = in->radix;
    struct radix_record *record = record_at(radix, ref);

    CHECK(record->worker == in->worker);
    radix_leaf_remove(radix, in->worker, ref);
    record->touched = radix->clock & STAMP_MAX;
    if (record->count < COUNT_MAX) {
        record->count++;
    }
    record->priority =
        in->priority > record->priority ? in->priority : record->priority;
    radix_evict_worker(radix, in->worker, ref, (uint64_t)in->count + 64);
    if (record->kids == 0) {
        radix_leaf_add(radix, in->worker, ref);
    }
}

/* Puts the grown node in the place of the last one. */
static void
commit_growth(struct insert *in)
{
    const struct radix_step *last = &in->radix->step[in->steps - 1];
    struct radix_record *record = record_at(in->radix, last->record);

    CHECK(record->worker == in->worker && record->kids == 0);
    radix_node_replace(in->radix, last->node, in->grown, record->parent);
    record->node = in->grown;
    count_blocks(in, in->missing + in->count - in->depth);
    in->radix->stats.blocks += in->count - in->depth;
}

static void
commit(struct insert *in)
{
    struct radix *radix = in->radix;
    uint32_t end = CELL_NONE;

    CHECK(in->grown == CELL_NONE || in->first_node == CELL_NONE);
    if (in->grown != CELL_NONE) {
        commit_growth(in);
        end = radix->step[in->steps - 1].record;
    } else {
        end = commit_steps(in);
    }
    if (in->first_node != CELL_NONE) {
        record_at(radix, in->first_record)->parent = end;
        if (end != CELL_NONE) {
            gain_kid(in, end);
        }
        radix_fan_commit(radix, &in->change);
        count_blocks(in, in->count - in->depth);
        radix->stats.blocks += in->count - in->depth;
        radix->stats.nodes += in->nodes;
        radix->stats.namespaces += in->steps == 0;
        end = in->last_record;
    }
    radix_plan_done(radix);
    touch(in, end);
}

/* One attempt. 0; or RADIX_E_FULL or -ENOMEM, and nothing that a match can see
 * has changed. */
static int
attempt(struct insert *in)
{
    struct radix *radix = in->radix;
    uint32_t step;
    uint32_t len;
    bool fits = true;

    CHECK(radix->plan == CELL_NONE);
    walk(in);
    while (fits && find_split(in, &step, &len)) {
        fits = radix_node_split(radix, radix->step[step].node, len);
        walk(in);
    }
    if (in->steps == 0 && radix->stats.namespaces >= radix->namespaces_max) {
        return RADIX_E_FULL;
    }
    fits = fits && radix_leaf_reserve(radix, in->worker, 1) &&
           prepare_steps(in) && prepare_tail(in);
    if (!fits) {
        radix_plan_abort(radix);
        return cell_starved(&radix->store) ? -ENOMEM : RADIX_E_FULL;
    }
    commit(in);
    return 0;
}

/* A generous estimate of the memory that the change takes. */
static size_t
estimate(const struct insert *in)
{
    CHECK(in->depth <= in->count && in->held <= in->steps);
    return (size_t)(in->count - in->depth) * 9 +
           (size_t)(in->steps - in->held) * 512 + 8192;
}

/* Reclaims and evicts. True when that freed something, so that another attempt
 * makes sense. */
static bool
make_room(struct insert *in)
{
    struct radix *radix = in->radix;
    size_t need = estimate(in);
    bool namespaces =
        in->steps == 0 && radix->stats.namespaces >= radix->namespaces_max;
    uint32_t steps = 0;
    uint32_t most = ROOM_STEPS + (in->count - in->depth) / ROOM_STEP_BLOCK;

    CHECK(radix->plan == CELL_NONE);
    if (!namespaces && radix->limbo_bytes > 0) {
        /* What was retired before may be free by now; if readers hold it
         * still, evicting more would not help. */
        size_t waiting = radix->limbo_bytes;
        radix_reclaim(radix);
        if (radix->limbo_bytes < waiting || radix->limbo_bytes >= need) {
            return radix->limbo_bytes < waiting;
        }
    }
    size_t goal = radix_live_bytes(radix);
    goal = goal > need ? goal - need : 0;
    while (steps < most &&
           (namespaces ? radix->stats.namespaces >= radix->namespaces_max
                       : radix_live_bytes(radix) > goal) &&
           radix_evict_any(radix)) {
        steps++;
    }
    radix_reclaim(radix);
    return steps > 0;
}

/* Seven arguments: a struct for them would have this one use. */
int
radix_insert(struct radix *radix, uint64_t root, const uint64_t *keys,
             size_t count, uint32_t worker, uint8_t priority, uint64_t now_us)
{
    CHECK(worker < WORKERS_MAX);
    CHECK(count == 0 || keys != NULL);
    struct radix_worker *w = &radix->worker[worker];
    uint32_t rounds = 0;
    int rc;

    if (w->state != WORKER_LIVE) {
        return RADIX_E_GONE;
    }
    count = count < radix->depth_max ? count : radix->depth_max;
    count = count < w->blocks_max ? count : (size_t)w->blocks_max;
    if (count == 0) {
        return 0;
    }
    radix_tick(radix, now_us);
    struct insert in = {.radix = radix,
                        .root = root,
                        .keys = keys,
                        .count = (uint32_t)count,
                        .worker = worker,
                        .priority = priority,
                        .edge_max = EDGE_MAX};
    while ((rc = attempt(&in)) == RADIX_E_FULL && rounds++ < ROOM_ROUNDS &&
           make_room(&in)) {
        in.edge_max = in.edge_max / SHORTER > EDGE_SHORTEST
                          ? in.edge_max / SHORTER
                          : EDGE_SHORTEST;
    }
    radix->stats.inserts += rc == 0;
    radix->stats.refused += rc == RADIX_E_FULL;
    if (radix->limbo_bytes >= RECLAIM_BYTES) {
        radix_reclaim(radix);
    }
    return rc;
}
