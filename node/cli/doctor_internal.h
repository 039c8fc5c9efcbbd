/*
 * What `kvasir doctor` found out about one worker, and what it says of it: what
 * works, what is missing, and how the engine is told to do it.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: the buffer's. Errors: none.
 */
#ifndef NODE_DOCTOR_INTERNAL_H
#define NODE_DOCTOR_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "node/config/config.h"
#include "node/events/kv_stream.h"
#include "node/fleet/engine_metrics.h"
#include "node/fleet/engine_models.h"
#include "node/text/usage.h"

/* How a question ended. */
struct doctor_answer {
    bool asked;
    char failure[96]; /* why there is no answer; "": there is one */
    unsigned status;
};

static inline bool
doctor_is_well(const struct doctor_answer *answer)
{
    return answer->failure[0] == '\0' && answer->status / 100 == 2;
}

/* Of all ranks. */
struct doctor_events {
    char denied[96]; /* why nothing is connected; "": it was tried */
    bool replied;    /* the replay answered */
    enum kv_stream_state state;
    uint64_t messages;
    uint64_t blocks;       /* stored */
    uint64_t dropped;      /* events that say nothing to us */
    uint32_t block_tokens; /* 0: no block was told */
    bool unruled;          /* a kind of cache whose hits cannot be told */
};

struct doctor_found {
    const struct config_worker *worker;
    const char *health_path;
    struct doctor_answer health;
    struct doctor_answer models;
    struct doctor_answer metrics;
    struct doctor_answer generation;
    struct doctor_answer renderer; /* asked unless files is not NULL */
    struct doctor_answer
        tokenizer; /* asked where the renderer did not answer */
    enum engine_kind kind;
    size_t models_count;
    char model[ENGINE_MODEL_NAME_MAX + 1]; /* the first */
    struct engine_metrics load;
    struct usage usage; /* of the second of two equal prompts */
    const char *files;  /* of the model, which this node has; NULL: none */
    struct doctor_events events;
};

/* Appends what is to be said. Returns how many things are missing. */
uint32_t doctor_say(const struct doctor_found *found, struct buf *out);

#endif
