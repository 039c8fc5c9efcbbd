/* Ids of requests beside blocks that engines store: agreement, difference, and
 * what proves nothing. */
#include <criterion/criterion.h>
#include <string.h>

#include "index/index.h"
#include "node/local/local_samples.h"

#define ROOT   77U
#define WORKER 5U
#define BLOCK  4U
#define COUNT  22U /* five blocks, and two tokens */

static struct local_samples *samples;
static uint32_t ids[COUNT];
static uint64_t keys[COUNT / BLOCK];

static void
begin(void)
{
    cr_assert_eq(local_samples_new(&samples), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        ids[i] = 1000 + i;
    }
    (void)key_chain(ROOT, ids, COUNT / BLOCK, BLOCK * sizeof ids[0], keys);
}

static void
end(void)
{
    local_samples_free(samples);
}

TestSuite(local_samples, .init = begin, .fini = end);

static uint32_t
sent(uint32_t held)
{
    uint32_t sample =
        local_samples_begin(samples, 9, LOCAL_CHAT, ROOT, ids, COUNT);

    cr_assert_neq(sample, 0);
    local_samples_sent(samples, sample, WORKER, 1, held);
    return sample;
}

/* The worker stores `count` blocks from the first-th on; `wrong`: position of
 * another id, or COUNT. */
static void
store(uint32_t first, uint32_t count, uint32_t wrong)
{
    uint32_t tokens[COUNT];
    struct local_stored stored = {.worker = WORKER,
                                  .generation = 1,
                                  .has_parent = first != 0,
                                  .parent = first != 0 ? keys[first - 1] : 0,
                                  .root = ROOT,
                                  .tokens = tokens + first * BLOCK,
                                  .count = count * BLOCK,
                                  .grain = BLOCK};

    memcpy(tokens, ids, sizeof tokens);
    if (wrong < COUNT) {
        tokens[wrong] = 7;
    }
    local_samples_stored(samples, &stored);
}

static struct local_verdict
verdict_of(uint32_t sample, uint32_t cached)
{
    struct local_verdict verdict;

    local_samples_end(samples, sample, true, cached);
    cr_assert_not(local_samples_judge(samples, 1, &verdict));
    cr_assert_not(local_samples_judge(samples, LOCAL_SAMPLE_US, &verdict));
    cr_assert(local_samples_judge(samples, 1 + LOCAL_SAMPLE_US, &verdict));
    cr_assert_not(local_samples_judge(samples, 9 * LOCAL_SAMPLE_US, &verdict));
    cr_assert_not(local_samples_want(samples, WORKER));
    cr_assert_eq(verdict.model_version, 9);
    cr_assert_eq(verdict.way, LOCAL_CHAT);
    return verdict;
}

Test(local_samples, blocks_with_the_same_ids_agree)
{
    uint32_t sample = sent(0);

    cr_assert(local_samples_want(samples, WORKER));
    cr_assert_not(local_samples_want(samples, WORKER + 1));
    store(0, 2, COUNT);
    store(2, 3, COUNT);
    cr_assert_eq(verdict_of(sample, 0).likeness, LOCAL_AGREES);
}

Test(local_samples, blocks_that_their_worker_names_by_the_next_id_agree)
{
    uint32_t sample = sent(0);
    uint32_t grain = shape_grain_of(BLOCK, 1);
    uint64_t key = key_next_apart(ROOT, key_ahead(0, ids + BLOCK, 1), ids,
                                  BLOCK * sizeof ids[0]);
    struct local_stored stored = {.worker = WORKER,
                                  .generation = 1,
                                  .root = ROOT,
                                  .tokens = ids,
                                  .count = BLOCK,
                                  .grain = grain};

    local_samples_stored(samples, &stored);
    stored.has_parent = true;
    stored.parent = key;
    stored.tokens = ids + BLOCK;
    stored.count = COUNT / BLOCK * BLOCK - BLOCK;
    local_samples_stored(samples, &stored);
    cr_assert_eq(verdict_of(sample, 0).likeness, LOCAL_AGREES);
}

Test(local_samples, blocks_in_their_place_differ_from_the_first_other_id_on)
{
    uint32_t sample = sent(2 * BLOCK);

    store(2, 3, 14);
    struct local_verdict v = verdict_of(sample, 2 * BLOCK);
    cr_assert_eq(v.likeness, LOCAL_DIFFERS);
    cr_assert_eq(v.at, 14);
    cr_assert_eq(v.from, 8);
    cr_assert_eq(v.theirs_count, 12);
    cr_assert_eq(v.ours_count, 12);
    cr_assert_eq(v.ours[6], ids[14]);
    cr_assert_eq(v.theirs[6], 7);
    cr_assert_eq(v.theirs[7], ids[15]);
}

Test(local_samples, another_request_with_the_same_beginning_is_no_difference)
{
    uint32_t sample = sent(0);

    store(0, 2, COUNT);
    store(2, 1, 9);
    store(2, 3, COUNT);
    cr_assert_eq(verdict_of(sample, 0).likeness, LOCAL_AGREES);
}

Test(local_samples, a_chunk_that_agrees_hides_no_later_difference)
{
    uint32_t sample = sent(0);

    store(0, 2, COUNT);
    store(0, 1, 1);
    store(2, 3, 17);
    struct local_verdict v = verdict_of(sample, 0);
    cr_assert_eq(v.likeness, LOCAL_DIFFERS);
    cr_assert_eq(v.at, 17);
}

Test(local_samples, what_was_held_before_proves_nothing)
{
    uint32_t sample = sent(4 * BLOCK);

    store(0, 1, 2); /* another request's */
    cr_assert_eq(verdict_of(sample, 0).likeness, LOCAL_UNKNOWN);
    sample = sent(0);
    store(0, 1, 2);
    cr_assert_eq(verdict_of(sample, 5 * BLOCK).likeness, LOCAL_UNKNOWN);
}

Test(local_samples, silence_and_other_workers_prove_nothing)
{
    uint32_t sample = sent(0);

    cr_assert_eq(verdict_of(sample, 0).likeness, LOCAL_UNKNOWN);
    sample = sent(0);
    store(0, 5, COUNT);
    local_samples_sent(samples, sample, WORKER + 1, 1, 0); /* tried again */
    store(0, 5, 3);
    local_samples_end(samples, sample, true, 0);
    struct local_verdict v;
    cr_assert_not(local_samples_judge(samples, 1, &v));
    cr_assert(local_samples_judge(samples, 2 * LOCAL_SAMPLE_US, &v));
    cr_assert_eq(v.likeness, LOCAL_UNKNOWN);
}

Test(local_samples, places_are_bounded_and_free_again)
{
    uint32_t taken[LOCAL_SAMPLES_MAX];
    struct local_verdict v;

    for (uint32_t i = 0; i < LOCAL_SAMPLES_MAX; i++) {
        taken[i] = sent(0);
    }
    cr_assert_eq(local_samples_begin(samples, 9, LOCAL_CHAT, ROOT, ids, COUNT),
                 0);
    store(0, 5, COUNT);
    for (uint32_t i = 0; i < LOCAL_SAMPLES_MAX; i++) {
        local_samples_end(samples, taken[i], i % 2 != 0, 0);
    }
    cr_assert_not(local_samples_judge(samples, 1, &v));
    for (uint32_t i = 0; i < LOCAL_SAMPLES_MAX / 2; i++) {
        cr_assert(local_samples_judge(samples, 2 * LOCAL_SAMPLE_US, &v));
        cr_assert_eq(v.likeness, LOCAL_AGREES);
    }
    cr_assert_not(local_samples_judge(samples, 9 * LOCAL_SAMPLE_US, &v));
    (void)sent(0);
}

Test(local_samples, a_long_prompt_is_compared_as_far_as_it_is_kept)
{
    enum {
        MANY = 3 * LOCAL_SAMPLE_IDS
    };
    static uint32_t many[MANY];
    uint32_t sample =
        local_samples_begin(samples, 9, LOCAL_CHAT, ROOT, many, MANY);
    struct local_stored stored = {.worker = WORKER,
                                  .generation = 1,
                                  .root = ROOT,
                                  .tokens = many,
                                  .count = MANY,
                                  .grain = 16};

    local_samples_sent(samples, sample, WORKER, 1, 0);
    local_samples_stored(samples, &stored);
    cr_assert_eq(verdict_of(sample, 0).likeness, LOCAL_AGREES);
}
