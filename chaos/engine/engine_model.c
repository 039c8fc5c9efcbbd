/* The model's calls: requests in, outputs and events out, time. */
#include "chaos/engine/engine_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/engine/engine_seq_internal.h"
#include "index/index.h"

static int
allocate(struct engine *engine)
{
    const struct engine_config *c = &engine->config;
    int r = engine_blocks_init(&engine->pool, c->blocks_max);

    if (r == 0 && c->cache == ENGINE_CACHE_SLOTS) {
        r = engine_slots_init(&engine->slots, c->running_max);
    }
    engine->outs_size = 2 * engine_step_outs_max(c);
    engine->seqs = calloc((size_t)c->requests_max + 2, sizeof(*engine->seqs));
    engine->idle = calloc(c->requests_max, sizeof(*engine->idle));
    engine->outs = calloc(engine->outs_size, sizeof(*engine->outs));
    if (r == 0 && c->events) {
        engine->events_size = 2 * engine_step_events_max(c);
        engine->events = calloc(engine->events_size, sizeof(*engine->events));
    }
    if (c->events && !c->bare) {
        engine->events_tokens =
            calloc((size_t)engine->events_size * (c->block_tokens + c->ahead),
                   sizeof(*engine->events_tokens));
    }
    if (r != 0 || engine->seqs == NULL || engine->idle == NULL ||
        engine->outs == NULL || (c->events && engine->events == NULL) ||
        (c->events && !c->bare && engine->events_tokens == NULL)) {
        return -ENOMEM;
    }
    return 0;
}

int
engine_init(struct engine *engine, const struct engine_config *config,
            uint64_t now_us, uint64_t seed)
{
    CHECK(config->blocks_max > 0 && config->block_tokens > 0);
    CHECK(config->running_max > 0 && config->running_max < 1U << 20);
    CHECK(config->batch_tokens_max > 0 && config->batch_tokens_max < 1U << 28);
    CHECK(config->requests_max > 0 && config->requests_max < 1U << 28);
    CHECK(config->prefill_tokens_per_s > 0);
    CHECK(config->step_jitter_permille <= 1000);
    CHECK(config->windows == 0 ||
          (config->cache == ENGINE_CACHE_BLOCKS && config->window_tokens > 0));
    CHECK(config->ahead == 0 || config->cache == ENGINE_CACHE_BLOCKS);
    *engine = (struct engine){
        .config = *config,
        .name_seed = rng_mix(seed),
        .now_us = now_us,
        .wake_us = UINT64_MAX,
    };
    rng_init(&engine->rng, seed);
    int r = allocate(engine);
    if (r != 0) {
        engine_fini(engine);
        return r;
    }
    uint32_t count = config->requests_max;
    for (uint32_t i = 0; i < count; i++) {
        engine->seqs[i].generation = 1;
        engine->idle[engine->idle_count++] = count - 1 - i;
    }
    for (uint32_t i = count; i < count + 2; i++) {
        engine->seqs[i].prev = i;
        engine->seqs[i].next = i;
    }
    return 0;
}

void
engine_fini(struct engine *engine)
{
    for (uint32_t i = 0;
         engine->seqs != NULL && i < engine->config.requests_max; i++) {
        free(engine->seqs[i].keys);
    }
    engine_blocks_fini(&engine->pool);
    engine_slots_fini(&engine->slots);
    free(engine->seqs);
    free(engine->idle);
    free(engine->outs);
    free(engine->events);
    free(engine->events_tokens);
    *engine = (struct engine){.seqs = NULL};
}

uint64_t
engine_key_root(const struct engine *engine, uint64_t root)
{
    return rng_mix(root ^ engine->name_seed);
}

/* The same prompt gives the same output on every engine, so no seed here. */
static void
derive_output(const struct engine_request *request, uint32_t *output)
{
    uint64_t hash = key_next(request->root, request->prompt,
                             request->prompt_len * sizeof(*request->prompt));

    for (uint32_t i = 0; i < request->output_len; i++) {
        output[i] = (uint32_t)(rng_mix(hash + i) >> 33);
    }
}

/* Keys of the first `count` blocks of a prompt. */
static void
make_keys(const struct engine *engine, uint64_t root, const uint32_t *tokens,
          size_t count, uint64_t *keys)
{
    key_chain_grain(
        engine_key_root(engine, root), tokens, count,
        shape_grain_of(engine->config.block_tokens, engine->config.ahead),
        keys);
}

/* One allocation: keys, tokens, blocks. */
static int
fill(struct engine *engine, struct engine_seq *seq,
     const struct engine_request *request)
{
    uint32_t size = engine->config.block_tokens;
    size_t tokens = (size_t)request->prompt_len + request->output_len;
    size_t keys = seq_hits_max(engine, (uint32_t)tokens);
    size_t blocks = (tokens - 1 + size - 1) / size;
    size_t slots = blocks * (1 + (size_t)engine->config.windows);

    seq->keys = malloc(keys * sizeof(*seq->keys) +
                       (tokens + slots) * sizeof(*seq->tokens));
    if (seq->keys == NULL) {
        return -ENOMEM;
    }
    seq->tokens = (uint32_t *)(seq->keys + keys);
    seq->blocks = seq->tokens + tokens;
    seq->window_blocks = seq->blocks + blocks;
    uint32_t *output = seq->tokens + request->prompt_len;
    memcpy(seq->tokens, request->prompt,
           request->prompt_len * sizeof(*seq->tokens));
    if (request->output != NULL) {
        memcpy(output, request->output,
               request->output_len * sizeof(*seq->tokens));
    } else {
        derive_output(request, output);
    }
    make_keys(engine, request->root, seq->tokens, keys, seq->keys);
    seq->blocks_total = (uint32_t)blocks;
    return 0;
}

static bool
too_long(const struct engine *engine, const struct engine_request *request)
{
    uint64_t tokens = (uint64_t)request->prompt_len + request->output_len;
    uint64_t room =
        (uint64_t)engine->config.blocks_max * engine->config.block_tokens;

    uint64_t size = engine->config.block_tokens;
    uint32_t blocks = (uint32_t)((tokens - 1 + size - 1) / size);

    if (tokens > engine->config.request_tokens_max || tokens - 1 > room) {
        return true;
    }
    return blocks * (1 + (uint64_t)engine->config.windows) >
           engine->config.blocks_max;
}

int
engine_submit(struct engine *engine, const struct engine_request *request,
              uint64_t now_us, uint64_t *ticket)
{
    CHECK(request->prompt_len > 0 && request->output_len > 0);
    CHECK(request->passed < request->prompt_len);
    CHECK(now_us >= engine->now_us);
    engine->now_us = now_us;
    if (too_long(engine, request)) {
        engine->stats.refused++;
        return ENGINE_E_TOO_LONG;
    }
    if (engine->idle_count == 0) {
        engine->stats.refused++;
        return ENGINE_E_FULL;
    }
    uint32_t i = engine->idle[engine->idle_count - 1];
    struct engine_seq *seq = &engine->seqs[i];
    *seq = (struct engine_seq){
        .generation = seq->generation,
        .state = SEQ_WAITING,
        .prompt_len = request->prompt_len,
        .cold = request->cold,
        .passed = request->passed,
        .output_len = request->output_len,
        .root = request->root,
        .user = request->user,
        .submitted_us = now_us,
    };
    int r = fill(engine, seq, request);
    if (r != 0) {
        seq->state = SEQ_IDLE;
        return r;
    }
    engine->idle_count--;
    seq_link(engine, seq_waiting(engine), i);
    engine->stats.submitted++;
    engine->stats.waiting++;
    if (engine->wake_us == UINT64_MAX) {
        engine->wake_us = now_us;
    }
    *ticket = seq_ticket(engine, i);
    CHECK(engine->wake_us != UINT64_MAX);
    return 0;
}

/* The sequence of a ticket that is not spent, or NULL. */
static struct engine_seq *
find(const struct engine *engine, uint64_t ticket)
{
    uint32_t i = (uint32_t)ticket;

    if (i >= engine->config.requests_max) {
        return NULL;
    }
    struct engine_seq *seq = &engine->seqs[i];
    return seq->state != SEQ_IDLE && seq_ticket(engine, i) == ticket ? seq
                                                                     : NULL;
}

static void
retire(struct engine *engine, struct engine_seq *seq)
{
    free(seq->keys);
    seq->keys = NULL;
    seq->state = SEQ_IDLE;
    seq->generation++;
    engine->idle[engine->idle_count++] = (uint32_t)(seq - engine->seqs);
    CHECK(engine->idle_count <= engine->config.requests_max);
}

void
engine_cancel(struct engine *engine, uint64_t ticket, uint64_t now_us)
{
    struct engine_seq *seq = find(engine, ticket);

    CHECK(now_us >= engine->now_us);
    engine->now_us = now_us;
    if (seq == NULL) {
        return;
    }
    if (seq->state == SEQ_RUNNING) {
        if (engine->events == NULL ||
            engine->events_size - engine->events_count >=
                engine_step_events_max(&engine->config) + seq->blocks_held) {
            seq_join(engine, seq);
        }
        seq_release(engine, (uint32_t)ticket);
    } else if (seq->state == SEQ_WAITING) {
        seq_unlink(engine, (uint32_t)ticket);
        engine->stats.waiting--;
    }
    engine->stats.cancelled += seq->state != SEQ_ENDED;
    retire(engine, seq);
    if (!engine->stepping &&
        engine->stats.running + engine->stats.waiting == 0) {
        engine->wake_us = UINT64_MAX;
    }
}

void
engine_tick(struct engine *engine, uint64_t now_us)
{
    CHECK(now_us >= engine->now_us);
    engine->now_us = now_us;
    while (engine->wake_us <= now_us) {
        uint64_t at_us = engine->wake_us;
        if (engine->stepping) {
            if (engine->outs_size - engine->outs_count <
                engine_step_outs_max(&engine->config)) {
                return;
            }
            engine_step_end(engine, at_us);
        }
        if (engine->events != NULL &&
            engine->events_size - engine->events_count <
                engine_step_events_max(&engine->config)) {
            return;
        }
        engine_step_start(engine, at_us);
    }
}

uint64_t
engine_deadline(const struct engine *engine)
{
    return engine->wake_us;
}

/* The head of a ring whose first was taken. An empty one begins anew, so that it
 * stays in the cache as far as it is used. */
static uint32_t
next_head(uint32_t head, uint32_t left, uint32_t size)
{
    CHECK_SLOW(head < size && left < size);
    return left == 0 || head + 1 == size ? 0 : head + 1;
}

bool
engine_next_out(struct engine *engine, struct engine_out *out)
{
    while (engine->outs_count > 0) {
        struct engine_pending p = engine->outs[engine->outs_head];
        struct engine_seq *seq = find(engine, p.ticket);
        engine->outs_count--;
        engine->outs_head =
            next_head(engine->outs_head, engine->outs_count, engine->outs_size);
        if (seq == NULL) {
            continue; /* cancelled meanwhile */
        }
        bool end = p.kind == ENGINE_OUT_END;
        CHECK(p.index < seq->output_len && p.at_us <= engine->now_us);
        *out = (struct engine_out){
            .kind = p.kind,
            .token = end ? 0 : seq->tokens[seq->prompt_len + p.index],
            .index = p.index,
            .ticket = p.ticket,
            .user = seq->user,
            .at_us = p.at_us,
            .usage = {.prompt_tokens = seq->prompt_len,
                      .completion_tokens = p.index + 1,
                      .cached_tokens = seq->cached,
                      .submitted_us = seq->submitted_us,
                      .admitted_us = seq->admitted_us,
                      .first_us = seq->first_us},
        };
        if (end) {
            retire(engine, seq);
        }
        return true;
    }
    return false;
}

bool
engine_next_event(struct engine *engine, struct engine_event *event)
{
    if (engine->events_count == 0) {
        return false;
    }
    *event = engine->events[engine->events_head];
    engine->events_count--;
    engine->events_head = next_head(engine->events_head, engine->events_count,
                                    engine->events_size);
    return true;
}

int
engine_reset_cache(struct engine *engine)
{
    if (engine->events != NULL && engine->events_count == engine->events_size) {
        return ENGINE_E_BUSY;
    }
    if (!engine_blocks_clear(&engine->pool)) {
        return ENGINE_E_BUSY;
    }
    engine_push_event(engine,
                      &(struct engine_event){.kind = ENGINE_EVENT_CLEARED});
    return 0;
}

uint32_t
engine_cached_tokens(const struct engine *engine,
                     const struct engine_request *request)
{
    uint32_t size = engine->config.block_tokens;
    uint32_t max = seq_hits_max(engine, request->prompt_len);
    uint64_t *keys = malloc(((size_t)max + 1) * sizeof(*keys));
    uint32_t unused;

    CHECK(engine->config.cache != ENGINE_CACHE_SLOTS && keys != NULL);
    make_keys(engine, request->root, request->prompt, max, keys);
    uint32_t hits = engine_blocks_match(&engine->pool, keys, max, &unused);
    hits = engine_windows_serve(engine, keys, hits);
    hits -= engine->config.recomputes && hits > 0;
    free(keys);
    CHECK(hits * size < request->prompt_len || hits == 0);
    return hits * size;
}

void
engine_stats(const struct engine *engine, struct engine_stats *stats)
{
    *stats = engine->stats;
    stats->held_blocks = engine->pool.count - engine->pool.free_count;
    stats->cached_blocks = engine->pool.cached_count;
    CHECK(stats->cached_blocks <= engine->pool.count);
}
