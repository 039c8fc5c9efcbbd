/* Events into the ledger, and out as words. */
#include "tests/unit/node/events/kv_apply_rig.h"
#include "tests/unit/node/events/kv_vectors.h"

TestSuite(node_kv_apply, .init = kv_apply_open, .fini = kv_apply_close);

Test(node_kv_apply, a_store_tells_the_keys_of_its_blocks)
{
    put_envelope(&batch, 1);
    put_stored(&batch, 0, 100, 3, 0, 1, 4);
    cr_assert_eq(run(), 0);
    expect_only(EVENT_STORE, TIER_DEVICE, 3, key_of(plain_root(), 1, 3, 4));
    expect_held(3);
    cr_assert_eq(apply.block_tokens, 4);
    EXPECT_COUNT(batches, 1);
    EXPECT_COUNT(events, 1);
    EXPECT_COUNT(bytes, batch.len);
    EXPECT_COUNT(blocks_stored, 3);
}

Test(node_kv_apply, a_child_goes_on_where_its_parent_ends)
{
    put_envelope(&batch, 2);
    put_stored(&batch, 0, 100, 2, 0, 1, 4);
    put_stored_map(&batch, 0, 200, 1, 101, 9, 4);
    cr_assert_eq(run(), 0);
    expect_only(EVENT_STORE, TIER_DEVICE, 3, key_of(plain_root(), 1, 3, 4));
}

Test(node_kv_apply, a_removal_tells_the_same_keys)
{
    put_envelope(&batch, 2);
    put_stored(&batch, 0, 100, 2, 0, 1, 4);
    put_removed_map(&batch, 0, 101, 2);
    cr_assert_eq(run(), 0);
    expect_op(3, EVENT_REMOVE, TIER_DEVICE, 1, key_of(plain_root(), 1, 2, 4));
    expect_held(1);
    EXPECT_COUNT(blocks_removed, 1);
    EXPECT_COUNT(unknown_removed, 1);
}

Test(node_kv_apply, equal_blocks_stored_twice_are_removed_twice)
{
    put_envelope(&batch, 3);
    put_stored(&batch, 0, 100, 1, 0, 1, 4);
    put_stored(&batch, 0, 100, 1, 0, 1, 4);
    put_removed_map(&batch, 0, 100, 1);
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(duplicates, 1);
    EXPECT_COUNT(blocks_stored, 1);
    EXPECT_COUNT(blocks_removed, 0);
    expect_held(1);
    put_envelope(&batch, 1);
    put_removed_map(&batch, 0, 100, 1);
    cr_assert_eq(run(), 0);
    expect_only(EVENT_REMOVE, TIER_DEVICE, 1, key_of(plain_root(), 1, 1, 4));
    expect_held(0);
}

/* One block of tokens 1 to 4 before this token. */
static void
put_block_before(uint64_t hash, uint64_t token)
{
    put_stored_map(&batch, 1, hash, 1, 0, 1, 4);
    put_text(&batch, "lookahead_token_ids");
    put_array(&batch, 1);
    put_uints(&batch, token, 1);
}

static uint64_t
key_before(uint32_t token)
{
    const uint32_t tokens[] = {1, 2, 3, 4};

    return key_next_apart(plain_root(), key_ahead(0, &token, 1), tokens,
                          sizeof tokens);
}

Test(node_kv_apply, a_block_before_another_token_is_another_block)
{
    put_envelope(&batch, 3);
    put_block_before(100, 5);
    put_block_before(200, 6);
    put_removed_map(&batch, 0, 100, 1);
    cr_assert_eq(run(), 0);
    cr_assert_neq(key_before(5), key_before(6));
    expect_op(0, EVENT_STORE, TIER_DEVICE, 2, key_before(6));
    cr_assert_eq(words[1], key_before(5));
    expect_op(3, EVENT_REMOVE, TIER_DEVICE, 1, key_before(5));
    expect_held(1);
    cr_assert_eq(kv_apply_shape(&apply), shape_grain_of(4, 1));
}

Test(node_kv_apply, what_names_cover_is_told_with_the_size_alone)
{
    apply.ahead = 1;
    cr_assert_eq(kv_apply_shape(&apply), 0);
    apply.unruled = true;
    cr_assert_eq(kv_apply_shape(&apply), 0);
}

Test(node_kv_apply, pairs_are_told_from_other_names_that_look_ahead)
{
    put_envelope(&batch, 2);
    put_map(&batch, 4);
    put_pair(&batch, "type", "BlockStored");
    put_text(&batch, "block_hashes");
    put_uints(&batch, 100, 1);
    put_text(&batch, "token_ids");
    put_array(&batch, 4);
    for (unsigned i = 1; i <= 4; i++) {
        put_uints(&batch, i, 2);
    }
    put_text(&batch, "block_size");
    put_uint(&batch, 4);
    put_block_before(200, 5);
    cr_assert_eq(run(), 0);
    expect_only(EVENT_STORE, TIER_DEVICE, 1, key_before(5));
    cr_assert_eq(kv_apply_shape(&apply), shape_grain_of(4, SHAPE_PAIRS));
    EXPECT_COUNT(drop_block_size, 1);
}

Test(node_kv_apply, names_that_cover_more_or_less_than_the_streams_are_dropped)
{
    put_envelope(&batch, 3);
    put_block_before(100, 5);
    put_stored_map(&batch, 0, 200, 1, 0, 1, 4);
    put_stored_map(&batch, 1, 300, 1, 0, 1, 4);
    put_text(&batch, "lookahead_token_ids");
    put_array(&batch, 1);
    put_uints(&batch, 5, SHAPE_AHEAD_MAX + 1);
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_block_size, 2);
    expect_held(1);
}

Test(node_kv_apply, remaining_copies_are_believed)
{
    put_envelope(&batch, 3);
    put_stored(&batch, 0, 100, 1, 0, 1, 4);
    put_stored(&batch, 0, 100, 1, 0, 1, 4);
    put_removed_map(&batch, 1, 100, 1);
    put_text(&batch, "remaining_copy_counts");
    put_uints(&batch, 0, 1);
    cr_assert_eq(run(), 0);
    expect_held(0);
}

Test(node_kv_apply, real_batches_of_vllm_and_sglang)
{
    cr_assert_eq(run_hex(KV_V1), KV_APPLY_E_CLEARED);
    cr_assert_eq(go_on(), 0);
    EXPECT_COUNT(cleared, 1);
    EXPECT_COUNT(events, 3);
    EXPECT_COUNT(batches, 1);
    EXPECT_COUNT(drop_malformed, 0);
    cr_assert_eq(run_hex(KV_S3), 0);
    EXPECT_COUNT(blocks_removed, 3);
    expect_held(1); /* A of the first batch: whoever clears starts anew */
}

Test(node_kv_apply, all_of_what_vllm_can_say)
{
    cr_assert_eq(run_hex(KV_V2), 0);
    uint64_t root = key_token_root(SLICE("adapter"), SLICE("salt-1"));
    uint32_t tokens[] = {1, 2, 3, 4};
    uint64_t key = key_next_apart(root, kv_media_add(0, SLICE("mm-abc"), 0),
                                  tokens, sizeof tokens);
    expect_op(0, EVENT_STORE, TIER_DEVICE, 2, key_of(key, 5, 1, 4));
    cr_assert_eq(words[1], key);
    expect_op(3, EVENT_REMOVE, TIER_DEVICE, 1, key_of(key, 5, 1, 4));
    expect_held(1);
}

/* ---- clearing, damage ---- */

Test(node_kv_apply, what_follows_a_clear_is_of_the_next_incarnation)
{
    put_envelope(&batch, 3);
    put_stored(&batch, 0, 100, 1, 0, 1, 4);
    put_cleared(&batch);
    put_stored(&batch, 0, 200, 1, 0, 1, 16);
    cr_assert_eq(run(), KV_APPLY_E_CLEARED);
    EXPECT_COUNT(batches, 0);
    ledger_close(ledger, stream);
    cr_assert_eq(ledger_open(ledger, &stream), 0);
    apply = (struct kv_apply){.rank = -1};
    cr_assert_eq(go_on(), 0);
    expect_only(EVENT_STORE, TIER_DEVICE, 1, key_of(plain_root(), 1, 1, 16));
    expect_held(1);
    EXPECT_COUNT(batches, 1);
}

Test(node_kv_apply, an_unknown_parent_never_makes_a_root)
{
    put_envelope(&batch, 2);
    put_stored(&batch, 0, 100, 2, 77, 1, 4);
    put_stored(&batch, 0, 200, 1, 0, 1, 4);
    cr_assert_eq(run(), KV_APPLY_E_DAMAGED);
    EXPECT_COUNT(drop_unknown_parent, 1);
    expect_only(EVENT_STORE, TIER_DEVICE, 1, key_of(plain_root(), 1, 1, 4));
    expect_held(1);
}

Test(node_kv_apply, a_chain_that_broke_is_damage_once)
{
    put_envelope(&batch, 1);
    put_stored(&batch, 0, 100, 2, 77, 1, 4);
    cr_assert_eq(run(), KV_APPLY_E_DAMAGED);
    put_envelope(&batch, 1);
    put_stored(&batch, 0, 102, 2, 101, 9, 4);
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_unknown_parent, 2);
    put_envelope(&batch, 1);
    put_stored(&batch, 0, 300, 2, 78, 1, 4);
    cr_assert_eq(run(), KV_APPLY_E_DAMAGED);
    expect_held(0);
}

Test(node_kv_apply, a_payload_that_breaks_off_is_damage)
{
    put_envelope(&batch, 2);
    put_stored(&batch, 0, 100, 2, 0, 1, 4);
    put_stored(&batch, 0, 200, 2, 0, 1, 4);
    batch.len--;
    cr_assert_eq(run(), KV_APPLY_E_DAMAGED);
    expect_held(2);
    EXPECT_COUNT(drop_malformed, 1);
    batch.len = 0;
    cr_assert_eq(kv_reader_begin(reader, kv_batch_slice(&batch)), KV_E_PAYLOAD);
    cr_assert_eq(go_on(), KV_APPLY_E_DAMAGED);
    EXPECT_COUNT(drop_malformed, 2);
}

Test(node_kv_apply, a_dropped_event_costs_that_event)
{
    put_envelope(&batch, 4);
    put_nil(&batch);
    put_array(&batch, 1);
    put_text(&batch, "BlockMoved");
    put_stored(&batch, 0, 55, 1, 55, 1, 4);
    put_stored(&batch, 0, 100, 1, 0, 1, 4);
    cr_assert_eq(run(), 0);
    expect_held(1);
    EXPECT_COUNT(drop_malformed, 1);
    EXPECT_COUNT(drop_unknown_type, 1);
    EXPECT_COUNT(drop_repeated, 1);
    EXPECT_COUNT(events, 4);
}

/* ---- tiers ---- */

Test(node_kv_apply, media_name_tiers_in_any_case)
{
    static const struct {
        const char *medium;
        int tier;
    } cases[] = {
        {"", TIER_DEVICE},
        {"GPU", TIER_DEVICE},
        {"gpu", TIER_DEVICE},
        {"Device", TIER_DEVICE},
        {"CPU", TIER_HOST},
        {"cpu_Pinned", TIER_HOST},
        {"CPU_TIER1", TIER_HOST},
        {"CPU_TIER2", TIER_DISK},
        {"DISK", TIER_DISK},
        {"NVMe", TIER_DISK},
        {"STORAGE", TIER_DISK},
        {"fs", TIER_DISK},
        {"OBJ", TIER_EXTERNAL},
        {"EXTERNAL", TIER_EXTERNAL},
        {"NETWORK", TIER_EXTERNAL},
        {"remote", TIER_EXTERNAL},
        {"SHARED", TIER_EXTERNAL},
        {"TAPE", -1},
        {"GPU ", -1},
        {"CPU_", -1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(kv_tier_of(slice_of(cases[i].medium)), cases[i].tier, "%s",
                     cases[i].medium);
    }
}

Test(node_kv_apply, a_removal_in_one_tier_says_nothing_of_another)
{
    put_envelope(&batch, 3);
    put_stored(&batch, 0, 100, 1, 0, 1, 4);
    put_stored_map(&batch, 1, 100, 1, 0, 1, 4);
    put_pair(&batch, "medium", "cpu_pinned");
    put_removed_map(&batch, 1, 100, 1);
    put_pair(&batch, "medium", "GPU");
    cr_assert_eq(run(), 0);
    uint64_t key = key_of(plain_root(), 1, 1, 4);
    expect_op(0, EVENT_STORE, TIER_DEVICE, 1, key);
    expect_op(2, EVENT_STORE, TIER_HOST, 1, key);
    expect_op(4, EVENT_REMOVE, TIER_DEVICE, 1, key);
    expect_held(1);
}

Test(node_kv_apply, media_that_no_table_knows_and_other_machines_are_dropped)
{
    put_envelope(&batch, 4);
    put_stored_map(&batch, 1, 100, 1, 0, 1, 4);
    put_pair(&batch, "medium", "TAPE");
    put_stored_map(&batch, 1, 100, 1, 0, 1, 4);
    put_pair(&batch, "locality", "REMOTE");
    put_removed_map(&batch, 1, 100, 1);
    put_pair(&batch, "locality", "REMOTE");
    put_stored_map(&batch, 1, 100, 1, 0, 1, 4);
    put_pair(&batch, "locality", "LOCAL");
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_unknown_medium, 1);
    EXPECT_COUNT(drop_non_local, 2);
    expect_held(1);
}

Test(node_kv_apply, a_placeholder_tells_a_further_tier_of_a_known_block)
{
    cr_assert_eq(run_hex(KV_V4), 0);
    EXPECT_COUNT(drop_placeholder, 1);
    cr_assert_eq(out.count, 0);
    cr_assert_eq(run_hex(KV_V3), KV_APPLY_E_CLEARED);
    cr_assert_eq(run_hex(KV_V4), 0);
    expect_only(EVENT_STORE, TIER_HOST, 1, key_of(plain_root(), 1, 1, 4));
    EXPECT_COUNT(drop_placeholder, 1);
    EXPECT_COUNT(drop_full, 0);
}

Test(node_kv_apply, a_placeholder_chooses_neither_group_nor_size)
{
    put_envelope(&batch, 2);
    put_stored_map(&batch, 2, 50, 1, 0, 1, 0);
    put_text(&batch, "group_idx");
    put_uint(&batch, 3);
    put_pair(&batch, "medium", "CPU");
    put_stored_map(&batch, 1, 100, 1, 0, 1, 4);
    put_text(&batch, "group_idx");
    put_uint(&batch, 0);
    cr_assert_eq(run(), 0);
    expect_held(1);
    cr_assert_eq(apply.group, 0);
    cr_assert_eq(apply.block_tokens, 4);
}

/* ---- groups ---- */

static void
put_grouped(uint64_t hash, uint64_t group, const char *kind, unsigned size)
{
    put_stored_map(&batch, 2, hash, 1, 0, 1, size);
    put_text(&batch, "group_idx");
    put_uint(&batch, group);
    put_pair(&batch, "kv_cache_spec_kind", kind);
}

static void
put_group_removed(uint64_t hash, uint64_t group)
{
    put_removed_map(&batch, 1, hash, 1);
    put_text(&batch, "group_idx");
    put_uint(&batch, group);
}

Test(node_kv_apply, only_groups_that_keep_whole_prefixes_are_indexed)
{
    static const char *const main_kinds[] = {"full_attention", "mla_attention",
                                             "sink_full_attention", NULL};
    static const char *const others[] = {
        "sliding_window",          "sliding_window_mla",
        "chunked_local_attention", "encoder_only_attention",
        "cross_attention",         "unknown",
        "FULL_ATTENTION"};

    put_envelope(&batch, 11);
    for (uint64_t i = 0; i < 7; i++) {
        put_grouped(50 + i, i, others[i], 4);
    }
    for (uint64_t i = 0; i < 4; i++) {
        put_grouped(100 + i, 9, main_kinds[i], 4);
    }
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_group, 7);
    expect_held(4);
    cr_assert_eq(apply.group, 9);
}

Test(node_kv_apply, equal_hashes_of_another_group_are_not_removed)
{
    put_envelope(&batch, 4);
    put_grouped(100, 1, "sliding_window", 4);
    put_grouped(100, 0, "full_attention", 4);
    put_group_removed(100, 1);
    put_grouped(100, 2, "full_attention", 4); /* a second main group */
    cr_assert_eq(run(), 0);
    expect_held(1);
    EXPECT_COUNT(drop_group, 3);
    EXPECT_COUNT(duplicates, 0);
    put_envelope(&batch, 2);
    put_group_removed(100, 2);
    put_group_removed(100, 0);
    cr_assert_eq(run(), 0);
    expect_held(0);
    EXPECT_COUNT(blocks_removed, 1);
}

Test(node_kv_apply, a_skipped_group_stays_so_when_its_kind_is_not_told)
{
    put_envelope(&batch, 3);
    put_grouped(50, 1, "chunked_local_attention", 4);
    put_grouped(51, 1, NULL, 4);
    put_group_removed(50, 1);
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_group, 3);
    cr_assert_not(apply.has_group);
    expect_held(0);
}

Test(node_kv_apply, groups_beyond_those_remembered_are_no_less_dropped)
{
    put_envelope(&batch, 3);
    put_grouped(50, UINT32_MAX, "mamba", 4);
    put_grouped(100, 0, "full_attention", 4);
    put_grouped(100, 4000, NULL, 4);
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_group, 2);
    expect_held(1);
}

Test(node_kv_apply, a_sparse_store_counts_by_its_group)
{
    put_envelope(&batch, 2);
    for (int i = 0; i < 2; i++) {
        put_stored_map(&batch, 3, 100, 2, 0, 1, 4);
        put_text(&batch, "block_hashes");
        put_uints(&batch, 101, 1);
        put_text(&batch, "group_idx");
        put_uint(&batch, (uint64_t)i);
        put_pair(&batch, "kv_cache_spec_kind",
                 i == 0 ? "sliding_window" : "full_attention");
    }
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_group, 1);
    EXPECT_COUNT(drop_unaligned, 1);
    expect_held(0);
}

/* ---- namespaces and media ---- */

Test(node_kv_apply, other_block_sizes_than_the_streams_are_dropped)
{
    put_envelope(&batch, 4);
    put_stored(&batch, 0, 100, 2, 0, 1, 16);
    put_stored(&batch, 0, 200, 1, 101, 33, 5);  /* a short last page */
    put_stored(&batch, 0, 300, 1, 0, 1, 32);    /* nobody knows what */
    put_stored(&batch, 0, 201, 1, 200, 38, 16); /* behind what was dropped */
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_block_size, 2);
    EXPECT_COUNT(drop_unknown_parent, 1);
    expect_held(2);
    cr_assert_eq(apply.block_tokens, 16);
}

Test(node_kv_apply, a_short_page_that_comes_first_is_not_the_size)
{
    put_envelope(&batch, 3);
    put_stored(&batch, 0, 50, 1, 0, 1, 5);
    put_stored(&batch, 0, 51, 1, 0, 2, 5);
    put_stored(&batch, 0, 100, 1, 0, 1, 16);
    cr_assert_eq(run(), 0);
    expect_op(0, EVENT_STORE, TIER_DEVICE, 2, key_of(plain_root(), 2, 1, 5));
    expect_op(3, EVENT_REMOVE, TIER_DEVICE, 2, key_of(plain_root(), 2, 1, 5));
    expect_op(6, EVENT_STORE, TIER_DEVICE, 1, key_of(plain_root(), 1, 1, 16));
    expect_held(1);
    cr_assert_eq(apply.block_tokens, 16);
    EXPECT_COUNT(drop_block_size, 2);
}

Test(node_kv_apply, a_second_block_in_a_row_proves_the_size)
{
    put_envelope(&batch, 3);
    put_stored(&batch, 0, 50, 1, 0, 1, 4);
    put_stored(&batch, 0, 51, 1, 50, 5, 4);
    put_stored(&batch, 0, 100, 1, 0, 1, 16);
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_block_size, 1);
    expect_held(2);
    cr_assert_eq(apply.block_tokens, 4);
}

/* LMCache tells its chunks in vLLM's own stream. */
Test(node_kv_apply, a_store_beside_the_engine_does_not_say_the_size)
{
    put_envelope(&batch, 4);
    put_stored_map(&batch, 1, 900, 2, 0, 1, 64);
    put_pair(&batch, "medium", "cpu");
    put_stored_map(&batch, 1, 100, 1, 0, 1, 16);
    put_pair(&batch, "medium", "GPU");
    put_stored_map(&batch, 1, 950, 1, 0, 1, 64);
    put_pair(&batch, "medium", "cpu");
    put_stored_map(&batch, 1, 101, 2, 100, 17, 16);
    put_pair(&batch, "medium", "GPU");
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_block_size, 2);
    expect_held(3);
    cr_assert_eq(apply.block_tokens, 16);
}

Test(node_kv_apply, many_first_blocks_of_one_size_prove_it)
{
    put_envelope(&batch, KV_LONE_MAX + 2);
    for (uint64_t i = 0; i <= KV_LONE_MAX; i++) {
        put_stored(&batch, 0, 50 + i, 1, 0, 1 + i, 4);
    }
    put_stored(&batch, 0, 100, 1, 0, 1, 16);
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_block_size, 1);
    expect_held(KV_LONE_MAX + 1);
}

/* ---- bounds, ranks ---- */

/* Stores blocks until the ledger is full; the first hash that has no room. */
static uint64_t
fill_ledger(void)
{
    struct ledger_limits limits = {.bytes_max = (size_t)4 << 20};
    uint64_t hash = 1;

    ledger_free(ledger);
    cr_assert_eq(ledger_new(&ledger, &limits), 0);
    cr_assert_eq(ledger_open(ledger, &stream), 0);
    for (; counter_read(&counters.drop_full) == 0; hash += 1000) {
        cr_assert_lt(hash, 1000000);
        put_envelope(&batch, 1);
        put_stored(&batch, 0, hash, 1000, 0, hash, 1);
        cr_assert_eq(run(), 0);
    }
    EXPECT_COUNT(drop_full, 1);
    return hash - 1000;
}

Test(node_kv_apply, a_full_ledger_drops_and_is_no_damage)
{
    (void)fill_ledger();
    put_envelope(&batch, 1);
    put_stored(&batch, 0, 1, 1, UINT64_MAX, 1, 1); /* never heard of */
    cr_assert_eq(run(), 0);
    EXPECT_COUNT(drop_unknown_parent, 1);
}

Test(node_kv_apply, a_ledger_that_was_full_explains_orphans_for_a_while)
{
    /* Not from where the ledger is full: what was dropped is remembered by one
     * bit, which the last orphan's parent must not share. */
    uint64_t orphan = UINT64_C(1) << 40;

    (void)fill_ledger();
    put_envelope(&batch, 1);
    put_removed_map(&batch, 0, 1, 1000);
    cr_assert_eq(run(), 0);
    for (uint64_t i = 0; i < KV_FULL_EVENTS; i++) {
        put_envelope(&batch, 1);
        put_stored(&batch, 0, orphan + i, 1, UINT64_MAX, 1, 1);
        cr_assert_eq(run(), 0, "the %llu-th", (unsigned long long)i);
        put_envelope(&batch, 2);
        put_stored(&batch, 0, 1, 1, 0, 1, 1);
        put_removed_map(&batch, 0, 1, 1);
        cr_assert_eq(run(), 0);
    }
    put_envelope(&batch, 1);
    put_stored(&batch, 0, 1, 1, UINT64_C(0xfeedfacecafe), 1, 1);
    cr_assert_eq(run(), KV_APPLY_E_DAMAGED);
}

Test(node_kv_apply, a_placeholder_without_room_is_counted)
{
    uint64_t end = fill_ledger();

    for (uint64_t hash = 1; hash < end; hash += 1000) {
        put_envelope(&batch, 1);
        put_stored_map(&batch, 1, hash, 1000, 0, 1, 0);
        put_pair(&batch, "medium", "CPU");
        cr_assert_eq(run(), 0);
    }
    cr_assert_gt(counter_read(&counters.drop_full), 1);
    EXPECT_COUNT(drop_placeholder, 0);
}

Test(node_kv_apply, words_that_do_not_fit_are_damage)
{
    put_envelope(&batch, 2);
    put_stored(&batch, 0, 100, 2, 0, 1, 4);
    put_stored(&batch, 0, 102, 2, 101, 9, 4);
    out.max = 4;
    cr_assert_eq(run(), KV_APPLY_E_DAMAGED);
    cr_assert(out.failed);
    put_envelope(&batch, 1);
    put_stored_map(&batch, 1, 100, 2, 0, 1, 0);
    put_pair(&batch, "medium", "cpu");
    out.max = 3;
    cr_assert_eq(run(), KV_APPLY_E_DAMAGED);
    out.count = 0;
}

Test(node_kv_apply, a_payload_of_another_rank_is_counted)
{
    cr_assert_eq(run_hex(KV_S3), 0); /* says 1 */
    EXPECT_COUNT(rank_mismatch, 0);
    apply.rank = 1;
    cr_assert_eq(run_hex(KV_S3), 0);
    EXPECT_COUNT(rank_mismatch, 0);
    apply.rank = 0;
    cr_assert_eq(run_hex(KV_S3), 0);
    EXPECT_COUNT(rank_mismatch, 1);
    cr_assert_eq(run_hex(KV_S4), 0); /* says nothing */
    EXPECT_COUNT(rank_mismatch, 1);
}
