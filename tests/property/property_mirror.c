/*
 * The mirror held to a naive model over random operations: records that grow
 * and cut chains in order or tear holes into them, tiers, closes and reopened
 * slots, a bound that is reached, a reader that stays online for a while, a
 * slot that is read page by page meanwhile. Of every query each slot's depth is what the model finds by walking, and so are
 * scores, counts and digests.
 *
 *   property_mirror ROUNDS [SEED]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/index.h"

#define NODES   400 /* blocks of a tree that prompts are paths of */
#define SLOTS   24
#define STEPS   1500
#define WORDS   400
#define DEPTH   64
#define NO_NODE UINT32_MAX

struct node {
    uint64_t key;
    uint32_t parent;
    uint32_t depth; /* blocks of the path to it */
};

static struct node node[NODES];
static struct qsbr qsbr;
static struct qsbr_reader *reader;
static struct mirror *mirror;
static uint32_t slots[SLOTS];       /* WORKER_NONE: not open */
static uint8_t tiers[SLOTS][NODES]; /* masks */
static bool shut[SLOTS];            /* holds less than the model says */
static bool orderly;                /* this round tears no holes */
static uint64_t operations;
static uint64_t queries;
static uint64_t readings;
static uint64_t refusals;
static uint64_t playing; /* seed */

/* A broken promise, with the seed that shows it. */
#define AGREE(condition)                                                  \
    do {                                                                  \
        if (!(condition)) {                                               \
            fprintf(stderr, "property_mirror: %s (line %d), seed %llu\n", \
                    #condition, __LINE__, (unsigned long long)playing);   \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

static const struct mirror_weights weights = {.permille = {1000, 700, 300, 90}};

static void
make_tree(struct rng *rng)
{
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t parent = i == 0 || rng_below(rng, 40) == 0 ? NO_NODE : i - 1;
        if (i > 0 && rng_below(rng, 4) == 0) {
            parent = (uint32_t)rng_below(rng, i);
        }
        if (parent != NO_NODE && node[parent].depth >= DEPTH - 2) {
            parent = NO_NODE;
        }
        uint64_t above = parent == NO_NODE ? 0 : node[parent].key;
        node[i] = (struct node){
            .key = i == 7 ? 0 : rng_mix(above ^ i << 8 ^ rng_next(rng) << 32),
            .parent = parent,
            .depth = parent == NO_NODE ? 1 : node[parent].depth + 1,
        };
    }
}

/* The keys of the path to a node, first to last. */
static uint32_t
path_of(uint32_t at, uint32_t *nodes)
{
    uint32_t count = node[at].depth;

    for (uint32_t i = count; i-- > 0; at = node[at].parent) {
        nodes[i] = at;
    }
    return count;
}

/* ---- the model ---- */

static uint32_t
model_holes(uint32_t s)
{
    uint32_t holes = 0;

    for (uint32_t i = 0; i < NODES; i++) {
        holes += tiers[s][i] != 0 && node[i].parent != NO_NODE &&
                 tiers[s][node[i].parent] == 0;
    }
    return holes;
}

static uint32_t
model_depth(uint32_t s, const uint32_t *nodes, uint32_t count)
{
    uint32_t depth = 0;

    while (depth < count && tiers[s][nodes[depth]] != 0) {
        depth++;
    }
    return depth;
}

static void
check_slot(uint32_t s)
{
    uint64_t blocks = 0;
    uint64_t digest = 0;

    for (uint32_t i = 0; i < NODES; i++) {
        blocks += tiers[s][i] != 0;
        digest ^= tiers[s][i] != 0 ? rng_mix(node[i].key) : 0;
    }
    if (shut[s]) {
        AGREE(mirror_slot_blocks(mirror, slots[s]) <= blocks);
        return;
    }
    AGREE(mirror_slot_blocks(mirror, slots[s]) == blocks);
    AGREE(mirror_slot_digest(mirror, slots[s]) == digest);
}

static void
check_all(void)
{
    const char *reason;
    struct mirror_stats stats;

    if (!mirror_check(mirror, &reason)) {
        printf("property_mirror: %s, seed %llu\n", reason,
               (unsigned long long)playing);
        exit(1);
    }
    for (uint32_t s = 0; s < SLOTS; s++) {
        if (slots[s] != WORKER_NONE) {
            check_slot(s);
        }
    }
    mirror_stats(mirror, &stats);
    AGREE(stats.open <= SLOTS && stats.refused >= refusals);
}

/* ---- pages ---- */

/* A slot that is read page by page while everything goes on. */
static struct {
    bool active;
    uint32_t s;
    uint64_t cursor;
    bool kept[NODES]; /* held since the first page */
    bool ever[NODES]; /* held at some time since then */
    bool read[NODES];
} reading;

static void
note_reading(void)
{
    for (uint32_t i = 0; i < NODES && reading.active; i++) {
        bool held = tiers[reading.s][i] != 0;
        reading.kept[i] = reading.kept[i] && held;
        reading.ever[i] = reading.ever[i] || held;
    }
}

static void
begin_reading(uint32_t s)
{
    memset(&reading, 0, sizeof reading);
    if (slots[s] == WORKER_NONE || shut[s]) {
        return;
    }
    reading.active = true;
    reading.s = s;
    memset(reading.kept, true, sizeof reading.kept);
    note_reading();
}

static void
read_key(uint64_t key, enum tier tier)
{
    for (uint32_t i = 0; i < NODES; i++) {
        if (node[i].key == key) {
            AGREE(reading.ever[i] && (tiers[reading.s][i] >> tier & 1) != 0);
            reading.read[i] = true;
            return;
        }
    }
    AGREE("a key that nobody has" == NULL);
}

static void
end_reading(void)
{
    for (uint32_t i = 0; i < NODES; i++) {
        AGREE(reading.read[i] || !reading.kept[i]);
    }
    reading.active = false;
    readings++;
}

static void
read_page(struct rng *rng)
{
    uint64_t words[MIRROR_PAGE_MIN + 64];
    struct event_words out = {
        .words = words, .max = MIRROR_PAGE_MIN + (uint32_t)rng_below(rng, 65)};

    if (!reading.active) {
        begin_reading((uint32_t)rng_below(rng, SLOTS));
        return;
    }
    reading.cursor =
        mirror_page(mirror, slots[reading.s], reading.cursor, &out);
    AGREE(!out.failed && event_check(out.words, out.count));
    for (uint32_t at = 0; at < out.count;) {
        uint32_t count = event_op_count(words[at]);
        for (uint32_t i = 1; i <= count; i++) {
            read_key(words[at + i], event_op_tier(words[at]));
        }
        at += 1 + count;
    }
    if (reading.cursor == MIRROR_PAGE_END) {
        end_reading();
    }
}

/* ---- queries ---- */

static void
check_score(uint32_t s, const uint32_t *nodes, const uint64_t *keys,
            uint32_t depth)
{
    enum tier worst;
    enum tier expected_worst = TIER_DEVICE;
    uint64_t expected = 0;
    uint64_t score =
        mirror_score(mirror, slots[s], keys, depth, &weights, &worst);

    for (uint32_t i = 0; i < depth; i++) {
        enum tier tier = (enum tier)__builtin_ctz(tiers[s][nodes[i]]);
        expected += weights.permille[tier];
        expected_worst = tier > expected_worst ? tier : expected_worst;
    }
    AGREE(score == expected && worst == expected_worst);
}

static void
check_answer(const struct worker_set *asked, const uint32_t *nodes,
             const uint64_t *keys, uint32_t known, uint32_t count)
{
    struct mirror_match match;
    struct worker_set left;
    uint32_t best = 0;

    mirror_match(mirror, asked, keys, count, &match);
    left = match.slots;
    for (uint32_t s = 0; s < SLOTS; s++) {
        if (slots[s] == WORKER_NONE || !worker_set_has(asked, slots[s])) {
            continue;
        }
        uint32_t depth = model_depth(s, nodes, known);
        uint32_t got =
            worker_set_has(&match.slots, slots[s]) ? match.depth[slots[s]] : 0;
        AGREE(shut[s] ? got <= depth : got == depth);
        AGREE(got > 0 || !worker_set_has(&match.slots, slots[s]));
        worker_set_remove(&left, slots[s]);
        best = got > best ? got : best;
        if (!shut[s]) {
            check_score(s, nodes, keys, depth);
        }
    }
    AGREE(worker_set_empty(&left) && match.best == best);
}

static void
query(struct rng *rng)
{
    uint32_t nodes[DEPTH];
    uint64_t keys[2 * DEPTH];
    struct worker_set asked;
    uint32_t known = path_of((uint32_t)rng_below(rng, NODES), nodes);
    uint32_t count = known + (uint32_t)rng_below(rng, DEPTH);

    for (uint32_t i = 0; i < count; i++) {
        keys[i] = i < known ? node[nodes[i]].key : rng_next(rng);
    }
    memset(&asked, 0xFF, sizeof(asked));
    if (rng_below(rng, 4) == 0) {
        asked.word[rng_below(rng, WORKER_WORDS)] = rng_next(rng);
    }
    count =
        rng_below(rng, 3) == 0 ? (uint32_t)rng_below(rng, count + 1) : count;
    check_answer(&asked, nodes, keys, known < count ? known : count, count);
    queries++;
}

/* ---- records ---- */

static void
put(struct event_words *out, uint32_t s, enum event_kind kind, enum tier tier,
    uint32_t at)
{
    uint64_t *key = event_words_add(out, kind, tier, 1);
    uint8_t bit = (uint8_t)(1U << tier);

    if (key == NULL) {
        out->failed = false;
        return;
    }
    *key = node[at].key;
    tiers[s][at] = (uint8_t)(kind == EVENT_STORE ? tiers[s][at] | bit
                                                 : tiers[s][at] & ~bit);
    operations++;
}

static enum tier
some_tier(struct rng *rng)
{
    return rng_below(rng, 3) == 0 ? (enum tier)rng_below(rng, TIERS)
                                  : TIER_DEVICE;
}

/* All of a path that is not there yet, first to last. */
static void
grow(struct rng *rng, struct event_words *out, uint32_t s)
{
    uint32_t nodes[DEPTH];
    uint32_t count = path_of((uint32_t)rng_below(rng, NODES), nodes);
    enum tier tier = some_tier(rng);

    for (uint32_t i = 0; i < count; i++) {
        put(out, s, EVENT_STORE, tier, nodes[i]);
    }
}

/* What nobody goes on from, last to first, out of all tiers. */
static void
cut(struct rng *rng, struct event_words *out, uint32_t s)
{
    uint32_t many = (uint32_t)rng_below(rng, 60);

    for (uint32_t i = NODES; i-- > 0 && many > 0;) {
        bool leaf = tiers[s][i] != 0;
        for (uint32_t k = i + 1; k < NODES && leaf; k++) {
            leaf = node[k].parent != i || tiers[s][k] == 0;
        }
        for (uint32_t t = 0; leaf && t < TIERS; t++) {
            if ((tiers[s][i] >> t & 1) != 0) {
                put(out, s, EVENT_REMOVE, (enum tier)t, i);
                many--;
            }
        }
    }
}

static void
tear(struct rng *rng, struct event_words *out, uint32_t s)
{
    for (uint64_t n = rng_below(rng, 30); n > 0; n--) {
        put(out, s, rng_below(rng, 2) == 0 ? EVENT_STORE : EVENT_REMOVE,
            some_tier(rng), (uint32_t)rng_below(rng, NODES));
    }
}

static void
close_slot(uint32_t s)
{
    mirror_close(mirror, slots[s]);
    reading.active = reading.active && reading.s != s;
    slots[s] = WORKER_NONE;
    memset(tiers[s], 0, sizeof(tiers[s]));
    shut[s] = false;
}

static void
record(struct rng *rng)
{
    uint32_t s = (uint32_t)rng_below(rng, SLOTS);
    uint64_t words[WORDS];
    struct event_words out = {.words = words, .max = WORDS};
    uint64_t what = rng_below(rng, 4);

    if (slots[s] == WORKER_NONE || shut[s]) {
        return;
    }
    if (what == 0 && !orderly) {
        tear(rng, &out, s);
    } else if (what == 1) {
        cut(rng, &out, s);
    } else {
        grow(rng, &out, s);
    }
    uint32_t holes =
        rng_below(rng, 12) == 0 ? EVENT_HOLES_UNKNOWN : model_holes(s);
    int rc = mirror_apply(mirror, slots[s], out.words, out.count, holes);
    AGREE(rc == 0 || rc == MIRROR_E_FULL);
    if (rc == MIRROR_E_FULL) {
        shut[s] = true;
        refusals++;
        reading.active = reading.active && reading.s != s;
    }
    note_reading();
}

static void
open_slot(uint32_t s)
{
    if (mirror_open(mirror, &slots[s]) != 0) {
        slots[s] = WORKER_NONE;
        return;
    }
    AGREE(mirror_slot_blocks(mirror, slots[s]) == 0);
}

static void
step(struct rng *rng)
{
    uint32_t s = (uint32_t)rng_below(rng, SLOTS);

    switch (rng_below(rng, 32)) {
    case 0:
        if (slots[s] == WORKER_NONE) {
            open_slot(s);
        } else if (shut[s] || rng_below(rng, 8) == 0) {
            close_slot(s);
        }
        break;
    case 1:
    case 2:
        (void)mirror_work(mirror, (uint32_t)rng_below(rng, 400));
        break;
    case 3:
        if (rng_below(rng, 2) == 0) {
            qsbr_online(&qsbr, reader);
        } else {
            qsbr_offline(reader);
        }
        break;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
    case 10:
        record(rng);
        break;
    case 11:
    case 12:
    case 13:
    case 14:
        read_page(rng);
        break;
    default:
        query(rng);
    }
}

/* Slots from all over the range, not the first ones alone. */
static void
open_some(struct rng *rng)
{
    uint32_t slot;

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        AGREE(mirror_open(mirror, &slot) == 0 && slot == i);
    }
    AGREE(mirror_open(mirror, &slot) == MIRROR_E_NO_SLOT);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        mirror_close(mirror, i);
    }
    AGREE(mirror_open(mirror, &slot) == MIRROR_E_NO_SLOT);
    (void)mirror_work(mirror, 1);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        AGREE(mirror_open(mirror, &slot) == 0 && slot == i);
    }
    uint32_t first = (uint32_t)rng_below(rng, WORKERS_MAX - SLOTS + 1);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (i < first || i >= first + SLOTS) {
            mirror_close(mirror, i);
        } else {
            slots[i - first] = i;
        }
    }
}

static void
play(uint64_t seed)
{
    struct rng rng;
    struct mirror_limits limits;

    rng_init(&rng, seed);
    limits.bytes_max =
        rng_below(&rng, 3) == 0
            ? 100000 + rng_below(&rng, 60000) + (size_t)WORKERS_MAX * 64
            : 64 << 20;
    orderly = rng_below(&rng, 2) == 0;
    memset(tiers, 0, sizeof(tiers));
    memset(shut, 0, sizeof(shut));
    reading.active = false;
    refusals = 0;
    qsbr_init(&qsbr);
    reader = qsbr_register(&qsbr);
    AGREE(mirror_new(&mirror, &limits, &qsbr) == 0);
    make_tree(&rng);
    open_some(&rng);
    for (uint32_t i = 0; i < STEPS; i++) {
        step(&rng);
        if (i % 150 == 0) {
            check_all();
        }
    }
    qsbr_offline(reader);
    check_all();
    for (uint32_t s = 0; s < SLOTS; s++) {
        if (slots[s] != WORKER_NONE) {
            close_slot(s);
        }
    }
    while (mirror_work(mirror, 64)) {
    }
    struct mirror_stats stats;
    mirror_stats(mirror, &stats);
    AGREE(stats.blocks == 0 && stats.holder_blocks == 0 &&
          stats.tiered_blocks == 0 && stats.sweeping == 0);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
}

int
main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (uint64_t seed = first; seed < first + rounds; seed++) {
        playing = seed;
        play(seed);
    }
    printf("property_mirror: %llu rounds, %llu operations, %llu queries, "
           "%llu readings\n",
           (unsigned long long)rounds, (unsigned long long)operations,
           (unsigned long long)queries, (unsigned long long)readings);
    return 0;
}
