/* Nodes whose hints speak by gossip alone. */
#ifndef TESTS_UNIT_NODE_PEERS_GOSSIP_RIG_H
#define TESTS_UNIT_NODE_PEERS_GOSSIP_RIG_H

#include <criterion/criterion.h>
#include <string.h>

#include "index/base/role.h"
#include "node/peers/hints.h"

#define NODES 3U
#define MS    UINT64_C(1000)

static struct hints nodes[NODES];
static uint64_t now_us;

/* All frames go to their peers, whose id is one above their place. */
static inline void
carry(uint32_t at)
{
    role_is_control();
    struct gossip_out out;

    while (gossip_next_out(nodes[at].gossip, &out)) {
        if (out.kind == GOSSIP_SEND && nodes[out.peer - 1].gossip != NULL) {
            int rc = gossip_recv(nodes[out.peer - 1].gossip, at + 1, out.bytes,
                                 out.len, now_us);
            cr_assert(rc == 0 || rc == GOSSIP_E_STRANGER);
        }
    }
}

static inline void
pass(uint32_t ms)
{
    for (uint32_t i = 0; i < ms; i++) {
        now_us += MS;
        for (uint32_t at = 0; at < NODES; at++) {
            gossip_tick(nodes[at].gossip, now_us);
        }
        for (uint32_t at = 0; at < NODES * 2; at++) {
            carry(at % NODES);
        }
    }
}

/* Nodes that are no peers yet. */
static inline void
rig_start(void)
{
    struct gossip_config config = gossip_config_default();

    memset(nodes, 0, sizeof(nodes));
    now_us = 1000 * MS;
    for (uint32_t at = 0; at < NODES; at++) {
        cr_assert_eq(gossip_new(&nodes[at].gossip, &config, at + 1, now_us, at),
                     0);
    }
}

static inline void
link_up(uint32_t at, uint32_t peer)
{
    cr_assert_eq(gossip_peer_up(nodes[at].gossip, peer + 1, now_us), 0);
}

/* The first so many are peers of each other, and have spoken. */
static inline void
link_all(uint32_t count)
{
    for (uint32_t at = 0; at < count; at++) {
        for (uint32_t peer = 0; peer < count; peer++) {
            if (peer != at) {
                link_up(at, peer);
            }
        }
    }
    pass(200);
}

static inline void
teardown(void)
{
    for (uint32_t at = 0; at < NODES; at++) {
        gossip_free(nodes[at].gossip);
    }
}

#endif
