/* Frames between nodes: head, checksum and hello. */
#include "mesh/frame.h"

#include <string.h>

#include "index/base/mutant.h"
#include "index/base/pack.h"
#include "index/index.h"

#define SUM_AT 32U /* in the head; the sum covers all before and after it */

static uint64_t
get(const uint8_t *bytes, unsigned count)
{
    uint64_t value = 0;

    CHECK(count <= 8);
    for (unsigned i = 0; i < count; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

static void
put(uint8_t *bytes, uint64_t value, unsigned count)
{
    CHECK(count <= 8);
    for (unsigned i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t
checksum(const uint8_t *bytes, size_t size)
{
    uint64_t head = key_digest((struct slice){(const char *)bytes, SUM_AT});

    CHECK(size >= FRAME_HEAD_SIZE);
    return key_next(head, bytes + SUM_AT + 8, size - SUM_AT - 8);
}

void
frame_seal(const struct frame *frame, uint8_t *bytes, size_t size)
{
    CHECK(size >= FRAME_HEAD_SIZE && size - FRAME_HEAD_SIZE <= FRAME_BODY_MAX);
    put(bytes, FRAME_MAGIC, 4);
    bytes[4] = frame->major;
    bytes[5] = frame->minor;
    bytes[6] = frame->type;
    bytes[7] = FRAME_HEAD_SIZE;
    put(bytes + 8, frame->session, 8);
    put(bytes + 16, frame->sequence, 8);
    put(bytes + 24, size - FRAME_HEAD_SIZE, 4);
    put(bytes + 28, 0, 4);
    put(bytes + SUM_AT, checksum(bytes, size), 8);
}

int
frame_read(const uint8_t *bytes, size_t size, struct frame *frame)
{
    CHECK(frame != NULL && (bytes != NULL || size == 0));
    if (size < 8 || get(bytes, 4) != FRAME_MAGIC) {
        return FRAME_E_MAGIC;
    }
    *frame =
        (struct frame){.major = bytes[4], .minor = bytes[5], .type = bytes[6]};
    if ((frame->major < FRAME_MAJOR_MIN || frame->major > FRAME_MAJOR_MAX) &&
        !MUTANT(ANY_MAJOR)) {
        return FRAME_E_VERSION;
    }
    size_t head_size = bytes[7];
    if (head_size < FRAME_HEAD_SIZE || size < head_size) {
        return FRAME_E_SIZE;
    }
    uint64_t body_size = get(bytes + 24, 4);
    if (body_size > FRAME_BODY_MAX || body_size != size - head_size) {
        return FRAME_E_SIZE;
    }
    if (get(bytes + SUM_AT, 8) != checksum(bytes, size)) {
        return FRAME_E_SUM;
    }
    frame->session = get(bytes + 8, 8);
    frame->sequence = get(bytes + 16, 8);
    frame->body = (struct slice){(const char *)bytes + head_size, body_size};
    return 0;
}

static const char *const echo_keys[FRAME_CHANNELS] = {"echo_ctl", "echo_bulk"};

size_t
frame_hello_write(const struct frame_hello *hello, uint8_t *bytes)
{
    struct buf out = buf_over(bytes, FRAME_HELLO_MAX);
    struct pack_map map = pack_open(&out);

    CHECK(hello->channel < FRAME_CHANNELS && hello->nonce != 0);
    pack_put_uint(&map, "channel", hello->channel);
    pack_put_uint(&map, "min", hello->major_min);
    pack_put_uint(&map, "max", hello->major_max);
    pack_put_text(&map, "cluster", slice_of(hello->cluster));
    pack_put_text(&map, "name", slice_of(hello->name));
    pack_put_text(&map, "address", slice_of(hello->address));
    pack_put_uint(&map, "nonce", hello->nonce);
    for (unsigned i = 0; i < FRAME_CHANNELS; i++) {
        pack_put_uint(&map, echo_keys[i], hello->echo[i]);
    }
    pack_close(&map);
    CHECK(!out.failed);
    return out.len;
}

int
frame_hello_read(struct slice body, struct frame_hello *hello)
{
    struct unpack in;

    CHECK(hello != NULL);
    memset(hello, 0, sizeof *hello);
    unpack_init(&in, body);
    if (!unpack_next(&in)) {
        return FRAME_E_HELLO;
    }
    hello->channel = (uint8_t)unpack_uint(&in, "channel", FRAME_CHANNELS - 1);
    hello->major_min = (uint8_t)unpack_uint(&in, "min", UINT8_MAX);
    hello->major_max = (uint8_t)unpack_uint(&in, "max", UINT8_MAX);
    unpack_word(&in, "cluster", hello->cluster, sizeof hello->cluster);
    unpack_word(&in, "name", hello->name, sizeof hello->name);
    unpack_word(&in, "address", hello->address, sizeof hello->address);
    hello->nonce = unpack_uint(&in, "nonce", UINT64_MAX);
    for (unsigned i = 0; i < FRAME_CHANNELS; i++) {
        hello->echo[i] = unpack_uint(&in, echo_keys[i], UINT64_MAX);
    }
    if (in.failed || hello->cluster[0] == '\0' || hello->name[0] == '\0' ||
        hello->address[0] == '\0' || hello->nonce == 0 ||
        hello->major_min > hello->major_max) {
        return FRAME_E_HELLO;
    }
    return 0;
}
