/* What must hold: at each step, and once all is quiet. */
#include <inttypes.h>
#include <stdio.h>

#include "chaos/sim/sim_bounds_internal.h"
#include "chaos/sim/sim_request_internal.h"
#include "chaos/sim/sim_roster_internal.h"
#include "chaos/sim/sim_router_internal.h"
#include "chaos/sim/sim_speed_internal.h"
#include "index/base/role.h"

#define CALM_US   UINT64_C(15000000)
#define DEEP_EACH 64U /* steps of a node */

static struct sim_stream *
followed(struct sim_world *w, uint32_t node, struct event_stream stream,
         uint32_t *engine)
{
    for (*engine = 0; *engine < w->engines_count; (*engine)++) {
        if (w->engines[*engine].stream.worker == stream.worker) {
            return &w->nodes[node].streams[*engine];
        }
    }
    return NULL;
}

/* Steps */

static void
check_forward(struct sim_world *w, uint32_t node, uint32_t engine,
              const struct gossip_status *s)
{
    struct sim_stream *f = &w->nodes[node].streams[engine];
    bool same = s->epoch.id == f->epoch.id;

    if (s->epoch.no < f->epoch.no ||
        (s->epoch.no == f->epoch.no && s->epoch.id < f->epoch.id)) {
        sim_fail(w, "an epoch went back", node, engine);
    }
    if (same && s->pos < f->pos && !s->stale && !s->transfers) {
        sim_fail(w, "a position went back", node, engine);
    }
    f->epoch = s->epoch;
    f->pos = s->pos;
}

/* Its reading is live, and can be repeated. */
static bool
is_steady(const struct sim_world *w, uint32_t node, uint32_t engine)
{
    const struct sim_stream *f = &w->nodes[node].streams[engine];

    return !f->rank.wrong && w->engines[engine].has_replay &&
           kv_stream_state_is_live(f->rank.read);
}

/* Nothing makes a node know less of a living engine that it reads itself. */
static void
check_kept(struct sim_world *w, uint32_t node, uint32_t engine,
           const struct gossip_status *s)
{
    struct sim_engine *e = &w->engines[engine];
    struct sim_stream *f = &w->nodes[node].streams[engine];
    bool steady = is_steady(w, node, engine) && !s->contested;
    bool knows =
        steady && s->reads && s->complete && s->epoch.id == sim_living(e)->id;

    if (steady && f->knew == f->begins + 1 && s->epoch.id != f->epoch.id &&
        f->epoch.id == sim_living(e)->id) {
        sim_fail(w, "a living reader gave up what it knew", node, engine);
    }
    f->knew = knows ? f->begins + 1 : 0;
}

/* A replica that says it is complete equals the engine's cache at that
 * batch. */
static void
check_truth(struct sim_world *w, uint32_t node, uint32_t engine,
            const struct gossip_status *s)
{
    const struct sim_engine *e = &w->engines[engine];
    const struct sim_node *n = &w->nodes[node];
    uint32_t process = sim_engine_process(e, s->epoch.id);
    uint64_t seq = s->pos >> 8;

    role_is_control();
    if (!s->complete || s->stale || (s->pos & 255) != 255 || s->transfers ||
        process == UINT32_MAX) {
        return;
    }
    if (seq >= e->processes[process].count) {
        sim_fail(w, "a position that never was", node, engine);
        return;
    }
    const struct sim_batch *truth = &e->processes[process].batches[seq];
    uint32_t slot = mirror_writer_whole_slot(n->writer, engine, 1, 0);
    if (slot != WORKER_NONE &&
        (mirror_slot_blocks(n->mirror, slot) != truth->count ||
         mirror_slot_digest(n->mirror, slot) != truth->xor_keys)) {
        sim_fail(w, "a complete replica is not the engine's cache", node,
                 engine);
    }
}

static void
check_deep(struct sim_world *w, uint32_t node)
{
    role_is_control();
    struct sim_node *n = &w->nodes[node];
    const char *reason = NULL;
    bool fine = cluster_check(n->cluster, &reason) &&
                gossip_check(cluster_gossip(n->cluster), &reason) &&
                mirror_writer_check(n->writer, &reason);

    for (uint32_t i = 0; i < w->engines_count && fine; i++) {
        fine = !n->readers[i].on ||
               kv_stream_check(n->readers[i].decoder.stream, &reason);
    }
    if (fine) {
        reason = sim_router_check(w, node);
        reason = reason != NULL ? reason : sim_bounds_check(w, node);
    }
    if (reason != NULL) {
        sim_fail(w, reason, node, UINT32_MAX);
    }
}

void
sim_check_node(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    struct gossip *gossip = cluster_gossip(n->cluster);
    struct gossip_status s;
    uint32_t engine;

    for (uint32_t at = 0; gossip_status(gossip, at, &s); at++) {
        if (followed(w, node, s.stream, &engine) != NULL) {
            check_kept(w, node, engine, &s);
            sim_known_look(w, node, engine, &s);
            check_forward(w, node, engine, &s);
            check_truth(w, node, engine, &s);
        }
    }
    sim_snapshot_check(w, node);
    if (++n->steps % DEEP_EACH == 0) {
        check_deep(w, node);
    }
}

/* A member that was heard all the time is not declared dead. */
static void
check_death(struct sim_world *w, uint32_t node,
            const struct member_update *about)
{
    const uint64_t rough = UINT64_C(1) << SIM_LOSS |
                           UINT64_C(1) << SIM_DATAGRAM |
                           UINT64_C(1) << SIM_JITTER | UINT64_C(1) << SIM_SLOW |
                           UINT64_C(1) << SIM_PAUSE | UINT64_C(1) << SIM_CLOCK |
                           UINT64_C(1) << SIM_DAY;
    uint32_t other = sim_net_node(w, about->address);
    uint64_t calm_us = w->time.now_us - w->disturbed_us;
    bool calm = (w->quiet || ((w->faults & rough) == 0 &&
                              (w->faults >> SIM_PARTITION & 1) == 0 &&
                              (w->faults >> SIM_ONEWAY & 1) == 0)) &&
                (calm_us > CALM_US || w->disturbed_us == 0);

    if (other != UINT32_MAX && w->nodes[other].up && calm &&
        member_id_equal(w->nodes[other].id, about->id)) {
        sim_fail(w, "a living node was declared dead", node, UINT32_MAX);
    }
}

void
sim_check_member(struct sim_world *w, uint32_t node,
                 const struct cluster_out *out)
{
    sim_trace(w, member_event_name(out->event), node,
              out->about.id.word[0] & 0xffff);
    sim_saw(w, SIM_SAW_SUSPECTED, out->event == MEMBER_SUSPECTED);
    sim_saw(w, SIM_SAW_DIED, out->event == MEMBER_DIED);
    sim_saw(w, SIM_SAW_REPLACED, out->event == MEMBER_REPLACED);
    if (out->event == MEMBER_DIED) {
        check_death(w, node, &out->about);
    } else if (out->event == MEMBER_DUPLICATE) {
        sim_fail(w, "a node was told to stop", node, UINT32_MAX);
    }
}

/* Whoever leaves has pushed all that it read. */
void
sim_check_left(struct sim_world *w, uint32_t node)
{
    struct gossip *gossip = cluster_gossip(w->nodes[node].cluster);
    struct gossip_status s;

    for (uint32_t at = 0; gossip_status(gossip, at, &s); at++) {
        if (s.waits) {
            sim_fail(w, "a node left with records that nobody was told", node,
                     UINT32_MAX);
        }
    }
}

/* Quiet */

/* Batches were lost for good somewhere: less is promised. */
static bool
is_gapped(const struct sim_world *w, uint32_t engine)
{
    const struct sim_engine *e = &w->engines[engine];

    return e->processes[e->processes_count - 1].gapped || !e->has_replay;
}

bool
sim_check_is_whole(const struct sim_world *w, uint32_t engine)
{
    const struct sim_engine *e = &w->engines[engine];

    return w->quiet && e->has_replay &&
           !e->processes[e->processes_count - 1].lost;
}

static const char *
check_stream(struct sim_world *w, uint32_t engine,
             const struct gossip_status *s, const struct gossip_status *first)
{
    struct sim_engine *e = &w->engines[engine];
    const struct sim_process *p = sim_living(e);

    if (s->epoch.id != first->epoch.id) {
        return "epochs differ";
    }
    if (s->pos != first->pos) {
        return "positions differ";
    }
    if (s->count != first->count || s->xor_keys != first->xor_keys) {
        return "digests differ";
    }
    if (s->complete != first->complete) {
        return "not all know whether it is complete";
    }
    if (s->stale || s->transfers) {
        return "a stream is stale";
    }
    if (!e->has_replay) {
        return NULL; /* losses at the very end show later */
    }
    if (p->count != 0 && p->batches[p->count - 1].bytes != NULL &&
        s->pos >> 8 != p->count - 1U) {
        return "not the engine's last batch";
    }
    if (p->count != 0 && p->batches[p->count - 1].bytes != NULL &&
        s->complete && s->digest_known &&
        (s->count != e->count || s->xor_keys != e->xor_keys)) {
        return "complete, and not the engine's cache";
    }
    if (p->count == 0 && s->epoch.no != 0 && s->epoch.id != KV_STREAM_EMPTY) {
        return "an empty engine is not known to be";
    }
    if (!p->lost && !s->complete && s->epoch.no != 0) {
        return "not complete";
    }
    return NULL;
}

static bool
status_of(const struct sim_world *w, uint32_t node, uint32_t engine,
          struct gossip_status *s)
{
    struct gossip *gossip = cluster_gossip(w->nodes[node].cluster);

    for (uint32_t at = 0; gossip_status(gossip, at, s); at++) {
        if (s->stream.worker == w->engines[engine].stream.worker) {
            return true;
        }
    }
    return false;
}

static const char *
check_streams(struct sim_world *w)
{
    struct gossip_status first;
    struct gossip_status s;

    for (uint32_t engine = 0; engine < w->engines_count; engine++) {
        CHECK(status_of(w, 0, engine, &first));
        for (uint32_t node = 0; node < w->nodes_count; node++) {
            CHECK(status_of(w, node, engine, &s));
            const char *why = check_stream(w, engine, &s, &first);
            const struct ingest_rank *rank =
                &w->nodes[node].streams[engine].rank;
            if (why == NULL && s.epoch.no != 0 &&
                w->engines[engine].has_replay &&
                !kv_stream_state_is_live(rank->told)) {
                why = "the mirror writer was told otherwise";
            }
            if (why != NULL) {
                return why;
            }
        }
    }
    return NULL;
}

/* Where everybody is, into the trace. */
void
sim_check_print(struct sim_world *w)
{
    struct gossip_status s;

    for (uint32_t i = 0; i < w->engines_count * w->nodes_count; i++) {
        uint32_t engine = i / w->nodes_count;
        uint32_t node = i % w->nodes_count;
        const struct sim_process *p = sim_living(&w->engines[engine]);
        const struct sim_stream *f = &w->nodes[node].streams[engine];
        if (w->options.trace == NULL || !w->nodes[node].up ||
            !status_of(w, node, engine, &s)) {
            continue;
        }
        (void)fprintf(w->options.trace,
                      "engine %u id %016" PRIx64 " count %u replay %d; node %u "
                      "epoch %u %016" PRIx64 " pos %" PRIu64 ".%" PRIu64
                      "%s%s%s%s; blocks %" PRIu64 " %016" PRIx64
                      "; names %d %" PRIu64 "; reads %d state %d told %d\n",
                      engine, p->id, p->count, w->engines[engine].has_replay,
                      node, s.epoch.no, s.epoch.id, s.pos >> 8, s.pos & 255,
                      s.complete ? " complete" : "", s.stale ? " stale" : "",
                      s.follower ? " follows" : "", s.reads ? " leads" : "",
                      s.count, s.xor_keys, s.names_known, s.names_pos >> 8,
                      f->reach.takes, (int)f->rank.read, (int)f->rank.told);
    }
}

static const char *
check_readers(struct sim_world *w)
{
    uint32_t all = w->nodes_count;
    uint32_t wanted = all <= w->config.replicas_all ? all : w->config.replicas;

    wanted = wanted < all ? wanted : all;
    for (uint32_t engine = 0; engine < w->engines_count; engine++) {
        uint32_t count = 0;
        for (uint32_t node = 0; node < all; node++) {
            count += w->nodes[node].streams[engine].reach.takes;
        }
        if (count != wanted) {
            return "not as many readers as there should be";
        }
    }
    return NULL;
}

const char *
sim_check_agreed(struct sim_world *w)
{
    uint64_t roster = 0;

    for (uint32_t node = 0; node < w->nodes_count; node++) {
        const struct sim_node *n = &w->nodes[node];
        struct cluster_stats stats;
        if (!sim_runs(w, node)) {
            return "a node does not run";
        }
        cluster_stats(n->cluster, &stats);
        if (member_count_alive(cluster_members(n->cluster)) != w->nodes_count ||
            stats.peers_up + 1 != w->nodes_count) {
            return "not all have met";
        }
        uint64_t digest = roster_digest(cluster_roster(n->cluster));
        if (node > 0 && digest != roster) {
            return "workers differ";
        }
        roster = digest;
        if (n->ready == CLUSTER_CATCHING_UP) {
            return "a node is not ready";
        }
    }
    const char *why = check_streams(w);
    why = why != NULL ? why : check_readers(w);
    why = why != NULL ? why : sim_roster_check(w);
    for (uint32_t i = 0; why == NULL && i < w->nodes_count; i++) {
        why = sim_bounds_rest(w, i);
    }
    why = why != NULL ? why : sim_speed_quiet(w);
    return why != NULL ? why : sim_request_quiet(w);
}

/* At the end: the index in whole, key by key. */

static bool
holds_page(const struct sim_engine *e, const struct event_words *page)
{
    for (uint32_t at = 0; at < page->count;) {
        uint32_t keys = event_op_count(page->words[at]);
        for (uint32_t i = 0; i < keys; i++) {
            if (!sim_engine_holds(e, page->words[at + 1 + i])) {
                return false;
            }
        }
        at += 1 + keys;
    }
    return true;
}

/* Never more than the engine holds. */
static void
check_subset(struct sim_world *w, uint32_t node, uint32_t engine)
{
    role_is_control();
    const struct sim_node *n = &w->nodes[node];
    uint32_t slot = mirror_writer_slot(n->writer, engine, 1, 0);
    uint64_t cursor = 0;

    if (slot == WORKER_NONE || is_gapped(w, engine)) {
        return;
    }
    while (cursor != MIRROR_PAGE_END) {
        struct event_words page = {.words = n->ingest->page,
                                   .max = GOSSIP_PAGE_WORDS};
        cursor = mirror_page(n->mirror, slot, cursor, &page);
        if (!holds_page(&w->engines[engine], &page)) {
            sim_fail(w, "a block is credited that is not held", node, engine);
            return;
        }
    }
}

void
sim_check_all(struct sim_world *w)
{
    const char *reason = NULL;

    for (uint32_t node = 0; node < w->nodes_count; node++) {
        struct sim_node *n = &w->nodes[node];
        check_deep(w, node);
        if (!mirror_check(n->mirror, &reason) ||
            !ledger_check(n->tools.ledger, &reason)) {
            sim_fail(w, reason, node, UINT32_MAX);
        }
        for (uint32_t engine = 0; engine < w->engines_count; engine++) {
            check_subset(w, node, engine);
            sim_names_check(w, node, engine);
        }
    }
}
