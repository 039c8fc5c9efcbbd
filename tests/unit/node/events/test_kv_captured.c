/* What real engines published, held against the tokens that they had cached:
 * a step's prompt is looked up in what the steps before it told. */
#include <criterion/criterion.h>

#include <stdio.h>

#include "node/events/kv_apply_internal.h"
#include "node/tokens/token_media.h"
#include "tests/unit/node/events/kv_captured.h"
#include "tests/unit/node/events/kv_captured_hybrid.h"
#include "tests/unit/node/events/kv_captured_owned.h"
#include "tests/unit/node/events/kv_captured_plain.h"
#include "tests/unit/node/events/kv_captured_seen.h"
#include "tests/unit/node/events/kv_captured_sglang.h"
#include "tests/unit/node/events/kv_captured_states.h"

#define BYTES_MAX  8192
#define SIZE       32
#define BLOCKS_MAX 64

static struct kv_reader *reader;
static struct ledger *ledger;
static uint32_t stream;
static struct kv_apply apply;
static struct kv_counters counters;
static uint64_t words[KV_APPLY_WORDS(BYTES_MAX)];
static struct qsbr qsbr;
static struct mirror *mirror;
static uint32_t slot;
static uint32_t full; /* blocks that full attention held, of the last answer */

static void
begin_stream(void)
{
    cr_assert_eq(ledger_open(ledger, &stream), 0);
    apply = (struct kv_apply){.rank = 0};
    cr_assert_eq(mirror_open(mirror, &slot), 0);
}

static void
setup(void)
{
    struct ledger_limits limits = {.bytes_max = (size_t)64 << 20};

    cr_assert_eq(kv_reader_new(&reader, &KV_LIMITS_DEFAULT), 0);
    cr_assert_eq(ledger_new(&ledger, &limits), 0);
    qsbr_init(&qsbr);
    cr_assert_eq(
        mirror_new(&mirror, &(struct mirror_limits){.bytes_max = 64 << 20},
                   &qsbr),
        0);
    counters = (struct kv_counters){0};
    begin_stream();
}

static void
teardown(void)
{
    kv_reader_free(reader);
    ledger_free(ledger);
    mirror_free(mirror);
    while (qsbr_reclaim(&qsbr) > 0) {
    }
}

TestSuite(node_kv_captured, .init = setup, .fini = teardown);

static void
play(const char *hex)
{
    static uint8_t bytes[BYTES_MAX];
    size_t len = 0;
    unsigned byte;
    int outcome;

    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
        cr_assert_lt(len, sizeof(bytes));
        bytes[len++] = (uint8_t)byte;
    }
    cr_assert_eq(kv_reader_begin(reader, (struct slice){(char *)bytes, len}),
                 0);
    do {
        struct event_words out = {.words = words,
                                  .max = KV_APPLY_WORDS(BYTES_MAX)};
        outcome = kv_apply(&apply, reader, ledger, stream, &counters, &out);
        cr_assert_eq(mirror_apply(mirror, slot, words, out.count,
                                  ledger_holes(ledger, stream)),
                     0);
        if (outcome == KV_APPLY_E_CLEARED) {
            ledger_close(ledger, stream);
            mirror_close(mirror, slot);
            begin_stream();
        }
    } while (outcome == KV_APPLY_E_CLEARED);
    cr_assert_eq(outcome, 0);
}

static uint64_t
root_of(const char *adapter, const char *salt)
{
    return key_token_root(slice_of(adapter != NULL ? adapter : ""),
                          slice_of(salt != NULL ? salt : ""));
}

/* Tokens of these blocks that are held. */
static uint32_t
held(const uint64_t *keys, uint32_t blocks)
{
    struct worker_set asked = {.word = {0}};
    struct mirror_match match;

    worker_set_add(&asked, slot);
    mirror_match(mirror, &asked, keys, blocks, &match);
    full = match.best * SIZE;
    mirror_match_windows(mirror, &asked, keys, kv_apply_shape(&apply), blocks,
                         &match);
    return match.best * SIZE;
}

/* Of a prompt: one token is always computed. */
static uint32_t
predict(const struct kv_captured *step)
{
    static uint32_t tokens[BLOCKS_MAX * SIZE];
    static uint64_t keys[BLOCKS_MAX];
    uint32_t count = 0;

    for (int run = 0; run < 2; run++) {
        for (uint32_t i = 0; i < step->run[run][1]; i++) {
            cr_assert_lt(count, BLOCKS_MAX * SIZE);
            tokens[count++] = step->run[run][0] + i;
        }
    }
    uint32_t blocks = (count - 1) / SIZE;
    (void)key_chain(root_of(step->adapter, step->salt), tokens, blocks,
                    SIZE * sizeof(uint32_t), keys);
    return held(keys, blocks);
}

static uint32_t
predict_seen(const struct kv_captured_seen *step)
{
    static uint64_t keys[BLOCKS_MAX];
    struct token_media media = {.count = step->items};
    uint32_t blocks = (step->count - 1) / SIZE;

    for (uint32_t i = 0; i < step->items; i++) {
        media.item[i] = (struct token_medium){
            .identifier = key_digest(slice_of(step->item[i].name)),
            .at = step->item[i].at,
            .len = step->item[i].len};
    }
    token_media_chain(&media, root_of(NULL, step->salt), step->tokens, blocks,
                      SIZE, keys);
    return held(keys, blocks);
}

static void
play_all(const char *const *batches)
{
    for (int i = 0; i < KV_CAPTURED_BATCHES && batches[i] != NULL; i++) {
        play(batches[i]);
    }
}

#define STEPS(table) (sizeof(table) / sizeof((table)[0]))

Test(node_kv_captured, one_group_of_full_attention_is_predicted_exactly)
{
    for (size_t i = 0; i < STEPS(kv_captured_plain); i++) {
        const struct kv_captured *step = &kv_captured_plain[i];
        if (!step->after_reset) {
            cr_expect_eq(predict(step), step->cached, "step %zu: %u", i,
                         predict(step));
        }
        play_all(step->batches);
    }
    cr_assert_gt(counter_read(&counters.blocks_removed), 0);
    cr_assert_gt(counter_read(&counters.duplicates), 0);
}

Test(node_kv_captured, a_reset_shows_with_the_next_step_only)
{
    for (size_t i = 0; i < STEPS(kv_captured_plain); i++) {
        const struct kv_captured *step = &kv_captured_plain[i];
        uint32_t predicted = predict(step);
        play_all(step->batches);
        if (step->after_reset) {
            cr_assert_gt(predicted, 0);
            cr_assert_eq(step->cached, 0);
            cr_assert_eq(counter_read(&counters.cleared), 1);
        }
    }
}

/* Of SGLang, which tells of a flush at once, and has no block twice. */
Test(node_kv_captured, the_pages_of_sglang_are_predicted_exactly)
{
    for (size_t i = 0; i < STEPS(kv_captured_sglang); i++) {
        const struct kv_captured *step = &kv_captured_sglang[i];
        cr_expect_eq(predict(step), step->cached, "step %zu: %u, not %u", i,
                     predict(step), step->cached);
        play_all(step->batches);
    }
    cr_assert_gt(counter_read(&counters.blocks_removed), 0);
    cr_assert_eq(counter_read(&counters.duplicates), 0);
    cr_assert_eq(counter_read(&counters.cleared), 2, "at its start, too");
}

/* Of a hybrid model; some hits are shorter than what full attention holds. */
static void
expect_limited(const struct kv_captured *table, size_t steps)
{
    uint32_t limited = 0;

    for (size_t i = 0; i < steps; i++) {
        const struct kv_captured *step = &table[i];
        uint32_t predicted = predict(step);
        if (!step->after_reset) {
            cr_expect_eq(predicted, step->cached, "step %zu: %u, not %u", i,
                         predicted, step->cached);
            limited += full > step->cached;
        }
        play_all(step->batches);
    }
    cr_assert_gt(limited, 0, "the capture shows groups that held less");
    cr_assert_eq(counter_read(&counters.drop_group), 0);
}

Test(node_kv_captured, sliding_windows_are_predicted_exactly)
{
    expect_limited(kv_captured_hybrid, STEPS(kv_captured_hybrid));
}

Test(node_kv_captured, states_are_predicted_exactly)
{
    expect_limited(kv_captured_states, STEPS(kv_captured_states));
    cr_assert_gt(counter_read(&counters.blocks_removed), 0);
}

Test(node_kv_captured, adapters_and_salts_have_caches_of_their_own)
{
    for (size_t i = 0; i < STEPS(kv_captured_owned); i++) {
        const struct kv_captured *step = &kv_captured_owned[i];
        cr_expect_eq(predict(step), step->cached, "step %zu: %u, not %u", i,
                     predict(step), step->cached);
        play_all(step->batches);
    }
    cr_assert_gt(counter_read(&counters.blocks_removed), 0);
}

Test(node_kv_captured, pictures_are_told_apart_by_content_and_by_uuid)
{
    for (size_t i = 0; i < STEPS(kv_captured_seen); i++) {
        const struct kv_captured_seen *step = &kv_captured_seen[i];
        cr_expect_eq(predict_seen(step), step->cached, "step %zu: %u, not %u",
                     i, predict_seen(step), step->cached);
        play_all(step->batches);
    }
}
