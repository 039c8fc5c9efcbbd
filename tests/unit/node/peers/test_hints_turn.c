/* Two nodes of one mesh take turns. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/peers/hints.h"

#define NODES   2U
#define WORKERS 4U
#define MS      UINT64_C(1000)

struct node {
    struct qsbr qsbr;
    struct radix *belief;
    struct mirror *mirror;
    struct publish mirror_publish;
    struct mirror_view mirrors;
    struct fleet_models models;
    struct fleet_view view;
    struct fleet_board *board;
    struct gauge ranks[WORKERS_MAX];
    struct gauge rank_peers[WORKERS_MAX];
    struct gossip *gossip;
    struct hints hints;
};

static struct node nodes[NODES];
static uint64_t now_us;

static void
open_node(uint32_t at)
{
    struct node *n = &nodes[at];
    struct gossip_config config = gossip_config_default();
    struct radix_limits belief = {
        .bytes_max = (size_t)1 << 20, .namespaces_max = 8, .depth_max = 64};
    struct mirror_limits mirror = {.bytes_max = (size_t)1 << 20};

    qsbr_init(&n->qsbr);
    cr_assert_eq(radix_new(&n->belief, &belief, &n->qsbr), 0);
    cr_assert_eq(mirror_new(&n->mirror, &mirror, &n->qsbr), 0);
    n->board = aligned_alloc(64, (sizeof(*n->board) + 63) / 64 * 64);
    cr_assert_not_null(n->board);
    memset(n->board, 0, sizeof(*n->board));
    n->view = (struct fleet_view){.version = 1, .models = &n->models};
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        worker_set_add(&n->view.any_model, slot);
        n->view.identity[slot] = rng_mix(slot);
    }
    publish_set(&n->board->view, &n->view);
    publish_set(&n->mirror_publish, &n->mirrors);
    cr_assert_eq(gossip_new(&n->gossip, &config, at + 1, now_us, at), 0);
    struct hints_world world = {
        .board = n->board,
        .belief = n->belief,
        .mirror = n->mirror,
        .mirror_view = &n->mirror_publish,
        .rank_inflight = n->ranks,
        .rank_peers = n->rank_peers,
        .ticket = at + 5,
    };
    hints_init(&n->hints, &world);
    hints_join(&n->hints, n->gossip, config.gauge_ms, now_us);
}

static void
carry(uint32_t at)
{
    struct gossip_out out;

    while (gossip_next_out(nodes[at].gossip, &out)) {
        if (out.kind == GOSSIP_SEND) {
            cr_assert_eq(gossip_recv(nodes[1 - at].gossip, at + 1, out.bytes,
                                     out.len, now_us),
                         0);
        }
    }
}

static struct worker_set
mine(uint32_t at, uint64_t wall_ms)
{
    struct worker_set set;

    hints_turn(&nodes[at].hints, wall_ms);
    cr_assert_eq(fleet_board_turn(nodes[at].board, &set), FLEET_TURN_HELD);
    return set;
}

Test(node_hints_turn, nodes_that_hear_of_each_other_take_turns)
{
    struct worker_set none;

    now_us = 1000 * MS;
    for (uint32_t at = 0; at < NODES; at++) {
        open_node(at);
        nodes[at].view.present = nodes[at].view.any_model;
        hints_turn(&nodes[at].hints, 0);
        cr_assert_eq(fleet_board_turn(nodes[at].board, &none), FLEET_NO_TURN);
    }
    for (uint32_t at = 0; at < NODES; at++) {
        cr_assert_eq(gossip_peer_up(nodes[at].gossip, 2 - at, now_us), 0);
    }
    for (uint32_t i = 0; i < 200; i++, now_us += MS) {
        for (uint32_t at = 0; at < NODES; at++) {
            (void)hints_tick(&nodes[at].hints, now_us);
            gossip_tick(nodes[at].gossip, now_us);
            carry(at);
        }
    }
    for (uint64_t period = 0; period < 3; period++) {
        struct worker_set one = mine(0, period * TURNS_MS);
        struct worker_set other = mine(1, period * TURNS_MS + 7);
        struct worker_set both = worker_set_and(&one, &other);
        cr_assert_eq(worker_set_count(&one), WORKERS / NODES);
        cr_assert_eq(worker_set_count(&other), WORKERS / NODES);
        cr_assert(worker_set_empty(&both));
    }
    hints_join(&nodes[1].hints, NULL, 50, now_us);
    cr_assert_eq(fleet_board_turn(nodes[1].board, &none), FLEET_NO_TURN);
    for (uint32_t at = 0; at < NODES; at++) {
        gossip_free(nodes[at].gossip);
        radix_free(nodes[at].belief);
        mirror_free(nodes[at].mirror);
        free(nodes[at].board);
    }
}
