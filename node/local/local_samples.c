/* Token ids of requests beside those of the blocks that engines store. */
#include "node/local/local_samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/counter.h"
#include "index/base/latch.h"
#include "index/index.h"

#define KEYS_MAX 2048U /* blocks of a sample that are compared */
#define NOWHERE  UINT32_MAX

enum over {
    OVER_NOT,
    OVER_JUDGED, /* the answer has ended, and is to be judged */
    OVER_DROPPED,
};

struct sample {
    _Alignas(64) struct latch free; /* guards what is below `missed` */
    struct gauge taken;
    struct gauge worker; /* its slot + 1; 0: nothing was sent */
    struct gauge over;
    struct gauge cached; /* tokens; set before `over` */
    struct gauge missed; /* 1: a run was passed by */
    uint64_t version;
    enum local_way way;
    uint64_t root;
    uint32_t generation;
    uint32_t count; /* of all the prompt's ids */
    uint32_t held;  /* tokens */
    uint64_t ended_us;
    uint32_t grain;        /* index/shape.h, as the worker has it */
    uint32_t block_tokens; /* 0: the worker has stored nothing yet */
    uint32_t blocks;       /* that it must have stored, of ids[] */
    uint32_t agreed;       /* first blocks that were stored as they are here */
    uint32_t at;           /* first difference of the run that went furthest */
    uint32_t theirs_from;
    uint32_t theirs_count;
    uint32_t theirs[2 * LOCAL_SAMPLE_AROUND];
    uint64_t keys[KEYS_MAX];
    uint32_t ids[LOCAL_SAMPLE_IDS];
};

struct local_samples {
    struct sample samples[LOCAL_SAMPLES_MAX];
};

int
local_samples_new(struct local_samples **out)
{
    /* Pages of ids that no sample ever has are never touched. */
    struct local_samples *samples = aligned_alloc(64, sizeof *samples);

    *out = samples;
    if (samples == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < LOCAL_SAMPLES_MAX; i++) {
        struct sample *s = &samples->samples[i];
        memset(s, 0, offsetof(struct sample, keys));
        latch_arm(&s->free);
    }
    return 0;
}

void
local_samples_free(struct local_samples *samples)
{
    free(samples);
}

/* Lanes */

static struct sample *
sample_of(struct local_samples *samples, uint32_t number)
{
    CHECK(number >= 1 && number <= LOCAL_SAMPLES_MAX);
    return &samples->samples[number - 1];
}

/* Nothing is known yet of what the worker stores. */
static void
begin_worker(struct sample *s)
{
    s->block_tokens = 0;
    s->blocks = 0;
    s->agreed = 0;
    s->at = NOWHERE;
    gauge_set(&s->missed, 0);
}

uint32_t
local_samples_begin(struct local_samples *samples, uint64_t model_version,
                    enum local_way way, uint64_t root, const uint32_t *ids,
                    size_t count)
{
    for (uint32_t i = 0; i < LOCAL_SAMPLES_MAX && count != 0; i++) {
        struct sample *s = &samples->samples[i];
        if (!gauge_claim(&s->taken)) {
            continue;
        }
        if (!latch_take(&s->free)) {
            gauge_set(&s->taken, 0);
            continue;
        }
        size_t kept = count < LOCAL_SAMPLE_IDS ? count : LOCAL_SAMPLE_IDS;
        s->version = model_version;
        s->way = way;
        s->root = root;
        s->count = (uint32_t)count;
        s->ended_us = 0;
        memcpy(s->ids, ids, kept * sizeof s->ids[0]);
        begin_worker(s);
        latch_arm(&s->free);
        return i + 1;
    }
    return 0;
}

void
local_samples_sent(struct local_samples *samples, uint32_t sample,
                   uint32_t worker, uint32_t generation, uint32_t held)
{
    struct sample *s = sample_of(samples, sample);

    gauge_set(&s->worker, 0);
    if (latch_take(&s->free)) {
        begin_worker(s);
        s->generation = generation;
        s->held = held;
        gauge_set(&s->worker, (int32_t)worker + 1);
        latch_arm(&s->free);
    }
}

void
local_samples_end(struct local_samples *samples, uint32_t sample, bool judged,
                  uint32_t cached)
{
    struct sample *s = sample_of(samples, sample);

    gauge_set(&s->cached, (int32_t)(cached < INT32_MAX ? cached : INT32_MAX));
    gauge_set(&s->over, judged ? OVER_JUDGED : OVER_DROPPED);
}

/* The reader of events */

bool
local_samples_want(const struct local_samples *samples, uint32_t worker)
{
    for (uint32_t i = 0; i < LOCAL_SAMPLES_MAX; i++) {
        if (gauge_read(&samples->samples[i].worker) == worker + 1) {
            return true;
        }
    }
    return false;
}

static void
learn_size(struct sample *s, uint32_t grain)
{
    /* The prompt's last token is computed anew, whatever is held. */
    size_t whole = s->count - 1;
    size_t known = whole < LOCAL_SAMPLE_IDS ? whole : LOCAL_SAMPLE_IDS;
    uint32_t blocks = shape_blocks(grain, (uint32_t)known);

    s->grain = grain;
    s->block_tokens = shape_tokens(grain);
    s->blocks = blocks < KEYS_MAX ? blocks : KEYS_MAX;
    key_chain_grain(s->root, s->ids, s->blocks, grain, s->keys);
}

/* Which of the sample's blocks the run begins at; NOWHERE: at none. */
static uint32_t
place_of(const struct sample *s, const struct local_stored *stored)
{
    if (!stored->has_parent) {
        return stored->root == s->root && s->blocks != 0 ? 0 : NOWHERE;
    }
    for (uint32_t i = 1; i < s->blocks; i++) {
        if (s->keys[i - 1] == stored->parent) {
            return i;
        }
    }
    return NOWHERE;
}

/* Of several runs that differ, the one that went along furthest is most likely
 * the sample's own. */
static void
note_difference(struct sample *s, const struct local_stored *stored,
                uint32_t first, uint32_t at)
{
    uint32_t around =
        at - first < LOCAL_SAMPLE_AROUND ? at - first : LOCAL_SAMPLE_AROUND;
    size_t left = stored->count - (at - first);
    uint32_t after =
        left < LOCAL_SAMPLE_AROUND ? (uint32_t)left : LOCAL_SAMPLE_AROUND;

    if (s->at != NOWHERE && s->at >= at) {
        return;
    }
    s->at = at;
    s->theirs_from = at - around;
    s->theirs_count = around + after;
    memcpy(s->theirs, stored->tokens + (at - around - first),
           s->theirs_count * sizeof s->theirs[0]);
}

static void
compare(struct sample *s, const struct local_stored *stored)
{
    if (s->block_tokens == 0) {
        learn_size(s, stored->grain);
    }
    if (s->grain != stored->grain) {
        return;
    }
    uint32_t block = place_of(s, stored);
    if (block == NOWHERE) {
        return;
    }
    uint32_t first = block * s->block_tokens;
    uint32_t end = s->blocks * s->block_tokens;
    uint32_t at = first;
    end = stored->count < end - first ? first + (uint32_t)stored->count : end;
    while (at < end && s->ids[at] == stored->tokens[at - first]) {
        at++;
    }
    if (at < end) {
        note_difference(s, stored, first, at);
    } else if (end / s->block_tokens > s->agreed) {
        s->agreed = end / s->block_tokens;
    }
}

void
local_samples_stored(struct local_samples *samples,
                     const struct local_stored *stored)
{
    CHECK(shape_tokens(stored->grain) != 0 &&
          stored->count % shape_tokens(stored->grain) == 0);
    for (uint32_t i = 0; i < LOCAL_SAMPLES_MAX; i++) {
        struct sample *s = &samples->samples[i];
        if (gauge_read(&s->worker) != stored->worker + 1) {
            continue;
        }
        if (!latch_take(&s->free)) {
            gauge_set(&s->missed, 1);
            continue;
        }
        if (gauge_read(&s->worker) == stored->worker + 1 &&
            s->generation == stored->generation) {
            compare(s, stored);
        }
        latch_arm(&s->free);
    }
}

/* Control */

static enum local_likeness
likeness_of(const struct sample *s)
{
    uint32_t cached = gauge_read(&s->cached);
    uint32_t held = s->held > cached ? s->held : cached;

    if (s->block_tokens == 0 || gauge_read(&s->missed) != 0 ||
        held / s->block_tokens >= s->blocks) {
        return LOCAL_UNKNOWN;
    }
    if (s->agreed >= s->blocks) {
        return LOCAL_AGREES;
    }
    held /= s->block_tokens;
    return s->at != NOWHERE && s->at / s->block_tokens >= held &&
                   s->at / s->block_tokens >= s->agreed
               ? LOCAL_DIFFERS
               : LOCAL_UNKNOWN;
}

static void
tell(const struct sample *s, struct local_verdict *verdict)
{
    *verdict = (struct local_verdict){
        .model_version = s->version, .way = s->way, .likeness = likeness_of(s)};
    if (verdict->likeness != LOCAL_DIFFERS) {
        return;
    }
    uint32_t end = s->blocks * s->block_tokens;
    end = s->at + LOCAL_SAMPLE_AROUND < end ? s->at + LOCAL_SAMPLE_AROUND : end;
    verdict->at = s->at;
    verdict->from = s->theirs_from;
    verdict->ours_count = end - s->theirs_from;
    verdict->theirs_count = s->theirs_count;
    memcpy(verdict->ours, s->ids + s->theirs_from,
           verdict->ours_count * sizeof verdict->ours[0]);
    memcpy(verdict->theirs, s->theirs, sizeof verdict->theirs);
}

/* True: *verdict is this sample's, which is free again. */
static bool
judge(struct sample *s, uint64_t now_us, struct local_verdict *verdict)
{
    enum over over = (enum over)gauge_read(&s->over);
    bool judged = false;

    if (over == OVER_NOT || !latch_take(&s->free)) {
        return false; /* or the next time */
    }
    if (over == OVER_JUDGED && s->ended_us == 0) {
        s->ended_us = now_us;
    }
    judged = over == OVER_JUDGED && now_us - s->ended_us >= LOCAL_SAMPLE_US;
    if (judged) {
        tell(s, verdict);
    }
    if (judged || over == OVER_DROPPED) {
        gauge_set(&s->worker, 0);
        gauge_set(&s->over, OVER_NOT);
    }
    latch_arm(&s->free);
    if (judged || over == OVER_DROPPED) {
        gauge_set(&s->taken, 0);
    }
    return judged;
}

bool
local_samples_judge(struct local_samples *samples, uint64_t now_us,
                    struct local_verdict *verdict)
{
    for (uint32_t i = 0; i < LOCAL_SAMPLES_MAX; i++) {
        if (judge(&samples->samples[i], now_us, verdict)) {
            return true;
        }
    }
    return false;
}
