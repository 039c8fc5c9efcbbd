/* Checks that nothing exceeds its bound, and that a quiet mesh keeps
 * nothing. */
#include "chaos/sim/sim_bounds_internal.h"

#include "chaos/sim/sim_request_internal.h"
#include "chaos/sim/sim_router_internal.h"
#include "index/base/role.h"

/* A node at rest: its tables empty, and for each block of an engine. */
#define BYTES_EMPTY     (1U << 20)
#define BYTES_PER_BLOCK 1024U
#define RETIRED_MAX     64U /* of one piece of background work */

void
sim_bounds_draw(struct sim_world *w)
{
    struct rng *rng = &w->requests->rng;
    struct gossip_config *gossip = &w->config.gossip;

    gossip->belief_bytes = 512U << sim_below(rng, 8);
    gossip->log_bytes = 4096U << sim_below(rng, 7);
    gossip->logs_bytes_max = (size_t)16384U << sim_below(rng, 6);
    gossip->sends_max = 64U << sim_below(rng, 8);
    w->config.roster.entries_max = 4 + sim_below(rng, 4);
}

/* Bounds */

static const char *
check_mesh(struct sim_world *w, const struct sim_node *n)
{
    const struct cluster_config *config = &w->config;
    struct discover_stats discover;
    struct gossip_stats gossip;
    struct roster_stats roster;

    gossip_stats(cluster_gossip(n->cluster), &gossip);
    if (gossip.log_bytes > config->gossip.logs_bytes_max) {
        return "the logs are over their bound";
    }
    if (gossip.streams + gossip.tombstones > config->gossip.streams_max ||
        gossip.peers > config->gossip.peers_max) {
        return "too many streams or peers";
    }
    roster_stats(cluster_roster(n->cluster), &roster);
    if (roster.entries > config->roster.entries_max) {
        return "the roster is over its bound";
    }
    discover_stats(cluster_discover(n->cluster), &discover);
    if (discover.addresses > DISCOVER_ADDRESSES_MAX ||
        discover.names > DISCOVER_NAMES_MAX) {
        return "discovery is over its bound";
    }
    return member_count_alive(cluster_members(n->cluster)) > w->nodes_count + 1
               ? "too many members"
               : NULL;
}

static const char *
check_index(const struct sim_node *n)
{
    struct mirror_stats mirror;
    struct ledger_stats ledger;
    struct expectations_stats expected;
    struct radix_stats radix;

    mirror_stats(n->mirror, &mirror);
    ledger_stats(n->tools.ledger, &ledger);
    if (mirror.bytes > SIM_MIRROR_BYTES || ledger.bytes > SIM_LEDGER_BYTES) {
        return "an index is over its bound";
    }
    if (n->router == NULL) {
        return NULL;
    }
    expectations_stats(n->router->expectations, &expected);
    radix_stats(n->router->belief, &radix);
    return expected.bytes > SIM_EXPECTED_BYTES || radix.bytes > SIM_BELIEF_BYTES
               ? "an index of what is believed is over its bound"
               : NULL;
}

static const char *
check_links(const struct sim_world *w, uint32_t node)
{
    for (uint32_t to = 0; to < w->nodes_count; to++) {
        const struct sim_pipe *pipe = &w->pipes[node][to];
        if (pipe->channels[MESH_CTL].count > SIM_CTL_FRAMES ||
            pipe->channels[MESH_BULK].count > w->bulk_frames) {
            return "a queue to a peer is over its bound";
        }
    }
    return NULL;
}

const char *
sim_bounds_check(struct sim_world *w, uint32_t node)
{
    const struct sim_node *n = &w->nodes[node];
    const char *why = check_mesh(w, n);

    why = why != NULL ? why : check_index(n);
    return why != NULL ? why : check_links(w, node);
}

/* Rest */

uint64_t
sim_bounds_bytes(struct sim_world *w, uint32_t node)
{
    const struct sim_node *n = &w->nodes[node];
    struct gossip_stats gossip;
    struct mirror_stats mirror;
    struct ledger_stats ledger;
    struct expectations_stats expected = {.bytes = 0};
    struct radix_stats radix = {.bytes = 0};

    gossip_stats(cluster_gossip(n->cluster), &gossip);
    mirror_stats(n->mirror, &mirror);
    ledger_stats(n->tools.ledger, &ledger);
    if (n->router != NULL) {
        expectations_stats(n->router->expectations, &expected);
        radix_stats(n->router->belief, &radix);
    }
    return gossip.log_bytes + mirror.bytes + ledger.bytes + expected.bytes +
           radix.bytes;
}

/* Slots of removed streams are swept, and the rest holds what the streams
 * hold. */
static const char *
rest_of_index(struct sim_world *w, uint32_t node)
{
    role_is_control();
    const struct sim_node *n = &w->nodes[node];
    struct mirror_stats mirror;
    struct ledger_stats ledger;
    uint64_t held = 0;

    mirror_stats(n->mirror, &mirror);
    ledger_stats(n->tools.ledger, &ledger);
    for (uint32_t i = 0; i < w->engines_count; i++) {
        uint32_t slot = mirror_writer_slot(n->writer, i, 1, 0);
        held += slot != WORKER_NONE ? mirror_slot_blocks(n->mirror, slot) : 0;
    }
    if (mirror.sweeping != 0 || mirror.open > w->engines_count) {
        return "a slot of the mirror is left behind";
    }
    if (mirror.holder_blocks != held || mirror.bytes_retired != 0) {
        return "blocks in the mirror are left behind";
    }
    if (ledger.sweeping != 0 || ledger.open > w->engines_count) {
        return "names in the ledger are left behind";
    }
    return NULL;
}

static const char *
rest_of_belief(struct sim_world *w, uint32_t node)
{
    const struct sim_router *r = w->nodes[node].router;
    struct radix_stats radix;
    uint64_t believed = 0;

    if (r == NULL) {
        return NULL;
    }
    radix_stats(r->belief, &radix);
    for (uint32_t i = 0; i < w->engines_count; i++) {
        believed += radix_worker_blocks(r->belief, i);
    }
    if (radix.holder_blocks != believed ||
        believed > (uint64_t)w->engines_count * w->engine_blocks) {
        return "more is believed than engines can hold";
    }
    return NULL;
}

const char *
sim_bounds_rest(struct sim_world *w, uint32_t node)
{
    const struct sim_node *n = &w->nodes[node];
    struct gossip_stats gossip;
    uint64_t blocks = (uint64_t)w->engines_count * w->engine_blocks;

    gossip_stats(cluster_gossip(n->cluster), &gossip);
    if (gossip.streams != w->engines_count || gossip.tombstones != 0 ||
        gossip.peers + 1 != w->nodes_count) {
        return "gossip has streams or peers that are gone";
    }
    if (qsbr_pending(&n->qsbr) > RETIRED_MAX) {
        return "what was retired is not freed";
    }
    const char *why = rest_of_index(w, node);
    why = why != NULL ? why : rest_of_belief(w, node);
    uint64_t bytes = sim_bounds_bytes(w, node);
    uint64_t *most = &w->result->bytes_max;
    *most = bytes > *most ? bytes : *most;
    if (why == NULL &&
        bytes > BYTES_EMPTY + gossip.log_bytes + blocks * BYTES_PER_BLOCK) {
        why = "a node at rest holds more than it needs";
    }
    return why;
}
