/*
 * Whether a worker's failures are its own: outlier detection as Envoy knows it.
 *
 * Failures in a row are compared over the last 10 to 20 s with those of the
 * worker that fails least, and at most breaker.max_ejection_percent of the
 * ready workers are left alone at one time, but always one. Where another node
 * leaves the worker alone, one failure is enough: its own evidence, and not its
 * peers' word alone, so that a node with a broken network does not take workers
 * from the others.
 */
#include "node/fleet/fleet.h"
#include "node/fleet/fleet_slot_internal.h"

#define NOTE_US      UINT64_C(10000000)
#define SENT_MIN     5U   /* requests that make a rate */
#define MARGIN       100U /* permille of requests, over twice the best rate */
#define ALL_PERMILLE 1000U

/* Of the requests sent since the older note; all where none were sent. */
static uint64_t
failed_permille(const struct fleet *fleet, uint32_t slot, uint64_t *sent)
{
    const struct fleet_slot *s = &fleet->slot[slot];
    const struct fleet_counters *c = &fleet->board.counters[slot];
    uint64_t failed = counter_read(&c->failures) +
                      counter_read(&c->streams_severed) - s->failed_before[0];

    CHECK(s->state == SLOT_PRESENT);
    *sent = counter_read(&c->requests) - s->sent_before[0];
    return failed < *sent ? failed * ALL_PERMILLE / *sent : ALL_PERMILLE;
}

void
fleet_outlier_note(struct fleet *fleet)
{
    if (fleet->now_us < fleet->note_due_us) {
        return;
    }
    fleet->note_due_us = fleet->now_us + NOTE_US;
    WORKER_SET_EACH (slot, &fleet->present) {
        struct fleet_slot *s = &fleet->slot[slot];
        const struct fleet_counters *c = &fleet->board.counters[slot];
        s->sent_before[0] = s->sent_before[1];
        s->sent_before[1] = counter_read(&c->requests);
        s->failed_before[0] = s->failed_before[1];
        s->failed_before[1] =
            counter_read(&c->failures) + counter_read(&c->streams_severed);
    }
}

/* Whether some other ready worker fails clearly less. Without one that is
 * asked enough there is nothing to compare with: the failures in a row stand. */
static bool
is_outlier(const struct fleet *fleet, uint32_t slot)
{
    uint64_t sent;
    uint64_t own = failed_permille(fleet, slot, &sent);
    uint64_t best = UINT64_MAX;

    WORKER_SET_EACH (other, &fleet->present) {
        if (other == slot || !fleet_slot_able(&fleet->slot[other]) ||
            fleet->slot[other].breaker.state != BREAKER_CLOSED) {
            continue;
        }
        uint64_t failed = failed_permille(fleet, other, &sent);
        if (sent >= SENT_MIN && failed < best) {
            best = failed;
        }
    }
    return best == UINT64_MAX || own >= 2 * best + MARGIN;
}

/* Whether one more may be left alone. */
static bool
has_room(const struct fleet *fleet)
{
    uint32_t able = 0;
    uint32_t out = 0;

    WORKER_SET_EACH (slot, &fleet->present) {
        const struct fleet_slot *s = &fleet->slot[slot];
        able += fleet_slot_able(s);
        out += fleet_slot_able(s) && s->breaker.state != BREAKER_CLOSED;
    }
    uint32_t most = able * fleet->config.breaker.max_ejection_percent / 100;
    return out < (most != 0 ? most : 1);
}

uint32_t
fleet_outlier_enough(const struct fleet *fleet, uint32_t slot)
{
    bool told = gauge_read(&fleet->board.peers_open[slot]) != 0;

    CHECK(slot < WORKERS_MAX && fleet->slot[slot].state == SLOT_PRESENT);
    if (!has_room(fleet) || !is_outlier(fleet, slot)) {
        return BREAKER_NEVER;
    }
    return told ? 1 : fleet->config.breaker.failures;
}
