/*
 * Load by origin. A frame of gauges is a run of msgpack maps
 * (index/base/pack.h). The first map is a head: v, the version, and all, which
 * says that a worker without a row is at zero. Then a row for each worker: w
 * worker, f requests in flight, b blocks held, q tokens queued. Zeros may be
 * left out.
 */
#include <stdlib.h>
#include <string.h>

#include "gossip/gossip_internal.h"
#include "index/base/pack.h"

#define ROW_BYTES 40U /* at most, per row */

/* Rows are found by an index behind them: places, each with a row's number and
 * one more, or 0. A row that was given to another worker leaves its place, which
 * is passed over until too many are taken. */
static uint32_t
index_size(const struct gossip *g)
{
    uint32_t size = 16;

    CHECK(g->config.workers_max < UINT16_MAX);
    while (size < 2 * g->config.workers_max) {
        size *= 2;
    }
    return size;
}

bool
gossip_gauges_open(struct gossip *g, struct gossip_origin *origin)
{
    size_t rows = g->config.workers_max * sizeof *origin->rows;

    if (origin->rows != NULL) {
        return true;
    }
    origin->index_size = index_size(g);
    char *memory = calloc(1, rows + origin->index_size * sizeof(uint16_t));
    if (memory == NULL) {
        g->stats.no_memory++;
        return false;
    }
    origin->rows = (void *)memory;
    origin->index = (void *)(memory + rows);
    return true;
}

/* The worker's place in the index, or where it would be. */
static uint16_t *
place_of(const struct gossip_origin *origin, uint64_t worker)
{
    uint32_t mask = origin->index_size - 1;
    uint32_t at = (uint32_t)rng_mix(worker) & mask;

    CHECK_SLOW(origin->places < origin->index_size);
    while (origin->index[at] != 0 &&
           origin->rows[origin->index[at] - 1U].worker != worker) {
        at = (at + 1) & mask;
    }
    return &origin->index[at];
}

static struct gossip_gauge_row *
find_row(const struct gossip_origin *origin, uint64_t worker)
{
    uint32_t row = origin->count != 0 ? *place_of(origin, worker) : 0;

    return row != 0 ? &origin->rows[row - 1] : NULL;
}

static void
index_rows(struct gossip_origin *origin)
{
    memset(origin->index, 0, origin->index_size * sizeof *origin->index);
    for (uint32_t i = 0; i < origin->count; i++) {
        *place_of(origin, origin->rows[i].worker) = (uint16_t)(i + 1);
    }
    origin->places = origin->count;
}

static void
drop_rows(struct gossip_origin *origin)
{
    origin->count = 0;
    index_rows(origin);
}

static bool
is_zero(const struct gossip_gauge *gauge)
{
    return gauge->inflight == 0 && gauge->blocks == 0 &&
           gauge->queued_tokens == 0;
}

/* A row that is all zero, and that peers know to be zero. */
static struct gossip_gauge_row *
idle_row(const struct gossip *g, const struct gossip_origin *origin)
{
    CHECK(origin->count == g->config.workers_max);
    for (uint32_t i = 0; i < origin->count; i++) {
        struct gossip_gauge_row *row = &origin->rows[i];
        if (is_zero(&row->gauge) && row->moved == 0 &&
            row->version <= g->gauge_sent) {
            return row;
        }
    }
    return NULL;
}

static struct gossip_gauge_row *
make_row(struct gossip *g, struct gossip_origin *origin, uint64_t worker)
{
    struct gossip_gauge_row *row = find_row(origin, worker);

    CHECK(origin->rows != NULL && origin->count <= g->config.workers_max);
    if (row != NULL) {
        return row;
    }
    row = origin->count < g->config.workers_max ? &origin->rows[origin->count++]
                                                : idle_row(g, origin);
    if (row == NULL) {
        return NULL;
    }
    *row = (struct gossip_gauge_row){.worker = worker};
    if (origin->places < origin->index_size / 4 * 3) {
        *place_of(origin, worker) = (uint16_t)(row - origin->rows + 1);
        origin->places++;
    } else {
        index_rows(origin);
    }
    return row;
}

void
gossip_gauges_forget(struct gossip_origin *origin)
{
    free(origin->rows);
    *origin = (struct gossip_origin){0};
}

bool
gossip_gauge_set(struct gossip *g, uint64_t worker,
                 const struct gossip_gauge *gauge, uint64_t now_us)
{
    struct gossip_gauge_row *row = make_row(g, &g->own, worker);

    CHECK(gauge != NULL && g->gauge_sent <= g->own.version);
    g->now_us = now_us;
    if (row == NULL) {
        return false;
    }
    if (row->gauge.inflight == gauge->inflight &&
        row->gauge.blocks == gauge->blocks &&
        row->gauge.queued_tokens == gauge->queued_tokens) {
        return true;
    }
    row->gauge = *gauge;
    row->version = ++g->own.version;
    if (g->gauge_due_us == UINT64_MAX) {
        uint64_t next_us = g->own.heard_us + gossip_us(g->config.gauge_ms);
        g->gauge_due_us = next_us > now_us ? next_us : now_us;
    }
    return true;
}

/* What one peer says must not make the others' part of a sum small. */
static void
add_up(struct gossip_gauge *sum, const struct gossip_gauge_row *row)
{
    const struct gossip_gauge *gauge = &row->gauge;
    int64_t moved = (int64_t)gauge->inflight + row->moved;
    int64_t inflight = sum->inflight + (moved > 0 ? moved : 0);
    uint64_t left = UINT64_MAX - sum->queued_tokens;

    sum->inflight = inflight < UINT32_MAX ? (uint32_t)inflight : UINT32_MAX;
    sum->queued_tokens +=
        gauge->queued_tokens < left ? gauge->queued_tokens : left;
    sum->blocks = gauge->blocks > sum->blocks ? gauge->blocks : sum->blocks;
}

struct gossip_gauge
gossip_gauge_others(const struct gossip *g, uint64_t worker)
{
    struct gossip_gauge sum = {0};

    CHECK_SLOW(g->peers_high <= g->config.peers_max);
    for (uint32_t i = 0; i < g->peers_high; i++) {
        const struct gossip_gauge_row *row = find_row(&g->origins[i], worker);
        if (row != NULL) {
            add_up(&sum, row);
        }
    }
    return sum;
}

bool
gossip_gauge_of(const struct gossip *g, uint32_t place, uint64_t worker,
                struct gossip_gauge_peer *out)
{
    CHECK(place < GOSSIP_PEERS_MAX);
    if (place >= g->peers_high || g->peers[place].id == 0) {
        return false;
    }
    const struct gossip_origin *origin = &g->origins[place];
    const struct gossip_gauge_row *row = find_row(origin, worker);

    *out = (struct gossip_gauge_peer){.peer = g->peers[place].id,
                                      .told = origin->whole};
    if (row != NULL) {
        out->gauge = row->gauge;
    }
    return true;
}

uint64_t
gossip_gauges_heard(const struct gossip *g)
{
    return g->gauges_heard;
}

/* Forgets the decisions counted for a peer: its new gauges include them, or
 * they are too old. */
static void
forget_moved(struct gossip *g, struct gossip_origin *origin)
{
    if (origin->moved_us == 0) {
        return;
    }
    CHECK(origin->rows != NULL);
    for (uint32_t i = 0; i < origin->count; i++) {
        origin->rows[i].moved = 0;
    }
    origin->moved_us = 0;
    g->gauges_heard++;
}

static uint64_t
moved_due(const struct gossip *g, const struct gossip_origin *origin)
{
    return origin->moved_us != 0
               ? origin->moved_us + 2 * gossip_us(g->config.gauge_ms)
               : UINT64_MAX;
}

/* A request of a peer began or ended after the peer sent its gauges of version
 * `told`. */
void
gossip_gauges_move(struct gossip *g, uint64_t peer,
                   const struct gossip_belief *belief, uint64_t told)
{
    uint32_t at = gossip_peer_at(g, peer);

    CHECK(at < g->peers_high);
    struct gossip_origin *origin = &g->origins[at];

    if (told < origin->version || !gossip_gauges_open(g, origin)) {
        return;
    }
    struct gossip_gauge_row *row = make_row(g, origin, belief->worker);
    if (row == NULL) {
        return;
    }
    row->moved += belief->ended ? -1 : 1;
    g->gauges_heard++;
    if (origin->moved_us == 0) {
        origin->moved_us = g->now_us;
    }
}

static void
put_head(struct buf *out, uint64_t version, bool all)
{
    struct pack_map map = pack_open(out);

    pack_put_uint(&map, "v", version);
    pack_put_flag(&map, "all", all);
    pack_close(&map);
}

static void
put_row(struct buf *out, const struct gossip_gauge_row *row)
{
    struct pack_map map = pack_open(out);

    CHECK(out->size - out->len >= ROW_BYTES);
    pack_put_uint(&map, "w", row->worker);
    if (row->gauge.inflight != 0) {
        pack_put_uint(&map, "f", row->gauge.inflight);
    }
    if (row->gauge.blocks != 0) {
        pack_put_uint(&map, "b", row->gauge.blocks);
    }
    if (row->gauge.queued_tokens != 0) {
        pack_put_uint(&map, "q", row->gauge.queued_tokens);
    }
    pack_close(&map);
}

/* A frame of all rows, or of the rows that changed after a version. */
static void
send_rows(struct gossip *g, bool all, uint64_t after)
{
    CHECK(after <= g->own.version);
    gossip_belief_flush(g); /* these decisions were made before the gauges */
    gossip_frame_begin(g, GOSSIP_FRAME_GAUGES);
    struct buf out = codec_rest(&g->build);
    put_head(&out, g->own.version, all);
    for (uint32_t i = 0; i < g->own.count; i++) {
        const struct gossip_gauge_row *row = &g->own.rows[i];
        bool room = out.size - out.len >= ROW_BYTES;
        if (room && (all || row->version > after)) {
            put_row(&out, row);
        }
    }
    CHECK(!out.failed);
    g->build.len += out.len;
    gossip_frame_send(g, 0, GOSSIP_CTL);
    g->gauge_sent = g->own.version;
}

static void
forget_silent(struct gossip *g)
{
    uint64_t limit_us = gossip_us(g->config.gauge_silent_ms);

    for (uint32_t i = 0; i < g->peers_high; i++) {
        struct gossip_origin *origin = &g->origins[i];
        if (origin->count > 0 && g->now_us - origin->heard_us >= limit_us) {
            forget_moved(g, origin);
            drop_rows(origin);
            origin->whole = false;
            g->gauges_heard++;
        }
    }
}

void
gossip_gauges_tick(struct gossip *g)
{
    bool all = g->now_us >= g->gauge_all_us;

    for (uint32_t i = 0; i < g->peers_high; i++) {
        if (g->now_us >= moved_due(g, &g->origins[i])) {
            forget_moved(g, &g->origins[i]);
        }
    }
    if (all) {
        g->gauge_all_us = g->now_us + gossip_us(g->config.gauge_all_ms);
        forget_silent(g);
    }
    bool changed = g->now_us >= g->gauge_due_us;
    if ((all && g->own.count > 0) || changed) {
        send_rows(g, all, g->gauge_sent);
    }
    if (changed) { /* a repetition must not delay what is new */
        g->gauge_due_us = UINT64_MAX;
        g->own.heard_us = g->now_us;
    }
}

void
gossip_gauges_flush(struct gossip *g, uint64_t now_us)
{
    g->now_us = now_us;
    if (g->gauge_due_us != UINT64_MAX) {
        g->gauge_due_us = now_us;
        gossip_gauges_tick(g);
    }
}

uint64_t
gossip_gauges_timer(const struct gossip *g)
{
    uint64_t at_us =
        g->gauge_due_us < g->gauge_all_us ? g->gauge_due_us : g->gauge_all_us;

    for (uint32_t i = 0; i < g->peers_high; i++) {
        uint64_t due_us = moved_due(g, &g->origins[i]);
        at_us = due_us < at_us ? due_us : at_us;
    }
    return at_us;
}

static struct gossip_gauge
get_row(struct unpack *in, uint64_t *worker)
{
    *worker = unpack_uint(in, "w", UINT64_MAX);
    return (struct gossip_gauge){
        .inflight = (uint32_t)unpack_uint(in, "f", UINT32_MAX),
        .blocks = (uint32_t)unpack_uint(in, "b", UINT32_MAX),
        .queued_tokens = unpack_uint(in, "q", UINT64_MAX),
    };
}

/* The newest version wins, so frames that overtake each other change nothing.
 * If a frame of changed rows was lost, the next full frame brings its rows. */
int
gossip_recv_gauges(struct gossip *g, uint64_t peer, struct codec_in bytes)
{
    uint32_t at = gossip_peer_at(g, peer);

    CHECK(at < g->peers_high);
    struct gossip_origin *origin = &g->origins[at];
    struct unpack in;

    unpack_init(&in, codec_slice(&bytes));
    if (!unpack_next(&in)) {
        return GOSSIP_E_BAD;
    }
    bool all = unpack_flag(&in, "all");
    uint64_t version = unpack_uint(&in, "v", UINT64_MAX);
    if (in.failed) {
        return GOSSIP_E_BAD;
    }
    if (!gossip_gauges_open(g, origin) || version < origin->version) {
        return 0;
    }
    if (version > origin->version) {
        forget_moved(g, origin);
    }
    g->gauges_heard++;
    origin->version = version;
    origin->heard_us = g->now_us;
    if (all) {
        drop_rows(origin);
    }
    origin->whole = origin->whole || all;
    while (unpack_next(&in)) {
        uint64_t worker;
        struct gossip_gauge gauge = get_row(&in, &worker);
        struct gossip_gauge_row *row = unpack_has(&in, "w") && !in.failed
                                           ? make_row(g, origin, worker)
                                           : NULL;
        if (row != NULL) {
            row->gauge = gauge;
        }
    }
    return in.failed ? GOSSIP_E_BAD : 0;
}
