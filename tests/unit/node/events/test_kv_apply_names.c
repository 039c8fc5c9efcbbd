/* What sets blocks apart, and what becomes of those whose tokens or parents are
 * not known. */
#include "tests/unit/node/events/kv_apply_rig.h"
#include "tests/unit/node/events/kv_vectors.h"

TestSuite(node_kv_apply_names, .init = kv_apply_open, .fini = kv_apply_close);

/* The key of a single first block, as the batch that was written tells it. */
static uint64_t
only_key(void)
{
    cr_assert_eq(run(), 0);
    cr_assert_eq(out.count, 2);
    return words[1];
}

Test(node_kv_apply_names, the_adapter_sets_blocks_apart)
{
    put_envelope(&batch, 1);
    put_stored_map(&batch, 1, 100, 1, 0, 1, 4);
    put_pair(&batch, "lora_name", "ada");
    uint64_t root = key_token_root(SLICE("ada"), (struct slice){0});
    cr_assert_eq(only_key(), key_of(root, 1, 1, 4));
}

Test(node_kv_apply_names, an_adapter_without_a_name_goes_by_its_number)
{
    put_envelope(&batch, 1);
    put_stored(&batch, 1, 100, 1, 0, 1, 4);
    put_uint(&batch, 12);
    uint64_t root = key_token_root(SLICE("12"), (struct slice){0});
    cr_assert_eq(only_key(), key_of(root, 1, 1, 4));
    put_envelope(&batch, 1);
    put_stored_map(&batch, 2, 101, 1, 0, 1, 4);
    put_pair(&batch, "lora_name", "ada");
    put_text(&batch, "lora_id");
    put_uint(&batch, 12);
    root = key_token_root(SLICE("ada"), (struct slice){0});
    cr_assert_eq(only_key(), key_of(root, 1, 1, 4));
}

Test(node_kv_apply_names, children_inherit_the_salt_by_their_parent)
{
    put_envelope(&batch, 2);
    put_stored_map(&batch, 1, 100, 1, 0, 1, 4);
    put_text(&batch, "extra_keys");
    put_array(&batch, 1);
    put_array(&batch, 1);
    put_text(&batch, "tenant");
    put_stored(&batch, 0, 101, 1, 100, 5, 4);
    cr_assert_eq(run(), 0);
    uint64_t root = key_token_root((struct slice){0}, SLICE("tenant"));
    expect_only(EVENT_STORE, TIER_DEVICE, 2, key_of(root, 1, 2, 4));
}

Test(node_kv_apply_names, the_salt_of_sglang_is_in_the_event)
{
    cr_assert_eq(run_hex(KV_S2), 0);
    uint64_t root = key_token_root((struct slice){0}, SLICE("tenant-a"));
    expect_only(EVENT_STORE, TIER_DEVICE, 1, key_of(root, 1, 1, 4));
    put_envelope(&batch, 1);
    put_stored_map(&batch, 1, 200, 1, 0, 1, 4);
    put_pair(&batch, "cache_salt", "tenant-b");
    root = key_token_root((struct slice){0}, SLICE("tenant-b"));
    cr_assert_eq(only_key(), key_of(root, 1, 1, 4));
}

Test(node_kv_apply_names, a_string_in_a_childs_extras_is_media_and_no_salt)
{
    uint32_t tokens[] = {5, 6, 7, 8};

    put_envelope(&batch, 2);
    put_stored(&batch, 0, 100, 1, 0, 1, 4);
    put_stored_map(&batch, 1, 101, 2, 100, 5, 4);
    put_text(&batch, "extra_keys");
    put_array(&batch, 2);
    put_nil(&batch);
    put_array(&batch, 1);
    put_text(&batch, "image");
    cr_assert_eq(run(), 0);
    cr_assert_eq(words[2], key_of(plain_root(), 1, 2, 4));
    cr_assert_neq(words[3], key_of(plain_root(), 1, 3, 4));
    cr_assert_eq(words[2], key_next(key_of(plain_root(), 1, 1, 4), tokens,
                                    sizeof tokens));
}

Test(node_kv_apply_names, extras_that_are_not_one_for_each_block_cost_the_event)
{
    put_envelope(&batch, 1);
    put_stored_map(&batch, 1, 100, 2, 0, 1, 4);
    put_text(&batch, "extra_keys");
    put_array(&batch, 1);
    put_nil(&batch);
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_malformed, 1);
    expect_held(0);
}

Test(node_kv_apply_names,
     opaque_tokens_are_dropped_and_their_children_no_damage)
{
    put_envelope(&batch, 2);
    put_array(&batch, 5);
    put_text(&batch, "BlockStored");
    put_uints(&batch, 100, 1);
    put_nil(&batch);
    put_array(&batch, 2);
    put_uint(&batch, 1);
    put_text(&batch, "image");
    put_uint(&batch, 2);
    put_stored(&batch, 0, 101, 1, 100, 1, 2);
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_opaque, 1);
    EXPECT_COUNT(drop_unknown_parent, 1);
    expect_held(0);
}

/* A store of one block that is dropped: its tokens are not numbers. */
static void
put_dropped(uint64_t hash)
{
    put_array(&batch, 5);
    put_text(&batch, "BlockStored");
    put_uints(&batch, hash, 1);
    put_nil(&batch);
    put_array(&batch, 2);
    put_uint(&batch, 1);
    put_text(&batch, "image");
    put_uint(&batch, 2);
}

/* However many were dropped on purpose before. */
Test(node_kv_apply_names, most_orphans_of_what_was_never_dropped_are_damage)
{
    uint32_t damaged = 0;

    for (uint64_t hash = 1; hash <= 20000; hash++) {
        put_envelope(&batch, 1);
        put_dropped(hash);
        cr_assert_eq(run(), 0);
    }
    EXPECT_COUNT(drop_opaque, 20000);
    for (uint64_t i = 0; i < 100; i++) {
        put_envelope(&batch, 1);
        put_stored(&batch, 0, 40000 + i, 1, 900000 + i * 7, 1, 2);
        damaged += run() == KV_APPLY_E_DAMAGED;
    }
    cr_assert_geq(damaged, 70, "%u of 100", damaged);
}

Test(node_kv_apply_names, a_dropped_parent_that_is_in_use_is_not_forgotten)
{
    put_envelope(&batch, 1);
    put_dropped(1);
    cr_assert_eq(run(), 0);
    for (uint64_t hash = 2; hash <= 20000; hash++) {
        put_envelope(&batch, hash % 100 == 0 ? 2 : 1);
        put_dropped(hash);
        if (hash % 100 == 0) {
            put_stored(&batch, 0, hash + 100000, 1, 1, 1, 2);
        }
        cr_assert_eq(run(), 0, "after %llu", (unsigned long long)hash);
    }
}

/* ---- the block size ---- */
