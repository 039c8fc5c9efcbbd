/* The engine model's invariants, walked. */
#include "chaos/engine/engine_seq_internal.h"

/* Counts a list; a broken one gives a reason. */
static const char *
check_list(const struct engine *engine, uint32_t anchor, enum seq_state state,
           uint32_t count)
{
    uint64_t arrived_us = 0;
    uint32_t seen = 0;

    for (uint32_t i = engine->seqs[anchor].next; i != anchor;
         i = engine->seqs[i].next) {
        const struct engine_seq *seq = &engine->seqs[i];
        if (seen++ == count || seq->state != state) {
            return "a list holds a sequence that is not its own";
        }
        if (engine->seqs[seq->next].prev != i) {
            return "a list's links disagree";
        }
        if (seq->submitted_us < arrived_us) {
            return "not first come, first served";
        }
        arrived_us = seq->submitted_us;
    }
    return seen == count ? NULL : "a list lost a sequence";
}

static const char *
check_running(const struct engine *engine, const struct engine_seq *seq)
{
    uint64_t size = engine->config.block_tokens;
    uint32_t end = seq->computed + seq->scheduled;
    uint32_t ahead = engine->config.ahead;

    if (seq->generated >= seq->output_len) {
        return "a finished sequence still runs";
    }
    if (end > seq->prompt_len + seq->generated || end > seq_total(seq)) {
        return "more tokens are computed than known";
    }
    if (seq->blocks_held > seq->blocks_total || seq->blocks_held * size < end ||
        (!engine_has_tree(engine) && engine->slots.count == 0
             ? seq->named > end / size ||
                   seq->named < (end > ahead ? end - ahead : 0) / size
             : seq->named > seq->computed / size)) {
        return "blocks and computed tokens disagree";
    }
    if (seq->cached >= seq->prompt_len || seq->cached > seq->computed) {
        return "a hit covers the whole prompt";
    }
    for (uint32_t b = 0; b < seq->blocks_held; b++) {
        const struct engine_block *block = &engine->pool.blocks[seq->blocks[b]];
        if (block->refs == 0 || block->cached != (b < seq->named) ||
            (block->cached && block->key != seq->keys[b])) {
            return "a running sequence does not hold what it computed";
        }
    }
    return NULL;
}

/* The same of its windows. */
static const char *
check_windows(const struct engine *engine, const struct engine_seq *seq)
{
    for (uint32_t g = 0; g < engine->config.windows; g++) {
        for (uint32_t b = seq->window_from; b < seq->blocks_held; b++) {
            uint32_t slot = *seq_window_block(seq, g, b);
            const struct engine_block *block = &engine->pool.blocks[slot];
            bool named = b < seq->named && engine_windows_keep(engine, seq, b);
            if (block->refs == 0 || (named && !block->cached) ||
                (block->cached &&
                 engine->pool.more[slot].hash != seq->keys[b])) {
                return "a running sequence does not hold what is in its window";
            }
        }
    }
    return NULL;
}

/* The references that sequences hold are the pool's, and so are promises. */
static const char *
check_totals(const struct engine *engine)
{
    uint64_t refs = 0;
    uint64_t held = 0;
    uint64_t promised = 0;

    for (uint32_t slot = 0; slot < engine->pool.count; slot++) {
        refs += engine->pool.blocks[slot].refs;
    }
    for (uint32_t i = 0; i < engine->config.requests_max; i++) {
        const struct engine_seq *seq = &engine->seqs[i];
        if (seq->state == SEQ_RUNNING) {
            uint64_t in_windows = (uint64_t)engine->config.windows *
                                  (seq->blocks_held - seq->window_from);
            held += seq->blocks_held + in_windows;
            promised += (seq->blocks_total - seq->blocks_held) *
                        (1 + (uint64_t)engine->config.windows);
        }
    }
    if (refs != held) {
        return "references and running sequences disagree";
    }
    if (promised != engine->reserved_blocks ||
        promised > engine->pool.free_count) {
        return "more blocks are promised than free";
    }
    return NULL;
}

static const char *
check_states(const struct engine *engine)
{
    uint32_t idle = 0;
    const char *reason = NULL;

    for (uint32_t i = 0; i < engine->config.requests_max && reason == NULL;
         i++) {
        const struct engine_seq *seq = &engine->seqs[i];
        idle += seq->state == SEQ_IDLE;
        if ((seq->state == SEQ_IDLE) != (seq->keys == NULL)) {
            reason = "memory and state of a sequence disagree";
        } else if (seq->state == SEQ_RUNNING) {
            reason = check_running(engine, seq);
            reason = reason == NULL ? check_windows(engine, seq) : reason;
        }
    }
    if (reason == NULL && idle != engine->idle_count) {
        reason = "a place for a request got lost";
    }
    return reason;
}

bool
engine_check(const struct engine *engine, const char **reason)
{
    const char *why = NULL;

    if (!engine_blocks_check(&engine->pool, &why)) {
        *reason = why;
        return false;
    }
    why = check_states(engine);
    if (why == NULL) {
        why = check_totals(engine);
    }
    if (why == NULL) {
        why = check_list(engine, seq_waiting(engine), SEQ_WAITING,
                         engine->stats.waiting);
    }
    if (why == NULL) {
        why = check_list(engine, seq_running(engine), SEQ_RUNNING,
                         engine->stats.running);
    }
    if (why == NULL && engine->stepping && engine->wake_us == UINT64_MAX) {
        why = "a step never ends";
    }
    *reason = why;
    return why == NULL;
}
