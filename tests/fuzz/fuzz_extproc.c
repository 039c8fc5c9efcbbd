/* What gateways say, frame by frame: every slice lies in its message, walking
 * headers and metadata ends, and what is answered can be framed again. */
#include <stdlib.h>
#include <string.h>

#include "node/extproc/extproc.h"
#include "node/extproc/grpc.h"
#include "node/extproc/grpc_health.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGE_MAX 65536

static void
check_within(struct slice inner, struct slice outer)
{
    CHECK(inner.len == 0 || (inner.ptr >= outer.ptr &&
                             inner.ptr + inner.len <= outer.ptr + outer.len));
}

static void
walk(const struct extproc_message *m, struct slice message)
{
    static const char *const keys[][2] = {
        {EXTPROC_SPACE, EXTPROC_SERVED},
        {EXTPROC_SPACE_SUBSET, EXTPROC_SUBSET}};
    struct slice rest = m->headers;
    struct extproc_header header;
    struct extproc_texts texts;
    struct slice text;

    while (extproc_header(&rest, &header)) {
        check_within(header.name, message);
        check_within(header.value, message);
    }
    CHECK(rest.len == 0); /* extproc_read() has seen all of them */
    check_within(m->body, message);
    for (size_t i = 0; i < 2; i++) {
        if (extproc_texts_find(m->metadata, keys[i][0], keys[i][1], &texts)) {
            size_t left = texts.rest.len + 1;
            while (extproc_texts_next(&texts, &text)) {
                check_within(text, message);
                CHECK(texts.rest.len < left);
                left = texts.rest.len;
            }
        }
    }
    (void)extproc_header_find(m->headers, ":path");
}

static void
answer(const struct extproc_message *m)
{
    const struct extproc_header set = {SLICE("name"), m->body};
    const struct extproc_change change = {
        .set = &set, .set_count = 1, .endpoints = SLICE("1.2.3.4:5")};
    struct slice message;
    struct buf out;
    size_t count = 0;

    buf_init(&out, (size_t)1 << 20);
    extproc_put_piece(&out, EXTPROC_REQUEST_BODY, m->body, m->ends);
    extproc_put_body(&out, EXTPROC_REQUEST_BODY, &change, &m->body);
    extproc_put_immediate(&out, 400, &set, 1, m->body);
    CHECK(!out.failed);
    for (struct slice in = buf_slice(&out); in.len != 0; count++) {
        CHECK(grpc_take(in, in.len, &message) == 0);
        in.ptr += GRPC_HEAD + message.len;
        in.len -= GRPC_HEAD + message.len;
    }
    CHECK(count == 3);
    buf_fini(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = {(const char *)data, size};
    struct extproc_message m;
    struct slice message;

    while (grpc_take(in, MESSAGE_MAX, &message) == 0) {
        check_within(grpc_health_service(message), message);
        if (extproc_read(message, &m) == 0) {
            walk(&m, message);
            answer(&m);
        }
        in.ptr += GRPC_HEAD + message.len;
        in.len -= GRPC_HEAD + message.len;
    }
    return 0;
}
