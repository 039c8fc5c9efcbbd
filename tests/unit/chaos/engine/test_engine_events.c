#include <criterion/criterion.h>
#include <stdio.h>

#include "chaos/engine/engine_events.h"

/* Blocks of four tokens; their hashes as in the captures. */
#define A  UINT64_C(0x84b146b151d55111)
#define B  UINT64_C(0xd43b57df56b58fb1)
#define C  UINT64_C(0x0000000000000063)
#define TS 1700000000.5

static const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static struct engine_batch batch;
static struct buf out;
static char hex[4096];

static void
begin(enum engine_events_encoding encoding, uint32_t slots, bool hash_bytes)
{
    struct engine_events_format format = {
        .encoding = encoding,
        .slots = slots,
        .block_tokens = 4,
        .hash_bytes = hash_bytes,
    };

    engine_batch_init(&batch, &format);
    buf_init(&out, 65536);
}

static void
end(void)
{
    engine_batch_fini(&batch);
    buf_fini(&out);
}

/* A block of the chain A, B, C. */
static void
store_of(uint32_t depth, const struct engine_events_owner *owner, uint64_t user)
{
    static const uint64_t chain[] = {A, B, C};

    engine_batch_add(&batch,
                     &(struct engine_event){
                         .kind = ENGINE_EVENT_STORED,
                         .key = chain[depth],
                         .parent = depth > 0 ? chain[depth - 1] : 0,
                         .depth = depth,
                         .user = user,
                         .tokens_len = 4,
                         .tokens = tokens + 4 * (size_t)depth,
                     },
                     owner);
}

static void
store(uint32_t depth)
{
    static const struct engine_events_owner base;

    store_of(depth, &base, 0);
}

static void
removed(uint64_t key)
{
    engine_batch_add(
        &batch,
        &(struct engine_event){.kind = ENGINE_EVENT_REMOVED, .key = key}, NULL);
}

static void
cleared(void)
{
    engine_batch_add(
        &batch, &(struct engine_event){.kind = ENGINE_EVENT_CLEARED}, NULL);
}

static const char *
payload(void)
{
    engine_batch_seal(&batch, TS, &out);
    cr_assert_not(out.failed);
    cr_assert_lt(2 * out.len, sizeof(hex));
    for (size_t i = 0; i < out.len; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned char)out.ptr[i]);
    }
    buf_clear(&out);
    return hex;
}

Test(chaos_engine_events, the_first_arrays_are_those_of_v0_9)
{
    begin(ENGINE_EVENTS_ARRAY, 6, false);
    store(0);
    store(1);
    removed(B);
    cleared();
    cr_assert_str_eq(
        payload(),
        "92cb41d954fc402000009396ab426c6f636b53746f72656492cf84b146b151d55111cf"
        "d43b57df56b58fb1c098010203040506070804c092ac426c6f636b52656d6f76656491"
        "cfd43b57df56b58fb191b0416c6c426c6f636b73436c6561726564");
    end();
}

Test(chaos_engine_events, maps_are_those_of_todays_vllm)
{
    begin(ENGINE_EVENTS_MAP, 11, false);
    store(0);
    store(1);
    removed(B);
    cleared();
    cr_assert_str_eq(
        payload(),
        "93cb41d954fc40200000938ba474797065ab426c6f636b53746f726564ac626c6f636b"
        "5f68617368657392cf84b146b151d55111cfd43b57df56b58fb1b1706172656e745f62"
        "6c6f636b5f68617368c0a9746f6b656e5f696473980102030405060708aa626c6f636b"
        "5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d"
        "65c0aa65787472615f6b65797392c0c0a967726f75705f69647800b26b765f63616368"
        "655f737065635f6b696e64ae66756c6c5f617474656e74696f6e84a474797065ac426c"
        "6f636b52656d6f766564ac626c6f636b5f68617368657391cfd43b57df56b58fb1a66d"
        "656469756da3475055a967726f75705f6964780081a474797065b0416c6c426c6f636b"
        "73436c656172656400");
    end();
}

Test(chaos_engine_events, sglangs_hashes_are_signed)
{
    static const struct engine_events_owner base;

    begin(ENGINE_EVENTS_SGLANG_ARRAY, 0, false);
    engine_batch_add(&batch,
                     &(struct engine_event){.kind = ENGINE_EVENT_STORED,
                                            .key = 0xcf97adeedb59e05b,
                                            .tokens_len = 4,
                                            .tokens = tokens},
                     &base);
    removed(0xcf97adeedb59e05b);
    cr_assert_str_eq(
        payload(),
        "93cb41d954fc402000009297ab426c6f636b53746f72656491d3cf97adeedb59e05bc0"
        "940102030404c0a347505593ac426c6f636b52656d6f76656491d3cf97adeedb59e05b"
        "a347505500");
    end();
}

Test(chaos_engine_events, sglangs_arrays_hold_the_salt_in_a_map)
{
    static const struct engine_events_owner salted = {.salt = {"tenant-a", 8}};

    begin(ENGINE_EVENTS_SGLANG_ARRAY, 0, false);
    engine_batch_add(&batch,
                     &(struct engine_event){.kind = ENGINE_EVENT_STORED,
                                            .key = 0x339927f491605c4b,
                                            .tokens_len = 4,
                                            .tokens = tokens},
                     &salted);
    cr_assert_str_eq(
        payload(),
        "93cb41d954fc402000009198ab426c6f636b53746f72656491cf339927f491605c4bc0"
        "940102030404c0a347505581aa63616368655f73616c74a874656e616e742d6100");
    end();
}

/* Bytes of SGLang 0.5.23's own encoder. */
Test(chaos_engine_events, sglang_joins_pages_that_go_as_well_as_those_that_come)
{
    static const struct engine_events_owner base;
    static const uint64_t pages[] = {0xcf97adeedb59e05b, 0x4ebfa8a1f3c34151};

    begin(ENGINE_EVENTS_SGLANG_MAP, 0, false);
    batch.format.rank = 1;
    cleared();
    for (uint32_t i = 0; i < 2; i++) {
        engine_batch_add(&batch,
                         &(struct engine_event){.kind = ENGINE_EVENT_STORED,
                                                .key = pages[i],
                                                .parent = i * pages[0],
                                                .depth = i,
                                                .tokens_len = 4,
                                                .tokens = tokens + 4 * i},
                         &base);
    }
    removed(pages[0]);
    removed(pages[1]);
    cr_assert_str_eq(
        payload(),
        "93cb41d954fc402000009381a474797065b0416c6c426c6f636b73436c656172656487"
        "a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392d3cf97ad"
        "eedb59e05bcf4ebfa8a1f3c34151b1706172656e745f626c6f636b5f68617368c0a974"
        "6f6b656e5f696473980102030405060708aa626c6f636b5f73697a6504a76c6f72615f"
        "6964c0a66d656469756da347505583a474797065ac426c6f636b52656d6f766564ac62"
        "6c6f636b5f68617368657392d3cf97adeedb59e05bcf4ebfa8a1f3c34151a66d656469"
        "756da347505501");
    end();
}

Test(chaos_engine_events, tensorrt_llms_maps_have_no_group_and_no_namespace)
{
    static const struct engine_events_owner owner = {
        .lora_name = {"adapter", 7}, .salt = {"salt-1", 6}, .lora_id = 7};

    begin(ENGINE_EVENTS_TRTLLM, 0, true);
    store_of(0, &owner, 0);
    store_of(1, &owner, 0);
    removed(B);
    removed(A);
    cleared();
    cr_assert_str_eq(
        payload(),
        "93cb41d954fc402000009488a474797065ab426c6f636b53746f726564ac626c6f636b"
        "5f68617368657392cf84b146b151d55111cfd43b57df56b58fb1b1706172656e745f62"
        "6c6f636b5f68617368c0a9746f6b656e5f696473980102030405060708aa626c6f636b"
        "5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d"
        "65c083a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391"
        "cfd43b57df56b58fb1a66d656469756da347505583a474797065ac426c6f636b52656d"
        "6f766564ac626c6f636b5f68617368657391cf84b146b151d55111a66d656469756da3"
        "47505581a474797065b0416c6c426c6f636b73436c656172656400");
    end();
}

Test(chaos_engine_events, adapters_taint_all_blocks_and_a_salt_the_first_one)
{
    static const struct engine_events_owner owner = {
        .lora_name = {"adapter", 7}, .salt = {"salt-1", 6}, .lora_id = 7};

    begin(ENGINE_EVENTS_ARRAY, 12, false);
    store_of(0, &owner, 0);
    store_of(1, &owner, 0);
    removed(B);
    cr_assert_str_eq(
        payload(),
        "93cb41d954fc40200000929bab426c6f636b53746f72656492cf84b146b151d55111cf"
        "d43b57df56b58fb1c09801020304050607080407a3475055a7616461707465729292a7"
        "61646170746572a673616c742d3191a76164617074657200ae66756c6c5f617474656e"
        "74696f6e94ac426c6f636b52656d6f76656491cfd43b57df56b58fb1a34750550000");
    /* The next step's block of the same chain has no salt any more. */
    store_of(2, &owner, 0);
    cr_assert_not_null(strstr(payload(), "9191a7616461707465720"));
    end();
}

Test(chaos_engine_events, arrays_are_as_long_as_their_slots)
{
    for (uint32_t slots = 6; slots <= 12; slots++) {
        begin(ENGINE_EVENTS_ARRAY, slots, false);
        store(0);
        removed(A);
        const char *text = payload();
        char head[] = "9?ab426c6f636b53746f726564";
        head[1] = "0123456789abcdef"[slots < 11 ? slots : 11];
        cr_assert_not_null(strstr(text, head), "%u slots: %s", slots, text);
        head[1] = slots == 6 ? '2' : slots < 10 ? '3' : '4';
        (void)snprintf(head, sizeof(head), "9%cac426c6f636b", head[1]);
        cr_assert_not_null(strstr(text, head), "%u slots: %s", slots, text);
        cr_assert_eq(text[1], slots == 6 ? '2' : '3');
        end();
    }
}

Test(chaos_engine_events, hashes_as_bytes_end_in_the_number)
{
    begin(ENGINE_EVENTS_MAP, 11, true);
    store(1);
    const char *text = payload();
    const char *hash = strstr(text, "91c420");
    const char *parent = strstr(text, "68617368c420");
    cr_assert_not_null(hash);
    cr_assert_eq(strncmp(hash + 6 + 48, "d43b57df56b58fb1", 16), 0);
    cr_assert_not_null(parent);
    cr_assert_eq(strncmp(parent + 12 + 48, "84b146b151d55111", 16), 0);
    end();
}

Test(chaos_engine_events, only_blocks_that_continue_each_other_are_joined)
{
    begin(ENGINE_EVENTS_ARRAY, 6, false);
    store(0);
    store(1);
    store(2);
    cr_assert_not_null(strstr(payload(), "9196ab")); /* one event */
    store(0);
    store(2);
    cr_assert_not_null(strstr(payload(), "9296ab")); /* a hole */
    store_of(0, &(struct engine_events_owner){.lora_id = 0}, 1);
    store_of(1, &(struct engine_events_owner){.lora_id = 0}, 2);
    cr_assert_not_null(strstr(payload(), "9296ab")); /* two requests */
    store(0);
    store(0);
    cr_assert_not_null(strstr(payload(), "9296ab")); /* computed twice */
    store(0);
    removed(C);
    store(1);
    cr_assert_not_null(strstr(payload(), "9396ab")); /* order is kept */
    end();
}

Test(chaos_engine_events, vllm_sends_a_removal_for_each_block)
{
    begin(ENGINE_EVENTS_ARRAY, 6, false);
    removed(B);
    removed(A);
    cr_assert_not_null(strstr(payload(), "9292ac"));
    end();
}

Test(chaos_engine_events, a_batch_takes_the_events_of_one_step)
{
    struct engine_event event = {.kind = ENGINE_EVENT_REMOVED, .step = 7};

    begin(ENGINE_EVENTS_MAP, 11, false);
    cr_assert(engine_batch_is_empty(&batch));
    cr_assert(engine_batch_takes(&batch, &event));
    engine_batch_add(&batch, &event, NULL);
    cr_assert_not(engine_batch_is_empty(&batch));
    cr_assert(engine_batch_takes(&batch, &event));
    event.step = 8;
    cr_assert_not(engine_batch_takes(&batch, &event));
    (void)payload();
    cr_assert(engine_batch_is_empty(&batch));
    cr_assert(engine_batch_takes(&batch, &event));
    end();
}

Test(chaos_engine_events, a_payload_that_does_not_fit_fails)
{
    begin(ENGINE_EVENTS_MAP, 11, false);
    out.max_bytes = 100;
    store(0);
    engine_batch_seal(&batch, TS, &out);
    cr_assert(out.failed);
    buf_clear(&out);
    buf_fini(&batch.keys);
    buf_init(&batch.keys, 8);
    store(0);
    store(1);
    out.max_bytes = 1000;
    engine_batch_seal(&batch, TS, &out);
    cr_assert(out.failed);
    buf_clear(&out);
    store(0);
    engine_batch_seal(&batch, TS, &out);
    cr_assert_not(out.failed, "what failed is over");
    end();
}
