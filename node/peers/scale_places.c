/* Where nodes get requests: from the membership and from hints. */
#include "node/peers/scale_places.h"

#include <stdio.h>
#include <string.h>

#include "node/peers/hints.h"

static void
add(struct scale_places *places, const char *island, uint64_t requests)
{
    uint32_t at = 0;

    while (at < places->count &&
           strcmp(places->place[at].island, island) != 0) {
        at++;
    }
    if (at == SCALE_PLACES_MAX) {
        return;
    }
    if (at == places->count) {
        places->place[at] = (struct scale_place_of){.requests = 0};
        (void)snprintf(places->place[at].island, CONFIG_LABEL_MAX, "%s",
                       island);
        places->count++;
    }
    places->place[at].requests += requests;
}

void
scale_places_hear(struct cluster *cluster, const char *island,
                  uint64_t requests, struct scale_places *places)
{
    struct gossip *gossip = cluster_gossip(cluster);
    struct gossip_gauge_peer rate;

    places->count = 0;
    add(places, island, requests);
    for (uint32_t place = 0; place < GOSSIP_PEERS_MAX; place++) {
        if (!gossip_gauge_of(gossip, place, HINTS_NODE_GAUGE, &rate)) {
            continue;
        }
        const char *label = cluster_peer_island(cluster, rate.peer);
        if (label != NULL) {
            add(places, label, rate.gauge.inflight);
        }
    }
}
