/* Clearings of the cache of answers: to gossip, and back. */
#include "node/peers/hints_clears.h"

/* "clears"; the rows of a place follow it, two each. A clearing's number is in
 * all of its rows, so that one that was told in part is seen to be. */
#define COUNT_ROW UINT64_C(0x636c65617273)

enum {
    OF_TENANTS = 1,
    OF_MODELS = 2,
};

static uint64_t
tenant_row(uint32_t number)
{
    return COUNT_ROW + 1 + UINT64_C(2) * (number % HINTS_CLEARS_MAX);
}

static bool
tell(struct hints *hints, uint64_t row, const struct gossip_gauge *gauge,
     uint64_t now_us)
{
    bool told = gossip_gauge_set(hints->gossip, row, gauge, now_us);

    hints->stats.gauges_failed += !told;
    return told;
}

uint32_t
hints_tell_clear(struct hints *hints, struct hints_clears *clears,
                 const struct answers_which *which, uint64_t now_us)
{
    uint32_t number = ++clears->told;
    uint32_t flags =
        (which->tenants ? OF_TENANTS : 0U) | (which->models ? OF_MODELS : 0U);
    uint32_t peers = 0;

    if (hints->gossip == NULL) {
        return 0;
    }
    const struct gossip_gauge rows[3] = {
        {.inflight = number, .blocks = flags, .queued_tokens = which->tenant},
        {.inflight = number, .queued_tokens = which->model},
        {.inflight = number},
    };
    (void)tell(hints, tenant_row(number), &rows[0], now_us);
    (void)tell(hints, tenant_row(number) + 1, &rows[1], now_us);
    if (!tell(hints, COUNT_ROW, &rows[2], now_us)) {
        return 0;
    }
    gossip_gauges_flush(hints->gossip, now_us);
    for (uint32_t place = 0; place < GOSSIP_PEERS_MAX; place++) {
        struct gossip_gauge_peer peer;
        peers += gossip_gauge_of(hints->gossip, place, COUNT_ROW, &peer);
    }
    return peers;
}

/* What that number was; everything, where that is not known. */
static struct answers_which
which_of(const struct hints *hints, uint32_t place, uint32_t number)
{
    struct answers_which which = {.tenants = false};
    struct gossip_gauge_peer tenant;
    struct gossip_gauge_peer model;

    if (gossip_gauge_of(hints->gossip, place, tenant_row(number), &tenant) &&
        gossip_gauge_of(hints->gossip, place, tenant_row(number) + 1, &model) &&
        tenant.gauge.inflight == number && model.gauge.inflight == number) {
        which.tenants = (tenant.gauge.blocks & OF_TENANTS) != 0;
        which.models = (tenant.gauge.blocks & OF_MODELS) != 0;
        which.tenant = tenant.gauge.queued_tokens;
        which.model = model.gauge.queued_tokens;
    }
    return which;
}

/* How many of its clearings were done: none, of a new peer. One that was linked
 * anew may have another place, and whose that was may be linked later. */
static uint32_t *
done_of(struct hints_clears *clears, uint32_t place, uint64_t peer)
{
    const struct hints_clears_done before = clears->heard[place];
    uint32_t at = 0;
    uint32_t spare = 0;

    while (at < GOSSIP_PEERS_MAX && clears->heard[at].peer != peer) {
        at++;
    }
    while (spare < GOSSIP_PEERS_MAX && clears->heard[spare].peer != 0) {
        spare++;
    }
    if (at < GOSSIP_PEERS_MAX) {
        clears->heard[place] = clears->heard[at];
        clears->heard[at] = before;
        return &clears->heard[place].done;
    }
    if (spare < GOSSIP_PEERS_MAX) {
        clears->heard[spare] = before;
    }
    clears->heard[place] = (struct hints_clears_done){.peer = peer};
    return &clears->heard[place].done;
}

bool
hints_hear_clear(const struct hints *hints, struct hints_clears *clears,
                 struct hints_clears_heard *heard)
{
    if (hints->gossip == NULL ||
        clears->looked_at == gossip_gauges_heard(hints->gossip)) {
        return false;
    }
    for (uint32_t place = 0; place < GOSSIP_PEERS_MAX; place++) {
        struct gossip_gauge_peer peer;
        if (!gossip_gauge_of(hints->gossip, place, COUNT_ROW, &peer)) {
            continue;
        }
        uint32_t *done = done_of(clears, place, peer.peer);
        if (peer.gauge.inflight <= *done) {
            continue;
        }
        bool lost = peer.gauge.inflight - *done > HINTS_CLEARS_MAX;
        *done = lost ? peer.gauge.inflight : *done + 1;
        heard->peer = peer.peer;
        heard->which = lost ? (struct answers_which){.tenants = false}
                            : which_of(hints, place, *done);
        return true;
    }
    clears->looked_at = gossip_gauges_heard(hints->gossip);
    return false;
}
