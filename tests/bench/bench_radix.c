/*
 * The radix tree measured: matching and learning prompts of 1k to 128k tokens
 * with 8 and 256 workers, the same questions put to a naive structure (a hash
 * table from key to the set of holders, walked block by block) in the same
 * run, what a block costs in memory, a writer beside a reader, and a day of
 * unique prompts under a bound.
 *
 *   meson test --benchmark -C BUILD --verbose bench/radix
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "index/base/rng.h"
#include "index/index.h"

#define BLOCKS_TOTAL (UINT32_C(1) << 20) /* distinct ones of a population */
#define TURNS        6
#define QUERIES      20000
#define BATCH        64 /* inserts timed together */
#define SECOND_NS    1e9

struct shape {
    const char *name;
    uint32_t tokens;
    uint32_t block_tokens;
    uint32_t workers;
};

/* Conversations that grow by turns below a shared system prompt. */
struct population {
    uint32_t blocks; /* of a whole conversation */
    uint32_t system; /* of them shared by all of a tenant */
    uint32_t conversations;
    uint32_t workers;
    uint64_t root;
};

static struct qsbr qsbr;
static volatile uint64_t sink;

static double
now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * SECOND_NS + (double)t.tv_nsec;
}

/* This thread's own time, so that a busy machine does not count; for batches,
 * since asking costs more than a match. */
static double
cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * SECOND_NS + (double)t.tv_nsec;
}

/* The keys of a conversation; variant 0 to conversations - 1 are stored. */
static void
conversation(const struct population *p, uint64_t variant, uint64_t *keys)
{
    uint64_t key = p->root ^ (variant % 8); /* eight system prompts */

    for (uint32_t i = 0; i < p->blocks; i++) {
        key = rng_mix(key ^ (i < p->system ? 0 : variant + 1));
        keys[i] = key;
    }
}

/* ---- the naive structure: key -> holders ---- */

struct entry {
    uint64_t key;
    struct worker_set holders;
};

struct naive {
    struct entry *entry;
    uint64_t mask;
    uint64_t count;
};

static struct entry *
naive_find(const struct naive *naive, uint64_t key)
{
    uint64_t at = (key * 0x9E3779B97F4A7C15U >> 20) & naive->mask;

    while (naive->entry[at].key != 0 && naive->entry[at].key != key) {
        at = (at + 1) & naive->mask;
    }
    return &naive->entry[at];
}

static void
naive_new(struct naive *naive, uint64_t blocks)
{
    uint64_t size = 1024;

    while (size * 6 / 10 < blocks) {
        size *= 2;
    }
    naive->entry = calloc(size, sizeof(struct entry));
    CHECK(naive->entry != NULL);
    naive->mask = size - 1;
    naive->count = 0;
}

static void
naive_insert(struct naive *naive, const uint64_t *keys, uint32_t count,
             uint32_t worker)
{
    for (uint32_t i = 0; i < count; i++) {
        struct entry *entry = naive_find(naive, keys[i]);
        naive->count += entry->key == 0;
        entry->key = keys[i];
        worker_set_add(&entry->holders, worker);
    }
}

static void
naive_match(const struct naive *naive, const uint64_t *keys, uint32_t count,
            struct radix_match *match)
{
    struct worker_set walking;

    memset(&walking, 0xFF, sizeof(walking));
    worker_set_clear(&match->workers);
    match->best = 0;
    for (uint32_t i = 0; i <= count; i++) {
        struct worker_set stay = {.word = {0}};
        if (i < count) {
            const struct entry *entry = naive_find(naive, keys[i]);
            stay = worker_set_and(&walking, &entry->holders);
        }
        if (i > 0) {
            struct worker_set out = worker_set_minus(&walking, &stay);
            WORKER_SET_EACH (worker, &out) {
                worker_set_add(&match->workers, worker);
                match->depth[worker] = i;
                match->best = i;
            }
        }
        walking = stay;
        if (worker_set_empty(&walking)) {
            break;
        }
    }
}

/* ---- the questions ---- */

static int
compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Wall time in ns, the clock's own taken off. */
struct timing {
    double mean; /* of the fastest 99 in 100, the machine being shared */
    double p50;
    double p99;
};

/* 0: stored conversations; 1: new ones below a stored system prompt; 2: ones
 * that share nothing. */
enum question {
    HIT,
    BRANCH,
    MISS,
};

static uint64_t
pick(const struct population *p, struct rng *rng, enum question question)
{
    uint64_t stored = rng_below(rng, p->conversations);
    return question == HIT ? stored : stored + (UINT64_C(1) << 40);
}

/* Keys of many queries in advance, so that only the match is timed. */
static uint64_t *
make_queries(const struct population *p, enum question question,
             uint32_t queries)
{
    uint64_t *keys = malloc((size_t)queries * p->blocks * sizeof(uint64_t));
    struct population other = *p;
    struct rng rng;

    CHECK(keys != NULL);
    rng_init(&rng, 99);
    other.root ^= question == MISS ? UINT64_C(0xF00) << 32 : 0;
    for (uint32_t i = 0; i < queries; i++) {
        conversation(&other, pick(p, &rng, question),
                     keys + (size_t)i * p->blocks);
    }
    return keys;
}

/* Reads the keys, as the caller who just hashed them would have. */
static void
touch(const uint64_t *keys, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        sum += keys[i];
    }
    sink += sum;
}

/* The tree when naive is NULL. */
static void
match_once(const struct radix *radix, const struct naive *naive,
           const struct population *p, const uint64_t *keys)
{
    struct radix_match match;

    if (naive == NULL) {
        radix_match(radix, p->root, keys, p->blocks, &match);
    } else {
        naive_match(naive, keys, p->blocks, &match);
    }
    sink += match.best;
}

/* What reading the clock twice costs, the median of some. */
static double
clock_cost(void)
{
    double took[1001];

    for (size_t i = 0; i < 1001; i++) {
        double start = now_ns();
        took[i] = now_ns() - start;
    }
    qsort(took, 1001, sizeof(double), compare_double);
    return took[500];
}

static struct timing
time_matches(const struct radix *radix, const struct naive *naive,
             const struct population *p, const uint64_t *keys, uint32_t queries)
{
    double *took = malloc(queries * sizeof(double));
    double clock = clock_cost();
    uint32_t most = queries - queries / 100;
    struct timing timing = {.mean = -clock};

    CHECK(took != NULL);
    for (uint32_t i = 0; i < queries; i++) {
        touch(keys + (size_t)i * p->blocks, p->blocks);
        double start = now_ns();
        match_once(radix, naive, p, keys + (size_t)i * p->blocks);
        took[i] = now_ns() - start;
    }
    qsort(took, queries, sizeof(double), compare_double);
    for (uint32_t i = 0; i < most; i++) {
        timing.mean += took[i] / most;
    }
    timing.p50 = took[queries / 2] - clock;
    timing.p99 = took[most - 1] - clock;
    free(took);
    return timing;
}

static uint32_t
worker_of(const struct population *p, uint32_t conversation, uint32_t turn)
{
    uint32_t moved = turn == TURNS && conversation % 8 == 0 ? 1 : 0;
    return (uint32_t)((rng_mix(conversation) + moved) % p->workers);
}

/* Every conversation turn by turn on one worker, one in eight moving to
 * another for its last; ns of CPU for all inserts. */
static double
populate(struct radix *radix, struct naive *naive, const struct population *p)
{
    uint64_t *keys = malloc((size_t)BATCH * p->blocks * sizeof(uint64_t));
    double took = 0;
    uint64_t now = 0;

    CHECK(keys != NULL);
    for (uint32_t turn = 1; turn <= TURNS; turn++) {
        uint32_t count = p->system + (p->blocks - p->system) * turn / TURNS;
        for (uint32_t i = 0; i < p->conversations; i += BATCH) {
            uint32_t end =
                i + BATCH < p->conversations ? i + BATCH : p->conversations;
            for (uint32_t k = i; k < end; k++) {
                uint64_t *at = keys + (size_t)(k - i) * p->blocks;
                conversation(p, k, at);
                if (naive != NULL) {
                    naive_insert(naive, at, count, worker_of(p, k, turn));
                }
            }
            double start = cpu_ns();
            for (uint32_t k = i; k < end; k++) {
                CHECK(radix_insert(radix, p->root,
                                   keys + (size_t)(k - i) * p->blocks, count,
                                   worker_of(p, k, turn), 0, ++now) == 0);
            }
            took += cpu_ns() - start;
        }
    }
    free(keys);
    return took;
}

static struct radix *
new_tree(size_t bytes_max, uint32_t workers, uint64_t blocks_max)
{
    struct radix *radix;
    struct radix_limits limits = {
        .bytes_max = bytes_max, .namespaces_max = 1024, .depth_max = 16384};

    CHECK(radix_new(&radix, &limits, &qsbr) == 0);
    for (uint32_t i = 0; i < workers; i++) {
        CHECK(radix_worker_add(radix, i, blocks_max, RADIX_LRU) == 0);
    }
    return radix;
}

static void
check_agreement(const struct radix *radix, const struct naive *naive,
                const struct population *p, const uint64_t *keys)
{
    struct radix_match a;
    struct radix_match b;

    for (uint32_t i = 0; i < 50; i++) {
        const uint64_t *k = keys + (size_t)i * p->blocks;
        radix_match(radix, p->root, k, p->blocks, &a);
        naive_match(naive, k, p->blocks, &b);
        CHECK(memcmp(&a.workers, &b.workers, sizeof(a.workers)) == 0);
        WORKER_SET_EACH (worker, &a.workers) {
            CHECK(a.depth[worker] == b.depth[worker]);
        }
    }
}

static void
bench_shape(const struct shape *shape)
{
    struct population p = {.blocks = shape->tokens / shape->block_tokens,
                           .workers = shape->workers,
                           .root = 0xABCDEF0000};
    struct naive naive;
    struct radix_stats stats;
    static const char *const names[] = {"hit", "branch", "miss"};

    p.system = p.blocks / 4;
    p.conversations = BLOCKS_TOTAL / (p.blocks - p.system);
    p.conversations = p.conversations < 64 ? 64 : p.conversations;
    struct radix *radix =
        new_tree((size_t)1 << 30, shape->workers, UINT64_C(1) << 30);
    naive_new(&naive, (uint64_t)p.blocks * (p.conversations + 8));
    double took = populate(radix, &naive, &p);
    radix_stats(radix, &stats);
    for (int question = HIT; question <= MISS; question++) {
        uint32_t queries = QUERIES > BLOCKS_TOTAL * 8 / p.blocks
                               ? BLOCKS_TOTAL * 8 / p.blocks
                               : QUERIES;
        uint64_t *keys = make_queries(&p, (enum question)question, queries);
        check_agreement(radix, &naive, &p, keys);
        struct timing ours = time_matches(radix, NULL, &p, keys, queries);
        struct timing other = time_matches(NULL, &naive, &p, keys, queries / 4);
        printf("match  %-9s %3u workers %4u blocks %-6s %7.0f %7.0f %8.0f "
               "%9.0f %7.1fx\n",
               shape->name, shape->workers, p.blocks, names[question],
               ours.mean, ours.p50, ours.p99, other.mean,
               other.mean / ours.mean);
        free(keys);
    }
    printf("insert %-9s %3u workers %4u blocks turns  %7.0f ns each, %5.1f M "
           "new blocks/s\n",
           shape->name, shape->workers, p.blocks,
           took / (p.conversations * TURNS),
           (double)stats.holder_blocks / took * 1e3);
    printf("memory %-9s %3u workers: %.1f B per holder-block, %.1f B per "
           "block; naive %.1f B per block\n",
           shape->name, shape->workers,
           (double)stats.bytes_used / (double)stats.holder_blocks,
           (double)stats.bytes_used / (double)stats.blocks,
           (double)((naive.mask + 1) * sizeof(struct entry)) /
               (double)naive.count);
    free(naive.entry);
    radix_free(radix);
}

/* ---- learning ---- */

/* Prompts first + 0..BATCH - 1 learned; ns of CPU. */
static double
learn_batch(struct radix *radix, const struct population *p,
            const uint64_t *keys, uint64_t first)
{
    double start = cpu_ns();

    for (uint64_t i = 0; i < BATCH; i++) {
        CHECK(radix_insert(radix, p->root, keys + i * p->blocks, p->blocks,
                           (uint32_t)((first + i) % p->workers), 0,
                           first) == 0);
    }
    return cpu_ns() - start;
}

static void
bench_insert(uint32_t tokens, uint32_t block_tokens, uint32_t workers)
{
    struct population p = {.blocks = tokens / block_tokens,
                           .workers = workers,
                           .root = 0xABCDEF0000};
    uint32_t inserts = (2 * BLOCKS_TOTAL / p.blocks + BATCH) / BATCH * BATCH;
    uint64_t *keys = malloc((size_t)BATCH * p.blocks * sizeof(uint64_t));
    double fresh = 0;
    double again = 0;

    CHECK(keys != NULL);
    p.system = p.blocks / 4;
    struct radix *radix =
        new_tree((size_t)1 << 30, workers, BLOCKS_TOTAL / workers + p.blocks);
    for (uint32_t i = 0; i < inserts * 2; i += BATCH) {
        for (uint32_t k = 0; k < BATCH; k++) {
            conversation(&p, i + k, keys + (size_t)k * p.blocks);
        }
        double first = learn_batch(radix, &p, keys, i);
        double second = learn_batch(radix, &p, keys, i);
        if (i >= inserts) { /* the caches are full: each insert evicts */
            fresh += first;
            again += second;
        }
    }
    printf("insert %6u tokens %3u workers %4u blocks: new, at capacity %7.0f "
           "ns (%5.1f M blocks/s), known %6.0f ns\n",
           tokens, workers, p.blocks, fresh / inserts,
           (double)inserts * (p.blocks - p.system) / fresh * 1e3,
           again / inserts);
    free(keys);
    radix_free(radix);
}

/* ---- a writer beside a reader ---- */

struct beside {
    const struct radix *radix;
    const struct population *p;
    const uint64_t *keys;
    uint32_t queries;
    _Atomic int stop;
    double mean; /* ns of CPU */
};

static void *
read_beside(void *arg)
{
    struct beside *b = arg;
    struct qsbr_reader *me = qsbr_register(&qsbr);
    struct radix_match match;
    uint64_t count = 0;
    double start = cpu_ns();

    while (!atomic_load_explicit(&b->stop, memory_order_relaxed)) {
        qsbr_online(&qsbr, me);
        for (int i = 0; i < 16; i++) {
            const uint64_t *k = b->keys + (count++ % b->queries) * b->p->blocks;
            radix_match(b->radix, b->p->root, k, b->p->blocks, &match);
            sink += match.best;
        }
        qsbr_offline(me);
    }
    b->mean = (cpu_ns() - start) / (double)count;
    return NULL;
}

/* Learns for a second of its own CPU time; how much each took of that. */
static double
write_beside(struct radix *radix, const struct population *p, uint64_t *first)
{
    uint64_t *keys = malloc((size_t)BATCH * p->blocks * sizeof(uint64_t));
    double took = 0;
    uint64_t inserts = 0;

    CHECK(keys != NULL);
    while (took < SECOND_NS) {
        for (uint64_t k = 0; k < BATCH; k++) {
            conversation(p, *first + k, keys + k * p->blocks);
        }
        took += learn_batch(radix, p, keys, *first);
        *first += BATCH;
        inserts += BATCH;
    }
    free(keys);
    return took / (double)inserts;
}

static void
bench_beside(void)
{
    struct population p = {
        .blocks = 128, .system = 32, .workers = 256, .root = 0xABCDEF0000};
    uint64_t first = UINT64_C(1) << 30;
    pthread_t thread;

    p.conversations = BLOCKS_TOTAL / 96;
    struct radix *radix = new_tree((size_t)1 << 30, 256, 8192);
    (void)populate(radix, NULL, &p);
    uint64_t *queries = make_queries(&p, BRANCH, QUERIES);
    struct beside b = {
        .radix = radix, .p = &p, .keys = queries, .queries = QUERIES};
    double alone = write_beside(radix, &p, &first);
    for (int writing = 0; writing < 2; writing++) {
        double insert = 0;
        double start = now_ns();
        atomic_store(&b.stop, 0);
        CHECK(pthread_create(&thread, NULL, read_beside, &b) == 0);
        if (writing) {
            insert = write_beside(radix, &p, &first);
        }
        while (now_ns() - start < SECOND_NS) {
        }
        atomic_store(&b.stop, 1);
        CHECK(pthread_join(thread, NULL) == 0);
        printf("beside %s: match %4.0f ns of CPU",
               writing ? "a writer at full rate" : "nobody               ",
               b.mean);
        if (writing) {
            printf(", insert %.0f, alone %.0f", insert, alone);
        }
        printf("\n");
    }
    free(queries);
    radix_free(radix);
}

/* ---- a day of unique prompts ---- */

/* Ten a second; mixed: one in ten has hundreds of blocks, one in a hundred
 * 4,096. */
static uint32_t
day_blocks(struct rng *rng, bool mixed)
{
    uint64_t dice = mixed ? rng_below(rng, 100) : 99;

    if (dice == 0) {
        return 4096;
    }
    return dice < 10 ? 200 + (uint32_t)rng_below(rng, 400) : 32;
}

static void
bench_day(bool mixed)
{
    static uint64_t keys[4096];
    size_t bound = (size_t)64 << 20;
    struct radix *radix = new_tree(bound, 64, UINT64_C(1) << 40);
    struct radix_stats stats;
    struct rng rng;
    size_t most = 0;
    uint64_t key = 1;
    double start = cpu_ns();

    rng_init(&rng, 4);
    for (uint64_t i = 0; i < 864000; i++) {
        uint32_t blocks = day_blocks(&rng, mixed);
        for (uint32_t k = 0; k < blocks; k++) {
            key = rng_mix(key);
            keys[k] = key;
        }
        (void)!radix_insert(radix, 7, keys, blocks, (uint32_t)i % 64, 0,
                            i * 100000);
        if (i % 16 == 0) {
            (void)radix_work(radix, 32, i * 100000);
            radix_stats(radix, &stats);
            most = stats.bytes > most ? stats.bytes : most;
        }
    }
    double took = cpu_ns() - start;
    radix_stats(radix, &stats);
    printf("day    864,000 unique prompts, %s: %.2f MiB at most of %.0f, %llu "
           "refused, %.0f ns each, %.1f B per holder-block, belief reaches "
           "back %.0f s\n",
           mixed ? "32 to 4096 blocks" : "32 blocks", (double)most / 1048576,
           (double)bound / 1048576, (unsigned long long)stats.refused,
           took / 864000, (double)stats.bytes / (double)stats.holder_blocks,
           (864000.0 * 100000 - (double)stats.oldest_us) / 1e6);
    CHECK(most <= bound);
    radix_free(radix);
}

int
main(int argc, char **argv)
{
    static const struct shape shapes[] = {
        {"1k/32", 1024, 32, 8},       {"1k/32", 1024, 32, 256},
        {"4k/32", 4096, 32, 8},       {"4k/32", 4096, 32, 256},
        {"16k/32", 16384, 32, 8},     {"16k/32", 16384, 32, 256},
        {"16k/16", 16384, 16, 256},   {"128k/32", 131072, 32, 8},
        {"128k/32", 131072, 32, 256}, {"128k/16", 131072, 16, 256},
    };
    const char *only = argc > 1 ? argv[1] : "";

    qsbr_init(&qsbr);
    if (only[0] == '\0' || only[0] == 'm') {
        printf("match: ns, mean of the fastest 99 %%, p50, p99; naive's mean; "
               "ratio\n");
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
            bench_shape(&shapes[i]);
        }
    }
    if (only[0] == '\0' || only[0] == 'i') {
        for (uint32_t tokens = 1024; tokens <= 131072; tokens *= 4) {
            bench_insert(tokens == 65536 ? 131072 : tokens, 32, 8);
            bench_insert(tokens == 65536 ? 131072 : tokens, 32, 256);
        }
    }
    if (only[0] == '\0' || only[0] == 'b') {
        bench_beside();
    }
    if (only[0] == '\0' || only[0] == 'd') {
        bench_day(false);
        bench_day(true);
    }
    return 0;
}
