/* Bytes of a peer behind HTTP/2's first ones, in pieces: every call that begins is
 * gone once, what waits is bounded, and no byte is told twice. */
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/extproc/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

struct owner {
    unsigned begun;
    unsigned gone;
};

struct context {
    struct owner *owner;
    struct h2_call *call;
    size_t owed;
    bool ended;
};

static enum grpc_status
on_begun(void *to, struct h2_call *call, struct slice path, void **context)
{
    struct owner *owner = to;
    struct context *c = calloc(1, sizeof *c);

    if (c == NULL || (path.len != 0 && path.ptr[path.len - 1] == '!')) {
        free(c);
        return GRPC_UNAVAILABLE;
    }
    c->owner = owner;
    c->call = call;
    owner->begun++;
    *context = c;
    return GRPC_OK;
}

static void
on_came(void *to, struct slice bytes)
{
    struct context *c = to;

    CHECK(!c->ended);
    c->owed += bytes.len;
    CHECK(c->owed <= H2_WINDOW_BYTES);
    if (bytes.len % 2 == 0) {
        h2_taken(c->call, c->owed);
        c->owed = 0;
    }
    buf_add_slice(h2_begin(c->call), bytes);
    h2_end(c->call);
}

static void
on_ended(void *to)
{
    struct context *c = to;

    CHECK(!c->ended);
    c->ended = true;
    h2_finish(c->call, GRPC_OK);
}

static void
on_gone(void *to)
{
    struct context *c = to;

    c->owner->gone++;
    free(c);
}

static const struct h2_events events = {on_begun, on_came, on_ended, on_gone};

/* False: the connection is over. */
static bool
send_out(struct h2 *h2)
{
    struct slice out;
    size_t sent = 0;

    do {
        if (h2_next_out(h2, &out) != 0) {
            return false;
        }
        sent += out.len;
        CHECK(sent < (size_t)64 << 20);
    } while (out.len != 0);
    return !h2_is_over(h2);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = {(const char *)data, size};
    struct owner owner = {0};
    struct rng rng;
    struct h2 *h2;

    rng_init(&rng, size);
    CHECK(h2_new(&h2, &events, &owner) == 0);
    bool lives = h2_give(h2, SLICE(PREFACE)) == 0;
    while (lives && in.len != 0) {
        size_t n = 1 + (size_t)rng_below(&rng, in.len < 64 ? in.len : 64);
        n = n < in.len ? n : in.len;
        if (rng_below(&rng, 100) == 0) {
            h2_leave(h2, rng_below(&rng, 2) == 0);
        }
        lives = h2_give(h2, (struct slice){in.ptr, n}) == 0 && send_out(h2);
        in.ptr += n;
        in.len -= n;
    }
    CHECK(owner.begun - owner.gone <= h2_calls(h2));
    h2_free(h2);
    CHECK(owner.begun == owner.gone);
    return 0;
}
