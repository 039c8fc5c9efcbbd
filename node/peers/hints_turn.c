/* Hints: whose turn it is among the nodes that tell a ticket. */
#include "node/peers/hints.h"

void
hints_turn(struct hints *hints, uint64_t wall_ms)
{
    struct turns_place place = {.number = 0, .nodes = 1};
    struct gossip_gauge_peer of;

    if (hints->gossip == NULL || hints->world.ticket == 0) {
        return;
    }
    for (uint32_t i = 0; i < GOSSIP_PEERS_MAX; i++) {
        if (gossip_gauge_of(hints->gossip, i, HINTS_NODE_GAUGE, &of) &&
            of.gauge.queued_tokens != 0) {
            place.nodes++;
            place.number += of.gauge.queued_tokens < hints->world.ticket;
        }
    }
    turns_put(&hints->turns, &place, fleet_view_get(hints->world.board),
              wall_ms, hints->world.board);
}
