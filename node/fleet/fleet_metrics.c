/* The load of workers, as their engines' own metrics tell it. */
#include "node/fleet/fleet.h"
#include "node/fleet/fleet_slot_internal.h"

#define METRICS_BAD_MAX 3 /* failed scrapes until the numbers are forgotten */

void
fleet_metrics_forget(struct fleet *fleet, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    struct fleet_slot *s = &fleet->slot[slot];

    s->metrics = (struct engine_metrics){.kind = ENGINE_OTHER};
    s->metrics_at_us = 0;
    s->foreign_seen = 0;
    gauge_set(&fleet->board.foreign[slot], 0);
    gauge_set(&fleet->board.kv_usage_permille[slot], 0);
    gauge_set(&fleet->board.waiting[slot], 0);
    gauge_set(&fleet->board.running[slot], 0);
    fleet_limit_learn(fleet, slot);
}

static int32_t
gauge_of(struct engine_number number, double scale)
{
    double value = number.known ? number.value * scale : 0;

    CHECK(scale > 0);
    return value < INT32_MAX ? (int32_t)(value + 0.5) : INT32_MAX;
}

uint32_t
fleet_metrics_ours(const struct fleet *fleet, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    return gauge_read(&fleet->board.inflight[slot]) +
           gauge_read(&fleet->board.peers[slot]);
}

bool
fleet_metrics_is_idle(const struct fleet *fleet, uint32_t slot)
{
    const struct fleet_slot *s = &fleet->slot[slot];

    return s->metrics_at_us != 0 && s->metrics_bad_row == 0 &&
           gauge_of(s->metrics.running, 1) == 0 &&
           gauge_of(s->metrics.waiting, 1) == 0 && s->inflight_before == 0 &&
           fleet_metrics_ours(fleet, slot) == 0;
}

/*
 * Requests that the engine runs and queues beyond our own and our peers'. A
 * scrape shows some moment between its sending and now. So of our own and
 * peers' counts at both times the greater is subtracted, and only what two
 * scrapes in a row saw counts: requests that came or went meanwhile are not
 * taken for foreign ones. Peers' counts are up to 0.1 s old; requests that they
 * have begun since count as foreign only if two scrapes see them.
 */
static int32_t
foreign_load(struct fleet_slot *s, uint32_t inflight_now)
{
    uint32_t ours =
        s->inflight_before > inflight_now ? s->inflight_before : inflight_now;
    uint32_t there = (uint32_t)gauge_of(s->metrics.running, 1) +
                     (uint32_t)gauge_of(s->metrics.waiting, 1);
    uint32_t seen = there > ours ? there - ours : 0;
    uint32_t both = seen < s->foreign_seen ? seen : s->foreign_seen;

    s->foreign_seen = seen;
    return both < INT32_MAX ? (int32_t)both : INT32_MAX;
}

static void
publish_metrics(struct fleet *fleet, uint32_t slot)
{
    struct fleet_slot *s = &fleet->slot[slot];
    struct fleet_board *board = &fleet->board;
    int32_t usage = gauge_of(s->metrics.kv_usage, 1000);

    CHECK(s->state == SLOT_PRESENT && s->metrics.kind != ENGINE_OTHER);
    gauge_set(&board->running[slot], gauge_of(s->metrics.running, 1));
    gauge_set(&board->waiting[slot], gauge_of(s->metrics.waiting, 1));
    gauge_set(&board->kv_usage_permille[slot], usage < 1000 ? usage : 1000);
    gauge_set(&board->foreign[slot],
              foreign_load(s, fleet_metrics_ours(fleet, slot)));
    fleet_limit_learn(fleet, slot);
}

static void
note_capacity(struct fleet *fleet, uint32_t slot)
{
    struct fleet_slot *s = &fleet->slot[slot];
    struct engine_number capacity = s->metrics.capacity;

    CHECK(s->state == SLOT_PRESENT);
    /* The product of two sums may be infinite, or no number. */
    if (!capacity.known || !(capacity.value < (double)UINT32_MAX * 1024)) {
        return;
    }
    uint64_t tokens = (uint64_t)capacity.value;
    if (tokens > 0 && tokens != s->capacity_tokens) {
        s->capacity_tokens = tokens;
        fleet_note(fleet, slot, FLEET_CAPACITY_CHANGED);
    }
}

void
fleet_metrics_take(struct fleet *fleet, uint32_t slot,
                   const struct fleet_probed *result)
{
    struct fleet_slot *s = &fleet->slot[slot];
    struct engine_metrics metrics = {.kind = ENGINE_OTHER};

    CHECK(s->state == SLOT_PRESENT && result->probe == FLEET_PROBE_METRICS);
    if (fleet_is_2xx(result->status)) {
        engine_metrics_read(result->body, &metrics);
        if (metrics.kind == ENGINE_OTHER) {
            engine_slots_read(result->body, &metrics);
        }
    }
    if (metrics.kind == ENGINE_OTHER) {
        if (result->status != 0) { /* some engines have them elsewhere */
            s->probe[FLEET_PROBE_METRICS].alternative ^= true;
        }
        if (++s->metrics_bad_row == METRICS_BAD_MAX) {
            fleet_metrics_forget(fleet, slot);
        }
        return;
    }
    fleet_recognise(fleet, slot, metrics.kind);
    s->metrics_bad_row = 0;
    s->metrics = metrics;
    s->metrics_at_us = fleet->now_us;
    note_capacity(fleet, slot);
    publish_metrics(fleet, slot);
}
