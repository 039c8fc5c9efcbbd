#include <criterion/criterion.h>
#include <string.h>

#include "chaos/engine/engine_tokens_internal.h"
#include "index/base/rng.h"

static const char prose[] =
    "When a prompt arrives, the router looks for the worker that already "
    "holds the longest part of it. The rest of the prompt has to be computed, "
    "and that takes time; a good choice saves most of it. Every answer then "
    "tells how many tokens came from the cache, so that a wrong guess is seen.";

static size_t
decode(const struct engine_ids *ids, char *out)
{
    size_t len = 0;

    for (size_t i = 0; i < ids->count; i++) {
        len += engine_token_text(ids->ids[i], out + len);
    }
    return len;
}

Test(chaos_engine_tokens, decodes_to_the_same_bytes)
{
    struct engine_ids ids;
    struct rng rng;
    char text[300];
    char back[300 + ENGINE_TOKEN_BYTES_MAX];

    rng_init(&rng, 3);
    for (int round = 0; round < 2000; round++) {
        struct slice s = {text, (size_t)rng_below(&rng, sizeof(text))};
        for (size_t i = 0; i < s.len; i++) {
            uint64_t kind = rng_below(&rng, 8);
            text[i] = kind == 0   ? (char)rng_below(&rng, 256)
                      : kind == 1 ? ' '
                                  : (char)('a' + rng_below(&rng, 26));
        }
        engine_ids_init(&ids, 1000);
        engine_ids_add_text(&ids, s);
        cr_assert(!ids.failed);
        cr_assert_eq(decode(&ids, back), s.len);
        cr_assert_eq(memcmp(back, text, s.len), 0);
        engine_ids_fini(&ids);
    }
}

Test(chaos_engine_tokens, a_longer_text_keeps_all_but_two_tokens)
{
    struct engine_ids whole;
    struct engine_ids part;
    struct rng rng;
    char text[400];

    rng_init(&rng, 5);
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = "abc d{}:\"\n9Z\xc3"[rng_below(&rng, 14)];
    }
    engine_ids_init(&whole, 1000);
    engine_ids_add_text(&whole, (struct slice){text, sizeof(text)});
    for (size_t len = 0; len <= sizeof(text); len++) {
        engine_ids_init(&part, 1000);
        engine_ids_add_text(&part, (struct slice){text, len});
        for (size_t i = 0; i + 2 < part.count; i++) {
            cr_assert_eq(part.ids[i], whole.ids[i], "length %zu, token %zu",
                         len, i);
        }
        engine_ids_fini(&part);
    }
    engine_ids_fini(&whole);
}

Test(chaos_engine_tokens, english_is_about_four_bytes_per_token)
{
    struct engine_ids ids;

    engine_ids_init(&ids, 1000);
    engine_ids_add_text(&ids, slice_of(prose));
    double ratio = (double)strlen(prose) / (double)ids.count;
    cr_assert(ratio > 3.5 && ratio < 5.0, "%.2f", ratio);
    engine_ids_fini(&ids);
}

Test(chaos_engine_tokens, no_text_yields_a_special)
{
    struct engine_ids ids;
    char text[2] = {0};

    for (int first = 0; first < 256; first++) {
        for (int second = 0; second < 256; second++) {
            text[0] = (char)first;
            text[1] = (char)second;
            engine_ids_init(&ids, 8);
            engine_ids_add_text(&ids, (struct slice){text, 2});
            for (size_t i = 0; i < ids.count; i++) {
                cr_assert_geq(ids.ids[i], 256);
                cr_assert_leq(ids.ids[i], INT32_MAX);
            }
            engine_ids_fini(&ids);
        }
    }
}

Test(chaos_engine_tokens, a_reply_sent_back_has_the_ids_it_was_generated_with)
{
    struct engine_ids reply;
    struct engine_ids again;
    char text[64 * ENGINE_TOKEN_BYTES_MAX];

    for (int spaced = 0; spaced < 2; spaced++) {
        for (uint64_t hash = 0; hash < 200; hash++) {
            engine_ids_init(&reply, 64);
            engine_ids_init(&again, 64);
            engine_ids_add_reply(&reply, hash, 64, spaced == 1);
            size_t len = decode(&reply, text);
            cr_assert_eq(text[0] == ' ', spaced == 1);
            engine_ids_add_text(&again, (struct slice){text, len});
            cr_assert_eq(again.count, 64);
            cr_assert_eq(memcmp(again.ids, reply.ids, 64 * sizeof(uint32_t)),
                         0);
            engine_ids_fini(&reply);
            engine_ids_fini(&again);
        }
    }
}

Test(chaos_engine_tokens, replies_differ_by_prompt_and_not_by_run)
{
    struct engine_ids a;
    struct engine_ids b;

    engine_ids_init(&a, 32);
    engine_ids_init(&b, 32);
    engine_ids_add_reply(&a, 1, 16, false);
    engine_ids_add_reply(&b, 1, 16, false);
    cr_assert_eq(memcmp(a.ids, b.ids, 16 * sizeof(uint32_t)), 0);
    engine_ids_add_reply(&b, UINT64_C(1) << 40, 16, false);
    cr_assert_neq(memcmp(a.ids, b.ids + 16, 16 * sizeof(uint32_t)), 0);
    engine_ids_fini(&a);
    engine_ids_fini(&b);
}

Test(chaos_engine_tokens, a_full_list_says_so_and_keeps_what_it_has)
{
    struct engine_ids ids;

    engine_ids_init(&ids, 3);
    engine_ids_add_text(&ids, slice_of("one two three four"));
    cr_assert(ids.failed);
    cr_assert_eq(ids.count, 3);
    engine_ids_fini(&ids);
}

Test(chaos_engine_tokens, foreign_ids_decode_to_nothing)
{
    char out[ENGINE_TOKEN_BYTES_MAX];

    cr_assert_eq(engine_token_text(ENGINE_SPECIAL_COUNT, out), 0);
    cr_assert_eq(engine_token_text(255, out), 0);
    cr_assert_eq(engine_token_text(0x04000000, out), 0);
    cr_assert_eq(engine_token_text(0x40000020, out), 0);
    cr_assert_eq(engine_token_text(UINT32_MAX, out), 0);
}
