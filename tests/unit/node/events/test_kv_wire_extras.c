#include <criterion/criterion.h>

#include "node/events/kv_wire_internal.h"
#include "tests/unit/node/events/kv_batch.h"

static struct kv_batch batch;
static size_t at;
static uint64_t media;
static struct slice salt;

static bool
next(bool first, const char *lora)
{
    return kv_extras_next(kv_batch_slice(&batch), &at, first, slice_of(lora),
                          &media, &salt);
}

/* The first block of extras that were written. */
static void
read_block(bool first, const char *lora)
{
    at = 0;
    cr_assert(next(first, lora));
}

/* One block's list, of so many items to follow. */
static void
open_list(unsigned items)
{
    batch.len = 0;
    put_array(&batch, 1);
    put_array(&batch, items);
}

static void
put_placed(const char *identifier, int64_t offset)
{
    put_array(&batch, 2);
    put_text(&batch, identifier);
    put_int(&batch, offset);
}

static void
expect_salt(const char *want)
{
    cr_assert(slice_equal(salt, slice_of(want)), "%.*s", (int)salt.len,
              salt.ptr);
}

Test(node_kv_wire_extras, adapter_medium_and_salt_as_vllm_lists_them)
{
    batch.len = 0;
    put_array(&batch, 2);
    put_array(&batch, 3);
    put_text(&batch, "adapter");
    put_placed("mm-abc", 0);
    put_text(&batch, "salt-1");
    put_array(&batch, 1);
    put_text(&batch, "adapter");
    read_block(true, "adapter");
    cr_assert_eq(media, kv_media_add(0, SLICE("mm-abc"), 0));
    expect_salt("salt-1");
    cr_assert(next(false, "adapter"));
    cr_assert_eq(media, 0);
    expect_salt("");
    cr_assert_not(next(false, "adapter"));
}

Test(node_kv_wire_extras, a_salt_that_is_called_like_the_adapter_is_a_salt)
{
    open_list(2);
    put_text(&batch, "x");
    put_text(&batch, "x");
    read_block(true, "x");
    expect_salt("x");
    cr_assert_eq(media, 0);
}

Test(node_kv_wire_extras, a_string_in_a_later_block_is_media)
{
    open_list(1);
    put_text(&batch, "image-1");
    read_block(false, "");
    expect_salt("");
    cr_assert_neq(media, 0);
    uint64_t first = media;
    open_list(1);
    put_text(&batch, "image-2");
    read_block(false, "");
    cr_assert_neq(media, first);
}

Test(node_kv_wire_extras, of_strings_in_the_first_block_the_last_is_the_salt)
{
    open_list(2);
    put_text(&batch, "image-1");
    put_text(&batch, "salt");
    read_block(true, "");
    expect_salt("salt");
    uint64_t first = media;
    open_list(1);
    put_text(&batch, "image-1");
    read_block(false, "");
    cr_assert_eq(media, first);
}

Test(node_kv_wire_extras, the_offset_and_the_order_set_blocks_apart)
{
    uint64_t digests[4];

    for (int i = 0; i < 4; i++) {
        open_list(2);
        put_placed(i == 1 ? "b" : "a", i == 2 ? -16 : 4);
        put_placed(i == 1 ? "a" : "b", i == 3 ? 9 : 8);
        read_block(false, "");
        digests[i] = media;
        for (int j = 0; j < i; j++) {
            cr_assert_neq(digests[i], digests[j]);
        }
    }
    cr_assert_eq(digests[0],
                 kv_media_add(kv_media_add(0, SLICE("a"), 4), SLICE("b"), 8));
}

Test(node_kv_wire_extras, equal_media_are_equal_however_written)
{
    open_list(1);
    put_placed("image", 3); /* as int 64 */
    read_block(false, "");
    uint64_t first = media;
    open_list(1);
    put_array(&batch, 2);
    put_number(&batch, 0xda, 5, 2);
    put_bytes(&batch, "image", 5);
    put_uint(&batch, 3);
    read_block(false, "");
    cr_assert_eq(media, first);
}

Test(node_kv_wire_extras, embeddings_are_media)
{
    open_list(1);
    put_bin(&batch, "0123456789abcdef0123456789abcdef", 32);
    read_block(true, "");
    cr_assert_neq(media, 0);
    expect_salt("");
}

Test(node_kv_wire_extras, nil_and_the_number_of_an_old_adapter_are_nothing)
{
    batch.len = 0;
    put_array(&batch, 2);
    put_nil(&batch);
    put_array(&batch, 2);
    put_uint(&batch, 7);
    put_nil(&batch);
    read_block(true, "");
    cr_assert_eq(media, 0);
    cr_assert(next(false, ""));
    cr_assert_eq(media, 0);
    cr_assert_not(next(false, ""));
}

Test(node_kv_wire_extras, typed_maps_say_what_they_are)
{
    open_list(3);
    put_map(&batch, 2);
    put_pair(&batch, "type", "lora");
    put_pair(&batch, "name", "ada");
    put_map(&batch, 2);
    put_pair(&batch, "salt", "tenant");
    put_pair(&batch, "type", "cache_salt");
    put_map(&batch, 2);
    put_pair(&batch, "type", "prompt_embeds");
    put_text(&batch, "hash");
    put_bin(&batch, "0123", 4);
    read_block(true, "ada");
    expect_salt("tenant");
    cr_assert_neq(media, 0);
    open_list(1);
    put_map(&batch, 2);
    put_pair(&batch, "type", "cache_salt");
    put_pair(&batch, "salt", "tenant");
    read_block(true, "");
    cr_assert_eq(media, 0);
}

Test(node_kv_wire_extras, what_is_no_list_of_lists_ends_it)
{
    batch.len = 0;
    at = 0;
    cr_assert_not(next(true, ""));
    put_text(&batch, "x");
    cr_assert_not(next(true, ""));
    batch.len = 0;
    put_array(&batch, 2);
    put_nil(&batch);
    put_text(&batch, "x");
    cr_assert(next(true, ""));
    cr_assert_not(next(false, ""));
}

Test(node_kv_wire_extras, cut_short_it_ends)
{
    open_list(4);
    put_text(&batch, "adapter");
    put_placed("image", 1000);
    put_map(&batch, 1);
    put_pair(&batch, "type", "mm");
    put_array(&batch, 2);
    put_nil(&batch);
    put_nil(&batch);
    size_t whole = batch.len;
    read_block(true, "");
    for (batch.len = 0; batch.len < whole; batch.len++) {
        at = 0;
        cr_assert_not(next(true, ""), "%zu", batch.len);
    }
}
