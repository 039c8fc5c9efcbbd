/*
 * The radix tree against a naive model: a table of (worker, block) pairs, each
 * with its own stamp, count, creation and priority, its leaves found by
 * looking at every pair. After each operation the two must agree in what a
 * match says, in every worker's blocks, and in what gave way.
 *
 * What the byte bound evicts is a matter of sizes the model knows nothing of;
 * the tree says how many holder-blocks that were, and the model then gives up
 * as many by its own order, the least recently used leaf block first.
 *
 *   property_radix SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/index.h"

#define WORKERS    6
#define DEPTH_MAX  100
#define PAIRS_LOG2 9 /* the model's table of one worker */
#define PAIRS_MAX  (1U << PAIRS_LOG2)
#define BLOCKS_MAX 300
#define ROOTS      5

struct pair {
    uint64_t key; /* 0: empty */
    uint64_t above;
    uint64_t touched;
    uint64_t created;
    uint32_t count;
    uint32_t kids;
    uint32_t worker;
    uint32_t depth;
    uint8_t priority;
};

struct model {
    struct pair pair[WORKERS][PAIRS_MAX];
    uint64_t leaf[WORKERS][PAIRS_MAX / 64]; /* which have no kids */
    uint64_t blocks[WORKERS];
    uint64_t blocks_max[WORKERS];
    enum radix_eviction eviction[WORKERS];
    bool live[WORKERS];
    uint64_t clock;
};

static struct model model;
static uint64_t seed;
static uint64_t steps;

#define REQUIRE(condition)                                                 \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("property_radix: %s (line %d), seed %llu, step %llu\n", \
                   #condition, __LINE__, (unsigned long long)seed,         \
                   (unsigned long long)steps);                             \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

static uint32_t
pair_slot(uint64_t key)
{
    return (uint32_t)(rng_mix(key) >> (64 - PAIRS_LOG2));
}

/* The pair, or the empty place where it would be. */
static struct pair *
pair_find(uint32_t worker, uint64_t key)
{
    struct pair *pairs = model.pair[worker];
    uint32_t at = pair_slot(key);

    while (pairs[at].key != 0 && pairs[at].key != key) {
        at = (at + 1) % PAIRS_MAX;
    }
    return &pairs[at];
}

/* Brings a place's leaf bit up to date. */
static void
leaf_mark(uint32_t worker, uint32_t at)
{
    const struct pair *pair = &model.pair[worker][at];
    uint64_t bit = UINT64_C(1) << (at % 64);

    model.leaf[worker][at / 64] &= ~bit;
    model.leaf[worker][at / 64] |= pair->key != 0 && pair->kids == 0 ? bit : 0;
}

/* One kid more or less for a pair, if it is there. */
static void
pair_kids(uint32_t worker, uint64_t key, int change)
{
    struct pair *pair = pair_find(worker, key);

    if (pair->key != 0) {
        pair->kids += (uint32_t)change;
        leaf_mark(worker, (uint32_t)(pair - model.pair[worker]));
    }
}

static void
pair_remove(struct pair *pair)
{
    uint32_t worker = pair->worker;
    struct pair *pairs = model.pair[worker];
    uint32_t hole = (uint32_t)(pair - pairs);

    model.blocks[worker]--;
    pair_kids(worker, pair->above, -1);
    for (uint32_t at = (hole + 1) % PAIRS_MAX; pairs[at].key != 0;
         at = (at + 1) % PAIRS_MAX) {
        uint32_t home = pair_slot(pairs[at].key);
        if ((at - home) % PAIRS_MAX >= (at - hole) % PAIRS_MAX) {
            pairs[hole] = pairs[at];
            leaf_mark(worker, hole);
            hole = at;
        }
    }
    pairs[hole].key = 0;
    leaf_mark(worker, hole);
}

/* True when a gives way before b. */
static bool
less(enum radix_eviction eviction, const struct pair *a, const struct pair *b)
{
    switch (eviction) {
    case RADIX_LRU:
        break;
    case RADIX_LFU:
        if (a->count != b->count) {
            return a->count < b->count;
        }
        break;
    case RADIX_FIFO:
        return a->created < b->created;
    case RADIX_MRU:
        return a->touched > b->touched;
    case RADIX_FILO:
        return a->created > b->created;
    case RADIX_PRIORITY:
        if (a->priority != b->priority) {
            return a->priority < b->priority;
        }
        break;
    }
    return a->touched < b->touched;
}

/* The leaf of a worker that gives way next, but for the one called keep. */
static struct pair *
victim(uint32_t worker, enum radix_eviction eviction, uint64_t keep)
{
    struct pair *best = NULL;

    for (uint32_t i = 0; i < PAIRS_MAX / 64 && model.live[worker]; i++) {
        for (uint64_t bits = model.leaf[worker][i]; bits != 0;
             bits &= bits - 1) {
            struct pair *pair =
                &model.pair[worker][i * 64 + (uint32_t)__builtin_ctzll(bits)];
            if (pair->key != keep &&
                (best == NULL || less(eviction, pair, best))) {
                best = pair;
            }
        }
    }
    return best;
}

/* The least recently used leaf of all. */
static struct pair *
oldest(void)
{
    struct pair *best = NULL;

    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        struct pair *pair = victim(worker, RADIX_LRU, 0);
        if (best == NULL || (pair != NULL && less(RADIX_LRU, pair, best))) {
            best = pair;
        }
    }
    return best;
}

static void
model_insert(uint32_t worker, uint64_t root, const uint64_t *keys, size_t count,
             uint8_t priority)
{
    uint64_t above = root;

    for (size_t i = 0; i < count; i++) {
        struct pair *pair = pair_find(worker, keys[i]);
        if (pair->key == 0) {
            *pair = (struct pair){.key = keys[i],
                                  .above = above,
                                  .created = model.clock,
                                  .worker = worker,
                                  .depth = (uint32_t)i + 1};
            model.blocks[worker]++;
            leaf_mark(worker, (uint32_t)(pair - model.pair[worker]));
            pair_kids(worker, above, 1);
        }
        pair->touched = model.clock;
        pair->count += pair->count < 65535;
        pair->priority = priority > pair->priority ? priority : pair->priority;
        above = keys[i];
    }
}

/* A worker gives up blocks for its capacity; keep: the last of the prefix
 * that it was just sent, or 0. */
static void
model_shrink(uint32_t worker, uint64_t blocks, uint64_t keep)
{
    while (blocks-- > 0) {
        REQUIRE(model.blocks[worker] > model.blocks_max[worker]);
        struct pair *pair = victim(worker, model.eviction[worker], keep);
        REQUIRE(pair != NULL);
        pair_remove(pair);
    }
}

static void
model_forget(uint32_t worker)
{
    memset(model.pair[worker], 0, sizeof(model.pair[worker]));
    memset(model.leaf[worker], 0, sizeof(model.leaf[worker]));
    model.blocks[worker] = 0;
}

/* Prompts: words from a small alphabet, long runs without a choice, so that
 * they share prefixes, end inside each other's and branch. */
static size_t
make_prompt(struct rng *rng, uint64_t *root, uint64_t *keys)
{
    size_t count = 1 + (size_t)rng_below(rng, DEPTH_MAX + 4);
    uint64_t key;

    *root = rng_mix(77 + rng_below(rng, ROOTS));
    key = *root;
    for (size_t i = 0; i < count; i++) {
        bool choice = rng_mix(key) % 6 == 0;
        key = rng_mix(key ^ (choice ? rng_below(rng, 3) : 0));
        keys[i] = key;
    }
    return count;
}

static void
compare_match(const struct radix *radix, uint64_t root, const uint64_t *keys,
              size_t count)
{
    struct radix_match match;
    uint32_t best = 0;

    count = count < DEPTH_MAX ? count : DEPTH_MAX;
    radix_match(radix, root, keys, count, &match);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        uint32_t depth = 0;
        while (model.live[worker] && depth < count &&
               pair_find(worker, keys[depth])->key != 0) {
            depth++;
        }
        best = depth > best ? depth : best;
        REQUIRE(worker_set_has(&match.workers, worker) == (depth > 0));
        REQUIRE(depth == 0 || match.depth[worker] == depth);
    }
    REQUIRE(match.best == best);
    REQUIRE(worker_set_next(&match.workers, WORKERS) == WORKER_NONE);
}

struct run {
    struct radix *radix;
    struct qsbr qsbr;
    struct qsbr_reader *reader;
    struct radix_limits limits;
    uint64_t evicted_bound;
    uint64_t evicted_blocks;
    uint32_t dead; /* workers removed and not yet swept */
};

/* What the byte bound took since the last call. */
static void
follow_bound(struct run *run)
{
    struct radix_stats stats;

    radix_stats(run->radix, &stats);
    while (run->evicted_bound < stats.evicted_bound) {
        struct pair *pair = oldest();
        REQUIRE(pair != NULL);
        pair_remove(pair);
        run->evicted_bound++;
    }
    REQUIRE(stats.bytes <= run->limits.bytes_max);
    REQUIRE(stats.bytes_used <= stats.bytes);
    REQUIRE(stats.namespaces <= run->limits.namespaces_max);
}

/* How many blocks capacities took since the last call. */
static uint64_t
shrunk(struct run *run)
{
    struct radix_stats stats;
    uint64_t before = run->evicted_blocks;

    radix_stats(run->radix, &stats);
    run->evicted_blocks = stats.evicted_blocks;
    return stats.evicted_blocks - before;
}

/* Background work: capacities that were lowered come first, by worker. */
static bool
work(struct run *run, uint32_t budget)
{
    bool more = radix_work(run->radix, budget, model.clock);
    uint64_t blocks = shrunk(run);

    for (uint32_t worker = 0; worker < WORKERS && blocks > 0; worker++) {
        uint64_t over = model.live[worker] &&
                                model.blocks[worker] > model.blocks_max[worker]
                            ? model.blocks[worker] - model.blocks_max[worker]
                            : 0;
        over = over < blocks ? over : blocks;
        model_shrink(worker, over, 0);
        blocks -= over;
    }
    REQUIRE(blocks == 0);
    follow_bound(run);
    return more;
}

static void
compare_counts(struct run *run)
{
    struct radix_stats stats;
    uint64_t sum = 0;

    radix_stats(run->radix, &stats);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        REQUIRE(radix_worker_blocks(run->radix, worker) ==
                (model.live[worker] ? model.blocks[worker] : 0));
        sum += model.live[worker] ? model.blocks[worker] : 0;
    }
    REQUIRE(run->dead > 0 || sum == stats.holder_blocks);
}

static void
op_insert(struct run *run, struct rng *rng)
{
    uint64_t keys[DEPTH_MAX + 8];
    uint64_t root;
    size_t count = make_prompt(rng, &root, keys);
    uint32_t worker = (uint32_t)rng_below(rng, WORKERS);
    uint8_t priority = (uint8_t)rng_below(rng, 4);
    uint64_t now = model.clock + rng_below(rng, 3);
    int rc = radix_insert(run->radix, root, keys, count, worker, priority, now);

    if (!model.live[worker]) {
        REQUIRE(rc == RADIX_E_GONE);
        return;
    }
    count = count < DEPTH_MAX ? count : DEPTH_MAX;
    count = count < model.blocks_max[worker] ? count
                                             : (size_t)model.blocks_max[worker];
    follow_bound(run);
    model.clock = now > model.clock ? now : model.clock + 1;
    if (rc == 0 && count > 0) {
        bool over = model.blocks[worker] > model.blocks_max[worker];
        model_insert(worker, root, keys, count, priority);
        model_shrink(worker, shrunk(run), keys[count - 1]);
        REQUIRE(over || model.blocks[worker] <= model.blocks_max[worker]);
    }
    REQUIRE(rc == 0 || rc == RADIX_E_FULL);
    compare_match(run->radix, root, keys, count);
}

static void
op_match(struct run *run, struct rng *rng)
{
    uint64_t keys[DEPTH_MAX + 8];
    uint64_t root;
    size_t count = make_prompt(rng, &root, keys);

    compare_match(run->radix, root, keys, count);
}

static void
op_worker(struct run *run, struct rng *rng)
{
    uint32_t worker = (uint32_t)rng_below(rng, WORKERS);

    if (model.live[worker] && rng_below(rng, 4) > 0) {
        model.blocks_max[worker] = rng_below(rng, BLOCKS_MAX);
        REQUIRE(radix_worker_add(run->radix, worker, model.blocks_max[worker],
                                 model.eviction[worker]) == 0);
        while (rng_below(rng, 3) > 0 && work(run, 8)) {
        }
    } else if (model.live[worker]) {
        radix_worker_remove(run->radix, worker);
        model_forget(worker);
        model.live[worker] = false;
        run->dead++;
    } else {
        model.eviction[worker] = (enum radix_eviction)rng_below(rng, 6);
        model.blocks_max[worker] = 1 + rng_below(rng, BLOCKS_MAX);
        int rc = radix_worker_add(run->radix, worker, model.blocks_max[worker],
                                  model.eviction[worker]);
        REQUIRE(rc == 0 || (rc == RADIX_E_FULL && run->dead > 0));
        model.live[worker] = rc == 0;
    }
}

static void
op_work(struct run *run, struct rng *rng)
{
    if (!work(run, 1 + (uint32_t)rng_below(rng, 20))) {
        run->dead = 0;
    }
}

/* A reader that stays is what makes retired memory pile up. */
static void
op_reader(struct run *run, struct rng *rng)
{
    if (rng_below(rng, 2) == 0) {
        qsbr_online(&run->qsbr, run->reader);
    } else {
        qsbr_offline(run->reader);
    }
}

static void
run_once(uint64_t ops)
{
    struct run run = {.dead = 0};
    struct rng rng;
    const char *reason;

    rng_init(&rng, seed);
    memset(&model, 0, sizeof(model));
    qsbr_init(&run.qsbr);
    run.reader = qsbr_register(&run.qsbr);
    run.limits = (struct radix_limits){
        .bytes_max = 110000 + (rng_below(&rng, 2) == 0 ? rng_below(&rng, 60000)
                                                       : 4000000),
        .namespaces_max =
            rng_below(&rng, 4) == 0 ? (uint32_t)(2 + rng_below(&rng, 4)) : 9,
        .depth_max = DEPTH_MAX};
    REQUIRE(radix_new(&run.radix, &run.limits, &run.qsbr) == 0);
    for (uint64_t i = 0; i < ops; i++) {
        uint64_t dice = rng_below(&rng, 1000);
        steps++;
        if (dice < 600) {
            op_insert(&run, &rng);
        } else if (dice < 900) {
            op_match(&run, &rng);
        } else if (dice < 985) {
            op_work(&run, &rng);
        } else if (dice < 990) {
            op_reader(&run, &rng);
        } else {
            op_worker(&run, &rng);
        }
        compare_counts(&run);
        if (i % 97 == 0 && !radix_check(run.radix, &reason)) {
            printf("property_radix: %s\n", reason);
            REQUIRE(false);
        }
    }
    qsbr_offline(run.reader);
    radix_free(run.radix);
    qsbr_fini(&run.qsbr);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (seed = first; seed < first + seeds; seed++) {
        run_once(3000);
    }
    printf("property_radix: %llu operations, seeds %llu to %llu agree\n",
           (unsigned long long)steps, (unsigned long long)first,
           (unsigned long long)(seed - 1));
    return 0;
}
