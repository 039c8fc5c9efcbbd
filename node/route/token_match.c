/* Splits a prompt of tokens into blocks, and looks these up in the mirrors. */
#include "node/route/token_match_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/mutant.h"

#define ENDS_MAX 64U /* depths at which a prompt on its way may end */

int
token_match_init(struct token_match *match, uint32_t depth_max)
{
    CHECK(depth_max > 0 && depth_max <= UINT32_MAX / TOKEN_MATCH_IDS_PER);
    *match = (struct token_match){
        .depth_max = depth_max,
        .ids_max = depth_max * TOKEN_MATCH_IDS_PER,
    };
    match->ids = calloc(match->ids_max, sizeof(*match->ids));
    match->keys =
        calloc((size_t)depth_max * MIRROR_GROUPS_MAX, sizeof(*match->keys));
    match->order_keys =
        calloc(depth_max + (size_t)1, sizeof(*match->order_keys));
    if (match->ids == NULL || match->keys == NULL ||
        match->order_keys == NULL) {
        token_match_fini(match);
        return -ENOMEM;
    }
    return 0;
}

void
token_match_fini(struct token_match *match)
{
    free(match->ids);
    free(match->keys);
    free(match->order_keys);
    match->order_keys = NULL;
    match->ids = NULL;
    match->keys = NULL;
}

void
token_match_forget(struct token_match *match)
{
    match->known = false;
    match->prompt.groups_count = 0;
}

/* [1, 22, 333], which the scanner has found to be plain digits. Numbers over
 * 32 bits are no token ids: the engine will refuse them. */
static uint32_t
read_ids(struct token_match *match, const char *raw, size_t len)
{
    uint32_t count = 0;
    uint32_t id = 0;
    bool open = false;

    for (size_t i = 0; i < len && count < match->ids_max; i++) {
        if (raw[i] >= '0' && raw[i] <= '9') {
            id = id * 10 + (uint32_t)(raw[i] - '0');
            open = true;
        } else if (open) {
            match->ids[count++] = id;
            id = 0;
            open = false;
        }
    }
    return count;
}

/* Keys of the full blocks of the ids that were read. */
static void
split_ids(struct token_match *match, const struct token_media *media,
          uint32_t grain, uint32_t at)
{
    CHECK(grain != 0 && at < MIRROR_GROUPS_MAX);
    uint32_t count = shape_blocks(grain, match->prompt.tokens);
    uint64_t *keys = match->keys + (size_t)at * match->depth_max;

    if (count > match->depth_max) {
        count = match->depth_max;
        match->prompt.whole = false;
    }
    token_media_chain(media, match->root, match->ids, count, grain, keys);
    match->prompt.groups[at] = (struct token_blocks){
        .grain = grain,
        .count = count,
        .keys = keys,
    };
}

/* What ids holds is the whole request, unless there was no room for more. */
static void
split_all(struct token_match *match, const struct mirror_view *view,
          uint64_t root, uint32_t count, const struct token_media *media)
{
    CHECK_SLOW(count <= match->ids_max);
    CHECK_SLOW(view->groups_count <= MIRROR_GROUPS_MAX);
    match->known = true;
    match->root = root;
    match->prompt = (struct token_prompt){
        .tokens = count,
        .whole = count < match->ids_max,
        .groups_count = view->groups_count,
    };
    for (uint32_t g = 0; g < view->groups_count; g++) {
        split_ids(match, media, view->groups[g].grain, g);
    }
}

void
token_match_take(struct token_match *match, const struct mirror_view *view,
                 uint64_t root, const struct token_text *prompt)
{
    uint32_t count =
        prompt->count < match->ids_max ? prompt->count : match->ids_max;

    if (count != 0) {
        memcpy(match->ids, prompt->tokens, count * sizeof(*prompt->tokens));
    }
    split_all(match, view, root, count, prompt->media);
}

void
token_match_read_ids(struct token_match *match, const struct mirror_view *view,
                     uint64_t root, const char *body, const struct scan *scan)
{
    for (uint32_t i = 0; i < scan->spans_count; i++) {
        const struct scan_span *span = &scan->spans[i];
        if (span->kind == SCAN_IDS) {
            split_all(match, view, root,
                      read_ids(match, body + span->at, span->len), NULL);
            return;
        }
    }
}

void
token_match_set(struct token_match *match, uint64_t root,
                const struct token_prompt *prompt)
{
    CHECK(prompt->groups_count <= MIRROR_GROUPS_MAX);
    match->known = true;
    match->root = root;
    match->prompt = *prompt;
}

const struct token_blocks *
token_match_blocks(const struct token_match *match, uint32_t grain)
{
    for (uint32_t i = 0; i < match->prompt.groups_count; i++) {
        if (match->prompt.groups[i].grain == grain) {
            return &match->prompt.groups[i];
        }
    }
    return NULL;
}

/* The worth of the mirror's blocks, in thousandths of one in the device. */
static uint64_t
score_of(struct token_match *match, const struct token_match_world *world,
         const struct token_blocks *blocks, uint32_t slot, uint32_t depth,
         enum tier *worst)
{
    *worst = TIER_DEVICE;
    if (!worker_set_has(&match->tiered, slot)) {
        return (uint64_t)depth * 1000;
    }
    if (depth > match->walk_left) {
        *worst = TIER_HOST;
        return (uint64_t)depth * world->weights.permille[TIER_HOST];
    }
    match->walk_left -= depth;
    return mirror_score(world->mirror, slot, blocks->keys, depth,
                        &world->weights, worst);
}

/* Blocks that the mirror promises. */
static uint32_t
held_by(const struct token_match *match, uint32_t slot)
{
    return worker_set_has(&match->mirrored.slots, slot)
               ? match->mirrored.depth[slot]
               : 0;
}

/*
 * Continues where the mirror ends with the expected blocks: all slots of one
 * depth at a time, because there are few depths.
 */
static void
add_expected(struct token_match *match, const struct token_match_world *world,
             const struct token_blocks *blocks, const struct worker_set *slots)
{
    struct worker_set left = *slots;

    for (uint32_t first = worker_set_next(&left, 0); first != WORKER_NONE;
         first = worker_set_next(&left, first)) {
        struct worker_set alike;
        uint32_t from = held_by(match, first);
        worker_set_clear(&alike);
        WORKER_SET_EACH (slot, &left) {
            if (held_by(match, slot) == from) {
                worker_set_add(&alike, slot);
                match->depth[slot] = from;
            }
        }
        mirror_match(world->expected, &alike, blocks->keys + from,
                     blocks->count - from, &match->expected);
        WORKER_SET_EACH (slot, &match->expected.slots) {
            match->depth[slot] += match->expected.depth[slot];
        }
        left = worker_set_minus(&left, &alike);
    }
}

/* The most blocks that can be cached of the prompt. */
static uint32_t
usable_blocks(const struct token_match *match,
              const struct token_blocks *blocks)
{
    uint32_t usable = match->prompt.whole
                          ? shape_usable(blocks->grain, match->prompt.tokens) /
                                shape_tokens(blocks->grain)
                          : blocks->count;

    return usable < blocks->count ? usable : blocks->count;
}

/* The name by which a block is expected to end a prompt (expectations.h). */
static uint64_t
end_at(const struct token_blocks *blocks, uint32_t depth)
{
    CHECK_SLOW(depth > 0 && depth <= blocks->count);
    return key_in_window(blocks->keys[depth - 1], 0);
}

uint64_t
token_match_end(const struct token_match *match,
                const struct token_match_rank *rank)
{
    const struct token_blocks *blocks = token_match_blocks(match, rank->grain);

    if (!worker_set_has(&match->limited, rank->slot) || blocks == NULL ||
        !match->prompt.whole) {
        return 0;
    }
    uint32_t usable = usable_blocks(match, blocks);
    return usable > match->stored[rank->slot] ? end_at(blocks, usable) : 0;
}

/* The most that a prompt on its way to the slot, and ours, have in common up to
 * that one's end; as much as windows serve now when there is none. */
static uint32_t
expected_end(struct token_match *match, const struct token_match_world *world,
             const struct token_blocks *blocks, uint32_t slot, uint32_t usable)
{
    uint32_t depth = match->depth[slot] < usable ? match->depth[slot] : usable;
    uint32_t steps = 0;
    struct worker_set one;

    worker_set_clear(&one);
    worker_set_add(&one, slot);
    for (; depth > match->stored[slot] && steps < ENDS_MAX; depth--, steps++) {
        uint64_t key = end_at(blocks, depth);
        mirror_match(world->expected, &one, &key, 1, &match->expected);
        if (match->expected.best != 0) {
            return depth;
        }
    }
    return held_by(match, slot);
}

/*
 * Lowers what the mirror promises of slots to what sliding windows serve: all
 * slots of one shape at a time, because there are few shapes.
 *
 * An engine keeps windows where a prompt ends. So what is on its way counts up
 * to where a prompt on its way ends, as long as events have not told of that
 * end's block; then they have told of its windows, too.
 */
static void
limit_to_windows(struct token_match *match,
                 const struct token_match_world *world,
                 const struct token_blocks *blocks, struct worker_set left)
{
    uint32_t usable = usable_blocks(match, blocks);

    match->limited = worker_set_or(&match->limited, &left);
    for (uint32_t first = worker_set_next(&left, 0); first != WORKER_NONE;
         first = worker_set_next(&left, first)) {
        uint32_t shape = world->view->shape[first];
        struct worker_set alike;
        worker_set_clear(&alike);
        WORKER_SET_EACH (slot, &left) {
            if (world->view->shape[slot] == shape) {
                worker_set_add(&alike, slot);
                match->stored[slot] = held_by(match, slot);
            }
        }
        mirror_match_windows(world->mirror, &alike, blocks->keys, shape, usable,
                             &match->mirrored);
        WORKER_SET_EACH (slot, &alike) {
            match->depth[slot] =
                expected_end(match, world, blocks, slot, usable);
        }
        left = worker_set_minus(&left, &alike);
    }
}

/* Slots whose tree of decisions says what is left when the request's turn comes:
 * their workers have prompts waiting, the trees are full, and what the device
 * pushes out is in no other tier. */
static struct worker_set
doubtful(const struct token_match *match, const struct token_match_world *world,
         const struct worker_set *slots)
{
    struct worker_set doubted;

    worker_set_clear(&doubted);
    if (world->decided == NULL || worker_set_empty(&match->waiting)) {
        return doubted;
    }
    WORKER_SET_EACH (slot, slots) {
        if (worker_set_has(&match->waiting, world->view->owner[slot]) &&
            !worker_set_has(&match->tiered, slot) &&
            decided_counts(world->decided, slot)) {
            worker_set_add(&doubted, slot);
        }
    }
    return doubted;
}

static void
look_ahead(struct token_match *match, const struct token_match_world *world,
           const struct token_blocks *blocks, const struct worker_set *slots)
{
    match->doubted = doubtful(match, world, slots);
    if (worker_set_empty(&match->doubted)) {
        return;
    }
    match->order_count =
        decided_keys(blocks->keys, blocks->count, shape_tokens(blocks->grain),
                     match->order_keys);
    CHECK_SLOW(match->order_count <= match->depth_max);
    radix_match(decided_tree(world->decided), DECIDED_ROOT, match->order_keys,
                match->order_count, &match->order);
}

/*
 * Where prompts wait, no more counts than what the decisions before this one
 * leave at the slot. What it lacks now counts as lacking, even where one of them
 * would bring it: the order knows neither answers nor which of its prompts are
 * computed by now, and believing it promised what was long gone.
 */
static void
look_ahead_at(const struct token_match *match,
              const struct token_blocks *blocks, uint32_t slot,
              struct token_match_rank *rank)
{
    uint32_t kept = worker_set_has(&match->order.workers, slot)
                        ? match->order.depth[slot]
                        : 0;
    uint64_t tokens = (uint64_t)kept *
                      decided_stride(shape_tokens(blocks->grain)) *
                      shape_tokens(blocks->grain);

    CHECK_SLOW(worker_set_has(&match->doubted, slot));
    if (rank->worth > tokens && kept < match->order_count) {
        rank->worth = (uint32_t)tokens;
    }
}

/* Blocks on their way count as in the device: that is where they go. */
static uint32_t
worth_of(struct token_match *match, const struct token_match_world *world,
         const struct token_blocks *blocks, uint32_t slot,
         struct token_match_rank *rank)
{
    uint32_t held = held_by(match, slot);
    uint32_t depth = match->depth[slot];
    enum tier worst;
    CHECK(depth >= held && depth <= blocks->count);
    uint64_t score = score_of(match, world, blocks, slot, held, &worst) +
                     (uint64_t)(depth - held) * 1000;

    rank->held = held;
    rank->tier = (uint8_t)worst;
    rank->tokens = depth * shape_tokens(blocks->grain);
    uint64_t worth = score * shape_tokens(blocks->grain) *
                     world->view->trust_permille[slot] / 1000000;
    return (uint32_t)worth;
}

/* Without the last block, which the engine computes again. */
static void
leave_last_out(struct token_match_rank *rank)
{
    uint32_t block = shape_tokens(rank->grain);

    rank->tokens -= rank->tokens < block ? rank->tokens : block;
    rank->worth -= rank->worth < block ? rank->worth : block;
}

static void
offer(struct token_match *match, const struct token_match_world *world,
      const struct token_blocks *blocks, uint32_t slot)
{
    uint32_t owner = world->view->owner[slot];
    struct token_match_rank *best = &match->best[owner];
    struct token_match_rank rank = {
        .grain = blocks->grain,
        .slot = (uint16_t)slot,
        .rank = world->view->rank[slot],
    };
    uint32_t usable = UINT32_MAX;

    CHECK_SLOW(owner < WORKERS_MAX && shape_tokens(blocks->grain) != 0);
    CHECK_SLOW(world->view->trust_permille[slot] <= 1000);
    rank.worth = worth_of(match, world, blocks, slot, &rank);
    if (match->prompt.whole) {
        usable = shape_usable(blocks->grain,
                              match->prompt.tokens + MUTANT(LAST_TOKEN));
    }
    if (match->cold || world->view->trust_permille[slot] == 0) {
        usable = 0; /* not even what is on its way there: it was cleared */
    }
    /* What is predicted is what it holds now. */
    rank.tokens = rank.tokens < usable ? rank.tokens : usable;
    if (worker_set_has(&match->doubted, slot)) {
        look_ahead_at(match, blocks, slot, &rank);
    }
    rank.worth = rank.worth < usable ? rank.worth : usable;
    if (worker_set_has(&world->view->recomputing, slot)) {
        leave_last_out(&rank);
    }
    worker_set_add(&match->slots, slot);
    match->rank[slot] = rank;
    if (!worker_set_has(&match->workers, owner) || rank.worth > best->worth) {
        worker_set_add(&match->workers, owner);
        *best = rank;
    }
}

static void
match_group(struct token_match *match, const struct token_match_world *world,
            const struct mirror_group *group, const struct worker_set *asked)
{
    const struct token_blocks *blocks = token_match_blocks(match, group->grain);

    if (blocks == NULL) {
        return; /* tokenised before this grain was known */
    }
    mirror_match(world->mirror, &group->slots, blocks->keys, blocks->count,
                 &match->mirrored);
    add_expected(match, world, blocks, &group->slots);
    struct worker_set windowed =
        worker_set_and(&group->slots, &world->view->windowed);
    if (!worker_set_empty(&windowed)) {
        limit_to_windows(match, world, blocks, windowed);
    }
    look_ahead(match, world, blocks, &group->slots);
    WORKER_SET_EACH (slot, &group->slots) {
        if (worker_set_has(asked, world->view->owner[slot])) {
            offer(match, world, blocks, slot);
        }
    }
}

void
token_match_find(struct token_match *match,
                 const struct token_match_world *world,
                 const struct worker_set *asked)
{
    CHECK(match->known);
    worker_set_clear(&match->workers);
    worker_set_clear(&match->slots);
    worker_set_clear(&match->limited);
    match->tiered = mirror_tiered(world->mirror);
    match->walk_left = TOKEN_MATCH_WALK_MAX;
    CHECK_SLOW(world->view->groups_count <= MIRROR_GROUPS_MAX);
    for (uint32_t i = 0; i < world->view->groups_count; i++) {
        match_group(match, world, &world->view->groups[i], asked);
    }
}
