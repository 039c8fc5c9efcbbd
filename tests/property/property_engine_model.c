/*
 * The engine model under random load, small enough to be always full: every
 * invariant holds after every call; whoever listens to its block events knows
 * exactly what is cached; every request gets all of its tokens in order, and
 * a cancelled one gets no more.
 *
 * property_engine_model SEEDS FIRST_SEED
 */
#include <stdio.h>
#include <stdlib.h>

#include "chaos/engine/engine_model.h"

#define STEPS        3000
#define REQUESTS_MAX 12
#define KEYS_MAX     4096
#define PROMPT_MAX   60
#define OUTPUT_MAX   20

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            printf("seed %llu step %d: %s\n", (unsigned long long)seed_now, \
                   step_now, #condition);                                   \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static uint64_t seed_now;
static int step_now;

/* What a listener believes: how often each key is stored. */
struct listener {
    uint64_t keys[KEYS_MAX];
    uint32_t copies[KEYS_MAX];
    uint32_t count;
    uint32_t total;
};

/* What a client waits for. */
struct client {
    uint64_t ticket; /* 0: nothing */
    uint32_t output_len;
    uint32_t got;
};

static struct engine engine;
static struct listener listener;
static struct client clients[REQUESTS_MAX];

static uint32_t
place_of(uint64_t key)
{
    uint32_t i = 0;

    while (i < listener.count && listener.keys[i] != key) {
        i++;
    }
    if (i == listener.count) {
        MUST(i < KEYS_MAX);
        listener.keys[listener.count++] = key;
        listener.copies[i] = 0;
    }
    return i;
}

static void
hear(const struct engine_event *event)
{
    switch (event->kind) {
    case ENGINE_EVENT_STORED:
        MUST(event->depth == 0 || listener.copies[place_of(event->parent)] > 0);
        MUST(event->tokens_len == engine.config.block_tokens);
        listener.copies[place_of(event->key)]++;
        MUST(engine.config.cache == ENGINE_CACHE_BLOCKS ||
             listener.copies[place_of(event->key)] == 1);
        listener.total++;
        break;
    case ENGINE_EVENT_REMOVED:
        MUST(listener.copies[place_of(event->key)] > 0);
        listener.copies[place_of(event->key)]--;
        listener.total--;
        break;
    case ENGINE_EVENT_CLEARED:
        listener.count = 0;
        listener.total = 0;
        break;
    }
}

static void
take_out(const struct engine_out *out)
{
    struct client *c = &clients[out->user];

    MUST(c->ticket == out->ticket);
    MUST(out->usage.cached_tokens < out->usage.prompt_tokens);
    MUST(engine.config.cache == ENGINE_CACHE_SLOTS ||
         out->usage.cached_tokens % engine.config.block_tokens == 0);
    if (out->kind == ENGINE_OUT_END) {
        MUST(c->got == c->output_len);
        c->ticket = 0;
        return;
    }
    MUST(out->index == c->got);
    MUST((out->kind == ENGINE_OUT_FIRST) == (c->got == 0));
    c->got++;
}

static void
pull(void)
{
    struct engine_out out;
    struct engine_event event;
    struct engine_stats stats;
    const char *reason = "";
    bool sound = engine_check(&engine, &reason);

    if (!sound) {
        printf("%s\n", reason);
    }
    MUST(sound);
    while (engine_next_out(&engine, &out)) {
        take_out(&out);
    }
    while (engine_next_event(&engine, &event)) {
        hear(&event);
    }
    engine_stats(&engine, &stats);
    MUST(listener.total == stats.cached_blocks);
    for (uint32_t i = 0; i < listener.count; i++) {
        uint32_t unused;
        uint32_t found =
            engine_blocks_match(&engine.pool, &listener.keys[i], 1, &unused);
        MUST(found == (listener.copies[i] > 0));
    }
}

static void
submit(struct rng *rng, uint64_t now_us)
{
    uint32_t who = (uint32_t)rng_below(rng, REQUESTS_MAX);
    uint32_t prompt[PROMPT_MAX];
    struct engine_request request = {
        .root = rng_below(rng, 2),
        .user = who,
        .prompt = prompt,
        .prompt_len = 1 + (uint32_t)rng_below(rng, PROMPT_MAX),
        .output_len = 1 + (uint32_t)rng_below(rng, OUTPUT_MAX),
    };
    uint32_t family = (uint32_t)rng_below(rng, 3);

    if (clients[who].ticket != 0) {
        return;
    }
    for (uint32_t i = 0; i < request.prompt_len; i++) {
        prompt[i] = i < 30 ? i : family * 100 + i;
    }
    int r = engine_submit(&engine, &request, now_us, &clients[who].ticket);
    MUST(r == 0 || r == ENGINE_E_TOO_LONG || r == ENGINE_E_FULL);
    if (r != 0) {
        clients[who].ticket = 0;
    }
    clients[who].output_len = request.output_len;
    clients[who].got = 0;
}

static void
start(struct rng *rng)
{
    struct engine_config config = {
        .cache = (enum engine_cache)rng_below(rng, 4),
        .block_tokens = 1 + (uint32_t)rng_below(rng, 6),
        .running_max = 1 + (uint32_t)rng_below(rng, 5),
        .batch_tokens_max = 1 + (uint32_t)rng_below(rng, 40),
        .requests_max = 2 + (uint32_t)rng_below(rng, REQUESTS_MAX),
        .request_tokens_max = PROMPT_MAX + OUTPUT_MAX,
        .prefill_tokens_per_s = 1 + (uint32_t)rng_below(rng, 100000),
        .step_us = (uint32_t)rng_below(rng, 1000),
        .step_per_seq_us = (uint32_t)rng_below(rng, 100),
        .step_jitter_permille = (uint32_t)rng_below(rng, 1001),
        .events = true,
    };

    config.ahead =
        config.cache == ENGINE_CACHE_BLOCKS ? (uint32_t)rng_below(rng, 4) : 0;
    config.blocks_max =
        1 + (uint32_t)rng_below(
                rng, 2 * (PROMPT_MAX + OUTPUT_MAX) / config.block_tokens + 1);
    MUST(engine_init(&engine, &config, 0, seed_now) == 0);
    listener = (struct listener){.count = 0};
    for (uint32_t i = 0; i < REQUESTS_MAX; i++) {
        clients[i] = (struct client){.ticket = 0};
    }
}

/* Whatever is left ends by itself. */
static void
drain(uint64_t now_us)
{
    while (engine_deadline(&engine) != UINT64_MAX) {
        uint64_t at_us = engine_deadline(&engine);
        now_us = at_us > now_us ? at_us : now_us;
        engine_tick(&engine, now_us);
        pull();
    }
    for (uint32_t i = 0; i < REQUESTS_MAX; i++) {
        MUST(clients[i].ticket == 0);
    }
    MUST(engine_reset_cache(&engine) == 0);
    pull();
    MUST(listener.total == 0);
}

static void
run(uint64_t seed)
{
    struct rng rng;
    uint64_t now_us = 0;

    seed_now = seed;
    rng_init(&rng, seed);
    start(&rng);
    for (step_now = 0; step_now < STEPS; step_now++) {
        uint64_t what = rng_below(&rng, 16);
        now_us += rng_below(&rng, 400);
        if (what < 6) {
            submit(&rng, now_us);
        } else if (what == 6) {
            struct client *c = &clients[rng_below(&rng, REQUESTS_MAX)];
            engine_cancel(&engine, c->ticket, now_us);
            c->ticket = 0;
        } else if (what == 7) {
            int r = engine_reset_cache(&engine);
            MUST(r == 0 || r == ENGINE_E_BUSY);
        } else {
            engine_tick(&engine, now_us);
        }
        /* Sometimes nobody pulls for a while. */
        if (rng_below(&rng, 4) != 0) {
            pull();
        }
    }
    pull();
    drain(now_us);
    engine_fini(&engine);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (uint64_t seed = first; seed < first + seeds; seed++) {
        run(seed);
    }
    printf("%llu seeds, %d steps each\n", (unsigned long long)seeds, STEPS);
    return 0;
}
