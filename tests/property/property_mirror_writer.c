/*
 * The mirror writer over the real mirror, held to a naive model: for each stream, which
 * of its keys are where. Workers come and go, epochs begin, caches are
 * cleared, slots and memory run out, what is lost is read again. After each
 * turn of work every stream in the view has the depth that the model says, in
 * its own slot and in no other one; a reader who stays with an old view never
 * finds one stream's blocks in a slot that the view calls another's.
 *
 *   property_mirror_writer SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/ingest/mirror_writer.h"

#if defined(__clang__)
/* All of this is the control thread, and one reader. */
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

#define WORKERS   44
#define RANKS_MAX 3
#define KEYS      24
#define OPS       2500

struct stream {
    uint64_t epoch; /* 0: none yet */
    uint64_t seq;
    uint8_t tiers[KEYS];
};

struct worker {
    bool present;
    uint32_t generation;
    uint32_t ranks;
    struct stream stream[RANKS_MAX];
};

static struct worker worker[WORKERS];
static struct qsbr qsbr;
static struct qsbr_reader *reader;
static const struct mirror_view *kept; /* by the reader, while it is online */
static struct mirror *mirror;
static struct publish published;
static struct mirror_writer *writer;
static uint64_t now_us;
static uint64_t seed;
static uint64_t steps;
static uint64_t compared; /* streams with something in them */
static uint64_t losses;
static uint64_t fulls;
static uint64_t contests;

#define REQUIRE(condition)                                                  \
    do {                                                                    \
        if (!(condition)) {                                                 \
            printf("property_mirror_writer: %s (line %d), seed %llu, step " \
                   "%llu\n",                                                \
                   #condition, __LINE__, (unsigned long long)seed,          \
                   (unsigned long long)steps);                              \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static uint64_t
key_of(uint32_t w, uint32_t generation, uint32_t rank, uint32_t at)
{
    return rng_mix((uint64_t)w << 40 ^ (uint64_t)generation << 16 ^
                   (uint64_t)rank << 8 ^ at);
}

static uint32_t
block_tokens_of(uint32_t w)
{
    static const uint32_t sizes[] = {16, 16, 16, 32, 64, 128, 256};

    return sizes[w % 7];
}

union parcel {
    struct event_record head;
    uint64_t room[sizeof(struct event_record) / 8 + (size_t)4 * KEYS];
};

static void
deliver(uint32_t w, uint32_t rank, union parcel *parcel, uint32_t count)
{
    struct stream *s = &worker[w].stream[rank];

    parcel->head.epoch = s->epoch;
    parcel->head.seq = ++s->seq;
    parcel->head.holes = EVENT_HOLES_UNKNOWN;
    parcel->head.block_tokens = block_tokens_of(w);
    parcel->head.words_count = count;
    REQUIRE(mirror_writer_record(writer, w, worker[w].generation, rank,
                                 &parcel->head) == 0);
}

/* A run of keys stored in or removed from a tier, the model included. */
static uint32_t
put_run(struct rng *rng, uint32_t w, uint32_t rank, uint64_t *words)
{
    struct stream *s = &worker[w].stream[rank];
    uint32_t from = (uint32_t)rng_below(rng, KEYS);
    uint32_t most = rng_below(rng, 2) == 0 ? 3 : KEYS;
    uint32_t count = 1 + (uint32_t)rng_below(rng, most);
    enum tier tier =
        rng_below(rng, 4) > 0 ? TIER_DEVICE : (enum tier)rng_below(rng, TIERS);
    bool store = rng_below(rng, 3) > 0;

    from = rng_below(rng, 2) == 0 ? 0 : from;
    count = count < KEYS - from ? count : KEYS - from;
    words[0] = event_op(store ? EVENT_STORE : EVENT_REMOVE, tier, count);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t bit = (uint8_t)(1U << (unsigned)tier);
        words[1 + i] = key_of(w, worker[w].generation, rank, from + i);
        s->tiers[from + i] = (uint8_t)(store ? s->tiers[from + i] | bit
                                             : s->tiers[from + i] & ~bit);
    }
    return count + 1;
}

static void
op_record(struct rng *rng, uint32_t w, uint32_t rank)
{
    struct stream *s = &worker[w].stream[rank];
    union parcel parcel = {.head = {.seq = 0}};
    uint32_t count = put_run(rng, w, rank, parcel.head.words);

    if (rng_below(rng, 12) == 0) {
        parcel.head.words[count++] = event_op(EVENT_CLEAR, TIER_DEVICE, 0);
        memset(s->tiers, 0, sizeof s->tiers);
    }
    if (rng_below(rng, 2) == 0) {
        count += put_run(rng, w, rank, parcel.head.words + count);
    }
    deliver(w, rank, &parcel, count);
}

static void
begin(struct rng *rng, uint32_t w, uint32_t rank)
{
    struct stream *s = &worker[w].stream[rank];

    s->epoch = rng_next(rng) | 1;
    s->seq = 0;
    mirror_writer_reset(writer, w, worker[w].generation, rank, s->epoch);
}

/* The engine tells all it holds, as a replay does. */
static void
reread(struct rng *rng, const struct mirror_writer_id *id)
{
    uint32_t w = id->worker;
    union parcel parcel = {.head = {.seq = 0}};
    uint32_t count = 0;

    REQUIRE(worker[w].present && worker[w].generation == id->generation);
    begin(rng, w, id->rank);
    for (uint32_t i = 0; i < KEYS; i++) {
        uint8_t tiers = worker[w].stream[id->rank].tiers[i];
        for (unsigned tier = 0; tier < TIERS; tier++) {
            if ((tiers >> tier & 1) != 0) {
                parcel.head.words[0] =
                    event_op(EVENT_STORE, (enum tier)tier, 1);
                parcel.head.words[1] = key_of(w, id->generation, id->rank, i);
                count = 2;
                deliver(w, id->rank, &parcel, count);
            }
        }
    }
}

static void
op_time(struct rng *rng)
{
    struct mirror_writer_id id;

    now_us += rng_below(rng, 20000000);
    while (mirror_writer_next_reread(writer, &id, now_us)) {
        losses++;
        reread(rng, &id);
    }
}

static void
op_epoch(struct rng *rng, uint32_t w, uint32_t rank)
{
    memset(worker[w].stream[rank].tiers, 0, KEYS);
    begin(rng, w, rank);
}

static void
op_worker(struct rng *rng, uint32_t w)
{
    struct worker *x = &worker[w];

    if (x->present && rng_below(rng, 3) > 0) {
        mirror_writer_worker_remove(writer, w);
        x->present = false;
        return;
    }
    *x = (struct worker){.present = true,
                         .generation = x->generation + 1,
                         .ranks = 1 + (uint32_t)rng_below(rng, RANKS_MAX)};
    REQUIRE(mirror_writer_worker_add(writer, w, x->generation, x->ranks) == 0);
}

/* What is not for this stream changes nothing. */
static void
op_stranger(struct rng *rng, uint32_t w, uint32_t rank)
{
    union parcel parcel = {.head = {.epoch = rng_next(rng) & ~UINT64_C(1),
                                    .seq = UINT64_MAX,
                                    .words_count = 1}};

    parcel.head.words[0] = event_op(EVENT_CLEAR, TIER_DEVICE, 0);
    REQUIRE(mirror_writer_record(writer, w, worker[w].generation + 1, rank,
                                 &parcel.head) == 0);
    REQUIRE(mirror_writer_record(writer, w, worker[w].generation, rank,
                                 &parcel.head) == 0);
}

static uint32_t
depth_of(const struct stream *s)
{
    uint32_t depth = 0;

    while (depth < KEYS && s->tiers[depth] != 0) {
        depth++;
    }
    return depth;
}

static void
path_of(uint32_t w, uint32_t rank, uint64_t *keys)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        keys[i] = key_of(w, worker[w].generation, rank, i);
    }
}

/* A stream's numbers against the model; whether lanes should know it. */
static bool
compare_stream(const struct mirror_writer_status *s)
{
    const struct stream *model = &worker[s->worker].stream[s->rank];
    uint64_t blocks = 0;
    uint64_t digest = 0;

    REQUIRE(worker[s->worker].present &&
            s->generation == worker[s->worker].generation);
    for (uint32_t i = 0; i < KEYS; i++) {
        uint64_t key = key_of(s->worker, s->generation, s->rank, i);
        blocks += model->tiers[i] != 0;
        digest ^= model->tiers[i] != 0 ? rng_mix(key) : 0;
    }
    REQUIRE(s->epoch == model->epoch);
    if (s->slot == WORKER_NONE) {
        return false;
    }
    REQUIRE(s->lost || (s->blocks == blocks && s->digest == digest));
    compared += blocks > 0;
    return s->block_tokens != 0 && !s->contested && !s->left_out;
}

/* In its own slot it has its depth, in all others of the view none. */
static void
compare_match(const struct mirror_view *view,
              const struct mirror_writer_status *s)
{
    static struct mirror_match match;
    uint64_t keys[KEYS];

    path_of(s->worker, s->rank, keys);
    for (uint32_t i = 0; i < view->groups_count; i++) {
        const struct mirror_group *group = &view->groups[i];
        mirror_match(mirror, &group->slots, keys, KEYS, &match);
        WORKER_SET_EACH (slot, &group->slots) {
            uint32_t depth =
                worker_set_has(&match.slots, slot) ? match.depth[slot] : 0;
            if (slot != s->slot) {
                REQUIRE(depth == 0);
                continue;
            }
            REQUIRE(group->grain == s->block_tokens);
            REQUIRE(s->lost ||
                    depth == depth_of(&worker[s->worker].stream[s->rank]));
        }
    }
}

static bool
is_shown(const struct mirror_view *view, uint32_t slot)
{
    for (uint32_t i = 0; i < view->groups_count; i++) {
        if (slot != WORKER_NONE &&
            worker_set_has(&view->groups[i].slots, slot)) {
            return true;
        }
    }
    return false;
}

static void
compare_view(void)
{
    const struct mirror_view *view = mirror_view_get(&published);
    struct worker_set workers;
    struct mirror_writer_status s;

    worker_set_clear(&workers);
    for (uint32_t at = 0; mirror_writer_status(writer, at, &s); at++) {
        bool shown = is_shown(view, s.slot);
        bool wanted = compare_stream(&s);
        REQUIRE(!shown || wanted);
        REQUIRE(shown || !wanted || s.lost);
        if (!shown) {
            continue;
        }
        worker_set_add(&workers, s.worker);
        REQUIRE(view->owner[s.slot] == s.worker &&
                view->rank[s.slot] == s.rank &&
                view->trust_permille[s.slot] == s.trust_permille);
        REQUIRE(view->generation[s.worker] == s.generation &&
                view->ranks[s.worker] == worker[s.worker].ranks);
        compare_match(view, &s);
    }
    REQUIRE(memcmp(&workers, &view->workers, sizeof workers) == 0);
}

/* With an old view: whose blocks are where, but for those it names. */
static void
compare_kept(void)
{
    static struct mirror_match match;
    uint64_t keys[KEYS];

    for (uint32_t w = 0; w < WORKERS && kept != NULL; w++) {
        for (uint32_t rank = 0; rank < worker[w].ranks; rank++) {
            path_of(w, rank, keys);
            for (uint32_t i = 0; i < kept->groups_count; i++) {
                mirror_match(mirror, &kept->groups[i].slots, keys, KEYS,
                             &match);
                WORKER_SET_EACH (slot, &match.slots) {
                    REQUIRE(kept->owner[slot] == w &&
                            kept->rank[slot] == rank &&
                            kept->generation[w] == worker[w].generation);
                }
            }
        }
    }
}

static void
op_work(struct rng *rng)
{
    bool more = mirror_writer_work(writer, (uint32_t)rng_below(rng, 3000));

    (void)more;
    compare_view();
    if (kept != NULL) {
        compare_kept();
    }
}

/* Passes a quiescent point, whatever view is published by now. */
static void
op_reader(struct rng *rng)
{
    qsbr_offline(reader);
    kept = NULL;
    if (rng_below(rng, 3) == 0) {
        (void)qsbr_reclaim(&qsbr);
    }
    if (rng_below(rng, 3) > 0) {
        qsbr_online(&qsbr, reader);
        kept = mirror_view_get(&published);
    }
}

static void
operate(struct rng *rng)
{
    uint64_t dice = rng_below(rng, 1000);
    uint32_t w = (uint32_t)rng_below(rng, WORKERS);
    uint32_t rank = (uint32_t)rng_below(rng, RANKS_MAX);
    bool there = worker[w].present && rank < worker[w].ranks;

    if (dice < 100) {
        op_work(rng);
    } else if (dice < 110) {
        op_time(rng);
    } else if (dice < 150) {
        op_reader(rng);
    } else if (!there || dice < 160) {
        op_worker(rng, w);
    } else if (dice < 190 || worker[w].stream[rank].epoch == 0) {
        op_epoch(rng, w, rank);
    } else if (dice < 230) {
        mirror_writer_state(writer, w, worker[w].generation, rank,
                            (enum kv_stream_state)rng_below(rng, 5));
    } else if (dice < 250) {
        op_stranger(rng, w, rank);
    } else {
        op_record(rng, w, rank);
    }
}

/* In a third of the runs one that is soon full. */
static void
make_mirror(struct rng *rng)
{
    struct mirror_limits bounds = {.bytes_max = (size_t)64 << 20};
    struct mirror_stats stats;

    REQUIRE(mirror_new(&mirror, &bounds, &qsbr) == 0);
    if (seed % 3 == 0) {
        mirror_stats(mirror, &stats);
        mirror_free(mirror);
        bounds.bytes_max = stats.bytes + 8192 + rng_below(rng, 65536);
        REQUIRE(mirror_new(&mirror, &bounds, &qsbr) == 0);
    }
}

static void
run_once(void)
{
    struct rng rng;
    const char *reason;

    rng_init(&rng, seed);
    memset(worker, 0, sizeof worker);
    now_us = 1;
    const struct mirror_writer_limits limits = {
        .accuracy = {.answers_min = 4,
                     .wrong_permille = 500,
                     .reread_ms = 10000,
                     .discount_permille = 200},
        .stale_permille = 500,
    };
    qsbr_init(&qsbr);
    reader = qsbr_register(&qsbr);
    make_mirror(&rng);
    REQUIRE(mirror_writer_new(&writer, &limits, mirror, &qsbr, &published) ==
            0);
    for (uint32_t i = 0; i < OPS; i++) {
        steps++;
        operate(&rng);
        if (!mirror_writer_check(writer, &reason) ||
            (i % 50 == 0 && !mirror_check(mirror, &reason))) {
            printf("property_mirror_writer: %s\n", reason);
            REQUIRE(false);
        }
    }
    qsbr_offline(reader);
    kept = NULL;
    struct mirror_writer_stats told;
    mirror_writer_stats(writer, &told);
    fulls += told.full;
    contests += told.contested;
    mirror_writer_free(writer);
    struct mirror_stats stats;
    mirror_stats(mirror, &stats);
    REQUIRE(stats.open == 0);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 30;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (seed = first; seed < first + seeds; seed++) {
        run_once();
    }
    printf("property_mirror_writer: %llu operations, %llu streams compared, "
           "%llu read "
           "again, %llu times full, %llu contested, seeds %llu to %llu agree\n",
           (unsigned long long)steps, (unsigned long long)compared,
           (unsigned long long)losses, (unsigned long long)fulls,
           (unsigned long long)contests, (unsigned long long)first,
           (unsigned long long)(first + seeds - 1));
    return 0;
}
