/*
 * The readers' way down. Wait-free: each hop consumes at least one key, a fan
 * has at most FAN_LEVELS levels, and nothing is ever tried again.
 *
 * What a match says of a worker was true at some moment of the call: the
 * writer adds a worker to a path from the top and takes it away from the
 * tail, so whoever is seen at a node held all above it when it was seen.
 */
#include "index/radix_tree.h"

/* From so many of 64 on, writing all 64 costs less than picking them. */
#define EMIT_WIDE 12

/*
 * These workers hold depth blocks, and no more. When many of 64 stop at once
 * and none of these did before, all 64 depths are written, wide: those in
 * between are not valid yet, and whoever walks on gets another one later.
 */
static void
emit(struct radix_match *match, const struct worker_set *set, uint32_t depth)
{
    if (depth == 0 || worker_set_empty(set)) {
        return;
    }
    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        uint64_t bits = set->word[i];
        uint32_t *to = &match->depth[i * 64];
        if (match->workers.word[i] == 0 &&
            __builtin_popcountll(bits) >= EMIT_WIDE) {
            for (uint32_t k = 0; k < 64; k++) {
                to[k] = depth;
            }
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
    if (depth > 0) {
        worker_set_add(&match->workers, worker);
        match->depth[worker] = depth;
        match->best = depth > match->best ? depth : match->best;
    }
}

/* A holder that is among those still walking: it stays when it holds the
 * matched blocks, or is told apart here. */
static void
meet(uint32_t word, uint32_t len, uint32_t matched, uint32_t depth,
     struct worker_set *set, struct radix_match *match)
{
    uint32_t worker = (word >> 16) - 1;
    uint32_t held = len - (word & 0xFFFFU);

    if (held >= matched) {
        worker_set_add(set, worker);
    } else {
        emit_one(match, worker, depth + held);
    }
}

/* Of those in *walking, who holds the matched blocks of a node. */
static struct worker_set
pass_inline(const struct radix_node *node, uint32_t matched, uint32_t depth,
            struct worker_set *walking, struct radix_match *match)
{
    struct worker_set stay;

    worker_set_clear(&stay);
    for (uint32_t i = 0; i < INLINE_MAX; i++) {
        uint32_t word = slot_load(&node->hold[i].word);
        if (word != 0 && worker_set_has(walking, (word >> 16) - 1)) {
            worker_set_remove(walking, (word >> 16) - 1);
            meet(word, node->len, matched, depth, &stay, match);
        }
    }
    return stay;
}

static struct worker_set
pass_crowd(const struct radix_crowd *crowd, uint32_t len, uint32_t matched,
           uint32_t depth, struct worker_set *walking,
           struct radix_match *match)
{
    struct worker_set stay;
    struct worker_set part;

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        uint64_t full =
            atomic_load_explicit(&crowd->full[i], memory_order_acquire);
        stay.word[i] = walking->word[i] & full;
        walking->word[i] &= ~full;
        part.word[i] = walking->word[i] & crowd->member[i];
    }
    WORKER_SET_EACH (worker, &part) {
        uint32_t rank = radix_crowd_rank(crowd, worker);
        uint32_t word = slot_load(&crowd->hold[rank].word);
        if (word != 0) {
            worker_set_remove(walking, worker);
            meet(word, len, matched, depth, &stay, match);
        }
    }
    return stay;
}

void
radix_match(const struct radix *radix, uint64_t root, const uint64_t *keys,
            size_t count, struct radix_match *match)
{
    struct worker_set walking;
    const struct radix_node *node;
    uint32_t depth = 0;
    uint32_t ref = fan_find(radix, &radix->roots, root);

    worker_set_clear(&match->workers);
    match->best = 0;
    if (ref == CELL_NONE || node_at(radix, ref)->last_key != root) {
        return;
    }
    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        walking.word[i] =
            atomic_load_explicit(&radix->alive[i], memory_order_acquire);
    }
    count = count < radix->depth_max ? count : radix->depth_max;
    for (node = node_at(radix, ref); depth < count;) {
        ref = fan_find(radix, &node->children, keys[depth]);
        if (ref == CELL_NONE) {
            break;
        }
        node = node_at(radix, ref);
        uint32_t matched = node_match(node, keys + depth, count - depth);
        if (matched == 0) {
            break;
        }
        uint32_t crowd = slot_load(&node->crowd);
        struct worker_set stay =
            crowd == CELL_NONE
                ? pass_inline(node, matched, depth, &walking, match)
                : pass_crowd(crowd_at(radix, crowd), node->len, matched, depth,
                             &walking, match);
        emit(match, &walking, depth);
        walking = stay;
        depth += matched;
        if (matched < node->len || worker_set_empty(&walking)) {
            break;
        }
    }
    emit(match, &walking, depth);
}
