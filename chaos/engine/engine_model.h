/*
 * The engine model: an LLM engine's scheduler, block cache and timing, without
 * a GPU, on virtual time.
 *
 * What a router can win is decided by how engines batch, queue and cache. So
 * this is vLLM's (V1) scheduler in small, and a clock:
 *
 * - Continuous batching. Time passes in steps. Each step computes one token
 *   for every running sequence that decodes, and chunks of prompts, up to
 *   batch_tokens_max tokens in all, running sequences first, in order of
 *   admission. Every sequence whose tokens are all computed at the end of a
 *   step yields its next token there.
 * - First come, first served. The longest waiting request is admitted when a
 *   sequence, some budget and enough blocks are free; if it has to wait, all
 *   behind it wait.
 * - Prefix cache. On admission the longest run of cached full blocks is taken
 *   over, but never all of the prompt: the last token is always computed, so
 *   at most (prompt_len - 1) / block_tokens blocks. A block is hittable from
 *   the moment the step that fills it is scheduled, as in vLLM, and blocks
 *   that fill up with generated tokens are cached like those of the prompt.
 * - A hybrid model's cache has groups, each with blocks of its own from the one
 *   pool. A window group gives back what its layers no longer look at, and only
 *   the last blocks of a prompt are hittable in it, since only there would
 *   another request resume. A hit is the longest prefix that all groups serve.
 * - A tree of prefixes (SGLang, TensorRT-LLM) is hittable later: a prompt's
 *   blocks join it when they were computed, generated ones when the request
 *   ends. Blocks that are there already are merged.
 * - A step takes step_us + step_per_seq_us * sequences in it, plus the time of
 *   its prompt tokens at prefill_tokens_per_s. The first two terms are the
 *   usual W + H * n (measured on A100s for 70B models: 8 ms and 0.65 ms).
 *   Attention adds to it: step_per_context_ps for each token that a decoding
 *   sequence has behind it, and prefill_per_pair_ps for each pair of a prompt
 *   token and one before it.
 *
 * - What another engine has computed of a prompt (prefill and decode apart) takes
 *   blocks and a part of a step's budget, and no time; it counts as cached.
 *
 * Departures from vLLM, on purpose:
 * - No preemption: a request is admitted only when blocks for its whole life
 *   are free or promised to nobody else. They are still taken one by one as
 *   they fill, so that eviction stays as lazy as vLLM's.
 * - A request always runs to its output_len; there is no end-of-text token.
 * - A cancelled sequence leaves at once, not at the end of the step.
 *
 * Role: core. Time and seeds are arguments, outputs are pulled. Owns: the
 * block pool, the requests with their tokens, two bounded queues.
 * Thread: one owner.
 * Limits: struct engine_config; memory of a request is one allocation, made at
 * engine_submit(). A full output or event queue stops the clock until
 * it is pulled: nothing is ever lost.
 * Errors: named outcomes, -ENOMEM.
 */
#ifndef CHAOS_ENGINE_MODEL_H
#define CHAOS_ENGINE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chaos/engine/engine_blocks_internal.h"
#include "chaos/engine/engine_slots_internal.h"
#include "index/base/check.h"
#include "index/base/rng.h"

/* How an engine keeps what it computed. */
enum engine_cache {
    ENGINE_CACHE_BLOCKS, /* vLLM: hittable when scheduled, copies are kept */
    ENGINE_CACHE_RADIX,  /* SGLang: hittable when computed, evicted by node */
    ENGINE_CACHE_TREE,   /* TensorRT-LLM: the same, evicted by block */
    ENGINE_CACHE_SLOTS,  /* llama.cpp: running_max slots, each with the tokens
                            of its last request; no blocks, no events */
};

struct engine_config {
    enum engine_cache cache;
    uint32_t blocks_max;         /* of the pool */
    uint32_t block_tokens;       /* tokens of one block, 16 in most engines */
    uint32_t running_max;        /* sequences in one batch */
    uint32_t batch_tokens_max;   /* tokens of one step */
    uint32_t requests_max;       /* running, waiting, and ended ones whose end
                                    was not pulled yet */
    uint32_t request_tokens_max; /* prompt and output of one request */
    uint32_t prefill_tokens_per_s;
    uint32_t step_us;             /* of every step */
    uint32_t step_per_seq_us;     /* and for each sequence in it */
    uint32_t step_per_context_ps; /* attention; picoseconds, 0: none */
    uint32_t prefill_per_pair_ps;
    uint32_t step_jitter_permille; /* steps vary by up to this; 0: never */
    bool events;                   /* keep block events for the caller */
    bool bare;                     /* ... without their tokens */
    uint32_t windows; /* groups of layers with sliding windows, beside full
                         attention's; ENGINE_CACHE_BLOCKS alone; 0: none */
    uint32_t window_tokens; /* how far these look back, 1 or more */
    bool recomputes;        /* of the blocks that a prompt finds the last one */
    uint32_t ahead; /* tokens behind a block that its key covers, so that it is
                       hittable once these are known; ENGINE_CACHE_BLOCKS */
};

/* What a caller submits. The arrays are copied. */
struct engine_request {
    uint64_t root;          /* key_root() of the namespace */
    uint64_t user;          /* handed back with each output */
    const uint32_t *prompt; /* token ids */
    const uint32_t *output; /* the ids it will generate; NULL: derived from
                               the prompt */
    uint32_t prompt_len;    /* 1 or more */
    uint32_t output_len;    /* 1 or more: max_tokens */
    bool cold;              /* all of it is computed, whatever is cached */
    uint32_t passed; /* tokens of the prompt that another engine has computed,
                        and whose entries are here by now; all but one at most */
};

struct engine_usage {
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
    uint32_t cached_tokens; /* of the prompt, not computed again */
    uint64_t submitted_us;
    uint64_t admitted_us; /* left the queue */
    uint64_t first_us;    /* first token */
};

enum engine_out_kind {
    ENGINE_OUT_FIRST, /* the first token */
    ENGINE_OUT_TOKEN, /* a further token */
    ENGINE_OUT_END,   /* after the last token; the ticket is spent */
};

struct engine_out {
    enum engine_out_kind kind;
    uint32_t token;            /* its id; 0 with ENGINE_OUT_END */
    uint32_t index;            /* of the token in the output */
    uint64_t ticket;           /* of engine_submit() */
    uint64_t user;             /* of the request */
    uint64_t at_us;            /* when it happened, on the model's clock */
    struct engine_usage usage; /* as far as known at this output */
};

enum engine_event_kind {
    ENGINE_EVENT_STORED,  /* a block got its key */
    ENGINE_EVENT_REMOVED, /* a block's key was evicted */
    ENGINE_EVENT_CLEARED, /* all of them were, by engine_reset_cache() */
};

/*
 * One change of the cache, in order. A publisher in vLLM's manner sends those
 * of one step as one batch and joins stored blocks that continue each other.
 */
struct engine_event {
    enum engine_event_kind kind;
    uint64_t step;       /* which step it happened in */
    uint64_t key;        /* the block's */
    uint32_t group;      /* window groups from 0 on, then full attention */
    bool passed_over;    /* stored: computed, and not hittable */
    bool last;           /* removed: no equal block was left */
    uint64_t parent;     /* stored: the key of the block before */
    uint64_t root;       /* stored: the request's namespace */
    uint64_t user;       /* stored: the request's */
    uint32_t depth;      /* stored: 0 for the first block, without parent */
    uint32_t tokens_len; /* stored: block_tokens, else 0 */
    const uint32_t *
        tokens; /* stored: its ids, and `ahead` more; valid until the next call on
                               this engine that is not const; bare: NULL */
};

/* Counters since engine_init(), and levels of now. */
struct engine_stats {
    uint64_t steps;
    uint64_t submitted;
    uint64_t refused; /* ENGINE_E_FULL and ENGINE_E_TOO_LONG */
    uint64_t finished;
    uint64_t cancelled;
    uint64_t query_tokens;      /* prompt tokens looked up in the cache */
    uint64_t hit_tokens;        /* of these, found */
    uint64_t prompt_tokens;     /* of admitted requests whose prefill ended */
    uint64_t generation_tokens; /* generated */
    uint64_t stored_blocks;     /* blocks that got a key */
    uint64_t evicted_blocks;    /* keys given up for another block */
    uint32_t running;
    uint32_t waiting;
    uint32_t held_blocks;   /* of running requests */
    uint32_t cached_blocks; /* hittable, held or not */
};

/* All zero is not an engine: engine_init() makes one. */
struct engine {
    struct engine_config config;
    struct engine_blocks pool;
    struct engine_slots slots; /* ENGINE_CACHE_SLOTS */
    struct rng rng;
    struct engine_stats stats;
    uint64_t name_seed; /* mixed into namespaces */
    uint64_t now_us;    /* of the latest call; time never goes back */
    uint64_t wake_us;   /* when engine_tick() has something to do */
    uint64_t step_at_us;
    bool stepping;            /* between the start and the end of a step */
    uint32_t reserved_blocks; /* promised to running requests, not yet taken */

    struct engine_seq *seqs; /* requests_max, and the anchors of two lists */
    uint32_t *idle;          /* stack of unused seqs */
    uint32_t idle_count;

    struct engine_pending *outs; /* ring */
    uint32_t outs_size;
    uint32_t outs_head;
    uint32_t outs_count;

    struct engine_event *events; /* ring; NULL without config.events */
    uint32_t *events_tokens; /* block_tokens and `ahead` for each of them; NULL:
                                bare */
    uint32_t events_size;
    uint32_t events_head;
    uint32_t events_count;
};

enum {
    ENGINE_E_FULL = 1, /* requests_max reached: try later */
    ENGINE_E_TOO_LONG, /* over request_tokens_max, or over the whole pool */
    ENGINE_E_BUSY,     /* blocks are in use */
};

/*
 * config is copied; each of its numbers must be 1 or more, except the times
 * and the jitter. seed: of the jitter, and of the keys: engines of different
 * seeds name the same block differently, as engine processes do.
 * 0, or -ENOMEM.
 */
int engine_init(struct engine *engine, const struct engine_config *config,
                uint64_t now_us, uint64_t seed) MUST_CHECK;

/* Frees the engine's memory; whatever it worked on is forgotten. */
void engine_fini(struct engine *engine);

/*
 * Puts a request at the end of the queue. 0 and *ticket, or ENGINE_E_FULL,
 * ENGINE_E_TOO_LONG, -ENOMEM. The engine works on it from the next
 * engine_tick().
 */
int engine_submit(struct engine *engine, const struct engine_request *request,
                  uint64_t now_us, uint64_t *ticket) MUST_CHECK;

/*
 * Takes a request back wherever it is; its blocks are free at once and no
 * output of it comes any more. A spent ticket is fine: nothing happens.
 */
void engine_cancel(struct engine *engine, uint64_t ticket, uint64_t now_us);

/* Ends and starts all steps that are due until now_us, as far as the queues
 * have room; pull both, then ask engine_deadline(). */
void engine_tick(struct engine *engine, uint64_t now_us);

/* When engine_tick() has something to do: not after now when it stopped for a
 * full queue, UINT64_MAX when there is no work. */
uint64_t engine_deadline(const struct engine *engine);

/* The next output, in order of time. False: none now. */
bool engine_next_out(struct engine *engine, struct engine_out *out);

/* The next change of the cache. False: none now. */
bool engine_next_event(struct engine *engine, struct engine_event *event);

/* What the key of a request's first block is chained to (key.h): with it a
 * prompt's keys are those of this engine's events. Engines of one seed name
 * blocks alike. */
uint64_t engine_key_root(const struct engine *engine, uint64_t root);

/* Forgets the cache. 0, or ENGINE_E_BUSY (nothing changed) while any request
 * runs or the event queue is full. */
int engine_reset_cache(struct engine *engine) MUST_CHECK;

/* How many tokens of this prompt an admission right now would find cached; not
 * of an engine with slots. */
uint32_t engine_cached_tokens(const struct engine *engine,
                              const struct engine_request *request);

/* Copies the counters and gauges. */
void engine_stats(const struct engine *engine, struct engine_stats *stats);

/* Verifies every invariant; false and *reason (static text) when broken. */
bool engine_check(const struct engine *engine, const char **reason);

#endif
