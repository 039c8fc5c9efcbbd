/* A step of a real engine: a prompt, how much of it was cached, and what the
 * engine published thereupon. tests/engines/capture writes tables of them. */
#ifndef TESTS_UNIT_NODE_KV_CAPTURED_H
#define TESTS_UNIT_NODE_KV_CAPTURED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_CAPTURED_BATCHES 4
#define KV_CAPTURED_TOKENS  512
#define KV_CAPTURED_ITEMS   2

/* A prompt: two runs of ids that count up, {first, count}. */
struct kv_captured {
    uint32_t run[2][2];
    const char *adapter, *salt; /* NULL: none */
    uint32_t cached;            /* tokens, as the engine reported */
    bool after_reset;           /* its cache was emptied since the last step */
    const char *batches[KV_CAPTURED_BATCHES]; /* the third frames, as hex */
};

/* A conversation with pictures, as the engine's renderer tells of it. */
struct kv_captured_seen {
    uint32_t tokens[KV_CAPTURED_TOKENS];
    uint32_t count;
    struct {
        const char *name; /* the engine's, or the client's uuid */
        uint32_t at, len;
    } item[KV_CAPTURED_ITEMS];
    uint32_t items;
    const char *salt; /* NULL: none */
    uint32_t cached;
    const char *batches[KV_CAPTURED_BATCHES];
};

#endif
