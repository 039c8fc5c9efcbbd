/*
 * The ledger alone: 10 million blocks of 64 streams, in conversations of 64
 * blocks, and then as many again while the oldest conversations leave, leaves
 * first. By runs of 32 blocks and of 1; names of each stream its own, or the
 * same in all 64.
 * Last, what it takes to hand one stream over to a reader that has nothing: a
 * copy of the table of names, and a ledger made from it.
 *
 *   meson test --benchmark -C BUILD --verbose bench/ledger
 *   bench_ledger [PAIRS [SHAPE]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "index/base/rng.h"
#include "index/index.h"

#define STREAMS      64
#define TOKENS       16
#define HAND_BYTES   ((size_t)256 << 10) /* as INGEST_HAND_BYTES */
#define HAND_BUDGET  512U                /* as in node/events/intake_hand.c */
#define CONVERSATION 64
#define BATCH        16 /* conversations that are timed together */
#define SECOND_NS    1e9

struct shape {
    const char *name;
    uint32_t run;
    uint32_t evicted; /* hashes of one removal */
    uint32_t holders; /* streams that share a conversation */
    bool ahead;       /* a conversation's hashes are told beforehand */
    enum tier tier;
    uint32_t pairs; /* (stream, block), at the most */
};

static uint32_t tokens[BATCH][CONVERSATION * TOKENS];
static uint64_t names[BATCH][CONVERSATION];
static uint64_t words[CONVERSATION + 1];
static struct ledger *ledger;
static uint32_t stream[STREAMS];

static double
cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * SECOND_NS + (double)t.tv_nsec;
}

static void
make(uint32_t at, uint32_t conversation)
{
    for (uint32_t i = 0; i < CONVERSATION; i++) {
        uint64_t name = rng_mix((uint64_t)conversation * CONVERSATION + i + 1);
        names[at][i] = name;
        for (uint32_t k = 0; k < TOKENS; k++) {
            tokens[at][i * TOKENS + k] = (uint32_t)(name >> (k & 31));
        }
    }
}

static void
store(const struct shape *shape, uint32_t who, uint32_t at)
{
    if (shape->ahead) {
        ledger_prefetch(ledger, names[at], CONVERSATION);
    }
    for (uint32_t i = 0; i < CONVERSATION; i += shape->run) {
        struct event_words out = {.words = words, .max = CONVERSATION + 1};
        struct ledger_done done;
        struct ledger_run run = {.has_parent = i > 0,
                                 .parent = i > 0 ? names[at][i - 1] : 0,
                                 .root = 1,
                                 .hashes = names[at] + i,
                                 .count = shape->run,
                                 .block_tokens = TOKENS,
                                 .tokens = tokens[at] + (size_t)i * TOKENS,
                                 .tier = shape->tier};
        CHECK(ledger_store(ledger, who, &run, &out, &done) == 0);
        CHECK(done.changed == shape->run);
    }
}

static void
evict(const struct shape *shape, uint32_t who, uint32_t at)
{
    uint64_t hashes[CONVERSATION];

    for (uint32_t i = 0; i < CONVERSATION; i++) {
        hashes[i] = names[at][CONVERSATION - 1 - i];
    }
    if (shape->ahead) {
        ledger_prefetch(ledger, hashes, CONVERSATION);
    }
    for (uint32_t i = 0; i < CONVERSATION; i += shape->evicted) {
        struct event_words out = {.words = words, .max = CONVERSATION + 1};
        struct ledger_done done;
        ledger_remove(ledger, who, hashes + i, shape->evicted, NULL,
                      shape->tier, &out, &done);
        CHECK(done.changed == shape->evicted);
    }
}

/* Conversations from first on, stored or evicted by all their holders; ns of
 * CPU. */
static double
turn(const struct shape *shape, uint32_t first, bool storing)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        make(i, first + i);
    }
    double start = cpu_ns();
    for (uint32_t who = 0; who < shape->holders; who++) {
        for (uint32_t i = 0; i < BATCH; i++) {
            uint32_t s = stream[(first + i + who) % STREAMS];
            if (storing) {
                store(shape, s, i);
            } else {
                evict(shape, s, i);
            }
        }
    }
    return cpu_ns() - start;
}

static void
measure(const struct shape *shape)
{
    struct ledger_limits limits = {.bytes_max = (size_t)2 << 30};
    struct ledger_stats stats;
    uint32_t count = shape->pairs / CONVERSATION / shape->holders;
    double filled = 0;
    double stored = 0;
    double evicted = 0;

    CHECK(ledger_new(&ledger, &limits) == 0);
    for (uint32_t i = 0; i < STREAMS; i++) {
        CHECK(ledger_open(ledger, &stream[i]) == 0);
    }
    count -= count % BATCH;
    for (uint32_t i = 0; i < count; i += BATCH) {
        filled += turn(shape, i, true);
    }
    ledger_stats(ledger, &stats);
    uint32_t churn = count / 4 - count / 4 % BATCH;
    for (uint32_t i = 0; i < churn; i += BATCH) {
        /* Not the oldest in a row: memory that is given back is scattered. */
        uint32_t old = (uint32_t)((uint64_t)i * 4 % count);
        evicted += turn(shape, old - old % BATCH, false);
        stored += turn(shape, count + i, true);
    }
    double pairs = (double)churn * CONVERSATION * shape->holders;
    printf("%-28s %8.1f %8.1f %8.1f %10.1f\n", shape->name,
           filled / (double)stats.blocks, stored / pairs, evicted / pairs,
           (double)stats.bytes / (double)stats.blocks);
    ledger_free(ledger);
}

/* The longest step and all of them. */
struct steps {
    double longest;
    double total;
    uint32_t count;
};

static void
add_step(struct steps *steps, double start)
{
    double ns = cpu_ns() - start;

    steps->longest = ns > steps->longest ? ns : steps->longest;
    steps->total += ns;
    steps->count++;
}

static void
say_steps(const char *what, const struct steps *steps, uint32_t count)
{
    printf("%-28s %8.1f ns/block, %5u steps, the longest %8.1f us, all "
           "%8.1f ms\n",
           what, steps->total / count, steps->count, steps->longest / 1e3,
           steps->total / 1e6);
}

/* Handing one stream of so many blocks over, in the pieces that a node does. */
static void
hand_over(uint32_t count)
{
    struct ledger_limits limits = {.bytes_max = (size_t)4 << 30};
    struct names_room room = {.bytes_max = (size_t)4 << 30};
    struct names table = {.count = 0};
    struct names_twin twin;
    struct steps copy = {.count = 0};
    struct steps list = {.count = 0};
    struct steps adopt = {.count = 0};
    struct steps ends = {.count = 0};
    struct names_block *blocks = malloc((count + 1) * sizeof *blocks);
    struct ledger_adoption *adoption;
    uint32_t listed = 0;
    uint32_t into;
    bool done = false;
    int rc = LEDGER_E_MORE;

    CHECK(blocks != NULL);
    for (uint32_t i = 0; i < count; i++) {
        struct names_block block = {.name = rng_mix(i + 1),
                                    .key = rng_mix(~(uint64_t)i),
                                    .parent = rng_mix(~(uint64_t)(i - 1)),
                                    .copies = NAMES_PLAIN,
                                    .has_parent = i % CONVERSATION != 0};
        CHECK(names_fill(&table, &room, &block) == 0);
    }
    names_twin_init(&twin);
    while (!done) {
        double start = cpu_ns();
        done = names_twin_copy(&twin, &table, HAND_BYTES);
        add_step(&copy, start);
    }
    for (uint32_t part = NAMES_PARTS; part-- > 0;) {
        double start = cpu_ns();
        listed +=
            names_take_part(&twin.table, &twin.room, part, blocks + listed);
        add_step(&list, start);
    }
    CHECK(listed == count && ledger_new(&ledger, &limits) == 0);
    CHECK(ledger_open(ledger, &into) == 0);
    double start = cpu_ns();
    CHECK(ledger_adopt_begin(ledger, into, blocks, count, &adoption) == 0);
    add_step(&ends, start);
    while (rc == LEDGER_E_MORE) {
        start = cpu_ns();
        rc = ledger_adopt_step(adoption, HAND_BUDGET);
        add_step(&adopt, start);
    }
    start = cpu_ns();
    ledger_adopt_end(adoption);
    free(blocks);
    add_step(&ends, start);
    CHECK(rc == 0 && ledger_blocks(ledger, into) == count);
    printf("handed over, %u blocks\n", count);
    say_steps("control: a twin", &copy, count);
    say_steps("intake: a list", &list, count);
    say_steps("intake: the ledger", &adopt, count);
    say_steps("intake: begin and end", &ends, count);
    ledger_free(ledger);
    names_clear(&table, &room);
}

int
main(int argc, char **argv)
{
    uint32_t pairs = argc > 1 ? (uint32_t)atoi(argv[1]) : 10000000;
    size_t only = argc > 2 ? strtoull(argv[2], NULL, 10) : SIZE_MAX;
    struct shape shapes[] = {
        {"unique, runs of 32", 32, 32, 1, false, TIER_DEVICE, pairs},
        {"unique, single blocks", 1, 1, 1, false, TIER_DEVICE, pairs},
        {"unique, single, told ahead", 1, 1, 1, true, TIER_DEVICE, pairs},
        {"unique, in the host, by 32", 32, 32, 1, false, TIER_HOST, pairs},
        {"shared by 2, runs of 32", 32, 32, 2, false, TIER_DEVICE, pairs},
        {"shared by 64, runs of 32", 32, 32, 64, false, TIER_DEVICE, pairs},
        {"shared by 64, single blocks", 1, 1, 64, false, TIER_DEVICE, pairs},
    };

    printf("%-28s %8s %8s %8s %10s\n", "ns of CPU per block", "filling",
           "store", "evict", "bytes/pair");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (only == SIZE_MAX || only == i) {
            measure(&shapes[i]);
            (void)fflush(stdout);
        }
    }
    if (only == SIZE_MAX || only == sizeof(shapes) / sizeof(shapes[0])) {
        hand_over(300000);
        hand_over(3000000);
    }
    return 0;
}
