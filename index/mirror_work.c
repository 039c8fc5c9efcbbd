/*
 * Background work: sweeps dead slots out of the tables, line by line, and gives
 * tables the size that they should have.
 */
#include "index/mirror_internal.h"

#define TABLES ((uint32_t)MIRROR_KINDS * MIRROR_SHARDS)

static void
sweep_holders(struct mirror *mirror, uint32_t shard, struct mirror_entry entry,
              uint32_t word)
{
    struct worker_set set;

    CHECK(mirror->sweep.active);
    mirror_holders(mirror, word, &set);
    set = worker_set_and(&set, &mirror->sweep.now);
    WORKER_SET_EACH (slot, &set) {
        mirror_unhold(mirror, shard, entry, slot);
    }
}

static void
sweep_entry(struct mirror *mirror, struct mirror_entry entry)
{
    uint32_t shard = mirror->sweep.table % MIRROR_SHARDS;
    uint32_t word = word_load(entry.line, entry.at);

    CHECK(mirror->sweep.table < TABLES);
    if (!word_live(word)) {
        return;
    }
    if (mirror->sweep.table < MIRROR_SHARDS) {
        sweep_holders(mirror, shard, entry, word);
        return;
    }
    uint32_t slot = word_tiered(word);
    if (worker_set_has(&mirror->sweep.now, slot)) {
        mirror_untier(mirror, shard, entry, slot);
    }
}

/* Ends a pass: its slots are free once no reader can know them alive. */
static void
sweep_end(struct mirror *mirror)
{
    struct mirror_sweep *sweep = &mirror->sweep;

    CHECK(sweep->active && sweep->table == TABLES);
    WORKER_SET_EACH (slot, &sweep->now) {
        const struct mirror_slot *of = &mirror->slot[slot];
        CHECK(of->held == 0 && of->digest == 0 && of->tiered == 0);
        worker_set_add(&mirror->grace.slots, slot);
    }
    worker_set_clear(&sweep->now);
    sweep->active = false;
}

static void
sweep_begin(struct mirror *mirror)
{
    struct mirror_sweep *sweep = &mirror->sweep;

    if (!sweep->active && !worker_set_empty(&sweep->next)) {
        sweep->now = sweep->next;
        worker_set_clear(&sweep->next);
        sweep->active = true;
        sweep->table = 0;
        sweep->line = 0;
    }
    CHECK(sweep->active || worker_set_empty(&sweep->next));
}

/* Sweeps one line, or steps to the next table. */
static void
sweep_step(struct mirror *mirror)
{
    struct mirror_sweep *sweep = &mirror->sweep;
    uint32_t shard = sweep->table % MIRROR_SHARDS;
    const char *handle = mirror_handle_get(
        mirror, (enum mirror_kind)(sweep->table / MIRROR_SHARDS), shard);

    CHECK(sweep->active && sweep->table < TABLES);
    if (handle == NULL || sweep->line == mirror_lines(mirror, shard, handle)) {
        sweep->line = 0;
        if (++sweep->table == TABLES) {
            sweep_end(mirror);
        }
        return;
    }
    struct mirror_line *line = &mirror_handle_lines(handle)[sweep->line++];
    for (uint32_t i = 0; i < MIRROR_LINE_ENTRIES; i++) {
        sweep_entry(mirror, (struct mirror_entry){.line = line, .at = i});
    }
}

/* Checks the size of each table that changed until it has replaced one. True
 * when it has. */
static bool
tidy(struct mirror *mirror, uint32_t budget)
{
    CHECK(mirror->tidied < TABLES);
    for (uint32_t n = 0; n < TABLES && n < budget; n++) {
        mirror->tidied = (mirror->tidied + 1) % TABLES;
        uint64_t *untidy = &mirror->untidy[mirror->tidied / 64];
        uint64_t bit = UINT64_C(1) << mirror->tidied % 64;
        if (*untidy == 0) { /* on to the next 64 */
            n += 63 - mirror->tidied % 64;
            mirror->tidied |= 63;
            continue;
        }
        if ((*untidy & bit) == 0) {
            continue;
        }
        *untidy &= ~bit;
        if (mirror_resize(mirror,
                          (enum mirror_kind)(mirror->tidied / MIRROR_SHARDS),
                          mirror->tidied % MIRROR_SHARDS) > 0) {
            return true;
        }
    }
    return false;
}

bool
mirror_work(struct mirror *mirror, uint32_t budget)
{
    struct mirror_sweep *sweep = &mirror->sweep;
    bool more;

    sweep_begin(mirror);
    for (; sweep->active && budget >= MIRROR_LINE_ENTRIES;
         budget -= MIRROR_LINE_ENTRIES) {
        sweep_step(mirror);
    }
    more = tidy(mirror, budget) || sweep->active ||
           !worker_set_empty(&sweep->next);
    mirror_grace(mirror);
    (void)qsbr_reclaim(mirror->qsbr);
    mirror_grace(mirror);
    (void)qsbr_reclaim(mirror->qsbr);
    return more;
}
