#include "node/peers/share.h"

#include "index/base/rng.h"

#define NODE_GAUGE UINT64_C(0x6b7661736972) /* no worker: the node's own rate */
#define RANK_SALT  UINT64_C(0x72616e6b00000000)
#define RATE_US    UINT64_C(500000) /* over which the rate is evened out */
/* A tenth more than gossip takes between two frames: what is told never waits
 * there for its turn while it grows old. */
#define TELL_US_PER_MS 1100U
#define UNSEEN_MS      8U /* from a decision until peers have it on the board */

/* A rank's gauge beside its worker's. */
static uint64_t
rank_identity(uint64_t worker, uint32_t rank)
{
    return rng_mix(worker ^ (RANK_SALT | rank));
}

static const struct fleet_view *
view_of(const struct share *share)
{
    return fleet_view_get(share->world.board);
}

static const struct mirror_view *
ranks_of(const struct share *share)
{
    return mirror_view_get(share->world.mirror_view);
}

/* Slots of the mirror whose worker is here and has several ranks. */
static struct worker_set
ranked_slots(const struct mirror_view *ranks, const struct fleet_view *view)
{
    struct worker_set slots;

    worker_set_clear(&slots);
    for (uint32_t i = 0; i < ranks->groups_count; i++) {
        WORKER_SET_EACH (slot, &ranks->groups[i].slots) {
            const struct fleet_worker *w = view->worker[ranks->owner[slot]];
            if (w != NULL && w->ranks > 1 &&
                ranks->generation[w->slot] == w->generation) {
                worker_set_add(&slots, slot);
            }
        }
    }
    return slots;
}

/* Blocks that a worker is known to hold: by its events, or else believed. */
static uint64_t
blocks_of(const struct share *share, uint32_t worker)
{
    const struct mirror_view *ranks = ranks_of(share);
    uint64_t blocks = 0;

    if (!worker_set_has(&ranks->workers, worker)) {
        return radix_worker_blocks(share->world.belief, worker);
    }
    for (uint32_t i = 0; i < ranks->groups_count; i++) {
        WORKER_SET_EACH (slot, &ranks->groups[i].slots) {
            if (ranks->owner[slot] == worker) {
                blocks += mirror_slot_blocks(share->world.mirror, slot);
            }
        }
    }
    return blocks;
}

static struct gossip_gauge
own_of(const struct share *share, uint32_t slot)
{
    const struct fleet_board *board = share->world.board;
    uint64_t blocks = blocks_of(share, slot);

    return (struct gossip_gauge){
        .inflight = gauge_read(&board->inflight[slot]),
        .queued_tokens = gauge_read(&board->queued_tokens[slot]),
        .blocks = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX,
    };
}

struct share_load
share_load(const struct share *share, uint32_t slot)
{
    const struct fleet_worker *worker = view_of(share)->worker[slot];
    struct share_load load = {.own = own_of(share, slot)};

    if (share->gossip != NULL && worker != NULL) {
        load.peers = gossip_gauge_others(share->gossip, worker->identity);
    }
    return load;
}

/* Telling */

/* Counters of workers that went are gone with them: a sum that fell says
 * nothing of what was sent since. */
static void
measure_rate(struct share *share, uint64_t now_us)
{
    uint64_t passed_us = now_us - share->told_us;
    const struct fleet_view *view = view_of(share);
    uint64_t requests = 0;

    WORKER_SET_EACH (slot, &view->present) {
        requests += counter_read(&share->world.board->counters[slot].requests);
    }
    if (passed_us != 0 && requests >= share->requests) {
        uint64_t sent = requests - share->requests;
        uint64_t weighed_us = passed_us < RATE_US ? passed_us : RATE_US;
        uint64_t now_milli = sent * UINT64_C(1000000000) / passed_us;
        share->rate_milli = (share->rate_milli * (RATE_US - weighed_us) +
                             now_milli * weighed_us) /
                            RATE_US;
    }
    share->requests = requests;
}

static void
tell(struct share *share, uint64_t identity, const struct gossip_gauge *gauge,
     uint64_t now_us)
{
    if (!gossip_gauge_set(share->gossip, identity, gauge, now_us)) {
        share->stats.gauges_failed++;
    }
}

static void
tell_own(struct share *share, uint64_t now_us)
{
    const struct fleet_view *view = view_of(share);
    const struct mirror_view *ranks = ranks_of(share);
    struct worker_set ranked = ranked_slots(ranks, view);

    measure_rate(share, now_us);
    struct gossip_gauge rate = {
        .inflight = (uint32_t)((share->rate_milli + 500) / 1000)};
    tell(share, NODE_GAUGE, &rate, now_us);
    WORKER_SET_EACH (slot, &view->present) {
        struct gossip_gauge gauge = own_of(share, slot);
        tell(share, view->identity[slot], &gauge, now_us);
    }
    WORKER_SET_EACH (slot, &ranked) {
        struct gossip_gauge gauge = {
            .inflight = gauge_read(&share->world.rank_inflight[slot])};
        uint64_t worker = view->identity[ranks->owner[slot]];
        tell(share, rank_identity(worker, ranks->rank[slot]), &gauge, now_us);
    }
    share->stats.rounds++;
}

/* Hearing */

static void
set_level(struct gauge *level, uint64_t value)
{
    gauge_set(level, value < INT32_MAX ? (int32_t)value : INT32_MAX);
}

static void
clear_board(struct share *share)
{
    gauge_set(&share->world.board->unseen, 0);
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        gauge_set(&share->world.board->peers[slot], 0);
        gauge_set(&share->world.board->peers_queued_tokens[slot], 0);
        gauge_set(&share->world.rank_peers[slot], 0);
    }
}

/* Slots without a worker stand at 0 for the next one. */
static void
put_ranks(struct share *share, const struct fleet_view *view)
{
    const struct mirror_view *ranks = ranks_of(share);
    struct worker_set ranked = ranked_slots(ranks, view);

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        uint32_t inflight = 0;
        if (worker_set_has(&ranked, slot)) {
            uint64_t worker = view->identity[ranks->owner[slot]];
            uint64_t rank = rank_identity(worker, ranks->rank[slot]);
            inflight = gossip_gauge_others(share->gossip, rank).inflight;
        }
        set_level(&share->world.rank_peers[slot], inflight);
    }
}

static void
put_peers(struct share *share)
{
    const struct fleet_view *view = view_of(share);
    struct fleet_board *board = share->world.board;
    uint64_t rate = gossip_gauge_others(share->gossip, NODE_GAUGE).inflight;

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        struct gossip_gauge others = {.inflight = 0};
        if (worker_set_has(&view->present, slot)) {
            others = gossip_gauge_others(share->gossip, view->identity[slot]);
        }
        set_level(&board->peers[slot], others.inflight);
        set_level(&board->peers_queued_tokens[slot], others.queued_tokens);
    }
    put_ranks(share, view);
    set_level(&board->unseen, (rate * UNSEEN_MS + 500) / 1000);
}

/* The shell's side */

void
share_init(struct share *share, const struct share_world *world)
{
    CHECK(world->board != NULL && world->belief != NULL);
    CHECK(world->mirror != NULL && world->mirror_view != NULL);
    CHECK(world->rank_inflight != NULL && world->rank_peers != NULL);
    *share = (struct share){.world = *world, .due_us = UINT64_MAX};
}

void
share_join(struct share *share, struct gossip *gossip, uint32_t gauge_ms,
           uint64_t now_us)
{
    CHECK(gauge_ms > 0);
    share->gossip = gossip;
    share->gauge_ms = gauge_ms;
    share->told_us = now_us;
    share->due_us = gossip != NULL ? now_us : UINT64_MAX;
    share->heard = 0;
    clear_board(share);
}

bool
share_tick(struct share *share, uint64_t now_us)
{
    bool due = now_us >= share->due_us;

    if (share->gossip == NULL) {
        return false;
    }
    if (due) {
        tell_own(share, now_us);
        share->told_us = now_us;
        share->due_us = now_us + (uint64_t)share->gauge_ms * TELL_US_PER_MS;
    }
    uint64_t heard = gossip_gauges_heard(share->gossip);
    uint64_t version = view_of(share)->version;
    if (heard != share->heard || version != share->view_heard) {
        share->heard = heard;
        share->view_heard = version;
        put_peers(share);
    }
    return due;
}

uint64_t
share_deadline(const struct share *share)
{
    return share->due_us;
}

/* Belief */

/* Whom to tell of; NULL: nobody is to be told, or it is gone. */
static const struct fleet_worker *
worker_of(const struct share *share, uint32_t slot, uint32_t generation)
{
    if (share->gossip == NULL || slot >= WORKERS_MAX) {
        return NULL;
    }
    const struct fleet_worker *worker = view_of(share)->worker[slot];

    return worker != NULL && worker->generation == generation ? worker : NULL;
}

void
share_learn(struct share *share, const struct fact_learn *fact, uint64_t now_us)
{
    const struct fleet_worker *worker =
        worker_of(share, fact->slot, fact->generation);

    CHECK(fact->kind == FACT_LEARN);
    if (worker == NULL) {
        return;
    }
    struct gossip_belief belief = {
        .worker = worker->identity,
        .root = fact->root,
        .parent = fact->root,
        .count = fact->count,
        .keys = fact->keys,
    };
    gossip_belief_add(share->gossip, &belief, now_us);
    share->stats.told++;
}

void
share_ended(struct share *share, uint32_t slot, uint32_t generation,
            uint64_t now_us)
{
    const struct fleet_worker *worker = worker_of(share, slot, generation);

    if (worker != NULL) {
        struct gossip_belief belief = {.worker = worker->identity,
                                       .ended = true};
        gossip_belief_add(share->gossip, &belief, now_us);
    }
}

/* The present worker of an identity, or WORKER_NONE. */
static uint32_t
slot_of(const struct fleet_view *view, uint64_t identity)
{
    WORKER_SET_EACH (slot, &view->present) {
        if (view->identity[slot] == identity) {
            return slot;
        }
    }
    return WORKER_NONE;
}

/* Expectations */

/* Whether lanes see this slot of the mirror as the worker's, of this rank. */
static bool
is_rank_of(const struct mirror_view *ranks, uint32_t slot,
           const struct fleet_worker *worker, uint32_t rank)
{
    return ranks->owner[slot] == worker->slot && ranks->rank[slot] == rank &&
           ranks->generation[worker->slot] == worker->generation;
}

/* The slot of the mirror where something can be expected of a worker's rank,
 * or WORKER_NONE. */
static uint32_t
rank_slot(const struct share *share, const struct fleet_worker *worker,
          uint32_t rank)
{
    const struct mirror_view *ranks = ranks_of(share);

    for (uint32_t i = 0; i < ranks->groups_count; i++) {
        WORKER_SET_EACH (slot, &ranks->groups[i].slots) {
            if (is_rank_of(ranks, slot, worker, rank)) {
                return expectations_is_open(share->world.expectations, slot)
                           ? slot
                           : WORKER_NONE;
            }
        }
    }
    return WORKER_NONE;
}

void
share_expect(struct share *share, const struct fact_learn *fact,
             uint64_t now_us)
{
    const struct fleet_worker *worker =
        worker_of(share, fact->owner, fact->generation);
    uint32_t rank = ranks_of(share)->rank[fact->slot];

    CHECK(fact->kind == FACT_EXPECT);
    if (worker == NULL || share->world.expectations == NULL ||
        rank_slot(share, worker, rank) != fact->slot) {
        return; /* nobody is to be told, or the slot is another's by now */
    }
    uint32_t known =
        expectations_depth(share->world.expectations, share->world.mirror,
                           fact->slot, fact->keys, fact->count);
    if (known < fact->count) {
        struct gossip_belief belief = {
            .worker = worker->identity,
            .rank = rank,
            .count = fact->count - known,
            .keys = fact->keys + known,
            .expected = true,
        };
        gossip_belief_add(share->gossip, &belief, now_us);
        share->stats.expected_told++;
    }
}

static void
hear_expected(struct share *share, const struct gossip_belief *belief,
              uint64_t now_us)
{
    uint32_t owner = slot_of(view_of(share), belief->worker);
    uint32_t slot = WORKER_NONE;

    if (owner != WORKER_NONE && share->world.expectations != NULL) {
        slot = rank_slot(share, view_of(share)->worker[owner], belief->rank);
    }
    if (slot == WORKER_NONE) {
        share->stats.unknown++;
        return;
    }
    expectations_add_missing(share->world.expectations, share->world.mirror,
                             slot, belief->keys, belief->count, now_us);
    share->stats.expected_heard++;
}

/* What peers tell */

/* A prompt that does not begin at its root hangs in the air here: nobody of
 * this version sends one. */
void
share_belief_out(struct share *share, const struct gossip_out *out,
                 uint64_t now_us)
{
    const struct gossip_belief *belief = &out->belief;
    uint32_t slot = slot_of(view_of(share), belief->worker);

    CHECK(out->kind == GOSSIP_BELIEF);
    if (belief->expected) {
        hear_expected(share, belief, now_us);
        return;
    }
    if (slot == WORKER_NONE || belief->from != 0) {
        share->stats.unknown++;
        return;
    }
    int outcome = radix_insert(share->world.belief, belief->root, belief->keys,
                               belief->count, slot, 0, now_us);
    if (outcome != 0) {
        share->stats.refused++;
    } else {
        share->stats.learned++;
    }
}
