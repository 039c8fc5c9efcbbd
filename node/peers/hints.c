/* Load, decisions and expectations: from lanes to gossip, and from gossip to
 * the board, the belief and the expectations. */
#include "node/peers/hints.h"

#include "index/base/rng.h"
#include "index/base/role.h"
#include "node/view/accuracy.h"

#define RANK_SALT     UINT64_C(0x72616e6b00000000)
#define OPEN_SALT     UINT64_C(0x6f70656e00000000)
#define FILES_SALT    UINT64_C(0x66696c6573000000)
#define DISTRUST_SALT UINT64_C(0x646973740000)
#define RATE_US       UINT64_C(500000) /* over which the rate is evened out */
/* A tenth longer than gossip waits between two frames: so gauges never wait
 * there and grow old. */
#define TELL_US_PER_MS 1100U
#define UNSEEN_MS      8U /* from a decision until peers have it on the board */

/* A rank's gauge beside its worker's. */
static uint64_t
rank_identity(uint64_t worker, uint32_t rank)
{
    return rng_mix(worker ^ (RANK_SALT | rank));
}

/* The gauge of files of that version; 0: of any files. */
static uint64_t
files_identity(uint64_t version)
{
    return rng_mix(version ^ FILES_SALT);
}

/* The gauge of what files of that version make of requests of that way. */
static uint64_t
distrust_identity(uint64_t version, uint32_t way)
{
    return rng_mix(rng_mix(version ^ DISTRUST_SALT) + way);
}

/* The gauge of its breaker. */
static uint64_t
open_identity(uint64_t worker)
{
    return rng_mix(worker ^ OPEN_SALT);
}

static const struct fleet_view *
view_of(const struct hints *hints)
{
    return fleet_view_get(hints->world.board);
}

static const struct mirror_view *
ranks_of(const struct hints *hints)
{
    return mirror_view_get(hints->world.mirror_view);
}

/* Slots of the mirror whose worker is present and has several ranks. */
static struct worker_set
ranked_slots(const struct mirror_view *ranks, const struct fleet_view *view)
{
    struct worker_set slots;

    CHECK(ranks->groups_count <= MIRROR_GROUPS_MAX);
    worker_set_clear(&slots);
    for (uint32_t i = 0; i < ranks->groups_count; i++) {
        WORKER_SET_EACH (slot, &ranks->groups[i].slots) {
            CHECK(ranks->owner[slot] < WORKERS_MAX);
            const struct fleet_worker *w = view->worker[ranks->owner[slot]];
            if (w != NULL && w->ranks > 1 &&
                ranks->generation[w->slot] == w->generation) {
                worker_set_add(&slots, slot);
            }
        }
    }
    return slots;
}

/* Blocks that a worker holds: by its events, or otherwise as believed. */
static uint64_t
blocks_of(const struct hints *hints, uint32_t worker)
{
    const struct mirror_view *ranks = ranks_of(hints);
    uint64_t blocks = 0;

    CHECK(worker < WORKERS_MAX);
    if (!worker_set_has(&ranks->workers, worker)) {
        return radix_worker_blocks(hints->world.belief, worker);
    }
    for (uint32_t i = 0; i < ranks->groups_count; i++) {
        WORKER_SET_EACH (slot, &ranks->groups[i].slots) {
            if (ranks->owner[slot] == worker) {
                blocks += mirror_slot_blocks(hints->world.mirror, slot);
            }
        }
    }
    return blocks;
}

static struct gossip_gauge
own_of(const struct hints *hints, uint32_t slot)
{
    const struct fleet_board *board = hints->world.board;
    uint64_t blocks = blocks_of(hints, slot);

    return (struct gossip_gauge){
        .inflight = gauge_read(&board->inflight[slot]),
        .queued_tokens = gauge_read(&board->queued_tokens[slot]),
        .blocks = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX,
    };
}

struct hints_load
hints_load(const struct hints *hints, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    const struct fleet_worker *worker = view_of(hints)->worker[slot];
    struct hints_load load = {.own = own_of(hints, slot)};

    if (hints->gossip != NULL && worker != NULL) {
        load.peers = gossip_gauge_others(hints->gossip, worker->identity);
    }
    return load;
}

/* Telling */

/* Counters of workers that went are gone with them: a sum that fell says
 * nothing about requests sent since. */
static void
measure_rate(struct hints *hints, uint64_t now_us)
{
    uint64_t passed_us = now_us - hints->told_us;
    const struct fleet_view *view = view_of(hints);
    uint64_t requests = 0;

    WORKER_SET_EACH (slot, &view->present) {
        requests += counter_read(&hints->world.board->counters[slot].requests);
    }
    if (passed_us != 0 && requests >= hints->requests) {
        uint64_t sent = requests - hints->requests;
        uint64_t weighed_us = passed_us < RATE_US ? passed_us : RATE_US;
        uint64_t now_milli = sent * UINT64_C(1000000000) / passed_us;
        hints->rate_milli = (hints->rate_milli * (RATE_US - weighed_us) +
                             now_milli * weighed_us) /
                            RATE_US;
    }
    hints->requests = requests;
}

static void
tell(struct hints *hints, uint64_t identity, const struct gossip_gauge *gauge,
     uint64_t now_us)
{
    CHECK(hints->gossip != NULL);
    if (!gossip_gauge_set(hints->gossip, identity, gauge, now_us)) {
        hints->stats.gauges_failed++;
    }
}

/* Nothing is told of files that there never were. */
static void
tell_files(struct hints *hints, uint64_t now_us)
{
    struct gossip_gauge none = {.inflight = 0};
    struct gossip_gauge one = {.inflight = 1};

    if (hints->files_told != 0 && hints->files_told != hints->files) {
        tell(hints, files_identity(hints->files_told), &none, now_us);
        tell(hints, files_identity(0), &none, now_us);
    }
    hints->files_told = hints->files;
    if (hints->files != 0) {
        tell(hints, files_identity(hints->files), &one, now_us);
        tell(hints, files_identity(0), &one, now_us);
    }
}

/* Gauges of breakers that were never open are not made. */
static void
tell_open(struct hints *hints, const struct fleet_view *view, uint64_t now_us)
{
    struct worker_set open = worker_set_or(&view->open, &view->ejected);

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        uint64_t now = worker_set_has(&open, slot) ? view->identity[slot] : 0;
        struct gossip_gauge gauge = {.inflight = 0};
        if (hints->open[slot] != now && hints->open[slot] != 0) {
            tell(hints, open_identity(hints->open[slot]), &gauge, now_us);
        }
        hints->open[slot] = now;
        if (now != 0) {
            gauge.inflight = 1;
            tell(hints, open_identity(now), &gauge, now_us);
        }
    }
}

static void
tell_workers(struct hints *hints, const struct fleet_view *view,
             uint64_t now_us)
{
    hints->soon_us = UINT64_MAX;
    hints->workers_told_us = now_us;
    WORKER_SET_EACH (slot, &view->present) {
        struct gossip_gauge gauge = own_of(hints, slot);
        tell(hints, view->identity[slot], &gauge, now_us);
        hints->queued_told[slot] = (uint32_t)gauge.queued_tokens;
    }
}

static void
tell_own(struct hints *hints, uint64_t now_us)
{
    const struct fleet_view *view = view_of(hints);
    const struct mirror_view *ranks = ranks_of(hints);
    struct worker_set ranked = ranked_slots(ranks, view);

    measure_rate(hints, now_us);
    struct gossip_gauge rate = {
        .inflight = (uint32_t)((hints->rate_milli + 500) / 1000),
        .queued_tokens = hints->world.ticket};
    tell(hints, HINTS_NODE_GAUGE, &rate, now_us);
    tell_workers(hints, view, now_us);
    WORKER_SET_EACH (slot, &ranked) {
        struct gossip_gauge gauge = {
            .inflight = gauge_read(&hints->world.rank_inflight[slot])};
        uint64_t worker = view->identity[ranks->owner[slot]];
        tell(hints, rank_identity(worker, ranks->rank[slot]), &gauge, now_us);
    }
    tell_open(hints, view, now_us);
    tell_files(hints, now_us);
    hints->stats.rounds++;
}

/* Hearing */

static void
set_level(struct gauge *level, uint64_t value)
{
    gauge_set(level, value < INT32_MAX ? (int32_t)value : INT32_MAX);
}

static void
clear_board(struct hints *hints)
{
    gauge_set(&hints->world.board->unseen, 0);
    gauge_set(&hints->world.board->turn, FLEET_NO_TURN);
    moment_put(&hints->world.board->moment, 0, 1);
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        gauge_set(&hints->world.board->peers[slot], 0);
        gauge_set(&hints->world.board->peers_open[slot], 0);
        gauge_set(&hints->world.board->peers_queued_tokens[slot], 0);
        gauge_set(&hints->world.rank_peers[slot], 0);
    }
}

/* Slots without a worker stand at 0 for the next one. */
static void
put_ranks(struct hints *hints, const struct fleet_view *view)
{
    const struct mirror_view *ranks = ranks_of(hints);
    struct worker_set ranked = ranked_slots(ranks, view);

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        uint32_t inflight = 0;
        if (worker_set_has(&ranked, slot)) {
            uint64_t worker = view->identity[ranks->owner[slot]];
            uint64_t rank = rank_identity(worker, ranks->rank[slot]);
            inflight = gossip_gauge_others(hints->gossip, rank).inflight;
        }
        set_level(&hints->world.rank_peers[slot], inflight);
    }
}

static void
put_peers(struct hints *hints, uint64_t now_us)
{
    const struct fleet_view *view = view_of(hints);
    struct fleet_board *board = hints->world.board;
    CHECK(hints->gossip != NULL);
    uint64_t rate =
        gossip_gauge_others(hints->gossip, HINTS_NODE_GAUGE).inflight;

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        struct gossip_gauge others = {.inflight = 0};
        uint32_t open = 0;
        if (worker_set_has(&view->present, slot)) {
            others = gossip_gauge_others(hints->gossip, view->identity[slot]);
            open = gossip_gauge_others(hints->gossip,
                                       open_identity(view->identity[slot]))
                       .inflight;
        }
        set_level(&board->peers_open[slot], open);
        set_level(&board->peers[slot], others.inflight);
        set_level(
            &board->peers_queued_tokens[slot],
            twice_less(&hints->twice, slot, others.queued_tokens, now_us));
    }
    put_ranks(hints, view);
    set_level(&board->unseen, (rate * UNSEEN_MS + 500) / 1000);
}

void
hints_set_files(struct hints *hints, uint64_t version)
{
    hints->files = version;
}

uint32_t
hints_files_differ(const struct hints *hints)
{
    if (hints->gossip == NULL || hints->files == 0) {
        return 0;
    }
    uint32_t any =
        gossip_gauge_others(hints->gossip, files_identity(0)).inflight;
    uint32_t same =
        gossip_gauge_others(hints->gossip, files_identity(hints->files))
            .inflight;

    return any > same ? any - same : 0;
}

void
hints_tell_distrust(struct hints *hints, uint64_t version, uint32_t way,
                    uint64_t now_us)
{
    struct gossip_gauge one = {.inflight = 1};

    if (hints->gossip != NULL) {
        tell(hints, distrust_identity(version, way), &one, now_us);
    }
}

bool
hints_hears_distrust(const struct hints *hints, uint64_t version, uint32_t way)
{
    return hints->gossip != NULL &&
           gossip_gauge_others(hints->gossip, distrust_identity(version, way))
                   .inflight != 0;
}

/* The shell's side */

void
hints_init(struct hints *hints, const struct hints_world *world)
{
    CHECK(world->board != NULL && world->belief != NULL);
    CHECK(world->mirror != NULL && world->mirror_view != NULL);
    CHECK(world->rank_inflight != NULL && world->rank_peers != NULL);
    *hints = (struct hints){
        .world = *world, .due_us = UINT64_MAX, .soon_us = UINT64_MAX};
}

void
hints_join(struct hints *hints, struct gossip *gossip, uint32_t gauge_ms,
           uint64_t now_us)
{
    CHECK(gauge_ms > 0);
    hints->gossip = gossip;
    hints->gauge_ms = gauge_ms;
    hints->told_us = now_us;
    hints->due_us = gossip != NULL ? now_us : UINT64_MAX;
    hints->soon_us = UINT64_MAX;
    hints->heard = 0;
    clear_board(hints);
}

bool
hints_tick(struct hints *hints, uint64_t now_us)
{
    bool due = now_us >= hints->due_us;

    if (hints->gossip == NULL) {
        return false;
    }
    if (due) {
        tell_own(hints, now_us);
        hints->told_us = now_us;
        hints->due_us = now_us + (uint64_t)hints->gauge_ms * TELL_US_PER_MS;
    } else if (now_us >= hints->soon_us) {
        tell_workers(hints, view_of(hints), now_us);
        gossip_gauges_flush(hints->gossip, now_us);
        hints->stats.soon++;
    }
    uint64_t heard = gossip_gauges_heard(hints->gossip);
    uint64_t version = view_of(hints)->version;
    if (heard != hints->heard || version != hints->view_heard) {
        hints->heard = heard;
        hints->view_heard = version;
        put_peers(hints, now_us);
    }
    return due;
}

uint64_t
hints_deadline(const struct hints *hints)
{
    return hints->soon_us < hints->due_us ? hints->soon_us : hints->due_us;
}

/* Belief */

/* The worker to tell peers of; NULL: there are no peers, or the worker is
 * gone. */
static const struct fleet_worker *
worker_of(const struct hints *hints, uint32_t slot, uint32_t generation)
{
    if (hints->gossip == NULL || slot >= WORKERS_MAX) {
        return NULL;
    }
    const struct fleet_worker *worker = view_of(hints)->worker[slot];

    return worker != NULL && worker->generation == generation ? worker : NULL;
}

/* One request more or less is open at the worker. */
static void
tell_request(struct hints *hints, uint32_t slot, uint32_t generation,
             bool ended, uint64_t now_us)
{
    const struct fleet_worker *worker = worker_of(hints, slot, generation);

    if (worker != NULL) {
        struct gossip_belief belief = {.worker = worker->identity,
                                       .ended = ended};
        gossip_belief_add(hints->gossip, &belief, now_us);
    }
}

/* The slot's worker was sent a prompt: if it is a long one, peers are not to wait
 * until the next gauges are due. */
static void
tell_soon(struct hints *hints, uint32_t slot, uint64_t now_us)
{
    uint32_t told = hints->queued_told[slot];
    uint32_t queued = gauge_read(&hints->world.board->queued_tokens[slot]);
    uint64_t soon_us = hints->workers_told_us + HINTS_SOON_US;

    CHECK(slot < WORKERS_MAX);
    if (hints->gossip != NULL && hints->soon_us == UINT64_MAX &&
        queued >= HINTS_SOON_TOKENS && queued - HINTS_SOON_TOKENS >= told) {
        hints->soon_us = soon_us > now_us ? soon_us : now_us;
    }
}

void
hints_sent(struct hints *hints, const struct fact_learn *fact, uint64_t now_us)
{
    CHECK(fact->kind == FACT_LEARN);
    tell_request(hints, fact->slot, fact->generation, false, now_us);
    tell_soon(hints, fact->slot, now_us);
}

void
hints_ended(struct hints *hints, uint32_t slot, uint32_t generation,
            uint64_t now_us)
{
    tell_request(hints, slot, generation, true, now_us);
}

void
hints_learn(struct hints *hints, const struct fact_learn *fact, uint64_t now_us)
{
    const struct fleet_worker *worker =
        worker_of(hints, fact->slot, fact->generation);

    CHECK(fact_is_belief(fact->kind));
    CHECK(fact->count > 0 && fact->count <= FACT_KEYS_MAX);
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
    hints_ended(hints, fact->slot, fact->generation, now_us);
    gossip_belief_add(hints->gossip, &belief, now_us);
    hints->stats.told++;
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
    CHECK(slot < WORKERS_MAX && worker->slot < WORKERS_MAX);
    return ranks->owner[slot] == worker->slot && ranks->rank[slot] == rank &&
           ranks->generation[worker->slot] == worker->generation;
}

/* The slot of the mirror where something can be expected of a worker's rank,
 * or WORKER_NONE. */
static uint32_t
rank_slot(const struct hints *hints, const struct fleet_worker *worker,
          uint32_t rank)
{
    const struct mirror_view *ranks = ranks_of(hints);

    for (uint32_t i = 0; i < ranks->groups_count; i++) {
        WORKER_SET_EACH (slot, &ranks->groups[i].slots) {
            if (is_rank_of(ranks, slot, worker, rank)) {
                return expectations_is_open(hints->world.expectations, slot)
                           ? slot
                           : WORKER_NONE;
            }
        }
    }
    return WORKER_NONE;
}

/* To peers: the fact's blocks after the first `known`; none where the slot
 * belongs to another worker by now. */
static bool ON_CONTROL
tell_expected(struct hints *hints, const struct fact_learn *fact,
              uint32_t known, uint32_t flag, uint64_t now_us)
{
    CHECK(fact->slot < WORKERS_MAX && fact->owner < WORKERS_MAX);
    CHECK(fact->kind == FACT_EXPECT || fact->kind == FACT_DECIDED);
    CHECK(fact->count <= FACT_KEYS_MAX);
    const struct fleet_worker *worker =
        worker_of(hints, fact->owner, fact->generation);
    uint32_t rank = ranks_of(hints)->rank[fact->slot];

    if (worker == NULL || hints->world.expectations == NULL ||
        rank_slot(hints, worker, rank) != fact->slot || known >= fact->count) {
        return false;
    }
    struct gossip_belief belief = {
        .worker = worker->identity,
        .rank = rank | flag,
        .count = fact->count - known,
        .keys = fact->keys + known,
        .expected = true,
    };
    gossip_belief_add(hints->gossip, &belief, now_us);
    return true;
}

void
hints_expect(struct hints *hints, const struct fact_learn *fact,
             uint64_t now_us)
{
    if (worker_of(hints, fact->owner, fact->generation) == NULL ||
        hints->world.expectations == NULL) {
        return;
    }
    uint32_t known =
        expectations_depth(hints->world.expectations, hints->world.mirror,
                           fact->slot, fact->keys, fact->count);
    CHECK(known <= fact->count);
    if (tell_expected(hints, fact, known, 0, now_us)) {
        hints->stats.expected_told++;
    }
}

void
hints_take_back(struct hints *hints, const struct fact_learn *fact,
                uint32_t known, uint64_t now_us)
{
    (void)tell_expected(hints, fact, known, HINTS_TAKEN_BACK, now_us);
}

void
hints_prove(struct hints *hints, const struct fact_learn *fact, uint64_t now_us)
{
    (void)tell_expected(hints, fact, 0, HINTS_PROVED, now_us);
}

void
hints_disprove(struct hints *hints, const struct fact_learn *fact,
               uint32_t known, uint64_t now_us)
{
    (void)tell_expected(hints, fact, known, HINTS_PROVED | HINTS_TAKEN_BACK,
                        now_us);
}

/* An answer proved the blocks to a peer, or disproved them. A proof that comes
 * after the engine cleared its cache is of no use: all is known by then. */
static void ON_CONTROL
hear_proof(struct hints *hints, const struct gossip_belief *belief,
           uint32_t slot, uint64_t now_us)
{
    struct expectations *e = hints->world.expectations;

    if ((belief->rank & HINTS_TAKEN_BACK) != 0) {
        expectations_disprove(e, slot, belief->keys, belief->count);
    } else if (ranks_of(hints)->trust_permille[slot] <= ACCURACY_PARTIAL) {
        expectations_prove(e, slot, belief->keys, belief->count, now_us);
    }
    hints->stats.proofs_heard++;
}

static void ON_CONTROL
tell_text(struct hints *hints, const struct fact_learn *fact, uint32_t known,
          uint32_t flag, uint64_t now_us)
{
    const struct fleet_worker *worker =
        worker_of(hints, fact->slot, fact->generation);

    CHECK(fact_is_belief(fact->kind) && known < fact->count);
    if (worker != NULL) {
        struct gossip_belief belief = {
            .worker = worker->identity,
            .rank = HINTS_TEXT | flag,
            .count = fact->count - known,
            .keys = fact->keys + known,
            .expected = true,
        };
        gossip_belief_add(hints->gossip, &belief, now_us);
    }
}

void
hints_expect_text(struct hints *hints, const struct fact_learn *fact,
                  uint32_t known, uint64_t now_us)
{
    tell_text(hints, fact, known, 0, now_us);
}

void
hints_take_back_text(struct hints *hints, const struct fact_learn *fact,
                     uint32_t known, uint64_t now_us)
{
    tell_text(hints, fact, known, HINTS_TAKEN_BACK, now_us);
}

static void ON_CONTROL
hear_text(struct hints *hints, const struct gossip_belief *belief,
          uint64_t now_us)
{
    uint32_t slot = slot_of(view_of(hints), belief->worker);
    struct expectations *text = hints->world.text;

    if (slot == WORKER_NONE || text == NULL ||
        !expectations_admit(text, slot)) {
        hints->stats.unknown++;
    } else if ((belief->rank & HINTS_TAKEN_BACK) != 0) {
        expectations_take_back(text, slot, belief->keys, belief->count);
        hints->stats.taken_back++;
    } else {
        expectations_add(text, slot, belief->keys, belief->count, now_us);
        hints->stats.expected_heard++;
    }
}

/* Of these blocks some were on their way to that rank already. */
static void ON_CONTROL
hear_twice(struct hints *hints, const struct gossip_belief *belief,
           uint32_t owner, uint32_t slot, uint64_t now_us)
{
    const struct mirror_view *ranks = ranks_of(hints);
    uint64_t known =
        expectations_depth(hints->world.expectations, hints->world.mirror, slot,
                           belief->keys, belief->count);

    for (uint32_t i = 0; i < ranks->groups_count && known != 0; i++) {
        if (worker_set_has(&ranks->groups[i].slots, slot)) {
            twice_add(&hints->twice, owner,
                      known * shape_tokens(ranks->groups[i].grain), now_us);
            hints->heard = UINT64_MAX; /* the board is behind */
        }
    }
    turns_heard(&hints->turns, known != 0);
}

static void ON_CONTROL
hear_expected(struct hints *hints, const struct gossip_belief *belief,
              uint64_t now_us)
{
    uint32_t owner = slot_of(view_of(hints), belief->worker);
    uint32_t rank = belief->rank & ~(HINTS_TAKEN_BACK | HINTS_PROVED);
    uint32_t slot = WORKER_NONE;

    if ((belief->rank & HINTS_TEXT) != 0) {
        hear_text(hints, belief, now_us);
        return;
    }
    if (owner != WORKER_NONE && hints->world.expectations != NULL) {
        slot = rank_slot(hints, view_of(hints)->worker[owner], rank);
    }
    if (slot == WORKER_NONE) {
        hints->stats.unknown++;
        return;
    }
    if ((belief->rank & HINTS_PROVED) != 0) {
        hear_proof(hints, belief, slot, now_us);
        return;
    }
    if (rank != belief->rank) {
        expectations_take_back(hints->world.expectations, slot, belief->keys,
                               belief->count);
        hints->stats.taken_back++;
        return;
    }
    hear_twice(hints, belief, owner, slot, now_us);
    expectations_add_missing(hints->world.expectations, hints->world.mirror,
                             slot, belief->keys, belief->count, now_us);
    hints->stats.expected_heard++;
}

void
hints_decided(struct hints *hints, const struct fact_learn *fact,
              uint64_t now_us)
{
    CHECK(fact->kind == FACT_DECIDED);
    (void)tell_expected(hints, fact, 0, HINTS_DECIDED, now_us);
}

/* A peer's prompt has its place in the order of decisions. */
static void ON_CONTROL
hear_decided(struct hints *hints, const struct gossip_belief *belief,
             uint64_t now_us)
{
    const struct fleet_view *view = view_of(hints);
    uint32_t owner = slot_of(view, belief->worker);
    uint32_t slot = owner != WORKER_NONE && hints->world.expectations != NULL
                        ? rank_slot(hints, view->worker[owner],
                                    belief->rank & ~HINTS_DECIDED)
                        : WORKER_NONE;

    if (slot == WORKER_NONE || hints->world.decided == NULL) {
        hints->stats.unknown++;
        return;
    }
    decided_add(hints->world.decided, slot, belief->keys, belief->count,
                now_us);
    hints->stats.decided_heard++;
}

/* What peers tell */

/* A prompt that does not begin at its root has no place here: no node of this
 * version sends one. */
void
hints_belief_out(struct hints *hints, const struct gossip_out *out,
                 uint64_t now_us)
{
    const struct gossip_belief *belief = &out->belief;
    uint32_t slot = slot_of(view_of(hints), belief->worker);

    CHECK(out->kind == GOSSIP_BELIEF);
    if (belief->expected && (belief->rank & HINTS_DECIDED) != 0) {
        hear_decided(hints, belief, now_us);
        return;
    }
    if (belief->expected) {
        hear_expected(hints, belief, now_us);
        return;
    }
    if (slot == WORKER_NONE || belief->from != 0) {
        hints->stats.unknown++;
        return;
    }
    int outcome = radix_insert(hints->world.belief, belief->root, belief->keys,
                               belief->count, slot, 0, now_us);
    if (hints->world.text != NULL &&
        expectations_is_open(hints->world.text, slot)) {
        expectations_learned(hints->world.text, slot, belief->keys,
                             belief->count);
    }
    if (outcome != 0) {
        hints->stats.refused++;
    } else {
        hints->stats.learned++;
    }
}

static void ON_CONTROL
on_out(void *context, const struct gossip_out *out, uint64_t now_us)
{
    hints_belief_out(context, out, now_us);
}

void
hints_attach(struct hints *hints, struct hub *hub)
{
    const struct hub_hints consumer = {.context = hints, .out = on_out};

    hub_attach_hints(hub, &consumer);
}
