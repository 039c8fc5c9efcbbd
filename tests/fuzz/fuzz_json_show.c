/* Any bytes as an admin answer: no crash, and nothing a terminal obeys. */
#include "node/text/json_show.h"

#include <stdint.h>

#include "node/cli/status_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const struct buf *out)
{
    for (size_t i = 0; i < out->len; i++) {
        unsigned char c = (unsigned char)out->ptr[i];
        CHECK(c == '\n' || (c >= 0x20 && c != 0x7F));
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice json = {(const char *)data, size};
    struct buf out;

    buf_init(&out, 64 * size + 65536);
    if (json_show(json, &out) != 0) {
        CHECK(out.len == 0);
    }
    check(&out);
    buf_clear(&out);
    if (status_show(json, &out) != 0) {
        CHECK(out.len == 0);
    }
    check(&out);
    buf_fini(&out);
    return 0;
}
