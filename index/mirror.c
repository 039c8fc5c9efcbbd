/*
 * The mirror as a whole: its slots, grace periods, background work.
 */
#include "index/mirror.h"

#include <errno.h>
#include <stdlib.h>

#include "index/base/mutant.h"
#include "index/mirror_internal.h"

/* Each size is a quarter larger than the one before. */
static void
sizes_init(struct mirror *mirror)
{
    uint32_t lines = 1;

    for (uint32_t i = 0; i < MIRROR_SIZES; i++) {
        mirror->size_lines[i] = lines;
        lines += lines / 4 > 0 ? lines / 4 : 1;
    }
    CHECK(mirror->size_lines[MIRROR_SIZES - 1] > mirror->size_lines[0]);
}

int
mirror_new(struct mirror **out, const struct mirror_limits *limits,
           struct qsbr *qsbr)
{
    CHECK(out != NULL && qsbr != NULL);
    if (limits->bytes_max < sizeof(struct mirror)) {
        return -EINVAL;
    }
    struct mirror *mirror = calloc(1, sizeof(*mirror));
    if (mirror == NULL) {
        return -ENOMEM;
    }
    mirror->qsbr = qsbr;
    mirror->bytes_max = limits->bytes_max;
    mirror->stats.bytes = sizeof(*mirror);
    mirror->grace.mirror = mirror;
    mirror->grace.next = 1;
    sizes_init(mirror);
    *out = mirror;
    return 0;
}

void
mirror_free(struct mirror *mirror)
{
    if (mirror == NULL) {
        return;
    }
    (void)qsbr_reclaim(mirror->qsbr);
    CHECK(!mirror->grace.busy && mirror->stats.bytes_retired == 0);
    mirror_tables_free(mirror);
    mirror_holder_sets_free(mirror);
    CHECK(mirror->stats.bytes == sizeof(*mirror));
    page_heap_fini(&mirror->heap);
    free(mirror);
}

/* ---- grace periods ---- */

/* Whether tombs' numbers can be told from older ones. */
static bool
grace_sound(const struct mirror_grace *grace)
{
    return grace->next - grace->done == (grace->busy ? MIRROR_GRACES : 1);
}

/* A grace period has passed: no reader is left from before it began. */
static void
grace_passed(struct qsbr_node *node)
{
    struct mirror_grace *grace =
        (struct mirror_grace *)(void *)((char *)node -
                                        offsetof(struct mirror_grace, node));
    struct mirror *mirror = grace->mirror;

    CHECK(grace->busy && grace_sound(grace));
    grace->done = grace->next - 1;
    grace->busy = false;
    mirror_holder_sets_join(mirror, &mirror->holder_sets_free, &grace->leaving);
    CHECK(mirror_holder_sets_sound(mirror) && grace_sound(grace));
    WORKER_SET_EACH (slot, &grace->freeing) {
        mirror->slot[slot].state = SLOT_FREE;
    }
    worker_set_clear(&grace->freeing);
}

void
mirror_grace(struct mirror *mirror)
{
    struct mirror_grace *grace = &mirror->grace;

    if (grace->busy || (!grace->tombs && grace->holder_sets.count == 0 &&
                        worker_set_empty(&grace->slots))) {
        return;
    }
    grace->busy = true;
    grace->tombs = false;
    grace->next++;
    mirror_holder_sets_join(mirror, &grace->leaving, &grace->holder_sets);
    grace->freeing = grace->slots;
    worker_set_clear(&grace->slots);
    qsbr_retire(mirror->qsbr, &grace->node, grace_passed);
    CHECK(grace->holder_sets.count == 0 && grace_sound(grace));
}

/* ---- slots ---- */

/* Changes a bit that readers see; only the writer calls it. */
static void
bit_set(_Atomic uint64_t *words, uint32_t slot)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    (void)atomic_fetch_or_explicit(&words[slot / 64], UINT64_C(1) << slot % 64,
                                   memory_order_release);
}

static void
bit_clear(_Atomic uint64_t *words, uint32_t slot)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    (void)atomic_fetch_and_explicit(
        &words[slot / 64], ~(UINT64_C(1) << slot % 64), memory_order_release);
}

int
mirror_open(struct mirror *mirror, uint32_t *slot)
{
    uint32_t at = 0;

    CHECK(slot != NULL);
    while (at < WORKERS_MAX && mirror->slot[at].state != SLOT_FREE) {
        at++;
    }
    *slot = at;
    return at == WORKERS_MAX ? MIRROR_E_NO_SLOT : mirror_open_at(mirror, at);
}

int
mirror_open_at(struct mirror *mirror, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    CHECK_SLOW(mirror->slot[slot].state != SLOT_FREE ||
               mirror->slot[slot].held == 0);
    if (mirror->slot[slot].state != SLOT_FREE) {
        return MIRROR_E_NO_SLOT;
    }
    mirror_walk_clear(mirror, slot);
    mirror->slot[slot] = (struct mirror_slot){.state = SLOT_OPEN};
    bit_set(mirror->alive, slot);
    watch_tell(mirror->watch, watch_op(WATCH_OPEN, slot, 0));
    return 0;
}

void
mirror_close(struct mirror *mirror, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX && mirror->slot[slot].state == SLOT_OPEN);
    bit_clear(mirror->alive, slot);
    watch_tell(mirror->watch, watch_op(WATCH_CLOSE, slot, 0));
    mirror->slot[slot].state = SLOT_DEAD;
    if (mirror->slot[slot].held > 0) {
        if (!MUTANT(NO_SWEEP)) {
            worker_set_add(&mirror->sweep.next, slot);
        }
    } else {
        worker_set_add(&mirror->grace.slots, slot);
    }
}

void
mirror_walk_set(struct mirror *mirror, uint32_t slot)
{
    uint64_t opened =
        atomic_load_explicit(&mirror->opened, memory_order_relaxed) + 1;

    CHECK(slot < WORKERS_MAX);
    if (mirror->slot[slot].walked) {
        return;
    }
    mirror->slot[slot].walked = true;
    bit_set(mirror->walked, slot);
    atomic_store_explicit(&mirror->opened_at[slot], opened,
                          memory_order_relaxed);
    /* Release: a reader that sees the new count sees which slot it is about.
     * A reader that sees a later change of a bit sees this change, too
     * (mirror_match.c). */
    atomic_store_explicit(&mirror->opened, opened, memory_order_release);
}

void
mirror_walk_clear(struct mirror *mirror, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    if (mirror->slot[slot].walked) {
        mirror->slot[slot].walked = false;
        /* Release: a reader that sees this sees the blocks that filled the
         * holes. */
        bit_clear(mirror->walked, slot);
    }
}

void
mirror_tear(struct mirror *mirror, uint32_t slot)
{
    uint64_t torn =
        atomic_load_explicit(&mirror->torn[slot], memory_order_relaxed);

    CHECK(slot < WORKERS_MAX && mirror->slot[slot].walked);
    /* Release: at the end, a reader that sees this sees the removals. At the
     * beginning, the removals' own release orders them after this. */
    atomic_store_explicit(&mirror->torn[slot], torn + 1, memory_order_release);
}

void
mirror_tiered_mark(struct mirror *mirror, uint32_t slot, bool tiered)
{
    CHECK(slot < WORKERS_MAX && mirror->slot[slot].tiered == 0);
    if (tiered) {
        bit_set(mirror->tiered, slot);
    } else {
        bit_clear(mirror->tiered, slot);
    }
}

uint64_t
mirror_slot_blocks(const struct mirror *mirror, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    return mirror->slot[slot].held;
}

uint64_t
mirror_slot_digest(const struct mirror *mirror, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    return mirror->slot[slot].digest;
}

void
mirror_stats(const struct mirror *mirror, struct mirror_stats *stats)
{
    *stats = mirror->stats;
    stats->blocks = 0;
    stats->holder_blocks = 0;
    stats->tiered_blocks = 0;
    stats->open = 0;
    stats->sweeping = 0;
    for (uint32_t i = 0; i < MIRROR_SHARDS; i++) {
        stats->blocks += mirror->fill[MIRROR_HOLDERS][i].live;
    }
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        stats->holder_blocks += mirror->slot[i].held;
        stats->tiered_blocks += mirror->slot[i].tiered;
        stats->open += mirror->slot[i].state == SLOT_OPEN;
        stats->sweeping += mirror->slot[i].state == SLOT_DEAD;
    }
    CHECK(stats->bytes <= mirror->bytes_max);
    CHECK(stats->bytes_retired <= stats->bytes);
    CHECK(stats->blocks <= stats->holder_blocks);
}
