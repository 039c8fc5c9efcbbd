/*
 * Seeded pseudo-random numbers: xoshiro256**.
 */
#include "index/base/rng.h"

#include "index/base/check.h"

static uint64_t
rotate_left(uint64_t x, unsigned bits)
{
    CHECK_SLOW(bits > 0 && bits < 64);
    return (x << bits) | (x >> (64 - bits));
}

void
rng_init(struct rng *rng, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        rng->state[i] = rng_mix(seed + i * 0x9E3779B97F4A7C15U);
    }
}

uint64_t
rng_next(struct rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    CHECK_SLOW((s[0] | s[1] | s[2] | s[3]) != 0);
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t
rng_below(struct rng *rng, uint64_t bound)
{
    CHECK(bound != 0);
    /* Rejecting the short tail below 2^64 mod bound keeps it uniform. */
    uint64_t threshold = (0 - bound) % bound;
    uint64_t x = rng_next(rng);

    while (x < threshold) {
        x = rng_next(rng);
    }
    return x % bound;
}

double
rng_unit(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1.0p-53;
}
