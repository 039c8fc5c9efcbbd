/* Keys of prompts with pictures, against what a real engine published. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "index/index.h"
#include "node/tokens/token_media.h"
#include "tests/unit/node/events/kv_reader_rig.h"

#define ROOT  UINT64_C(7)
#define BLOCK 32U

/* vLLM 0.32.0 with a LLaVA of random numbers, --enable-scale-out: what it
 * published for a prompt of 150 tokens with one picture, then for one of 251
 * tokens with that picture and another behind it, which goes on below the second
 * block of the first. */
#define ONE_PICTURE                                                          \
    "93cb41dac0f07c5dd9e3918ba474797065ab426c6f636b53746f726564ac626c6f636b" \
    "5f68617368657394cf6c24c4e9ae7acb28cf6db46db1a7b5df1ccf7b89c38b4a383f1d" \
    "cf677a6b2ffaf661c5b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f" \
    "696473dc008002cccb0404040404040404040404040404040404040404040404040404" \
    "0404040404040404040404040404040404040404040404040404040404040404040404" \
    "040404cccb3053534fcd017fcd03531ecd039a53534fcd017fcd03531ecd039a53534f" \
    "cd017fcd03531ecd039a53534fcd017fcd03531ecd039a53534fcd017fcd03531ecd03" \
    "9a53534fcd017fcd03531ecce1cccbcd011fcd010ecd014ecd010f4c5dcce1cd011fcd" \
    "010ecd014ecd010f4c5dcce1cd011fcd010ecd014eaa626c6f636b5f73697a6520a76c" \
    "6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa6578747261" \
    "5f6b657973949192d94062306130333664353730663333663730316337616362626165" \
    "3132363564663033323630653332383262303835623562376663353934656362393663" \
    "37663937029192d9406230613033366435373066333366373031633761636262616531" \
    "3236356466303332363065333238326230383562356237666335393465636239366337" \
    "663937e29192d940623061303336643537306633336637303163376163626261653132" \
    "3635646630333236306533323832623038356235623766633539346563623936633766" \
    "3937d0c2c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64" \
    "ae66756c6c5f617474656e74696f6e00"
#define TWO_PICTURES                                                         \
    "93cb41dac0f07c8a74be918ba474797065ab426c6f636b53746f726564ac626c6f636b" \
    "5f68617368657395cfb9b62ec6db4b7be1cf52eadc4fd678f616cfbb578a7d1d33a648" \
    "cf2e3681a3e87f363dcf2d17933c79b57a2bb1706172656e745f626c6f636b5f686173" \
    "68cf6db46db1a7b5df1ca9746f6b656e5f696473dc00a00404cccb0404040404040404" \
    "0404040404040404040404040404040404040404040404040404040404040404040404" \
    "040404040404040404040404040404040404040404cccb3053534fcd017fcd03531ecd" \
    "039a53534fcd017fcd03531ecd039a53534fcd017fcd03531ecd039a53534fcd017fcd" \
    "03531ecd039a53534fcd017fcd03531ecd039a53534fcd017fcd03531ecce1cccbcd01" \
    "1fcd010ecd014ecd010f4c5dcce1cd011fcd010ecd014ecd010f4c5dcce1cd011fcd01" \
    "0ecd014ecd010f4c5dcce1cd011fcd010ecd014ecd010f4c5dcce1cd011fcd010ecd01" \
    "4ecd010f4c5dcce1cccbcd011fcd010ecd014ecd010f4c5dcce1cd011fcd010ecd014e" \
    "cd010f4caa626c6f636b5f73697a6520a76c6f72615f6964c0a66d656469756da34750" \
    "55a96c6f72615f6e616d65c0aa65787472615f6b657973959292d94062306130333664" \
    "3537306633336637303163376163626261653132363564663033323630653332383262" \
    "30383562356237666335393465636239366337663937d0c292d9406637306466356530" \
    "3139653137636264636130396234383965383861663765306434336138353738333339" \
    "636333303035356136363763663763646466313832039192d940663730646635653031" \
    "3965313763626463613039623438396538386166376530643433613835373833333963" \
    "6333303035356136363763663763646466313832e39192d94066373064663565303139" \
    "6531376362646361303962343839653838616637653064343361383537383333396363" \
    "33303035356136363763663763646466313832d0c3c0c0a967726f75705f69647800b2" \
    "6b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e00"

/* What its renderer answered about the second. */
static const char rendered[] =
    "{\"request_id\": \"r\", \"token_ids\": [2, 203], \"token_offsets\": null, "
    "\"fea"
    "tures\": {\"mm_hashes\": {\"image\": "
    "[\"b0a036d570f33f701c7acbbae1265df03260"
    "e3282b085b5b7fc594ecb96c7f97\", \"f70df5e019e17cbdca09b489e88af7e0d43a85"
    "78339cc30055a667cf7cddf182\"]}, \"mm_placeholders\": {\"image\": "
    "[{\"offset\""
    ": 2, \"length\": 64}, {\"offset\": 67, \"length\": 64}]}, "
    "\"kwargs_data\": nul"
    "l, \"mm_metadata\": null}, \"model\": \"tiny\"}";

TestSuite(node_token_media, .init = setup, .fini = teardown);

static struct token_media media;

/* Adds the blocks of the event in these bytes, the first `count` at most, to
 * the prompt: tokens, and keys as its extra keys set them apart. */
static uint32_t
take(const char *hex, uint32_t count, uint64_t parent, uint32_t *tokens,
     uint64_t *keys)
{
    struct kv_apart apart;

    begin_hex(hex);
    cr_assert_eq(kv_reader_next(reader, &event, &fault, NULL), 0);
    cr_assert_eq(event.block_tokens, BLOCK);
    cr_assert_eq(kv_reader_apart(reader, &event, &apart, &fault), 0);
    cr_assert(apart.media);
    for (uint32_t i = 0; i < event.hashes_count && i < count; i++) {
        memcpy(tokens + (size_t)i * BLOCK, event.tokens + (size_t)i * BLOCK,
               BLOCK * sizeof(*tokens));
        parent =
            key_next_apart(parent, apart.extras[i], tokens + (size_t)i * BLOCK,
                           BLOCK * sizeof(*tokens));
        keys[i] = parent;
    }
    return event.hashes_count;
}

Test(node_token_media, keys_are_those_of_a_real_engines_events)
{
    uint32_t tokens[7 * BLOCK];
    uint64_t told[7];
    uint64_t keys[7];

    (void)take(ONE_PICTURE, 2, ROOT, tokens, told);
    cr_assert_eq(take(TWO_PICTURES, 5, told[1], tokens + 2 * BLOCK, told + 2),
                 5);
    cr_assert_eq(token_media_read(&media, slice_of(rendered)), 0);
    cr_assert_eq(media.count, 2);
    token_media_chain(&media, ROOT, tokens, 7, BLOCK, keys);
    cr_assert_arr_eq(keys, told, sizeof(keys));
    media.item[1].identifier++; /* another picture */
    token_media_chain(&media, ROOT, tokens, 7, BLOCK, keys);
    cr_assert_arr_eq(keys, told, 2 * sizeof(*keys));
    cr_assert_neq(keys[2], told[2]);
}

Test(node_token_media, without_pictures_keys_are_plain)
{
    uint32_t tokens[4] = {1, 2, 3, 4};
    uint64_t plain[2];
    uint64_t keys[2];

    (void)key_chain(ROOT, tokens, 2, 2 * sizeof(*tokens), plain);
    token_media_chain(NULL, ROOT, tokens, 2, 2, keys);
    cr_assert_arr_eq(keys, plain, sizeof(keys));
    media = (struct token_media){
        .count = 1, .item = {{.identifier = 5, .at = 4, .len = 9}}};
    token_media_chain(&media, ROOT, tokens, 2, 2, keys);
    cr_assert_arr_eq(keys, plain, sizeof(keys));
    media.item[0].at = 3;
    token_media_chain(&media, ROOT, tokens, 2, 2, keys);
    cr_assert_eq(keys[0], plain[0]);
    cr_assert_neq(keys[1], plain[1]);
}

static int
read_features(const char *features)
{
    char json[16384];

    (void)snprintf(json, sizeof(json), "[{\"features\":%s}]", features);
    return token_media_read(&media, slice_of(json));
}

#define PLACE(at, len) "{\"offset\":" #at ",\"length\":" #len ",\"x\":[1]}"

Test(node_token_media, items_are_in_the_order_of_their_places)
{
    cr_assert_eq(
        read_features("{\"mm_placeholders\":{\"audio\":[" PLACE(
            40,
            2) "],\"image\":[" PLACE(50,
                                     3) "," PLACE(7,
                                                  9) "]},"
                                                     "\"mm_hashes\":{\"image\":"
                                                     "["
                                                     "\"b\",\"c\"],\"audio\":["
                                                     "\"a\"]}}"),
        0);
    cr_assert_eq(media.count, 3);
    cr_assert_eq(media.item[0].identifier, key_digest(SLICE("c")));
    cr_assert_eq(media.item[0].at, 7);
    cr_assert_eq(media.item[1].identifier, key_digest(SLICE("a")));
    cr_assert_eq(media.item[2].identifier, key_digest(SLICE("b")));
    cr_assert_eq(media.item[2].len, 3);
}

Test(node_token_media, what_makes_no_sense_is_refused)
{
    static const char *const bad[] = {
        "[]",
        "{\"mm_hashes\":{\"image\":[\"a\"]}}",
        "{\"mm_hashes\":{\"image\":[\"a\"]},\"mm_placeholders\":{\"audio\":"
        "[" PLACE(1, 2) "]}}",
        "{\"mm_hashes\":{\"image\":[\"a\",\"b\"]},\"mm_placeholders\":{"
        "\"image\":[" PLACE(1, 2) "," PLACE(2, 2) "]}}",
        "{\"mm_hashes\":{\"image\":[\"a\"]},\"mm_placeholders\":{\"image\":"
        "[" PLACE(1, 0) "]}}",
        "{\"mm_hashes\":{\"image\":[\"a\"]},\"mm_placeholders\":{\"image\":"
        "[" PLACE(-1, 1) "]}}",
        "{\"mm_hashes\":{\"image\":[\"\\u0061\"]},\"mm_placeholders\":{"
        "\"image\":[" PLACE(1, 1) "]}}",
        "{\"mm_hashes\":{\"image\":[7]}}",
        "{\"mm_hashes\":",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        cr_assert_eq(read_features(bad[i]), TOKEN_MEDIA_E_BAD, "%s", bad[i]);
        cr_assert_eq(media.count, 0);
    }
    cr_assert_eq(read_features("null"), TOKEN_MEDIA_E_NONE);
    cr_assert_eq(token_media_read(&media, SLICE("{\"a\":1}")),
                 TOKEN_MEDIA_E_NONE);
    cr_assert_eq(token_media_read(&media, SLICE("7")), TOKEN_MEDIA_E_BAD);
    cr_assert_eq(read_features("{}"), 0);
}

Test(node_token_media, items_have_a_bound)
{
    char json[8192];
    size_t len = (size_t)sprintf(json, "{\"mm_hashes\":{\"image\":[\"a\"");

    for (uint32_t i = 0; i < TOKEN_MEDIA_MAX; i++) {
        len += (size_t)sprintf(json + len, ",\"a\"");
    }
    (void)sprintf(json + len, "]}}");
    cr_assert_eq(read_features(json), TOKEN_MEDIA_E_BAD);
}
