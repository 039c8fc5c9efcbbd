/* Rendezvous, a ring, and how much load a hash may bring. */
#include "node/elect/elect_hash_internal.h"

#include "index/base/check.h"
#include "node/elect/elect_sets_internal.h"

uint32_t
elect_hash_highest(const struct elect_input *input,
                   const struct worker_set *set)
{
    uint32_t best = WORKER_NONE;
    uint64_t best_weight = 0;

    CHECK(input->identity != NULL);
    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        for (uint64_t bits = set->word[i]; bits != 0; bits &= bits - 1) {
            uint32_t slot = i * 64 + (uint32_t)__builtin_ctzll(bits);
            uint64_t weight =
                rng_mix(input->prefix_key ^ input->identity[slot]);
            if (best == WORKER_NONE || weight > best_weight) {
                best = slot;
                best_weight = weight;
            }
        }
    }
    return best;
}

/* From the arc's beginning to the worker's place in it. */
static uint64_t
place_in(uint64_t identity, uint64_t arc, uint64_t width)
{
    CHECK_SLOW(arc < ELECT_RING_PLACES);
    return rng_mix(identity + arc) % width;
}

/* How far it is from a place on the ring to the next of the worker's. */
static uint64_t
next_place(uint64_t identity, uint64_t key)
{
    const uint64_t width = UINT64_MAX / ELECT_RING_PLACES;
    uint64_t at = key % (width * ELECT_RING_PLACES);
    uint64_t arc = at / width;
    uint64_t mine = place_in(identity, arc, width);

    CHECK_SLOW(arc < ELECT_RING_PLACES);
    if (mine >= at % width) {
        return mine - at % width;
    }
    uint64_t following = (arc + 1) % ELECT_RING_PLACES;
    return width - at % width + place_in(identity, following, width);
}

uint32_t
elect_hash_ring(const struct elect_input *input, const struct worker_set *set)
{
    uint32_t best = WORKER_NONE;
    uint64_t nearest = UINT64_MAX;

    CHECK(input->identity != NULL);
    WORKER_SET_EACH (slot, set) {
        uint64_t far = next_place(input->identity[slot], input->prefix_key);
        if (far < nearest) {
            best = slot;
            nearest = far;
        }
    }
    return best;
}

uint32_t
elect_hash_bound(const uint32_t *load, const struct worker_set *set)
{
    uint64_t sum = elect_sum_of(load, set) + 1;
    uint64_t count = worker_set_count(set);

    CHECK_SLOW(count > 0);
    uint64_t most = (sum * 5 + count * 4 - 1) / (count * 4) - 1;
    uint32_t least = elect_least_of(load, set); /* the sum has a cap */
    most = most > least ? most : least;
    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}
