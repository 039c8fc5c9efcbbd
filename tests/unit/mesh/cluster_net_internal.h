/* The inside of cluster_net.h. */
#ifndef TESTS_UNIT_MESH_CLUSTER_NET_INNER_H
#define TESTS_UNIT_MESH_CLUSTER_NET_INNER_H

#include "cluster_net.h"

#define MS UINT64_C(1000)

static inline bool
lives(const struct net *net, uint32_t host)
{
    return net->host[host].cluster != NULL;
}

static inline bool
runs(const struct net *net, uint32_t host)
{
    return lives(net, host) && net->now_us >= net->host[host].paused_until_us;
}

/* cluster_net_engine.c: replicas, and who reads engines */
uint32_t net_worker_of(uint64_t id);
void net_take_gossip(struct net *net, uint32_t host,
                     const struct gossip_out *out);
void net_take_read(struct net *net, uint32_t host, uint32_t worker, bool on);
void net_step_reader(struct net *net, uint32_t host, uint32_t worker,
                     uint32_t rank);
void net_step_unable(struct net *net, uint32_t host, uint32_t worker);
void net_publish(struct net *net, uint32_t worker, uint32_t rank);

#endif
