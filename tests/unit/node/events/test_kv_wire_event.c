#include <criterion/criterion.h>

#include "index/base/rng.h"
#include "node/events/kv_wire_internal.h"
#include "tests/unit/node/events/kv_batch.h"
#include "tests/unit/node/events/kv_reader_rig.h"

TestSuite(node_kv_wire_event, .init = setup, .fini = teardown);

Test(node_kv_wire_event, arrays_of_every_length)
{
    static const char *const rest[] = {NULL, "GPU", "ada", NULL};

    for (unsigned slots = 5; slots <= 16; slots++) {
        put_envelope(&batch, 1);
        put_stored(&batch, slots - 5, 1, 2, 0, 1, 4);
        for (unsigned slot = 5; slot < slots; slot++) {
            if (slot == 9) {
                put_uint(&batch, 3);
            } else if (slot == 10) {
                put_text(&batch, "mla_attention");
            } else if (slot == 11) {
                put_uint(&batch, 128);
            } else if (slot < 9 && rest[slot - 5] != NULL) {
                put_text(&batch, rest[slot - 5]);
            } else {
                put_nil(&batch);
            }
        }
        read_one();
        expect_tokens(8, 1, 4);
        expect_text(event.medium, slots > 6 ? "GPU" : "");
        expect_text(event.lora_name, slots > 7 ? "ada" : "");
        cr_assert_eq(event.has_group, slots > 9);
        cr_assert_eq(event.group, slots > 9 ? 3 : 0);
        expect_text(event.spec_kind, slots > 10 ? "mla_attention" : "");
        expect_end(-1);
    }
}

Test(node_kv_wire_event, the_tail_of_an_array_is_told_apart_by_type)
{
    put_envelope(&batch, 2);
    put_stored(&batch, 8, 1, 1, 0, 1, 4); /* media of the publisher's own */
    put_nil(&batch);
    put_text(&batch, "GPU");
    put_nil(&batch);
    put_nil(&batch);
    put_array(&batch, 1);
    put_nil(&batch);
    put_uint(&batch, 2);
    put_text(&batch, "full_attention");
    put_text(&batch, "REMOTE");
    put_stored(&batch, 7, 1, 1, 0, 1, 4); /* no group, but a window */
    for (int i = 0; i < 5; i++) {
        put_nil(&batch);
    }
    put_text(&batch, "sliding_window");
    put_uint(&batch, 128);
    read_one();
    cr_assert(event.has_group);
    cr_assert_eq(event.group, 2);
    expect_text(event.spec_kind, "full_attention");
    expect_text(event.locality, "REMOTE");
    cr_assert_eq(next(), 0);
    cr_assert_not(event.has_group);
    expect_text(event.spec_kind, "sliding_window");
}

Test(node_kv_wire_event, slot_7_that_is_neither_name_nor_map_is_passed_over)
{
    put_envelope(&batch, 2);
    put_stored(&batch, 3, 1, 1, 0, 1, 4);
    put_nil(&batch);
    put_text(&batch, "GPU");
    put_array(&batch, 2);
    put_text(&batch, "full");
    put_text(&batch, "swa");
    put_stored(&batch, 3, 1, 1, 0, 1, 4);
    put_nil(&batch);
    put_text(&batch, "GPU");
    put_map(&batch, 3);
    put_pair(&batch, "session_id", "conv");
    put_pair(&batch, "lora_name", "ada");
    put_pair(&batch, "cache_salt", NULL);
    read_one();
    cr_assert_eq(event.lora_name.len + event.salt.len, 0);
    cr_assert_eq(next(), 0);
    expect_text(event.lora_name, "ada");
    cr_assert_eq(event.salt.len, 0);
    expect_end(-1);
}

Test(node_kv_wire_event, unknown_keys_are_passed_over)
{
    put_envelope(&batch, 1);
    put_stored_map(&batch, 5, 1, 2, 0, 1, 4);
    put_text(&batch, "block_offsets");
    put_uints(&batch, 0, 2);
    put_pair(&batch, "origin", "NEW");
    put_pair(&batch, "ownership", "kvcr");
    put_uint(&batch, 12);
    put_uint(&batch, 13);
    put_array(&batch, 1);
    put_nil(&batch);
    put_nil(&batch);
    read_one();
    expect_tokens(8, 1, 4);
    expect_end(-1);
}

Test(node_kv_wire_event, of_a_key_that_comes_twice_the_last_counts)
{
    put_envelope(&batch, 1);
    put_map(&batch, 13);
    put_pair(&batch, "type", "AllBlocksCleared");
    put_pair(&batch, "medium", "GPU");
    put_pair(&batch, "token_ids", "wrong");
    put_text(&batch, "parent_block_hash");
    put_uint(&batch, 77);
    put_text(&batch, "group_idx");
    put_uint(&batch, 1);
    put_text(&batch, "block_hashes");
    put_uints(&batch, 50, 3);
    put_pair(&batch, "type", "BlockStored");
    put_pair(&batch, "medium", NULL);
    put_text(&batch, "token_ids");
    put_uints(&batch, 1, 4);
    put_pair(&batch, "parent_block_hash", NULL);
    put_pair(&batch, "group_idx", NULL);
    put_text(&batch, "block_hashes");
    put_uints(&batch, 9, 1);
    put_text(&batch, "block_size");
    put_uint(&batch, 4);
    read_one();
    cr_assert_eq(event.kind, KV_STORED);
    expect_hashes(1, 9, 0);
    expect_tokens(4, 1, 4);
    cr_assert_not(event.has_parent || event.has_group);
    cr_assert_eq(event.medium.len, 0);
    expect_end(-1);
}

Test(node_kv_wire_event, hashes_of_every_kind)
{
    put_envelope(&batch, 2);
    put_removed_map(&batch, 1, 1, 1);
    put_text(&batch, "block_hashes");
    put_array(&batch, 7);
    put_byte(&batch, 0xff); /* -1 */
    put_number(&batch, 0xd0, 0x80, 1);
    put_int(&batch, 5);
    put_bin(&batch, "\1\2", 2);
    put_bin(&batch, "0123456789abcdef", 16);
    put_text(&batch, "xx01234567");
    put_uint(&batch, 300);
    put_removed_map(&batch, 1, 1, 1);
    put_text(&batch, "block_hashes");
    put_array(&batch, 1);
    put_bin(&batch, "", 0);
    read_one();
    cr_assert_eq(event.hashes_count, 7);
    cr_assert_eq(event.hashes[0], UINT64_MAX);
    cr_assert_eq(event.hashes[1], (uint64_t)INT64_C(-128));
    cr_assert_eq(event.hashes[2], 5);
    cr_assert_eq(event.hashes[3], 0x102);
    cr_assert_eq(event.hashes[4], UINT64_C(0x3839616263646566));
    cr_assert_eq(event.hashes[5], UINT64_C(0x3031323334353637));
    cr_assert_eq(event.hashes[6], 300);
    expect_skipped(KV_FAULT_MALFORMED);
}

Test(node_kv_wire_event, tokens_of_every_width)
{
    static const uint32_t want[] = {
        0,     127,        128,        255,       256,  65535, 65536,
        70000, 2147483647, 4294967295, 151643,    7,    40000, 200,
        8,     9,          4000000000, 100000000, 1024, 3,     2};
    unsigned count = sizeof want / sizeof *want;

    put_envelope(&batch, 1);
    put_array(&batch, 5);
    put_text(&batch, "BlockStored");
    put_uints(&batch, 1, 1);
    put_nil(&batch);
    put_array(&batch, count + 2);
    for (unsigned i = 0; i < count; i++) {
        put_uint(&batch, want[i]);
    }
    put_int(&batch, 5); /* wider than it need be, and signed */
    put_number(&batch, 0xcf, 6, 8);
    put_uint(&batch, count + 2);
    read_one();
    cr_assert_eq(event.tokens_count, count + 2);
    for (unsigned i = 0; i < count; i++) {
        cr_assert_eq(event.tokens[i], want[i]);
    }
    cr_assert_eq(event.tokens[count], 5);
    cr_assert_eq(event.tokens[count + 1], 6);
}

static uint64_t
token_of(struct rng *rng)
{
    static const uint64_t bounds[] = {0, 128, 256, 65536, UINT64_C(1) << 32};
    uint64_t width = rng_below(rng, 4);

    return bounds[width] + rng_below(rng, bounds[width + 1] - bounds[width]);
}

/* One block of count random tokens, of which the odd one (none: count) is
 * below zero. */
static void
put_random_tokens(struct rng *rng, unsigned count, unsigned odd, uint32_t *want)
{
    put_envelope(&batch, 1);
    put_array(&batch, 5);
    put_text(&batch, "BlockStored");
    put_uints(&batch, 1, 1);
    put_nil(&batch);
    put_array(&batch, count);
    for (unsigned i = 0; i < count; i++) {
        uint64_t token = token_of(rng);
        want[i] = (uint32_t)token;
        if (i == odd) {
            put_byte(&batch, 0xe0 + (unsigned)(token & 31));
        } else {
            put_uint(&batch, token);
        }
    }
    put_uint(&batch, count);
}

Test(node_kv_wire_event, widths_that_change_at_random)
{
    struct rng rng;
    uint32_t want[100];

    rng_init(&rng, 1);
    for (unsigned round = 0; round < 20000; round++) {
        unsigned count = 1 + round % 100;
        put_random_tokens(&rng, count, count, want);
        read_one();
        cr_assert_eq(event.tokens_count, count);
        cr_assert_eq(memcmp(event.tokens, want, count * sizeof *want), 0,
                     "round %u", round);
    }
}

Test(node_kv_wire_event, a_cell_that_is_none_is_seen_wherever_it_is)
{
    struct rng rng;
    uint32_t want[100];

    rng_init(&rng, 1);
    for (unsigned round = 0; round < 5000; round++) {
        unsigned count = 1 + round % 100;
        put_random_tokens(&rng, count, (unsigned)rng_below(&rng, count), want);
        begin();
        expect_skipped(KV_FAULT_MALFORMED);
        expect_end(-1);
    }
}

/* An event with four cells, of which the last is written by the caller. */
static void
put_four_cells(void)
{
    put_array(&batch, 5);
    put_text(&batch, "BlockStored");
    put_uints(&batch, 1, 1);
    put_nil(&batch);
    put_array(&batch, 4);
    for (uint64_t i = 1; i < 4; i++) {
        put_uint(&batch, i);
    }
}

Test(node_kv_wire_event, a_string_among_the_tokens_makes_them_opaque)
{
    put_envelope(&batch, 1);
    put_four_cells();
    put_text(&batch, "image");
    put_uint(&batch, 4);
    read_one();
    cr_assert(event.tokens_opaque);
    cr_assert_eq(event.tokens_count, 4);
    expect_end(-1);
}

Test(node_kv_wire_event, cells_that_are_no_tokens_cost_the_event)
{
    put_envelope(&batch, 9);
    for (int i = 0; i < 8; i++) {
        put_four_cells();
        if (i == 0) {
            put_byte(&batch, 0xff); /* below zero */
        } else if (i == 1) {
            put_number(&batch, 0xcf, UINT64_C(1) << 32, 8);
        } else if (i == 2) {
            put_nil(&batch);
        } else if (i == 3) {
            put_byte(&batch, 0xc3); /* true */
        } else if (i == 4) {
            put_number(&batch, 0xca, 0, 4);
        } else if (i == 5) {
            put_uints(&batch, 4, 3);
        } else if (i == 6) {
            put_uints(&batch, 4, 2); /* a pair among numbers */
        } else {
            put_bin(&batch, "1", 1);
        }
        put_uint(&batch, 4);
    }
    put_cleared(&batch);
    begin();
    for (int i = 0; i < 8; i++) {
        expect_skipped(KV_FAULT_MALFORMED);
    }
    expect_cleared();
}

Test(node_kv_wire_event, remaining_copies_are_told_where_they_align)
{
    put_envelope(&batch, 4);
    for (unsigned i = 0; i < 4; i++) {
        put_removed_map(&batch, 2, 5, 2);
        put_text(&batch, "remaining_copy_counts");
        if (i == 3) {
            put_text(&batch, "many");
        } else {
            put_uints(&batch, 0, i + 1);
        }
        put_pair(&batch, "medium", "cpu");
    }
    begin();
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(next(), 0);
        cr_assert_eq(event.remaining != NULL, i == 1);
        if (i == 1) {
            cr_assert_eq(event.remaining[0], 0);
            cr_assert_eq(event.remaining[1], 1);
        }
        expect_text(event.medium, "cpu");
    }
    expect_end(-1);
}

/* As a fork of SGLang has: kind, component, the snapshot's version, medium. */
Test(node_kv_wire_event, a_removal_s_fourth_element_is_a_locality_or_nothing)
{
    put_envelope(&batch, 2);
    for (unsigned i = 0; i < 2; i++) {
        put_array(&batch, 6);
        put_text(&batch, "BlockRemoved");
        put_uints(&batch, 5, 2);
        put_text(&batch, "full");
        put_uint(&batch, 0);
        if (i == 0) {
            put_text(&batch, "REMOTE");
        } else {
            put_uint(&batch, 7);
        }
        put_text(&batch, "GPU");
    }
    begin();
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(next(), 0);
        cr_assert_eq(event.kind, KV_REMOVED);
        cr_assert_eq(event.hashes_count, 2);
        expect_text(event.locality, i == 0 ? "REMOTE" : "");
    }
    expect_end(-1);
}

Test(node_kv_wire_event, a_removal_tells_nothing_that_only_stores_have)
{
    put_envelope(&batch, 1);
    put_removed_map(&batch, 3, 5, 2);
    put_text(&batch, "token_ids");
    put_uints(&batch, 1, 4);
    put_pair(&batch, "cache_salt", "salt");
    put_text(&batch, "block_size");
    put_text(&batch, "of no interest here");
    read_one();
    cr_assert_eq(event.kind, KV_REMOVED);
    cr_assert_eq(event.tokens_count + event.salt.len, 0);
}

Test(node_kv_wire_event, tensorrt_llm_has_its_media_in_mm_keys)
{
    put_envelope(&batch, 1);
    put_stored_map(&batch, 2, 1, 1, 0, 1, 4);
    put_pair(&batch, "lora_name", NULL);
    put_text(&batch, "mm_keys");
    put_array(&batch, 1);
    put_array(&batch, 1);
    put_map(&batch, 3);
    put_pair(&batch, "type", "mm_key");
    put_pair(&batch, "hash", "00ff");
    put_text(&batch, "start_offset");
    put_uint(&batch, 0);
    read_one();
    cr_assert_eq((uint8_t)event.extras.ptr[0], 0x91);
}

Test(node_kv_wire_event, an_events_offset_is_told)
{
    size_t at;

    put_envelope(&batch, 2);
    put_cleared(&batch);
    size_t second = batch.len;
    put_cleared(&batch);
    begin();
    cr_assert_eq(kv_reader_next(reader, &event, &fault, &at), 0);
    cr_assert_eq(at, 11);
    cr_assert_eq(kv_reader_next(reader, &event, &fault, &at), 0);
    cr_assert_eq(at, second);
}
