/*
 * The mirror measured: matching prompts of 8k, 32k and 128k tokens (blocks of
 * 16) against 10 million blocks with 8, 64 and 256 slots, the same questions
 * walked block by block and put to the radix tree; a writer beside the reader;
 * what a block costs in memory; how many blocks a second are applied, with
 * dead slots being swept and without; how long the writer stands still for a
 * table; and a recorded workload.
 *
 *   meson test --benchmark -C BUILD --verbose bench/mirror
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "index/base/rng.h"
#include "index/index.h"

#define BLOCKS_TOTAL 10000000U
#define SYSTEMS      32 /* prompts that all slots hold */
#define QUERIES      2000
#define PASSES       4  /* the quietest one counts: the machine is shared */
#define RECORD       64 /* blocks of one record */
#define SECOND_NS    1e9
#define SHARED_KEYS  100000U /* about so many keys that all slots hold */

/* What a prompt meets. */
enum question {
    SINGLE, /* one slot holds it all */
    BRANCH, /* all hold an eighth of it; one all of it, two some more */
    SHARED, /* all hold it all */
    STAIRS, /* each holds more than the one before */
    QUESTIONS,
};

static const char *const question_names[] = {"single", "branch", "shared",
                                             "stairs"};

struct shape {
    uint32_t slots;
    uint32_t blocks;  /* of a conversation */
    uint32_t chains;  /* conversations */
    uint32_t special; /* of them SHARED, and as many STAIRS */
};

static struct qsbr qsbr;
static struct mirror *mirror;
static uint64_t *query_keys;
static volatile uint64_t sink;

static double
now_ns(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec * SECOND_NS + (double)t.tv_nsec;
}

static double
wall_ns(void)
{
    return now_ns(CLOCK_MONOTONIC);
}

/* ---- the population ---- */

static enum question
kind_of(const struct shape *shape, uint32_t chain)
{
    if (chain < 2 * shape->special) {
        return chain < shape->special ? SHARED : STAIRS;
    }
    return chain % 2 == 0 ? SINGLE : BRANCH;
}

static void
make_chain(const struct shape *shape, uint32_t chain, uint64_t *keys)
{
    uint32_t common = kind_of(shape, chain) == BRANCH ? shape->blocks / 8 : 0;
    uint64_t key = common > 0 ? chain / 2 % SYSTEMS : 1000 + chain;

    for (uint32_t i = 0; i < shape->blocks; i++) {
        key = rng_mix(i == common ? key ^ (uint64_t)chain << 20 : key);
        keys[i] = key;
    }
}

/* How many blocks of a conversation a slot holds. */
static uint32_t
held_of(const struct shape *shape, uint32_t chain, uint32_t slot)
{
    uint32_t owner = (uint32_t)(rng_mix(chain) % shape->slots);
    uint32_t after = (slot + shape->slots - owner) % shape->slots;

    switch (kind_of(shape, chain)) {
    case SHARED:
        return shape->blocks;
    case STAIRS:
        return (uint32_t)((uint64_t)shape->blocks * (slot + 1) / shape->slots);
    case SINGLE:
        return after == 0 ? shape->blocks : 0;
    case BRANCH:
    case QUESTIONS:
    default:
        return after == 0   ? shape->blocks
               : after <= 2 ? shape->blocks / 8 * (1 + 2 * after)
                            : shape->blocks / 8;
    }
}

static void
apply(uint32_t slot, enum event_kind kind, const uint64_t *keys, uint32_t count)
{
    uint64_t words[RECORD + 1];

    for (uint32_t done = 0; done < count;) {
        uint32_t batch = count - done < RECORD ? count - done : RECORD;
        uint32_t from = kind == EVENT_STORE ? done : count - done - batch;
        words[0] = event_op(kind, TIER_DEVICE, batch);
        memcpy(words + 1, keys + from, batch * sizeof(uint64_t));
        CHECK(mirror_apply(mirror, slot, words, batch + 1, 0) == 0);
        done += batch;
    }
}

static void
apply_chain(const struct shape *shape, enum event_kind kind, uint32_t chain,
            uint64_t *keys)
{
    make_chain(shape, chain, keys);
    /* Prompts that all slots hold were stored once, and stay. */
    uint32_t common =
        kind_of(shape, chain) == BRANCH &&
                (chain / 2 >= SYSTEMS + shape->special || kind == EVENT_REMOVE)
            ? shape->blocks / 8
            : 0;

    for (uint32_t slot = 0; slot < shape->slots; slot++) {
        uint32_t held = held_of(shape, chain, slot);
        if (held > common) {
            apply(slot, kind, keys + common, held - common);
        }
    }
}

static void
mirror_begin(uint32_t slots)
{
    struct mirror_limits limits = {.bytes_max = (size_t)8 << 30};
    uint32_t slot;

    qsbr_init(&qsbr);
    CHECK(mirror_new(&mirror, &limits, &qsbr) == 0);
    for (uint32_t i = 0; i < slots; i++) {
        CHECK(mirror_open(mirror, &slot) == 0 && slot == i);
    }
}

static void
mirror_end(void)
{
    mirror_free(mirror);
    qsbr_fini(&qsbr);
}

static void
populate(struct shape *shape)
{
    uint64_t *keys = malloc(shape->blocks * sizeof(uint64_t));

    CHECK(keys != NULL);
    shape->chains = BLOCKS_TOTAL / shape->blocks;
    shape->special = SHARED_KEYS / shape->blocks;
    mirror_begin(shape->slots);
    for (uint32_t chain = 0; chain < shape->chains; chain++) {
        apply_chain(shape, EVENT_STORE, chain, keys);
    }
    while (mirror_work(mirror, 1024)) {
    }
    free(keys);
}

/* ---- questions ---- */

/* Conversations of a kind whose last sixteenth is a new turn. */
static void
make_queries(const struct shape *shape, enum question question,
             uint32_t queries)
{
    struct rng rng;

    rng_init(&rng, 7);
    for (uint32_t i = 0; i < queries; i++) {
        uint64_t *keys = query_keys + (size_t)i * shape->blocks;
        uint32_t chain;
        do {
            chain = question == SHARED || question == STAIRS
                        ? (uint32_t)rng_below(&rng, 2ULL * shape->special)
                        : (uint32_t)rng_below(&rng, shape->chains);
        } while (kind_of(shape, chain) != question);
        make_chain(shape, chain, keys);
        for (uint32_t k = shape->blocks - shape->blocks / 16; k < shape->blocks;
             k++) {
            keys[k] = rng_next(&rng);
        }
    }
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

struct timing {
    double p50;
    double p99;
};

static double
clock_cost(void)
{
    double least = SECOND_NS;

    for (int i = 0; i < 1000; i++) {
        double start = wall_ns();
        double took = wall_ns() - start;
        least = took < least ? took : least;
    }
    return least;
}

typedef void ask_fn(const uint64_t *keys, uint32_t count);

static void
ask_mirror(const uint64_t *keys, uint32_t count)
{
    struct mirror_match match;
    struct worker_set all;

    memset(&all, 0xFF, sizeof(all));
    mirror_match(mirror, &all, keys, count, &match);
    sink += match.best;
}

static struct radix *radix;

static void
ask_radix(const uint64_t *keys, uint32_t count)
{
    struct radix_match match;

    radix_match(radix, 1, keys, count, &match);
    sink += match.best;
}

static struct timing
measure(ask_fn *ask, uint32_t blocks, uint32_t queries)
{
    static double took[QUERIES];
    struct timing best = {.p50 = SECOND_NS, .p99 = SECOND_NS};
    struct qsbr_reader *me = qsbr_register(&qsbr);
    double clock = clock_cost();

    CHECK(me != NULL);
    for (int pass = 0; pass < PASSES; pass++) {
        for (uint32_t i = 0; i < queries; i++) {
            const uint64_t *keys = query_keys + (size_t)i * blocks;
            for (uint32_t k = 0; k < blocks; k++) {
                sink += keys[k]; /* they have just been computed */
            }
            qsbr_online(&qsbr, me);
            double start = wall_ns();
            ask(keys, blocks);
            took[i] = wall_ns() - start - clock;
            qsbr_offline(me);
        }
        qsort(took, queries, sizeof(double), compare);
        best.p50 = took[queries / 2] < best.p50 ? took[queries / 2] : best.p50;
        double p99 = took[queries - 1 - queries / 100];
        best.p99 = p99 < best.p99 ? p99 : best.p99;
    }
    return best;
}

/* ---- the writer beside the reader ---- */

static _Atomic int stop;
static _Atomic uint64_t churned;

/* Conversations go and others come, at the same size. */
static void *
churn(void *arg)
{
    const struct shape *shape = arg;
    uint64_t *keys = malloc(shape->blocks * sizeof(uint64_t));
    uint32_t first = 2 * shape->special + 2 * SYSTEMS;

    CHECK(keys != NULL);
    for (uint32_t i = first; !atomic_load(&stop); i++) {
        uint32_t chain = first + (i - first) % (shape->chains - first);
        apply_chain(shape, EVENT_REMOVE, chain, keys);
        apply_chain(shape, EVENT_STORE, chain, keys);
        (void)mirror_work(mirror, 1024);
        atomic_fetch_add(&churned, 2ULL * shape->blocks);
    }
    free(keys);
    return NULL;
}

/* Every slot walked, or none. */
static void
walk_all(const struct shape *shape, bool walked)
{
    for (uint32_t slot = 0; slot < shape->slots; slot++) {
        CHECK(mirror_apply(mirror, slot, NULL, 0,
                           walked ? EVENT_HOLES_UNKNOWN : 0) == 0);
    }
}

static void
radix_begin(const struct shape *shape)
{
    struct radix_limits limits = {.bytes_max = (size_t)4 << 30,
                                  .namespaces_max = 1,
                                  .depth_max = shape->blocks};
    uint64_t *keys = malloc(shape->blocks * sizeof(uint64_t));

    CHECK(keys != NULL && radix_new(&radix, &limits, &qsbr) == 0);
    for (uint32_t slot = 0; slot < shape->slots; slot++) {
        CHECK(radix_worker_add(radix, slot, 1 << 30, RADIX_LRU) == 0);
    }
    for (uint32_t chain = 0; chain < shape->chains; chain++) {
        make_chain(shape, chain, keys);
        for (uint32_t slot = 0; slot < shape->slots; slot++) {
            uint32_t held = held_of(shape, chain, slot);
            if (held > 0 &&
                (held > shape->blocks / 8 || kind_of(shape, chain) != BRANCH)) {
                CHECK(radix_insert(radix, 1, keys, held, slot, 0, chain) == 0);
            }
        }
    }
    free(keys);
}

static void
run_question(const struct shape *shape, enum question question, bool tree)
{
    uint32_t queries = shape->blocks > 2048 ? QUERIES / 8 : QUERIES;
    pthread_t writer;

    make_queries(shape, question, queries);
    struct timing alone = measure(ask_mirror, shape->blocks, queries);
    walk_all(shape, true);
    struct timing walk = measure(ask_mirror, shape->blocks, queries);
    walk_all(shape, false);
    struct timing nodes = {.p50 = 0};
    if (tree) {
        nodes = measure(ask_radix, shape->blocks, queries);
    }
    atomic_store(&stop, 0);
    atomic_store(&churned, 0);
    double start = wall_ns();
    CHECK(pthread_create(&writer, NULL, churn,
                         (void *)(uintptr_t)(const void *)shape) == 0);
    struct timing beside = measure(ask_mirror, shape->blocks, queries);
    atomic_store(&stop, 1);
    CHECK(pthread_join(writer, NULL) == 0);
    double rate = (double)atomic_load(&churned) / (wall_ns() - start) * 1e3;
    printf("%6u %5u %-7s %7.2f %7.2f %8.2f %8.2f %7.1f %8.2f %6.1f",
           shape->blocks * 16, shape->slots, question_names[question],
           alone.p50 / 1e3, alone.p99 / 1e3, beside.p50 / 1e3, beside.p99 / 1e3,
           rate, walk.p50 / 1e3, walk.p50 / alone.p50);
    if (tree) {
        printf(" %8.2f %6.2f", nodes.p50 / 1e3, alone.p50 / nodes.p50);
    }
    printf("\n");
    (void)fflush(stdout);
}

static void
run_shape(uint32_t slots, uint32_t blocks, bool tree)
{
    struct shape shape = {.slots = slots, .blocks = blocks};

    populate(&shape);
    if (tree) {
        radix_begin(&shape);
    }
    for (int q = 0; q < QUESTIONS; q++) {
        run_question(&shape, (enum question)q, tree);
    }
    if (tree) {
        radix_free(radix);
    }
    mirror_end();
}

static void
run_lookups(bool quick)
{
    static const uint32_t shapes[][2] = {
        {64, 512}, {8, 512}, {256, 512}, {64, 2048}, {64, 8192}};

    query_keys = malloc((size_t)QUERIES * 2048 * sizeof(uint64_t));
    CHECK(query_keys != NULL);
    printf("match, us (beside: with a writer, M blocks/s; walk: block by "
           "block, and how much longer; radix: the tree, and the mirror's "
           "time over its)\n%6s %5s %-7s %7s %7s %8s %8s %7s %8s %6s %8s\n",
           "tokens", "slots", "kind", "p50", "p99", "bes.p50", "bes.p99",
           "writes", "walk", "ratio", "radix");
    for (size_t i = 0; i < (quick ? 1 : 5); i++) {
        run_shape(shapes[i][0], shapes[i][1], i == 0 || i > 2);
    }
    free(query_keys);
}

/* ---- writing ---- */

/* CPU time of each record while 10 million blocks come in: the longest are
 * those that copied a table, of which there is one for some 10,000 blocks. */
static void
run_fill(void)
{
    static double took[BLOCKS_TOTAL / RECORD];
    size_t records = BLOCKS_TOTAL / RECORD;
    struct mirror_stats stats;
    uint64_t words[RECORD + 1];
    uint64_t key = 1;

    mirror_begin(64);
    double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    double before = start;
    for (uint32_t i = 0; i < BLOCKS_TOTAL / RECORD; i++) {
        words[0] = event_op(EVENT_STORE, TIER_DEVICE, RECORD);
        for (uint32_t k = 1; k <= RECORD; k++) {
            words[k] = key = rng_mix(key);
        }
        CHECK(mirror_apply(mirror, i % 64, words, RECORD + 1, 0) == 0);
        double now = now_ns(CLOCK_THREAD_CPUTIME_ID);
        took[i] = now - before;
        before = now;
    }
    qsort(took, records, sizeof(double), compare);
    mirror_stats(mirror, &stats);
    printf(
        "fill: %.1f M blocks/s, %.1f bytes a (slot, block) held by one; "
        "a record of %d p50 %.1f us, p99.9 (a table copied) %.0f us, longest "
        "%.0f us; tables grew %llu times\n",
        (double)stats.stored / (before - start) * 1e3,
        (double)stats.bytes / (double)stats.holder_blocks, RECORD,
        took[records / 2] / 1e3, took[records - records / 1000] / 1e3,
        took[records - 1] / 1e3, (unsigned long long)stats.grown);
    mirror_end();
}

static void
run_shared_bytes(void)
{
    struct mirror_stats stats;
    uint64_t keys[512];
    uint64_t key = 1;

    mirror_begin(64);
    double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint32_t i = 0; i < 500; i++) {
        for (uint32_t k = 0; k < 512; k++) {
            keys[k] = key = rng_mix(key);
        }
        for (uint32_t slot = 0; slot < 64; slot++) {
            apply(slot, EVENT_STORE, keys, 512);
        }
    }
    double took = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    mirror_stats(mirror, &stats);
    printf("shared by 64: %.1f M blocks/s, %.2f bytes a (slot, block)\n",
           (double)stats.stored / took * 1e3,
           (double)stats.bytes / (double)stats.holder_blocks);
    mirror_end();
}

/* A full index in which each new block takes the place of an old one; with
 * sweeping, a slot of 64 is closed and opened again all the time. */
static void
run_churn(bool sweeping)
{
    struct rng old;
    struct rng new;
    uint64_t words[2 * RECORD + 2];
    uint64_t applied = 0;
    uint64_t swept = 0;
    uint32_t victim;

    rng_init(&old, 5);
    rng_init(&new, 5);
    mirror_begin(64);
    CHECK(mirror_open(mirror, &victim) == 0);
    for (uint32_t i = 0; i < BLOCKS_TOTAL / RECORD; i++) {
        words[0] = event_op(EVENT_STORE, TIER_DEVICE, RECORD);
        for (uint32_t k = 1; k <= RECORD; k++) {
            words[k] = rng_next(&new);
        }
        CHECK(mirror_apply(mirror, i % 64, words, RECORD + 1, 0) == 0);
    }
    double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint32_t i = 0; i < 60000; i++) {
        words[0] = event_op(EVENT_STORE, TIER_DEVICE, RECORD);
        words[RECORD + 1] = event_op(EVENT_REMOVE, TIER_DEVICE, RECORD);
        for (uint32_t k = 1; k <= RECORD; k++) {
            words[k] = rng_next(&new);
            words[RECORD + 1 + k] = rng_next(&old);
        }
        uint32_t slot = i % 64;
        CHECK(mirror_apply(mirror, slot, words, 2 * RECORD + 2, 0) == 0);
        applied += 2ULL * RECORD;
        if (sweeping && i % 4096 == 0) {
            CHECK(mirror_apply(mirror, victim, words, RECORD + 1, 0) == 0);
            mirror_close(mirror, victim);
            CHECK(mirror_open(mirror, &victim) == 0);
        }
        (void)mirror_work(mirror, sweeping ? 4096 : 64);
        swept += sweeping ? 4096 : 0;
    }
    double took = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    struct mirror_stats stats;
    mirror_stats(mirror, &stats);
    printf("churn%s: %.1f M blocks/s (half stored, half removed)",
           sweeping ? " and sweep" : "", (double)applied / took * 1e3);
    if (sweeping) {
        printf(", and %.0f M entries/s looked at", (double)swept / took * 1e3);
    }
    printf("; repeated %llu\n", (unsigned long long)stats.repeated);
    mirror_end();
}

/* ---- a recorded workload ---- */

#define TRACE_SLOTS  16
#define TRACE_BLOCKS 8192
#define PER_ID       32 /* blocks of 16 tokens in one of 512 */

static uint32_t
parse_ids(const char *line, uint64_t *keys)
{
    const char *at = strstr(line, "\"hash_ids\"");
    uint32_t count = 0;

    at = at != NULL ? strchr(at, '[') : NULL;
    while (at != NULL && *at != ']' && count + PER_ID <= TRACE_BLOCKS) {
        char *next;
        uint64_t id = strtoull(at + 1, &next, 10);
        if (next == at + 1) {
            break;
        }
        for (uint32_t i = 0; i < PER_ID; i++) {
            keys[count++] = rng_mix(id * PER_ID + i);
        }
        at = strpbrk(next, ",]");
    }
    return count;
}

/* Each request goes where most of it is, and is measured on the way. */
static void
run_trace(const char *path)
{
    static char line[1 << 20];
    static double took[10000];
    char command[4096];
    uint64_t *keys = malloc(TRACE_BLOCKS * sizeof(uint64_t));
    uint64_t asked = 0;
    uint64_t found = 0;
    uint32_t requests = 0;

    (void)snprintf(command, sizeof(command), "zstd -dcq %s 2>/dev/null", path);
    FILE *trace = popen(command, "r");
    CHECK(keys != NULL && trace != NULL);
    mirror_begin(TRACE_SLOTS);
    double clock = clock_cost();
    while (requests < 10000 && fgets(line, sizeof(line), trace) != NULL) {
        struct mirror_match match;
        struct worker_set all;
        uint32_t count = parse_ids(line, keys);
        uint32_t slot = requests % TRACE_SLOTS;
        memset(&all, 0xFF, sizeof(all));
        double start = wall_ns();
        mirror_match(mirror, &all, keys, count, &match);
        took[requests++] = wall_ns() - start - clock;
        WORKER_SET_EACH (other, &match.slots) {
            slot = match.depth[other] == match.best ? other : slot;
        }
        asked += count;
        found += match.best;
        apply(slot, EVENT_STORE, keys, count);
    }
    (void)pclose(trace);
    if (requests == 0) {
        printf("trace: skipped, %s cannot be read\n", path);
    } else {
        qsort(took, requests, sizeof(double), compare);
        printf("trace: %u requests, %llu blocks, hit %.2f, match p50 %.2f us, "
               "p99 %.2f us\n",
               requests, (unsigned long long)asked,
               (double)found / (double)asked, took[requests / 2] / 1e3,
               took[requests - 1 - requests / 100] / 1e3);
    }
    mirror_end();
    free(keys);
}

/* [TRACE|- [match|write|quick]] */
int
main(int argc, char **argv)
{
    const char *part = argc > 2 ? argv[2] : "all";

    if (strcmp(part, "write") != 0) {
        run_lookups(strcmp(part, "quick") == 0);
    }
    if (strcmp(part, "all") == 0 || strcmp(part, "write") == 0) {
        run_fill();
        run_shared_bytes();
        run_churn(false);
        run_churn(true);
    }
    if (argc > 1 && strcmp(argv[1], "-") != 0) {
        run_trace(argv[1]);
    } else {
        printf("trace: skipped, no file was named\n");
    }
    return 0;
}
