/* Workers' speeds: from samples to gossip, and back. */
#include "node/peers/hints_speed.h"

#include "index/base/rng.h"

#define SPEED_SALT UINT64_C(0x73706565640000) /* "speed" */

static uint64_t
speed_identity(uint64_t worker, uint32_t row)
{
    return rng_mix(rng_mix(worker ^ SPEED_SALT) + row);
}

/* What was told once is taken back, too; nothing is told of what there never
 * was. */
static void
tell_row(struct hints *hints, struct speed_shared_told *told, uint32_t row,
         const struct speed_row *bits, uint64_t now_us)
{
    struct gossip_gauge gauge = {.inflight = (uint32_t)(bits->first >> 32),
                                 .blocks = (uint32_t)bits->first,
                                 .queued_tokens = bits->second};
    bool some = bits->first != 0 || bits->second != 0;

    if (!some && (told->rows >> row & 1) == 0) {
        return;
    }
    if (!gossip_gauge_set(hints->gossip, speed_identity(told->worker, row),
                          &gauge, now_us)) {
        hints->stats.gauges_failed++;
        return;
    }
    told->rows = (told->rows & ~(1U << row)) | (some ? 1U << row : 0);
}

static void
tell(struct hints *hints, struct speed_shared_told *told,
     const struct speed_worker *own, uint64_t now_us)
{
    CHECK(told->worker != 0);
    for (uint32_t row = 0; row < SPEED_TOLD_ROWS; row++) {
        struct speed_row bits = speed_told(own, row);
        tell_row(hints, told, row, &bits, now_us);
    }
}

static void
hear(const struct hints *hints, uint64_t worker, struct speed_worker *all)
{
    for (uint32_t row = 0; row < SPEED_TOLD_ROWS; row++) {
        uint64_t identity = speed_identity(worker, row);
        for (uint32_t place = 0; place < GOSSIP_PEERS_MAX; place++) {
            struct gossip_gauge_peer peer;
            if (gossip_gauge_of(hints->gossip, place, identity, &peer)) {
                struct speed_row bits = {
                    .first =
                        (uint64_t)peer.gauge.inflight << 32 | peer.gauge.blocks,
                    .second = peer.gauge.queued_tokens};
                speed_join(all, row, &bits);
            }
        }
    }
}

/* The slot may have another worker than before, or none. */
static void
follow(struct hints *hints, struct speed_shared *speed,
       const struct fleet_view *view, uint32_t slot, uint64_t now_us)
{
    static const struct speed_worker nothing;
    bool present = worker_set_has(&view->present, slot);
    uint64_t worker = present ? view->identity[slot] : 0;
    uint32_t generation = present ? view->worker[slot]->generation : 0;
    struct speed_shared_told *told = &speed->told[slot];

    if (told->worker != worker) {
        if (told->worker != 0 && hints->gossip != NULL) {
            tell(hints, told, &nothing, now_us);
        }
        *told = (struct speed_shared_told){.worker = worker};
    }
    if (speed->own.worker[slot].generation != generation) {
        speed->own.worker[slot] =
            (struct speed_worker){.generation = generation};
    }
    if (speed->all.worker[slot].generation != generation) {
        speed->all.worker[slot] = speed->own.worker[slot];
    }
}

void
hints_share_speed(struct hints *hints, struct speed_shared *speed,
                  const struct fleet_view *view, uint64_t now_us)
{
    uint32_t left = HINTS_SPEEDS;

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        follow(hints, speed, view, slot, now_us);
    }
    for (uint32_t i = 0; i < WORKERS_MAX && left > 0; i++) {
        uint32_t slot = speed->next;
        struct speed_shared_told *told = &speed->told[slot];
        speed->next = (slot + 1) % WORKERS_MAX;
        if (!worker_set_has(&view->present, slot)) {
            continue;
        }
        speed->all.worker[slot] = speed->own.worker[slot];
        if (hints->gossip != NULL && told->worker != 0) {
            tell(hints, told, &speed->own.worker[slot], now_us);
            hear(hints, told->worker, &speed->all.worker[slot]);
        }
        left--;
    }
}
