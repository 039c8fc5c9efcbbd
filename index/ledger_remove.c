/*
 * Removing blocks by the engine's names.
 */
#include "index/ledger_internal.h"

/* Takes over the copies that the engine says are left, if there is room. */
static uint32_t
copies_left(struct ledger *l, uint32_t ref, uint32_t stream, uint32_t count,
            uint32_t most, const uint32_t *remaining)
{
    CHECK(count > 0 && count <= most);
    if (remaining == NULL) {
        return count - 1;
    }
    uint32_t left = *remaining < most ? *remaining : most;
    bool room = left <= count || ledger_copies_claim(l, ref, stream);
    return room ? left : count;
}

static void
remove_one(struct ledger *l, uint32_t stream, uint64_t name,
           const uint32_t *remaining, enum tier tier, struct event_words *out,
           struct ledger_done *done)
{
    uint32_t ref = ledger_held(l, stream, name);
    uint32_t copies = ref == REF_NONE ? 0 : ledger_copies(l, ref, stream);
    uint32_t count = copies_in(copies, tier);

    if (count == 0) {
        done->unknown++;
        return;
    }
    uint32_t left =
        copies_left(l, ref, stream, count, names_copies_most(tier), remaining);
    copies = copies_with(copies, tier, left);
    if (left > 0) {
        done->duplicates++;
    } else {
        done->changed++;
        *event_words_add(out, EVENT_REMOVE, tier, 1) = entry_at(l, ref)->key;
    }
    if (copies == 0) {
        ledger_leave(l, ref, stream);
    } else {
        ledger_copies_set(l, ref, stream, copies);
    }
}

void
ledger_remove(struct ledger *ledger, uint32_t stream, const uint64_t *hashes,
              uint32_t count, const uint32_t *remaining, enum tier tier,
              struct event_words *out, struct ledger_done *done)
{
    CHECK(stream < LEDGER_STREAMS_MAX && tier < TIERS);
    CHECK(ledger->stream[stream].state == STREAM_OPEN);
    CHECK(!out->failed && out->max - out->count > count);
    *done = (struct ledger_done){0};
    for (uint32_t i = 0; i < count; i++) {
        if (i % NAMES_GROUP == 0 && count > 1) {
            uint32_t left = count - i;
            ledger_prefetch(ledger, hashes + i,
                            left < NAMES_GROUP ? left : NAMES_GROUP);
        }
        remove_one(ledger, stream, hashes[i],
                   remaining == NULL ? NULL : remaining + i, tier, out, done);
    }
    ledger_rows_unclaim(&ledger->copies);
}
