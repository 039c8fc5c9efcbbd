/* The invariants of the cluster, for tests and simulations. */

#include "mesh/cluster_internal.h"

static const char *
fault_of_peers(const struct cluster *c)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        const struct cluster_peer *peer = &c->peers[i];
        const struct cluster_row *row =
            peer->session != 0 ? cluster_row_of(c, peer->session) : NULL;

        if (peer->session == 0) {
            continue;
        }
        count++;
        if (peer->session == c->self) {
            return "a peer is ourselves";
        }
        if (!c->dirty && (row == NULL || !cluster_row_counts(row))) {
            return "a peer is no member";
        }
        if (!c->dirty &&
            cluster_link_session(c, peer->address) != peer->session) {
            return "a peer has no link";
        }
        if (!c->dirty && peer->suspect != (row->state == MEMBER_SUSPECT)) {
            return "a peer is suspect where the member is not, or not";
        }
    }
    struct gossip_stats stats;
    gossip_stats(c->gossip, &stats);
    return count != c->stats.peers_up ? "peers are counted wrong"
           : count != stats.peers     ? "gossip has other peers"
                                      : NULL;
}

static const char *
fault_of_workers(const struct cluster *c)
{
    uint32_t handing = 0;

    for (uint32_t i = 0; i < c->workers_count; i++) {
        const struct cluster_worker *w = &c->workers[i];

        if (i > 0 && c->workers[i - 1].id >= w->id) {
            return "workers are out of order";
        }
        if (w->ranks == 0) {
            return "a worker has no ranks";
        }
        if ((w->rank == 0) != (w->primary == 0)) {
            return "a primary is not of the first rank";
        }
        if (w->rank != OWNER_NO_RANK && w->owner.role == OWNER_NONE) {
            return "one who is to read does not";
        }
        if (w->owner.handing_over &&
            owner_deadline(&w->owner) < c->owners_due_us) {
            return "a hand-over comes before its time";
        }
        if (i < c->reads_at && w->reading != (w->owner.role != OWNER_NONE)) {
            return "a reading was not told of";
        }
        handing += w->owner.handing_over;
    }
    return handing != c->handing ? "hand-overs are counted wrong" : NULL;
}

static const char *
fault_of_claims(const struct cluster *c)
{
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        const struct cluster_claims *claims = &c->claims[i];

        if (claims->session == 0 && claims->workers != NULL) {
            return "claims are nobody's";
        }
        for (uint32_t k = 1; k < claims->count; k++) {
            if (claims->workers[k - 1] >= claims->workers[k]) {
                return "claims are out of order";
            }
        }
    }
    return NULL;
}

bool
cluster_check(const struct cluster *c, const char **reason)
{
    CHECK(reason != NULL);
    if (!member_check(c->members, reason) || !gossip_check(c->gossip, reason) ||
        !roster_check(c->roster, reason) ||
        !discover_check(&c->discover, reason)) {
        return false;
    }
    const char *fault = fault_of_peers(c);

    fault = fault != NULL ? fault : fault_of_workers(c);
    fault = fault != NULL ? fault : fault_of_claims(c);
    if (fault == NULL && c->hints_count > CLUSTER_HINTS_MAX) {
        fault = "too many hints wait";
    }
    *reason = fault;
    return fault == NULL;
}
