#include "mesh/frame.h"

#include <criterion/criterion.h>
#include <string.h>

#include "index/base/pack.h"
#include "index/index.h"

static const struct frame sample = {.major = FRAME_MAJOR_MAX,
                                    .minor = FRAME_MINOR,
                                    .type = FRAME_DATA,
                                    .session = 0x1122334455667788U,
                                    .sequence = 77};

static size_t
seal(uint8_t *bytes, const char *body)
{
    size_t size = FRAME_HEAD_SIZE + strlen(body);

    memcpy(bytes + FRAME_HEAD_SIZE, body, strlen(body));
    frame_seal(&sample, bytes, size);
    return size;
}

Test(mesh_frame, reads_what_was_written)
{
    uint8_t bytes[100];
    struct frame frame;
    size_t size = seal(bytes, "some words");

    cr_assert_eq(frame_read(bytes, size, &frame), 0);
    cr_assert(frame.major == sample.major && frame.minor == sample.minor);
    cr_assert(frame.type == FRAME_DATA && frame.session == sample.session);
    cr_assert_eq(frame.sequence, 77);
    cr_assert(slice_equal(frame.body, SLICE("some words")));
}

Test(mesh_frame, starts_with_its_magic_whatever_the_machine)
{
    uint8_t bytes[100];

    (void)seal(bytes, "x");
    cr_assert_eq(memcmp(bytes, "KVSR\2\0\3\50\x88\x77\x66\x55", 12), 0);
}

Test(mesh_frame, an_empty_body_is_a_body)
{
    uint8_t bytes[100];
    struct frame frame;

    cr_assert_eq(frame_read(bytes, seal(bytes, ""), &frame), 0);
    cr_assert_eq(frame.body.len, 0);
}

Test(mesh_frame, other_magic_is_told_from_damage)
{
    uint8_t bytes[100];
    struct frame frame;
    size_t size = seal(bytes, "words");

    bytes[0] ^= 1;
    cr_assert_eq(frame_read(bytes, size, &frame), FRAME_E_MAGIC);
    cr_assert_eq(frame_read((const uint8_t *)"GET / HTTP/1.1\r\n", 16, &frame),
                 FRAME_E_MAGIC);
    cr_assert_eq(frame_read(bytes, 0, &frame), FRAME_E_MAGIC);
}

Test(mesh_frame, a_later_major_is_named_though_all_else_may_differ)
{
    uint8_t bytes[8] = {'K', 'V', 'S', 'R', FRAME_MAJOR_MAX + 1, 9, 0, 0};
    struct frame frame;

    cr_assert_eq(frame_read(bytes, sizeof bytes, &frame), FRAME_E_VERSION);
    cr_assert_eq(frame.major, FRAME_MAJOR_MAX + 1);
    cr_assert_eq(frame.minor, 9);
}

Test(mesh_frame, cut_off_anywhere_is_refused)
{
    uint8_t bytes[100];
    struct frame frame;
    size_t size = seal(bytes, "words");

    for (size_t cut = 0; cut < size; cut++) {
        int rc = frame_read(bytes, cut, &frame);
        cr_assert(rc == FRAME_E_MAGIC || rc == FRAME_E_SIZE);
    }
    bytes[size] = 0;
    cr_assert_eq(frame_read(bytes, size + 1, &frame), FRAME_E_SIZE);
}

Test(mesh_frame, any_flipped_bit_is_noticed)
{
    uint8_t bytes[100];
    struct frame frame;
    size_t size = seal(bytes, "words");

    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        cr_assert_neq(frame_read(bytes, size, &frame), 0, "bit %zu", bit);
        bytes[bit / 8] ^= (uint8_t)(1U << (bit % 8));
    }
    cr_assert_eq(frame_read(bytes, size, &frame), 0);
}

Test(mesh_frame, a_body_over_the_limit_is_refused_before_it_is_read)
{
    uint8_t bytes[100];
    struct frame frame;
    size_t size = seal(bytes, "words");
    uint32_t claimed = FRAME_BODY_MAX + 1;

    memcpy(bytes + 24, &claimed, sizeof claimed);
    cr_assert_eq(frame_read(bytes, size, &frame), FRAME_E_SIZE);
}

/* A head with four more bytes, as a later minor version may have. */
Test(mesh_frame, fields_added_to_the_head_are_skipped)
{
    uint8_t bytes[FRAME_HEAD_SIZE + 4 + 2] = {0};
    uint8_t longer[sizeof bytes];
    struct frame frame;

    memcpy(bytes + FRAME_HEAD_SIZE, "\xde\xad\xbe\xefhi", 6);
    frame_seal(&sample, bytes, sizeof bytes);
    memcpy(longer, bytes, sizeof bytes);
    longer[5] = 200;
    longer[7] = FRAME_HEAD_SIZE + 4;
    longer[24] = 2;
    /* The sum is over what is not known here, too. */
    uint64_t sum = key_digest((struct slice){(char *)longer, 32});
    sum = key_next(sum, longer + 40, sizeof longer - 40);
    for (unsigned i = 0; i < 8; i++) {
        longer[32 + i] = (uint8_t)(sum >> (8 * i));
    }
    cr_assert_eq(frame_read(longer, sizeof longer, &frame), 0);
    cr_assert(slice_equal(frame.body, SLICE("hi")));
    cr_assert_eq(frame.minor, 200);
}

static const struct frame_hello hello_sample = {.channel = 1,
                                                .major_min = 1,
                                                .major_max = 3,
                                                .cluster = "blue",
                                                .name = "node-1",
                                                .address = "[::1]:7946",
                                                .nonce = 5,
                                                .echo = {6, 7}};

Test(mesh_frame, hello_reads_what_was_written)
{
    uint8_t bytes[FRAME_HELLO_MAX];
    struct frame_hello hello;
    size_t size = frame_hello_write(&hello_sample, bytes);

    cr_assert_eq(frame_hello_read((struct slice){(char *)bytes, size}, &hello),
                 0);
    cr_assert(hello.channel == 1 && hello.major_min == 1 &&
              hello.major_max == 3);
    cr_assert_str_eq(hello.cluster, "blue");
    cr_assert_str_eq(hello.name, "node-1");
    cr_assert_str_eq(hello.address, "[::1]:7946");
    cr_assert(hello.nonce == 5 && hello.echo[0] == 6 && hello.echo[1] == 7);
}

Test(mesh_frame, the_longest_hello_fits)
{
    uint8_t bytes[FRAME_HELLO_MAX];
    struct frame_hello hello = hello_sample;

    memset(hello.cluster, 'c', FRAME_TEXT_MAX - 1);
    memset(hello.name, 'n', FRAME_TEXT_MAX - 1);
    memset(hello.address, 'a', FRAME_TEXT_MAX - 1);
    size_t size = frame_hello_write(&hello, bytes);
    cr_assert_leq(size, FRAME_HELLO_MAX);
    cr_assert_eq(frame_hello_read((struct slice){(char *)bytes, size}, &hello),
                 0);
    cr_assert_eq(strlen(hello.address), FRAME_TEXT_MAX - 1);
}

static int
read_hello(const struct buf *body)
{
    struct frame_hello hello;

    return frame_hello_read(buf_slice(body), &hello);
}

Test(mesh_frame, keys_added_to_a_hello_are_skipped_and_missing_ones_are_not)
{
    uint8_t bytes[FRAME_HELLO_MAX + 16] = {0};
    struct buf body = buf_over(bytes, sizeof bytes);

    body.len = frame_hello_write(&hello_sample, bytes);
    for (size_t cut = body.len; cut-- > 0;) {
        struct buf shorter = {.ptr = body.ptr, .len = cut};
        cr_assert_eq(read_hello(&shorter), FRAME_E_HELLO);
    }
    pack_text(&body, SLICE("later"));
    pack_array(&body, 0);
    bytes[0]++; /* the map's pairs */
    cr_assert_eq(read_hello(&body), 0);
}

/* The sample with one key written as it cannot be. */
static int
read_with(const char *key, uint64_t number, const char *text)
{
    char bytes[200];
    struct buf body = buf_over(bytes, sizeof bytes);
    static const char *const numbers[] = {"channel", "min", "max", "nonce"};
    static const char *const texts[] = {"cluster", "name", "address"};

    pack_map(&body, 7);
    for (unsigned i = 0; i < 4; i++) {
        pack_text(&body, slice_of(numbers[i]));
        pack_uint(&body, strcmp(key, numbers[i]) == 0 ? number : 1);
    }
    for (unsigned i = 0; i < 3; i++) {
        pack_text(&body, slice_of(texts[i]));
        pack_text(&body, slice_of(strcmp(key, texts[i]) == 0 ? text : "blue"));
    }
    return read_hello(&body);
}

Test(mesh_frame, a_hello_that_cannot_be_is_refused)
{
    cr_assert_eq(read_with("", 0, ""), 0);
    cr_assert_eq(read_with("channel", FRAME_CHANNELS, ""), FRAME_E_HELLO);
    cr_assert_eq(read_with("min", 2, ""), FRAME_E_HELLO, "over the highest");
    cr_assert_eq(read_with("max", 256, ""), FRAME_E_HELLO);
    cr_assert_eq(read_with("nonce", 0, ""), FRAME_E_HELLO);
    cr_assert_eq(read_with("name", 0, ""), FRAME_E_HELLO);
    cr_assert_eq(read_with("cluster", 0, "b\nlue"), FRAME_E_HELLO,
                 "a text goes to logs");
}

/* Byte for byte what major version 1 wrote. */
Test(mesh_frame, a_frame_of_the_version_before_is_refused_by_name)
{
    static const uint8_t hello[] = {0, 1, 1, 1, 'b', 1, 'n', 1, 'a', 5};
    uint8_t bytes[FRAME_HEAD_SIZE + sizeof hello];
    struct frame old = sample;
    struct frame frame;

    old.major = 1;
    old.type = FRAME_HELLO;
    memcpy(bytes + FRAME_HEAD_SIZE, hello, sizeof hello);
    frame_seal(&old, bytes, sizeof bytes);
    cr_assert_eq(frame_read(bytes, sizeof bytes, &frame), FRAME_E_VERSION);
    cr_assert_eq(frame.major, 1);
}
