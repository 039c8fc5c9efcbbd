#include <criterion/criterion.h>

#include <stdlib.h>

#include "index/shape.h"
#include "node/events/kv_wire_internal.h"
#include "tests/unit/node/events/kv_batch.h"
#include "tests/unit/node/events/kv_reader_rig.h"
#include "tests/unit/node/events/kv_vectors.h"

#define A  UINT64_C(0x84b146b151d55111)
#define B  UINT64_C(0xd43b57df56b58fb1)
#define S  UINT64_C(0xcf97adeedb59e05b) /* -3488128144981237669 */
#define S2 UINT64_C(5674439469042975057)

TestSuite(node_kv_wire, .init = setup, .fini = teardown);

Test(node_kv_wire, vllm_arrays_of_the_first_release)
{
    begin_hex(KV_V1);
    cr_assert_eq(next(), 0);
    cr_assert_eq(event.kind, KV_STORED);
    expect_hashes(2, A, B);
    expect_tokens(8, 1, 4);
    cr_assert_not(event.has_parent);
    cr_assert_not(event.has_lora_id);
    cr_assert_not(event.has_group);
    cr_assert_eq(event.medium.len + event.lora_name.len + event.extras.len, 0);
    expect_removed(B);
    expect_cleared();
    expect_end(-1);
    cr_assert_eq(kv_reader_bytes(reader), 97);
}

Test(node_kv_wire, vllm_arrays_with_all_slots)
{
    begin_hex(KV_V2);
    cr_assert_eq(next(), 0);
    expect_hashes(2, A, B);
    expect_tokens(8, 1, 4);
    cr_assert(event.has_lora_id);
    cr_assert_eq(event.lora_id, 7);
    expect_text(event.medium, "GPU");
    expect_text(event.lora_name, "adapter");
    expect_text(event.spec_kind, "full_attention");
    cr_assert(event.has_group);
    cr_assert_eq(event.group, 0);
    cr_assert_gt(event.extras.len, 0);
    cr_assert_eq((uint8_t)event.extras.ptr[0], 0x92);
    expect_removed(B);
    expect_text(event.medium, "GPU");
    cr_assert(event.has_group);
    expect_end(0);
}

Test(node_kv_wire, vllm_maps)
{
    begin_hex(KV_V3);
    cr_assert_eq(next(), 0);
    cr_assert_eq(event.kind, KV_STORED);
    expect_hashes(2, A, B);
    expect_tokens(8, 1, 4);
    cr_assert_not(event.has_parent);
    expect_text(event.medium, "GPU");
    expect_text(event.spec_kind, "full_attention");
    cr_assert(event.has_group);
    expect_removed(B);
    cr_assert(event.has_group);
    expect_cleared();
    expect_end(0);
}

Test(node_kv_wire, hashes_as_bytes_are_those_as_numbers)
{
    begin_hex(KV_V3B);
    cr_assert_eq(next(), 0);
    expect_hashes(1, B, 0);
    cr_assert(event.has_parent);
    cr_assert_eq(event.parent, A);
    expect_tokens(4, 5, 4);
    expect_end(3);
}

Test(node_kv_wire, a_placeholder_is_an_event_without_tokens)
{
    begin_hex(KV_V4);
    cr_assert_eq(next(), 0);
    cr_assert_eq(event.kind, KV_STORED);
    expect_hashes(1, A, 0);
    expect_tokens(0, 0, 0);
    expect_text(event.medium, "CPU");
    expect_end(0);
}

Test(node_kv_wire, a_map_is_an_envelope_too)
{
    begin_hex(KV_V5);
    expect_cleared();
    expect_end(0);
}

Test(node_kv_wire, sglang_arrays_with_signed_hashes)
{
    begin_hex(KV_S1);
    cr_assert_eq(next(), 0);
    expect_hashes(1, S, 0);
    expect_tokens(4, 1, 4);
    expect_text(event.medium, "GPU");
    expect_removed(S);
    expect_end(0);
}

Test(node_kv_wire, sglang_keeps_its_salt_in_slot_7)
{
    begin_hex(KV_S2);
    cr_assert_eq(next(), 0);
    expect_hashes(1, UINT64_C(0x339927f491605c4b), 0);
    expect_text(event.salt, "tenant-a");
    cr_assert_eq(event.lora_name.len, 0);
    expect_end(0);
}

Test(node_kv_wire, sglang_maps)
{
    begin_hex(KV_S3);
    cr_assert_eq(next(), 0);
    expect_hashes(2, S, S2);
    expect_tokens(8, 1, 4);
    cr_assert_eq(next(), 0);
    cr_assert_eq(event.kind, KV_REMOVED);
    expect_hashes(2, S, S2);
    expect_end(1);
}

Test(node_kv_wire, of_a_bigram_the_first_counts)
{
    begin_hex(KV_S4);
    cr_assert_eq(next(), 0);
    expect_hashes(1, UINT64_C(0xf721fe42aac11dcb), 0);
    expect_tokens(4, 1, 4);
    cr_assert_eq(event.ahead, 1);
    cr_assert_eq(event.ahead_tokens[0], 5, "and the last second");
    cr_assert(event.pairs);
    expect_text(event.medium, "CPU_PINNED");
    expect_end(-1);
}

Test(node_kv_wire, of_bigrams_each_block_ends_where_the_next_begins)
{
    put_envelope(&batch, 1);
    put_map(&batch, 4);
    put_pair(&batch, "type", "BlockStored");
    put_text(&batch, "block_hashes");
    put_uints(&batch, 7, 2);
    put_text(&batch, "token_ids");
    put_array(&batch, 4);
    for (unsigned i = 0; i < 4; i++) {
        put_uints(&batch, 10 + i, 2);
    }
    put_text(&batch, "block_size");
    put_uint(&batch, 2);
    begin();
    cr_assert_eq(next(), 0);
    expect_tokens(4, 10, 2);
    cr_assert_eq(event.ahead, 1);
    cr_assert_eq(event.ahead_tokens[0], 12);
    cr_assert_eq(event.ahead_tokens[1], 14);
    expect_end(-1);
}

/* Two blocks of two tokens, and lists of tokens ahead to follow. */
static void
put_blocks_ahead(unsigned lists)
{
    put_envelope(&batch, 1);
    put_stored_map(&batch, 1, 7, 2, 0, 10, 2);
    put_text(&batch, "lookahead_token_ids");
    put_array(&batch, lists);
}

Test(node_kv_wire, tokens_ahead_are_told_block_by_block)
{
    put_blocks_ahead(2);
    put_uints(&batch, 12, 3);
    put_uints(&batch, 70000, 3);
    begin();
    cr_assert_eq(next(), 0);
    cr_assert_eq(event.ahead, 3);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(event.ahead_tokens[i], 12 + i);
        cr_assert_eq(event.ahead_tokens[3 + i], 70000 + i);
    }
    expect_end(-1);
    put_blocks_ahead(2);
    put_array(&batch, 0);
    put_array(&batch, 0);
    begin();
    cr_assert_eq(next(), 0);
    cr_assert_eq(event.ahead, 0, "lists of nothing");
    expect_end(-1);
}

Test(node_kv_wire, tokens_ahead_are_as_many_for_each_block)
{
    put_blocks_ahead(1);
    put_uints(&batch, 12, 1);
    begin();
    expect_skipped(KV_FAULT_UNALIGNED);
    cr_assert_eq(event.ahead, 0);
    expect_end(-1);
    put_blocks_ahead(2);
    put_uints(&batch, 12, 1);
    put_uints(&batch, 14, 2);
    begin();
    expect_skipped(KV_FAULT_MALFORMED);
    expect_end(-1);
    put_blocks_ahead(2);
    put_uints(&batch, 12, 1);
    put_array(&batch, 1);
    put_text(&batch, "x");
    begin();
    expect_skipped(KV_FAULT_MALFORMED);
    expect_end(-1);
    put_blocks_ahead(2);
    put_uint(&batch, 1);
    put_uint(&batch, 2);
    begin();
    expect_skipped(KV_FAULT_MALFORMED);
    expect_end(-1);
}

Test(node_kv_wire, of_too_many_tokens_ahead_only_the_number_is_read)
{
    put_blocks_ahead(2);
    put_uints(&batch, 12, SHAPE_AHEAD_MAX + 1);
    put_uints(&batch, 14, SHAPE_AHEAD_MAX + 1);
    begin();
    cr_assert_eq(next(), 0);
    cr_assert_eq(event.ahead, SHAPE_AHEAD_MAX + 1);
    expect_end(-1);
}

/* ---- envelopes ---- */

Test(node_kv_wire, elements_behind_the_rank_are_passed_over)
{
    put_array(&batch, 5);
    put_uint(&batch, 1700000000); /* the time may be whole */
    put_array(&batch, 1);
    put_cleared(&batch);
    put_uint(&batch, 300);
    put_map(&batch, 1);
    put_pair(&batch, "new", "thing");
    put_nil(&batch);
    begin();
    expect_cleared();
    expect_end(300);
}

Test(node_kv_wire, a_map_envelope_has_its_keys_in_any_order)
{
    put_map(&batch, 5);
    put_text(&batch, "attn_dp_rank");
    put_uint(&batch, 5);
    put_text(&batch, "events");
    put_array(&batch, 0);
    put_uint(&batch, 7); /* a key that is no string */
    put_array(&batch, 0);
    put_text(&batch, "events"); /* the last one counts */
    put_array(&batch, 1);
    put_cleared(&batch);
    put_text(&batch, "version");
    put_uint(&batch, 9);
    begin();
    expect_cleared();
    expect_end(5);
}

Test(node_kv_wire, what_is_no_envelope_is_refused)
{
    static const char *const wrong[] = {"",     "c0",     "90",     "9100",
                                        "9200", "920001", "92c190", "80",
                                        "81a6", "9200c1", "9290"};
    unsigned byte;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        batch.len = 0;
        for (const char *hex = wrong[i]; sscanf(hex, "%2x", &byte) == 1;
             hex += 2) {
            put_byte(&batch, byte);
        }
        cr_assert_eq(kv_reader_begin(reader, kv_batch_slice(&batch)),
                     KV_E_PAYLOAD, "%s", wrong[i]);
        cr_assert_eq(next(), KV_E_PAYLOAD);
        cr_assert_eq(fault, KV_FAULT_MALFORMED);
    }
}

Test(node_kv_wire, a_payload_over_the_bound_is_refused)
{
    struct kv_limits limits = KV_LIMITS_DEFAULT;

    kv_reader_free(reader);
    limits.payload_bytes_max = 38;
    cr_assert_eq(kv_reader_new(&reader, &limits), 0);
    put_envelope(&batch, 1);
    put_cleared(&batch);
    begin();
    put_bytes(&batch, "0123456789", 10);
    cr_assert_eq(kv_reader_begin(reader, kv_batch_slice(&batch)), KV_E_PAYLOAD);
}

Test(node_kv_wire, bytes_behind_the_batch_are_a_fault_after_its_events)
{
    put_envelope(&batch, 1);
    put_cleared(&batch);
    put_byte(&batch, 0);
    begin();
    expect_cleared();
    cr_assert_eq(next(), KV_E_PAYLOAD);
}

Test(node_kv_wire, events_before_a_cut_are_read)
{
    put_envelope(&batch, 2);
    put_stored(&batch, 1, 1, 2, 0, 1, 4);
    put_nil(&batch);
    size_t first = batch.len;
    put_stored_map(&batch, 0, 100, 2, 2, 70000, 4);
    for (size_t cut = batch.len - 1; cut > first; cut--) {
        /* A copy of its own, for a sanitizer to see what is read behind. */
        char *copy = malloc(cut);
        memcpy(copy, batch.bytes, cut);
        cr_assert_eq(kv_reader_begin(reader, (struct slice){copy, cut}), 0);
        cr_assert_eq(next(), 0);
        expect_hashes(2, 1, 2);
        cr_assert_eq(next(), KV_E_PAYLOAD, "%zu", cut);
        cr_assert_eq(next(), KV_E_PAYLOAD);
        free(copy);
    }
}

Test(node_kv_wire, a_count_beyond_the_bytes_allocates_nothing)
{
    put_envelope(&batch, 1);
    put_array(&batch, 4);
    put_text(&batch, "BlockStored");
    put_uints(&batch, 1, 1);
    put_nil(&batch);
    put_number(&batch, 0xdd, 100000000, 4);
    begin();
    cr_assert_eq(next(), KV_E_PAYLOAD);
}

/* ---- one bad event costs that event ---- */

Test(node_kv_wire, an_unknown_tag_between_two_good_events)
{
    put_envelope(&batch, 4);
    put_stored(&batch, 1, 1, 1, 0, 1, 4);
    put_nil(&batch);
    put_array(&batch, 3);
    put_text(&batch, "BlockMoved");
    put_uints(&batch, 0, 30);
    put_map(&batch, 1);
    put_pair(&batch, "a", "b");
    put_map(&batch, 2);
    put_pair(&batch, "type", "BlockPinned");
    put_pair(&batch, "block_hashes", "nonsense");
    put_cleared(&batch);
    begin();
    cr_assert_eq(next(), 0);
    expect_skipped(KV_FAULT_UNKNOWN_TYPE);
    expect_skipped(KV_FAULT_UNKNOWN_TYPE);
    expect_cleared();
    expect_end(-1);
}

Test(node_kv_wire, things_that_are_no_events_are_passed_over)
{
    put_envelope(&batch, 7);
    put_nil(&batch);
    put_text(&batch, "BlockStored");
    put_array(&batch, 0);
    put_map(&batch, 0);
    put_array(&batch, 2); /* its tag is a number */
    put_uint(&batch, 1);
    put_uints(&batch, 1, 3);
    put_map(&batch, 1);
    put_pair(&batch, "type", NULL);
    put_cleared(&batch);
    begin();
    for (int i = 0; i < 6; i++) {
        expect_skipped(KV_FAULT_MALFORMED);
    }
    expect_cleared();
    expect_end(-1);
}

Test(node_kv_wire, a_field_of_the_wrong_type_costs_the_event)
{
    static const char *const fields[] = {
        "block_hashes",      "parent_block_hash", "token_ids",
        "block_size",        "lora_id",           "medium",
        "lora_name",         "extra_keys",        "mm_keys",
        "group_idx",         "cache_salt",        "locality",
        "kv_cache_spec_kind"};
    unsigned count = sizeof fields / sizeof *fields;

    put_envelope(&batch, count + 1);
    for (unsigned i = 0; i < count; i++) {
        put_stored_map(&batch, 1, 1, 2, 0, 1, 4);
        put_text(&batch, fields[i]);
        put_map(&batch, 1);
        put_pair(&batch, "a", "b");
    }
    put_cleared(&batch);
    begin();
    for (unsigned i = 0; i < count; i++) {
        cr_assert_eq(next(), KV_E_SKIPPED, "%s", fields[i]);
        cr_assert_eq(fault, KV_FAULT_MALFORMED, "%s", fields[i]);
    }
    expect_cleared();
}

Test(node_kv_wire, a_field_that_is_required_and_missing_costs_the_event)
{
    put_envelope(&batch, 5);
    for (unsigned slots = 2; slots <= 4; slots++) {
        put_array(&batch, slots);
        put_text(&batch, "BlockStored");
        put_uints(&batch, 1, 1);
        if (slots > 2) {
            put_nil(&batch);
        }
        if (slots > 3) {
            put_uints(&batch, 1, 4);
        }
    }
    put_array(&batch, 1);
    put_text(&batch, "BlockRemoved");
    put_map(&batch, 1);
    put_pair(&batch, "type", "BlockStored");
    begin();
    for (int i = 0; i < 5; i++) {
        expect_skipped(KV_FAULT_MALFORMED);
    }
    expect_end(-1);
}

Test(node_kv_wire, tokens_that_do_not_fill_the_blocks_are_told)
{
    put_envelope(&batch, 3);
    put_stored_map(&batch, 2, 1, 2, 0, 1, 4);
    put_text(&batch, "block_hashes"); /* a sparse window: one of two */
    put_uints(&batch, 9, 1);
    put_pair(&batch, "kv_cache_spec_kind", "sliding_window");
    put_stored_map(&batch, 1, 1, 2, 0, 1, 4);
    put_text(&batch, "block_size");
    put_uint(&batch, 0);
    put_stored_map(&batch, 1, 1, 2, 0, 1, 4);
    put_text(&batch, "block_hashes");
    put_array(&batch, 0);
    begin();
    expect_skipped(KV_FAULT_UNALIGNED);
    expect_text(event.spec_kind, "sliding_window");
    expect_hashes(1, 9, 0);
    expect_skipped(KV_FAULT_UNALIGNED);
    expect_skipped(KV_FAULT_UNALIGNED);
    expect_end(-1);
}

Test(node_kv_wire, a_store_with_a_hash_twice_or_its_own_parent_is_told)
{
    put_envelope(&batch, 4);
    put_stored(&batch, 0, 5, 2, 6, 1, 4); /* 5, 6 below 6 */
    for (int i = 0; i < 2; i++) {
        put_stored_map(&batch, 1, 1, 40, 0, 1, 2);
        put_text(&batch, "block_hashes");
        put_array(&batch, 40);
        for (uint64_t n = 0; n < 40; n++) {
            /* All of them in one slot of a table, all but one different. */
            put_uint(&batch, i == 0 && n == 39 ? 17 : n << 56 | 17);
        }
    }
    put_removed_map(&batch, 1, 1, 1);
    put_text(&batch, "block_hashes"); /* two copies are gone: no fault */
    put_array(&batch, 2);
    put_uint(&batch, 5);
    put_uint(&batch, 5);
    begin();
    expect_skipped(KV_FAULT_REPEATED);
    expect_skipped(KV_FAULT_REPEATED);
    cr_assert_eq(next(), 0);
    cr_assert_eq(next(), 0);
    expect_hashes(2, 5, 5);
    expect_end(-1);
}

Test(node_kv_wire, hashes_chosen_to_collide_cost_no_more_than_sorting)
{
    uint64_t inverse = UINT64_C(0xf1de83e19937733d); /* of the table's factor */

    for (unsigned repeated = 0; repeated < 2; repeated++) {
        put_envelope(&batch, 1);
        put_stored_map(&batch, 1, 1, 4000, 0, 1, 1);
        put_text(&batch, "block_hashes");
        put_array(&batch, 4000);
        for (uint64_t n = 0; n < 4000; n++) {
            put_uint(&batch, (n - (n == 3999 ? repeated : 0)) * inverse);
        }
        begin();
        cr_assert_eq(next(), repeated ? KV_E_SKIPPED : 0);
        cr_assert_eq(fault, repeated ? KV_FAULT_REPEATED : KV_FAULT_NONE);
    }
}

Test(node_kv_wire, more_than_the_limits_costs_the_event)
{
    struct kv_limits limits = KV_LIMITS_DEFAULT;

    kv_reader_free(reader);
    limits.hashes_max = 3;
    limits.tokens_max = 12;
    cr_assert_eq(kv_reader_new(&reader, &limits), 0);
    put_envelope(&batch, 3);
    put_stored(&batch, 0, 1, 3, 0, 1, 4);
    put_stored(&batch, 0, 1, 4, 0, 1, 1);
    put_stored(&batch, 0, 1, 1, 0, 1, 13);
    begin();
    cr_assert_eq(next(), 0);
    expect_skipped(KV_FAULT_MALFORMED);
    expect_skipped(KV_FAULT_MALFORMED);
    expect_end(-1);
}

/* An event whose deepest container lies at this level; the event is at 3. */
static void
put_deep(unsigned level)
{
    put_array(&batch, 2);
    put_text(&batch, "AllBlocksCleared");
    for (unsigned i = 4; i < level; i++) {
        put_array(&batch, 1);
    }
    put_array(&batch, 0);
}

Test(node_kv_wire, nesting_over_the_bound_costs_the_event)
{
    put_envelope(&batch, 4);
    put_deep(16);
    put_deep(17);
    put_deep(40000);
    put_cleared(&batch);
    begin();
    expect_cleared();
    expect_skipped(KV_FAULT_MALFORMED);
    expect_skipped(KV_FAULT_MALFORMED);
    expect_cleared();
    expect_end(-1);
}

/* Whether the reader tells of the hash before its event is read. */
static bool
is_ahead(uint64_t hash)
{
    uint64_t hashes[8];
    uint32_t count = kv_reader_ahead(reader, hashes, 8);

    for (uint32_t i = 0; i < count; i++) {
        if (hashes[i] == hash) {
            return true;
        }
    }
    return false;
}

Test(node_kv_wire, hashes_to_come_are_told_once_one_was_read)
{
    begin_hex(KV_V1);
    cr_assert_not(is_ahead(B)); /* how they begin is not known yet */
    cr_assert_eq(next(), 0);
    cr_assert(is_ahead(B));
    cr_assert_not(is_ahead(B));
    expect_removed(B);
    expect_cleared();
    expect_end(-1);
    cr_assert_not(is_ahead(B));
}

Test(node_kv_wire, a_payload_read_again_tells_its_hashes_again)
{
    begin_hex(KV_V3B);
    cr_assert_eq(next(), 0);
    begin_hex(KV_V3B);
    cr_assert(is_ahead(B));
}
