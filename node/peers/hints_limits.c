/* Limits: from the meters to gossip, and back. */
#include "node/peers/hints_limits.h"

_Static_assert(LIMITS_PEERS_MAX >= GOSSIP_PEERS_MAX, "a place for each peer");

void
hints_tell_limit(struct hints *hints, uint64_t identity,
                 const struct limits_told *told, uint64_t now_us)
{
    struct gossip_gauge gauge = {.inflight = told->open,
                                 .blocks = told->window,
                                 .queued_tokens = told->spent};

    if (hints->gossip != NULL &&
        !gossip_gauge_set(hints->gossip, identity, &gauge, now_us)) {
        hints->stats.gauges_failed++;
    }
}

void
hints_hear_limit(const struct hints *hints, uint64_t identity,
                 struct limits_meter *meter)
{
    for (uint32_t place = 0; place < GOSSIP_PEERS_MAX; place++) {
        struct gossip_gauge_peer peer;
        if (hints->gossip == NULL ||
            !gossip_gauge_of(hints->gossip, place, identity, &peer)) {
            limits_meter_lost(meter, place);
        } else if (peer.told) {
            struct limits_told told = {.spent = peer.gauge.queued_tokens,
                                       .open = peer.gauge.inflight,
                                       .window = peer.gauge.blocks};
            limits_meter_hear(meter, place, peer.peer, &told);
        }
    }
}

struct limits_peers
hints_limits_peers(const struct hints *hints, bool caught_up)
{
    struct limits_peers peers = {.settled = caught_up};

    for (uint32_t place = 0; hints->gossip != NULL && place < GOSSIP_PEERS_MAX;
         place++) {
        struct gossip_gauge_peer peer;
        if (gossip_gauge_of(hints->gossip, place, 0, &peer)) {
            peers.count++;
            peers.settled = peers.settled && peer.told;
        }
    }
    return peers;
}
