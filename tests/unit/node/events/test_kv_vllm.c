/* What a real vLLM sent, as the node takes it. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "node/events/kv_apply_internal.h"
#include "tests/unit/node/events/kv_vllm.h"

#define BYTES_MAX 4096
#define SIZE      32

static struct kv_reader *reader;
static struct ledger *ledger;
static uint32_t stream;
static struct kv_apply apply;
static struct kv_counters counters;
static uint64_t words[KV_APPLY_WORDS(BYTES_MAX)];
static struct event_words out;

static void
setup(void)
{
    struct ledger_limits limits = {.bytes_max = (size_t)64 << 20};

    cr_assert_eq(kv_reader_new(&reader, &KV_LIMITS_DEFAULT), 0);
    cr_assert_eq(ledger_new(&ledger, &limits), 0);
    cr_assert_eq(ledger_open(ledger, &stream), 0);
    apply = (struct kv_apply){.rank = -1};
    counters = (struct kv_counters){0};
}

static void
teardown(void)
{
    kv_reader_free(reader);
    ledger_free(ledger);
}

TestSuite(node_kv_vllm, .init = setup, .fini = teardown);

static int
go_on(void)
{
    out =
        (struct event_words){.words = words, .max = KV_APPLY_WORDS(BYTES_MAX)};
    return kv_apply(&apply, reader, ledger, stream, &counters, &out);
}

static int
run(const char *hex)
{
    static uint8_t bytes[BYTES_MAX];
    size_t len = 0;
    unsigned byte;

    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
        cr_assert_lt(len, sizeof(bytes));
        bytes[len++] = (uint8_t)byte;
    }
    cr_assert_eq(kv_reader_begin(reader, (struct slice){(char *)bytes, len}),
                 0);
    return go_on();
}

static uint64_t
root(const char *lora, const char *salt)
{
    return key_token_root(slice_of(lora), slice_of(salt));
}

/* One store of n blocks came out, of tokens that count up from `token`. */
static void
expect_stored(uint32_t n, uint64_t root_key, uint32_t token)
{
    uint32_t tokens[4 * SIZE];
    uint64_t keys[4];

    for (uint32_t i = 0; i < n * SIZE; i++) {
        tokens[i] = token + i;
    }
    (void)key_chain(root_key, tokens, n, SIZE * sizeof(uint32_t), keys);
    cr_assert_eq(out.count, n + 1);
    cr_assert_eq(words[0], event_op(EVENT_STORE, TIER_DEVICE, n));
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(words[i + 1], keys[i]);
    }
    cr_assert_eq(apply.block_tokens, SIZE);
}

Test(node_kv_vllm, a_reset_comes_with_what_was_stored_after_it)
{
    cr_assert_eq(run(KV_VLLM_CLEARED), KV_APPLY_E_CLEARED);
    cr_assert_eq(go_on(), 0);
    expect_stored(3, root("", ""), 10);
}

Test(node_kv_vllm, a_salt_is_found_among_the_extra_keys)
{
    cr_assert_eq(run(KV_VLLM_RAW), 0);
    expect_stored(2, root("", "tenant-a"), 10);
}

Test(node_kv_vllm, an_adapter_is_told_from_a_salt)
{
    cr_assert_eq(run(KV_VLLM_ADAPTER), 0);
    expect_stored(2, root("adapter-a", "tenant-a"), 10);
}

Test(node_kv_vllm, a_session_changes_nothing)
{
    cr_assert_eq(run(KV_VLLM_SESSION), 0);
    expect_stored(2, root("", ""), 100);
}

Test(node_kv_vllm, of_a_hybrid_model_each_group_counts)
{
    uint64_t keys[4];
    uint32_t tokens[4 * SIZE];

    for (uint32_t i = 0; i < 4 * SIZE; i++) {
        tokens[i] = 10 + i;
    }
    (void)key_chain(root("", ""), tokens, 4, SIZE * sizeof(uint32_t), keys);
    cr_assert_eq(run(KV_VLLM_HYBRID), 0);
    cr_assert_eq(out.count, 7);
    cr_assert_eq(words[0], event_op(EVENT_STORE, TIER_DEVICE, 6));
    cr_assert_eq(memcmp(words + 1, keys, sizeof keys), 0, "full attention's");
    cr_assert_eq(words[5], key_in_window(keys[2], 0));
    cr_assert_eq(words[6], key_in_window(keys[3], 0));
    cr_assert_eq(apply.group, 1);
    cr_assert_eq(kv_apply_shape(&apply), shape_of(SIZE, 2, 1));
    cr_assert_eq(run(KV_VLLM_HYBRID_MORE), 0);
    cr_assert_eq(out.count, 2);
    cr_assert_eq(words[0], event_op(EVENT_STORE, TIER_DEVICE, 1));
    cr_assert_eq(ledger_blocks(ledger, stream), 7);
    cr_assert_eq(ledger_holes(ledger, stream), 0);
}

Test(node_kv_vllm, a_child_of_what_is_not_known_is_damage)
{
    cr_assert_eq(run(KV_VLLM_EVICTED), KV_APPLY_E_DAMAGED);
    cr_assert_eq(counter_read(&counters.unknown_removed), 2);
    cr_assert_eq(counter_read(&counters.drop_unknown_parent), 1);
    cr_assert_eq(out.count, 0);
}
