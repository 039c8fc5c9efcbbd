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
}

/* Whether the slot still belongs to the worker that the fact means. */
static bool
is_owners(const struct ingest_slots *slots, const struct fact_learn *fact)
{
    const struct mirror_view *view = mirror_view_get(slots->view);

    CHECK(fact->kind == FACT_EXPECT && fact->slot < WORKERS_MAX &&
          fact->owner < WORKERS_MAX);
    CHECK(fact->count > 0 && fact->count <= FACT_KEYS_MAX);
    return worker_set_has(&slots->admitted, fact->slot) &&
           view->owner[fact->slot] == fact->owner &&
           view->generation[fact->owner] == fact->generation;
}

void
ingest_slots_expect(struct ingest_slots *slots, const struct fact_learn *fact,
                    uint64_t now_us)
{
    if (is_owners(slots, fact)) {
        /* The lane left out the blocks that were held when it looked. */
        expectations_add_missing(slots->expectations, slots->mirror, fact->slot,
                                 fact->keys, fact->count, now_us);
    }
}

uint32_t
ingest_slots_known(struct ingest_slots *slots, const struct fact_learn *fact)
{
    return is_owners(slots, fact)
               ? expectations_depth(slots->expectations, slots->mirror,
                                    fact->slot, fact->keys, fact->count)
               : fact->count;
}

void
ingest_slots_take_back(struct ingest_slots *slots,
                       const struct fact_learn *fact, uint32_t known)
{
    CHECK(known <= fact->count);
    if (is_owners(slots, fact) && known < fact->count) {
        expectations_take_back(slots->expectations, fact->slot,
                               fact->keys + known, fact->count - known);
    }
}
