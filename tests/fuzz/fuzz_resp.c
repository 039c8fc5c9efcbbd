/* Any bytes are a reply, the beginning of one, or none; a reply lies within them,
 * and every part of it is a beginning. */
#include <stdlib.h>
#include <string.h>

#include "index/base/check.h"
#include "node/redis/resp.h"

#define BYTES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_inside(struct slice in, const struct resp_item *item)
{
    if (item->kind == RESP_BYTES || item->kind == RESP_TEXT ||
        item->kind == RESP_ERROR) {
        CHECK(item->bytes.ptr >= in.ptr);
        CHECK(item->bytes.ptr + item->bytes.len <= in.ptr + in.len);
        CHECK(item->kind != RESP_BYTES || item->bytes.len <= BYTES_MAX);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1); /* so that a byte too many is found */
    struct slice in = {copy + 1, size};
    struct resp resp;
    struct resp part;

    CHECK(copy != NULL);
    if (size != 0) {
        memcpy(copy + 1, data, size);
    }
    if (resp_read(in, BYTES_MAX, &resp) == 0) {
        CHECK(resp.size <= size && resp.count <= RESP_ITEMS_MAX);
        check_inside(in, &resp.item);
        for (uint32_t i = 0; i < resp.count; i++) {
            check_inside(in, &resp.items[i]);
        }
        for (size_t len = 0; len < resp.size; len++) {
            CHECK(resp_read((struct slice){in.ptr, len}, BYTES_MAX, &part) ==
                  RESP_E_MORE);
        }
    }
    free(copy);
    return 0;
}
