/* Keeps the expectations in step with the slots that lanes see. */
#include "node/ingest/ingest_slots.h"

#include "index/base/check.h"

static struct worker_set
viewed(const struct ingest_slots *slots)
{
    const struct mirror_view *view = mirror_view_get(slots->view);
    struct worker_set all;

    CHECK(view != NULL && view->groups_count <= MIRROR_GROUPS_MAX);
    worker_set_clear(&all);
    for (uint32_t i = 0; i < view->groups_count; i++) {
        for (uint32_t w = 0; w < WORKER_WORDS; w++) {
            all.word[w] |= view->groups[i].slots.word[w];
        }
    }
    return all;
}

/* Blocks that one rank of a group holds, or 0. */
static uint64_t
rank_blocks(const struct ingest_slots *slots, const struct mirror_view *view,
            const struct mirror_group *group, uint32_t slot)
{
    uint32_t owner = view->owner[slot];
    uint32_t ranks = view->ranks[owner] > 0 ? view->ranks[owner] : 1;

    CHECK(owner < WORKERS_MAX && group->grain != 0);
    return slots->capacity_tokens[owner] / ranks / shape_tokens(group->grain);
}

/* Keeps the decisions of slots whose size is known. */
static void ON_CONTROL
keep_decisions(struct ingest_slots *slots)
{
    const struct mirror_view *view = mirror_view_get(slots->view);

    for (uint32_t i = 0; i < view->groups_count; i++) {
        const struct mirror_group *group = &view->groups[i];
        struct worker_set new = worker_set_minus(&group->slots, &slots->kept);
        WORKER_SET_EACH (slot, &new) {
            uint64_t blocks = rank_blocks(slots, view, group, slot);
            /* Refused while the slot is still swept: tried again next time. */
            if (blocks > 0 &&
                decided_open(slots->decided, slot, blocks,
                             shape_tokens(group->grain), RADIX_LRU) == 0) {
                worker_set_add(&slots->kept, slot);
            }
        }
    }
}

static void ON_CONTROL
drop_decisions(struct ingest_slots *slots, const struct worker_set *gone)
{
    struct worker_set dropped = worker_set_and(gone, &slots->kept);

    WORKER_SET_EACH (slot, &dropped) {
        decided_close(slots->decided, slot);
        worker_set_remove(&slots->kept, slot);
    }
}

void
ingest_slots_renew(struct ingest_slots *slots)
{
    struct worker_set now = viewed(slots);
    struct worker_set gone = worker_set_minus(&slots->admitted, &now);
    struct worker_set new = worker_set_minus(&now, &slots->admitted);

    CHECK(slots->expectations != NULL);
    WORKER_SET_EACH (slot, &gone) {
        expectations_close(slots->expectations, slot);
        worker_set_remove(&slots->admitted, slot);
    }
    WORKER_SET_EACH (slot, &new) {
        /* Refused while the slot is still swept: tried again next time. */
        if (expectations_open(slots->expectations, slot) == 0) {
            worker_set_add(&slots->admitted, slot);
        }
    }
    if (slots->decided != NULL) {
        drop_decisions(slots, &gone);
        keep_decisions(slots);
    }
}

/* Of a worker that is there a slot's tree takes the new size at the next
 * renewal. */
void
ingest_slots_capacity(struct ingest_slots *slots, uint32_t worker,
                      uint64_t tokens)
{
    const struct mirror_view *view = mirror_view_get(slots->view);
    struct worker_set kept = slots->kept;

    CHECK(worker < WORKERS_MAX);
    slots->capacity_tokens[worker] = tokens;
    WORKER_SET_EACH (slot, &kept) {
        if (tokens != 0 && view->owner[slot] == worker) {
            worker_set_remove(&slots->kept, slot);
        }
    }
}

bool
ingest_slots_owns(const struct ingest_slots *slots,
                  const struct fact_learn *fact)
{
    const struct mirror_view *view = mirror_view_get(slots->view);

    CHECK(fact->kind == FACT_EXPECT || fact->kind == FACT_DECIDED);
    CHECK(fact->slot < WORKERS_MAX && fact->owner < WORKERS_MAX);
    CHECK(fact->count > 0 && fact->count <= FACT_KEYS_MAX);
    return worker_set_has(&slots->admitted, fact->slot) &&
           view->owner[fact->slot] == fact->owner &&
           view->generation[fact->owner] == fact->generation;
}

void
ingest_slots_expect(struct ingest_slots *slots, const struct fact_learn *fact,
                    uint64_t now_us)
{
    if (ingest_slots_owns(slots, fact)) {
        /* The lane left out the blocks that were held when it looked. */
        expectations_add_missing(slots->expectations, slots->mirror, fact->slot,
                                 fact->keys, fact->count, now_us);
    }
}

void
ingest_slots_decided(struct ingest_slots *slots, const struct fact_learn *fact,
                     uint64_t now_us)
{
    CHECK(fact->kind == FACT_DECIDED);
    if (slots->decided != NULL && ingest_slots_owns(slots, fact)) {
        decided_add(slots->decided, fact->slot, fact->keys, fact->count,
                    now_us);
    }
}

uint32_t
ingest_slots_known(struct ingest_slots *slots, const struct fact_learn *fact)
{
    return ingest_slots_owns(slots, fact)
               ? expectations_depth(slots->expectations, slots->mirror,
                                    fact->slot, fact->keys, fact->count)
               : fact->count;
}

void
ingest_slots_take_back(struct ingest_slots *slots,
                       const struct fact_learn *fact, uint32_t known)
{
    CHECK(known <= fact->count);
    if (ingest_slots_owns(slots, fact) && known < fact->count) {
        expectations_take_back(slots->expectations, fact->slot,
                               fact->keys + known, fact->count - known);
    }
}

void
ingest_slots_prove(struct ingest_slots *slots, const struct fact_learn *fact,
                   uint64_t now_us)
{
    if (ingest_slots_owns(slots, fact)) {
        expectations_prove(slots->expectations, fact->slot, fact->keys,
                           fact->count, now_us);
    }
}

void
ingest_slots_disprove(struct ingest_slots *slots, const struct fact_learn *fact,
                      uint32_t known)
{
    CHECK(known <= fact->count);
    if (ingest_slots_owns(slots, fact) && known < fact->count) {
        expectations_disprove(slots->expectations, fact->slot,
                              fact->keys + known, fact->count - known);
    }
}
