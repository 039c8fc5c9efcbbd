/*
 * Values of msgpack found whole before msgpack-c sees them: it allocates
 * whatever a count claims.
 */
#ifndef TESTS_FUZZ_KV_WALK_H
#define TESTS_FUZZ_KV_WALK_H

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

#include "index/base/slice.h"

/* Bytes of a head by its lead byte, and what follows: bytes or items. */
struct kv_walk_head {
    size_t size;
    uint64_t bytes;
    uint64_t items;
    bool is_array;
    bool is_map;
};

/* n bytes, big endian. */
uint64_t kv_walk_number(const uint8_t *at, size_t n);

/* False: cut short, or the byte 0xc1. */
bool kv_walk_head(const uint8_t *at, const uint8_t *end,
                  struct kv_walk_head *head);

/* Behind the value at `at`, or NULL; *deepest: the level of the innermost
 * container, where that of the value is `level`. */
const uint8_t *kv_walk(const uint8_t *at, const uint8_t *end, unsigned level,
                       unsigned *deepest);

const uint8_t *kv_walk_behind(const uint8_t *at, const uint8_t *end);

/* The tree of a value that was walked; to be destroyed in any case. False: too
 * deep for msgpack-c. */
bool kv_walk_parse(const uint8_t *at, const uint8_t *next,
                   msgpack_unpacked *tree);

struct slice kv_walk_text(const msgpack_object *o);
bool kv_walk_is_text(const msgpack_object *o, const char *want);

/* Of so many elements at most. */
bool kv_walk_is_array(const msgpack_object *o, uint32_t max);

#endif
