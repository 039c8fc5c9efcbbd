/*
 * Streams out of snapshots, sound and senseless. A node starts with records of
 * its streams: as it wrote them, with single fields that mean nothing, or with
 * bytes of another file; the digests of a file do not speak against any of
 * these. What it takes in, mirror writer and gossip know alike; and a peer that
 * starts cold accepts every frame of it, until both are in the same place. What
 * it leaves out, it reads again like any other stream.
 *
 *   property_snapshot_state SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>

#include "index/base/qsbr.h"
#include "index/base/rng.h"
#include "node/ingest/snapshot_state.h"

#define STREAMS    3U
#define WORKER     UINT64_C(700) /* identity of the first */
#define GENERATION 4U
#define PROCESS    UINT64_C(41)
#define STEP_US    UINT64_C(100000)
#define AGREE_MAX  600U /* steps */

struct node {
    struct gossip *g;
    uint64_t id;
    uint64_t sent;
};

static struct node nodes[2]; /* the first one starts from the snapshot */
static struct qsbr qsbr;
static struct publish published;
static struct mirror *mirror;
static struct mirror_writer *writer;
static struct ingest_streams streams;
static struct ingest_rank ranks[STREAMS];
static struct rng rng;
static uint64_t now_us;
static uint64_t seed_now;
static uint64_t restored, left_out, resumed, frames;

static void
fault(const char *what, uint32_t stream)
{
    printf("property_snapshot_state: %s, stream %u, seed %llu\n", what, stream,
           (unsigned long long)seed_now);
    exit(1);
}

static struct event_stream
name_of(uint32_t stream)
{
    return (struct event_stream){.worker = WORKER + stream};
}

/* ---- records ---- */

/* A number that a field of that many bits may hold, often one at its ends. */
static uint64_t
draw(unsigned bits)
{
    uint64_t most = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    const uint64_t ends[] = {0, 1, most, most - 1, most / 2, most / 2 + 1};

    return rng_below(&rng, 3) != 0 ? ends[rng_below(&rng, 6)]
                                   : rng_next(&rng) & most;
}

static struct storage_stream
sound_record(uint32_t stream)
{
    return (struct storage_stream){
        .name = name_of(stream),
        .slot = stream,
        .ledger = stream,
        .epoch_no = 3,
        .epoch_id = PROCESS,
        .epoch_name = PROCESS,
        .pos = gossip_pos_after(10 + rng_below(&rng, 30)),
        .block_tokens = 16,
        .complete = rng_below(&rng, 2) == 0,
        .partial = rng_below(&rng, 4) == 0,
    };
}

static void
spoil(struct storage_stream *record)
{
    switch (rng_below(&rng, 8)) {
    case 0:
        record->epoch_no = (uint32_t)draw(32);
        break;
    case 1:
        record->epoch_id = draw(64);
        break;
    case 2:
        record->pos = draw(64);
        break;
    case 3:
        record->holes = (uint32_t)draw(32);
        break;
    case 4:
        record->block_tokens = (uint32_t)draw(32);
        break;
    case 5:
        record->ledger = (uint32_t)draw(32);
        break;
    case 6:
        record->epoch_name = draw(64);
        break;
    default:
        record->name.rank = (uint32_t)draw(32);
        break;
    }
}

/* Writes the record and reads it, perhaps with a damaged byte in between. False:
 * it is none any more. */
static bool
pass_through_file(struct storage_stream *record, struct buf *file)
{
    struct storage_stream read;

    file->len = 0;
    storage_put_stream(file, record);
    if (rng_below(&rng, 4) == 0) {
        file->ptr[rng_below(&rng, file->len)] ^=
            (char)(1 + rng_below(&rng, 255));
    }
    struct storage_records in = storage_records(buf_slice(file));
    bool got = storage_get_stream(&in, &read);
    *record = read;
    return got;
}

/* ---- the node ---- */

static void ON_CONTROL
start(void)
{
    struct gossip_config config = gossip_config_default();
    struct mirror_limits mirror_limits = {.bytes_max = (size_t)1 << 20};
    struct mirror_writer_limits limits = {.accuracy = {.answers_min = 4,
                                                       .wrong_permille = 500,
                                                       .reread_ms = 1000},
                                          .stale_permille = 500};

    now_us = 1000000;
    qsbr_init(&qsbr);
    CHECK(mirror_new(&mirror, &mirror_limits, &qsbr) == 0);
    CHECK(mirror_writer_new(&writer, &limits, mirror, &qsbr, &published) == 0);
    for (uint32_t i = 0; i < 2; i++) {
        nodes[i] = (struct node){.id = i + 1};
        CHECK(gossip_new(&nodes[i].g, &config, i + 1, now_us, seed_now + i) ==
              0);
    }
    streams = (struct ingest_streams){
        .gossip = nodes[0].g, .writer = writer, .mirror = mirror};
    for (uint32_t i = 0; i < STREAMS; i++) {
        ranks[i] = (struct ingest_rank){
            .stream = name_of(i), .worker = i, .generation = GENERATION};
        CHECK(mirror_writer_worker_add(writer, i, GENERATION, 1) == 0);
        for (uint32_t n = 0; n < 2; n++) {
            CHECK(gossip_stream_add(nodes[n].g, name_of(i), now_us) == 0);
        }
    }
}

static void
end(void)
{
    mirror_writer_free(writer);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
    gossip_free(nodes[0].g);
    gossip_free(nodes[1].g);
}

/* Mirror writer and gossip took the same in, or both took nothing. */
static void ON_CONTROL
compare(uint32_t at, const struct storage_stream *record, bool taken)
{
    struct mirror_writer_status written;
    struct gossip_status told;

    if (!gossip_status_of(nodes[0].g, name_of(at), &told) ||
        !mirror_writer_status(writer, at, &written)) {
        fault("the stream is gone", at);
    }
    if (!taken && (told.epoch.no != 0 || written.slot != WORKER_NONE)) {
        fault("one of them took in what was left out", at);
    }
    if (taken &&
        (told.epoch.no != record->epoch_no ||
         told.epoch.id != record->epoch_id || told.pos != record->pos ||
         written.seq != record->pos || written.slot != record->slot)) {
        fault("they took in different things", at);
    }
}

/* As a start does it: those of known workers, with a slot each. */
static void ON_CONTROL
load(uint32_t at, struct buf *file)
{
    struct storage_stream record = sound_record(at);

    if (rng_below(&rng, 2) == 0) {
        spoil(&record);
    }
    bool taken = pass_through_file(&record, file) &&
                 record.slot < WORKERS_MAX &&
                 record.name.worker == WORKER + at && record.name.rank == 0 &&
                 mirror_open_at(mirror, record.slot) == 0;
    if (taken) {
        resumed += snapshot_stream_resumes(&record);
        taken = snapshot_stream_restore(&streams, &ranks[at], &record);
        if (!taken) {
            mirror_close(mirror, record.slot);
        }
    }
    compare(at, &record, taken);
    restored += taken;
    left_out += !taken;
}

/* ---- what follows ---- */

static void
begin_reading(uint32_t stream, uint64_t ask)
{
    gossip_local_begin(nodes[1].g, name_of(stream), PROCESS, true, ask, now_us);
    gossip_local_live(nodes[1].g, name_of(stream), true, now_us);
}

static void
take(struct node *node, const struct gossip_out *out)
{
    struct node *other = &nodes[node == &nodes[0]];
    const uint64_t words[] = {event_op(EVENT_STORE, TIER_DEVICE, 1), 5};

    switch (out->kind) {
    case GOSSIP_SEND:
        frames++;
        if (gossip_recv(other->g, node->id, out->bytes, out->len, now_us) !=
            0) {
            fault("a frame of the node was refused by its peer", 0);
        }
        break;
    case GOSSIP_APPLY:
        gossip_digest(node->g, out->stream, 1, 1);
        break;
    case GOSSIP_EXPORT:
        gossip_exported(node->g, out->token, words, 2, GOSSIP_CURSOR_END,
                        now_us);
        break;
    case GOSSIP_REREAD:
        if (node == &nodes[1]) {
            begin_reading((uint32_t)(out->stream.worker - WORKER), out->ask);
        }
        break;
    case GOSSIP_RESET:
    case GOSSIP_STATE:
    case GOSSIP_BELIEF:
        break;
    }
}

static void
settle(void)
{
    const char *reason = "";
    bool any = true;

    while (any) {
        any = false;
        for (uint32_t i = 0; i < 2; i++) {
            struct gossip_out out;
            while (gossip_next_out(nodes[i].g, &out)) {
                take(&nodes[i], &out);
                any = true;
            }
            if (!gossip_check(nodes[i].g, &reason)) {
                fault(reason, i);
            }
        }
    }
}

static bool
agree(void)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        struct gossip_status is[2];
        for (uint32_t n = 0; n < 2; n++) {
            CHECK(gossip_status_of(nodes[n].g, name_of(i), &is[n]));
        }
        if (is[0].epoch.no != is[1].epoch.no ||
            is[0].epoch.id != is[1].epoch.id || is[0].pos != is[1].pos) {
            return false;
        }
    }
    return true;
}

/* The peer reads the engines from their first batch on; the node hears of it. */
static void
live(void)
{
    const struct event_record empty = {.block_tokens = 16};
    uint32_t steps = 0;

    for (uint32_t i = 0; i < 2; i++) {
        CHECK(gossip_peer_up(nodes[i].g, nodes[!i].id, now_us) == 0);
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        gossip_role(nodes[1].g, name_of(i), 0, 0, now_us);
        begin_reading(i, 0);
    }
    settle();
    while (steps < 20 || (steps < AGREE_MAX && !agree())) {
        for (uint32_t i = 0; i < STREAMS && steps < 20; i++) {
            struct event_record batch = empty;
            batch.seq = steps;
            gossip_local_record(nodes[1].g, name_of(i), &batch, 1000 + steps,
                                true, now_us);
        }
        now_us += STEP_US;
        for (uint32_t i = 0; i < 2; i++) {
            gossip_tick(nodes[i].g, now_us);
        }
        settle();
        steps++;
    }
    if (!agree()) {
        fault("they never agree", 0);
    }
}

static void ON_CONTROL
play(uint64_t seed)
{
    struct buf file;

    seed_now = seed;
    rng_init(&rng, seed);
    buf_init(&file, 1 << 12);
    start();
    for (uint32_t i = 0; i < STREAMS; i++) {
        load(i, &file);
    }
    live();
    end();
    buf_fini(&file);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    role_is_control();
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        play(seed);
    }
    printf("property_snapshot_state: %llu seeds: restored=%llu left_out=%llu "
           "resumed=%llu frames=%llu\n",
           (unsigned long long)seeds, (unsigned long long)restored,
           (unsigned long long)left_out, (unsigned long long)resumed,
           (unsigned long long)frames);
    return 0;
}
