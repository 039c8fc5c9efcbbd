/*
 * The door of gossip: making and freeing, streams, peers, received frames,
 * time, and status.
 */
#include "gossip/gossip.h"

#include <errno.h>
#include <stdlib.h>

#include "gossip/gossip_internal.h"

struct gossip_config
gossip_config_default(void)
{
    return (struct gossip_config){
        .peers_max = GOSSIP_PEERS_MAX,
        .streams_max = 1024,
        .log_bytes = 256 * 1024,
        .log_records = 4096,
        .logs_bytes_max = (size_t)64 << 20,
        .frame_bytes = 256 * 1024,
        .sends_max = 8192,
        .exports_max = 4,
        .transfers_max = 4,
        .push_ms = 2,
        .vector_ms = 250,
        .vector_jitter_ms = 50,
        .question_ms = 200,
        .lag_ms = 100,
        .judge_ms = 1000,
        .stale_ms = 20,
        .heal_ms = 10000,
        .tombstone_ms = 600000,
        .workers_max = 4 * WORKERS_MAX + 1536,
        .gauge_ms = 50,
        .gauge_all_ms = 1000,
        .gauge_silent_ms = 3000,
        .belief_ms = 5,
        .belief_bytes = 64 * 1024,
        .names_bytes_max = (size_t)512 << 20,
    };
}

static void
check_config(const struct gossip_config *config)
{
    CHECK(config->peers_max > 0 && config->peers_max <= GOSSIP_PEERS_MAX);
    CHECK(config->streams_max > 0 && config->streams_max <= GOSSIP_STREAMS_MAX);
    CHECK(config->frame_bytes >= CODEC_BODY_MAX + GOSSIP_FRAME_ROOM);
    CHECK(config->log_bytes > 0 && config->log_records > 0);
    CHECK(config->sends_max > 0 && config->exports_max > 0);
    CHECK(config->vector_ms > config->vector_jitter_ms);
    CHECK(config->question_ms > 0 && config->judge_ms > 0);
    CHECK(config->belief_bytes >= 256 &&
          config->belief_bytes + 64 <= config->frame_bytes);
    CHECK(config->gauge_ms > 0 && config->workers_max > 0);
}

static int
allocate(struct gossip *g)
{
    uint32_t hash_size = 16;

    while (hash_size < g->config.streams_max) {
        hash_size *= 2;
    }
    g->hash_mask = hash_size - 1;
    CHECK((hash_size & g->hash_mask) == 0);
    g->hash = calloc(hash_size, sizeof *g->hash);
    g->streams = calloc(g->config.streams_max, sizeof *g->streams);
    g->sends = calloc(g->config.sends_max, sizeof *g->sends);
    g->exports = calloc(g->config.exports_max, sizeof *g->exports);
    g->build.bytes = malloc(g->config.frame_bytes);
    g->build.max = g->config.frame_bytes;
    g->record = malloc(sizeof *g->record + CODEC_WORDS_MAX * sizeof(uint64_t));
    g->names_build = malloc(GOSSIP_NAMES_BUILD);
    g->names_room.bytes_max = g->config.names_bytes_max;
    bool ok = g->hash != NULL && g->streams != NULL && g->sends != NULL &&
              g->exports != NULL && gossip_gauges_open(g, &g->own) &&
              g->build.bytes != NULL && g->record != NULL &&
              g->names_build != NULL;
    for (uint32_t i = 0; i < GOSSIP_WAITING; i++) {
        struct codec_out *out = &g->waiting[i].out;
        out->bytes = malloc(g->config.belief_bytes);
        out->max = g->config.belief_bytes;
        ok = ok && out->bytes != NULL;
    }
    return ok ? 0 : -ENOMEM;
}

int
gossip_new(struct gossip **out, const struct gossip_config *config,
           uint64_t self, uint64_t now_us, uint64_t seed)
{
    CHECK(out != NULL && config != NULL);
    check_config(config);
    CHECK(self != 0);
    struct gossip *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return -ENOMEM;
    }
    g->config = *config;
    g->self = self;
    g->now_us = now_us;
    rng_init(&g->rng, seed);
    g->tokens = rng_next(&g->rng) >> 16;
    g->store = (struct delta_log_store){.bytes_max = config->logs_bytes_max,
                                        .log_bytes = config->log_bytes,
                                        .log_count = config->log_records};
    g->push_due_us = UINT64_MAX;
    g->wake_us = UINT64_MAX;
    g->gauge_due_us = UINT64_MAX;
    g->belief_due_us = UINT64_MAX;
    g->awake_us = 1;
    g->tick_us = now_us;
    g->vector_due_us = now_us;
    g->gauge_all_us = now_us;
    if (allocate(g) < 0) {
        gossip_free(g);
        return -ENOMEM;
    }
    *out = g;
    return 0;
}

static void
wipe_stream(struct gossip *g, struct gossip_stream *s)
{
    gossip_transfer_stop(g, s);
    gossip_direct_drop(s);
    gossip_names_fini(g, s);
    gossip_prints_fini(&s->prints);
    delta_log_fini(&s->log, &g->store);
    CHECK(!s->transfer.active && s->log.count == 0);
}

void
gossip_free(struct gossip *g)
{
    if (g == NULL) {
        return;
    }
    for (uint32_t i = 0; i < g->streams_count; i++) {
        wipe_stream(g, g->streams[i]);
        free(g->streams[i]);
    }
    CHECK(g->transfers == 0 && g->store.bytes == 0);
    CHECK(g->names_room.bytes == 0);
    while (g->sends_count > 0) {
        gossip_send_drop(g);
    }
    for (uint32_t i = 0; i < GOSSIP_PEERS_MAX; i++) {
        free(g->origins[i].rows);
    }
    free(g->lent_frame);
    free(g->lent_direct);
    free(g->own.rows);
    free(g->hash);
    free(g->streams);
    free(g->sends);
    free(g->exports);
    free(g->build.bytes);
    for (uint32_t i = 0; i < GOSSIP_WAITING; i++) {
        free(g->waiting[i].out.bytes);
    }
    free(g->belief_bytes);
    free(g->record);
    free(g->names_build);
    free(g);
}

/* Streams */

static struct gossip_stream **
hash_slot(const struct gossip *g, struct event_stream name)
{
    uint64_t mixed = rng_mix(name.worker ^ rng_mix(name.rank));

    return &g->hash[mixed & g->hash_mask];
}

static struct gossip_stream *
find_any(const struct gossip *g, struct event_stream name)
{
    struct gossip_stream *s = *hash_slot(g, name);

    while (s != NULL &&
           (s->name.worker != name.worker || s->name.rank != name.rank)) {
        s = s->next_hash;
    }
    return s;
}

struct gossip_stream *
gossip_find(const struct gossip *g, struct event_stream name)
{
    struct gossip_stream *s = find_any(g, name);

    return s != NULL && !s->removed ? s : NULL;
}

int
gossip_stream_add(struct gossip *g, struct event_stream stream, uint64_t now_us)
{
    struct gossip_stream *s = find_any(g, stream);

    g->now_us = now_us;
    if (s != NULL) {
        s->removed = false;
        return 0;
    }
    if (g->streams_count == g->config.streams_max) {
        return GOSSIP_E_FULL;
    }
    CHECK(g->streams_count < g->config.streams_max);
    s = calloc(1, sizeof *s);
    if (s == NULL) {
        return -ENOMEM;
    }
    struct gossip_stream **slot = hash_slot(g, stream);
    s->name =
        (struct event_stream){.worker = stream.worker, .rank = stream.rank};
    s->rank = GOSSIP_RANK_NONE;
    s->direct_end = &s->direct;
    s->next_hash = *slot;
    *slot = s;
    g->streams[g->streams_count++] = s;
    CHECK_SLOW(gossip_find(g, stream) == s);
    return 0;
}

/* Only the numbers of epochs and of questions are kept. */
void
gossip_stream_remove(struct gossip *g, struct event_stream stream,
                     uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s == NULL) {
        return;
    }
    wipe_stream(g, s);
    struct gossip_stream kept = {
        .name = s->name,
        .removed = true,
        .removed_us = now_us,
        .no_max = s->no_max,
        .ask = s->ask,
        .answered = s->ask,
        .rank = GOSSIP_RANK_NONE,
        .to_push = s->to_push,
        .next_push = s->next_push,
        .ready = s->ready,
        .next_ready = s->next_ready,
        .next_hash = s->next_hash,
    };
    *s = kept;
    s->direct_end = &s->direct;
    gossip_wake_at(g, now_us + gossip_us(g->config.tombstone_ms));
    CHECK_SLOW(gossip_find(g, stream) == NULL);
}

static void
forget_stream(struct gossip *g, uint32_t at)
{
    CHECK(at < g->streams_count);
    struct gossip_stream *s = g->streams[at];
    struct gossip_stream **link = hash_slot(g, s->name);

    CHECK(s->removed && !s->ready && !s->to_push && s->direct == NULL);
    while (*link != s) {
        CHECK(*link != NULL);
        link = &(*link)->next_hash;
    }
    *link = s->next_hash;
    g->streams_count--;
    for (uint32_t i = at; i < g->streams_count; i++) {
        g->streams[i] = g->streams[i + 1];
    }
    free(s);
}

bool
gossip_can_load(const struct gossip *g, struct event_stream stream,
                struct gossip_epoch epoch, uint64_t pos)
{
    const struct gossip_stream *s = gossip_find(g, stream);

    return s != NULL && s->epoch.no == 0 && epoch.no != 0 &&
           epoch.no <= GOSSIP_NO_LEAP && pos < gossip_pos(GOSSIP_SEQ_MAX, 0);
}

void
gossip_load(struct gossip *g, struct event_stream stream,
            struct gossip_epoch epoch, bool whole, uint64_t pos, bool complete)
{
    struct gossip_stream *s = gossip_find(g, stream);

    if (s == NULL || s->epoch.no != 0 || epoch.no == 0 ||
        epoch.no > GOSSIP_NO_MAX) {
        return;
    }
    CHECK(s->pos == 0 && s->direct == NULL && !s->transfer.active);
    s->epoch = epoch;
    s->no_max = epoch.no > s->no_max ? epoch.no : s->no_max;
    s->epoch_name = epoch.id;
    s->whole = whole;
    s->complete = complete;
    s->pos = pos;
    s->told = pos;
    s->known = pos;
    gossip_names_forget(g, s);
    delta_log_restart(&s->log, pos);
    gossip_ready(g, s);
}

void
gossip_load_sizes(struct gossip *g, struct event_stream stream, uint32_t holes,
                  uint32_t block_tokens)
{
    struct gossip_stream *s = gossip_find(g, stream);

    if (s != NULL) {
        s->holes = holes;
        s->block_tokens = block_tokens;
    }
}

void
gossip_role(struct gossip *g, struct event_stream stream, uint32_t rank,
            uint64_t primary, uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s == NULL) {
        return;
    }
    if (s->rank == 0 && rank != 0) {
        s->handing = true;
    } else if (rank == 0) {
        s->handing = false;
    }
    if (primary != s->primary) {
        s->lag_us = 0;
        s->heard = false;
    }
    s->rank = rank;
    s->primary = rank == 0 ? 0 : primary;
    gossip_push_lag(g, s);
    gossip_push_want(g, s);
}

void
gossip_unread(struct gossip *g, struct event_stream stream, bool unread,
              uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s == NULL || unread == (s->unread_us != 0)) {
        return;
    }
    s->unread_us = unread ? now_us + (now_us == 0) : 0;
    gossip_wake_at(g, now_us + gossip_us(g->config.stale_ms));
    gossip_ready(g, s);
}

void
gossip_await(struct gossip *g, bool others, uint64_t now_us)
{
    g->now_us = now_us;
    g->awaits = others;
    gossip_wake_at(g, now_us);
}

bool
gossip_primary_heard(const struct gossip *g, struct event_stream stream)
{
    const struct gossip_stream *s = gossip_find(g, stream);

    return s != NULL && s->primary != 0 && s->heard;
}

bool
gossip_is_contested(const struct gossip_stream *s, uint64_t now_us)
{
    uint64_t oldest = s->flips_us[s->flips % (GOSSIP_FLIPS_MAX + 1)];

    return s->flips > GOSSIP_FLIPS_MAX && now_us - oldest < GOSSIP_FLIPS_US;
}

/* When the stream becomes stale for lack of a reader; UINT64_MAX: never. */
static uint64_t
unread_at_us(const struct gossip *g, const struct gossip_stream *s)
{
    return s->unread_us != 0 && s->epoch.no != 0 && !s->reading.live
               ? s->unread_us + gossip_us(g->config.stale_ms)
               : UINT64_MAX;
}

bool
gossip_is_stale(const struct gossip *g, const struct gossip_stream *s)
{
    return gossip_is_torn(s) || g->now_us >= unread_at_us(g, s) ||
           (s->behind_us != 0 &&
            g->now_us - s->behind_us >= gossip_us(g->config.stale_ms));
}

/* Peers */

uint32_t
gossip_peer_at(const struct gossip *g, uint64_t peer)
{
    for (uint32_t i = 0; i < g->config.peers_max && peer != 0; i++) {
        if (g->peers[i].id == peer) {
            return i;
        }
    }
    return GOSSIP_PEER_NONE;
}

bool
gossip_peer_is_good(const struct gossip *g, uint64_t peer)
{
    uint32_t at = gossip_peer_at(g, peer);

    return at != GOSSIP_PEER_NONE && !g->peers[at].suspect;
}

static void
drop_peer(struct gossip *g, uint32_t at)
{
    uint64_t peer = g->peers[at].id;

    CHECK(at < g->peers_high && peer != 0);
    g->peers[at] = (struct gossip_peer){0};
    gossip_gauges_forget(&g->origins[at]);
    g->gauges_heard++;
    for (uint32_t i = 0; i < g->config.exports_max; i++) {
        g->exports[i].open = g->exports[i].open && g->exports[i].peer != peer;
    }
    for (uint32_t i = 0; i < g->streams_count; i++) {
        struct gossip_stream *s = g->streams[i];
        s->pull.open = s->pull.open && s->pull.peer != peer;
        gossip_push_want(g, s);
    }
    gossip_transfer_drop_peer(g, peer);
    gossip_rival_drop_peer(g, peer);
}

int
gossip_peer_up(struct gossip *g, uint64_t peer, uint64_t now_us)
{
    uint32_t at = gossip_peer_at(g, peer);

    CHECK(peer != 0 && peer != g->self);
    g->now_us = now_us;
    if (at != GOSSIP_PEER_NONE) {
        drop_peer(g, at);
    }
    for (at = 0; at < g->config.peers_max && g->peers[at].id != 0; at++) {
    }
    if (at == g->config.peers_max) {
        return GOSSIP_E_FULL;
    }
    g->peers[at] = (struct gossip_peer){.id = peer};
    g->peers_high = at < g->peers_high ? g->peers_high : at + 1;
    CHECK(g->peers_high <= g->config.peers_max);
    g->gauge_all_us = now_us;
    gossip_vector_send(g, peer, true);
    return 0;
}

void
gossip_peer_down(struct gossip *g, uint64_t peer, uint64_t now_us)
{
    uint32_t at = gossip_peer_at(g, peer);

    g->now_us = now_us;
    if (at != GOSSIP_PEER_NONE) {
        drop_peer(g, at);
    }
}

void
gossip_peer_suspect(struct gossip *g, uint64_t peer, bool suspect,
                    uint64_t now_us)
{
    uint32_t at = gossip_peer_at(g, peer);

    g->now_us = now_us;
    if (at == GOSSIP_PEER_NONE) {
        return;
    }
    g->peers[at].suspect = suspect;
    for (uint32_t i = 0; i < g->streams_count && suspect; i++) {
        gossip_push_want(g, g->streams[i]);
    }
}

/* Frames */

static int
dispatch(struct gossip *g, uint64_t peer, uint8_t type, struct codec_in in)
{
    switch (type) {
    case GOSSIP_FRAME_SUMMARY:
        return gossip_recv_summary(g, peer, in);
    case GOSSIP_FRAME_VECTOR:
        return gossip_recv_vector(g, peer, in);
    case GOSSIP_FRAME_DELTA:
        return gossip_recv_delta(g, peer, in);
    case GOSSIP_FRAME_PULL:
        return gossip_recv_pull(g, peer, in);
    case GOSSIP_FRAME_LOST:
        return gossip_recv_lost(g, peer, in);
    case GOSSIP_FRAME_ASK:
        return gossip_recv_ask(g, peer, in);
    case GOSSIP_FRAME_PAGE:
        return gossip_recv_page(g, peer, in);
    case GOSSIP_FRAME_GAUGES:
        return gossip_recv_gauges(g, peer, in);
    case GOSSIP_FRAME_BELIEF:
        return gossip_recv_belief(g, peer, in);
    case GOSSIP_FRAME_EXPECT:
        return gossip_recv_expect(g, peer, in);
    case GOSSIP_FRAME_WHO:
        return gossip_recv_who(g, peer, in);
    case GOSSIP_FRAME_RELAY:
        return gossip_recv_relay(g, peer, in);
    case GOSSIP_FRAME_NAMES_ASK:
        return gossip_recv_names_ask(g, peer, in);
    case GOSSIP_FRAME_NAMES:
        return gossip_recv_names(g, peer, in);
    default:
        g->stats.frames_unknown++;
        return 0;
    }
}

int
gossip_recv(struct gossip *g, uint64_t peer, const uint8_t *bytes, size_t len,
            uint64_t now_us)
{
    struct codec_in in = {.at = bytes, .end = bytes + len};

    CHECK(bytes != NULL || len == 0);
    g->now_us = now_us;
    g->stats.frames_in++;
    g->stats.bytes_in += len;
    if (gossip_peer_at(g, peer) == GOSSIP_PEER_NONE) {
        g->stats.frames_stranger++;
        return GOSSIP_E_STRANGER;
    }
    uint8_t type = codec_get_u8(&in);
    uint8_t flags = codec_get_u8(&in);
    if (flags != 0 && !in.failed) {
        g->stats.frames_unknown++; /* compressed, by a later version */
        return 0;
    }
    int rc = in.failed ? GOSSIP_E_BAD : dispatch(g, peer, type, in);
    if (g->vector_of != 0) { /* once, however many streams want it */
        gossip_vector_send(g, g->vector_of, true);
        g->vector_of = 0;
    }
    g->stats.frames_bad += rc == GOSSIP_E_BAD;
    return rc;
}

/* Time */

static uint64_t
earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When the stream's earliest timer is due. */
static uint64_t
stream_timer(const struct gossip *g, const struct gossip_stream *s)
{
    const struct gossip_config *config = &g->config;
    uint64_t at = UINT64_MAX;

    CHECK(s->transfer.active || !s->transfer.begun);
    if (s->removed) {
        return s->removed_us + gossip_us(config->tombstone_ms);
    }
    if (s->pull.open) {
        at = earlier(at, s->pull.due_us);
    }
    if (s->transfer.active) {
        at = earlier(at, s->transfer.due_us);
    } else if (s->transfer.wanted) {
        at = earlier(at, s->transfer.again_us);
    }
    if (s->look_us != 0) {
        at = earlier(at, s->look_us);
    }
    at = earlier(at, gossip_names_timer(g, s));
    if (s->lag_us != 0) {
        at = earlier(at, s->lag_us + gossip_us(config->lag_ms));
    }
    if (!s->told_stale) {
        at = earlier(at, unread_at_us(g, s));
    }
    if (s->told_contested) {
        uint64_t oldest = s->flips_us[s->flips % (GOSSIP_FLIPS_MAX + 1)];
        at = earlier(at, oldest + GOSSIP_FLIPS_US);
    }
    return earlier(at, gossip_local_timer(g, s));
}

/* Stops waiting for records that no node has any more, unless they were read
 * here, or a reader knows of them. A state that cannot be completed gives way to
 * what was known before, so that another can be transferred from any peer. */
static void
give_up(struct gossip *g, struct gossip_stream *s)
{
    uint64_t limit_us = 3 * gossip_us(g->config.judge_ms);

    if (s->torn_us != 0 && !s->transfer.begun &&
        g->now_us - s->torn_us >= limit_us) {
        gossip_rebuild_back(g, s, "torn");
    }
    if (s->behind_us != 0 && !s->transfer.active && !s->transfer.wanted &&
        g->now_us - s->behind_us >= limit_us) {
        s->known = gossip_local_known(s);
        gossip_stream_known(g, s, s->ahead);
    }
}

static void
tick_stream(struct gossip *g, struct gossip_stream *s)
{
    CHECK(!s->removed);
    if (s->look_us != 0 && g->now_us >= s->look_us) {
        s->look_us = g->now_us + gossip_us(g->config.question_ms);
    }
    gossip_pull_tick(g, s);
    gossip_transfer_tick(g, s);
    gossip_names_tick(g, s);
    gossip_local_tick(g, s);
    give_up(g, s);
    if (s->lag_us != 0 &&
        g->now_us >= s->lag_us + gossip_us(g->config.lag_ms)) {
        gossip_push_want(g, s); /* and that ends the lag */
        s->lag_us = s->to_push ? s->lag_us : 0;
    }
    gossip_ready(g, s);
}

static void
tick_streams(struct gossip *g)
{
    g->wake_us = UINT64_MAX;
    for (uint32_t i = 0; i < g->streams_count;) {
        struct gossip_stream *s = g->streams[i];
        uint64_t due_us = stream_timer(g, s);

        if (due_us <= g->now_us && !s->removed) {
            tick_stream(g, s);
            due_us = stream_timer(g, s);
            due_us = due_us <= g->now_us ? g->now_us + 1000 : due_us;
        } else if (due_us <= g->now_us && !s->ready && !s->to_push) {
            forget_stream(g, i);
            continue;
        }
        g->wake_us = earlier(g->wake_us, due_us);
        i++;
    }
}

void
gossip_tick(struct gossip *g, uint64_t now_us)
{
    CHECK(now_us >= g->now_us && g->now_us >= g->tick_us);
    g->now_us = now_us;
    g->awake_us = gossip_awake(g);
    g->tick_us = now_us;
    if (now_us >= g->wake_us) {
        tick_streams(g);
    }
    gossip_push_tick(g);
    gossip_vector_tick(g);
    gossip_gauges_tick(g);
    gossip_belief_tick(g);
}

uint64_t
gossip_deadline(const struct gossip *g)
{
    uint64_t at =
        earlier(earlier(g->wake_us, g->push_due_us), g->belief_due_us);

    return earlier(earlier(at, g->vector_due_us), gossip_gauges_timer(g));
}

/* Status */

bool
gossip_reads(const struct gossip *g, struct event_stream stream)
{
    const struct gossip_stream *s = gossip_find(g, stream);

    return s != NULL && gossip_leads(s);
}

static struct gossip_status
status_of(const struct gossip *g, const struct gossip_stream *s)
{
    return (struct gossip_status){
        .stream = s->name,
        .epoch = s->epoch,
        .pos = s->pos,
        .pos_known = s->known > s->pos ? s->known : s->pos,
        .log_low = s->log.low,
        .process = s->reading.any ? s->reading.process : 0,
        .count = s->digest_count,
        .xor_keys = s->digest_xor,
        .whole = s->epoch.no != 0 && s->whole,
        .complete = s->epoch.no != 0 && s->complete,
        .stale = gossip_is_stale(g, s),
        .contested = gossip_is_contested(s, g->now_us),
        .digest_known = s->digest_known && s->digest_pos == s->pos,
        .reads = gossip_leads(s),
        .follower = s->reading.any && !gossip_leads(s),
        .pushes = gossip_pushes(g, s),
        .waits = s->to_push,
        .transfers = s->transfer.active,
        .torn = gossip_is_torn(s),
        .names_known = s->names.known,
        .names_pos = s->names.pos,
        .names_kept = s->names.spare != NULL ? s->names.spare->pos : 0,
        .names_count = s->names.table.count,
        .names_digest = s->names.table.digest,
    };
}

bool
gossip_status(const struct gossip *g, uint32_t at, struct gossip_status *status)
{
    CHECK(status != NULL);
    for (uint32_t i = 0; i < g->streams_count; i++) {
        if (!g->streams[i]->removed && at-- == 0) {
            *status = status_of(g, g->streams[i]);
            return true;
        }
    }
    return false;
}

bool
gossip_status_of(const struct gossip *g, struct event_stream stream,
                 struct gossip_status *status)
{
    const struct gossip_stream *s = gossip_find(g, stream);

    CHECK(status != NULL);
    if (s == NULL || s->removed) {
        return false;
    }
    *status = status_of(g, s);
    return true;
}

bool
gossip_is_level(const struct gossip *g)
{
    for (uint32_t i = 0; i < g->streams_count; i++) {
        const struct gossip_stream *s = g->streams[i];
        if (!s->removed &&
            (s->pos < s->known || gossip_is_torn(s) || s->transfer.active ||
             s->transfer.wanted || gossip_names_wanted(g, s))) {
            return false;
        }
    }
    return true;
}

void
gossip_stats(const struct gossip *g, struct gossip_stats *stats)
{
    *stats = g->stats;
    stats->log_bytes = g->store.bytes;
    stats->log_dropped = g->store.dropped;
    stats->names_bytes = g->names_room.bytes;
    for (uint32_t i = 0; i < g->streams_count; i++) {
        stats->tombstones += g->streams[i]->removed;
    }
    stats->streams = g->streams_count - stats->tombstones;
    for (uint32_t i = 0; i < g->config.peers_max; i++) {
        stats->peers += g->peers[i].id != 0;
    }
    CHECK(stats->tombstones <= g->streams_count);
    CHECK(stats->peers <= g->peers_high);
}
