/* A node: the cores of `kvasir serve`, and around them what its shells do. */
#include <stdio.h>
#include <stdlib.h>

#include "chaos/sim/sim_dns_internal.h"
#include "chaos/sim/sim_router_internal.h"
#include "chaos/sim/sim_scale_internal.h"
#include "chaos/sim/sim_tenants_internal.h"
#include "index/base/role.h"

/* A reading's held messages come out at once, each as a record. */
#define ITEMS_BYTES ((size_t)1 << 22)
#define WORDS       4096U
#define WORK_MS     50U
#define LOOK_US     UINT64_C(1000000)
#define BUDGET      4096U

/* Kinds of what is on islands. */
#define ISLANDS_OF_NODES   UINT64_C(0x100)
#define ISLANDS_OF_ENGINES UINT64_C(0x200)

static uint32_t
number_of(const struct sim_node *n)
{
    return (uint32_t)(n - n->world->nodes);
}

/* Streams: their requests and reports */

static void
want_work(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];

    if (!n->working) {
        n->working = true;
        sim_add(w, w->time.now_us, SIM_EV_WORK, node, n->life);
    }
}

static void
on_said(void *context, const struct ingest_rank *rank,
        const struct gossip_out *out)
{
    struct sim_node *n = context;
    uint32_t node = number_of(n);
    uint32_t engine = rank->worker;

    if (out->kind == GOSSIP_RESET) {
        sim_trace(n->world, "reset", sim_reader_of(node, engine),
                  out->epoch.no);
        n->streams[engine].pos = 0; /* the epoch may be applied once more */
        sim_snapshot_reset(n->world, node, engine, out->epoch);
    }
    if (out->kind == GOSSIP_STATE) {
        sim_saw(n->world, SIM_SAW_CONTESTED, out->contested);
        sim_saw(n->world, SIM_SAW_INCOMPLETE, !out->complete);
    }
}

static void
on_did(void *context, struct ingest_rank *rank, unsigned did)
{
    struct sim_node *n = context;

    if ((did & INGEST_ASKED) != 0) {
        sim_intake_reread(n->world, number_of(n), rank->worker, rank->ask,
                          rank->prove);
    }
    if ((did & INGEST_RESUMES) != 0) {
        sim_intake_hand(n->world, number_of(n), rank->worker);
        want_work(n->world, number_of(n));
    }
    if ((did & INGEST_TOLD) != 0) {
        sim_snapshot_told(n->world, number_of(n), rank->worker);
    }
    if ((did & INGEST_VIEW) != 0) {
        want_work(n->world, number_of(n));
    }
}

static void
on_lost(void *context, const struct ingest_rank *rank, const char *reason)
{
    struct sim_node *n = context;

    (void)reason;
    sim_trace(n->world, "lost", number_of(n), rank->worker);
}

static void
on_read(void *context, uint32_t worker, bool on)
{
    struct sim_node *n = context;

    sim_intake_read(n->world, number_of(n), worker, on);
}

/* The network */

static void
look_up(struct sim_world *w, uint32_t node, const struct discover_out *out)
{
    struct sim_message message = {.socket = out->ticket};

    (void)message;
    sim_add(w, w->time.now_us + 2 * SIM_MS + rng_below(&w->rng, 5000),
            SIM_EV_ANSWER, node | (uint32_t)(w->nodes[node].life << 8),
            out->ticket);
}

static void
on_out(void *context, const struct cluster_out *out)
{
    struct sim_node *n = context;
    struct sim_world *w = n->world;
    uint32_t node = number_of(n);

    switch ((int)out->kind) {
    case CLUSTER_SEND:
        sim_send(w, node, out);
        break;
    case CLUSTER_DROP:
        sim_net_drop(w, node, out->address);
        break;
    case CLUSTER_RESOLVE:
        look_up(w, node, &out->discover);
        break;
    case CLUSTER_MEMBER:
        sim_check_member(w, node, out);
        break;
    case CLUSTER_READY:
        n->ready = out->ready;
        sim_saw(w, SIM_SAW_LEVEL, out->ready == CLUSTER_CAUGHT_UP);
        break;
    default:
        CHECK(out->kind == CLUSTER_NEWS);
    }
}

static void
on_doubt(void *context, const char *address)
{
    struct sim_node *n = context;
    char copy[SIM_ADDRESS_BYTES];

    (void)snprintf(copy, sizeof copy, "%s", address);
    sim_net_doubt(n->world, number_of(n), copy);
}

static void
on_fault(void *context, enum hub_fault fault, uint64_t worker)
{
    struct sim_node *n = context;

    (void)fault;
    (void)worker;
    sim_fail(n->world, "the hub left something undone", number_of(n),
             UINT32_MAX);
}

static void
arm(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    uint64_t due = hub_deadline(n->hub);
    uint64_t now = sim_now(w, node);

    if (due == SIM_NEVER) {
        return;
    }
    uint64_t at = w->time.now_us + (due > now ? due - now : 0);
    if (at < n->armed_us) {
        n->armed_us = at;
        sim_add(w, at, SIM_EV_NODE, node, n->life);
    }
}

void
sim_node_pull(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];

    role_is_control();
    do {
        hub_pull(n->hub, sim_now(w, node));
    } while (sim_router_look(w, node));
    arm(w, node);
    sim_check_node(w, node);
}

/* Items of readings */

void
sim_node_want(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];

    if (!n->items_armed) {
        n->items_armed = true;
        sim_add(w, w->time.now_us + rng_below(&w->rng, 1000), SIM_EV_ITEMS,
                node, n->life);
    }
}

void
sim_node_items(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    const struct intake_item *item;
    size_t size;

    role_is_control();
    n->items_armed = false;
    while ((item = ring_peek(&n->items, &size)) != NULL) {
        struct sim_stream *f = &n->streams[item->worker];
        bool taken = f->reach.takes && f->number == item->reading;
        f->begins += taken && item->kind == INTAKE_BEGIN;
        if ((taken || item->kind == INTAKE_CUT) &&
            !sim_snapshot_item(w, node, item)) {
            ingest_stream_item(n->ingest, &f->rank, item,
                               (const void *)(item + 1), sim_now(w, node));
        }
        ring_consume(&n->items);
    }
    sim_node_pull(w, node);
}

/* Background work */

static void
work(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    bool looks = sim_now(w, node) - n->looked_us >= LOOK_US;

    role_is_control();
    n->working = false;
    if (mirror_writer_work(n->writer, BUDGET)) {
        want_work(w, node);
    }
    if (sim_intake_hand_work(w, node) && !n->working) {
        n->working = true;
        sim_add(w, w->time.now_us + SIM_MS, SIM_EV_WORK, node, n->life);
    }
    sim_router_work(w, node);
    sim_scale_turn(w, node);
    (void)ledger_work(n->tools.ledger, BUDGET);
    (void)qsbr_reclaim(&n->qsbr);
    ingest_streams_heal(n->ingest, looks, sim_now(w, node));
    if (looks) {
        n->looked_us = sim_now(w, node);
        n->ingest->caught_up = n->ready == CLUSTER_CAUGHT_UP;
    }
    for (uint32_t i = 0; i < w->engines_count; i++) {
        if (looks) {
            sim_intake_look(w, node, i);
        }
        ingest_stream_tell(n->ingest, &n->streams[i].rank);
    }
    sim_node_pull(w, node);
}

/* Beginning */

static void
open_index(struct sim_world *w, struct sim_node *n)
{
    struct mirror_limits mirror = {.bytes_max = SIM_MIRROR_BYTES};
    struct ledger_limits ledger = {.bytes_max = SIM_LEDGER_BYTES};
    struct mirror_writer_limits writer = {
        .stale_permille = 500,
        .accuracy = {.answers_min = 16,
                     .wrong_permille = 300,
                     .reread_ms = 1000,
                     .discount_permille = 500}};

    memset(&n->qsbr, 0, sizeof n->qsbr);
    qsbr_init(&n->qsbr);
    CHECK(mirror_new(&n->mirror, &mirror, &n->qsbr) == 0);
    CHECK(mirror_writer_new(&n->writer, &writer, n->mirror, &n->qsbr,
                            &n->view) == 0);
    CHECK(ledger_new(&n->tools.ledger, &ledger) == 0);
    n->tools.reader = w->decoder;
    n->tools.record_words_max = WORDS;
    words_init(&n->tools.names.words, (size_t)4 * WORDS);
    n->tools.words.max = WORDS;
    n->tools.words.words = malloc(WORDS * sizeof(uint64_t));
    CHECK(n->tools.words.words != NULL);
    CHECK(ring_init(&n->items, ITEMS_BYTES) == 0);
    n->ingest = calloc(1, sizeof *n->ingest);
    CHECK(n->ingest != NULL);
}

/* Where a node or an engine is, alike in all of its lives; some tell nothing. */
static const char *
island_of(const struct sim_world *w, uint64_t what, uint32_t which)
{
    static const char *const labels[] = {"", "eu/fra", "eu/par", "us", "us"};
    uint64_t drawn = rng_mix(w->options.seed ^ rng_mix(what + which));

    return sim_has(w, SIM_ISLAND)
               ? labels[drawn % (sizeof labels / sizeof *labels)]
               : "";
}

static void
open_cluster(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    struct member_self self = {
        .id = {{rng_next(&w->draw) | 1, rng_next(&w->draw)}}};
    const struct hub_network network = {
        .context = n, .out = on_out, .doubt = on_doubt, .fault = on_fault};
    const struct ingest_sink sink = {.context = n,
                                     .said = on_said,
                                     .did = on_did,
                                     .lost = on_lost,
                                     .read = on_read};
    struct discover_join join;

    n->id = self.id;
    memcpy(self.name, n->name, sizeof n->name);
    memcpy(self.address, n->address, sizeof n->address);
    (void)snprintf(self.island, sizeof self.island, "%s",
                   island_of(w, ISLANDS_OF_NODES, node));
    CHECK(hub_new(&n->hub, &w->config, &self, &network, sim_now(w, node),
                  rng_next(&w->draw)) == 0);
    n->cluster = hub_cluster(n->hub);
    CHECK(discover_parse(SLICE("dns:mesh.example:7946"), &join) == NULL);
    CHECK(cluster_join(n->cluster, &join, sim_now(w, node)) == 0);
    n->ingest->hub = n->hub;
    n->ingest->writer = n->writer;
    n->ingest->mirror = n->mirror;
    ingest_streams_init(n->ingest, &sink);
    n->ingest->page_words = w->page_words;
}

static void
add_worker(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_node *n = &w->nodes[node];
    const struct island_path island =
        island_path_of(slice_of(island_of(w, ISLANDS_OF_ENGINES, engine)));
    const struct ingest_source source = {
        .identity = w->engines[engine].stream.worker,
        .generation = 1,
        .ranks = 1,
        .replays = w->engines[engine].has_replay,
        .rank = &n->streams[engine].rank,
    };

    role_is_control();
    CHECK(ingest_streams_add(n->ingest, engine, &source) == 0);
    CHECK(cluster_worker_add(n->cluster, w->engines[engine].stream.worker, 1,
                             &island, sim_now(w, node)) == 0);
}

void
sim_node_start(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    bool severed[SIM_ENGINES_MAX];

    CHECK(!n->up);
    memcpy(severed, n->severed, sizeof severed);
    memset(n, 0, sizeof *n);
    memcpy(n->severed, severed, sizeof severed);
    (void)snprintf(n->name, sizeof n->name, "n%u", node);
    (void)snprintf(n->address, sizeof n->address, "10.0.0.%u:7946", node + 1);
    n->world = w;
    n->up = true;
    n->life = ++w->lives;
    n->clock_us = (int64_t)rng_below(&w->draw, UINT64_C(1) << 40);
    n->born_us = w->time.now_us;
    n->armed_us = SIM_NEVER;
    sim_trace(w, "start", node, n->life);
    open_index(w, n);
    open_cluster(w, node);
    for (uint32_t i = 0; i < w->engines_count; i++) {
        add_worker(w, node, i);
    }
    sim_router_start(w, node);
    sim_scale_node_start(w, node);
    sim_snapshot_start(w, node);
    sim_add(w, w->time.now_us + WORK_MS * SIM_MS, SIM_EV_WORK, node,
            n->life | UINT64_C(1) << 63);
    role_is_control();
    hub_start(n->hub, sim_now(w, node));
    sim_node_pull(w, node);
}

/* Ending */

void
sim_node_count(struct sim_world *w, uint32_t node)
{
    struct gossip_stats s;
    const struct member_stats *m =
        member_stats(cluster_members(w->nodes[node].cluster));

    gossip_stats(cluster_gossip(w->nodes[node].cluster), &s);
    sim_saw(w, SIM_SAW_PULLED, s.pulls_answered);
    sim_saw(w, SIM_SAW_PULL_LOST, s.pulls_lost);
    sim_saw(w, SIM_SAW_TRANSFERRED, s.transfers_done);
    sim_saw(w, SIM_SAW_MINTED, s.epochs_minted);
    sim_saw(w, SIM_SAW_ADOPTED, s.epochs_adopted);
    sim_saw(w, SIM_SAW_REREAD, s.rereads);
    sim_saw(w, SIM_SAW_TAKEOVER, s.takeovers);
    sim_saw(w, SIM_SAW_FOLLOWED, s.dropped_follower);
    sim_saw(w, SIM_SAW_OLD_DROPPED, s.dropped_old);
    sim_saw(w, SIM_SAW_EPOCH_DROPPED, s.dropped_epoch);
    sim_saw(w, SIM_SAW_REFUTED, m->refutations);
    sim_saw(w, SIM_SAW_WOKEN, m->woken);
}

void
sim_node_kill(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];

    CHECK(n->up);
    sim_trace(w, "kill", node, n->life);
    sim_node_count(w, node);
    for (uint32_t i = 0; i < w->engines_count; i++) {
        sim_intake_stop(w, node, i);
    }
    sim_net_gone(w, node);
    sim_router_end(w, node);
    sim_scale_node_gone(w, node);
    sim_snapshot_stop(w, node);
    hub_free(n->hub);
    mirror_writer_free(n->writer);
    mirror_free(n->mirror);
    qsbr_fini(&n->qsbr);
    ledger_free(n->tools.ledger);
    words_fini(&n->tools.names.words);
    free(n->tools.words.words);
    ring_fini(&n->items);
    names_clear(&n->ingest->twin.table, &n->ingest->twin.room);
    free(n->ingest);
    n->up = false;
    n->paused_us = 0;
    sim_known_gone(w, node);
}

void
sim_node_leave(struct sim_world *w, uint32_t node, uint64_t away_ms)
{
    role_is_control();
    hub_leave(w->nodes[node].hub, sim_now(w, node));
    sim_check_left(w, node);
    sim_node_kill(w, node);
    sim_add(w, w->time.now_us + away_ms * SIM_MS, SIM_EV_START, node, 0);
}

/* Events */

void
sim_node_pause(struct sim_world *w, uint32_t node, uint64_t ms)
{
    struct sim_node *n = &w->nodes[node];

    sim_trace(w, "pause", node, ms);
    n->paused_us = w->time.now_us + ms * SIM_MS;
    sim_net_silence(w, node);
    sim_add(w, n->paused_us, SIM_EV_RESUME, node, n->life);
}

static void
tick(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];

    n->armed_us = SIM_NEVER;
    role_is_control();
    if (hub_deadline(n->hub) <= sim_now(w, node)) {
        hub_tick(n->hub, sim_now(w, node));
    }
    sim_node_pull(w, node);
}

static void
take(struct sim_world *w, const struct virtual_event *event, uint32_t node)
{
    uint64_t periodic = event->what >> 63;

    switch ((int)event->kind) {
    case SIM_EV_NODE:
        if (w->nodes[node].armed_us <= w->time.now_us) {
            tick(w, node);
        }
        break;
    case SIM_EV_WORK:
        work(w, node);
        if (periodic != 0) {
            sim_add(w, w->time.now_us + WORK_MS * SIM_MS, SIM_EV_WORK, node,
                    event->what);
        }
        break;
    case SIM_EV_ITEMS:
        sim_node_items(w, node);
        break;
    case SIM_EV_TAKE:
    case SIM_EV_DISK:
    case SIM_EV_LEDGER:
        sim_snapshot_event(w, event);
        break;
    default:
        w->nodes[node].paused_us = 0;
        w->disturbed_us = w->time.now_us;
        sim_desk_disturbed(w, node);
        tick(w, node);
        break;
    }
}

void
sim_node_event(struct sim_world *w, const struct virtual_event *event)
{
    uint32_t node = event->who & 255;
    struct sim_node *n = &w->nodes[node];

    if (event->kind == SIM_EV_START) {
        if (!n->up) {
            sim_node_start(w, node);
        }
        return;
    }
    bool mine = event->kind == SIM_EV_ANSWER
                    ? event->who >> 8 == (n->life & 0xffffff)
                    : (event->what & ~(UINT64_C(1) << 63)) == n->life;
    if (!n->up || !mine) {
        return;
    }
    if (!sim_runs(w, node) && event->kind != SIM_EV_RESUME) {
        sim_add(w, n->paused_us + 1, (enum sim_event)event->kind, event->who,
                event->what);
        return;
    }
    if (event->kind == SIM_EV_ANSWER) {
        sim_dns_answer(w, node, event->what);
    } else {
        take(w, event, node);
    }
}
