/* Live batches that wait for a replay to reach them, under one bound. */
#include "node/events/kv_held_internal.h"

#include <stdlib.h>

static size_t
cost(size_t len)
{
    return sizeof(struct kv_message) + len;
}

static size_t
place(uint64_t seq)
{
    return (size_t)(seq % KV_HELD_WINDOW);
}

void
kv_held_init(struct kv_held *held, size_t bytes_max)
{
    CHECK(bytes_max > 0);
    *held = (struct kv_held){.bytes_max = bytes_max};
}

void
kv_held_clear(struct kv_held *held)
{
    kv_held_drop_below(held, UINT64_MAX);
    CHECK(held->count == 0 && held->bytes == 0);
}

bool
kv_held_put(struct kv_held *held, uint64_t seq, uint64_t fingerprint,
            struct slice payload)
{
    CHECK(seq != UINT64_MAX);
    CHECK(held->count == 0 || held->slots != NULL);
    if (held->count > 0 && held->bytes + cost(payload.len) > held->bytes_max) {
        return false;
    }
    if (held->slots == NULL) {
        held->slots = calloc(KV_HELD_WINDOW, sizeof *held->slots);
        if (held->slots == NULL) {
            return false;
        }
    }
    struct kv_message **slot = &held->slots[place(seq)];
    struct kv_message *message =
        *slot == NULL ? malloc(cost(payload.len)) : NULL;
    if (message == NULL) {
        return false;
    }
    message->seq = seq;
    message->fingerprint = fingerprint;
    message->len = payload.len;
    if (payload.len > 0) {
        memcpy(message->bytes, payload.ptr, payload.len);
    }
    *slot = message;
    held->low = held->count == 0 || seq < held->low ? seq : held->low;
    held->high = held->count == 0 || seq > held->high ? seq : held->high;
    held->count++;
    CHECK(held->count <= KV_HELD_WINDOW);
    held->bytes += cost(payload.len);
    return true;
}

const struct kv_message *
kv_held_find(const struct kv_held *held, uint64_t seq)
{
    if (held->count == 0) {
        return NULL;
    }
    CHECK(held->slots != NULL);
    const struct kv_message *message = held->slots[place(seq)];
    return message != NULL && message->seq == seq ? message : NULL;
}

struct kv_message *
kv_held_take(struct kv_held *held, uint64_t seq)
{
    if (kv_held_find(held, seq) == NULL) {
        return NULL;
    }
    struct kv_message *message = held->slots[place(seq)];
    held->slots[place(seq)] = NULL;
    CHECK(held->count > 0 && held->bytes >= cost(message->len));
    held->count--;
    held->bytes -= cost(message->len);
    if (held->count == 0) {
        free(held->slots);
        held->slots = NULL;
    }
    CHECK((held->count == 0) == (held->bytes == 0));
    return message;
}

/* How many places from that of held->low on have all that is held. */
static size_t
span(const struct kv_held *held)
{
    uint64_t more = held->high - held->low;

    CHECK(held->count == 0 || held->low <= held->high);
    return held->count == 0         ? 0
           : more >= KV_HELD_WINDOW ? KV_HELD_WINDOW
                                    : (size_t)more + 1;
}

uint64_t
kv_held_lowest(const struct kv_held *held)
{
    uint64_t lowest = UINT64_MAX;
    size_t places = span(held);

    CHECK(held->count == 0 || held->slots != NULL);
    for (size_t i = 0; i < places; i++) {
        const struct kv_message *message = held->slots[place(held->low + i)];
        if (message != NULL && message->seq < lowest) {
            lowest = message->seq;
        }
        if (lowest == held->low + i) {
            break; /* later places have higher ones */
        }
    }
    CHECK(held->count == 0 || lowest != UINT64_MAX);
    return lowest;
}

void
kv_held_drop_below(struct kv_held *held, uint64_t seq)
{
    size_t places = span(held);

    for (size_t i = 0; held->count > 0 && i < places; i++) {
        const struct kv_message *message = held->slots[place(held->low + i)];
        if (message != NULL && message->seq < seq) {
            free(kv_held_take(held, message->seq));
        }
    }
    if (held->low < seq) {
        held->low = seq;
    }
    CHECK_SLOW(held->count == 0 || kv_held_lowest(held) >= seq);
}

bool
kv_held_check(const struct kv_held *held, const char **reason)
{
    uint32_t count = 0;
    size_t bytes = 0;

    size_t places = span(held);

    for (size_t i = 0; i < places; i++) {
        size_t at = place(held->low + i);
        const struct kv_message *message = held->slots[at];
        if (message == NULL) {
            continue;
        }
        count++;
        bytes += cost(message->len);
        if (place(message->seq) != at || message->seq < held->low ||
            message->seq > held->high) {
            *reason = "a held message is in another's place";
            return false;
        }
    }
    if (count != held->count || bytes != held->bytes ||
        (bytes > held->bytes_max && count > 1)) {
        *reason = "held messages are not counted right";
        return false;
    }
    return true;
}
