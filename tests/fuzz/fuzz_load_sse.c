/* A stream reads the same whole and in pieces; what was kept of it is fit to
 * stand inside the quotes of the next request. */
#include <string.h>

#include "chaos/load/load_sse.h"
#include "index/base/rng.h"
#include "node/node.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_BYTES_MAX 200

static void
check_text(struct slice text)
{
    struct json_pull pull;
    struct buf quoted;

    buf_init(&quoted, TEXT_BYTES_MAX + 2);
    buf_add_text(&quoted, "\"");
    buf_add_slice(&quoted, text);
    buf_add_text(&quoted, "\"");
    json_pull_init(&pull, buf_slice(&quoted));
    CHECK(json_pull_next(&pull) == PULL_STRING);
    CHECK(json_pull_next(&pull) == PULL_END);
    buf_fini(&quoted);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {.ptr = (const char *)data, .len = size};
    struct load_sse whole;
    struct load_sse parts;
    struct rng rng;

    rng_init(&rng, size);
    load_sse_init(&whole, TEXT_BYTES_MAX);
    load_sse_init(&parts, TEXT_BYTES_MAX);
    int r = load_sse_feed(&whole, bytes);
    int last = 0;
    while (bytes.len > 0) {
        size_t len = 1 + rng_below(&rng, bytes.len < 40 ? bytes.len : 40);
        last = load_sse_feed(&parts, (struct slice){bytes.ptr, len});
        bytes.ptr += len;
        bytes.len -= len;
    }
    CHECK(last == r && (r != 0) == (whole.fault != NULL));
    CHECK(whole.fault == parts.fault && whole.done == parts.done);
    CHECK(whole.deltas == parts.deltas);
    CHECK(memcmp(&whole.usage, &parts.usage, sizeof(whole.usage)) == 0);
    CHECK(slice_equal(buf_slice(&whole.text), buf_slice(&parts.text)));
    check_text(buf_slice(&whole.text));
    load_sse_fini(&whole);
    load_sse_fini(&parts);
    return 0;
}
