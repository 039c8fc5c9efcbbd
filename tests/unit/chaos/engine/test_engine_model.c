#include <criterion/criterion.h>

#include "chaos/engine/engine_model.h"

#define BLOCK 16
#define ROOT  UINT64_C(77)

static const struct engine_config plain = {
    .blocks_max = 64,
    .block_tokens = BLOCK,
    .running_max = 8,
    .batch_tokens_max = 512,
    .requests_max = 32,
    .request_tokens_max = 1024,
    .prefill_tokens_per_s = 100000, /* 10 us each */
    .step_us = 8000,
    .step_per_seq_us = 650,
    .events = true,
};

static struct engine engine;

static void
start(const struct engine_config *config)
{
    cr_assert_eq(engine_init(&engine, config, 0, 1), 0);
}

static void
must_hold(void)
{
    const char *reason;

    cr_assert(engine_check(&engine, &reason), "%s", reason);
}

/* A prompt of its own for every first id. */
static uint64_t
submit(uint32_t first_id, uint32_t prompt_len, uint32_t output_len,
       uint64_t now_us)
{
    uint32_t prompt[1024];
    uint64_t ticket = 0;

    for (uint32_t i = 0; i < prompt_len; i++) {
        prompt[i] = first_id + i;
    }
    struct engine_request request = {
        .root = ROOT,
        .prompt = prompt,
        .prompt_len = prompt_len,
        .output_len = output_len,
    };
    cr_assert_eq(engine_submit(&engine, &request, now_us, &ticket), 0);
    return ticket;
}

/* Runs on until something is put out; false when nothing will be. */
static bool
next(struct engine_out *out)
{
    struct engine_event event;

    while (!engine_next_out(&engine, out)) {
        if (engine_deadline(&engine) == UINT64_MAX) {
            return false;
        }
        uint64_t at_us = engine_deadline(&engine);
        engine_tick(&engine, at_us > engine.now_us ? at_us : engine.now_us);
        must_hold();
        while (engine_next_event(&engine, &event)) {
        }
    }
    return true;
}

/* Runs until this request ends. */
static struct engine_out
finish(uint64_t ticket)
{
    struct engine_out out;

    do {
        cr_assert(next(&out));
    } while (out.ticket != ticket || out.kind != ENGINE_OUT_END);
    return out;
}

/* One request alone, from now on. */
static struct engine_out
run(uint32_t first_id, uint32_t prompt_len, uint32_t output_len)
{
    return finish(submit(first_id, prompt_len, output_len, engine.now_us));
}

Test(chaos_engine_model, a_lone_request_takes_prefill_then_a_step_per_token)
{
    struct engine_out out;

    start(&plain);
    (void)submit(1, 100, 3, 0);
    cr_assert(next(&out));
    cr_assert_eq(out.kind, ENGINE_OUT_FIRST);
    cr_assert_eq(out.at_us, 8000 + 650 + 100 * 10);
    cr_assert(next(&out));
    cr_assert_eq(out.kind, ENGINE_OUT_TOKEN);
    cr_assert_eq(out.at_us, 9650 + 8650);
    cr_assert(next(&out));
    cr_assert_eq(out.index, 2);
    cr_assert(next(&out));
    cr_assert_eq(out.kind, ENGINE_OUT_END);
    cr_assert_eq(out.at_us, 9650 + 2 * 8650);
    cr_assert_eq(out.usage.prompt_tokens, 100);
    cr_assert_eq(out.usage.completion_tokens, 3);
    cr_assert_eq(out.usage.cached_tokens, 0);
    cr_assert_not(next(&out));
    engine_fini(&engine);
}

Test(chaos_engine_model, attention_takes_longer_the_more_there_is_before)
{
    struct engine_config config = plain;
    struct engine_out out;

    config.step_per_context_ps = 1000000; /* 1 us */
    config.prefill_per_pair_ps = 1000;
    start(&config);
    (void)submit(1, 600, 3, 0);
    cr_assert(next(&out)); /* 512 and 88 tokens, with 600 * 601 / 2 pairs */
    uint64_t prefill_us = 2 * 8650 + 6000 + 131 + 48;
    cr_assert_eq(out.at_us, prefill_us, "%lu", out.at_us);
    cr_assert(next(&out));
    cr_assert_eq(out.at_us, prefill_us + 8650 + 600);
    cr_assert(next(&out));
    cr_assert_eq(out.at_us, prefill_us + 2 * 8650 + 600 + 601);
    engine_fini(&engine);
}

Test(chaos_engine_model, a_full_hit_still_computes_the_last_token)
{
    start(&plain);
    (void)run(1, 640, 1);
    cr_assert_eq(run(1, 640, 1).usage.cached_tokens, 624);
    cr_assert_eq(run(1, 641, 1).usage.cached_tokens, 640);
    cr_assert_eq(run(1, 639, 1).usage.cached_tokens, 624);
    cr_assert_eq(run(1, 16, 1).usage.cached_tokens, 0);
    cr_assert_eq(run(1, 17, 1).usage.cached_tokens, 16);
    cr_assert_eq(run(2, 640, 1).usage.cached_tokens, 0);
    engine_fini(&engine);
}

static uint64_t
submit_cold(uint32_t first_id, uint32_t prompt_len)
{
    uint32_t prompt[1024];
    struct engine_request request = {.root = ROOT,
                                     .prompt = prompt,
                                     .prompt_len = prompt_len,
                                     .output_len = 1,
                                     .cold = true};
    uint64_t ticket;

    for (uint32_t i = 0; i < prompt_len; i++) {
        prompt[i] = first_id + i;
    }
    cr_assert_eq(engine_submit(&engine, &request, engine.now_us, &ticket), 0);
    return ticket;
}

Test(chaos_engine_model, a_cold_prompt_is_computed_anew_and_cached_again)
{
    start(&plain);
    (void)run(1, 4 * BLOCK, 1);
    cr_assert_eq(finish(submit_cold(1, 4 * BLOCK)).usage.cached_tokens, 0);
    cr_assert_eq(run(1, 4 * BLOCK, 1).usage.cached_tokens, 3 * BLOCK);
    engine_fini(&engine);
}

Test(chaos_engine_model, a_hit_makes_the_first_token_come_sooner)
{
    start(&plain);
    struct engine_out cold = run(1, 500, 1);
    struct engine_out warm = run(1, 500, 1);
    cr_assert_eq(cold.at_us - cold.usage.submitted_us, 8650 + 5000);
    cr_assert_eq(warm.at_us - warm.usage.submitted_us, 8650 + 40);
    engine_fini(&engine);
}

Test(chaos_engine_model, a_conversation_hits_what_was_generated_before)
{
    uint32_t ids[200];
    uint64_t ticket;

    start(&plain);
    for (uint32_t i = 0; i < 200; i++) {
        ids[i] = 5000 + i;
    }
    struct engine_request turn = {.root = ROOT,
                                  .prompt = ids,
                                  .prompt_len = 100,
                                  .output = ids + 100,
                                  .output_len = 61};
    cr_assert_eq(engine_submit(&engine, &turn, 0, &ticket), 0);
    (void)finish(ticket);
    turn.prompt_len = 180;
    turn.output_len = 1;
    /* 160 of its 161 tokens were computed: ten blocks. */
    cr_assert_eq(engine_cached_tokens(&engine, &turn), 160);
    cr_assert_eq(engine_submit(&engine, &turn, engine.now_us, &ticket), 0);
    cr_assert_eq(finish(ticket).usage.cached_tokens, 160);
    engine_fini(&engine);
}

Test(chaos_engine_model, namespaces_do_not_share_blocks)
{
    uint32_t ids[64] = {0};
    uint64_t ticket;
    struct engine_request request = {
        .root = 1, .prompt = ids, .prompt_len = 64, .output_len = 1};

    start(&plain);
    cr_assert_eq(engine_submit(&engine, &request, 0, &ticket), 0);
    (void)finish(ticket);
    cr_assert_eq(engine_cached_tokens(&engine, &request), 48);
    request.root = 2;
    cr_assert_eq(engine_cached_tokens(&engine, &request), 0);
    engine_fini(&engine);
}

Test(chaos_engine_model, the_least_recently_used_prompt_is_evicted_tail_first)
{
    struct engine_config config = plain;

    config.blocks_max = 20;
    start(&config);
    (void)run(1000, 128, 1); /* 8 blocks */
    (void)run(2000, 128, 1); /* 8 blocks */
    (void)run(1000, 112, 1); /* 6 of the first are used again */
    /* 3 unused slots, the 2 of 1000 that were not used again, and the last
     * 3 of 2000. */
    (void)run(3000, 128, 1);
    cr_assert_eq(run(2000, 129, 1).usage.cached_tokens, 5 * BLOCK);
    /* That took 4 more: the seventh of 1000 (computed twice), 6, 5 and 4. */
    cr_assert_eq(run(1000, 129, 1).usage.cached_tokens, 3 * BLOCK);
    engine_fini(&engine);
}

Test(chaos_engine_model, the_queue_is_first_come_first_served)
{
    struct engine_config config = plain;
    struct engine_out out;
    uint64_t tickets[4];

    config.running_max = 1;
    start(&config);
    for (uint32_t i = 0; i < 4; i++) {
        tickets[i] = submit(1000 * (i + 1), 40, 2, 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert(next(&out));
        cr_assert_eq(out.kind, ENGINE_OUT_FIRST);
        cr_assert_eq(out.ticket, tickets[i]);
        (void)finish(tickets[i]);
    }
    engine_fini(&engine);
}

Test(chaos_engine_model, a_request_waits_for_blocks_and_all_behind_it_wait)
{
    struct engine_config config = plain;
    struct engine_out out;
    struct engine_stats stats;

    config.blocks_max = 10;
    start(&config);
    uint64_t first = submit(1000, 80, 20, 0); /* 7 blocks in the end */
    uint64_t big = submit(2000, 64, 1, 0);    /* 4: too many by one */
    uint64_t small = submit(3000, 16, 1, 0);  /* 1 would do, but is behind */
    cr_assert(next(&out));
    cr_assert_eq(out.ticket, first);
    engine_stats(&engine, &stats);
    cr_assert_eq(stats.running, 1);
    cr_assert_eq(stats.waiting, 2);
    (void)finish(first);
    cr_assert(next(&out));
    cr_assert_eq(out.ticket, big);
    (void)finish(small);
    engine_fini(&engine);
}

Test(chaos_engine_model, a_batch_is_slower_per_token_and_faster_in_sum)
{
    struct engine_out out;

    start(&plain);
    struct engine_out alone = run(1000, 10, 50);
    uint64_t alone_us = alone.at_us - alone.usage.first_us;
    uint64_t start_us = engine.now_us;
    for (uint32_t i = 0; i < 8; i++) {
        (void)submit(10000 + 1000 * i, 10, 50, start_us);
    }
    uint32_t ends = 0;
    while (next(&out)) {
        ends += out.kind == ENGINE_OUT_END;
    }
    cr_assert_eq(ends, 8);
    uint64_t batch_us = engine.now_us - start_us;
    cr_assert_gt(batch_us, alone_us);
    cr_assert_lt(batch_us, 2 * alone_us);
    cr_assert_eq(alone_us, 49 * 8650);
    engine_fini(&engine);
}

Test(chaos_engine_model, a_long_prompt_is_computed_in_chunks_beside_others)
{
    struct engine_config config = plain;
    struct engine_out out;

    config.batch_tokens_max = 64;
    start(&config);
    uint64_t chat = submit(1000, 10, 40, 0);
    cr_assert(next(&out));
    uint64_t doc = submit(2000, 630, 1, engine.now_us);
    uint32_t tokens_between = 0;
    do {
        cr_assert(next(&out));
        tokens_between += out.ticket == chat;
    } while (out.ticket != doc);
    /* One step was under way already; then 63 tokens of the document beside
     * each of the chat's, which comes first in the batch. */
    cr_assert_eq(tokens_between, 11);
    cr_assert_eq(out.usage.first_us - out.usage.admitted_us,
                 10 * 8000 + 20 * 650 + 630 * 10);
    engine_fini(&engine);
}

Test(chaos_engine_model, a_prefill_under_way_is_hit_by_whoever_comes_next)
{
    struct engine_config config = plain;
    struct engine_out out;

    config.batch_tokens_max = 400;
    start(&config);
    (void)submit(1000, 320, 1, 0);
    uint64_t second = submit(1000, 320, 1, 0);
    while (next(&out) && out.ticket != second) {
    }
    cr_assert_eq(out.usage.cached_tokens, 304);
    cr_assert_eq(out.usage.admitted_us, 0);
    engine_fini(&engine);
}

Test(chaos_engine_model, cancelling_frees_blocks_and_silences_the_request)
{
    struct engine_out out;
    struct engine_stats stats;

    start(&plain);
    uint64_t running = submit(1000, 160, 20, 0);
    uint64_t waiting = submit(2000, 160, 20, 5);
    cr_assert(next(&out));
    engine_tick(&engine, engine_deadline(&engine));
    engine_cancel(&engine, running, engine.now_us);
    engine_cancel(&engine, waiting, engine.now_us);
    engine_cancel(&engine, waiting, engine.now_us);
    must_hold();
    engine_stats(&engine, &stats);
    cr_assert_eq(stats.held_blocks, 0);
    cr_assert_eq(stats.running + stats.waiting, 0);
    cr_assert_eq(stats.cancelled, 2);
    cr_assert_not(next(&out));
    /* What was computed stays in the cache. */
    cr_assert_eq(run(1000, 160, 1).usage.cached_tokens, 144);
    engine_fini(&engine);
}

Test(chaos_engine_model, a_spent_ticket_does_not_touch_its_successor)
{
    struct engine_out out;

    start(&plain);
    uint64_t old = submit(1000, 20, 1, 0);
    (void)finish(old);
    uint64_t young = submit(2000, 20, 2, engine.now_us);
    cr_assert_neq(old, young);
    engine_cancel(&engine, old, engine.now_us);
    cr_assert(next(&out));
    cr_assert_eq(out.ticket, young);
    engine_fini(&engine);
}

Test(chaos_engine_model, an_ended_request_can_be_cancelled_before_it_is_pulled)
{
    struct engine_out out;

    start(&plain);
    uint64_t ticket = submit(1000, 20, 1, 0);
    engine_tick(&engine, 0);
    engine_tick(&engine, engine_deadline(&engine));
    engine_cancel(&engine, ticket, engine.now_us);
    cr_assert_not(engine_next_out(&engine, &out));
    must_hold();
    engine_fini(&engine);
}

Test(chaos_engine_model, full_and_too_long_are_answers)
{
    struct engine_config config = plain;
    uint32_t ids[2000] = {0};
    uint64_t ticket;
    struct engine_stats stats;

    config.requests_max = 2;
    config.blocks_max = 40;
    start(&config);
    struct engine_request request = {
        .root = ROOT, .prompt = ids, .prompt_len = 1000, .output_len = 25};
    cr_assert_eq(engine_submit(&engine, &request, 0, &ticket),
                 ENGINE_E_TOO_LONG);
    request.output_len = 24; /* fits 1024, but not 40 blocks */
    cr_assert_eq(engine_submit(&engine, &request, 0, &ticket),
                 ENGINE_E_TOO_LONG);
    request.prompt_len = 617; /* 640 tokens are computed: just 40 blocks */
    cr_assert_eq(engine_submit(&engine, &request, 0, &ticket), 0);
    cr_assert_eq(engine_submit(&engine, &request, 0, &ticket), 0);
    cr_assert_eq(engine_submit(&engine, &request, 0, &ticket), ENGINE_E_FULL);
    engine_stats(&engine, &stats);
    cr_assert_eq(stats.refused, 3);
    cr_assert_eq(finish(ticket).usage.completion_tokens, 24);
    engine_fini(&engine);
}

Test(chaos_engine_model, a_late_tick_catches_up_on_its_own_clock)
{
    struct engine_out out;
    uint64_t at_us = 0;
    uint32_t tokens = 0;

    start(&plain);
    uint64_t late = submit(1000, 10, 5, 0);
    engine_tick(&engine, 0);
    (void)submit(2000, 10, 5, 1000000);
    engine_tick(&engine, 2000000);
    while (engine_next_out(&engine, &out)) {
        cr_assert_geq(out.at_us, at_us);
        at_us = out.at_us;
        tokens += out.ticket == late && out.kind != ENGINE_OUT_END;
        if (out.ticket != late) {
            cr_assert_geq(out.at_us, 1000000);
        }
    }
    cr_assert_eq(tokens, 5);
    cr_assert_lt(at_us, 2000000);
    engine_fini(&engine);
}

Test(chaos_engine_model, full_queues_stop_the_clock_and_lose_nothing)
{
    struct engine_config config = plain;
    struct engine_out out;
    struct engine_event event;
    uint32_t tokens = 0;
    uint32_t stored = 0;
    struct engine_stats stats;

    config.running_max = 2;
    start(&config);
    (void)submit(1000, 100, 300, 0);
    for (int i = 0; i < 100; i++) {
        engine_tick(&engine, UINT64_MAX - 1);
    }
    cr_assert_lt(engine_deadline(&engine), UINT64_MAX);
    while (engine_deadline(&engine) != UINT64_MAX || engine.outs_count > 0) {
        engine_tick(&engine, UINT64_MAX - 1);
        while (engine_next_out(&engine, &out)) {
            cr_assert(out.kind == ENGINE_OUT_END || out.index == tokens++);
        }
        while (engine_next_event(&engine, &event)) {
            stored += event.kind == ENGINE_EVENT_STORED;
        }
    }
    engine_stats(&engine, &stats);
    cr_assert_eq(tokens, 300);
    cr_assert_eq(stored, stats.stored_blocks);
    cr_assert_eq(stored, 399 / BLOCK);
    engine_fini(&engine);
}

Test(chaos_engine_model, events_tell_the_cache_block_by_block)
{
    struct engine_event event;
    uint64_t parent = 0;

    start(&plain);
    (void)submit(1000, 64, 1, 0);
    engine_tick(&engine, 0);
    for (uint32_t depth = 0; depth < 4; depth++) {
        cr_assert(engine_next_event(&engine, &event));
        cr_assert_eq(event.kind, ENGINE_EVENT_STORED);
        cr_assert_eq(event.depth, depth);
        cr_assert_eq(event.parent, parent);
        cr_assert_eq(event.root, ROOT);
        cr_assert_eq(event.tokens_len, BLOCK);
        cr_assert_eq(event.tokens[0], 1000 + depth * BLOCK);
        parent = event.key;
    }
    cr_assert_not(engine_next_event(&engine, &event));
    cr_assert_eq(engine_reset_cache(&engine), ENGINE_E_BUSY);
    engine_tick(&engine, engine_deadline(&engine));
    cr_assert_eq(engine_reset_cache(&engine), 0);
    cr_assert(engine_next_event(&engine, &event));
    cr_assert_eq(event.kind, ENGINE_EVENT_CLEARED);
    struct engine_stats stats;
    engine_stats(&engine, &stats);
    cr_assert_eq(stats.cached_blocks, 0);
    engine_fini(&engine);
}

Test(chaos_engine_model, a_bare_engine_tells_the_same_without_tokens)
{
    struct engine_config config = plain;
    struct engine_event event;

    config.bare = true;
    start(&config);
    (void)submit(1000, 64, 1, 0);
    engine_tick(&engine, 0);
    for (uint32_t depth = 0; depth < 4; depth++) {
        cr_assert(engine_next_event(&engine, &event) && event.depth == depth &&
                  event.key != 0 && event.tokens == NULL);
    }
    cr_assert_not(engine_next_event(&engine, &event));
    engine_fini(&engine);
}

Test(chaos_engine_model, the_last_of_equal_blocks_says_so_when_it_goes)
{
    struct engine_config config = plain;
    struct engine_event event;
    uint32_t gone = 0;
    uint64_t key[8];

    config.blocks_max = 8;
    start(&config);
    (void)run(1000, 4 * BLOCK, 1);
    (void)finish(submit_cold(1000, 4 * BLOCK));
    (void)submit(2000, 8 * BLOCK, 1, engine.now_us);
    engine_tick(&engine, engine.now_us);
    while (engine_next_event(&engine, &event)) {
        if (event.kind == ENGINE_EVENT_REMOVED) { /* the older ones go first */
            cr_assert(gone < 8 && event.last == (gone >= 4));
            key[gone++] = event.key;
        }
    }
    cr_assert(gone == 8 && key[0] == key[4] && key[3] == key[7]);
    engine_fini(&engine);
}

/* Folds everything that 40 requests put out into one number. */
static uint64_t
trace(uint64_t seed, uint32_t jitter)
{
    struct engine_config config = plain;
    struct engine_out out;
    uint64_t hash = 0;

    config.step_jitter_permille = jitter;
    cr_assert_eq(engine_init(&engine, &config, 0, seed), 0);
    for (uint32_t i = 0; i < 30; i++) {
        (void)submit(100 * (i % 7), 50 + 10 * i, 5 + i, 0);
    }
    while (next(&out)) {
        hash = rng_mix(hash ^ out.at_us ^ out.token ^
                       (uint64_t)out.usage.cached_tokens << 40 ^ out.ticket);
    }
    engine_fini(&engine);
    return hash;
}

Test(chaos_engine_model, the_same_seed_gives_the_same_run)
{
    cr_assert_eq(trace(3, 200), trace(3, 200));
    cr_assert_neq(trace(3, 200), trace(4, 200));
    cr_assert_eq(trace(3, 0), trace(4, 0));
}

Test(chaos_engine_model, engines_of_different_seeds_name_blocks_differently)
{
    struct engine_event a;
    struct engine_event b;

    start(&plain);
    (void)submit(1000, 16, 1, 0);
    engine_tick(&engine, 0);
    cr_assert(engine_next_event(&engine, &a));
    engine_fini(&engine);
    cr_assert_eq(engine_init(&engine, &plain, 0, 2), 0);
    (void)submit(1000, 16, 1, 0);
    engine_tick(&engine, 0);
    cr_assert(engine_next_event(&engine, &b));
    cr_assert_neq(a.key, b.key);
    engine_fini(&engine);
}

/* Counts by kind the events until nothing is left to do. */
static void
count_events(uint32_t counts[3])
{
    struct engine_event event;
    struct engine_out out;

    do {
        while (engine_next_event(&engine, &event)) {
            counts[event.kind]++;
        }
        if (engine_deadline(&engine) != UINT64_MAX) {
            engine_tick(&engine, engine_deadline(&engine));
            must_hold();
        }
        while (engine_next_out(&engine, &out)) {
        }
    } while (engine_deadline(&engine) != UINT64_MAX || engine.events_count > 0);
}

static struct engine_config
with_cache(enum engine_cache cache)
{
    struct engine_config config = plain;

    config.cache = cache;
    return config;
}

Test(chaos_engine_model, a_prompt_in_flight_is_hit_in_vllm_and_missed_in_a_tree)
{
    for (int cache = ENGINE_CACHE_BLOCKS; cache <= ENGINE_CACHE_TREE; cache++) {
        struct engine_config config = with_cache((enum engine_cache)cache);
        start(&config);
        (void)submit(1, 100, 2, 0);
        uint64_t second = submit(1, 100, 2, 0);
        uint32_t hit = finish(second).usage.cached_tokens;
        cr_assert_eq(hit, cache == ENGINE_CACHE_BLOCKS ? 96 : 0);
        cr_assert_eq(run(1, 100, 2).usage.cached_tokens, 96);
        engine_fini(&engine);
    }
}

Test(chaos_engine_model, a_tree_has_no_block_twice)
{
    for (int cache = ENGINE_CACHE_BLOCKS; cache <= ENGINE_CACHE_TREE; cache++) {
        struct engine_config config = with_cache((enum engine_cache)cache);
        uint32_t counts[3] = {0};
        start(&config);
        /* Whole blocks: the last one is computed by both. */
        (void)submit(1, 96, 1, 0);
        count_events(counts);
        (void)submit(1, 96, 1, engine.now_us);
        count_events(counts);
        cr_assert_eq(counts[ENGINE_EVENT_STORED],
                     cache == ENGINE_CACHE_BLOCKS ? 7 : 6);
        engine_fini(&engine);
    }
}

Test(chaos_engine_model, generated_blocks_join_a_tree_when_the_request_ends)
{
    for (int cache = ENGINE_CACHE_BLOCKS; cache <= ENGINE_CACHE_TREE; cache++) {
        struct engine_config config = with_cache((enum engine_cache)cache);
        struct engine_event event;
        struct engine_out out;
        uint32_t stored = 0;
        start(&config);
        (void)submit(1, 2 * BLOCK, 2 * BLOCK + 1, 0);
        for (uint32_t i = 0; i < 2 * BLOCK; i++) {
            engine_tick(&engine, engine_deadline(&engine));
            while (engine_next_event(&engine, &event)) {
                stored++;
            }
            while (engine_next_out(&engine, &out)) {
            }
        }
        cr_assert_eq(stored, cache == ENGINE_CACHE_BLOCKS ? 3 : 2);
        uint32_t counts[3] = {0};
        count_events(counts);
        cr_assert_eq(stored + counts[ENGINE_EVENT_STORED], 4);
        engine_fini(&engine);
    }
}

/* Two prompts with two blocks in common fill 8 of 9 blocks; a third one needs
 * two more than there are. */
static uint32_t
evicted_for_two_blocks(enum engine_cache cache)
{
    struct engine_config config = with_cache(cache);
    uint32_t counts[3] = {0};
    uint32_t prompt[5 * BLOCK];
    uint64_t ticket;

    config.blocks_max = 9;
    start(&config);
    for (uint32_t fork = 0; fork < 2; fork++) {
        for (uint32_t i = 0; i < 5 * BLOCK; i++) {
            prompt[i] = i < 2 * BLOCK ? i : 1000 * (fork + 1) + i;
        }
        struct engine_request request = {.root = ROOT,
                                         .prompt = prompt,
                                         .prompt_len = 5 * BLOCK,
                                         .output_len = 1};
        cr_assert_eq(engine_submit(&engine, &request, engine.now_us, &ticket),
                     0);
        count_events(counts);
    }
    cr_assert_eq(counts[ENGINE_EVENT_STORED], 8);
    cr_assert_eq(counts[ENGINE_EVENT_REMOVED], 0);
    (void)submit(9000, 2 * BLOCK, 1, engine.now_us);
    count_events(counts);
    engine_fini(&engine);
    return counts[ENGINE_EVENT_REMOVED];
}

Test(chaos_engine_model, sglang_evicts_a_whole_leaf_and_others_block_by_block)
{
    cr_assert_eq(evicted_for_two_blocks(ENGINE_CACHE_BLOCKS), 1);
    cr_assert_eq(evicted_for_two_blocks(ENGINE_CACHE_TREE), 1);
    cr_assert_eq(evicted_for_two_blocks(ENGINE_CACHE_RADIX), 3);
}

Test(chaos_engine_model, sglang_names_the_pages_of_a_leaf_from_the_root_on)
{
    struct engine_config config = with_cache(ENGINE_CACHE_RADIX);
    struct engine_event event;
    uint64_t stored[4] = {0};
    uint32_t stores = 0;
    uint32_t removes = 0;

    config.blocks_max = 5;
    start(&config);
    (void)submit(1, 4 * BLOCK, 1, 0);
    (void)submit(9000, 4 * BLOCK, 1, 0);
    while (engine_deadline(&engine) != UINT64_MAX) {
        engine_tick(&engine, engine_deadline(&engine));
        while (engine_next_event(&engine, &event)) {
            if (event.kind == ENGINE_EVENT_REMOVED) {
                cr_assert_eq(event.key, stored[removes++]);
            } else if (stores < 4) {
                stored[stores++] = event.key;
            }
        }
    }
    cr_assert_eq(removes, 4);
    engine_fini(&engine);
}

Test(chaos_engine_model, what_a_cancelled_request_computed_joins_the_tree)
{
    struct engine_config config = with_cache(ENGINE_CACHE_RADIX);
    uint32_t counts[3] = {0};
    struct engine_out out;

    start(&config);
    uint64_t ticket = submit(1, 3 * BLOCK, 3 * BLOCK, 0);
    for (uint32_t i = 0; i <= BLOCK; i++) {
        cr_assert(next(&out));
    }
    engine_cancel(&engine, ticket, engine.now_us);
    must_hold();
    count_events(counts);
    cr_assert_eq(counts[ENGINE_EVENT_STORED], 1);
    engine_fini(&engine);
}

Test(chaos_engine_model, a_prompt_that_was_passed_on_takes_blocks_and_no_time)
{
    uint32_t prompt[100];
    uint64_t ticket;
    struct engine_out out;
    struct engine_request request = {
        .root = ROOT,
        .prompt = prompt,
        .prompt_len = 100,
        .output_len = 2,
        .passed = 99,
    };

    for (uint32_t i = 0; i < 100; i++) {
        prompt[i] = 5000 + i;
    }
    start(&plain);
    cr_assert_eq(engine_submit(&engine, &request, 0, &ticket), 0);
    cr_assert(next(&out));
    cr_assert_eq(out.kind, ENGINE_OUT_FIRST);
    cr_assert_eq(out.at_us, 8000 + 650 + 10, "the last token alone");
    cr_assert_eq(out.usage.cached_tokens, 99);
    cr_assert(next(&out));
    cr_assert(next(&out));
    cr_assert_eq(out.kind, ENGINE_OUT_END);
    cr_assert_eq(engine_cached_tokens(&engine, &request), 96);
    engine_fini(&engine);
}
