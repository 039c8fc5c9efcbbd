/*
 * A load: the requests of a trace or of a generated workload, and what is in
 * their prompts.
 *
 * Prompts of thousands of requests do not fit into memory as tokens, and all
 * that matters is which parts are equal. So a prompt is a list of runs. A run
 * is a piece of an endless text that a number names: equal pieces of one text
 * are the same tokens. Token ids are made from the runs when a request is sent.
 *
 * A request arrives at a time of its own, or some time after another one has
 * ended (the next turn of a conversation, whose prompt has the last answer in
 * it: an answer is a run too).
 *
 * Role: core. Owns: its arrays. Thread: one owner. Limits: struct
 * replay_limits. Errors: named outcomes, -ENOMEM.
 */
#ifndef CHAOS_REPLAY_LOAD_H
#define CHAOS_REPLAY_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"

#define REPLAY_NONE UINT32_MAX

struct replay_limits {
    uint32_t requests_max;
    uint32_t runs_max;          /* of all prompts together */
    uint32_t prompt_tokens_max; /* of one prompt */
    uint32_t output_tokens_max; /* of one answer */
};

#define REPLAY_LIMITS_DEFAULT                              \
    ((struct replay_limits){.requests_max = 1U << 20,      \
                            .runs_max = 1U << 26,          \
                            .prompt_tokens_max = 1U << 20, \
                            .output_tokens_max = 1U << 16})

struct replay_run {
    uint64_t
        text; /* its number; mixed (rng_mix()), so that texts lie far apart */
    uint32_t from; /* the first token, counted in the text */
    uint32_t tokens;
};

struct replay_request {
    uint64_t at_us; /* from the start; with `after`: from that one's end */
    uint32_t after; /* an earlier request, or REPLAY_NONE */
    uint32_t next;  /* the request that is after this one, or REPLAY_NONE */
    uint32_t runs_from;
    uint32_t runs_count;
    uint32_t prompt_tokens; /* sum of the runs, 1 or more */
    uint32_t output_tokens; /* 1 or more */
    uint64_t answer;        /* the text that the engine will generate */
    uint64_t family;        /* for rendezvous hashing: names the head of the
                               system prompt and of what the user says */
};

struct replay_load {
    struct replay_limits limits;
    struct replay_request *requests;
    uint32_t count;
    uint32_t size;
    struct replay_run *runs;
    uint32_t runs_count;
    uint32_t runs_size;
    uint32_t open_from; /* runs of the request that is being made */
};

enum {
    REPLAY_E_FULL = 1,  /* a limit on runs or requests is reached: the load
                           so far is good */
    REPLAY_E_TOO_LONG,  /* prompt or answer: this one was left out */
    REPLAY_E_EMPTY,     /* no prompt or no answer: this one was left out */
    REPLAY_E_BAD_AFTER, /* not an earlier request, or one that has a next */
};

/* An empty load. limits are copied. */
void replay_load_init(struct replay_load *load,
                      const struct replay_limits *limits);

/* Frees what it holds. */
void replay_load_fini(struct replay_load *load);

/* Appends a run to the prompt that is being made, unless it has 0 tokens. 0,
 * REPLAY_E_FULL or -ENOMEM. */
int replay_load_run(struct replay_load *load, uint64_t text, uint32_t from,
                    uint32_t tokens) MUST_CHECK;

/* The same for all runs of an earlier request's prompt, and its answer. */
int replay_load_history(struct replay_load *load, uint32_t request) MUST_CHECK;

/* Drops the prompt that is being made. */
void replay_load_drop(struct replay_load *load);

/*
 * Ends the prompt that is being made; of request all but next, runs and
 * prompt_tokens are given. 0 and *index (NULL: not wanted), or an outcome and
 * the prompt is dropped.
 */
int replay_load_add(struct replay_load *load,
                    const struct replay_request *request, uint32_t *index)
    MUST_CHECK;

/* Puts requests that wait for none in order of time (those of one moment stay
 * as they are); none may wait for another. */
void replay_load_sort(struct replay_load *load);

/* Leaves out requests that arrive after until_us, all but the first
 * requests_max, and those that wait for one that is left out. Of a request that
 * waits, only the pause counts. 0 or -ENOMEM. */
int replay_load_limit(struct replay_load *load, uint64_t until_us,
                      uint32_t requests_max) MUST_CHECK;

/* Writes the token ids of a run. */
void replay_run_tokens(const struct replay_run *run, uint32_t *out);
/* Writes those of a request's prompt. */
void replay_load_tokens(const struct replay_load *load,
                        const struct replay_request *request, uint32_t *out);

/* The longest prompt, in tokens. */
uint32_t replay_load_longest_prompt(const struct replay_load *load);
/* The same, with its answer. */
uint32_t replay_load_longest(const struct replay_load *load);

#endif
