/* What a decoder needs to go on in another life, as bytes. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "index/base/rng.h"
#include "node/events/decoder.h"

struct one {
    struct decoder decoder;
    struct kv_counters counters;
    uint32_t items;
};

static struct one one;
static struct one other;

static void
new_decoder(struct one *o)
{
    const struct kv_stream_config config = {.has_replay = true,
                                            .replay_timeout_ms = 1000,
                                            .replay_rounds = 5,
                                            .probe_interval_ms = 1000,
                                            .retry_ms = 100,
                                            .pending_bytes_max = 1 << 20};

    *o = (struct one){.decoder = {.apply = {.rank = 3}, .rank = 3}};
    cr_assert_eq(kv_stream_new(&o->decoder.stream, &config, &o->counters, 1, 1),
                 0);
}

static void
setup(void)
{
    struct kv_stream_image stream = {
        .process = 0x1122334455667788,
        .first_seq = 4,
        .first_fingerprint = 99,
        .next_seq = 300,
        .complete = true,
        .unread = true,
        .fingerprints_count = KV_STREAM_FINGERPRINTS};

    new_decoder(&one);
    new_decoder(&other);
    for (uint32_t i = 0; i < KV_STREAM_FINGERPRINTS; i++) {
        stream.fingerprints[i] = rng_mix(i);
    }
    cr_assert(kv_stream_resume(one.decoder.stream, &stream));
    one.decoder.process = stream.process;
    one.decoder.gap = true;
    one.decoder.unfit_seq = 77;
    one.decoder.unfit_fingerprint = 78;
    one.decoder.apply = (struct kv_apply){
        .block_tokens = 16,
        .has_group = true,
        .group = 2,
        .has_windows = true,
        .unruled = true,
        .groups = {{KV_GROUP_WINDOW, 128, 16}, {KV_GROUP_OTHER, 0, 0}},
        .rank = 3,
        .full = KV_FULL_EVENTS,
        .is_size_proven = true,
        .lone_count = 3,
        .lone = {5, 6, 7},
        .dropped = {1, 2, 3}};
}

static void
teardown(void)
{
    kv_stream_free(one.decoder.stream);
    kv_stream_free(other.decoder.stream);
}

TestSuite(node_decoder_image, .init = setup, .fini = teardown);

static void
take(const struct decoder *decoder, struct buf *out)
{
    buf_init(out, DECODER_BYTES_MAX);
    cr_assert(decoder_image(decoder, out));
}

Test(node_decoder_image, what_comes_back_is_what_was_there)
{
    struct buf bytes;
    struct buf again;
    uint64_t seq;

    take(&one.decoder, &bytes);
    cr_assert(decoder_image_check(buf_slice(&bytes), &seq));
    cr_assert_eq(seq, 299);
    cr_assert(decoder_resume(&other.decoder, 12, buf_slice(&bytes)));
    const struct decoder *r = &other.decoder;
    cr_assert(r->has_ledger && r->ledger_stream == 12);
    cr_assert(r->gap && !r->whole);
    cr_assert_eq(r->process, one.decoder.process);
    cr_assert_eq(memcmp(&r->apply, &one.decoder.apply, sizeof r->apply), 0);
    cr_assert_eq(r->unfit_seq, 77);
    cr_assert_eq(r->unfit_fingerprint, 78);
    cr_assert_eq(kv_stream_next_seq(r->stream), 300);
    take(&other.decoder, &again);
    cr_assert(slice_equal(buf_slice(&again), buf_slice(&bytes)));
    buf_fini(&again);
    buf_fini(&bytes);
}

Test(node_decoder_image, names_carry_what_the_next_reader_needs)
{
    uint64_t words[NAMES_READER_MAX];
    struct buf bytes;
    struct kv_stream_image stream;

    one.decoder.apply.is_size_proven = false;
    uint32_t count = decoder_reader(&one.decoder, words);
    buf_init(&bytes, DECODER_BYTES_MAX);
    cr_assert(decoder_image_of(words, count, 299, rng_mix(0), &bytes));
    cr_assert(decoder_resume(&other.decoder, 12, buf_slice(&bytes)));
    const struct decoder *r = &other.decoder;
    cr_assert(r->gap && !r->whole);
    cr_assert_eq(r->process, one.decoder.process);
    cr_assert_eq(r->apply.block_tokens, 16);
    cr_assert(r->apply.has_group && r->apply.group == 2);
    cr_assert(r->apply.has_windows && r->apply.unruled);
    cr_assert_eq(memcmp(r->apply.groups, one.decoder.apply.groups,
                        sizeof r->apply.groups),
                 0);
    cr_assert_eq(r->apply.lone_count, 3);
    cr_assert_eq(r->apply.lone[2], 7);
    cr_assert_eq(r->apply.full, KV_FULL_EVENTS, "for what was dropped");
    cr_assert(kv_stream_image(r->stream, &stream));
    cr_assert_eq(stream.next_seq, 300);
    cr_assert_eq(stream.first_seq, 4);
    cr_assert_eq(stream.first_fingerprint, 99);
    cr_assert_eq(stream.fingerprints[0], rng_mix(0));
    cr_assert(stream.complete && stream.unread);
    buf_fini(&bytes);
}

/* A question waits for its turn, for minutes maybe. Batches go on meanwhile. */
Test(node_decoder_image, names_carry_it_while_a_question_waits)
{
    uint64_t before[NAMES_READER_MAX];
    uint64_t words[NAMES_READER_MAX];
    struct buf bytes;
    uint32_t count = decoder_reader(&one.decoder, before);

    cr_assert_gt(count, 0);
    kv_stream_reread(one.decoder.stream, "asked", 1, 2);
    cr_assert_eq(decoder_reader(&one.decoder, words), count);
    cr_assert_eq(memcmp(words, before, count * sizeof *words), 0);
    buf_init(&bytes, DECODER_BYTES_MAX);
    cr_assert_not(decoder_image(&one.decoder, &bytes));
    buf_fini(&bytes);
}

Test(node_decoder_image, a_reader_that_makes_no_sense_is_not_used)
{
    uint64_t words[NAMES_READER_MAX];
    struct buf bytes;
    uint32_t count = decoder_reader(&one.decoder, words);

    buf_init(&bytes, DECODER_BYTES_MAX);
    cr_assert_not(decoder_image_of(words, 7, 299, 1, &bytes));
    cr_assert_not(decoder_image_of(words, NAMES_READER_MAX, 299, 1, &bytes));
    cr_assert_not(decoder_image_of(words, count, 3, 1, &bytes));
    words[0]++;
    cr_assert_not(decoder_image_of(words, count, 299, 1, &bytes));
    cr_assert_eq(bytes.len, 0);
    buf_fini(&bytes);
}

Test(node_decoder_image, blocks_larger_than_a_shape_tells_are_not_used)
{
    uint64_t words[NAMES_READER_MAX];
    struct buf bytes;

    uint32_t count = decoder_reader(&one.decoder, words);
    words[5] = SHAPE_GRAIN_MAX + 1;
    buf_init(&bytes, DECODER_BYTES_MAX);
    cr_assert(decoder_image_of(words, count, 299, 1, &bytes));
    cr_assert_not(decoder_resume(&other.decoder, 12, buf_slice(&bytes)));
    buf_fini(&bytes);
}

Test(node_decoder_image, tokens_ahead_come_back_with_their_blocks)
{
    struct buf bytes;

    one.decoder.apply.ahead = SHAPE_PAIRS;
    take(&one.decoder, &bytes);
    cr_assert(decoder_resume(&other.decoder, 12, buf_slice(&bytes)));
    cr_assert_eq(other.decoder.apply.block_tokens, 16);
    cr_assert_eq(other.decoder.apply.ahead, SHAPE_PAIRS);
    buf_fini(&bytes);
}

Test(node_decoder_image, bytes_are_the_same_on_every_machine)
{
    struct buf bytes;

    take(&one.decoder, &bytes);
    cr_assert_eq(memcmp(bytes.ptr,
                        "\x04\0\0\0\0\0\0\0\xfb\0\0\0\0\0\0\0"
                        "\x88\x77\x66\x55\x44\x33\x22\x11",
                        24),
                 0);
    buf_fini(&bytes);
}

Test(node_decoder_image, one_of_another_version_is_not_used)
{
    struct buf bytes;
    uint64_t seq;

    take(&one.decoder, &bytes);
    bytes.ptr[0]++;
    cr_assert_not(decoder_image_check(buf_slice(&bytes), &seq));
    cr_assert_not(decoder_resume(&other.decoder, 12, buf_slice(&bytes)));
    cr_assert(other.decoder.has_ledger, "to be closed with the first epoch");
    cr_assert_eq(kv_stream_next_seq(other.decoder.stream), 0);
    buf_fini(&bytes);
}

Test(node_decoder_image, one_that_is_cut_or_longer_is_not_used)
{
    struct buf bytes;
    uint64_t seq;

    take(&one.decoder, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        char *copy = malloc(len + 1); /* so that reading beyond is seen */
        memcpy(copy, bytes.ptr, len);
        cr_assert_not(
            decoder_image_check((struct slice){.ptr = copy, .len = len}, &seq));
        free(copy);
    }
    buf_add(&bytes, "12345678", 8);
    cr_assert_not(decoder_image_check(buf_slice(&bytes), &seq));
    buf_fini(&bytes);
}

Test(node_decoder_image, noise_is_refused_or_makes_sense)
{
    struct rng rng;

    rng_init(&rng, 5);
    for (uint32_t round = 0; round < 20000; round++) {
        struct buf bytes;
        uint64_t seq;
        take(&one.decoder, &bytes);
        for (uint64_t n = 1 + rng_below(&rng, 4); n > 0; n--) {
            bytes.ptr[8 + rng_below(&rng, bytes.len - 8)] =
                (char)rng_next(&rng);
        }
        bool good = decoder_image_check(buf_slice(&bytes), &seq);
        kv_stream_free(other.decoder.stream);
        new_decoder(&other);
        bool used = decoder_resume(&other.decoder, 1, buf_slice(&bytes));
        cr_assert(good || !used);
        const char *reason = "";
        cr_assert(kv_stream_check(other.decoder.stream, &reason), "%s", reason);
        cr_assert_leq(other.decoder.apply.lone_count, KV_LONE_MAX);
        (void)kv_apply_shape(&other.decoder.apply); /* it can be told */
        buf_fini(&bytes);
    }
}
