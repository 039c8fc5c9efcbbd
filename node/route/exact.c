#include "node/route/exact_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/mutant.h"

int
exact_init(struct exact *exact, uint32_t depth_max)
{
    *exact = (struct exact){
        .depth_max = depth_max,
        .ids_max = depth_max * EXACT_IDS_PER,
    };
    exact->ids = calloc(exact->ids_max, sizeof(*exact->ids));
    exact->keys =
        calloc((size_t)depth_max * MIRROR_GROUPS_MAX, sizeof(*exact->keys));
    if (exact->ids == NULL || exact->keys == NULL) {
        exact_fini(exact);
        return -ENOMEM;
    }
    return 0;
}

void
exact_fini(struct exact *exact)
{
    free(exact->ids);
    free(exact->keys);
    exact->ids = NULL;
    exact->keys = NULL;
}

void
exact_forget(struct exact *exact)
{
    exact->looked = false;
    exact->known = false;
    exact->prompt.groups_count = 0;
}

/* [1, 22, 333], which the scanner has found to be plain digits. Numbers over
 * 32 bits are no token ids: the engine will refuse them. */
static uint32_t
read_ids(struct exact *exact, const char *raw, size_t len)
{
    uint32_t count = 0;
    uint32_t id = 0;
    bool open = false;

    for (size_t i = 0; i < len && count < exact->ids_max; i++) {
        if (raw[i] >= '0' && raw[i] <= '9') {
            id = id * 10 + (uint32_t)(raw[i] - '0');
            open = true;
        } else if (open) {
            exact->ids[count++] = id;
            id = 0;
            open = false;
        }
    }
    return count;
}

/* Keys of the full blocks of the ids that were read. */
static void
cut_ids(struct exact *exact, uint32_t block_tokens, uint32_t at)
{
    uint32_t count = exact->prompt.tokens / block_tokens;
    uint64_t *keys = exact->keys + (size_t)at * exact->depth_max;

    if (count > exact->depth_max) {
        count = exact->depth_max;
        exact->prompt.whole = false;
    }
    (void)key_chain(exact->root, exact->ids, count,
                    block_tokens * sizeof(*exact->ids), keys);
    exact->prompt.groups[at] = (struct token_blocks){
        .block_tokens = block_tokens,
        .count = count,
        .keys = keys,
    };
}

/* What ids holds is the whole request, unless there was no room for more. */
static void
cut_all(struct exact *exact, const struct mirror_view *view, uint64_t root,
        uint32_t count)
{
    exact->known = true;
    exact->root = root;
    exact->prompt = (struct token_prompt){
        .tokens = count,
        .whole = count < exact->ids_max,
        .groups_count = view->groups_count,
    };
    for (uint32_t g = 0; g < view->groups_count; g++) {
        cut_ids(exact, view->groups[g].block_tokens, g);
    }
}

void
exact_take(struct exact *exact, const struct mirror_view *view, uint64_t root,
           const uint32_t *tokens, uint32_t count)
{
    count = count < exact->ids_max ? count : exact->ids_max;
    if (count != 0) {
        memcpy(exact->ids, tokens, count * sizeof(*tokens));
    }
    cut_all(exact, view, root, count);
}

void
exact_read_ids(struct exact *exact, const struct mirror_view *view,
               uint64_t root, const char *body, const struct scan *scan)
{
    for (uint32_t i = 0; i < scan->spans_count; i++) {
        const struct scan_span *span = &scan->spans[i];
        if (span->kind == SCAN_IDS) {
            cut_all(exact, view, root,
                    read_ids(exact, body + span->at, span->len));
            return;
        }
    }
}

void
exact_set(struct exact *exact, uint64_t root, const struct token_prompt *prompt)
{
    exact->known = true;
    exact->root = root;
    exact->prompt = *prompt;
}

const struct token_blocks *
exact_blocks(const struct exact *exact, uint32_t block_tokens)
{
    for (uint32_t i = 0; i < exact->prompt.groups_count; i++) {
        if (exact->prompt.groups[i].block_tokens == block_tokens) {
            return &exact->prompt.groups[i];
        }
    }
    return NULL;
}

/* What the mirror's blocks are worth, in thousandths of one in the device. */
static uint64_t
score_of(struct exact *exact, const struct exact_world *world,
         const struct token_blocks *blocks, uint32_t slot, uint32_t depth,
         enum tier *worst)
{
    *worst = TIER_DEVICE;
    if (!worker_set_has(&exact->tiered, slot)) {
        return (uint64_t)depth * 1000;
    }
    if (depth > exact->walk_left) {
        *worst = TIER_HOST;
        return (uint64_t)depth * world->weights.permille[TIER_HOST];
    }
    exact->walk_left -= depth;
    return mirror_score(world->mirror, slot, blocks->keys, depth,
                        &world->weights, worst);
}

/* Blocks that the mirror promises. */
static uint32_t
held_by(const struct exact *exact, uint32_t slot)
{
    return worker_set_has(&exact->mirrored.slots, slot)
               ? exact->mirrored.depth[slot]
               : 0;
}

/*
 * Goes on from where the mirror ends with what is on its way: all slots of one
 * depth at a time, of which there are few.
 */
static void
add_expected(struct exact *exact, const struct exact_world *world,
             const struct token_blocks *blocks, const struct worker_set *slots)
{
    struct worker_set left = *slots;

    for (uint32_t first = worker_set_next(&left, 0); first != WORKER_NONE;
         first = worker_set_next(&left, first)) {
        struct worker_set alike;
        uint32_t from = held_by(exact, first);
        worker_set_clear(&alike);
        WORKER_SET_EACH (slot, &left) {
            if (held_by(exact, slot) == from) {
                worker_set_add(&alike, slot);
                exact->depth[slot] = from;
            }
        }
        mirror_match(world->expected, &alike, blocks->keys + from,
                     blocks->count - from, &exact->expected);
        WORKER_SET_EACH (slot, &exact->expected.slots) {
            exact->depth[slot] += exact->expected.depth[slot];
        }
        left = worker_set_minus(&left, &alike);
    }
}

/* Blocks on their way count as in the device: that is where they go. */
static uint32_t
worth_of(struct exact *exact, const struct exact_world *world,
         const struct token_blocks *blocks, uint32_t slot,
         struct exact_rank *rank)
{
    uint32_t held = held_by(exact, slot);
    uint32_t depth = exact->depth[slot];
    enum tier worst;
    uint64_t score = score_of(exact, world, blocks, slot, held, &worst) +
                     (uint64_t)(depth - held) * 1000;

    rank->held = held;
    rank->tier = (uint8_t)worst;
    rank->tokens = depth * blocks->block_tokens;
    uint64_t worth = score * blocks->block_tokens *
                     world->view->trust_permille[slot] / 1000000;
    return (uint32_t)worth;
}

static void
offer(struct exact *exact, const struct exact_world *world,
      const struct token_blocks *blocks, uint32_t slot)
{
    uint32_t owner = world->view->owner[slot];
    struct exact_rank *best = &exact->best[owner];
    struct exact_rank rank = {
        .block_tokens = blocks->block_tokens,
        .slot = (uint16_t)slot,
        .rank = world->view->rank[slot],
    };
    uint32_t usable = UINT32_MAX;

    rank.worth = worth_of(exact, world, blocks, slot, &rank);
    if (exact->prompt.whole) {
        usable = exact_usable(exact->prompt.tokens + MUTANT(LAST_TOKEN),
                              blocks->block_tokens);
    }
    rank.tokens = rank.tokens < usable ? rank.tokens : usable;
    rank.worth = rank.worth < usable ? rank.worth : usable;
    worker_set_add(&exact->slots, slot);
    exact->rank[slot] = rank;
    if (!worker_set_has(&exact->workers, owner) || rank.worth > best->worth) {
        worker_set_add(&exact->workers, owner);
        *best = rank;
    }
}

static void
match_group(struct exact *exact, const struct exact_world *world,
            const struct mirror_group *group, const struct worker_set *asked)
{
    const struct token_blocks *blocks =
        exact_blocks(exact, group->block_tokens);

    if (blocks == NULL) {
        return; /* tokenised before this size was known */
    }
    mirror_match(world->mirror, &group->slots, blocks->keys, blocks->count,
                 &exact->mirrored);
    add_expected(exact, world, blocks, &group->slots);
    WORKER_SET_EACH (slot, &group->slots) {
        if (worker_set_has(asked, world->view->owner[slot])) {
            offer(exact, world, blocks, slot);
        }
    }
}

void
exact_match(struct exact *exact, const struct exact_world *world,
            const struct worker_set *asked)
{
    CHECK(exact->known);
    worker_set_clear(&exact->workers);
    worker_set_clear(&exact->slots);
    exact->tiered = mirror_tiered(world->mirror);
    exact->walk_left = EXACT_WALK_MAX;
    for (uint32_t i = 0; i < world->view->groups_count; i++) {
        match_group(exact, world, &world->view->groups[i], asked);
    }
}
