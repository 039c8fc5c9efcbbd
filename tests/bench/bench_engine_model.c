/*
 * How much faster than real time the engine model runs: what a simulation of
 * a fleet costs per engine.
 *
 * Two loads on one engine with the default timing, requests arriving at a
 * steady rate, shared prefixes repeating: chat (64 prompts of 1,000 tokens
 * that grow by 200 a turn, 100 answered) and documents (83 prefixes of 8,000
 * tokens, 1,000 of a question, 1,000 answered; the published x37 workload).
 *
 * Prints per load: engine seconds simulated in one second of CPU, steps and
 * tokens per second, time per token, hit ratio.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "chaos/engine/engine_model.h"

struct load {
    const char *name;
    uint32_t groups;
    uint32_t prefix_len;
    uint32_t turn_len; /* added to the prompt by each turn */
    uint32_t turns;
    uint32_t output_len;
    uint32_t requests;
    uint32_t gap_us; /* between arrivals */
    uint32_t blocks;
};

static const struct load loads[] = {
    {"chat", 64, 1000, 200, 10, 100, 20000, 100000, 8192},
    {"documents", 83, 8000, 1000, 1, 1000, 1000, 600000, 28836},
};

static double
cpu_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Ids of a prompt: its group's prefix, then the turns, those of a request of
 * its own when the load has no turns. */
static uint32_t
build(const struct load *load, struct rng *rng, uint32_t serial, uint32_t *ids)
{
    uint32_t group = (uint32_t)rng_below(rng, load->groups);
    uint32_t turn = 1 + (uint32_t)rng_below(rng, load->turns);
    uint32_t len = load->prefix_len + turn * load->turn_len;
    uint32_t salt = load->turns > 1 ? group : serial;

    for (uint32_t i = 0; i < len; i++) {
        ids[i] = (i < load->prefix_len ? group : salt) << 16 | i;
    }
    return len;
}

static void
pull(struct engine *engine, uint64_t *ends)
{
    struct engine_out out;

    while (engine_next_out(engine, &out)) {
        *ends += out.kind == ENGINE_OUT_END;
    }
}

/* Until everything due before at_us happened. */
static void
advance(struct engine *engine, uint64_t at_us, uint64_t *ends)
{
    while (engine_deadline(engine) <= at_us) {
        engine_tick(engine, at_us);
        pull(engine, ends);
    }
}

static int
run(const struct load *load)
{
    struct engine_config config = {
        .blocks_max = load->blocks,
        .block_tokens = 16,
        .running_max = 128,
        .batch_tokens_max = 8192,
        .requests_max = load->requests,
        .request_tokens_max = 32768,
        .prefill_tokens_per_s = 50000,
        .step_us = 8000,
        .step_per_seq_us = 650,
    };
    struct engine engine;
    struct rng rng;
    uint32_t *ids = malloc(config.request_tokens_max * sizeof(*ids));
    uint64_t ends = 0;
    uint64_t ticket;

    rng_init(&rng, 1);
    if (ids == NULL || engine_init(&engine, &config, 0, 1) != 0) {
        free(ids);
        return 1;
    }
    double start_s = cpu_s();
    for (uint32_t i = 0; i < load->requests; i++) {
        uint64_t at_us = (uint64_t)i * load->gap_us;
        advance(&engine, at_us, &ends);
        struct engine_request request = {
            .prompt = ids,
            .prompt_len = build(load, &rng, i, ids),
            .output_len = load->output_len,
        };
        CHECK(engine_submit(&engine, &request, at_us, &ticket) == 0);
    }
    advance(&engine, UINT64_MAX - 1, &ends);
    double took_s = cpu_s() - start_s;
    struct engine_stats s;
    engine_stats(&engine, &s);
    CHECK(ends == load->requests);
    printf("%-10s %8.0f x real time  %9.0f steps/s  %10.0f tokens/s  "
           "%5.0f ns/token  hits %.3f\n",
           load->name, (double)engine.step_at_us / 1e6 / took_s,
           (double)s.steps / took_s, (double)s.generation_tokens / took_s,
           took_s * 1e9 / (double)s.generation_tokens,
           (double)s.hit_tokens / (double)s.query_tokens);
    engine_fini(&engine);
    free(ids);
    return 0;
}

int
main(void)
{
    int failed = 0;

    for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
        failed |= run(&loads[i]);
    }
    return failed;
}
