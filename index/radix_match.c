/*
 * The readers' way down. Wait-free: each hop consumes at least one key, a fan
 * has at most FAN_LEVELS levels, and nothing is ever tried again.
 *
 * What a match says of a worker was true at some moment of the call. The writer
 * adds a worker to a path from the top and removes it from the tail, so a
 * worker that a reader sees at a node held everything above it at that moment.
 */
#include "index/radix_internal.h"

/* Up to so many of 64 are written one by one; above that, writing all 64 costs
 * less. */
#define PICKS_MAX 8

/* Writes depths for some of 64 workers of which none has a depth yet. If they
 * are many, it writes all 64 at once: the other depths are not valid yet, and
 * workers that walk on get another depth later. */
static void
emit_fresh(uint32_t *to, uint64_t bits, uint32_t depth)
{
    for (uint32_t picks = 0; bits != 0; bits &= bits - 1) {
        to[__builtin_ctzll(bits)] = depth;
        if (++picks == PICKS_MAX) {
            for (uint32_t k = 0; k < 64; k++) {
                to[k] = depth;
            }
            return;
        }
    }
}

/* Notes that these workers hold depth blocks, and no more. */
static void
emit(struct radix_match *match, const struct worker_set *set, uint32_t depth)
{
    if (depth == 0 || worker_set_empty(set)) {
        return;
    }
    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        uint64_t bits = set->word[i];
        uint32_t *to = &match->depth[(size_t)i * 64];
        if (match->workers.word[i] == 0) {
            emit_fresh(to, bits, depth);
        } else {
            for (uint64_t left = bits; left != 0; left &= left - 1) {
                to[__builtin_ctzll(left)] = depth;
            }
        }
        match->workers.word[i] |= bits;
    }
    match->best = depth > match->best ? depth : match->best;
}

static void
emit_one(struct radix_match *match, uint32_t worker, uint32_t depth)
{
    CHECK_SLOW(worker < WORKERS_MAX);
    if (depth > 0) {
        worker_set_add(&match->workers, worker);
        match->depth[worker] = depth;
        match->best = depth > match->best ? depth : match->best;
    }
}

/*
 * The workers that hold all blocks matched so far: many, as a set; or, below
 * the first node without a holder set, a few, by number. Most of a path is of
 * the second kind, where passing a node costs one comparison.
 */
struct walk {
    const struct radix *radix;
    struct radix_match *match;
    const struct radix_node *node; /* being passed */
    uint32_t depth;                /* of its first block */
    uint32_t matched;              /* blocks of it that were asked for */
    bool by_name;
    uint32_t few_count;
    uint32_t few[INLINE_MAX];
    struct worker_set many;
};

/* Blocks of the node that a hold's word speaks of. */
static uint32_t
held_of(const struct walk *walk, uint32_t word)
{
    CHECK_SLOW((word & 0xFFFFU) <= walk->node->len);
    return word == 0 ? 0 : walk->node->len - (word & 0xFFFFU);
}

/* Keeps a worker among the few if it holds the matched blocks; otherwise notes
 * where it stops. */
static void
meet(struct walk *walk, uint32_t worker, uint32_t held)
{
    CHECK_SLOW(worker < WORKERS_MAX && walk->few_count < INLINE_MAX);
    if (held >= walk->matched) {
        walk->few[walk->few_count++] = worker;
    } else {
        emit_one(walk->match, worker, walk->depth + held);
    }
}

/* The word of one worker's hold in the node; 0: it has none. */
static uint32_t
word_of(const struct walk *walk, uint32_t worker)
{
    const struct radix_node *node = walk->node;
    uint32_t ref = slot_load(&node->holder_set);

    CHECK_SLOW(worker < WORKERS_MAX);
    if (ref != CELL_NONE) {
        const struct radix_holder_set *holder_set =
            holder_set_at(walk->radix, ref);
        uint32_t rank = radix_holder_set_rank(holder_set, worker);
        return rank == UINT32_MAX ? 0 : slot_load(&holder_set->hold[rank].word);
    }
    for (uint32_t i = 0; i < INLINE_MAX; i++) {
        uint32_t word = slot_load(&node->hold[i].word);
        if (word >> 16 == worker + 1) {
            return word;
        }
    }
    return 0;
}

static void
pass_few(struct walk *walk)
{
    uint32_t count = walk->few_count;

    CHECK_SLOW(walk->by_name && count <= INLINE_MAX);
    walk->few_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t worker = walk->few[i];
        meet(walk, worker, held_of(walk, word_of(walk, worker)));
    }
}

/* Goes over from many to the few that a node without a holder set names. */
static void
pass_inline(struct walk *walk)
{
    CHECK_SLOW(!walk->by_name && walk->few_count == 0);
    for (uint32_t i = 0; i < INLINE_MAX; i++) {
        uint32_t word = slot_load(&walk->node->hold[i].word);
        uint32_t worker = (word >> 16) - 1;
        if (word != 0 && worker_set_has(&walk->many, worker)) {
            worker_set_remove(&walk->many, worker);
            meet(walk, worker, held_of(walk, word));
        }
    }
    emit(walk->match, &walk->many, walk->depth);
    walk->by_name = true;
}

/* Handles the workers of a holder set that miss some of the edge's tail: none
 * goes further. */
static void
stop_parts(struct walk *walk, const struct radix_holder_set *holder_set,
           const struct worker_set *part)
{
    CHECK_SLOW(!worker_set_empty(part));
    WORKER_SET_EACH (worker, part) {
        uint32_t rank = radix_holder_set_rank(holder_set, worker);
        uint32_t held = held_of(walk, slot_load(&holder_set->hold[rank].word));
        held = held < walk->matched ? held : walk->matched;
        worker_set_remove(&walk->many, worker);
        emit_one(walk->match, worker, walk->depth + held);
    }
}

static void
pass_holder_set(struct walk *walk, const struct radix_holder_set *holder_set)
{
    struct worker_set stay;
    struct worker_set part;
    uint64_t parts = 0;

    CHECK_SLOW(!walk->by_name);
    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        uint64_t full =
            atomic_load_explicit(&holder_set->full[i], memory_order_acquire);
        uint64_t some =
            atomic_load_explicit(&holder_set->some[i], memory_order_acquire);
        stay.word[i] = walk->many.word[i] & full;
        walk->many.word[i] &= ~full;
        part.word[i] = walk->many.word[i] & some;
        parts |= part.word[i];
    }
    if (parts != 0) {
        stop_parts(walk, holder_set, &part);
    }
    emit(walk->match, &walk->many, walk->depth);
    walk->many = stay;
}

/* Notes the workers that stop before or in the node. False: nobody is left. */
static bool
pass(struct walk *walk)
{
    CHECK_SLOW(walk->matched >= 1 && walk->matched <= walk->node->len);
    if (walk->by_name) {
        pass_few(walk);
        return walk->few_count > 0;
    }
    uint32_t holder_set = slot_load(&walk->node->holder_set);
    if (holder_set == CELL_NONE) {
        pass_inline(walk);
        return walk->few_count > 0;
    }
    pass_holder_set(walk, holder_set_at(walk->radix, holder_set));
    return !worker_set_empty(&walk->many);
}

/* Ends the walk: nobody goes further. */
static void
finish(struct walk *walk)
{
    for (uint32_t i = 0; i < walk->few_count; i++) {
        emit_one(walk->match, walk->few[i], walk->depth);
    }
    if (!walk->by_name) {
        emit(walk->match, &walk->many, walk->depth);
    }
}

void
radix_match(const struct radix *radix, uint64_t root, const uint64_t *keys,
            size_t count, struct radix_match *match)
{
    struct walk walk = {.radix = radix, .match = match};
    uint32_t ref = fan_find(radix, &radix->roots, root);
    bool whole = true;

    CHECK_SLOW(count == 0 || keys != NULL);
    worker_set_clear(&match->workers);
    match->best = 0;
    if (ref == CELL_NONE || node_at(radix, ref)->last_key != root) {
        return;
    }
    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        walk.many.word[i] =
            atomic_load_explicit(&radix->alive[i], memory_order_acquire);
    }
    walk.node = node_at(radix, ref);
    count = count < radix->depth_max ? count : radix->depth_max;
    while (whole && walk.depth < count) {
        const uint64_t *from = keys + walk.depth;
        ref = fan_find(radix, &walk.node->children, *from);
        if (ref == CELL_NONE) {
            break;
        }
        walk.node = node_at(radix, ref);
        walk.matched = node_match(walk.node, from, count - walk.depth);
        if (walk.matched == 0 || !pass(&walk)) {
            break;
        }
        walk.depth += walk.matched;
        whole = walk.matched == walk.node->len;
    }
    finish(&walk);
    CHECK_SLOW(match->best <= count);
}
