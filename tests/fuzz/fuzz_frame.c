/*
 * Frames and hellos: whatever comes is read within its bounds, and what was
 * read is written and read again the same. Bytes are tried as they are, then
 * as the body of a frame that is whole, so that the checksum stops nothing.
 */
#include <string.h>

#include "mesh/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
try_hello(struct slice body)
{
    uint8_t bytes[FRAME_HELLO_MAX];
    struct frame_hello hello;
    struct frame_hello again;

    if (frame_hello_read(body, &hello) != 0) {
        return;
    }
    size_t size = frame_hello_write(&hello, bytes);
    CHECK(size <= FRAME_HELLO_MAX);
    CHECK(frame_hello_read((struct slice){(char *)bytes, size}, &again) == 0);
    CHECK(memcmp(&hello, &again, sizeof hello) == 0);
}

static void
try_frame(const uint8_t *data, size_t size)
{
    static uint8_t bytes[FRAME_HEAD_SIZE + FRAME_BODY_MAX];
    struct frame frame;

    if (frame_read(data, size, &frame) != 0) {
        return;
    }
    CHECK(frame.body.len <= FRAME_BODY_MAX);
    CHECK(frame.body.len + FRAME_HEAD_SIZE <= size);
    if (frame.body.len > 0) {
        memcpy(bytes + FRAME_HEAD_SIZE, frame.body.ptr, frame.body.len);
    }
    frame_seal(&frame, bytes, FRAME_HEAD_SIZE + frame.body.len);
    try_hello(frame.body);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[FRAME_HEAD_SIZE + FRAME_BODY_MAX];
    struct frame frame = {.major = FRAME_MAJOR_MAX, .type = FRAME_HELLO};

    try_frame(data, size);
    try_hello((struct slice){(const char *)data, size});
    if (size > FRAME_BODY_MAX) {
        return 0;
    }
    if (size > 0) {
        memcpy(bytes + FRAME_HEAD_SIZE, data, size);
    }
    frame_seal(&frame, bytes, FRAME_HEAD_SIZE + size);
    /* A head of the fuzzer's, under a body that is whole. */
    if (size > 1) {
        bytes[4 + data[0] % 28] ^= data[1];
    }
    try_frame(bytes, FRAME_HEAD_SIZE + size);
    return 0;
}
