/* Generated workloads: conversations, documents, agents, tiered prefixes. */
#include "chaos/replay/replay_generate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"

#define RAG_DOCUMENTS   4U /* in one prompt */
#define RAG_INSTRUCTION 200U
#define MIX_LONG_EVERY  10U
#define MIX_LONG_TIMES  40U /* longer than a short prompt */

/* clang-format off */
static const struct replay_workload workloads[] = {
    {"b2b", REPLAY_SHARED_PREFIX, true, 10000, 150, 5, 6000, 1200, 1000, 0,
     8, 307328, "150 system prompts of 6,000 tokens, 5 questions each"},
    {"x37", REPLAY_SHARED_PREFIX, false, 5000, 83, 3, 8000, 1000, 1000, 0,
     4, 461376, "83 system prompts of 8,000 tokens, 3 questions each"},
    {"tiered", REPLAY_SHARED_PREFIX, true, 10000, 250, 5, 16000, 256, 256, 0,
     8, 307328, "more prefixes than all caches hold"},
    {"easy32", REPLAY_SHARED_PREFIX, false, 10000, 32, 32, 2048, 256, 256, 0,
     8, 307328, "few short prefixes: every policy looks good"},
    {"chat", REPLAY_CHAT, true, 3000, 24, 6, 1200, 150, 250, 8000,
     8, 131072, "conversations of 6 turns or so"},
    {"rag", REPLAY_RAG, true, 12000, 400, 0, 1500, 80, 200, 0,
     8, 262144, "four documents of 1,500 tokens and a question"},
    {"mix", REPLAY_MIX, true, 20000, 1, 0, 128, 400, 150, 0,
     8, 307328, "nine short prompts, then one of 16,000 tokens"},
};
/* clang-format on */

#define WORKLOADS_COUNT (sizeof workloads / sizeof workloads[0])

/* The load under construction, and its parameters. */
struct maker {
    const struct replay_workload *w;
    struct replay_load *load;
    struct rng rng;
    uint64_t seed;
    uint64_t at_us; /* of the last arrival */
};

const struct replay_workload *
replay_workload_at(uint32_t at)
{
    return at < WORKLOADS_COUNT ? &workloads[at] : NULL;
}

const struct replay_workload *
replay_workload_find(const char *name)
{
    for (size_t i = 0; i < WORKLOADS_COUNT; i++) {
        if (strcmp(workloads[i].name, name) == 0) {
            return &workloads[i];
        }
    }
    return NULL;
}

/* A text of its own for each pair. */
static uint64_t
text(const struct maker *m, uint64_t kind, uint64_t number)
{
    return rng_mix(rng_mix(m->seed ^ rng_mix(kind)) + number);
}

enum {
    TEXT_SYSTEM = 1,
    TEXT_QUESTION,
    TEXT_ANSWER,
};

static double
exponential(struct maker *m, double mean)
{
    return -mean * log(1.0 - rng_unit(&m->rng));
}

static uint64_t
next_arrival(struct maker *m)
{
    double mean = 1e9 / m->w->rate_milli;

    m->at_us += (uint64_t)(m->w->poisson ? exponential(m, mean) : mean);
    return m->at_us;
}

/* From half to one and a half of n, evenly. */
static uint32_t
around(struct maker *m, uint32_t n)
{
    return n / 2 + (uint32_t)rng_below(&m->rng, n + 1);
}

static int
run(struct maker *m, uint64_t kind, uint64_t number, uint32_t tokens)
{
    return replay_load_run(m->load, text(m, kind, number), 0, tokens);
}

/* Fisher and Yates. */
static void
shuffle(struct rng *rng, uint32_t *numbers, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = (uint32_t)rng_below(rng, i);
        uint32_t kept = numbers[i - 1];
        numbers[i - 1] = numbers[j];
        numbers[j] = kept;
    }
}

static int
make_shared_prefix(struct maker *m, uint32_t requests)
{
    uint32_t prompts = m->w->groups * m->w->per_group;
    uint32_t *order = malloc(prompts * sizeof(*order));
    int outcome = order == NULL ? -ENOMEM : 0;

    for (uint32_t i = 0; i < prompts && order != NULL; i++) {
        order[i] = i;
    }
    if (order != NULL) {
        shuffle(&m->rng, order, prompts);
    }
    for (uint32_t i = 0; i < requests && outcome == 0; i++) {
        uint32_t prompt = order[i % prompts];
        uint32_t group = prompt / m->w->per_group;
        struct replay_request request = {
            .at_us = next_arrival(m),
            .after = REPLAY_NONE,
            .output_tokens = m->w->output,
            .answer = text(m, TEXT_ANSWER, i),
            .family = text(m, TEXT_SYSTEM, group),
        };
        outcome = run(m, TEXT_SYSTEM, group, m->w->system);
        if (outcome == 0) {
            outcome = run(m, TEXT_QUESTION, prompt, m->w->question);
        }
        if (outcome == 0) {
            outcome = replay_load_add(m->load, &request, NULL);
        }
    }
    free(order);
    return outcome;
}

/* One turn: what was said before, or the system prompt, and a question. */
static int
make_turn(struct maker *m, uint32_t group, uint64_t family, uint32_t *last)
{
    uint64_t number = m->load->count;
    bool first = *last == REPLAY_NONE;
    struct replay_request request = {
        .at_us = first ? next_arrival(m)
                       : (uint64_t)exponential(m, m->w->pause_ms * 1000.0),
        .after = *last,
        .output_tokens = around(m, m->w->output),
        .answer = text(m, TEXT_ANSWER, number),
        .family = family,
    };
    int outcome = first ? run(m, TEXT_SYSTEM, group, m->w->system)
                        : replay_load_history(m->load, *last);

    if (outcome == 0) {
        outcome = run(m, TEXT_QUESTION, number, around(m, m->w->question));
    }
    return outcome == 0 ? replay_load_add(m->load, &request, last) : outcome;
}

static int
make_chat(struct maker *m, uint32_t requests)
{
    int outcome = 0;

    while (m->load->count < requests && outcome == 0) {
        uint32_t group = (uint32_t)rng_below(&m->rng, m->w->groups);
        uint32_t turns = around(m, m->w->per_group);
        uint64_t family = text(m, TEXT_QUESTION, m->load->count);
        uint32_t last = REPLAY_NONE;
        for (uint32_t i = 0; i < (turns > 0 ? turns : 1) && outcome == 0; i++) {
            outcome = make_turn(m, group, family, &last);
        }
    }
    return outcome;
}

/* Popularity falls about as 1 / rank: the logarithm of the rank is even. */
static uint32_t
popular(struct maker *m)
{
    double rank = exp(rng_unit(&m->rng) * log(m->w->groups + 1.0)) - 1.0;
    uint32_t document = (uint32_t)rank;

    return document < m->w->groups ? document : m->w->groups - 1;
}

static int
make_rag(struct maker *m, uint32_t requests)
{
    int outcome = 0;

    for (uint32_t i = 0; i < requests && outcome == 0; i++) {
        uint32_t first = popular(m);
        struct replay_request request = {
            .at_us = next_arrival(m),
            .after = REPLAY_NONE,
            .output_tokens = around(m, m->w->output),
            .answer = text(m, TEXT_ANSWER, i),
            .family = text(m, TEXT_SYSTEM, first + 1),
        };
        outcome = run(m, TEXT_SYSTEM, 0, RAG_INSTRUCTION);
        for (uint32_t d = 0; d < RAG_DOCUMENTS && outcome == 0; d++) {
            outcome = run(m, TEXT_SYSTEM, d == 0 ? first + 1 : popular(m) + 1,
                          m->w->system);
        }
        if (outcome == 0) {
            outcome = run(m, TEXT_QUESTION, i, around(m, m->w->question));
        }
        if (outcome == 0) {
            outcome = replay_load_add(m->load, &request, NULL);
        }
    }
    return outcome;
}

static int
make_mix(struct maker *m, uint32_t requests)
{
    int outcome = 0;

    for (uint32_t i = 0; i < requests && outcome == 0; i++) {
        bool is_long = rng_below(&m->rng, MIX_LONG_EVERY) == 0;
        uint32_t prompt = around(m, m->w->question);
        struct replay_request request = {
            .at_us = next_arrival(m),
            .after = REPLAY_NONE,
            .output_tokens = around(m, m->w->output),
            .answer = text(m, TEXT_ANSWER, i),
            .family = text(m, TEXT_QUESTION, i),
        };
        outcome = run(m, TEXT_SYSTEM, 0, m->w->system);
        if (outcome == 0) {
            outcome = run(m, TEXT_QUESTION, i,
                          is_long ? prompt * MIX_LONG_TIMES : prompt);
        }
        if (outcome == 0) {
            outcome = replay_load_add(m->load, &request, NULL);
        }
    }
    return outcome;
}

int
replay_generate(const struct replay_workload *workload, uint64_t seed,
                uint32_t requests, struct replay_load *load)
{
    struct maker m = {.w = workload, .load = load, .seed = rng_mix(seed)};

    CHECK(load->count == 0 && workload->rate_milli > 0);
    rng_init(&m.rng, seed);
    switch (workload->shape) {
    case REPLAY_SHARED_PREFIX:
        return make_shared_prefix(&m, requests);
    case REPLAY_CHAT:
        return make_chat(&m, requests);
    case REPLAY_RAG:
        return make_rag(&m, requests);
    case REPLAY_MIX:
        break;
    }
    return make_mix(&m, requests);
}
