/* A step of a real engine: a prompt, how much of it was cached, and what the
 * engine published thereupon. tests/engines/capture writes tables of them. */
#ifndef TESTS_UNIT_NODE_KV_CAPTURED_H
#define TESTS_UNIT_NODE_KV_CAPTURED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_CAPTURED_BATCHES 4

/* A prompt: two runs of ids that count up, {first, count}. */
struct kv_captured {
    uint32_t run[2][2];
    uint32_t cached;  /* tokens, as the engine reported */
    bool after_reset; /* its cache was emptied since the last step */
    const char *batches[KV_CAPTURED_BATCHES]; /* the third frames, as hex */
};

#endif
