/*
 * A small seeded generator (xoshiro256**, Blackman and Vigna 2018, seeded by
 * splitmix64). Not for secrets.
 *
 * Role: core. Owns: nothing. Thread: one owner per generator. Limits: none.
 * Errors: none.
 */
#ifndef INDEX_BASE_RNG_H
#define INDEX_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state[4];
};

/* The same seed gives the same sequence, on every machine. */
void rng_init(struct rng *rng, uint64_t seed);

/* 64 uniform bits. */
uint64_t rng_next(struct rng *rng);

/* Uniform in [0, bound); bound must not be 0. */
uint64_t rng_below(struct rng *rng, uint64_t bound);

/* Uniform in [0, 1), 53 bits of it. */
double rng_unit(struct rng *rng);

/* A fixed, invertible mix of 64 bits (splitmix64's finaliser). */
static inline uint64_t
rng_mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

#endif
