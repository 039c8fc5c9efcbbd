/* Several threads at one gate: as many pass as the rate allows, and every
 * other try is told exactly once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/counter.h"
#include "index/base/gate.h"

#define THREADS  4
#define TRIES    100000
#define INTERVAL 1000
#define BURST    8

static struct gate gate;
static struct counter passed;
static struct counter told;

static void *
knock(void *unused)
{
    (void)unused;
    for (uint64_t now_us = 0; now_us < TRIES; now_us++) {
        uint64_t refused = 0;
        if (gate_pass(&gate, now_us, INTERVAL, BURST, &refused)) {
            counter_add(&passed, 1);
            counter_add(&told, refused);
        }
    }
    return NULL;
}

int
main(void)
{
    pthread_t threads[THREADS];
    uint64_t rest = 0;

    for (unsigned i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, knock, NULL) != 0) {
            return EXIT_FAILURE;
        }
    }
    for (unsigned i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)gate_pass(&gate, 10 * TRIES, INTERVAL, BURST, &rest);
    uint64_t sum = counter_read(&passed) + counter_read(&told) + rest;
    printf("gate: %llu passed, %llu of %d accounted for\n",
           (unsigned long long)counter_read(&passed), (unsigned long long)sum,
           THREADS * TRIES);
    return sum == (uint64_t)THREADS * TRIES &&
                   counter_read(&passed) <= TRIES / INTERVAL + BURST
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
}
