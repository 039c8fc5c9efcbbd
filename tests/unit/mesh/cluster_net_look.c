/* Questions of tests to the net: who knows whom, who agrees with whom. */
#include <stdio.h>
#include <string.h>

#include "cluster_net_internal.h"

uint32_t
net_living(const struct net *net)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        count += lives(net, i);
    }
    return count;
}

struct gossip_stats
net_gossip(const struct net *net, uint32_t host)
{
    struct gossip_stats stats;

    gossip_stats(cluster_gossip(net->host[host].cluster), &stats);
    return stats;
}

bool
net_status(const struct net *net, uint32_t host, uint32_t worker,
           struct gossip_status *status)
{
    struct gossip *gossip = cluster_gossip(net->host[host].cluster);

    for (uint32_t at = 0; gossip_status(gossip, at, status); at++) {
        if (status->stream.worker == net_worker_id(worker) &&
            status->stream.rank == 0) {
            return true;
        }
    }
    return false;
}

static bool
sees_all(const struct net *net, uint32_t host)
{
    const struct member_table *table = cluster_members(net->host[host].cluster);
    struct cluster_stats stats;

    cluster_stats(net->host[host].cluster, &stats);
    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        const char *name = lives(net, i)
                               ? cluster_peer_name(net->host[host].cluster,
                                                   net->host[i].session)
                               : NULL;
        if (lives(net, i) &&
            (name == NULL || strcmp(name, net->host[i].name) != 0)) {
            return false;
        }
    }
    return member_count_alive(table) == net_living(net) &&
           stats.peers_up + 1 == net_living(net);
}

bool
net_all_met(struct net *net)
{
    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        if (lives(net, i) && !sees_all(net, i)) {
            return false;
        }
    }
    return true;
}

static bool
is_equal(const struct net *net, uint32_t host, uint32_t worker, uint32_t rank)
{
    const struct net_replica *replica = &net->host[host].replica[worker][rank];

    return replica->complete && !replica->stale &&
           memcmp(replica->held, net->engine[worker][rank].held,
                  sizeof replica->held) == 0;
}

bool
net_all_equal(struct net *net)
{
    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        for (uint32_t w = 0; w < net->workers && lives(net, i); w++) {
            for (uint32_t rank = 0; rank < net->ranks && net->host[i].knows[w];
                 rank++) {
                if (!is_equal(net, i, w, rank)) {
                    return false;
                }
            }
        }
    }
    return true;
}

uint32_t
net_readers(const struct net *net, uint32_t worker)
{
    uint32_t bits = 0;

    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        bits |= (uint32_t)(lives(net, i) && net->host[i].reads[worker]) << i;
    }
    return bits;
}

/* How many are to read a worker that so many can reach. */
static uint32_t
wanted(const struct net *net, uint32_t able)
{
    uint32_t living = net_living(net);
    uint32_t count =
        living <= net->config.replicas_all ? living : net->config.replicas;

    return able < count ? able : count;
}

static bool
is_read(const struct net *net, uint32_t worker)
{
    uint32_t readers = net_readers(net, worker);
    uint32_t able = 0;
    uint32_t reading = 0;
    uint32_t knowing = 0;

    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        bool severed = net->host[i].engine_severed[worker];
        bool reads = (readers >> i & 1) != 0;
        able += lives(net, i) && !severed;
        knowing += lives(net, i) && net->host[i].knows[worker];
        reading += reads;
        if (reads && severed) {
            return false;
        }
    }
    return knowing == 0 ? reading == 0 : reading == wanted(net, able);
}

bool
net_all_read(struct net *net)
{
    for (uint32_t w = 0; w < net->workers; w++) {
        if (!is_read(net, w)) {
            return false;
        }
    }
    return true;
}

uint32_t
net_ranked(struct net *net, uint32_t by, uint32_t worker, uint32_t rank)
{
    const char *names[MEMBERS_MAX];
    uint32_t count = cluster_readers(net->host[by].cluster,
                                     net_worker_id(worker), names, MEMBERS_MAX);

    for (uint32_t i = 0; i < NET_HOSTS && rank < count; i++) {
        if (strcmp(net->host[i].name, names[rank]) == 0) {
            return i;
        }
    }
    return NET_HOSTS;
}

void
net_print(struct net *net)
{
    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        struct gossip_status s = {0};
        struct cluster_stats stats;
        if (!lives(net, i)) {
            continue;
        }
        cluster_stats(net->host[i].cluster, &stats);
        (void)fprintf(stderr, "  %s: alive %u, peers %u, %s\n",
                      net->host[i].name,
                      member_count_alive(cluster_members(net->host[i].cluster)),
                      stats.peers_up, cluster_ready_name(net->host[i].ready));
        for (uint32_t w = 0; w < net->workers; w++) {
            if (!net_status(net, i, w, &s)) {
                continue;
            }
            (void)fprintf(
                stderr,
                "    w%u: epoch %u/%llx pos %llu of %u known %llu%s%s%s%s%s "
                "first %u%s\n",
                w, s.epoch.no, (unsigned long long)s.epoch.id,
                (unsigned long long)(s.pos >> 8), net->engine[w][0].count,
                (unsigned long long)(s.pos_known >> 8),
                s.complete ? " complete" : "", s.stale ? " stale" : "",
                s.reads ? " leads" : "", s.follower ? " follows" : "",
                s.pushes ? " pushes" : "", net_ranked(net, i, w, 0),
                net->host[i].reads[w] ? " reading" : "");
        }
    }
}
