/* The block pool: a free list in order of eviction, and a table of keys. */
#include "chaos/engine/engine_blocks_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"

#define NONE UINT32_MAX

/* Four buckets and more for each block, so that few blocks are looked at that
 * have another key: each is a cache miss. */
#define SPARSE_BITS 2U

static uint32_t
bucket_of(const struct engine_blocks *pool, uint64_t key)
{
    return (uint32_t)(rng_mix(key) >> pool->bucket_shift);
}

void
engine_blocks_fetch(const struct engine_blocks *pool, uint64_t key)
{
    __builtin_prefetch(&pool->buckets[bucket_of(pool, key)]);
}

static uint32_t
find_leader(const struct engine_blocks *pool, uint64_t key)
{
    uint32_t slot = pool->buckets[bucket_of(pool, key)];

    while (slot != NONE && pool->blocks[slot].key != key) {
        slot = pool->blocks[slot].chain;
    }
    return slot;
}

/* The free list is a ring through the anchor, which is block number count. */
static void
free_unlink(struct engine_blocks *pool, uint32_t slot)
{
    struct engine_block *b = &pool->blocks[slot];

    CHECK(pool->free_count > 0 && slot < pool->count);
    pool->blocks[b->prev].next = b->next;
    pool->blocks[b->next].prev = b->prev;
    pool->free_count--;
    CHECK(pool->blocks[pool->count].next != slot);
}

static void
free_insert_before(struct engine_blocks *pool, uint32_t slot, uint32_t next)
{
    uint32_t prev = pool->blocks[next].prev;

    CHECK(slot < pool->count && next <= pool->count);
    pool->blocks[slot].prev = prev;
    pool->blocks[slot].next = next;
    pool->blocks[prev].next = slot;
    pool->blocks[next].prev = slot;
    pool->free_count++;
    CHECK(pool->free_count <= pool->count);
}

int
engine_blocks_init(struct engine_blocks *pool, uint32_t count)
{
    uint32_t bits = 1 + SPARSE_BITS;

    CHECK(count > 0 && count <= ENGINE_BLOCKS_MAX);
    while ((UINT64_C(1) << (bits - SPARSE_BITS)) < count) {
        bits++;
    }
    *pool = (struct engine_blocks){.count = count, .bucket_shift = 64 - bits};
    size_t bytes = ((size_t)count + 2) / 2 * 2 * sizeof(*pool->blocks);
    pool->blocks = aligned_alloc(2 * sizeof(*pool->blocks), bytes);
    pool->more = calloc(count, sizeof(*pool->more));
    pool->buckets = malloc(sizeof(*pool->buckets) << bits);
    if (pool->blocks == NULL || pool->more == NULL || pool->buckets == NULL) {
        engine_blocks_fini(pool);
        return -ENOMEM;
    }
    memset(pool->blocks, 0, bytes);
    for (size_t i = 0; i < (size_t)1 << bits; i++) {
        pool->buckets[i] = NONE;
    }
    pool->blocks[count] = (struct engine_block){.prev = count, .next = count};
    for (uint32_t slot = 0; slot < count; slot++) {
        free_insert_before(pool, slot, count);
    }
    CHECK(pool->free_count == count);
    return 0;
}

void
engine_blocks_fini(struct engine_blocks *pool)
{
    free(pool->blocks);
    free(pool->more);
    free(pool->buckets);
    *pool = (struct engine_blocks){.blocks = NULL};
}

uint32_t
engine_blocks_match(const struct engine_blocks *pool, const uint64_t *keys,
                    uint32_t count, uint32_t *free_count)
{
    uint32_t matched = 0;

    *free_count = 0;
    for (; matched < count; matched++) {
        uint32_t slot = find_leader(pool, keys[matched]);
        if (slot == NONE) {
            break;
        }
        *free_count += pool->blocks[slot].refs == 0;
    }
    CHECK(*free_count <= matched);
    return matched;
}

void
engine_blocks_hold(struct engine_blocks *pool, const uint64_t *keys,
                   uint32_t count, uint32_t *held)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = find_leader(pool, keys[i]);
        CHECK(slot != NONE);
        if (pool->blocks[slot].refs++ == 0) {
            free_unlink(pool, slot);
        }
        held[i] = slot;
    }
}

/* Puts `to` (or, when NONE, what follows) where leader `from` stands. */
static void
replace_leader(struct engine_blocks *pool, uint32_t from, uint32_t to)
{
    struct engine_block *b = &pool->blocks[from];
    uint32_t *link = &pool->buckets[bucket_of(pool, b->key)];

    while (*link != from) {
        CHECK(*link != NONE);
        link = &pool->blocks[*link].chain;
    }
    *link = b->chain;
    if (to != NONE) {
        pool->blocks[to].chain = b->chain;
        pool->blocks[to].leader = true;
        *link = to;
    }
    b->leader = false;
}

static void
forget(struct engine_blocks *pool, uint32_t slot)
{
    struct engine_block *b = &pool->blocks[slot];
    uint32_t heir = b->twin_next != slot ? b->twin_next : NONE;

    CHECK(b->cached);
    if (b->leader) {
        replace_leader(pool, slot, heir);
    }
    pool->blocks[b->twin_prev].twin_next = b->twin_next;
    pool->blocks[b->twin_next].twin_prev = b->twin_prev;
    b->cached = false;
    CHECK(pool->cached_count > 0);
    pool->cached_count--;
}

/* The next two at the front are taken soon: the second's bucket and the third
 * block are fetched, so that each is there two takes later. */
static void
fetch_front(const struct engine_blocks *pool, uint32_t front)
{
    const struct engine_block *second = &pool->blocks[pool->blocks[front].next];

    engine_blocks_fetch(pool, second->key);
    __builtin_prefetch(&pool->blocks[second->next], 1);
}

bool
engine_blocks_take(struct engine_blocks *pool, uint32_t *slot,
                   uint64_t *evicted)
{
    uint32_t front = pool->blocks[pool->count].next;
    struct engine_block *b = &pool->blocks[front];

    CHECK(front != pool->count && b->refs == 0);
    free_unlink(pool, front);
    b->refs = 1;
    *slot = front;
    if (!b->cached) {
        return false;
    }
    *evicted = b->key;
    fetch_front(pool, pool->blocks[pool->count].next);
    forget(pool, front);
    CHECK(!b->cached && !b->leader);
    return true;
}

void
engine_blocks_name(struct engine_blocks *pool, uint32_t slot, uint64_t key)
{
    struct engine_block *b = &pool->blocks[slot];
    uint32_t elder = find_leader(pool, key);

    CHECK(slot < pool->count && b->refs > 0 && !b->cached);
    b->key = key;
    b->cached = true;
    b->windowed = false;
    pool->cached_count++;
    if (elder == NONE) {
        uint32_t *bucket = &pool->buckets[bucket_of(pool, key)];
        b->leader = true;
        b->twin_prev = slot;
        b->twin_next = slot;
        b->chain = *bucket;
        *bucket = slot;
        return;
    }
    uint32_t youngest = pool->blocks[elder].twin_prev;
    b->leader = false;
    b->twin_prev = youngest;
    b->twin_next = elder;
    pool->blocks[youngest].twin_next = slot;
    pool->blocks[elder].twin_prev = slot;
    CHECK(pool->cached_count <= pool->count && b->cached);
}

bool
engine_blocks_join(struct engine_blocks *pool, uint32_t *slot, uint64_t key)
{
    uint32_t own = *slot;

    if (find_leader(pool, key) == NONE) {
        engine_blocks_name(pool, own, key);
        pool->more[own].node = pool->node_last;
        return true;
    }
    engine_blocks_hold(pool, &key, 1, slot);
    engine_blocks_release(pool, &own, 1);
    CHECK(*slot != own);
    return false;
}

void
engine_blocks_split(struct engine_blocks *pool, const uint32_t *slots,
                    uint32_t count)
{
    pool->node_last++;
    if (count == 0) {
        return;
    }
    uint32_t node = pool->more[slots[count - 1]].node;
    for (uint32_t i = count; i > 0 && pool->more[slots[i - 1]].node == node;
         i--) {
        CHECK(pool->blocks[slots[i - 1]].refs > 0);
        pool->more[slots[i - 1]].node = pool->node_last;
    }
}

bool
engine_blocks_evict_mate(struct engine_blocks *pool, uint32_t slot,
                         uint32_t *last, uint64_t *evicted)
{
    uint32_t from = *last == slot ? pool->count : *last;
    uint32_t mate = pool->blocks[from].next;
    struct engine_block *b = &pool->blocks[mate];

    CHECK(slot < pool->count && *last < pool->count);
    if (mate == pool->count || !b->cached ||
        pool->more[mate].node != pool->more[slot].node) {
        return false;
    }
    *evicted = b->key;
    *last = mate;
    forget(pool, mate);
    return true;
}

void
engine_blocks_release(struct engine_blocks *pool, const uint32_t *slots,
                      uint32_t count)
{
    uint32_t anchor = pool->count;

    for (uint32_t i = count; i-- > 0;) {
        struct engine_block *b = &pool->blocks[slots[i]];
        CHECK(slots[i] < pool->count && b->refs > 0);
        if (--b->refs == 0) {
            uint32_t front = pool->blocks[anchor].next;
            free_insert_before(pool, slots[i], b->cached ? anchor : front);
        }
    }
}

bool
engine_blocks_clear(struct engine_blocks *pool)
{
    if (pool->free_count != pool->count) {
        return false;
    }
    for (uint32_t slot = 0; slot < pool->count; slot++) {
        if (pool->blocks[slot].cached) {
            forget(pool, slot);
        }
    }
    CHECK(pool->cached_count == 0);
    return true;
}

static const char *
check_free_list(const struct engine_blocks *pool)
{
    uint32_t seen = 0;
    uint32_t at = pool->blocks[pool->count].next;

    for (; at != pool->count && seen <= pool->count; seen++) {
        const struct engine_block *b = &pool->blocks[at];
        if (b->refs != 0) {
            return "a held block is on the free list";
        }
        if (pool->blocks[b->next].prev != at) {
            return "the free list's links disagree";
        }
        at = b->next;
    }
    return seen == pool->free_count ? NULL : "free_count is wrong";
}

static const char *
check_block(const struct engine_blocks *pool, uint32_t slot)
{
    const struct engine_block *b = &pool->blocks[slot];
    uint32_t leader = b->cached ? find_leader(pool, b->key) : NONE;

    if (!b->cached) {
        return b->leader ? "a block without a key leads" : NULL;
    }
    if (leader == NONE || !pool->blocks[leader].leader) {
        return "a key is not found";
    }
    if (b->leader != (leader == slot)) {
        return "a key has two leaders";
    }
    if (pool->blocks[b->twin_next].key != b->key ||
        !pool->blocks[b->twin_next].cached ||
        pool->blocks[b->twin_next].twin_prev != slot) {
        return "a ring of twins is broken";
    }
    return NULL;
}

bool
engine_blocks_check(const struct engine_blocks *pool, const char **reason)
{
    uint32_t held = 0;
    uint32_t cached = 0;

    *reason = check_free_list(pool);
    for (uint32_t slot = 0; slot < pool->count && *reason == NULL; slot++) {
        *reason = check_block(pool, slot);
        held += pool->blocks[slot].refs > 0;
        cached += pool->blocks[slot].cached;
    }
    if (*reason == NULL && held + pool->free_count != pool->count) {
        *reason = "a block is neither held nor free";
    }
    if (*reason == NULL && cached != pool->cached_count) {
        *reason = "cached_count is wrong";
    }
    return *reason == NULL;
}
