/* Whatever bytes come, the seam to msgpack-c reads them within its bounds, lends
 * only from them, and reads what it writes itself as the same. */
#include <stdlib.h>
#include <string.h>

#include "index/base/pack.h"

#define TEXT_MAX 64U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const keys[] = {"n", "on", "text", "bin", "a", "b", "c", ""};

struct fields {
    uint64_t number;
    bool flag;
    struct slice text;
    struct slice bytes;
};

static void
check_lent(struct slice part, struct slice whole)
{
    CHECK(part.len <= TEXT_MAX);
    CHECK(part.len == 0 || (part.ptr >= whole.ptr &&
                            part.ptr + part.len <= whole.ptr + whole.len));
}

static void
write_again(const char *key, const struct fields *fields)
{
    char bytes[512];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct pack_map map = pack_open(&out);
    struct unpack again;

    pack_put_uint(&map, key, fields->number);
    pack_put_flag(&map, "flag", fields->flag);
    pack_put_text(&map, "words", fields->text);
    pack_put_bytes(&map, "bytes", fields->bytes);
    pack_close(&map);
    CHECK(!out.failed);
    unpack_init(&again, buf_slice(&out));
    CHECK(unpack_next(&again));
    CHECK(unpack_uint(&again, key, UINT64_MAX) == fields->number);
    CHECK(unpack_flag(&again, "flag") == fields->flag);
    CHECK(slice_equal(unpack_text(&again, "words", TEXT_MAX), fields->text));
    CHECK(slice_equal(unpack_bytes(&again, "bytes", TEXT_MAX), fields->bytes));
    CHECK(!again.failed && !unpack_next(&again) && !again.failed);
}

/* Fields of the map that is open; each is asked for on its own, as one of
 * another type fails the reading. Those that are not there are all alike. */
static void
read_fields(const struct unpack *open, struct slice all)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct unpack in = *open;
        struct fields fields = {0};
        char word[TEXT_MAX];

        fields.number = unpack_uint(&in, keys[i], UINT64_MAX);
        fields.flag = unpack_flag(&in, keys[i]);
        fields.text = unpack_text(&in, keys[i], TEXT_MAX);
        fields.bytes = unpack_bytes(&in, keys[i], TEXT_MAX);
        check_lent(fields.text, all);
        check_lent(fields.bytes, all);
        unpack_word(&in, keys[i], word, sizeof word);
        CHECK(strlen(word) < sizeof word);
        bool has = unpack_has(&in, keys[i]);
        CHECK(has || !in.failed);
        if (has || i == 0) {
            write_again(keys[i], &fields);
        }
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* On its own, so that a byte too many is seen. */
    char *bytes = malloc(size + 1);
    struct unpack in;

    if (bytes == NULL) {
        return 0;
    }
    memcpy(bytes, data, size);
    struct slice all = {.ptr = bytes, .len = size};
    unpack_init(&in, all);
    size_t left = size;
    while (unpack_next(&in)) {
        CHECK(in.left.len < left);
        left = in.left.len;
        read_fields(&in, all);
    }
    CHECK(in.failed == (in.left.len > 0));
    free(bytes);
    return 0;
}
