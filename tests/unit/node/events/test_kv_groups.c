/* The groups of a hybrid model: windows beside full attention. */
#include "tests/unit/node/events/kv_apply_rig.h"

#define SIZE 4U

TestSuite(node_kv_groups, .init = kv_apply_open, .fini = kv_apply_close);

static void
run_well(void)
{
    cr_assert_eq(run(), 0);
}

/* Block i of the prompt 1, 2, 3, ... is named 100 + i. */
static uint64_t
block_key(uint32_t block)
{
    uint32_t tokens[16 * SIZE];
    uint64_t keys[16];

    for (uint32_t i = 0; i < 16 * SIZE; i++) {
        tokens[i] = 1 + i;
    }
    (void)key_chain(key_token_root(slice_of(""), slice_of("")), tokens, 16,
                    SIZE * sizeof(uint32_t), keys);
    return keys[block];
}

/* A store of `span` blocks from the first on, of which those from `from` on are
 * kept. */
static void
put_group(uint64_t group, const char *kind, uint32_t window, uint32_t span,
          uint32_t from)
{
    put_map(&batch, window != 0 ? 7 : 6);
    put_pair(&batch, "type", "BlockStored");
    put_text(&batch, "block_hashes");
    put_uints(&batch, 100 + from, span - from);
    put_text(&batch, "token_ids");
    put_uints(&batch, 1, span * SIZE);
    put_text(&batch, "block_size");
    put_uint(&batch, SIZE);
    put_text(&batch, "group_idx");
    put_uint(&batch, group);
    put_pair(&batch, "kv_cache_spec_kind", kind);
    if (window != 0) {
        put_text(&batch, "kv_cache_spec_sliding_window");
        put_uint(&batch, window);
    }
}

static void
put_removed(uint64_t group, uint32_t block)
{
    put_removed_map(&batch, 1, 100 + block, 1);
    put_text(&batch, "group_idx");
    put_uint(&batch, group);
}

static void
put_full(uint64_t group, uint32_t span)
{
    put_group(group, "full_attention", 0, span, 0);
}

/* Whether the last batch stored or removed a key. */
static bool
said(enum event_kind kind, uint64_t key)
{
    for (uint32_t at = 0; at < out.count; at += 1 + event_op_count(words[at])) {
        for (uint32_t i = 1; i <= event_op_count(words[at]); i++) {
            if (event_op_kind(words[at]) == kind && words[at + i] == key) {
                return true;
            }
        }
    }
    return false;
}

static void
expect_counts(uint64_t blocks, uint64_t group, uint64_t parent)
{
    cr_expect_eq(ledger_blocks(ledger, stream), blocks, "%lu",
                 ledger_blocks(ledger, stream));
    cr_expect_eq(counter_read(&counters.drop_group), group);
    cr_expect_eq(counter_read(&counters.drop_unknown_parent), parent);
}

Test(node_kv_groups, windows_are_stored_whether_they_come_first_or_last)
{
    put_envelope(&batch, 3);
    put_group(0, "sliding_window", 8, 4, 2);
    put_full(1, 4);
    put_group(2, "sliding_window", 8, 4, 3);
    run_well();
    cr_assert(said(EVENT_STORE, block_key(3)));
    cr_assert(said(EVENT_STORE, key_in_window(block_key(2), 0)));
    cr_assert(said(EVENT_STORE, key_in_window(block_key(3), 0)));
    cr_assert(said(EVENT_STORE, key_in_window(block_key(3), 1)));
    cr_assert_not(said(EVENT_STORE, key_in_window(block_key(2), 1)));
    cr_assert_eq(kv_apply_shape(&apply), shape_of(SIZE, 2, 2));
    expect_counts(7, 0, 0);
    cr_assert_eq(ledger_holes(ledger, stream), 0);
}

Test(node_kv_groups, a_block_leaves_the_group_that_says_so)
{
    put_envelope(&batch, 2);
    put_full(0, 3);
    put_group(1, "sliding_window", 8, 3, 1);
    run_well();
    put_envelope(&batch, 2);
    put_removed(1, 2);
    put_removed(0, 1);
    run_well();
    cr_assert(said(EVENT_REMOVE, key_in_window(block_key(2), 0)));
    cr_assert(said(EVENT_REMOVE, block_key(1)));
    cr_assert_not(said(EVENT_REMOVE, block_key(2)));
    expect_counts(3, 0, 0);
    put_envelope(&batch, 1);
    put_removed(1, 1);
    run_well();
    cr_assert(said(EVENT_REMOVE, key_in_window(block_key(1), 0)),
              "its name is known though full attention has lost it");
}

Test(node_kv_groups, copies_in_a_window_are_counted)
{
    put_envelope(&batch, 3);
    put_full(0, 2);
    put_group(1, "sliding_window", 8, 2, 1);
    put_group(1, "sliding_window", 8, 2, 1);
    run_well();
    for (int i = 0; i < 2; i++) {
        put_envelope(&batch, 1);
        put_removed(1, 1);
        run_well();
        cr_assert_eq(said(EVENT_REMOVE, key_in_window(block_key(1), 0)),
                     i == 1);
    }
}

Test(node_kv_groups, blocks_that_full_attention_never_stores_are_dropped)
{
    put_envelope(&batch, 3);
    put_group(0, "sliding_window", 8, 4, 2);
    put_full(1, 3);
    put_removed(0, 3);
    run_well();
    cr_assert_eq(counter_read(&counters.unknown_removed), 1);
    expect_counts(4, 0, 1);
}

Test(node_kv_groups, an_empty_store_tells_of_its_group)
{
    put_envelope(&batch, 2);
    put_group(0, "sliding_window", 10, 1, 1);
    put_full(1, 1);
    run_well();
    cr_assert_eq(kv_apply_shape(&apply), shape_of(SIZE, 3, 1));
    expect_counts(1, 0, 0);
}

Test(node_kv_groups, windows_are_counted_in_blocks_as_the_engine_does)
{
    static const uint32_t blocks[][2] = {{1, 0}, {2, 1}, {5, 1},
                                         {6, 2}, {9, 2}, {10, 3}};

    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        apply = (struct kv_apply){.rank = -1};
        put_envelope(&batch, 2);
        put_group(0, "sliding_window", blocks[i][0], 2, 1);
        put_full(1, 2);
        run_well();
        cr_expect_eq(shape_window(kv_apply_shape(&apply)), blocks[i][1],
                     "of %u tokens", blocks[i][0]);
    }
}

Test(node_kv_groups, a_block_in_a_window_is_never_taken_for_the_next_one)
{
    uint64_t key = block_key(0);

    for (uint32_t number = 0; number < SHAPE_WINDOWS_MAX; number++) {
        cr_expect_neq(key_in_window(key, number),
                      key_next(key, &number, sizeof number));
    }
}

Test(node_kv_groups, a_window_of_blocks_of_one_token_is_one_less)
{
    put_envelope(&batch, 2);
    for (uint64_t group = 0; group < 2; group++) {
        put_map(&batch, 7);
        put_pair(&batch, "type", "BlockStored");
        put_text(&batch, "block_hashes");
        put_uints(&batch, 100, 3);
        put_text(&batch, "token_ids");
        put_uints(&batch, 1, 3);
        put_text(&batch, "block_size");
        put_uint(&batch, 1);
        put_text(&batch, "group_idx");
        put_uint(&batch, group);
        put_pair(&batch, "kv_cache_spec_kind",
                 group == 0 ? "full_attention" : "sliding_window");
        put_text(&batch, "kv_cache_spec_sliding_window");
        put_uint(&batch, 7);
    }
    run_well();
    cr_assert_eq(kv_apply_shape(&apply), shape_of(1, 6, 1));
}

Test(node_kv_groups, of_a_state_a_hit_needs_the_last_block)
{
    put_envelope(&batch, 3);
    put_group(0, "mamba", 0, 4, 3);
    put_group(1, "mamba", 0, 4, 2);
    put_full(2, 4);
    run_well();
    cr_assert(said(EVENT_STORE, key_in_window(block_key(3), 0)));
    cr_assert(said(EVENT_STORE, key_in_window(block_key(2), 1)));
    cr_assert_not(said(EVENT_STORE, key_in_window(block_key(2), 0)));
    cr_assert_eq(kv_apply_shape(&apply), shape_of(SIZE, 1, 2));
    expect_counts(7, 0, 0);
    put_envelope(&batch, 1);
    put_removed(0, 3);
    run_well();
    cr_assert(said(EVENT_REMOVE, key_in_window(block_key(3), 0)));
}

Test(node_kv_groups, what_no_rule_is_known_of_makes_the_stream_unruled)
{
    static const struct {
        const char *kind;
        uint32_t window;
    } others[] = {{"mamba", 0}, /* a state beside a window of two blocks */
                  {"chunked_local_attention", 0},
                  {"sliding_window", 0},
                  {"sliding_window", 20}, /* beside another one */
                  {"sliding_window", 1U << 20}};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        apply = (struct kv_apply){.rank = -1};
        put_envelope(&batch, 3);
        put_full(0, 2);
        put_group(1, "sliding_window", 8, 2, 1);
        put_group(2, others[i].kind, others[i].window, 2, 1);
        run_well();
        cr_expect_not(shape_is_ruled(kv_apply_shape(&apply)), "%s",
                      others[i].kind);
        cr_expect_eq(shape_tokens(kv_apply_shape(&apply)), SIZE);
    }
}

Test(node_kv_groups, one_group_has_its_block_size_for_a_shape)
{
    put_envelope(&batch, 1);
    put_full(0, 2);
    run_well();
    cr_assert_eq(kv_apply_shape(&apply), SIZE);
}
