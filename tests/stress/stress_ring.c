/* One producer, one consumer: every record arrives once, whole, in order. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "index/base/ring.h"
#include "index/base/rng.h"

#define RECORDS 200000

static struct ring ring;

static void *
produce(void *arg)
{
    struct rng rng;

    (void)arg;
    rng_init(&rng, 11);
    for (uint64_t i = 0; i < RECORDS; i++) {
        size_t words = 1 + (size_t)rng_below(&rng, 40);
        uint64_t *at;
        /* Without the yield, one core spends its whole slice in this loop. */
        while ((at = ring_reserve(&ring, words * 8)) == NULL) {
            sched_yield();
        }
        for (size_t w = 0; w < words; w++) {
            at[w] = i + w;
        }
        ring_commit(&ring);
    }
    return NULL;
}

int
main(void)
{
    pthread_t producer;
    struct rng rng;

    rng_init(&rng, 11);
    CHECK(ring_init(&ring, 8192) == 0);
    CHECK(pthread_create(&producer, NULL, produce, NULL) == 0);
    for (uint64_t i = 0; i < RECORDS; i++) {
        size_t words = 1 + (size_t)rng_below(&rng, 40);
        size_t size;
        const uint64_t *at;
        while ((at = ring_peek(&ring, &size)) == NULL) {
            sched_yield();
        }
        CHECK(size == words * 8);
        for (size_t w = 0; w < words; w++) {
            CHECK(at[w] == i + w);
        }
        ring_consume(&ring);
    }
    CHECK(pthread_join(producer, NULL) == 0);
    ring_fini(&ring);
    printf("stress_ring: %d records\n", RECORDS);
    return 0;
}
