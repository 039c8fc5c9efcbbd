/*
 * What the load client says: system prompts, user turns and pauses, all from
 * one seed.
 *
 * Nothing is stored. Every piece is derived from the seed and its place (which
 * group, which conversation, which turn), so that two runs with the same seed
 * say the same however their requests interleave. The text is plain English
 * sentences from a small stock of our own: someone reading along sees people
 * talking to an assistant, tokenizers see words, and nothing in it needs an
 * escape in JSON.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: the caller's buffers.
 */
#ifndef CHAOS_LOAD_SCRIPT_INTERNAL_H
#define CHAOS_LOAD_SCRIPT_INTERNAL_H

#include <stdint.h>

#include "index/base/buf.h"

#define LOAD_SCRIPT_THINK_MAX 10 /* longest pause, in mean pauses */

struct load_script {
    uint64_t seed;
    uint32_t groups;       /* system prompts; 0: conversations have none */
    uint32_t system_bytes; /* of a system prompt */
    uint32_t user_bytes;   /* of a user turn, on average */
    uint64_t think_us;     /* mean pause before a user turn */
};

/* Which system prompt a conversation has, uniformly; groups must not be 0. */
uint32_t load_script_group(const struct load_script *script,
                           uint32_t conversation);

/* Appends a system prompt: system_bytes, and up to the end of that sentence. */
void load_script_system(const struct load_script *script, uint32_t group,
                        struct buf *out);

/* Appends what the user says in a turn: from half to one and a half times
 * user_bytes, uniformly, and up to the end of that sentence. */
void load_script_user(const struct load_script *script, uint32_t conversation,
                      uint32_t turn, struct buf *out);

/* The pause before a turn, exponentially distributed. Of the first turn too:
 * users are then as far along at the start as at any other moment. */
uint64_t load_script_think(const struct load_script *script,
                           uint32_t conversation, uint32_t turn);

#endif
