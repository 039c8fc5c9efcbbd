/*
 * The slots of llama.cpp's server: each holds the tokens of the last request
 * that ran in it, and a request takes over what its prompt has in common with
 * them, token by token.
 *
 * A request goes to the idle slot whose tokens have the longest beginning in
 * common with its prompt, if that is a tenth of the prompt; otherwise to the one
 * that is idle for longest. What the slot held beyond that is lost.
 *
 * Departure: llama.cpp also keeps what slots lose in host memory
 * (--cache-ram), which is not modelled: this is it with --cache-ram 0.
 *
 * Role: core. Owns: the slots' tokens. Thread: one owner. Errors: -ENOMEM at
 * engine_slots_init(); a slot whose tokens find no memory is empty.
 */
#ifndef CHAOS_ENGINE_SLOTS_INTERNAL_H
#define CHAOS_ENGINE_SLOTS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"

struct engine_slot {
    uint32_t *tokens;
    uint32_t len;
    bool busy;
    uint64_t idle_since; /* by a count of releases; 0: it was never used */
};

struct engine_slots {
    struct engine_slot *slots;
    uint32_t count; /* 0: none */
    uint64_t releases;
};

/* 0, or -ENOMEM. */
int engine_slots_init(struct engine_slots *slots, uint32_t count) MUST_CHECK;

void engine_slots_fini(struct engine_slots *slots);

/* The idle slot (there must be one) for this prompt, and in *cached how many of
 * its tokens are there, never all of them. Changes nothing. */
uint32_t engine_slots_find(const struct engine_slots *slots,
                           const uint32_t *prompt, uint32_t prompt_len,
                           uint32_t *cached);

/* A request begins in an idle slot. */
void engine_slots_take(struct engine_slots *slots, uint32_t slot);

/* It ended there: its tokens stay. */
void engine_slots_release(struct engine_slots *slots, uint32_t slot,
                          const uint32_t *tokens, uint32_t len);

#endif
