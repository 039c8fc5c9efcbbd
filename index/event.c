/*
 * Records of the event vocabulary: checking them, and collecting their words.
 */
#include "index/event.h"

#include "index/base/check.h"

const char *
event_tier_name(enum tier tier)
{
    static const char *const names[] = {
        [TIER_DEVICE] = "device",
        [TIER_HOST] = "host",
        [TIER_DISK] = "disk",
        [TIER_EXTERNAL] = "external",
    };

    CHECK(tier < TIERS);
    return names[tier];
}

static bool
is_op(uint64_t op)
{
    uint64_t known = UINT64_C(0xffffffff0000ffff);

    return (op & ~known) == 0 && (op & 0xff) < EVENT_KINDS &&
           (op >> 8 & 0xff) < TIERS &&
           (event_op_kind(op) == EVENT_CLEAR) == (event_op_count(op) == 0);
}

bool
event_check(const uint64_t *words, uint32_t count)
{
    CHECK(words != NULL || count == 0);
    for (uint64_t at = 0; at < count;) {
        if (!is_op(words[at])) {
            return false;
        }
        at += 1 + (uint64_t)event_op_count(words[at]);
        if (at > count) {
            return false;
        }
    }
    return true;
}

uint64_t *
event_words_add(struct event_words *out, enum event_kind kind, enum tier tier,
                uint32_t count)
{
    CHECK(kind == EVENT_CLEAR ? count == 0 : count != 0);
    CHECK(kind < EVENT_KINDS && tier < TIERS);
    CHECK(out->count <= out->max);
    bool joined = out->count != 0 && kind != EVENT_CLEAR &&
                  event_op_kind(out->words[out->last]) == kind &&
                  event_op_tier(out->words[out->last]) == tier;
    uint64_t need = (uint64_t)count + (joined ? 0 : 1);

    if (out->failed || need > out->max - out->count) {
        out->failed = true;
        return NULL;
    }
    if (joined) {
        out->words[out->last] += (uint64_t)count << 32;
    } else {
        out->last = out->count;
        out->words[out->count++] = event_op(kind, tier, count);
    }
    uint64_t *keys = out->words + out->count;
    out->count += count;
    return keys;
}
