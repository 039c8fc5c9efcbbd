/*
 * What the node predicts of a hybrid model is what its engine has: the engine
 * model, small enough to be always full, publishes its events, the node reads
 * them, and for prompts that were asked, parts and continuations of them the
 * longest hit that the mirror knows is the one that the engine would take.
 *
 * property_windows SEEDS FIRST_SEED
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/engine/engine_events.h"
#include "node/events/kv_apply_internal.h"

#define STEPS      1500
#define PROMPT_MAX 160
#define OUTPUT_MAX 12
#define ASKED      8 /* prompts that are remembered */
#define WORDS_MAX  65536

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            printf("seed %llu step %d: %s\n", (unsigned long long)seed_now, \
                   step_now, #condition);                                   \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

struct prompt {
    uint32_t len;
    uint32_t token[PROMPT_MAX];
};

static uint64_t seed_now;
static int step_now;
static uint64_t limited; /* answers that windows made shorter */
static uint64_t found;   /* ... that found something */

static struct engine engine;
static struct engine_batch batch;
static struct buf payload;
static struct prompt asked[ASKED];

static struct qsbr qsbr;
static struct mirror *mirror;
static uint32_t slot;
static struct ledger *ledger;
static uint32_t stream;
static struct kv_reader *reader;
static struct kv_apply apply;
static struct kv_counters counters;

static void
begin_stream(void)
{
    MUST(ledger_open(ledger, &stream) == 0);
    MUST(mirror_open(mirror, &slot) == 0);
    apply = (struct kv_apply){.rank = 0};
}

static void
end_stream(void)
{
    ledger_close(ledger, stream);
    mirror_close(mirror, slot);
    while (ledger_work(ledger, 10000) || mirror_work(mirror, 10000)) {
    }
    (void)qsbr_reclaim(&qsbr);
}

static void
open_all(struct rng *rng)
{
    struct engine_config config = {
        .cache = ENGINE_CACHE_BLOCKS,
        .block_tokens = 1 + (uint32_t)rng_below(rng, 6),
        .running_max = 1 + (uint32_t)rng_below(rng, 4),
        .batch_tokens_max = 8 + (uint32_t)rng_below(rng, 100),
        .requests_max = 8,
        .request_tokens_max = PROMPT_MAX + OUTPUT_MAX,
        .prefill_tokens_per_s = 100000,
        .step_us = 1000,
        .events = true,
        .windows = (uint32_t)rng_below(rng, 4),
        .window_tokens = 1 + (uint32_t)rng_below(rng, 40),
    };
    config.blocks_max =
        (1 + config.windows) *
        (PROMPT_MAX / config.block_tokens + 20 + (uint32_t)rng_below(rng, 200));
    MUST(engine_init(&engine, &config, 0, rng_next(rng)) == 0);
    engine_batch_init(
        &batch, &(struct engine_events_format){
                    .encoding = rng_below(rng, 2) == 0 ? ENGINE_EVENTS_MAP
                                                       : ENGINE_EVENTS_ARRAY,
                    .slots = 12,
                    .block_tokens = config.block_tokens,
                    .hash_bytes = rng_below(rng, 2) == 0,
                    .windows = config.windows,
                    .window_tokens = config.window_tokens});
    buf_init(&payload, 16 << 20);
    qsbr_init(&qsbr);
    MUST(mirror_new(&mirror,
                    &(struct mirror_limits){.bytes_max = (size_t)64 << 20},
                    &qsbr) == 0);
    MUST(ledger_new(&ledger, &(struct ledger_limits){.bytes_max = (size_t)64
                                                                  << 20}) == 0);
    MUST(kv_reader_new(&reader, &KV_LIMITS_DEFAULT) == 0);
    begin_stream();
    memset(asked, 0, sizeof asked);
}

static void
close_all(void)
{
    engine_fini(&engine);
    engine_batch_fini(&batch);
    buf_fini(&payload);
    kv_reader_free(reader);
    ledger_free(ledger);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
}

/* One batch, as the node takes it. */
static void
deliver(void)
{
    static uint64_t words[WORDS_MAX];
    const char *reason = "";
    int outcome;

    buf_clear(&payload);
    engine_batch_seal(&batch, 1.0, &payload);
    MUST(!payload.failed);
    MUST(kv_reader_begin(reader, buf_slice(&payload)) == 0);
    do {
        struct event_words out = {.words = words, .max = WORDS_MAX};
        outcome = kv_apply(&apply, reader, ledger, stream, &counters, &out);
        MUST(!out.failed && outcome != KV_APPLY_E_DAMAGED);
        if (outcome == KV_APPLY_E_CLEARED) {
            end_stream();
            begin_stream();
        } else {
            MUST(mirror_apply(mirror, slot, words, out.count,
                              ledger_holes(ledger, stream)) == 0);
        }
    } while (outcome == KV_APPLY_E_CLEARED);
    MUST(ledger_blocks(ledger, stream) == mirror_slot_blocks(mirror, slot));
    MUST(step_now % 64 != 0 || ledger_check(ledger, &reason));
}

static void
publish(void)
{
    static const struct engine_events_owner nobody;
    struct engine_event event;

    while (engine_next_event(&engine, &event)) {
        if (!engine_batch_takes(&batch, &event)) {
            deliver();
        }
        engine_batch_add(&batch, &event, &nobody);
    }
    if (!engine_batch_is_empty(&batch)) {
        deliver();
    }
}

static uint32_t
predict(const struct prompt *prompt, uint32_t *full)
{
    uint64_t keys[PROMPT_MAX];
    uint32_t size = engine.config.block_tokens;
    uint32_t count = (prompt->len - 1) / size;
    struct worker_set slots = {.word = {0}};
    struct mirror_match match;

    (void)key_chain(key_token_root((struct slice){0}, (struct slice){0}),
                    prompt->token, count, size * sizeof(uint32_t), keys);
    worker_set_add(&slots, slot);
    mirror_match(mirror, &slots, keys, count, &match);
    *full = match.best;
    uint32_t shape = kv_apply_shape(&apply);
    MUST(shape_is_ruled(shape));
    if (shape_windows(shape) > 0) {
        mirror_match_windows(mirror, &slots, keys, shape, count, &match);
    }
    return match.best * size;
}

static void
compare(const struct prompt *prompt)
{
    struct engine_request request = {.root = 1,
                                     .prompt = prompt->token,
                                     .prompt_len = prompt->len,
                                     .output_len = 1};
    uint32_t full;
    uint32_t predicted = predict(prompt, &full);
    uint32_t cached = engine_cached_tokens(&engine, &request);

    if (predicted != cached) {
        printf("predicted %u of %u, the engine has %u\n", predicted,
               prompt->len, cached);
    }
    MUST(predicted == cached);
    limited += cached < full * engine.config.block_tokens;
    found += cached > 0;
}

/* A prompt that was asked, as it was, shorter, or with something behind. */
static struct prompt
vary(struct rng *rng)
{
    struct prompt prompt = asked[rng_below(rng, ASKED)];
    uint32_t more = (uint32_t)rng_below(rng, 40);

    if (prompt.len > 0 && rng_below(rng, 2) == 0) {
        prompt.len -= (uint32_t)rng_below(rng, prompt.len);
    }
    if (prompt.len == 0 || rng_below(rng, 2) == 0) {
        more = more < PROMPT_MAX - prompt.len ? more : PROMPT_MAX - prompt.len;
        for (uint32_t i = 0; i < more; i++) {
            prompt.token[prompt.len++] = (uint32_t)rng_below(rng, 3);
        }
    }
    prompt.len += prompt.len == 0;
    return prompt;
}

static void
ask(struct rng *rng, uint64_t now_us)
{
    struct prompt prompt = vary(rng);
    uint64_t ticket;
    int outcome = engine_submit(
        &engine,
        &(struct engine_request){
            .root = 1,
            .prompt = prompt.token,
            .prompt_len = prompt.len,
            .output_len = 1 + (uint32_t)rng_below(rng, OUTPUT_MAX)},
        now_us, &ticket);

    MUST(outcome == 0 || outcome == ENGINE_E_FULL ||
         outcome == ENGINE_E_TOO_LONG);
    asked[rng_below(rng, ASKED)] = prompt;
}

static void
run(uint64_t seed)
{
    struct rng rng;
    struct engine_out out;
    uint64_t now_us = 0;
    const char *reason = "";

    seed_now = seed;
    rng_init(&rng, seed);
    open_all(&rng);
    for (step_now = 0; step_now < STEPS; step_now++) {
        now_us += rng_below(&rng, 3000);
        if (rng_below(&rng, 2) == 0) {
            ask(&rng, now_us);
        }
        engine_tick(&engine, now_us);
        if (rng_below(&rng, 200) == 0) {
            int reset = engine_reset_cache(&engine);
            MUST(reset == 0 || reset == ENGINE_E_BUSY);
        }
        while (engine_next_out(&engine, &out)) {
        }
        publish();
        MUST(engine_check(&engine, &reason));
        for (int i = 0; i < 3; i++) {
            struct prompt prompt = vary(&rng);
            compare(&prompt);
        }
    }
    close_all();
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (uint64_t i = 0; i < seeds; i++) {
        run(first + i);
    }
    printf("%llu seeds, %llu hits, %llu shortened by windows\n",
           (unsigned long long)seeds, (unsigned long long)found,
           (unsigned long long)limited);
    return found > 0 && limited > 0 ? 0 : 1;
}
