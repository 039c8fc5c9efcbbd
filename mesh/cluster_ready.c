/* Whether this node has caught up with the others. */
#include "mesh/cluster_internal.h"

const char *
cluster_ready_name(enum cluster_ready ready)
{
    static const char *const names[] = {
        [CLUSTER_CATCHING_UP] = "catching up",
        [CLUSTER_CAUGHT_UP] = "caught up",
        [CLUSTER_ALONE] = "alone",
        [CLUSTER_LATE] = "late",
    };

    CHECK(ready <= CLUSTER_LATE);
    return names[ready];
}

enum cluster_ready
cluster_ready(const struct cluster *c)
{
    CHECK(c->ready <= CLUSTER_LATE);
    return c->ready;
}

/* The roster was compared with a peer's. */
static bool
knows_workers(const struct cluster *c)
{
    struct roster_stats stats;

    roster_stats(c->roster, &stats);
    return stats.merged + stats.stale + stats.summaries_equal > 0;
}

/* A peer's vectors arrived after the last worker was added, and nothing is
 * missing. */
static bool
is_caught_up(const struct cluster *c)
{
    struct gossip_stats stats;

    if (c->stats.peers_up == 0) {
        return false;
    }
    gossip_stats(c->gossip, &stats);
    return stats.vectors_in + stats.summaries_equal > c->seen_at_add &&
           knows_workers(c) && gossip_is_level(c->gossip);
}

static bool
is_over(const struct cluster *c, uint32_t span_ms)
{
    CHECK(c->now_us >= c->born_us);
    return c->now_us - c->born_us >= (uint64_t)span_ms * 1000;
}

/* Joins are added between cluster_new() and the first tick. */
static bool
is_alone(const struct cluster *c)
{
    return !c->met && c->counted == 1 &&
           ((!c->joins && c->ticked) || is_over(c, c->config.alone_ms));
}

void
cluster_ready_update(struct cluster *c)
{
    CHECK(!c->left);
    if (c->ready == CLUSTER_CAUGHT_UP) {
        return;
    }
    if (is_caught_up(c)) { /* even after late or alone */
        c->ready = CLUSTER_CAUGHT_UP;
    } else if (c->ready != CLUSTER_CATCHING_UP) {
        return;
    } else if (is_alone(c)) {
        c->ready = CLUSTER_ALONE;
    } else if (is_over(c, c->config.ready_ms)) {
        c->ready = CLUSTER_LATE;
    }
    if (c->ready != CLUSTER_CATCHING_UP) {
        gossip_await(c->gossip, false, c->now_us);
    }
}

uint64_t
cluster_ready_deadline(const struct cluster *c)
{
    CHECK(c->born_us <= c->now_us);
    if (c->ready != CLUSTER_CATCHING_UP) {
        return UINT64_MAX;
    }
    if (!c->ticked) {
        return c->born_us;
    }
    uint32_t span_ms = !is_over(c, c->config.alone_ms) && !c->met
                           ? c->config.alone_ms
                           : c->config.ready_ms;
    return c->born_us + (uint64_t)span_ms * 1000;
}
