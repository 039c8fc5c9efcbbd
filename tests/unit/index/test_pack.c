/* What is written, msgpack-c reads as the same; what is read keeps its bounds. */
#include <criterion/criterion.h>
#include <msgpack.h>

#include "index/base/pack.h"

static struct buf out;

static void
setup(void)
{
    buf_init(&out, 1 << 20);
}

static void
teardown(void)
{
    buf_fini(&out);
}

TestSuite(base_pack, .init = setup, .fini = teardown);

/* Reads one object that must take all bytes, and compares the bytes with the
 * library's own, which are the shortest. */
static msgpack_object
read_back(msgpack_unpacked *unpacked)
{
    size_t at = 0;

    msgpack_unpacked_init(unpacked);
    cr_assert_eq(msgpack_unpack_next(unpacked, out.ptr, out.len, &at),
                 MSGPACK_UNPACK_SUCCESS);
    cr_assert_eq(at, out.len);
    msgpack_sbuffer again;
    msgpack_packer packer;
    msgpack_sbuffer_init(&again);
    msgpack_packer_init(&packer, &again, msgpack_sbuffer_write);
    msgpack_pack_object(&packer, unpacked->data);
    cr_assert_eq(again.size, out.len);
    cr_assert_eq(memcmp(again.data, out.ptr, out.len), 0);
    msgpack_sbuffer_destroy(&again);
    return unpacked->data;
}

Test(base_pack, numbers_take_their_shortest_form)
{
    msgpack_unpacked u;

    for (int bit = 0; bit < 64; bit++) {
        for (int off = -1; off <= 1; off++) {
            uint64_t number = (UINT64_C(1) << bit) + (uint64_t)off;
            buf_clear(&out);
            pack_uint(&out, number);
            cr_assert_eq(read_back(&u).via.u64, number);
            msgpack_unpacked_destroy(&u);
            int64_t negative = (int64_t)(UINT64_C(0) - number);
            buf_clear(&out);
            pack_int(&out, negative);
            cr_assert_eq(read_back(&u).via.i64, negative);
            msgpack_unpacked_destroy(&u);
        }
    }
}

Test(base_pack, texts_bytes_and_lists_are_as_long_as_they_say)
{
    static const uint32_t lens[] = {0,   1,   15,   16,    31,    32,
                                    255, 256, 1000, 65535, 65536, 70000};
    static char bytes[70000];
    msgpack_unpacked u;

    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        struct slice s = {bytes, lens[i]};
        buf_clear(&out);
        pack_text(&out, s);
        cr_assert_eq(read_back(&u).via.str.size, lens[i]);
        msgpack_unpacked_destroy(&u);
        buf_clear(&out);
        pack_bytes(&out, s);
        cr_assert_eq(read_back(&u).via.bin.size, lens[i]);
        msgpack_unpacked_destroy(&u);
        buf_clear(&out);
        pack_array(&out, lens[i]);
        for (uint32_t e = 0; e < lens[i]; e++) {
            pack_nil(&out);
        }
        cr_assert_eq(read_back(&u).via.array.size, lens[i]);
        msgpack_unpacked_destroy(&u);
        buf_clear(&out);
        pack_map(&out, lens[i]);
        for (uint32_t e = 0; e < 2 * lens[i]; e++) {
            pack_uint(&out, e & 1);
        }
        cr_assert_eq(read_back(&u).via.map.size, lens[i]);
        msgpack_unpacked_destroy(&u);
    }
}

Test(base_pack, a_real_is_64_bits)
{
    msgpack_unpacked u;

    pack_real(&out, 1700000000.5);
    cr_assert_eq(out.len, 9);
    msgpack_object object = read_back(&u);
    cr_assert_eq(object.type, MSGPACK_OBJECT_FLOAT64);
    cr_assert_float_eq(object.via.f64, 1700000000.5, 0);
    msgpack_unpacked_destroy(&u);
}

/* Reading */

static struct unpack in;

static bool
next_of(const void *bytes, size_t len)
{
    unpack_init(&in, (struct slice){bytes, len});
    return unpack_next(&in);
}

static void
write_sample(void)
{
    struct pack_map map = pack_open(&out);

    pack_put_uint(&map, "n", 300);
    pack_put_flag(&map, "on", true);
    pack_put_text(&map, "text", SLICE("a word"));
    pack_put_bytes(&map, "bin", SLICE("\0\1"));
    pack_close(&map);
}

Test(base_pack, a_map_reads_as_it_was_written)
{
    write_sample();
    cr_assert(next_of(out.ptr, out.len));
    cr_assert_eq(unpack_uint(&in, "n", 300), 300);
    cr_assert(unpack_flag(&in, "on"));
    cr_assert(slice_equal(unpack_text(&in, "text", 6), SLICE("a word")));
    cr_assert(slice_equal(unpack_bytes(&in, "bin", 2), SLICE("\0\1")));
    cr_assert_not(unpack_next(&in));
    cr_assert_not(in.failed, "the end is no fault");
}

Test(base_pack, what_is_missing_is_zero_and_what_is_unknown_is_skipped)
{
    pack_map(&out, 3);
    pack_text(&out, SLICE("later"));
    pack_array(&out, 2);
    pack_map(&out, 1);
    pack_uint(&out, 7);
    pack_real(&out, 0.5);
    pack_nil(&out);
    pack_uint(&out, 9); /* a key need not be a text */
    pack_bool(&out, true);
    pack_text(&out, SLICE("n"));
    pack_uint(&out, 5);
    cr_assert(next_of(out.ptr, out.len));
    cr_assert_eq(unpack_uint(&in, "n", 5), 5);
    cr_assert_not(unpack_has(&in, "m"));
    cr_assert_eq(unpack_uint(&in, "m", 0), 0);
    cr_assert_not(unpack_flag(&in, "m"));
    cr_assert_eq(unpack_text(&in, "m", 0).len, 0);
    cr_assert_eq(unpack_bytes(&in, "m", 0).len, 0);
    cr_assert_not(in.failed);
}

Test(base_pack, another_type_or_too_much_fails_for_good)
{
    static const char *const keys[] = {"n", "on", "text", "bin"};

    write_sample();
    for (unsigned i = 0; i < 4; i++) {
        cr_assert(next_of(out.ptr, out.len));
        cr_assert_eq(unpack_uint(&in, keys[i], 299), 0);
        cr_assert(in.failed, "%s as a number up to 299", keys[i]);
        cr_assert(next_of(out.ptr, out.len));
        cr_assert_eq(unpack_text(&in, keys[i], 5).len, 0);
        cr_assert(in.failed, "%s as a text of 5", keys[i]);
        cr_assert(next_of(out.ptr, out.len));
        cr_assert_eq(unpack_bytes(&in, keys[i], 1).len, 0);
        cr_assert(in.failed, "%s as one byte", keys[i]);
    }
    cr_assert(next_of(out.ptr, out.len));
    cr_assert_not(unpack_flag(&in, "n"));
    cr_assert(in.failed);
    cr_assert_not(unpack_next(&in));
}

Test(base_pack, a_map_that_is_not_whole_is_refused)
{
    write_sample();
    for (size_t len = 1; len < out.len; len++) {
        cr_assert_not(next_of(out.ptr, len), "%zu", len);
        cr_assert(in.failed);
    }
    cr_assert_not(next_of(out.ptr, 0));
    cr_assert_not(in.failed);
}

Test(base_pack, only_a_map_is_a_map)
{
    cr_assert_not(next_of("\x93\1\2\3", 4));
    cr_assert_not(next_of("\x05", 1));
    cr_assert_not(next_of("\xc1", 1));
    cr_assert_not(next_of("\x81\xa1n\xc1", 4));
    cr_assert(next_of("\x80", 1));
}

/* An array of that many nils, in a map. */
static bool
takes_elements(uint32_t count)
{
    buf_clear(&out);
    pack_map(&out, 1);
    pack_uint(&out, 0);
    pack_array(&out, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_nil(&out);
    }
    return next_of(out.ptr, out.len);
}

Test(base_pack, elements_are_bounded_whatever_they_are)
{
    cr_assert(takes_elements(PACK_ELEMENTS_MAX - 2));
    cr_assert_not(takes_elements(PACK_ELEMENTS_MAX - 1));
    /* What would be a table of many gigabytes. */
    cr_assert_not(next_of("\x81\x00\xdd\xff\xff\xff\xff", 7));
    cr_assert_not(next_of("\xdf\xff\xff\xff\xff", 5));
    cr_assert_not(next_of("\x81\x00\xdb\xff\xff\xff\xffxx", 9));
    cr_assert_not(next_of("\x81\x00\xc9\xff\xff\xff\xff\1x", 9));
}

static bool
takes_depth(uint32_t depth)
{
    buf_clear(&out);
    pack_map(&out, 1);
    pack_nil(&out);
    for (uint32_t i = 1; i < depth; i++) {
        pack_array(&out, 1);
    }
    pack_uint(&out, 1);
    return next_of(out.ptr, out.len);
}

Test(base_pack, nesting_is_bounded)
{
    cr_assert(takes_depth(PACK_DEPTH_MAX));
    cr_assert_not(takes_depth(PACK_DEPTH_MAX + 1));
    cr_assert_not(takes_depth(20));
}

Test(base_pack, maps_follow_one_another)
{
    for (uint32_t i = 0; i < 5; i++) {
        struct pack_map map = pack_open(&out);
        pack_put_uint(&map, "i", i);
        pack_close(&map);
    }
    unpack_init(&in, buf_slice(&out));
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert(unpack_next(&in));
        cr_assert_eq(unpack_uint(&in, "i", 5), i);
    }
    cr_assert_not(unpack_next(&in));
    cr_assert_not(in.failed);
}

static bool
takes_word(const char *text, char word[8])
{
    buf_clear(&out);
    struct pack_map map = pack_open(&out);
    pack_put_text(&map, "w", slice_of(text));
    pack_close(&map);
    cr_assert(next_of(out.ptr, out.len));
    unpack_word(&in, "w", word, 8);
    return !in.failed;
}

Test(base_pack, a_word_is_printable_and_fits)
{
    char word[8];

    cr_assert(takes_word("seven77", word));
    cr_assert_str_eq(word, "seven77");
    cr_assert(takes_word("", word));
    cr_assert_str_eq(word, "");
    cr_assert_not(takes_word("eight888", word));
    cr_assert_not(takes_word("a b", word));
    cr_assert_not(takes_word("a\n", word));
    cr_assert_not(takes_word("\xc3\xa4", word));
    cr_assert_not(takes_word("\x7f", word));
}

Test(base_pack, memory_of_the_callers_is_not_outgrown)
{
    char bytes[5];
    struct buf small = buf_over(bytes, sizeof bytes);
    struct pack_map map = pack_open(&small);

    pack_put_uint(&map, "n", 1);
    cr_assert_not(small.failed);
    pack_put_uint(&map, "m", 1);
    cr_assert(small.failed);
    pack_close(&map);
    cr_assert(small.failed);
}
