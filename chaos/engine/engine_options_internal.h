/*
 * The command line of kvasir-engine, by flags.h.
 *
 * Role: core. Owns: nothing; texts are those of argv. Thread: any.
 * Limits: ENGINE_SERVED_MAX, ENGINE_NAME_MAX. Errors: one line of text.
 */
#ifndef CHAOS_ENGINE_OPTIONS_INTERNAL_H
#define CHAOS_ENGINE_OPTIONS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chaos/engine/engine_make_internal.h"
#include "chaos/engine/engine_model.h"
#include "index/base/buf.h"
#include "index/base/check.h"
#include "node/node.h"

#define ENGINE_SERVED_MAX 16
#define ENGINE_RANKS_MAX  64
#define ENGINE_NAME_MAX   FLAGS_TEXT_MAX /* of a model's name, and of others */

/* Which parts of a split request it plays. */
enum engine_part {
    ENGINE_PART_OFF,
    ENGINE_PART_BOTH,
    ENGINE_PART_PREFILL,
    ENGINE_PART_DECODE,
};

struct engine_options {
    const char *host;                      /* an IP address */
    const char *name;                      /* in the log and in answers */
    const char *models[ENGINE_SERVED_MAX]; /* the base, then its adapters */
    uint32_t models_count;
    uint64_t port; /* 0: a free one */
    uint64_t blocks;
    uint64_t block_size; /* tokens */
    uint64_t running_max;
    uint64_t batch_tokens_max;
    uint64_t requests_max;
    uint64_t connections_max;
    uint64_t model_len_max; /* tokens; 0: 32768, or what the pool holds */
    uint64_t prefill_tokens_per_s;
    uint64_t seed;
    uint64_t jitter_permille;
    uint64_t window;         /* tokens of sliding windows; 0: there are none */
    uint64_t window_groups;  /* 0 without windows */
    uint64_t eagle;          /* 1: the last block found is computed again */
    uint64_t lookahead;      /* tokens behind a block that its hash covers */
    uint64_t ranks;          /* of data parallelism */
    const char *events;      /* a port, or a ZeroMQ endpoint; NULL: none */
    const char *replay;      /* likewise */
    const char *tokens;      /* folder of a model's files; NULL: none */
    const char *event_topic; /* NULL: the empty one */
    uint32_t make;           /* enum engine_make */
    uint32_t event_encoding; /* enum engine_events_encoding */
    uint32_t event_hashes;   /* 1: bytes */
    uint32_t scale_out;      /* 1: off */
    uint32_t apis;           /* 1: no Responses and no Messages */
    uint32_t split;          /* enum engine_part */
    uint64_t transfer_tokens_per_s;
    uint64_t event_slots;
    uint64_t buffer_steps; /* batches kept for replay */
    uint64_t replay_frames;
    uint64_t replay_hwm; /* messages; 0: no limit */
    double step_ms;
    double step_per_seq_ms;
    double speed; /* all of the above times are divided by it */
    bool help;
};

/* Fills options from the flags, their defaults and those of the make. 0, or FLAGS_E_BAD and one
 * line, without newline, in fault. */
int engine_options_parse(struct engine_options *options, char **argv,
                         char *fault, size_t fault_size) MUST_CHECK;

/* The manual. */
void engine_options_help(struct buf *out);

/* What the model is to be made like. */
struct engine_config engine_options_config(const struct engine_options *o);

#endif
