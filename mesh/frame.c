#include "mesh/frame.h"

#include <string.h>

#include "index/base/mutant.h"
#include "index/index.h"

#define SUM_AT 32U /* in the head: all before it, then all after it */

static uint64_t
get(const uint8_t *bytes, unsigned count)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < count; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

static void
put(uint8_t *bytes, uint64_t value, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t
checksum(const uint8_t *bytes, size_t size)
{
    uint64_t head = key_digest((struct slice){(const char *)bytes, SUM_AT});

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

static uint8_t *
put_text(uint8_t *at, const char text[FRAME_TEXT_MAX])
{
    size_t len = strlen(text);

    CHECK(len > 0 && len < FRAME_TEXT_MAX);
    *at++ = (uint8_t)len;
    memcpy(at, text, len);
    return at + len;
}

size_t
frame_hello_write(const struct frame_hello *hello, uint8_t *bytes)
{
    uint8_t *at = bytes;

    CHECK(hello->channel < FRAME_CHANNELS && hello->nonce != 0);
    *at++ = hello->channel;
    *at++ = hello->major_min;
    *at++ = hello->major_max;
    at = put_text(at, hello->cluster);
    at = put_text(at, hello->name);
    at = put_text(at, hello->address);
    put(at, hello->nonce, 8);
    at += 8;
    for (unsigned channel = 0; channel < FRAME_CHANNELS; channel++, at += 8) {
        put(at, hello->echo[channel], 8);
    }
    CHECK((size_t)(at - bytes) <= FRAME_HELLO_MAX);
    return (size_t)(at - bytes);
}

/* Reads from the front of what is left; what is not there sets `bad`. */
struct reader {
    struct slice left;
    bool bad;
};

static const uint8_t *
take(struct reader *reader, size_t size)
{
    const uint8_t *at = (const uint8_t *)reader->left.ptr;

    if (reader->bad || reader->left.len < size) {
        reader->bad = true;
        return NULL;
    }
    reader->left.ptr += size;
    reader->left.len -= size;
    return at;
}

static uint64_t
take_number(struct reader *reader, unsigned count)
{
    const uint8_t *at = take(reader, count);

    return at != NULL ? get(at, count) : 0;
}

static void
take_text(struct reader *reader, char text[FRAME_TEXT_MAX])
{
    size_t len = take_number(reader, 1);
    const uint8_t *at = take(reader, len);

    if (at == NULL || len == 0 || len >= FRAME_TEXT_MAX) {
        reader->bad = true;
        return;
    }
    for (size_t i = 0; i < len; i++) {
        reader->bad = reader->bad || at[i] <= ' ' || at[i] > '~';
        text[i] = (char)at[i];
    }
    text[len] = '\0';
}

int
frame_hello_read(struct slice body, struct frame_hello *hello)
{
    struct reader reader = {.left = body};

    memset(hello, 0, sizeof *hello);
    hello->channel = (uint8_t)take_number(&reader, 1);
    hello->major_min = (uint8_t)take_number(&reader, 1);
    hello->major_max = (uint8_t)take_number(&reader, 1);
    take_text(&reader, hello->cluster);
    take_text(&reader, hello->name);
    take_text(&reader, hello->address);
    hello->nonce = take_number(&reader, 8);
    for (unsigned channel = 0; channel < FRAME_CHANNELS; channel++) {
        hello->echo[channel] = take_number(&reader, 8);
    }
    if (reader.bad || hello->channel >= FRAME_CHANNELS || hello->nonce == 0 ||
        hello->major_min > hello->major_max) {
        return FRAME_E_HELLO;
    }
    return 0;
}
