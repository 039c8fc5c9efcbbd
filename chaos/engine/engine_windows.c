/* The window groups of a hybrid model: what they hold, and what they serve. */
#include "chaos/engine/engine_seq_internal.h"
#include "index/index.h"

/* The blocks before its end that a hit needs. */
static uint32_t
window_blocks(const struct engine_config *config)
{
    uint32_t size = config->block_tokens;

    CHECK(config->windows == 0 || config->window_tokens > 0);
    return (config->window_tokens - 1 + size - 1) / size;
}

/* Whether all window groups hold a block; adds those on the free list. */
static bool
is_held(const struct engine *engine, uint64_t key, uint32_t *free_count)
{
    for (uint32_t g = 0; g < engine->config.windows; g++) {
        uint64_t name = key_in_window(key, g);
        uint32_t is_free;
        if (engine_blocks_match(&engine->pool, &name, 1, &is_free) == 0) {
            return false;
        }
        *free_count += is_free;
    }
    return true;
}

uint32_t
engine_windows_serve(const struct engine *engine, const uint64_t *keys,
                     uint32_t depth)
{
    uint32_t window = window_blocks(&engine->config);
    uint32_t unused = 0;

    if (engine->config.windows == 0) {
        return depth;
    }
    for (uint32_t at = depth; at > 0 && depth - at < window; at--) {
        if (!is_held(engine, keys[at - 1], &unused)) {
            depth = at - 1;
        }
    }
    return depth;
}

/* The first block that a hit of so many takes over. */
static uint32_t
first_taken(const struct engine *engine, uint32_t hits)
{
    uint32_t window = window_blocks(&engine->config);

    return hits > window ? hits - window : 0;
}

uint32_t
engine_windows_free(const struct engine *engine, const uint64_t *keys,
                    uint32_t hits)
{
    uint32_t free_count = 0;

    if (engine->config.windows > 0) {
        for (uint32_t i = first_taken(engine, hits); i < hits; i++) {
            CHECK(is_held(engine, keys[i], &free_count));
        }
    }
    return free_count;
}

void
engine_windows_hold(struct engine *engine, struct engine_seq *seq,
                    uint32_t hits)
{
    if (engine->config.windows == 0) {
        return;
    }
    seq->window_from = first_taken(engine, hits);
    for (uint32_t g = 0; g < engine->config.windows; g++) {
        for (uint32_t i = seq->window_from; i < hits; i++) {
            uint64_t name = key_in_window(seq->keys[i], g);
            engine_blocks_hold(&engine->pool, &name, 1,
                               seq_window_block(seq, g, i));
        }
    }
}

void
engine_windows_release(struct engine *engine, struct engine_seq *seq, bool all)
{
    uint32_t size = engine->config.block_tokens;
    uint32_t seen = seq->computed + 1 > engine->config.window_tokens
                        ? seq->computed + 1 - engine->config.window_tokens
                        : 0;
    uint32_t to =
        all || seen / size > seq->blocks_held ? seq->blocks_held : seen / size;

    if (engine->config.windows == 0 || to <= seq->window_from) {
        return;
    }
    uint32_t count = to - seq->window_from;
    for (uint32_t g = 0; g < engine->config.windows; g++) {
        engine_blocks_release(
            &engine->pool, seq_window_block(seq, g, seq->window_from), count);
    }
    seq->window_from = to;
}

void
engine_windows_take(struct engine *engine, struct engine_seq *seq,
                    uint32_t held)
{
    CHECK(held <= seq->blocks_total);
    for (uint32_t g = 0; g < engine->config.windows; g++) {
        for (uint32_t i = seq->blocks_held; i < held; i++) {
            engine_take_slot(engine, seq_window_block(seq, g, i));
        }
    }
}

bool
engine_windows_keep(const struct engine *engine, const struct engine_seq *seq,
                    uint32_t block)
{
    uint32_t window = window_blocks(&engine->config);
    uint32_t last = (seq->prompt_len - 1) / engine->config.block_tokens;
    uint32_t whole = seq->prompt_len / engine->config.block_tokens;

    return (block < last && last - block <= window) ||
           (block < whole && whole - block <= window);
}

void
engine_windows_name(struct engine *engine, struct engine_seq *seq,
                    uint32_t full)
{
    for (uint32_t g = 0; g < engine->config.windows; g++) {
        for (uint32_t i = seq->named; i < full; i++) {
            uint32_t slot = *seq_window_block(seq, g, i);
            bool keep = engine_windows_keep(engine, seq, i);
            if (keep) {
                engine_blocks_name(&engine->pool, slot,
                                   key_in_window(seq->keys[i], g));
                engine->pool.blocks[slot].windowed = true;
                engine->pool.more[slot].group = g;
                engine->pool.more[slot].hash = seq->keys[i];
            }
            engine_note_stored(engine, seq, i, g, !keep);
        }
    }
}
