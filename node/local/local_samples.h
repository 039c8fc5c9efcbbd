/*
 * Requests whose token ids are compared with what engines store.
 *
 * An engine's events carry the ids of each block that it stores. A sample is one
 * request that was tokenised here: its first ids, the worker it was sent to, and
 * how much of it that worker held. A run of blocks that the worker then stores
 * behind the root or behind one of the sample's own blocks is either the
 * sample's, or that of another request with the same beginning. So a run that
 * differs proves nothing until the answer has ended: by then the engine has
 * stored all blocks of the prompt, and if the sample's were among them its ids
 * are right. If none was, and others came in their place, they differ. What the
 * caller does with that is local_model_compare()'s.
 *
 * Role: core. Owns: LOCAL_SAMPLES_MAX samples. Thread: begin, sent and end by a
 * lane; stored by the reader of events; judge by control. Nobody waits: who
 * finds a sample in use passes it by, and it then says nothing. Limits: the
 * first LOCAL_SAMPLE_IDS of a prompt, LOCAL_SAMPLES_MAX prompts at a time.
 * Errors: none.
 */
#ifndef NODE_LOCAL_SAMPLES_H
#define NODE_LOCAL_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "node/local/local_model.h"

#define LOCAL_SAMPLES_MAX   8U
#define LOCAL_SAMPLE_IDS    ((size_t)16 << 10)
#define LOCAL_SAMPLE_AROUND 8U /* ids kept on either side of a difference */
#define LOCAL_SAMPLE_US \
    UINT64_C(1000000) /* after the answer, for events to come */

struct local_samples;

/* 0 and *out, the caller's to local_samples_free(), or -ENOMEM. */
int local_samples_new(struct local_samples **out) MUST_CHECK;

/* Nobody uses it any more. NULL is fine. */
void local_samples_free(struct local_samples *samples);

/* Takes a prompt's ids under the root of its namespace (key.h); copied. A
 * number for the calls below, or 0: all samples are taken. */
uint32_t local_samples_begin(struct local_samples *samples,
                             uint64_t model_version, enum local_way way,
                             uint64_t root, const uint32_t *ids, size_t count);

/* It is sent to the worker in that slot, which holds so many of its tokens as
 * far as is known. Again, to another one: the former does not count. */
void local_samples_sent(struct local_samples *samples, uint32_t sample,
                        uint32_t worker, uint32_t generation, uint32_t held);

/* The request has ended; the number is good no more. judged: by an answer to as
 * many tokens, of which the engine had `cached` (0: or did not say). */
void local_samples_end(struct local_samples *samples, uint32_t sample,
                       bool judged, uint32_t cached);

/* A run of blocks that a worker stored. */
struct local_stored {
    uint32_t worker; /* its slot in the fleet */
    uint32_t generation;
    bool has_parent;
    uint64_t parent; /* key of the block before the run, else: */
    uint64_t root;   /* of its namespace */
    const uint32_t *tokens;
    size_t count;   /* a multiple of: */
    uint32_t grain; /* index/shape.h */
};

/* Whether any sample waits for what this worker stores; a hint. */
bool local_samples_want(const struct local_samples *samples, uint32_t worker);

/* Compares it with the samples. */
void local_samples_stored(struct local_samples *samples,
                          const struct local_stored *stored);

/* What became of one sample. */
struct local_verdict {
    uint64_t model_version;
    enum local_way way;
    enum local_likeness likeness;
    /* LOCAL_DIFFERS: ids around the first difference, which is the
     * (at - from)th of each. */
    uint32_t at;
    uint32_t from;
    uint32_t ours_count;
    uint32_t theirs_count;
    uint32_t ours[2 * LOCAL_SAMPLE_AROUND];
    uint32_t theirs[2 * LOCAL_SAMPLE_AROUND];
};

/* The next sample whose answer ended LOCAL_SAMPLE_US ago, which is free again.
 * False: there is none. */
bool local_samples_judge(struct local_samples *samples, uint64_t now_us,
                         struct local_verdict *verdict) MUST_CHECK;

#endif
