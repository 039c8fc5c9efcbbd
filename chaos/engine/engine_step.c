/* The scheduler: what one step computes, and what it outputs at its end. */
#include "chaos/engine/engine_seq_internal.h"

#include <string.h>

#define AHEAD 8U /* keys whose places are fetched before they are looked up */

uint32_t
engine_step_outs_max(const struct engine_config *config)
{
    return 2 * config->running_max;
}

/* A chunk of n tokens touches at most n / block_tokens + 1 blocks, and each of
 * them may be stored and may have evicted another. A tree may lose all that is
 * in it, and gain as much. */
uint32_t
engine_step_events_max(const struct engine_config *config)
{
    if (config->cache != ENGINE_CACHE_BLOCKS) {
        return 2 * config->blocks_max;
    }
    uint32_t blocks =
        config->batch_tokens_max / config->block_tokens + config->running_max;
    return 2 * (blocks + 1) * (1 + config->windows);
}

/* The place of the n-th of a ring, at most size places after its head. */
static uint32_t
ring_at(uint32_t head, uint32_t n, uint32_t size)
{
    CHECK_SLOW(head < size && n <= size);
    return head + n < size ? head + n : head + n - size;
}

void
engine_push_event(struct engine *engine, const struct engine_event *event)
{
    if (engine->events == NULL) {
        return;
    }
    CHECK(engine->events_count < engine->events_size);
    uint32_t at =
        ring_at(engine->events_head, engine->events_count, engine->events_size);
    struct engine_event *slot = &engine->events[at];
    *slot = *event;
    slot->step = engine->stats.steps;
    if (engine->events_tokens == NULL) {
        slot->tokens = NULL;
    } else if (event->tokens_len != 0) {
        uint32_t *copy =
            engine->events_tokens +
            (size_t)at * (engine->config.block_tokens + engine->config.ahead);
        memcpy(copy, event->tokens,
               (event->tokens_len + engine->config.ahead) * sizeof(*copy));
        slot->tokens = copy;
    }
    engine->events_count++;
}

static void
push_out(struct engine *engine, uint32_t i, enum engine_out_kind kind,
         uint64_t at_us)
{
    CHECK(engine->outs_count < engine->outs_size);
    uint32_t at =
        ring_at(engine->outs_head, engine->outs_count, engine->outs_size);
    engine->outs[at] = (struct engine_pending){
        .ticket = seq_ticket(engine, i),
        .at_us = at_us,
        .index = engine->seqs[i].generated - 1,
        .kind = kind,
    };
    engine->outs_count++;
}

void
seq_release(struct engine *engine, uint32_t i)
{
    struct engine_seq *seq = &engine->seqs[i];

    CHECK(seq->state == SEQ_RUNNING);
    if (engine->config.cache == ENGINE_CACHE_SLOTS) {
        engine_slots_release(&engine->slots, seq->slot, seq->tokens,
                             seq->computed);
    }
    engine_windows_release(engine, seq, true);
    engine_blocks_release(&engine->pool, seq->blocks, seq->blocks_held);
    engine->reserved_blocks -=
        (seq->blocks_total - seq->blocks_held) * (1 + engine->config.windows);
    engine->stats.running--;
    seq_unlink(engine, i);
}

static void
note_evicted(struct engine *engine, uint64_t key, uint32_t group, bool last)
{
    engine->stats.evicted_blocks++;
    engine_push_event(engine,
                      &(struct engine_event){.kind = ENGINE_EVENT_REMOVED,
                                             .key = key,
                                             .group = group,
                                             .last = last});
}

static struct engine_event *
last_event(struct engine *engine, uint32_t back)
{
    CHECK(back < engine->events_count);
    return &engine->events[ring_at(engine->events_head,
                                   engine->events_count - 1 - back,
                                   engine->events_size)];
}

/* SGLang evicts the rest of the node that a taken slot was of, and names its
 * pages from the root on, the slot's last. */
static void
evict_node(struct engine *engine, uint32_t slot)
{
    uint32_t last = slot;
    uint32_t count = 1; /* the slot's own */
    uint64_t key;

    while (engine_blocks_evict_mate(&engine->pool, slot, &last, &key)) {
        note_evicted(engine, key, 0, true);
        count++;
    }
    for (uint32_t i = 0; engine->events != NULL && i < count / 2; i++) {
        struct engine_event *a = last_event(engine, i);
        struct engine_event *b = last_event(engine, count - 1 - i);
        struct engine_event swap = *a;
        *a = *b;
        *b = swap;
    }
}

void
engine_take_slot(struct engine *engine, uint32_t *slot)
{
    uint64_t evicted;

    CHECK(engine->reserved_blocks > 0);
    engine->reserved_blocks--;
    if (!engine_blocks_take(&engine->pool, slot, &evicted)) {
        return;
    }
    bool last = engine_blocks_was_last(&engine->pool, *slot);
    if (engine->pool.blocks[*slot].windowed) {
        const struct engine_block_more *more = &engine->pool.more[*slot];
        note_evicted(engine, more->hash, more->group, last);
    } else {
        note_evicted(engine, evicted, engine->config.windows, last);
    }
    if (engine->config.cache == ENGINE_CACHE_RADIX) {
        evict_node(engine, *slot);
    }
}

/* Takes a sequence's blocks up to `held`, group by group. */
static void
take_blocks(struct engine *engine, struct engine_seq *seq, uint32_t held)
{
    CHECK(held <= seq->blocks_total);
    engine_windows_take(engine, seq, held);
    while (seq->blocks_held < held) {
        engine_take_slot(engine, &seq->blocks[seq->blocks_held++]);
    }
}

void
engine_note_stored(struct engine *engine, const struct engine_seq *seq,
                   uint32_t depth, uint32_t group, bool passed_over)
{
    uint32_t size = engine->config.block_tokens;

    CHECK(depth < seq->blocks_held);
    engine->stats.stored_blocks += !passed_over;
    engine_push_event(engine, &(struct engine_event){
                                  .kind = ENGINE_EVENT_STORED,
                                  .key = seq->keys[depth],
                                  .group = group,
                                  .passed_over = passed_over,
                                  .parent = depth ? seq->keys[depth - 1] : 0,
                                  .root = seq->root,
                                  .user = seq->user,
                                  .depth = depth,
                                  .tokens_len = size,
                                  .tokens = seq->tokens + (size_t)depth * size,
                              });
}

/* The blocks up to `full` have their keys now, group by group. */
static void
name_blocks(struct engine *engine, struct engine_seq *seq, uint32_t full)
{
    engine_windows_name(engine, seq, full);
    for (uint32_t i = seq->named; i < full && i < seq->named + AHEAD; i++) {
        engine_blocks_fetch(&engine->pool, seq->keys[i]);
    }
    for (; seq->named < full; seq->named++) {
        uint32_t slot = seq->blocks[seq->named];
        if (seq->named + AHEAD < full) {
            engine_blocks_fetch(&engine->pool, seq->keys[seq->named + AHEAD]);
        }
        engine_blocks_name(&engine->pool, slot, seq->keys[seq->named]);
        engine_note_stored(engine, seq, seq->named, engine->config.windows,
                           false);
    }
}

void
seq_join(struct engine *engine, struct engine_seq *seq)
{
    uint32_t full = seq->computed / engine->config.block_tokens;
    uint32_t merged = 0;

    CHECK(seq->state == SEQ_RUNNING && full <= seq->blocks_held);
    if (!engine_has_tree(engine)) {
        return;
    }
    engine->pool.node_last++;
    for (; seq->named < full; seq->named++) {
        if (engine_blocks_join(&engine->pool, &seq->blocks[seq->named],
                               seq->keys[seq->named])) {
            engine_note_stored(engine, seq, seq->named, 0, false);
        } else {
            merged = seq->named + 1;
        }
    }
    engine_blocks_split(&engine->pool, seq->blocks, merged);
}

/* What a step computed of a prompt joins SGLang's tree chunk by chunk, and
 * TensorRT-LLM's when all of it is there. */
static bool
joins(const struct engine *engine, const struct engine_seq *seq)
{
    return engine->config.cache != ENGINE_CACHE_TREE
               ? seq->named < seq->computed / engine->config.block_tokens &&
                     seq->generated == 0
               : seq->computed == seq->prompt_len;
}

/*
 * Lets a running sequence compute up to budget of its known tokens in this
 * step. Returns how many.
 */
static uint32_t
schedule(struct engine *engine, struct engine_seq *seq, uint32_t budget)
{
    uint32_t size = engine->config.block_tokens;
    uint32_t known = seq->prompt_len + seq->generated;
    uint32_t n = known - seq->computed;

    CHECK(n > 0);
    seq->scheduled = n < budget ? n : budget;
    uint32_t end = seq->computed + seq->scheduled;
    engine_windows_release(engine, seq, false);
    take_blocks(engine, seq, (end + size - 1) / size);
    if (engine->config.cache == ENGINE_CACHE_BLOCKS) {
        name_blocks(engine, seq, seq_named(engine, seq, end));
    }
    CHECK(seq->blocks_held <= seq->blocks_total);
    return seq->scheduled;
}

/* Moves the head of the queue into the batch; false: not enough blocks. */
static bool
admit(struct engine *engine, uint32_t i, uint64_t at_us)
{
    struct engine_seq *seq = &engine->seqs[i];
    uint32_t from_free;
    uint32_t max = seq->cold ? 0 : seq_hits_max(engine, seq->prompt_len);
    uint32_t hits =
        engine_blocks_match(&engine->pool, seq->keys, max, &from_free);
    hits = engine_windows_serve(engine, seq->keys, hits);
    hits -= engine->config.recomputes && hits > 0;
    (void)engine_blocks_match(&engine->pool, seq->keys, hits, &from_free);
    from_free += engine_windows_free(engine, seq->keys, hits);
    uint32_t wanted = (seq->blocks_total - hits) * (1 + engine->config.windows);

    CHECK(engine->reserved_blocks <= engine->pool.free_count);
    if ((uint64_t)from_free + wanted >
        engine->pool.free_count - engine->reserved_blocks) {
        return false;
    }
    engine_blocks_hold(&engine->pool, seq->keys, hits, seq->blocks);
    engine_windows_hold(engine, seq, hits);
    if (engine_has_tree(engine)) {
        engine_blocks_split(&engine->pool, seq->blocks, hits);
    }
    engine->reserved_blocks += wanted;
    seq_unlink(engine, i);
    seq_link(engine, seq_running(engine), i);
    seq->state = SEQ_RUNNING;
    seq->blocks_held = hits;
    seq->named = hits;
    seq->cached = hits * engine->config.block_tokens;
    if (engine->config.cache == ENGINE_CACHE_SLOTS) {
        seq->slot = engine_slots_find(&engine->slots, seq->tokens,
                                      seq->prompt_len, &seq->cached);
        engine_slots_take(&engine->slots, seq->slot);
    }
    CHECK(seq->cached < seq->prompt_len && hits <= seq->blocks_total);
    seq->computed = seq->cached;
    seq->admitted_us = at_us;
    engine->stats.waiting--;
    CHECK(engine->stats.running < engine->config.running_max);
    engine->stats.running++;
    engine->stats.query_tokens += seq->prompt_len;
    engine->stats.hit_tokens += seq->cached;
    return true;
}

/* What one step computes. */
struct work {
    uint32_t seqs;
    uint32_t prefill_tokens;
    uint64_t context; /* tokens behind those of decoding sequences */
    uint64_t pairs;   /* of a prompt token and itself or one before it */
};

static void
add_work(struct work *work, const struct engine_seq *seq, uint32_t n)
{
    CHECK(n > 0);
    work->seqs++;
    if (seq->computed < seq->prompt_len) {
        uint32_t end = seq->computed + n;
        uint32_t from =
            seq->computed > seq->passed ? seq->computed : seq->passed;
        n = end > from ? end - from : 0;
        work->prefill_tokens += n;
        work->pairs += (uint64_t)n * from + (uint64_t)n * (n + UINT64_C(1)) / 2;
    } else {
        work->context += seq->computed;
    }
}

static uint64_t
step_duration_us(struct engine *engine, const struct work *work)
{
    const struct engine_config *c = &engine->config;
    uint64_t us = c->step_us + (uint64_t)c->step_per_seq_us * work->seqs;

    us += (uint64_t)work->prefill_tokens * 1000000 / c->prefill_tokens_per_s;
    us += (work->context * c->step_per_context_ps +
           work->pairs * c->prefill_per_pair_ps) /
          1000000;
    if (c->step_jitter_permille != 0) {
        uint64_t spread = us * c->step_jitter_permille / 1000;
        us = us - spread + rng_below(&engine->rng, 2 * spread + 1);
    }
    return us > 0 ? us : 1;
}

/* The next request in the queue, if it had arrived by then; else the
 * queue's anchor. */
static uint32_t
queue_head(const struct engine *engine, uint64_t at_us)
{
    uint32_t none = seq_waiting(engine);
    uint32_t head = engine->seqs[none].next;

    return head != none && engine->seqs[head].submitted_us <= at_us ? head
                                                                    : none;
}

void
engine_step_start(struct engine *engine, uint64_t at_us)
{
    const struct engine_config *c = &engine->config;
    uint32_t running = seq_running(engine);
    uint32_t budget = c->batch_tokens_max;
    struct work work = {.seqs = 0};
    uint32_t i = engine->seqs[running].next;

    CHECK(!engine->stepping);
    engine->step_at_us = at_us;
    while (budget > 0) {
        if (i == running) {
            i = queue_head(engine, at_us);
            if (i == seq_waiting(engine) ||
                engine->stats.running == c->running_max ||
                !admit(engine, i, at_us)) {
                break;
            }
        }
        struct engine_seq *seq = &engine->seqs[i];
        uint32_t n = schedule(engine, seq, budget);
        budget -= n;
        add_work(&work, seq, n);
        i = seq->next;
    }
    if (work.seqs > 0) {
        engine->stepping = true;
        engine->wake_us = at_us + step_duration_us(engine, &work);
        return;
    }
    /* With nothing running every block is free: only time keeps a request. */
    CHECK(queue_head(engine, at_us) == seq_waiting(engine));
    engine->wake_us =
        engine->stats.waiting > 0
            ? engine->seqs[engine->seqs[seq_waiting(engine)].next].submitted_us
            : UINT64_MAX;
}

/* A sequence whose tokens are all computed gets its next token. */
static void
yield_token(struct engine *engine, uint32_t i, uint64_t at_us)
{
    struct engine_seq *seq = &engine->seqs[i];
    bool first = seq->generated++ == 0;

    engine->stats.generation_tokens++;
    if (first) {
        seq->cached = seq->cached > seq->passed ? seq->cached : seq->passed;
        seq->first_us = at_us;
        engine->stats.prompt_tokens += seq->prompt_len;
    }
    push_out(engine, i, first ? ENGINE_OUT_FIRST : ENGINE_OUT_TOKEN, at_us);
    if (seq->generated == seq->output_len) {
        push_out(engine, i, ENGINE_OUT_END, at_us);
        seq_join(engine, seq);
        seq_release(engine, i);
        seq->state = SEQ_ENDED;
        engine->stats.finished++;
    }
}

void
engine_step_end(struct engine *engine, uint64_t at_us)
{
    uint32_t running = seq_running(engine);
    uint32_t next;

    CHECK(engine->stepping);
    engine->stepping = false;
    engine->stats.steps++;
    for (uint32_t i = engine->seqs[running].next; i != running; i = next) {
        struct engine_seq *seq = &engine->seqs[i];
        next = seq->next;
        bool worked = seq->scheduled > 0;
        seq->computed += seq->scheduled;
        seq->scheduled = 0;
        if (worked && joins(engine, seq)) {
            seq_join(engine, seq);
        }
        if (worked && seq->computed == seq->prompt_len + seq->generated) {
            yield_token(engine, i, at_us);
        }
    }
}
