/*
 * Nodes that gossip in a bad world end with the engines' own sets. At every
 * step the core's invariants hold, and a stream that says it is complete and
 * not stale has exactly what its engine's process had at that position. Unless
 * an index itself went wrong, no two nodes ever have different states at equal
 * positions.
 *
 *   property_gossip SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>

#include "gossip_world.h"

#define CHAOS_MS 5000U
#define QUIET_MS 20000U

static struct world world;

static int
compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Milliseconds from healing to agreement. */
static uint32_t
run(uint64_t seed)
{
    const char *why = "";
    uint32_t agreed = 0;

    world_begin(&world, seed);
    for (uint32_t i = 0; i < CHAOS_MS; i++) {
        world_step(&world, true, true);
    }
    world_heal(&world);
    /* And agreement lasts. */
    for (uint32_t ms = 1; ms <= QUIET_MS && (agreed == 0 || ms < agreed + 500);
         ms++) {
        world_step(&world, false, false);
        if (!world_agrees(&world, &why)) {
            agreed = 0;
        } else if (agreed == 0) {
            agreed = ms;
        }
        if (agreed == 0 && ms == QUIET_MS) {
            printf("property_gossip: no agreement, %s, seed %llu\n", why,
                   (unsigned long long)seed);
            world_print(&world);
            exit(1);
        }
    }
    world_end(&world);
    if (!world.rotten && world.total.digest_mismatches != 0) {
        printf("property_gossip: states differed at equal positions, seed "
               "%llu\n",
               (unsigned long long)seed);
        exit(1);
    }
    return agreed;
}

static void
add(struct gossip_stats *sum, const struct gossip_stats *stats)
{
    uint64_t *to = (uint64_t *)(void *)sum;

    for (size_t i = 0; i < sizeof *stats / sizeof *to; i++) {
        to[i] += ((const uint64_t *)(const void *)stats)[i];
    }
}

/* Names of a batch's blocks, in runs of so many, each below a parent. */
static void
name_blocks(struct event_record *record, uint32_t blocks, uint32_t run)
{
    uint64_t *to = record->words + record->words_count;

    record->names_count = EVENT_NAMED;
    for (uint32_t i = 0; i < blocks; i++) {
        if (i % run == 0) {
            uint32_t count = blocks - i < run ? blocks - i : run;
            *to++ = names_op(NAMES_ENTER, true, 0, count);
            *to++ = rng_mix(record->words[i + 1]);
            record->names_count += 2;
        }
        *to++ = ~record->words[i + 1];
        *to++ = record->words[i + 1];
        record->names_count += 2;
    }
}

/* Bytes that a peer is sent for a block, in batches of so many; run: blocks in
 * a row of one prefix, whose names are told; 0: no names. */
static double
push_cost(uint32_t blocks, uint32_t run)
{
    struct gossip_config config = gossip_config_default();
    struct event_stream name = {.worker = 1};
    struct event_record *record =
        calloc(1, sizeof *record + (5 * blocks + 1) * sizeof(uint64_t));
    struct gossip *g = NULL;
    struct gossip_stats stats;
    struct gossip_out out;
    uint64_t now_us = 1;

    if (gossip_new(&g, &config, 1, now_us, 1) != 0 ||
        gossip_stream_add(g, name, now_us) != 0 ||
        gossip_peer_up(g, 2, now_us) != 0) {
        abort();
    }
    gossip_role(g, name, 0, 0, now_us);
    gossip_local_begin(g, name, 99, true, 0, now_us);
    for (uint64_t seq = 0; seq < 1000; seq++, now_us += 1000) {
        record->seq = seq;
        record->block_tokens = 16;
        record->words_count = blocks + 1;
        record->words[0] = event_op(EVENT_STORE, TIER_DEVICE, blocks);
        for (uint32_t i = 0; i < blocks; i++) {
            record->words[i + 1] = rng_mix(seq * blocks + i);
        }
        if (run > 0) {
            name_blocks(record, blocks, run);
        }
        gossip_local_record(g, name, record, rng_mix(seq), true, now_us);
        gossip_tick(g, now_us);
        while (gossip_next_out(g, &out)) {
        }
    }
    gossip_stats(g, &stats);
    gossip_free(g);
    free(record);
    return (double)stats.push_bytes / (1000.0 * blocks);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 50;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint32_t *times = calloc(seeds, sizeof *times);
    struct gossip_stats sum = {0};
    uint64_t contested = 0;
    uint64_t resumes = 0;

    for (uint64_t i = 0; i < seeds; i++) {
        times[i] = run(first + i);
        add(&sum, &world.total);
        contested += world.contested;
        resumes += world.resumes;
    }
    qsort(times, seeds, sizeof *times, compare);
    printf("%llu seeds from %llu; healed to agreement in ms: p50 %u p90 %u "
           "p99 %u max %u\n",
           (unsigned long long)seeds, (unsigned long long)first,
           times[seeds / 2], times[seeds * 9 / 10], times[seeds * 99 / 100],
           times[seeds - 1]);
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {
        {"records applied", sum.records_applied},
        {"gaps", sum.gaps},
        {"pulls", sum.pulls},
        {"pulls answered", sum.pulls_answered},
        {"pulls lost", sum.pulls_lost},
        {"transfers", sum.transfers},
        {"transfers done", sum.transfers_done},
        {"transfers failed", sum.transfers_failed},
        {"pages refused", sum.pages_refused},
        {"epochs minted", sum.epochs_minted},
        {"epochs adopted", sum.epochs_adopted},
        {"rereads", sum.rereads},
        {"epochs raised", sum.epochs_raised},
        {"takeovers", sum.takeovers},
        {"digest mismatches", sum.digest_mismatches},
        {"fingerprint conflicts", sum.fingerprint_conflicts},
        {"dropped by followers", sum.dropped_follower},
        {"dropped, lower epoch", sum.dropped_epoch},
        {"log spills", sum.log_spills},
        {"names asked for", sum.names_asked},
        {"pages of names", sum.names_pages_in},
        {"names refused", sum.names_refused},
        {"names lost", sum.names_lost},
        {"handed over", sum.resumes},
        {"gone on from names", resumes},
        {"contested", contested},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        printf("  %-22s %llu\n", rows[i].name,
               (unsigned long long)rows[i].count);
    }
    for (uint32_t run = 0; run <= 16; run = run == 0 ? 1 : run * 16) {
        printf("bytes pushed per block: %.2f in batches of 4, %.2f of 16, "
               "%.2f of 64, ",
               push_cost(4, run), push_cost(16, run), push_cost(64, run));
        printf(run == 0 ? "without names\n" : "with names in runs of %u\n",
               run);
    }
    free(times);
    if (seeds >= 50 && resumes == 0) {
        printf("property_gossip: no reading went on from names\n");
        return 1;
    }
    return 0;
}
