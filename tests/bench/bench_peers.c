/*
 * The chains and events that peers.py gives to another router's index, given to
 * ours: chains of 512 blocks, each held by one of 64 streams, in events of 32
 * blocks, all streams in turns. Engines' bytes are decoded and applied to the
 * ledger and to the mirror; then chains are looked up.
 *
 *   bench_peers CHAINS [QUESTIONS]
 *
 * Prints one JSON object: what a block takes of resident memory, how many blocks
 * a second of processor time are applied, and the median time of a look-up of a
 * chain and of one that nobody holds. CHAINS are of each stream.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "index/base/pack.h"
#include "index/base/rng.h"
#include "tests/bench/hearer.h"

#define STREAMS       HEARER_STREAMS
#define CHAIN         512 /* blocks */
#define EVENT         32  /* blocks */
#define TOKENS        HEARER_TOKENS
#define QUESTIONS_MAX 10000
#define SECOND_NS     1e9

static struct hearer hearer;
static struct buf payload[STREAMS];

static double
now_ns(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec * SECOND_NS + (double)t.tv_nsec;
}

static double
resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    CHECK(file != NULL && fscanf(file, "%*u %lu", &pages) == 1);
    (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* peers_dynamo.py has the same names. */
static uint64_t
name_of(uint64_t who, uint64_t chain, uint64_t block)
{
    return rng_mix((who << 32 | chain) << 16 | block);
}

static void
pack_tokens(struct buf *out, uint64_t name)
{
    uint32_t tokens[TOKENS];

    hearer_tokens(name, tokens);
    for (uint32_t i = 0; i < TOKENS; i++) {
        pack_uint(out, tokens[i]);
    }
}

static void
pack_event(struct buf *out, uint64_t who, uint64_t chain, uint64_t from)
{
    buf_clear(out);
    pack_array(out, 3);
    pack_real(out, 1e9);
    pack_array(out, 1);
    pack_array(out, 7);
    pack_text(out, SLICE("BlockStored"));
    pack_array(out, EVENT);
    for (uint32_t i = 0; i < EVENT; i++) {
        pack_uint(out, name_of(who, chain, from + i));
    }
    if (from == 0) {
        pack_nil(out);
    } else {
        pack_uint(out, name_of(who, chain, from - 1));
    }
    pack_array(out, EVENT * TOKENS);
    for (uint32_t i = 0; i < EVENT; i++) {
        pack_tokens(out, name_of(who, chain, from + i));
    }
    pack_uint(out, TOKENS);
    pack_nil(out);
    pack_text(out, SLICE("GPU"));
    pack_uint(out, 0);
    CHECK(!out->failed);
}

/* The processor time that hearing took. */
static double
fill(uint64_t chains)
{
    double took_ns = 0;

    for (uint64_t at = 0; at < chains * CHAIN; at += EVENT) {
        for (uint32_t who = 0; who < STREAMS; who++) {
            pack_event(&payload[who], who, at / CHAIN, at % CHAIN);
        }
        double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        for (uint32_t who = 0; who < STREAMS; who++) {
            hearer_take(&hearer, who, buf_slice(&payload[who]));
        }
        hearer_work(&hearer);
        took_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    }
    return took_ns;
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median, in ns, of look-ups that find `expected` blocks. */
static double
ask(uint64_t chains, uint64_t root, uint32_t questions, uint32_t expected)
{
    static double took[QUESTIONS_MAX];
    uint64_t keys[CHAIN];
    uint32_t tokens[TOKENS];
    struct mirror_match match;
    struct worker_set all;

    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        all.word[i] = UINT64_MAX;
    }
    for (uint32_t i = 0; i < questions; i++) {
        uint64_t key = root;
        for (uint32_t k = 0; k < CHAIN; k++) {
            hearer_tokens(name_of(i % STREAMS, rng_mix(i) % chains, k), tokens);
            keys[k] = key = key_next(key, tokens, sizeof(tokens));
        }
        double start = now_ns(CLOCK_MONOTONIC);
        mirror_match(hearer.mirror, &all, keys, CHAIN, &match);
        took[i] = now_ns(CLOCK_MONOTONIC) - start;
        CHECK(match.best == expected);
    }
    qsort(took, questions, sizeof(took[0]), compare);
    return took[questions / 2];
}

int
main(int argc, char **argv)
{
    uint64_t chains = argc > 1 ? strtoull(argv[1], NULL, 10) : 61;
    unsigned long questions = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000;
    double blocks = (double)(chains * CHAIN * STREAMS);
    uint64_t root = key_token_root(SLICE(""), SLICE(""));

    CHECK(chains > 0 && questions > 0 && questions <= QUESTIONS_MAX);
    hearer_open(&hearer);
    for (uint32_t i = 0; i < STREAMS; i++) {
        buf_init(&payload[i], (size_t)1 << 20);
        pack_event(&payload[i], i, 0, 0); /* its memory is not the index's */
    }
    double before = resident_bytes();
    double took_ns = fill(chains);
    double grown = resident_bytes() - before;
    printf("{\"blocks\": %.0f, \"bytes\": %.1f, \"blocks_per_s\": %.0f, "
           "\"match_us\": %.2f, ",
           blocks, grown / blocks, blocks / took_ns * SECOND_NS,
           ask(chains, root, (uint32_t)questions, CHAIN) / 1e3);
    printf("\"nothing_us\": %.2f}\n",
           ask(chains, rng_mix(root), (uint32_t)questions, 0) / 1e3);
    for (uint32_t i = 0; i < STREAMS; i++) {
        buf_fini(&payload[i]);
    }
    hearer_close(&hearer);
    return 0;
}
