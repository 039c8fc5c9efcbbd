/*
 * Messages of one stream that arrived too early, by seq.
 *
 * The seq gives the slot in the table directly. So two messages KV_HELD_WINDOW
 * apart cannot both be held: the later one is refused, and so is one that
 * exceeds the bound in bytes; but one message can always be held. The table
 * exists only while a message is held.
 *
 * Role: core. Owns: copies of the messages. Thread: one owner. Limits:
 * KV_HELD_WINDOW, bytes_max. Errors: false means refused.
 */
#ifndef NODE_KV_HELD_INTERNAL_H
#define NODE_KV_HELD_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

/* More than the 10000 batches that engines keep for replay. */
#define KV_HELD_WINDOW 16384U

struct kv_message {
    uint64_t seq;
    uint64_t fingerprint; /* key_digest() of the payload */
    size_t len;
    char bytes[];
};

struct kv_held {
    struct kv_message **slots; /* KV_HELD_WINDOW, or NULL while count is 0 */
    uint32_t count;
    uint64_t low; /* with high: held seqs are from low to high; count 0: none */
    uint64_t high;
    size_t bytes; /* of all held messages, with their overhead */
    size_t bytes_max;
};

static inline struct slice
kv_message_payload(const struct kv_message *message)
{
    return (struct slice){.ptr = message->bytes, .len = message->len};
}

/* Nothing is held; bytes_max: of payloads, but one message always fits. */
void kv_held_init(struct kv_held *held, size_t bytes_max);

/* Forgets everything. */
void kv_held_clear(struct kv_held *held);

/* Keeps a copy. False: there is no room, or that place is taken. */
bool kv_held_put(struct kv_held *held, uint64_t seq, uint64_t fingerprint,
                 struct slice payload) MUST_CHECK;

/* The held message of that seq, or NULL; valid until the next call. */
const struct kv_message *kv_held_find(const struct kv_held *held, uint64_t seq);

/* The same, and the caller frees it. */
struct kv_message *kv_held_take(struct kv_held *held, uint64_t seq);

/* The lowest held seq; UINT64_MAX when nothing is held. */
uint64_t kv_held_lowest(const struct kv_held *held);

/* Drops the messages below seq. */
void kv_held_drop_below(struct kv_held *held, uint64_t seq);

/* Verifies counts and order. False: *reason (static text) says what is
 * wrong. */
bool kv_held_check(const struct kv_held *held, const char **reason);

#endif
