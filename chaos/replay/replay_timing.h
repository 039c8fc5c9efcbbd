/*
 * The engine model's times on measured hardware.
 *
 * The measurements are Vidur's (MIT; medians over the linear layers of one
 * transformer layer, for so many tokens in a batch, times the layers). The
 * model's line is
 *
 *   step = W + H * sequences + prompt tokens / rate
 *          + A * tokens behind decoding sequences
 *          + B * pairs of a prompt token and one before it
 *
 * W is the measured time of one token; H what each of 64 decoding sequences
 * adds to it; the rate is such that a step full of prompt (batch_tokens tokens)
 * takes what was measured. In between the line is above the measurement, most
 * where a small batch hides behind reading the weights: for the default +34 %
 * at 512 tokens, +6 % at 2,048.
 *
 * Attention was not measured there; A and B are worked out from the models'
 * shapes and the GPUs' data sheets. A: a decoding step reads the keys and
 * values of all tokens before, at 80 % of the memory's bandwidth (H100 3.35,
 * A100 2.04 TB/s). B: four operations for each layer and dimension, at 40 % of
 * the dense peak (990 and 312 Tflop/s). For the default, a cache full of
 * decoding sequences (307,328 tokens) adds 64 % to a step, and a prompt of
 * 8,000 tokens takes 13 % longer. Their error is that of the two shares:
 * kernels reach 60 to 90 % of the bandwidth and 30 to 60 % of the peak, so A
 * is wrong by up to a third, and B by a half.
 *
 * Left out: all-reduce between GPUs, sampling, the scheduler's own time. Real
 * engines are slower by these, all policies alike.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: none.
 */
#ifndef CHAOS_REPLAY_TIMING_H
#define CHAOS_REPLAY_TIMING_H

#include <stdint.h>

#include "chaos/engine/engine_model.h"

struct replay_timing {
    const char *name;
    uint32_t step_us;
    uint32_t step_per_seq_us;
    uint32_t prefill_tokens_per_s;
    uint32_t batch_tokens;
    uint32_t step_per_context_ps;
    uint32_t prefill_per_pair_ps;
    const char *meaning; /* one line for the manual */
};

/* The at-th timing; NULL after the last. The first is the default. */
const struct replay_timing *replay_timing_at(uint32_t at);

/* The timing of this name; NULL: there is none. */
const struct replay_timing *replay_timing_find(const char *name);

/* An engine of these times with a cache of kv_tokens. */
struct engine_config replay_timing_engine(const struct replay_timing *timing,
                                          uint32_t kv_tokens,
                                          uint32_t block_tokens);

#endif
