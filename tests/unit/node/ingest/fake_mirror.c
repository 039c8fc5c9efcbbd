/* The functions of index/mirror.h, over plain arrays. */
#include "fake_mirror.h"

#include <string.h>

#include "index/base/rng.h"
#include "node/view/mirror_view.h"

struct mirror *
fake_mirror(void)
{
    static struct mirror mirror;

    memset(&mirror, 0, sizeof mirror);
    mirror.slots_max = WORKERS_MAX;
    return &mirror;
}

int
mirror_open(struct mirror *mirror, uint32_t *slot)
{
    for (uint32_t i = 0; i < mirror->slots_max; i++) {
        if (mirror->slot[i].state == FAKE_FREE) {
            mirror->slot[i].state = FAKE_OPEN;
            mirror->slot[i].count = 0;
            *slot = i;
            return 0;
        }
    }
    return MIRROR_E_NO_SLOT;
}

void
mirror_close(struct mirror *mirror, uint32_t slot)
{
    const struct mirror_view *view =
        mirror->view != NULL ? publish_get(mirror->view) : NULL;

    CHECK(slot < WORKERS_MAX && mirror->slot[slot].state == FAKE_OPEN);
    for (uint32_t i = 0; view != NULL && i < view->groups_count; i++) {
        CHECK(!worker_set_has(&view->groups[i].slots, slot));
    }
    mirror->slot[slot].state = FAKE_SWEEPING;
}

static void
apply_one(struct fake_slot *slot, enum event_kind kind, uint8_t tier,
          uint64_t key)
{
    uint32_t at = 0;

    while (at < slot->count && slot->key[at] != key) {
        at++;
    }
    if (at == slot->count) {
        CHECK(at < FAKE_KEYS_MAX);
        slot->key[at] = key;
        slot->tiers[at] = 0;
        slot->count++;
    }
    if (kind == EVENT_STORE) {
        slot->tiers[at] = (uint8_t)(slot->tiers[at] | tier);
    } else {
        slot->tiers[at] = (uint8_t)(slot->tiers[at] & ~tier);
    }
    if (slot->tiers[at] == 0) {
        slot->count--;
        slot->key[at] = slot->key[slot->count];
        slot->tiers[at] = slot->tiers[slot->count];
    }
}

int
mirror_apply(struct mirror *mirror, uint32_t slot, const uint64_t *words,
             uint32_t count, uint32_t holes)
{
    struct fake_slot *s = &mirror->slot[slot];

    CHECK(slot < WORKERS_MAX && s->state == FAKE_OPEN);
    CHECK(event_check(words, count));
    if (mirror->apply_outcome != 0) {
        return mirror->apply_outcome;
    }
    s->holes = holes;
    for (uint32_t at = 0; at < count;) {
        uint64_t op = words[at++];
        CHECK(event_op_kind(op) != EVENT_CLEAR);
        for (uint32_t i = 0; i < event_op_count(op); i++) {
            apply_one(s, event_op_kind(op),
                      (uint8_t)(1U << (unsigned)event_op_tier(op)),
                      words[at + i]);
        }
        at += event_op_count(op);
    }
    return 0;
}

bool
mirror_work(struct mirror *mirror, uint32_t budget)
{
    (void)budget;
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (mirror->slot[i].state == FAKE_SWEEPING) {
            mirror->slot[i].state = FAKE_FREE;
        }
    }
    return false;
}

uint64_t
mirror_slot_blocks(const struct mirror *mirror, uint32_t slot)
{
    CHECK(mirror->slot[slot].state == FAKE_OPEN);
    return mirror->slot[slot].count;
}

uint64_t
mirror_slot_digest(const struct mirror *mirror, uint32_t slot)
{
    const struct fake_slot *s = &mirror->slot[slot];
    uint64_t digest = s->count;

    CHECK(s->state == FAKE_OPEN);
    for (uint32_t i = 0; i < s->count; i++) {
        digest ^= rng_mix(s->key[i]);
    }
    return digest;
}

uint8_t
fake_mirror_tiers(const struct mirror *mirror, uint32_t slot, uint64_t key)
{
    const struct fake_slot *s = &mirror->slot[slot];

    for (uint32_t i = 0; i < s->count && s->state == FAKE_OPEN; i++) {
        if (s->key[i] == key) {
            return s->tiers[i];
        }
    }
    return 0;
}
