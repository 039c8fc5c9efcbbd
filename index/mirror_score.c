/*
 * What a slot's blocks are worth, by their tiers. Wait-free.
 */
#include "index/mirror_internal.h"

#define BATCH 32

struct worker_set
mirror_tiered(const struct mirror *mirror)
{
    struct worker_set set;

    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        set.word[i] =
            atomic_load_explicit(&mirror->tiered[i], memory_order_acquire);
    }
    return set;
}

/* The nearest tier a block is in. */
static enum tier
nearest(const struct mirror *mirror, uint32_t slot, uint64_t key)
{
    struct mirror_wanted wanted = mirror_wanted_tiers(key, slot);
    uint64_t hash = mirror_hash_tiers(key, slot);
    const char *handle =
        mirror_handle_get(mirror, MIRROR_TIERS, mirror_shard(hash));
    uint32_t word = WORD_EMPTY;

    CHECK_SLOW(slot < WORKERS_MAX);
    if (handle != NULL) {
        (void)mirror_find_from(mirror, handle, hash, &wanted, &word);
    }
    return word == WORD_EMPTY ? TIER_DEVICE
                              : (enum tier)__builtin_ctz(word >> WORD_SHIFT);
}

static void
fetch(const struct mirror *mirror, uint32_t slot, const uint64_t *keys,
      uint32_t count)
{
    CHECK_SLOW(count <= BATCH);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t hash = mirror_hash_tiers(keys[i], slot);
        const char *handle =
            mirror_handle_get(mirror, MIRROR_TIERS, mirror_shard(hash));
        if (handle != NULL) {
            __builtin_prefetch(mirror_line_at(mirror, handle, hash));
        }
    }
}

uint64_t
mirror_score(const struct mirror *mirror, uint32_t slot, const uint64_t *keys,
             uint32_t depth, const struct mirror_weights *weights,
             enum tier *worst)
{
    struct worker_set tiered = mirror_tiered(mirror);
    uint64_t score = 0;

    CHECK(slot < WORKERS_MAX);
    CHECK_SLOW(depth == 0 || keys != NULL);
    *worst = TIER_DEVICE;
    if (!worker_set_has(&tiered, slot)) {
        return (uint64_t)depth * weights->permille[TIER_DEVICE];
    }
    for (uint32_t done = 0; done < depth;) {
        uint32_t batch = depth - done < BATCH ? depth - done : BATCH;
        fetch(mirror, slot, keys + done, batch);
        for (uint32_t end = done + batch; done < end; done++) {
            enum tier tier = nearest(mirror, slot, keys[done]);
            score += weights->permille[tier];
            *worst = tier > *worst ? tier : *worst;
        }
    }
    return score;
}
