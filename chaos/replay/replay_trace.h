/*
 * Reads traces of real services into a load.
 *
 * Four kinds, told apart by their first line; one request, or one
 * conversation, a line:
 *
 *   hashes      {"timestamp": ms, "input_length": N, "output_length": N,
 *               "hash_ids": [...]}: an id for each 512 tokens of the prompt,
 *               equal where all up to there is equal (Mooncake)
 *   lengths     TIMESTAMP,ContextTokens,GeneratedTokens: a date with a time, two
 *               numbers; no prompt shares anything (Azure)
 *   sessions    {"timestamp": us, "input": prompt, "output": text, ...}: whole
 *               prompts as text (LMCache's agent traces)
 *   dialogues   {"traj": [{"role": ..., "content": ...}, ...]}: each message of
 *               the assistant is a request, whose prompt is all before it, a
 *               pause after the one before (tau-bench). Without times:
 *               a conversation begins each REPLAY_DIALOGUE_US.
 *
 * Text is split into pieces of 64 bytes that count as 16 tokens: English on
 * today's tokenizers has 3.9 to 4.8 bytes a token. What an engine generates is
 * then not the text that the next prompt carries, so answers are never found
 * in a cache, as they would be in the hashes and in generated conversations.
 *
 * Times count from the first request's; lines need not be in order, but those
 * of dialogues.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: those of the load.
 * Errors: named outcomes, -ENOMEM.
 */
#ifndef CHAOS_REPLAY_TRACE_H
#define CHAOS_REPLAY_TRACE_H

#include <stdint.h>

#include "chaos/replay/replay_load.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define REPLAY_HASH_TOKENS  512U
#define REPLAY_PIECE_BYTES  64U
#define REPLAY_PIECE_TOKENS 16U
#define REPLAY_DIALOGUE_US  UINT64_C(2000000)
#define REPLAY_PAUSE_US     UINT64_C(3000000)
#define REPLAY_TRACE_US_MAX (UINT64_C(31) * 86400 * 1000000)

enum {
    REPLAY_TRACE_E_BAD = 16, /* fault says where and why */
};

struct replay_fault {
    uint32_t line; /* from 1 */
    char text[128];
};

/* Adds what the bytes say to an empty load. 0; else, REPLAY_TRACE_E_BAD or
 * -ENOMEM, the load is good for nothing but replay_load_fini(). A limit of the
 * load that is reached is a fault of that line. */
int replay_trace_read(struct slice bytes, struct replay_load *load,
                      struct replay_fault *fault) MUST_CHECK;

#endif
