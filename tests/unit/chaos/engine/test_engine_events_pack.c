/* Against msgpack-c, which reads what is written here. */
#include <criterion/criterion.h>
#include <msgpack.h>

#include "chaos/engine/engine_events_pack.h"

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

TestSuite(chaos_engine_events_pack, .init = setup, .fini = teardown);

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

Test(chaos_engine_events_pack, numbers_take_their_shortest_form)
{
    msgpack_unpacked u;

    for (int bit = 0; bit < 64; bit++) {
        for (int off = -1; off <= 1; off++) {
            uint64_t number = (UINT64_C(1) << bit) + (uint64_t)off;
            buf_clear(&out);
            engine_pack_uint(&out, number);
            cr_assert_eq(read_back(&u).via.u64, number);
            msgpack_unpacked_destroy(&u);
            int64_t negative = (int64_t)(UINT64_C(0) - number);
            buf_clear(&out);
            engine_pack_int(&out, negative);
            cr_assert_eq(read_back(&u).via.i64, negative);
            msgpack_unpacked_destroy(&u);
        }
    }
}

Test(chaos_engine_events_pack, texts_bytes_and_lists_are_as_long_as_they_say)
{
    static const uint32_t lens[] = {0,   1,   15,   16,    31,    32,
                                    255, 256, 1000, 65535, 65536, 70000};
    static char bytes[70000];
    msgpack_unpacked u;

    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        struct slice s = {bytes, lens[i]};
        buf_clear(&out);
        engine_pack_text(&out, s);
        cr_assert_eq(read_back(&u).via.str.size, lens[i]);
        msgpack_unpacked_destroy(&u);
        buf_clear(&out);
        engine_pack_bytes(&out, s);
        cr_assert_eq(read_back(&u).via.bin.size, lens[i]);
        msgpack_unpacked_destroy(&u);
        buf_clear(&out);
        engine_pack_array(&out, lens[i]);
        for (uint32_t e = 0; e < lens[i]; e++) {
            engine_pack_nil(&out);
        }
        cr_assert_eq(read_back(&u).via.array.size, lens[i]);
        msgpack_unpacked_destroy(&u);
        buf_clear(&out);
        engine_pack_map(&out, lens[i]);
        for (uint32_t e = 0; e < 2 * lens[i]; e++) {
            engine_pack_uint(&out, e & 1);
        }
        cr_assert_eq(read_back(&u).via.map.size, lens[i]);
        msgpack_unpacked_destroy(&u);
    }
}

Test(chaos_engine_events_pack, a_real_is_64_bits)
{
    msgpack_unpacked u;

    engine_pack_real(&out, 1700000000.5);
    cr_assert_eq(out.len, 9);
    msgpack_object object = read_back(&u);
    cr_assert_eq(object.type, MSGPACK_OBJECT_FLOAT64);
    cr_assert_float_eq(object.via.f64, 1700000000.5, 0);
    msgpack_unpacked_destroy(&u);
}
