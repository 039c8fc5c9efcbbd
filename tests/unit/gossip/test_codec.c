#include <criterion/criterion.h>
#include <string.h>

#include "gossip/codec_internal.h"

static uint8_t bytes[4096];

static struct codec_in
put(const struct event_record *head, const uint64_t *words, uint32_t count)
{
    struct codec_out out = {.bytes = bytes, .max = sizeof bytes};

    codec_put_body(&out, head, words, count, UINT64_C(0x1122334455667788), 0);
    cr_assert_not(out.failed);
    return (struct codec_in){.at = bytes, .end = bytes + out.len};
}

static const uint64_t words[] = {
    (uint64_t)2 << 32 | TIER_HOST << 8 | EVENT_STORE,
    11,
    12,
    EVENT_CLEAR,
    (uint64_t)1 << 32 | EVENT_REMOVE,
    UINT64_MAX};

Test(gossip_codec, a_body_says_what_was_put_in)
{
    struct event_record head = {.holes = 300, .block_tokens = 16};
    struct codec_body body;
    uint64_t out[6];

    cr_assert(codec_get_body(put(&head, words, 6), &body));
    cr_assert_eq(body.words_count, 6);
    cr_assert_eq(body.holes, 300);
    cr_assert_eq(body.block_tokens, 16);
    cr_assert_eq(body.fingerprint, 0x55667788);
    cr_assert(body.clears);
    codec_body_words(&body, out);
    cr_assert_arr_eq(out, words, sizeof words);
}

Test(gossip_codec, unknown_holes_stay_unknown)
{
    struct event_record head = {.holes = EVENT_HOLES_UNKNOWN};
    struct codec_body body;

    cr_assert(codec_get_body(put(&head, NULL, 0), &body));
    cr_assert_eq(body.holes, EVENT_HOLES_UNKNOWN);
    cr_assert_eq(body.words_count, 0);
    cr_assert_not(body.clears);
}

Test(gossip_codec, a_body_cut_anywhere_is_refused)
{
    struct event_record head = {.holes = 1, .block_tokens = 16};
    struct codec_in in = put(&head, words, 6);
    struct codec_body body;

    for (const uint8_t *end = in.at; end < in.end; end++) {
        cr_assert_not(
            codec_get_body((struct codec_in){.at = in.at, .end = end}, &body));
    }
}

Test(gossip_codec, fields_of_a_later_version_are_skipped)
{
    struct event_record head = {.block_tokens = 16};
    struct codec_in in = put(&head, words, 6);
    struct codec_body body;
    uint64_t out[6];

    memset(bytes + codec_left(&in), 0xee, 100);
    in.end += 100;
    cr_assert(codec_get_body(in, &body));
    codec_body_words(&body, out);
    cr_assert_arr_eq(out, words, sizeof words);
}

Test(gossip_codec, fields_of_a_later_version_are_kept_while_a_frame_has_room)
{
    static uint8_t room[CODEC_BODY_MAX + 1];
    struct event_record head = {.block_tokens = 16};
    struct codec_in in = put(&head, words, 6);
    struct codec_body body;
    size_t len = codec_left(&in);

    memcpy(room, in.at, len);
    in = (struct codec_in){.at = room, .end = room + CODEC_BODY_MAX};
    cr_assert(codec_get_body(in, &body));
    struct codec_in kept = codec_body_kept(in, &body);
    cr_assert_eq(codec_left(&kept), CODEC_BODY_MAX);
    in.end++;
    cr_assert(codec_get_body(in, &body));
    kept = codec_body_kept(in, &body);
    cr_assert_eq(codec_left(&kept), len);
    cr_assert(codec_get_body(kept, &body));
}

/* Of a body that is too long, the names stay, and what stands before them. */
Test(gossip_codec, names_are_kept_while_a_frame_has_room)
{
    static uint8_t room[2 * CODEC_BODY_MAX + 100];
    const uint32_t before[] = {0, 1000, CODEC_BODY_MAX};
    struct event_record head = {.block_tokens = 16};

    for (uint32_t i = 0; i < 3; i++) {
        struct codec_out out = {.bytes = room, .max = sizeof room};
        static uint8_t fill[CODEC_BODY_MAX];
        struct codec_body body;
        codec_put_body(&out, &head, words, 6, 1, 0);
        size_t ops = out.len;
        codec_put_field(&out, 0xee, fill, before[i]);
        codec_put_field(&out, CODEC_FIELD_NAMES, fill, 20);
        size_t named = out.len;
        codec_put_field(&out, 0xef, fill, CODEC_BODY_MAX - 100 - before[i] / 2);
        cr_assert_not(out.failed);
        struct codec_in in = {.at = room, .end = room + out.len};
        cr_assert(codec_get_body(in, &body));
        struct codec_in kept = codec_body_kept(in, &body);
        size_t most = out.len <= CODEC_BODY_MAX ? out.len : i < 2 ? named : ops;
        cr_assert_eq(codec_left(&kept), most, "%u", i);
        cr_assert(codec_get_body(kept, &body));
        cr_assert_eq(body.has_names, i < 2);
    }
}

Test(gossip_codec, what_is_understood_always_fits)
{
    static uint8_t room[CODEC_BODY_MAX + 4096];
    struct codec_out out = {.bytes = room, .max = sizeof room};
    uint8_t clear[10] = {
        0x80 | EVENT_CLEAR, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
    struct codec_body body;

    codec_put_u8(&out, 0);
    codec_put_u32(&out, 1);
    codec_put_varint(&out, CODEC_WORDS_MAX);
    for (uint32_t i = 0; i < CODEC_WORDS_MAX; i++) {
        codec_put_bytes(&out, clear, sizeof clear);
    }
    struct codec_in in = {.at = room, .end = room + sizeof room};
    cr_assert(codec_get_body(in, &body));
    struct codec_in kept = codec_body_kept(in, &body);
    cr_assert_eq(codec_left(&kept), out.len);
    cr_assert_leq(out.len, CODEC_BODY_MAX);
}

Test(gossip_codec, a_count_is_held_against_the_bytes_left)
{
    uint8_t claims[] = {0,    1,    2,   3, 4, 0x81, 0x20 /* 4,097 words */,
                        0x80, 0x80, 0x04 /* STORE of 4,096 keys */};
    struct codec_body body;

    cr_assert_not(codec_get_body(
        (struct codec_in){.at = claims, .end = claims + sizeof claims}, &body));
}

Test(gossip_codec, ops_that_do_not_exist_are_refused)
{
    uint8_t of_kind_3[] = {0, 0, 0, 0, 0, 2, 0x13, 0, 0, 0, 0, 0, 0, 0, 0};
    uint8_t clear_of_1[] = {0, 0, 0, 0, 0, 2, 0x12, 0, 0, 0, 0, 0, 0, 0, 0};
    uint8_t store_of_0[] = {0, 0, 0, 0, 0, 1, 0x00};
    struct codec_body body;

    cr_assert_not(codec_get_body(
        (struct codec_in){.at = of_kind_3, .end = of_kind_3 + 15}, &body));
    cr_assert_not(codec_get_body(
        (struct codec_in){.at = clear_of_1, .end = clear_of_1 + 15}, &body));
    cr_assert_not(codec_get_body(
        (struct codec_in){.at = store_of_0, .end = store_of_0 + 7}, &body));
}

Test(gossip_codec, varints_come_back_and_end)
{
    static const uint64_t values[] = {0,     1,     127,        128,
                                      16383, 16384, UINT32_MAX, UINT64_MAX};
    uint8_t endless[16];

    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct codec_out out = {.bytes = bytes, .max = sizeof bytes};
        codec_put_varint(&out, values[i]);
        struct codec_in in = {.at = bytes, .end = bytes + out.len};
        cr_assert_eq(codec_get_varint(&in), values[i]);
        cr_assert(!in.failed && codec_left(&in) == 0);
    }
    memset(endless, 0xff, sizeof endless);
    struct codec_in in = {.at = endless, .end = endless + sizeof endless};
    cr_assert_eq(codec_get_varint(&in), 0);
    cr_assert(in.failed);
}

Test(gossip_codec, nothing_is_written_beyond_the_end)
{
    struct codec_out out = {.bytes = bytes, .max = 9};

    memset(bytes, 0x5a, 32);
    codec_put_u64(&out, 1);
    codec_put_u64(&out, 2);
    codec_put_u8(&out, 3);
    cr_assert(out.failed);
    cr_assert_eq(out.len, 8);
    cr_assert_eq(bytes[8], 0x5a);
}
