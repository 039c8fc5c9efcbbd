/*
 * The inside of the engine model: one request's life, shared by the calls
 * (engine_model.c) and the scheduler (engine_step.c).
 *
 * idle -> waiting -> running -> ended -> idle: an ended sequence has given its
 * blocks back and only waits for its last output to be pulled.
 *
 * Role: core, private to the model.
 */
#ifndef CHAOS_ENGINE_SEQ_INTERNAL_H
#define CHAOS_ENGINE_SEQ_INTERNAL_H

#include "chaos/engine/engine_model.h"

enum seq_state {
    SEQ_IDLE,
    SEQ_WAITING,
    SEQ_RUNNING,
    SEQ_ENDED
};

struct engine_seq {
    enum seq_state state;
    uint32_t generation; /* of this place; the upper half of the ticket */
    uint32_t prev;       /* in the list of waiting or of running */
    uint32_t next;

    uint64_t *keys;   /* of every block that will be full; owns the memory */
    uint32_t *tokens; /* prompt, then output */
    uint32_t *blocks; /* slots, blocks_held of them */
    uint32_t *window_blocks; /* by window group, blocks_total each: slots from
                                window_from on, blocks_held of them */
    uint32_t window_from;
    uint32_t prompt_len;
    bool cold;       /* the cache is not read for it */
    uint32_t passed; /* prompt tokens that take no time */
    uint32_t output_len;

    uint32_t computed;     /* tokens whose cache entries exist */
    uint32_t scheduled;    /* tokens being computed in this step */
    uint32_t generated;    /* output tokens so far */
    uint32_t cached;       /* prompt tokens taken over from the cache */
    uint32_t named;        /* blocks that have their key */
    uint32_t blocks_held;  /* taken so far */
    uint32_t blocks_total; /* when the last token is computed */
    uint32_t slot;         /* of an engine that has slots */

    uint64_t root;
    uint64_t user;
    uint64_t submitted_us;
    uint64_t admitted_us;
    uint64_t first_us;
};

/* An output that was not pulled yet; stale when its ticket is. */
struct engine_pending {
    uint64_t ticket;
    uint64_t at_us;
    uint32_t index;
    enum engine_out_kind kind;
};

/* Both lists are rings through an anchor behind the last seq. */
static inline uint32_t
seq_waiting(const struct engine *engine)
{
    return engine->config.requests_max;
}

static inline uint32_t
seq_running(const struct engine *engine)
{
    return engine->config.requests_max + 1;
}

/* Puts sequence i at the end of the list of that anchor, or takes it off the
 * list it is on. */
static inline void
seq_link(struct engine *engine, uint32_t anchor, uint32_t i)
{
    uint32_t last = engine->seqs[anchor].prev;

    engine->seqs[i].prev = last;
    engine->seqs[i].next = anchor;
    engine->seqs[last].next = i;
    engine->seqs[anchor].prev = i;
}

static inline void
seq_unlink(struct engine *engine, uint32_t i)
{
    engine->seqs[engine->seqs[i].prev].next = engine->seqs[i].next;
    engine->seqs[engine->seqs[i].next].prev = engine->seqs[i].prev;
}

/* What names the request in slot i, and no earlier or later one. */
static inline uint64_t
seq_ticket(const struct engine *engine, uint32_t i)
{
    return (uint64_t)engine->seqs[i].generation << 32 | i;
}

/* Tokens that are computed when the request has ended: all but the last. */
static inline uint32_t
seq_total(const struct engine_seq *seq)
{
    return seq->prompt_len + seq->output_len - 1;
}

/* The most prompt blocks that a request may take over from the cache. */
static inline uint32_t
seq_hits_max(const struct engine *engine, uint32_t prompt_len)
{
    uint32_t least = engine->config.ahead > 1 ? engine->config.ahead : 1;

    return prompt_len < least
               ? 0
               : (prompt_len - least) / engine->config.block_tokens;
}

/* Of so many computed tokens of a sequence the blocks that have a name: all
 * that it covers is known. */
static inline uint32_t
seq_named(const struct engine *engine, const struct engine_seq *seq,
          uint32_t computed)
{
    uint32_t known = seq->prompt_len + seq->generated;
    uint32_t most =
        known > engine->config.ahead ? known - engine->config.ahead : 0;

    return (computed < most ? computed : most) / engine->config.block_tokens;
}

/* ---- engine_windows.c ---- */

/* The slot of a block of a sequence in a window group. */
static inline uint32_t *
seq_window_block(const struct engine_seq *seq, uint32_t group, uint32_t block)
{
    return &seq->window_blocks[(size_t)group * seq->blocks_total + block];
}

/* Of a prefix that full attention serves, what the window groups serve, too. */
uint32_t engine_windows_serve(const struct engine *engine, const uint64_t *keys,
                              uint32_t depth);

/* How many of the blocks in windows that a hit of that depth takes over are
 * free now. */
uint32_t engine_windows_free(const struct engine *engine, const uint64_t *keys,
                             uint32_t hits);

/* Takes these over. */
void engine_windows_hold(struct engine *engine, struct engine_seq *seq,
                         uint32_t hits);

/* Gives back what the sequence's windows have left behind; all: everything. */
void engine_windows_release(struct engine *engine, struct engine_seq *seq,
                            bool all);

/* Takes a sequence's blocks up to `held` in all window groups. */
void engine_windows_take(struct engine *engine, struct engine_seq *seq,
                         uint32_t held);

/* The blocks up to `full` are full now. */
void engine_windows_name(struct engine *engine, struct engine_seq *seq,
                         uint32_t full);

/* Whether a block of a prompt is hittable in windows. */
bool engine_windows_keep(const struct engine *engine,
                         const struct engine_seq *seq, uint32_t block);

/* ---- engine_step.c ---- */

/* Takes a promised block. */
void engine_take_slot(struct engine *engine, uint32_t *slot);

/* Tells that a block is full; the caller sets key and group of the event. */
void engine_note_stored(struct engine *engine, const struct engine_seq *seq,
                        uint32_t depth, uint32_t group, bool passed_over);

/* Puts the full blocks that a running sequence has computed into the tree of an
 * engine that has one; there is room for their events. */
void seq_join(struct engine *engine, struct engine_seq *seq);

/* Whether what it computed is in a tree of prefixes. */
static inline bool
engine_has_tree(const struct engine *engine)
{
    return engine->config.cache == ENGINE_CACHE_RADIX ||
           engine->config.cache == ENGINE_CACHE_TREE;
}

/* Gives back the blocks of a running sequence, and what it was promised. */
void seq_release(struct engine *engine, uint32_t i);

/* Ends the step that is under way at at_us; there is room for its outputs. */
void engine_step_end(struct engine *engine, uint64_t at_us);

/* Schedules and starts a step at at_us, when there is work, and sets wake_us;
 * there is room for its events. */
void engine_step_start(struct engine *engine, uint64_t at_us);

/* Outputs and events that one step can produce at most. */
uint32_t engine_step_outs_max(const struct engine_config *config);
uint32_t engine_step_events_max(const struct engine_config *config);

/* Appends to the event queue (none without config.events). */
void engine_push_event(struct engine *engine, const struct engine_event *event);

#endif
