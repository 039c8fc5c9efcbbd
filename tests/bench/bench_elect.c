/*
 * What one election costs: reading the live numbers of all workers and
 * choosing one, by policy and number of workers, and as a ratio to round
 * robin in the same run.
 *
 *   bench_elect [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "node/elect/elect.h"
#include "node/view/fleet_view.h"

#define REPEATS 15
#define COUNTS  4

struct scene {
    struct fleet_board board;
    struct elect_config config;
    struct elect_state state;
    struct elect_input input;
    struct rng rng;
    uint32_t load[WORKERS_MAX];
    uint32_t queued[WORKERS_MAX];
    uint32_t slowness[WORKERS_MAX];
    uint16_t kv_usage[WORKERS_MAX];
    uint64_t identity[WORKERS_MAX];
    uint32_t slo_tokens[WORKERS_MAX];
    uint32_t slo_requests[WORKERS_MAX];
    struct elect_slo slo;
    struct radix_match match;
    struct elect_row rows[WORKERS_MAX];
};

static struct scene scene;
static volatile uint32_t sink;

static uint64_t
now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void
elect_rounds(uint64_t rounds)
{
    struct elect_choice choice;

    for (uint64_t i = 0; i < rounds; i++) {
        fleet_board_loads(
            &scene.board, &scene.input.candidates, scene.load,
            elect_asks_usage(&scene.config) ? scene.kv_usage : NULL);
        if (scene.config.recompute_weight != 0) {
            fleet_board_queued(&scene.board, &scene.input.candidates,
                               scene.queued);
            scene.input.slowness =
                fleet_board_slowness(&scene.board, &scene.input.candidates,
                                     scene.slowness)
                    ? scene.slowness
                    : NULL;
            scene.input.slo =
                fleet_board_slo(&scene.board, &scene.input.candidates,
                                scene.slo_tokens, scene.slo_requests)
                    ? &scene.slo
                    : NULL;
        }
        elect_pick(&scene.config, &scene.state, &scene.input, &scene.rng,
                   &choice);
        sink = choice.worker;
    }
}

/* What keeping each worker's columns adds (limits.decision_columns_bytes), but
 * for handing them to control. */
static void
column_rounds(uint64_t rounds)
{
    struct elect_choice choice;
    struct elect_standing standing = {.present = scene.input.candidates,
                                      .healthy = scene.input.candidates,
                                      .serves = scene.input.candidates};

    elect_rounds(1);
    elect_pick(&scene.config, &scene.state, &scene.input, &scene.rng, &choice);
    for (uint64_t i = 0; i < rounds; i++) {
        size_t count = elect_explain(&scene.config, &scene.input, &standing,
                                     &choice, scene.rows);
        sink = (uint32_t)count;
    }
}

static void
read_rounds(uint64_t rounds)
{
    for (uint64_t i = 0; i < rounds; i++) {
        fleet_board_loads(&scene.board, &scene.input.candidates, scene.load,
                          scene.kv_usage);
        sink = scene.load[0];
    }
}

/* Nanoseconds of one round, the best of REPEATS. */
static double
measure(void (*run)(uint64_t), uint64_t rounds)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < REPEATS; i++) {
        uint64_t start = now_ns();
        run(rounds);
        uint64_t took = now_ns() - start;
        best = took < best ? took : best;
    }
    return (double)best / (double)rounds;
}

/* holders: workers that hold a part of the prefix; hot: one is overloaded;
 * uneven: each third one is three times slower; slo: some are too late. */
static void
arrange(uint32_t workers, uint32_t holders, bool hot, bool uneven, bool slo)
{
    scene = (struct scene){.config = ELECT_CONFIG_DEFAULT};
    rng_init(&scene.rng, 1);
    for (uint32_t i = 0; i < workers; i++) {
        worker_set_add(&scene.input.candidates, i);
        gauge_set(&scene.board.inflight[i], (int32_t)rng_below(&scene.rng, 30));
        gauge_set(&scene.board.queued_tokens[i],
                  (int32_t)rng_below(&scene.rng, 4000));
        gauge_set(&scene.board.slowness_permille[i], i % 3 == 0 ? 3000 : 1000);
        gauge_set(&scene.board.slo_tokens[i],
                  (int32_t)(4000 + rng_below(&scene.rng, 4000)));
        gauge_set(&scene.board.slo_requests[i], 25);
        scene.identity[i] = rng_next(&scene.rng);
    }
    gauge_set(&scene.board.uneven, uneven ? 1 : 0);
    gauge_set(&scene.board.slo, slo ? 1 : 0);
    scene.slo = (struct elect_slo){.tokens = scene.slo_tokens,
                                   .requests = scene.slo_requests};
    for (uint32_t i = 0; i < holders; i++) {
        uint32_t w = (uint32_t)rng_below(&scene.rng, workers);
        worker_set_add(&scene.match.workers, w);
        scene.match.depth[w] = 40 + (uint32_t)rng_below(&scene.rng, 60);
    }
    if (hot) {
        gauge_set(&scene.board.inflight[0], 500);
    }
    scene.input.load = scene.load;
    scene.input.queued = scene.queued;
    scene.input.kv_usage =
        elect_asks_usage(&scene.config) ? scene.kv_usage : NULL;
    scene.input.match = &scene.match;
    scene.input.total_blocks = 100;
    scene.input.unit_tokens = 32;
    scene.input.identity = scene.identity;
    scene.input.prefix_key = 99;
}

static const uint32_t counts[COUNTS] = {8, 64, 256, 1024};

/* How many columns there are. */
static unsigned
heading(void)
{
    unsigned columns = 0;

    printf("%-34s", "ns per election (x round robin)");
    for (; columns < COUNTS && counts[columns] <= WORKERS_MAX; columns++) {
        printf(" %8u", counts[columns]);
    }
    printf(" workers\n");
    return columns;
}

int
main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;

    unsigned columns = heading();
    double base[COUNTS] = {0};
    for (unsigned row = 0; row < 20; row++) {
        static const struct {
            const char *name;
            enum elect_policy policy;
            bool prefix;
            bool hot;
            bool shares;
            bool uneven;
            bool slo;
        } rows[] = {
            {"reading the board alone", ELECT_KVASIR, false, false, false},
            {"round_robin", ELECT_ROUND_ROBIN, false, false, true},
            {"kvasir, a prefix", ELECT_KVASIR, true, false, false},
            {"kvasir, no prefix", ELECT_KVASIR, false, false, false},
            {"kvasir, imbalanced", ELECT_KVASIR, true, true, false},
            {"kvasir, a prefix, uneven", ELECT_KVASIR, true, false, false,
             true},
            {"kvasir, no prefix, uneven", ELECT_KVASIR, false, false, false,
             true},
            {"kvasir, a prefix, slo", ELECT_KVASIR, true, false, false, false,
             true},
            {"kvasir, a prefix, uneven, slo", ELECT_KVASIR, true, false, false,
             true, true},
            {"weight 0, a prefix", ELECT_KVASIR, true, false, true},
            {"weight 0, no prefix", ELECT_KVASIR, false, false, true},
            {"weight 0, imbalanced", ELECT_KVASIR, true, true, true},
            {"least_load", ELECT_LEAST_LOAD, false, false, true},
            {"power_of_two", ELECT_POWER_OF_TWO, false, false, true},
            {"rendezvous", ELECT_RENDEZVOUS, false, false, true},
            {"consistent_hashing", ELECT_CONSISTENT_HASHING, false, false,
             true},
            {"cache_aware, a prefix", ELECT_CACHE_AWARE, true, false, true},
            {"composite, a prefix", ELECT_COMPOSITE, true, false, true},
            {"dynamo, a prefix", ELECT_DYNAMO, true},
            {"kvasir's columns beside, kept", ELECT_KVASIR, true},
        };
        printf("%-34s", rows[row].name);
        for (unsigned c = 0; c < columns; c++) {
            arrange(counts[c], rows[row].prefix ? counts[c] / 4 : 0,
                    rows[row].hot, rows[row].uneven, rows[row].slo);
            scene.config.policy = rows[row].policy;
            if (rows[row].shares) {
                scene.config.recompute_weight = 0;
                scene.config.cache_threshold_permille = 300;
            }
            double ns = measure(row == 0    ? read_rounds
                                : row == 19 ? column_rounds
                                            : elect_rounds,
                                rounds);
            base[c] = row == 1 ? ns : base[c];
            if (row < 2) {
                printf(" %8.0f", ns);
            } else {
                printf(" %4.0f (%.1fx)", ns, ns / base[c]);
            }
        }
        printf("\n");
    }
    return 0;
}
